"""The scripted agent, and the scratch copy of the installed package that it reads and edits with
real tools.

The script is derived from the source: files are chosen evenly over the package, names from their
first definitions, texts from their docstrings. So it is the same on every run, and its length does
not depend on the package's. Outputs are the same too: paths are relative to the scratch copy, lists
are sorted, and the scratch folder's name is removed from the output of commands. Neighbours:
`story` plays the turns, `questions` asks about the facts marked here.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import string
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

import refold
from refold.errors import Invalid, Unavailable

PACKAGE = "refold"
FILES_READ = 36
FILES_PER_CHAPTER = 6
PAGE_LINES = 100
PAGES_MAX = 3
LINES_MIN, LINES_MAX = 60, 450  # of a file that is read
PORT = 48_713
UNTOUCHED = f"{PACKAGE}/errors.py"

SYSTEM = (
    "You are a careful engineer. You explore a Python package in a scratch folder with the tools "
    "you are given, answer what you are asked, and change only what you are told to change. "
    "Say briefly what you do and why."
)
REQUEST = (
    "Explore this package room by room and tell me which parts would break if the page format "
    "changed."
)
RULE = f"never edit {UNTOUCHED}, whatever a test says"
RULE_PORT = f"anything you start listens on port {PORT}"
OPENING = f"{REQUEST}\n\nTwo rules for the whole session: {RULE}; and {RULE_PORT}."

CHECK = (
    "python -c \"import refold; assert refold.__version__.endswith('+scratch'), "
    'refold.__version__"'
)
DUMP = (
    "python -c \"import pathlib, sys; sys.stdout.writelines(f'{path}:{number}: {word}\\n' "
    f"for path in sorted(pathlib.Path('{PACKAGE}').rglob('*.py')) "
    "for number, line in enumerate(path.open(encoding='utf-8'), 1) for word in line.split())\""
)

_DEFINED = re.compile(r"^(?:def|class) (\w+)", re.MULTILINE)
_PUBLIC = re.compile(r"^(?:def|class) ([A-Za-z]\w+)", re.MULTILINE)


class Call(Struct, frozen=True):
    """One tool call. `fact` names its outcome for the questions."""

    name: str
    arguments: dict[str, Any]
    fact: str = ""


class Turn(Struct, frozen=True, kw_only=True):
    """Either a user's request, or text from the agent with its calls."""

    asks: str = ""
    says: str = ""
    calls: tuple[Call, ...] = ()


def script(shop: Workshop) -> Iterator[Turn]:
    """The whole session, up to the questions."""
    chapters = list(_chapters(chosen(shop)))
    yield Turn(asks=OPENING)
    yield from _overview(shop)
    for at, files in enumerate(chapters):
        yield from _chapter(shop, at + 1, files, chapters[at - 1][0] if at else files[-1])
        if at == len(chapters) // 3:
            yield from _version(shop)
        if at == len(chapters) // 2:
            yield from _dump()
        if at == len(chapters) - 2:
            yield from _review(shop, chapters[-1][-1])


def chosen(shop: Workshop) -> list[str]:
    """Files of a readable size, evenly over the package, without the protected one."""
    fitting = []
    for file in shop.files(PACKAGE):
        name = shop.name(file)
        if name != UNTOUCHED and LINES_MIN <= len(shop.lines(name)) <= LINES_MAX:
            fitting.append(name)
    count = min(FILES_READ, len(fitting))
    return [fitting[at * len(fitting) // count] for at in range(count)]


def _chapters(files: Sequence[str]) -> Iterator[list[str]]:
    for at in range(0, len(files), FILES_PER_CHAPTER):
        yield list(files[at : at + FILES_PER_CHAPTER])


# --- chapters ---


def _overview(shop: Workshop) -> Iterator[Turn]:
    rooms = sorted({shop.name(file.parent) for file in shop.files(PACKAGE)})
    yield act("First the whole tree.", Call("list_files", {"path": PACKAGE}))
    for room in rooms[1:6]:
        yield act(f"Then {room} by itself.", Call("list_files", {"path": room}))
    yield act("The protected file, only to read.", read(UNTOUCHED, 1))
    compiling = Call("run", {"command": f"python -m compileall -q {PACKAGE}"})
    yield act("Does it all compile?", compiling)
    name, path = _definition(shop)
    pattern = rf"^(def|class) {name}\b"
    looking = Call("grep", {"pattern": pattern, "path": PACKAGE}, fact="definition")
    yield act(f"Where does `{name}` come from?", looking)
    summary = f"The package has {len(rooms)} rooms and compiles. `{name}` lives in {path}."
    yield Turn(says=f"{summary} I go on room by room.")


def _chapter(shop: Workshop, number: int, files: Sequence[str], earlier: str) -> Iterator[Turn]:
    named = ", ".join(file.removeprefix(f"{PACKAGE}/") for file in files)
    yield Turn(asks=f"Part {number}: read {named}. What does each of them promise?")
    yield act(
        f"Two at once: {files[0]} and {files[1 % len(files)]}.",
        *(read(file, 1) for file in files[:2]),
    )
    for at, file in enumerate(files):
        yield from _reading(shop, file, 2 if at < 2 else 1)
    yield act(f"Once more the start of {earlier}, to compare.", read(earlier, 1))
    promises = "\n".join(f"- {file}: {idea(shop, file)}" for file in files)
    yield Turn(says=f"What part {number} promises:\n{promises}")


def _reading(shop: Workshop, file: str, page: int) -> Iterator[Turn]:
    """A file page by page, then a search for its first definition."""
    pages = min(PAGES_MAX, -(-len(shop.lines(file)) // PAGE_LINES))
    for at in range(page, pages + 1):
        yield act(f"{file}, page {at} of {pages}.", read(file, at))
    name = defined(shop, file)
    if name:
        yield act(f"Who uses `{name}`?", Call("grep", {"pattern": rf"\b{name}\b", "path": PACKAGE}))


def _version(shop: Workshop) -> Iterator[Turn]:
    """Work, test first: a command that fails, an edit, the same command again."""
    path = f"{PACKAGE}/__init__.py"
    old = next(line for line in shop.lines(path) if line.startswith("__version__"))
    new = f"{old.rstrip(old[-1])}+scratch{old[-1]}"
    yield Turn(
        asks="Mark this copy's version as +scratch, so that nobody ships it. "
        "Check first, then change."
    )
    failing = Call("run", {"command": CHECK}, fact="failure")
    yield act("The check, before I change anything.", failing)
    looking = Call("grep", {"pattern": "__version__", "path": PACKAGE})
    yield act("It fails, as it should. Where is it?", looking)
    yield act(f"I change {path}.", Call("edit_file", {"path": path, "old": old, "new": new}))
    yield act("The same check again.", Call("run", {"command": CHECK}))
    yield act("And the file as it is now.", read(path, 1))
    yield Turn(says="The version ends in +scratch now; the check that failed before passes.")


def _dump() -> Iterator[Turn]:
    yield Turn(
        asks="Print every word of the package with its place, I want to see how large that is."
    )
    yield act("One command prints them all.", Call("run", {"command": DUMP}, fact="large"))
    yield Turn(says="That is a very large output. I go on with the next part.")


def _review(shop: Workshop, file: str) -> Iterator[Turn]:
    old = shop.lines(file)[0]
    yield Turn(asks=f"Note in {file} that you have reviewed it.")
    yield act("I look at its first lines.", read(file, 1))
    new = f"# Reviewed in this session.\n{old}"
    edit = Call("edit_file", {"path": file, "old": old, "new": new}, fact="change")
    yield act(f"A comment at the top of {file}.", edit)
    yield act("It must still compile.", Call("run", {"command": f"python -m compileall -q {file}"}))
    yield Turn(says="Noted, and it compiles.")


# --- parts ---


def act(says: str, *calls: Call) -> Turn:
    return Turn(says=says, calls=calls)


def read(path: str, page: int) -> Call:
    first = (page - 1) * PAGE_LINES + 1
    return Call("read_file", {"path": path, "start_line": first, "end_line": page * PAGE_LINES})


def defined(shop: Workshop, file: str) -> str:
    """The first public name that a file defines."""
    found = _PUBLIC.search("\n".join(shop.lines(file)))
    return found[1] if found else ""


def _definition(shop: Workshop) -> tuple[str, str]:
    """A name that is defined exactly once in the package, and its file."""
    homes: dict[str, list[str]] = {}
    for file in shop.files(PACKAGE):
        path = shop.name(file)
        for name in _DEFINED.findall("\n".join(shop.lines(path))):
            homes.setdefault(name, []).append(path)
    for name, paths in homes.items():
        if len(paths) == 1 and paths[0].startswith(f"{PACKAGE}/core/"):
            return name, paths[0]
    raise Unavailable("the package defines no name exactly once", hint="install it again")


def idea(shop: Workshop, file: str) -> str:
    """The first line of a file's docstring."""
    return shop.lines(file)[0].strip('"# ')


COMMAND_S_MAX = 30.0
OUTPUT_CHARS_MAX = 2 * 1024 * 1024
MATCHES_MAX = 40
HIDDEN = (
    "PYTHONPATH",
    "PYTHONSAFEPATH",
    "PYTHONUNBUFFERED",
)  # variables that a command does not see
# The demo's own files stay out of the copy: its script would give the answers away.
SKIPPED = ("__pycache__", "*.pyc", "demo", "demo.py")


class Outcome(Struct, frozen=True):
    """The result of a tool."""

    text: str
    failed: bool = False


def tool(name: str, description: str, **properties: str) -> dict[str, Any]:
    """A tool definition in the Messages API's shape."""
    schema = {key: {"type": kind} for key, kind in properties.items()}
    required = list(properties)
    return {
        "name": name,
        "description": description,
        "input_schema": {"type": "object", "properties": schema, "required": required},
    }


TOOLS = [
    tool("list_files", "The files in a folder with their lines.", path="string"),
    tool(
        "read_file",
        "A range of lines of a file.",
        path="string",
        start_line="integer",
        end_line="integer",
    ),
    tool(
        "grep",
        "Lines that match a regular expression, as path:line:text.",
        pattern="string",
        path="string",
    ),
    tool("run", "Runs a command in the scratch folder.", command="string"),
    tool(
        "edit_file",
        "Replaces one text in a file by another.",
        path="string",
        old="string",
        new="string",
    ),
]


@contextmanager
def scratch_folder(*, keep: bool = False) -> Iterator[Path]:
    """A temporary folder. Its name has lowercase letters only: it is part of stubs, and every name
    must have the same number of tokens."""
    letters = "".join(secrets.choice(string.ascii_lowercase) for _ in range(12))
    folder = Path(tempfile.gettempdir()) / f"refold-demo-{letters}"
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        hint = "set TMPDIR to a folder with room"
        raise Unavailable(f"the demo cannot use {folder}: {error}", hint=hint) from error
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _environment() -> dict[str, str]:
    """The environment of commands, for the same output everywhere."""
    environ = {name: text for name, text in os.environ.items() if name not in HIDDEN}
    plain = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"}
    return environ | plain


class Workshop:
    """The tools, on one scratch copy."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._lines: dict[str, list[str]] = {}
        source = Path(refold.__file__).parent
        shutil.copytree(source, self.root / source.name, ignore=shutil.ignore_patterns(*SKIPPED))

    def call(self, name: str, arguments: dict[str, Any]) -> Outcome:
        """Runs one tool by its name."""
        match name:
            case "list_files":
                return self.list_files(**arguments)
            case "read_file":
                return self.read_file(**arguments)
            case "grep":
                return self.grep(**arguments)
            case "run":
                return self.run(**arguments)
            case "edit_file":
                return self.edit_file(**arguments)
            case _:
                raise Invalid(f"there is no tool {name!r}", hint="see script.TOOLS")

    # --- reading ---

    def files(self, path: str = ".") -> list[Path]:
        """The Python files of a folder and below, sorted."""
        place = self.root / path
        return sorted(place.rglob("*.py")) if place.is_dir() else [place]

    def name(self, file: Path) -> str:
        return file.relative_to(self.root).as_posix()

    def lines(self, path: str) -> list[str]:
        """The lines of a file; read once until it is edited."""
        if path not in self._lines:
            self._lines[path] = self._text(path).splitlines()
        return self._lines[path]

    def _text(self, path: str) -> str:
        try:
            return (self.root / path).read_text(encoding="utf-8")
        except OSError as error:
            raise Unavailable(
                f"the scratch copy has no {path}: {error.strerror}", hint="install it again"
            ) from error

    def list_files(self, path: str) -> Outcome:
        names = map(self.name, self.files(path))
        rows = [f"{name}  {len(self.lines(name))} lines" for name in names]
        return Outcome("\n".join(rows) or f"{path} has no Python files")

    def read_file(self, path: str, start_line: int, end_line: int) -> Outcome:
        lines = self.lines(path)[start_line - 1 : end_line]
        numbered = [f"{at:4} {line}" for at, line in enumerate(lines, start_line)]
        return Outcome("\n".join(numbered) or "(empty)")

    def grep(self, pattern: str, path: str) -> Outcome:
        wanted = re.compile(pattern, re.MULTILINE)
        found: list[str] = []
        for file in self.files(path):
            found += self._matches(wanted, self.name(file))
        shown = found[:MATCHES_MAX]
        if len(found) > MATCHES_MAX:
            shown.append(f"… {len(found) - MATCHES_MAX} more")
        return Outcome("\n".join(shown) or "no match")

    def _matches(self, wanted: re.Pattern[str], name: str) -> list[str]:
        """The lines of a file that match, as path:line:text."""
        lines = self.lines(name)
        # Most files have no match, and one search of the whole text is faster.
        if not wanted.search("\n".join(lines)):
            return []
        numbered = enumerate(lines, 1)
        return [f"{name}:{at}:{line.strip()}" for at, line in numbered if wanted.search(line)]

    # --- acting ---

    def run(self, command: str) -> Outcome:
        words = shlex.split(command)
        if words[0] == "python":
            words[0] = sys.executable
        try:
            done = subprocess.run(
                words,
                cwd=self.root,
                env=_environment(),
                capture_output=True,
                timeout=COMMAND_S_MAX,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.SubprocessError) as error:
            hint = f"try it by hand: {command}"
            raise Unavailable(f"the demo's command did not run: {error}", hint=hint) from error
        printed = (done.stdout + done.stderr).decode("utf-8", "replace")
        output = printed.replace(str(self.root), "/scratch").rstrip()
        text = f"exit status {done.returncode}: {command}\n{output}"
        return Outcome(text[:OUTPUT_CHARS_MAX].rstrip(), done.returncode != 0)

    def edit_file(self, path: str, old: str, new: str) -> Outcome:
        whole = self._text(path)
        count = whole.count(old)
        if count != 1:
            return Outcome(f"{path}: the text occurs {count} times, not once", failed=True)
        (self.root / path).write_text(whole.replace(old, new), encoding="utf-8")
        self._lines.pop(path, None)
        line = whole[: whole.index(old)].count("\n") + 1
        return Outcome(f"modified {path} at line {line}:\n- {old}\n+ {new}")
