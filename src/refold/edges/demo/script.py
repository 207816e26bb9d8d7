"""What the scripted agent does: it reads its way through the scratch copy, and works on it a
little.

The script follows from the source alone: files are taken evenly over the package, names from their
first definitions, texts from their docstrings. So it is the same on every run, and grows no longer
when the package does. Neighbours: `workshop` runs the calls, `story` plays the turns, `questions`
asks about the facts marked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from refold.edges.demo.workshop import Workshop
from refold.errors import Unavailable

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
    """One tool call. A `fact` is a name under which its outcome is asked for later."""

    name: str
    arguments: dict[str, Any]
    fact: str = ""


class Turn(Struct, frozen=True, kw_only=True):
    """Either a user's request, or what the agent says, with the calls it makes."""

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
    """Files of a readable size, evenly over the package, never the one that a rule protects."""
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
    """A file page by page, then who else names what it defines first."""
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
    """A name that is defined exactly once in the package, and where."""
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
