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

PACKAGE = "refold"
FILES_READ = 36
FILES_PER_CHAPTER = 6
PAGE_LINES = 100
PAGES_MAX = 3
PORT = 48_713
UNTOUCHED = f"{PACKAGE}/errors.py"

SYSTEM = (
    "You are a careful engineer. You explore a Python package in a scratch folder with the tools you are given, "
    "answer what you are asked, and change only what you are told to change. Say briefly what you do and why."
)
REQUEST = "Explore this package room by room and tell me which parts would break if the page format changed."
RULE = f"never edit {UNTOUCHED}, whatever a test says"
RULE_PORT = f"anything you start listens on port {PORT}"
OPENING = f"{REQUEST}\n\nTwo rules for the whole session: {RULE}; and {RULE_PORT}."

DUMP = (
    "python -c \"import pathlib, sys; sys.stdout.writelines(f'{path}:{number}: {word}\\n' "
    f"for path in sorted(pathlib.Path('{PACKAGE}').rglob('*.py')) "
    "for number, line in enumerate(path.open(encoding='utf-8'), 1) for word in line.split())\""
)


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
    names = [shop.name(file) for file in shop.files(PACKAGE)]
    fitting = [name for name in names if 60 <= len(shop.lines(name)) <= 450 and name != UNTOUCHED]
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
    yield act(
        "Does it all compile?", Call("run", {"command": f"python -m compileall -q {PACKAGE}"})
    )
    name, path = _definition(shop)
    yield act(
        f"Where does `{name}` come from?",
        Call("grep", {"pattern": rf"^(def|class) {name}\b", "path": PACKAGE}, fact="definition"),
    )
    yield Turn(
        says=f"The package has {len(rooms)} rooms and compiles. `{name}` lives in {path}. I go on room by room."
    )


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
    check = "python -c \"import refold; assert refold.__version__.endswith('+scratch'), refold.__version__\""
    yield Turn(
        asks="Mark this copy's version as +scratch, so that nobody ships it. Check first, then change."
    )
    yield act(
        "The check, before I change anything.", Call("run", {"command": check}, fact="failure")
    )
    yield act(
        "It fails, as it should. Where is it?",
        Call("grep", {"pattern": "__version__", "path": PACKAGE}),
    )
    new = f"{old.rstrip(old[-1])}+scratch{old[-1]}"
    yield act(f"I change {path}.", Call("edit_file", {"path": path, "old": old, "new": new}))
    yield act("The same check again.", Call("run", {"command": check}))
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
    yield act(
        f"A comment at the top of {file}.",
        Call(
            "edit_file",
            {"path": file, "old": old, "new": f"# Reviewed in this session.\n{old}"},
            fact="change",
        ),
    )
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
    found = re.search(r"^(?:def|class) ([A-Za-z]\w+)", "\n".join(shop.lines(file)), re.MULTILINE)
    return found[1] if found else ""


def _definition(shop: Workshop) -> tuple[str, str]:
    """A name that is defined exactly once in the package, and where."""
    homes: dict[str, list[str]] = {}
    for file in shop.files(PACKAGE):
        for name in re.findall(
            r"^(?:def|class) (\w+)", "\n".join(shop.lines(shop.name(file))), re.MULTILINE
        ):
            homes.setdefault(name, []).append(shop.name(file))
    name = next(
        name
        for name, where in homes.items()
        if len(where) == 1 and where[0].startswith(f"{PACKAGE}/core/")
    )
    return name, homes[name][0]


def idea(shop: Workshop, file: str) -> str:
    """The first line of a file's docstring."""
    return shop.lines(file)[0].strip('"# ')
