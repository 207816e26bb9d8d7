"""The six commands of the memory tool as types, and the tool's definition in every shape.

What a model gave becomes one of these or an error that names the field; a field that is null was
not given. Neighbours: `files` carries commands out, `dialects` give definitions a provider's shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from refold import decoding, dialects
from refold.errors import Invalid
from refold.memory.files.path import shown

NAME = "memory"
NATIVE = {"type": "memory_20250818", "name": NAME}
ABOUT = (
    "Read and write text files under /memories. They outlive this conversation: look there before "
    "you begin, and keep what a later conversation needs. Commands: view (path, view_range), "
    "create (path, file_text), str_replace (path, old_str, new_str), insert (path, insert_line, "
    "insert_text), delete (path), rename (old_path, new_path)."
)
Path = Annotated[str, Meta(description="A file or directory, such as /memories/notes.md.")]


class _Command(Struct, frozen=True, forbid_unknown_fields=True, tag_field="command"):
    pass


class View(_Command, frozen=True, tag="view"):
    path: Path
    view_range: Annotated[
        tuple[int, int] | None,
        Meta(description="Of a file, the first and the last line to show; -1 is the end."),
    ] = None


class Create(_Command, frozen=True, tag="create"):
    path: Path
    file_text: Annotated[str, Meta(description="The content of the new file.")]


class StrReplace(_Command, frozen=True, tag="str_replace"):
    path: Path
    old_str: Annotated[str, Meta(description="Text that occurs exactly once in the file.")]
    new_str: Annotated[str, Meta(description="What to put in its place; empty to remove it.")]


class Insert(_Command, frozen=True, tag="insert"):
    path: Path
    insert_line: Annotated[int, Meta(description="The line to insert after; 0 is the top.")]
    insert_text: Annotated[str, Meta(description="The lines to insert.")]


class Delete(_Command, frozen=True, tag="delete"):
    path: Path


class Rename(_Command, frozen=True, tag="rename"):
    old_path: Path
    new_path: Path


Command = View | Create | StrReplace | Insert | Delete | Rename
COMMANDS: tuple[type[Command], ...] = (View, Create, StrReplace, Insert, Delete, Rename)


def command_of(given: str | Mapping[str, Any]) -> Command:
    """The command that the arguments of a call are. Invalid, with the field, if they are none."""
    try:
        read = msgspec.json.decode(given) if isinstance(given, str) else given
        if isinstance(read, Mapping):
            read = {key: value for key, value in read.items() if value is not None}
        command: Command = decoding.convert(read, Command)
        return command
    except (msgspec.MsgspecError, RecursionError, UnicodeError, TypeError, ValueError) as error:
        names = ", ".join(str(one.__struct_config__.tag) for one in COMMANDS)
        said = shown(str(error).replace("$.", ""))
        raise Invalid(f"Error: The arguments are wrong: {said}. Commands: {names}") from error


def schema() -> dict[str, Any]:
    """The arguments as a JSON schema: one object, because not every provider takes a choice."""
    properties: dict[str, Any] = {}
    for one in COMMANDS:
        _, parts = msgspec.json.schema_components([one], ref_template="{name}")
        [described] = parts.values()
        properties |= described["properties"]
    properties["command"] = {"enum": [one.__struct_config__.tag for one in COMMANDS]}
    properties["command"]["type"] = "string"
    properties["view_range"] = {
        "type": "array",
        "items": {"type": "integer"},
        "description": properties["view_range"]["description"],
    }
    return {
        "type": "object",
        "properties": properties,
        "required": ["command"],
        "additionalProperties": False,
    }


def plain_definition() -> dict[str, Any]:
    """Name, description and JSON schema of the tool."""
    return {"name": NAME, "description": ABOUT, "input_schema": schema()}


def definition(dialect: str) -> dict[str, Any]:
    """The tool in the shape that a provider takes; Claude knows it by its type."""
    if dialect == "anthropic":
        return dict(NATIVE)
    [made] = dialects.dialect(dialect).definitions([plain_definition()], lost=[])
    return made
