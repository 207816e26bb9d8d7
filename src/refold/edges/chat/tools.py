"""The tools of a chat: what the model may read, and, once the person agrees, write and run.

A tool gives a text, also where it fails: a model can act on "there is no file a.py". What changes
something is shown first and asked for, unless `--yes` was given; `--read-only` does not offer it,
`--no-tools` offers none.
Before each write the file is kept, so that a restore can put it back. The tools that look into the
past and the memory are those of `context.toolbox`. Neighbours: `workspace` has the paths,
`process` runs commands, `loop` calls.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Protocol

import msgspec
from msgspec import Meta, Struct

from refold import decoding
from refold.checked import quoted
from refold.display import number
from refold.edges.chat import process
from refold.edges.chat.interrupts import Interrupts
from refold.edges.chat.workspace import Workspace
from refold.engine.context import Context
from refold.errors import Invalid, RefoldError
from refold.system.inside import Place, read, write

MEMORY_TOOLS = ("remember", "recall", "forget")
REFUSED = "The user did not allow this. Do not try it again unless the user asks for it."
DIFF_LINES_MAX = 400
LINES_MAX = 2_000

Offered = Literal["all", "reading", "none"]
FilePath = Annotated[str, Meta(description="A path inside the folder.")]


class Asker(Protocol):
    """Shows what a tool is about to do, and asks whether it may. `kind` is what an answer of
    "always" is remembered for."""

    def allows(self, kind: str, question: str, details: str) -> bool: ...


class _Arguments(Struct, forbid_unknown_fields=True, kw_only=True):
    pass


class ReadArguments(_Arguments):
    path: FilePath
    first_line: Annotated[int, Meta(ge=1, description="The first line, counted from 1.")] = 1
    last_line: Annotated[int, Meta(ge=0, description="The last line; 0 is the end.")] = 0


class ListArguments(_Arguments):
    path: FilePath = "."


class GrepArguments(_Arguments):
    pattern: Annotated[str, Meta(description="The text to look for within a line.")]
    path: FilePath = "."
    regex: Annotated[bool, Meta(description="The pattern is a regular expression (Python).")] = (
        False
    )
    ignore_case: bool = False
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class WriteArguments(_Arguments):
    path: FilePath
    content: Annotated[str, Meta(description="The whole text of the file.")]


class EditArguments(_Arguments):
    path: FilePath
    old: Annotated[str, Meta(min_length=1, description="A text that is in the file once.")]
    new: Annotated[str, Meta(description="What stands there instead.")]


class RunArguments(_Arguments):
    command: Annotated[str, Meta(min_length=1, description="A command line for /bin/sh.")]
    seconds: Annotated[int, Meta(ge=1, le=process.WAIT_S_MAX, description="When to give up.")] = (
        process.WAIT_S
    )


class Tool(Struct, frozen=True):
    """One tool: what the model is told of it, what it takes, and whether it changes something."""

    about: str
    arguments: type[Struct]
    changes: bool = False


TOOLS = {
    "read_file": Tool("Show a text file, or some lines of it.", ReadArguments),
    "list_files": Tool("List the files below a folder, with their sizes.", ListArguments),
    "grep": Tool("Find the lines of files that hold a text, as path:line: text.", GrepArguments),
    "write_file": Tool(
        "Create a file, or give it another content. The user is shown the difference and asked.",
        WriteArguments,
        changes=True,
    ),
    "edit_file": Tool(
        "Replace a text in a file by another. The user is shown the difference and asked.",
        EditArguments,
        changes=True,
    ),
    "run_command": Tool(
        "Run a command in the folder, without input. The user is asked.",
        RunArguments,
        changes=True,
    ),
}


class Used(Struct, frozen=True):
    """What a tool gave."""

    text: str
    is_error: bool = False


class Tools:
    """The tools of one chat."""

    def __init__(
        self,
        context: Context,
        workspace: Workspace,
        asker: Asker,
        interrupts: Interrupts,
        *,
        offered: Offered = "all",
    ) -> None:
        self._context, self._workspace, self._asker = context, workspace, asker
        self._interrupts, self._offered = interrupts, offered
        self.names = [name for name, tool in TOOLS.items() if _is_offered(tool, offered)]
        self._runs: dict[str, Callable[[Any], str | Used]] = {
            "read_file": self._read,
            "list_files": lambda given: workspace.listing(given.path),
            "grep": self._grep,
            "write_file": self._write,
            "edit_file": self._edit,
            "run_command": self._run,
        }

    def definitions(self) -> list[dict[str, Any]]:
        """What the model is told, in a form that every dialect can be given."""
        if self._offered == "none":
            return []
        own = [_definition(name, TOOLS[name]) for name in self.names]
        past = self._context.toolbox.tools("anthropic", also=MEMORY_TOOLS)
        return [*own, *past]

    def call(self, name: str, arguments: str | Mapping[str, Any]) -> Used:
        """Runs one tool. KeyboardInterrupt if the person stopped it."""
        if name not in TOOLS:
            text = self._context.toolbox.call(name, arguments)
            return Used(text, is_error=text.startswith("Error: "))
        try:
            if name not in self.names:
                raise Invalid(f"{name} is off in this chat", hint="say what the user should do")
            gave = self._runs[name](_given(TOOLS[name].arguments, arguments))
            return gave if isinstance(gave, Used) else Used(gave)
        except _NotAllowed:
            return Used(REFUSED, is_error=True)
        except (RefoldError, OSError) as error:
            return Used(f"Error: {error}", is_error=True)

    # --- reading ---

    def _read(self, given: ReadArguments) -> str:
        with self._interrupts.waiting():
            lines = self._workspace.text(given.path).splitlines()
        last = min(given.last_line or len(lines), given.first_line + LINES_MAX - 1)
        shown = lines[given.first_line - 1 : last]
        if not shown and lines:
            hint = "ask for lines that exist"
            raise Invalid(f"{quoted(given.path)} has {number(len(lines), 'line')}", hint=hint)
        left = f"\n[lines {given.first_line:,} to {last:,} of {len(lines):,}]"
        return "\n".join(shown) + (left if len(shown) < len(lines) else "")

    def _grep(self, given: GrepArguments) -> str:
        with self._interrupts.waiting():
            return self._workspace.grep(
                given.pattern,
                given.path,
                regex=given.regex,
                ignore_case=given.ignore_case,
                limit=given.limit,
            )

    # --- changing ---

    def _write(self, given: WriteArguments) -> str:
        place = self._workspace.writable(given.path)
        return self._put(place, given.content)

    def _edit(self, given: EditArguments) -> str:
        text = self._workspace.text(given.path, exact=True)
        count = text.count(given.old)
        if count != 1:
            hint = "give a longer text that occurs once" if count else "read the file again"
            raise Invalid(f"the text occurs {count} times in {quoted(given.path)}", hint=hint)
        place = self._workspace.writable(given.path)
        return self._put(place, text.replace(given.old, given.new))

    def _put(self, place: Place, content: str) -> str:
        """Writes a file, once the person has seen what changes and the old text is kept."""
        found = read(place)
        data = content.encode("utf-8", "surrogateescape")
        if found is not None and found.data == data:
            return f"[{place} is so already.]"
        old = "" if found is None else found.data.decode("utf-8", "replace")
        diff = _diff(str(place), old, content)
        verb = "Create" if found is None else "Change"
        if not self._asker.allows("write", f"{verb} {place}?", diff):
            raise _NotAllowed
        self._context.files.keep(str(place), root=place.root)
        write(place, data)
        lines = number(content.count("\n") + (not content.endswith("\n")), "line")
        return f"[Wrote {place}, {lines}.]"

    def _run(self, given: RunArguments) -> Used:
        if not self._asker.allows("run", "Run this command?", f"$ {given.command}"):
            raise _NotAllowed
        folder = self._workspace.root
        ran = process.run(given.command, folder, wait_s=given.seconds, interrupts=self._interrupts)
        return Used(ran.text, is_error=bool(ran.status or ran.ended))


def _is_offered(tool: Tool, offered: Offered) -> bool:
    return offered == "all" or (offered == "reading" and not tool.changes)


class _NotAllowed(Exception):
    """The person said no."""


def _definition(name: str, tool: Tool) -> dict[str, Any]:
    _, parts = msgspec.json.schema_components([tool.arguments], ref_template="{name}")
    [schema] = parts.values()
    schema = {key: value for key, value in schema.items() if key != "title"}
    return {"name": name, "description": tool.about, "input_schema": schema}


def _given(arguments: type[Struct], given: str | Mapping[str, Any]) -> Struct:
    """The arguments of a call, as its tool takes them."""
    try:
        value = msgspec.json.decode(given or "{}") if isinstance(given, str) else given
        return decoding.convert(value, arguments, strict=False)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        known = ", ".join(arguments.__struct_fields__)
        raise Invalid(f"the arguments are wrong: {error}", hint=f"arguments: {known}") from error


def _diff(path: str, old: str, new: str) -> str:
    """What a write changes, bounded."""
    lines = list(
        difflib.unified_diff(
            old.splitlines(), new.splitlines(), f"a/{path}", f"b/{path}", lineterm=""
        )
    )
    if len(lines) > DIFF_LINES_MAX:
        left = len(lines) - DIFF_LINES_MAX
        lines[DIFF_LINES_MAX:] = [f"... {number(left, 'line')} more"]
    return "\n".join(lines)
