"""The form of a message: restores it exactly, and carries its unknown keys through every edit.

A wire message is parsed into blocks. If the dialect's usual rendering of these blocks equals the
message, no form is stored. Otherwise the form is the message with the content of its blocks carved
out, so no text is stored twice and an edited block still has its place among unknown keys. A hole
is an object with the single key "$":

    {"$": 2}            block 2, as the dialect usually writes it
    {"$": [2, {…}]}     block 2, in a form of its own, with holes for its fields: {"$": "text"}
    {"$": {"$": …}}     not a hole: the sender's own object that looks like one

Neighbours: `wire` compares and copies; the dialects give the positions of their blocks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from refold.core.model import (
    Block,
    Media,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.dialects.input import refused
from refold.dialects.wire import MISSING, Path, Same, at, copied, data_url, is_gone, text_within

HOLE = "$"
_NESTED = (dict, list)
T = TypeVar("T")

# Blocks, each with its path in the message.
Placed = list[tuple[Path, Block]]
Holes = dict[Path, Any]
Show = Callable[[Any], Any]
Rename = Callable[[str], str]


class Usual(Struct, frozen=True):
    """A dialect's name, and its usual rendering of a message and of a block."""

    name: str
    message: Callable[[Message], Any]
    part: Show


def message_of(
    role: Role, wire: dict[str, Any], placed: Placed, usual: Usual, same: Same
) -> Message:
    """The parsed message, with a form only if the usual rendering differs from the original."""
    message = formless(role, placed, usual.name, take_metadata(wire))
    if same(wire, usual.message(message)):
        return message
    carving = Carving(usual.part, same, _holes_in)
    return replace(message, form=carving.form_of(wire, placed))


def formless(role: Role, placed: Placed, dialect: str, metadata: dict[str, Any]) -> Message:
    """A message of these blocks, in the usual form of its dialect."""
    blocks = tuple([block for _, block in placed])
    return Message(role=role, blocks=blocks, dialect=dialect, metadata=metadata)


def take_metadata(wire: dict[str, Any]) -> dict[str, Any]:
    """Removes the metadata of a message and returns it."""
    return wire.pop("metadata") if isinstance(wire.get("metadata"), dict) else {}


def placed_content(
    content: Any, path: Path, read: Callable[[Any], Block], role: str, parts: str = "parts"
) -> Placed:
    """The blocks of content, which is a string or a list. Invalid if it is neither."""
    if isinstance(content, str):
        return [(path, Text(content))]
    if isinstance(content, list):
        return [((*path, index), read(part)) for index, part in enumerate(content)]
    raise refused(f"the content of the {role} message", content, f"text or a list of {parts}")


def content_blocks(content: Any, read: Callable[[Any], T]) -> tuple[Text | T, ...] | None:
    """The blocks of content that is a string, a list or None; None if it is anything else."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(content),)
    return tuple(map(read, content)) if isinstance(content, list) else None


# --- carving ---

# Both spellings of each key, and the keys that may hold the text of a result.
_CALLED = ("functionCall", "function_call")
_ANSWERED = ("functionResponse", "function_response")
ANSWER_KEYS = ("output", "result", "content", "error")

# Possible paths of a block's fields in its part. A path counts only if the value there is equal.
_PLACES: dict[type, tuple[tuple[Path, str], ...]] = {
    Text: ((("text",), "text"), (("refusal",), "text")),
    Thinking: (
        (("thinking",), "text"), (("text",), "text"), (("summary",), "text"), (("data",), "data"),
        (("reasoning",), "text"), (("extras", "signature"), "signature"),
        (("reasoning_content", "text"), "text"), (("reasoning_content", "signature"), "signature"),
        (("signature",), "signature"), (("thoughtSignature",), "signature"),
        (("thought_signature",), "signature"),
    ),
    ToolCall: (
        (("id",), "id"), (("input",), "arguments"), (("arguments",), "arguments"),
        (("function", "arguments"), "arguments"), (("custom", "input"), "arguments"),
        *(((call, "id"), "id") for call in _CALLED),
        *(((call, "args"), "arguments") for call in _CALLED),
    ),
    ToolResult: (
        (("tool_use_id",), "call"), (("tool_call_id",), "call"), (("content",), "content"),
        *(((answer, "id"), "call") for answer in _ANSWERED),
        *(((answer, "response"), "response") for answer in _ANSWERED),
        *(((answer, "response", key), "words") for answer in _ANSWERED for key in ANSWER_KEYS),
    ),
    Media: (
        (("source", "data"), "data"), (("source", "url"), "url"), (("image_url", "url"), "url"),
        (("image_url", "url"), "data_url"), (("input_audio", "data"), "data"),
        (("file", "file_id"), "file"), (("source", "file_id"), "file"),
        (("file", "file_data"), "data_url"),
        (("inlineData", "data"), "data"), (("inline_data", "data"), "data"),
        (("fileData", "fileUri"), "url"), (("file_data", "file_uri"), "url"),
        (("fileData", "fileUri"), "file"), (("file_data", "file_uri"), "file"),
    ),
    Opaque: (),
}  # fmt: skip

# The same by first key, because most keys are absent from a part.
_PLACES_BY_KEY = {
    kind: [
        (key, [place for place in places if place[0][0] == key])
        for key in dict.fromkeys(path[0] for path, _ in places)
    ]
    for kind, places in _PLACES.items()
}
_GONE: Any = object()


class Carving(Struct, frozen=True):
    """Builds forms. `show` renders a block's usual part; `holes` finds a block's fields in its
    part."""

    show: Show
    same: Same
    holes: Callable[[Any, Any, Carving], Holes]

    def form_of(self, wire: Any, placed: Placed) -> Any:
        """The form: `[block count, message with its blocks carved out]`."""
        holes = {
            path: self.reference(index, at(wire, path), block)
            for index, (path, block) in enumerate(placed)
        }
        return [len(placed), carve(wire, holes)]

    def reference(self, index: int, value: Any, block: Any) -> Any:
        """The content of a block's hole."""
        if type(value) is str:
            return [index, {HOLE: "text"}]
        if self.same(value, self.show(block)):
            return index
        return [index, carve(value, self.holes(value, block, self))]

    def holds(self, value: Any, path: Path, block: Any, name: str) -> bool:
        """Whether the value at the path equals the block's field."""
        item = at(value, path)
        return item is not MISSING and self.same(item, field_of(block, name))

    def references(self, parts: list[Any], blocks: Sequence[Any]) -> list[Any]:
        """Holes for the parts of a list."""
        pairs = enumerate(zip(parts, blocks))
        return [{HOLE: self.reference(index, part, block)} for index, (part, block) in pairs]


def _holes_in(value: Any, block: Block, carving: Carving) -> Holes:
    """Holes for a block's fields, and for the lists in a result's content."""
    holes: Holes = {
        path: name
        for key, places in _PLACES_BY_KEY[type(block)]
        if key in value
        for path, name in places
        if carving.holds(value, path, block, name)
    }
    if isinstance(block, ToolResult):
        content = value.get("content")
        if isinstance(content, list):
            holes["content",] = ["content", carving.references(content, block.content)]
        for answer in _ANSWERED:
            listed = at(value, (answer, "parts")) if answer in value else None
            if isinstance(listed, list):
                references = carving.references(listed, beside_text(block))
                holes[answer, "parts"] = ["beside", references]
    return holes


def carve(value: Any, holes: Mapping[Path, Any], path: Path = ()) -> Any:
    """The value with a hole at every given path. An object of the sender's that looks like a hole
    is wrapped in a hole."""
    if path in holes:
        return {HOLE: holes[path]}
    if type(value) is dict:
        if _is_hole(value):
            return {HOLE: value}
        return {
            key: carve(item, holes, item_path)
            if (item_path := (*path, key)) in holes or type(item) in _NESTED
            else item
            for key, item in value.items()
        }
    if type(value) is list:
        return [carve(item, holes, (*path, index)) for index, item in enumerate(value)]
    return value


def _is_hole(form: Any) -> bool:
    return type(form) is dict and len(form) == 1 and HOLE in form


def field_of(block: Any, name: str) -> Any:
    """A block's field as its wire value. AttributeError if an edit changed the kind of block."""
    compute = _COMPUTED_FIELDS.get(name)
    return getattr(block, name) if compute is None else compute(block)


def response_of(result: ToolResult) -> dict[str, Any]:
    """A result as an object: its text decoded, if that is a JSON object, else its text under
    `output` or `error`."""
    text = words_of(result)
    value = None
    if text.startswith("{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None  # it only begins like an object
    if type(value) is dict:
        return value
    return {"error" if result.is_error else "output": text}


def words_of(result: ToolResult) -> str:
    """The text of a result, without its media."""
    return text_within([part for part in result.content if not _is_beside(part)])


def beside_text(result: ToolResult) -> list[Media | Opaque]:
    """The content of a result other than text."""
    return [part for part in result.content if _is_beside(part)]


def _is_beside(part: Text | Media | Opaque) -> TypeGuard[Media | Opaque]:
    return type(part) is Media or (type(part) is Opaque and part.raw is not None)


# Fields that are computed from a block.
_COMPUTED_FIELDS: dict[str, Callable[[Any], Any]] = {
    "content": lambda block: text_within(block.content),
    "data_url": data_url,
    "words": words_of,
    "response": response_of,
}


# --- filling ---


class Misfit(Exception):
    """An edited message no longer fits its form."""


def filled(message: Message, show: Show, rename: Rename) -> Any:
    """The wire message made from a message's form and blocks; None if there is no form, or the
    blocks no longer fit it."""
    if message.form is None:
        return None
    try:
        wire = fill(message.form, message.blocks, show, rename)
    except (Misfit, *UNREADABLE):
        return None
    if type(wire) is list:  # of items
        return wire if all(type(item) is dict for item in wire) else None
    if type(wire) is not dict:
        return None
    return wire if type(wire.get("parts")) is list or type(wire.get("role")) is str else None


# Errors raised by a malformed form, which an import may bring.
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)


def fill(form: Any, blocks: Sequence[Block], show: Show, rename: Rename) -> Any:
    """The wire message made from a form and its blocks, all copies. Ids go through `rename`.
    Misfit if a block is missing, or changed to a kind that its place cannot hold."""
    count, wire = form
    if count != len(blocks):
        raise Misfit
    return _Filling(show, rename).value(wire, blocks, None)


def _fits(form: Any, block: Any) -> bool:
    """Whether a form has a hole for the text or arguments of its block. They may have been absent
    when the form was made."""
    if type(block) is ToolResult:
        return not words_of(block) or _has_hole(form, ("content", "words", "response"))
    if type(block) is ToolCall:
        return not block.arguments or _has_hole(form, ("arguments",))
    return True


def _has_hole(form: Any, names: tuple[str, ...]) -> bool:
    """Whether a form has a hole for one of these fields."""
    if type(form) is not dict:
        return False
    if not _is_hole(form):
        return any(_has_hole(item, names) for item in form.values())
    reference = form[HOLE]
    field = reference[0] if type(reference) is list else reference
    return field in names


class _Filling:
    """One walk over a form. Numbers in holes are indices of `parts`, names are fields of
    `owner`."""

    def __init__(self, show: Show, rename: Rename) -> None:
        self.show, self.rename = show, rename

    def value(self, form: Any, parts: Sequence[Any], owner: Any) -> Any:
        if type(form) is dict:
            if HOLE in form and len(form) == 1:
                return self.hole(form[HOLE], parts, owner)
            pairs = ((key, self.value(item, parts, owner)) for key, item in form.items())
            return {key: item for key, item in pairs if item is not _GONE}
        if type(form) is list:
            return _without_gone([self.item(item, parts, owner) for item in form])
        return form

    def item(self, form: Any, parts: Sequence[Any], owner: Any) -> Any:
        """An item of a list; the usual rendering if its block changed to another kind."""
        try:
            return self.value(form, parts, owner)
        except Misfit:
            if not _is_hole(form):
                raise
            return self.usual(parts[form[HOLE][0]])

    def hole(self, reference: Any, parts: Sequence[Any], owner: Any) -> Any:
        if type(reference) is int:
            return self.usual(parts[reference])
        if type(reference) is str:
            field = field_of(owner, reference)
            return self.rename(field) if reference in ("id", "call") else copied(field)
        if type(reference) is dict:
            return copied(reference)
        index, form = reference
        if index == "content":
            return self.content(form, owner.content, owner)
        if index == "beside":
            return self.content(form, beside_text(owner), owner) or _GONE
        return self.own(form, parts[index])

    def own(self, form: Any, block: Any) -> Any:
        """A block in a form of its own inside the form."""
        if is_gone(block):
            return _GONE
        if not _fits(form, block):
            raise Misfit
        try:
            return self.value(form, getattr(block, "content", ()), block)
        except AttributeError:
            raise Misfit from None

    def content(self, forms: list[Any], parts: Sequence[Any], owner: ToolResult) -> list[Any]:
        if len(forms) == len(parts):
            return self.value(forms, parts, owner)  # type: ignore[no-any-return]
        return _without_gone([self.usual(part) for part in parts])

    def usual(self, block: Any) -> Any:
        shown = None if is_gone(block) else self.show(block)
        return _GONE if shown is None else shown


def _without_gone(items: list[Any]) -> list[Any]:
    return [item for item in items if item is not _GONE]
