"""The demo's session: a scripted agent explores the installed refold with tools that really read.

It has what long sessions have: rules said once at the start, files read page by page, searches, a
command that fails, an edit, and talk in between. No output is larger than a tool's usual limit, so
every strategy can hold it. The same package gives the same session. Neighbour: `comparison`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

import refold
from refold.replay.needs import Message

ROOT = Path(refold.__file__).parent
FILES, FILES_PER_PART = 48, 6
LINES_MIN, LINES_MAX, PAGE_LINES, PAGES_MAX, MATCHES_MAX = 120, 400, 120, 2, 30
UNTOUCHED, PORT = "refold/errors.py", 48_713  # no file has this number
RULE = f"never edit {UNTOUCHED}, whatever a test says"
RULE_PORT = f"anything you start listens on port {PORT}"
REQUEST = "Explore this package part by part and tell me what would break if the page changed."
CHECK = "python -c \"import refold; assert refold.__version__.endswith('+scratch')\""
FAILED = f"AssertionError: {refold.__version__}"
DECISION = f"we keep msgspec, because pydantic decodes slower ({PORT % 97} times here)"
SYSTEM = "You explore a Python package with the tools you are given. Say briefly what you do."
_PUBLIC = re.compile(r"^(?:def|class) ([A-Za-z]\w+)", re.MULTILINE)


class Question(Struct, frozen=True):
    """A question about the session, and words of its answer, which stand close together."""

    text: str
    words: tuple[str, ...]


class Session:
    """The messages so far, and the questions about them."""

    def __init__(self) -> None:
        self.messages: list[Message] = [{"role": "system", "content": SYSTEM}]
        self.questions: list[Question] = []
        self.texts = {path: path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}

    def asks(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def says(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})

    def calls(self, why: str, name: str, result: str, **arguments: object) -> None:
        """One tool call and its result."""
        id = f"call_{len(self.messages):04}"
        call = {"id": id, "name": name, "arguments": arguments}
        self.messages.append({"role": "assistant", "content": why, "tool_calls": [call]})
        self.messages.append({"role": "tool", "tool_call_id": id, "content": result})

    def read(self, path: Path, page: int) -> None:
        lines = self.texts[path].splitlines()
        first = (page - 1) * PAGE_LINES
        shown = enumerate(lines[first : first + PAGE_LINES], first + 1)
        text = "\n".join(f"{at:4} {line}" for at, line in shown)
        self.calls(f"Page {page} of {name_of(path)}.", "read_file", text, path=name_of(path))

    def grep(self, pattern: str) -> str:
        found = list(self._matches(re.compile(pattern)))
        more = len(found) - MATCHES_MAX
        text = "\n".join([*found[:MATCHES_MAX], *([f"… {more} more"] if more > 0 else [])])
        self.calls(f"Who has {pattern}?", "grep", text or "no match", pattern=pattern)
        return text

    def _matches(self, wanted: re.Pattern[str]) -> Iterator[str]:
        for path, text in self.texts.items():
            if wanted.search(text):
                for at, line in enumerate(text.splitlines(), 1):
                    if wanted.search(line):
                        yield f"{name_of(path)}:{at}:{line.strip()}"


def name_of(path: Path) -> str:
    return f"refold/{path.relative_to(ROOT).as_posix()}"


def played_session() -> Session:
    """The whole session; its last request asks all questions."""
    session = Session()
    session.asks(f"{REQUEST}\n\nTwo rules for the whole session: {RULE}; and {RULE_PORT}.")
    fitting = [
        path
        for path, text in session.texts.items()
        if LINES_MIN <= text.count("\n") <= LINES_MAX and name_of(path) != UNTOUCHED
        if "demo" not in path.parts
    ]
    files = [fitting[at * len(fitting) // FILES] for at in range(FILES)]
    parts = [files[at : at + FILES_PER_PART] for at in range(0, FILES, FILES_PER_PART)]
    definition = session.grep(r"^class Context\b")
    for number, part in enumerate(parts, 1):
        session.asks(f"Part {number}: {', '.join(map(name_of, part))}. What do they promise?")
        for path in part:
            _read_whole(session, path)
        if number > 2:
            earlier = parts[number - 3][0]
            session.read(earlier, 1)
            if defined := _PUBLIC.search(session.texts[earlier]):
                session.grep(rf"\b{defined[1]}\(")
        session.says("\n".join(f"- {name_of(path)}: {_idea(session, path)}" for path in part))
        if number == 2:
            session.asks("Check the version before you mark it as +scratch. And note: " + DECISION)
            failed = f"exit status 1: {CHECK}\n{FAILED}"
            session.calls("The check, before I change anything.", "run", failed, command=CHECK)
            session.says("It fails, as it should. I note the decision and go on.")
        if number == 4:
            edited = name_of(part[0])
            old = session.texts[part[0]].splitlines()[0]
            done = f"modified {edited} at line 1:\n- {old}\n+ # Reviewed in this session."
            session.calls("I note my review.", "edit_file", done, path=edited, old=old)
    session.questions = [
        Question("Which file must you never edit?", (RULE,)),
        Question("Which port do we listen on?", (RULE_PORT,)),
        Question("Where is Context defined?", (definition,)),
        Question("What failed, and how?", ("refold.__version__.endswith", FAILED)),
        Question("Why do we keep msgspec?", (DECISION,)),
        Question("Which file has your review note?", (f"modified {edited}",)),
    ]
    asked = "\n".join(one.text for one in session.questions)
    session.asks(f"Before we stop, six questions about this session:\n{asked}")
    session.says("Here are the answers.")
    return session


def _read_whole(session: Session, path: Path) -> None:
    text = session.texts[path]
    for page in range(1, min(PAGES_MAX, 1 + text.count("\n") // PAGE_LINES) + 1):
        session.read(path, page)
    if defined := _PUBLIC.search(text):
        session.grep(rf"\b{defined[1]}\b")


def _idea(session: Session, path: Path) -> str:
    """The first line of a module's docstring."""
    return session.texts[path].splitlines()[0].strip('"# ')
