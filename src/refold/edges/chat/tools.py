"""The tools of a chat: files of the folder, shell commands, and the past of the conversation.

A path from a model is data: it is resolved inside the folder or an allowed one, and never inside
the store. A change is shown to the person for confirmation, unless `--yes` was given, and the old
content of a file is stored before each write, so that a restore can bring it back. A failing tool
returns a message: a model can act on "there is no file a.py". Everything is bounded, and Ctrl-C
stops a wait but never a write to the log. Neighbours: `loop` calls the tools, `context.toolbox` has
those of the past and the memory, `system.contained_files` reaches the disk.
"""

from __future__ import annotations

import difflib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
from msgspec import Meta, Struct

from refold import decoding
from refold.artifacts.grep import matching_lines
from refold.checked import quoted
from refold.display import number
from refold.edges.chat.terminal import Offered
from refold.edges.workspace import Found, refuse_guarded, walk
from refold.engine.context import Context
from refold.errors import Denied, Invalid, NotFound, RefoldError
from refold.settings.sources import KEY_DOMAINS
from refold.system import posix
from refold.system.contained_files import VERSION_CONTROL, Place, place_in, read, write
from refold.system.disk import PROJECT_FOLDER

WAIT_S, WAIT_S_MAX = 120, 1_800
OUTPUT_BYTES_MAX = 4 * 1024 * 1024
POLL_S = 0.02
STOPPED = "stopped by the user"
READ_BYTES_MAX = 2 * 1024 * 1024
ENTRIES_MAX, DEPTH_MAX = 1_000, 8
SEARCHED_MAX, SEARCHED_BYTES_MAX, GREP_S = 5_000, 1024 * 1024, 10.0
PROBE_BYTES = 8_000
MEMORY_TOOLS = ("remember", "recall", "forget")
REFUSED = "The user did not allow this. Do not try it again unless the user asks for it."
DIFF_LINES_MAX = 400
LINES_MAX = 2_000

FilePath = Annotated[str, Meta(description="A path inside the folder.")]
T = TypeVar("T")
_END = object()


class Interrupts:
    """Handles Ctrl-C in a `with` block around the work. The signal raises KeyboardInterrupt only
    inside `waiting`; elsewhere it is kept, and the next `waiting` raises it. So a stopped reply is
    still recorded as far as it was received."""

    def __init__(self) -> None:
        self.asked = False
        self._is_waiting = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        self.asked = False
        # Only the main thread gets signals, and only it may set a handler.
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._take)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        if self._is_waiting:
            raise KeyboardInterrupt

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A block that Ctrl-C may interrupt at any point."""
        self._is_waiting = True
        try:
            if self.asked:
                raise KeyboardInterrupt
            yield
        finally:
            self._is_waiting = False

    def each(self, values: Iterable[T]) -> Iterator[T]:
        """The values; waiting for each may be interrupted."""
        iterator = iter(values)
        while True:
            with self.waiting():
                value = next(iterator, _END)
            if value is _END:
                return
            yield value  # type: ignore[misc]


class Ran(Struct, frozen=True, kw_only=True):
    """The output of a command, and how it ended."""

    output: str
    status: int
    ended: str = ""

    @property
    def text(self) -> str:
        how = self.ended or f"exit status {self.status}"
        return f"{self.output}\n[{how}]" if self.output else f"[no output, {how}]"


def run(command: str, folder: Path, *, wait_s: float, interrupts: Interrupts) -> Ran:
    """Runs a shell command in a process group of its own, without input and without the keys of
    providers. The whole group is killed when its time is over or the person stops it."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=folder,
            env=environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            with interrupts.waiting():
                ended = _wait_for(process, wait_s, output.fileno())
        except KeyboardInterrupt:
            ended = STOPPED
        finally:
            # The whole group: the command may have left processes behind.
            with suppress(ProcessLookupError, PermissionError):
                posix.end_group(process.pid)
            process.wait()
        text = os.pread(output.fileno(), OUTPUT_BYTES_MAX, 0).decode("utf-8", "replace")
        return Ran(output=text.rstrip("\n"), status=process.returncode, ended=ended)


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without the keys of providers."""
    return {name: value for name, value in environ.items() if name not in KEY_DOMAINS}


def _wait_for(process: subprocess.Popen[bytes], wait_s: float, output: int) -> str:
    """Waits for the process; returns the reason why it must be stopped, or an empty string if it
    ended."""
    deadline = time.monotonic() + wait_s
    while process.poll() is None:
        if time.monotonic() > deadline:
            return f"stopped: not done after {wait_s:g} s"
        if os.fstat(output).st_size > OUTPUT_BYTES_MAX:
            return f"stopped: more than {OUTPUT_BYTES_MAX:,} bytes of output"
        with suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)
    return ""


class Workspace(Struct, frozen=True):
    """The folder of a chat, further allowed folders, and the paths of the store."""

    root: Path
    allowed: tuple[Path, ...] = ()
    guards: Container[str] = ()

    def place(self, path: str) -> Place:
        """The location of a path. Denied outside of every folder, and in the store."""
        place = self._inside(path)
        refuse_guarded(place.path, self.guards)
        if place.has([PROJECT_FOLDER]):
            raise Denied(f"{quoted(path)} belongs to the store", hint="name another file")
        return place

    def _inside(self, path: str) -> Place:
        try:
            return place_in(self.root, path)
        except Denied:
            for folder in self.allowed:
                try:
                    return place_in(folder, str(self.root / path))
                except Denied:
                    continue
        hint = "the user can allow another folder: refold chat --allow FOLDER"
        raise Denied(f"{quoted(path)} is outside the folder", hint=hint)

    def writable(self, path: str) -> Place:
        """The location of a path for writing. Denied in version control as well."""
        place = self.place(path)
        if place.has(VERSION_CONTROL):
            reason = f"{quoted(path)} belongs to version control"
            raise Denied(reason, hint="write to another place")
        return place

    def text(self, path: str, *, exact: bool = False) -> str:
        """The text of a file; an `exact` text must be valid UTF-8."""
        found = read(self.place(path), bytes_max=READ_BYTES_MAX)
        if found is None:
            raise NotFound(
                f"there is no file {quoted(path)}", hint="list_files shows what is there"
            )
        if _is_binary(found.data):
            raise Invalid(f"{quoted(path)} is not text", hint="only text can be read")
        try:
            return found.data.decode("utf-8", "strict" if exact else "replace")
        except UnicodeDecodeError as error:
            raise Invalid(f"{quoted(path)} is not UTF-8", hint="write the whole file") from error

    def files(self, path: str = ".") -> Iterator[Found]:
        """The files below a folder that git would keep, with the paths that tools take."""
        place = self.place(path)
        if not os.path.isdir(place.path):
            raise NotFound(f"there is no folder {quoted(path)}", hint="list_files shows the top")
        # Paths in an allowed folder are absolute, others relative to the chat's folder.
        is_own = place.root == os.path.realpath(self.root)
        prefix = (f"{place}/" if place.names else "") if is_own else f"{place.path}/"
        for found in walk(place.path, depth_max=DEPTH_MAX, without=self.guards):
            if not found.is_folder:
                yield found._replace(path=f"{prefix}{found.path}")

    def listing(self, path: str) -> str:
        """The files below a folder with their sizes, one per line."""
        found = list(islice(self.files(path), ENTRIES_MAX + 1))
        rows = [f"{one.path}  {number(one.size_bytes, 'byte')}" for one in found[:ENTRIES_MAX]]
        if len(found) > ENTRIES_MAX:
            rows.append(f"[more than {ENTRIES_MAX:,} files: list a folder of them]")
        return "\n".join(rows) or "[no files]"

    def grep(self, pattern: str, path: str, *, regex: bool, ignore_case: bool, limit: int) -> str:
        """The matching lines of files, as `path:line: text`."""
        place = self.place(path)
        if os.path.isfile(place.path):
            names = [path]
        else:
            names = [one.path for one in islice(self.files(path), SEARCHED_MAX)]
        lines = _JoinedFiles(self, names)
        found = matching_lines(
            lines.chunks(), pattern, regex=regex, ignore_case=ignore_case, most=limit, wait_s=GREP_S
        )
        rows = [f"{lines.where(one.number)}: {one.text}" for one in found.lines]
        head = f"{number(len(rows), 'line')} in {number(len(names), 'file')}"
        ended = f", {found.ended}" if found.ended else ""
        return "\n".join([f"[{head}{ended}]", *rows])


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:PROBE_BYTES]


class _JoinedFiles:
    """Many files as one text to search; `where` finds the file of a line."""

    def __init__(self, workspace: Workspace, names: Sequence[str]) -> None:
        self._workspace, self._names = workspace, names
        self._starts: list[tuple[int, str]] = []

    def chunks(self) -> Iterator[bytes]:
        line = 1
        for name in self._names:
            try:
                found = read(self._workspace.place(name), bytes_max=SEARCHED_BYTES_MAX)
            except RefoldError:
                continue  # too large, or unreadable
            if found is None or _is_binary(found.data):
                continue
            data = found.data if found.data.endswith(b"\n") else found.data + b"\n"
            self._starts.append((line, name))
            line += data.count(b"\n")
            yield data

    def where(self, line: int) -> str:
        start, name = max(one for one in self._starts if one[0] <= line)
        return f"{name}:{line - start + 1}"


class Asker(Protocol):
    """Shows a planned change and asks for permission. The answer "always" applies to a `kind`."""

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
    old: Annotated[
        str, Meta(min_length=1, description="Text that occurs in the file exactly once.")
    ]
    new: Annotated[str, Meta(description="The text to put in its place.")]


class RunArguments(_Arguments):
    command: Annotated[str, Meta(min_length=1, description="A command line for /bin/sh.")]
    seconds: Annotated[int, Meta(ge=1, le=WAIT_S_MAX, description="When to give up.")] = WAIT_S


class Tool(Struct, frozen=True):
    """One tool: its description, its arguments, and whether it changes something."""

    about: str
    arguments: type[Struct]
    changes: bool = False


TOOLS = {
    "read_file": Tool("Show a text file, or some lines of it.", ReadArguments),
    "list_files": Tool("List the files below a folder, with their sizes.", ListArguments),
    "grep": Tool(
        "Find the lines of files that contain some text, as path:line: text.", GrepArguments
    ),
    "write_file": Tool(
        "Create a file, or replace its content. The user is shown the difference and asked.",
        WriteArguments,
        changes=True,
    ),
    "edit_file": Tool(
        "Replace text in a file with other text. The user sees the difference and is asked.",
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
    """The result of a tool."""

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
        self.names = [
            name
            for name, tool in TOOLS.items()
            if offered == "all" or (offered == "reading" and not tool.changes)
        ]
        self._runs: dict[str, Callable[[Any], str | Used]] = {
            "read_file": self._read,
            "list_files": lambda given: workspace.listing(given.path),
            "grep": self._grep,
            "write_file": self._write,
            "edit_file": self._edit,
            "run_command": self._run,
        }

    def definitions(self) -> list[dict[str, Any]]:
        """The definitions of the tools, in a form that every dialect takes."""
        if self._offered == "none":
            return []
        own = [_definition(name, TOOLS[name]) for name in self.names]
        past = self._context.toolbox.tools("anthropic", also=MEMORY_TOOLS)
        return [*own, *past]

    def call(self, name: str, arguments: str | Mapping[str, Any]) -> Used:
        """Runs one tool; KeyboardInterrupt if the person stops it."""
        if name not in TOOLS:
            text = self._context.toolbox.call(name, arguments)
            return Used(text, is_error=text.startswith("Error: "))
        try:
            if name not in self.names:
                raise Invalid(f"{name} is off in this chat", hint="say what the user should do")
            result = self._runs[name](_checked(TOOLS[name].arguments, arguments))
            return result if isinstance(result, Used) else Used(result)
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
        return self._put(self._workspace.writable(given.path), given.content)

    def _edit(self, given: EditArguments) -> str:
        text = self._workspace.text(given.path, exact=True)
        count = text.count(given.old)
        if count != 1:
            hint = "use longer text that occurs once" if count else "read the file again"
            raise Invalid(f"the text occurs {count} times in {quoted(given.path)}", hint=hint)
        changed = text.replace(given.old, given.new)
        return self._put(self._workspace.writable(given.path), changed)

    def _put(self, place: Place, content: str) -> str:
        """Writes a file after the person agreed to the change and the old text was stored."""
        found = read(place)
        data = content.encode("utf-8", "surrogateescape")
        if found is not None and found.data == data:
            return f"[{place} already has this content.]"
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
        ran = run(given.command, folder, wait_s=given.seconds, interrupts=self._interrupts)
        return Used(ran.text, is_error=bool(ran.status or ran.ended))


class _NotAllowed(Exception):
    """The user refused."""


def _definition(name: str, tool: Tool) -> dict[str, Any]:
    _, parts = msgspec.json.schema_components([tool.arguments], ref_template="{name}")
    [schema] = parts.values()
    schema = {key: value for key, value in schema.items() if key != "title"}
    return {"name": name, "description": tool.about, "input_schema": schema}


def _checked(arguments: type[Struct], given: str | Mapping[str, Any]) -> Struct:
    """The decoded arguments of a call. Invalid if they do not match."""
    try:
        value = msgspec.json.decode(given or "{}") if isinstance(given, str) else given
        return decoding.convert(value, arguments, strict=False)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        known = ", ".join(arguments.__struct_fields__)
        raise Invalid(f"the arguments are wrong: {error}", hint=f"arguments: {known}") from error


def _diff(path: str, old: str, new: str) -> str:
    """The difference between two strings, cut if long."""
    before, after = old.splitlines(), new.splitlines()
    lines = list(difflib.unified_diff(before, after, f"a/{path}", f"b/{path}", lineterm=""))
    if len(lines) > DIFF_LINES_MAX:
        left = len(lines) - DIFF_LINES_MAX
        lines[DIFF_LINES_MAX:] = [f"... {number(left, 'line')} more"]
    return "\n".join(lines)
