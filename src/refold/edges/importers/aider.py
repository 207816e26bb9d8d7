"""aider's chat history, by its documented format only: the program was not run here.

`.aider.chat.history.md`: a heading begins a chat, `#### ` is what the user said, `> ` what the
program said (kept as a note), all else the model. Every chat of the file is a session of its own.
Neighbours: `entry`, `lines`.
"""

from __future__ import annotations

from collections.abc import Iterator

from refold.edges.importers.entry import Entry, Noted, Said, Where
from refold.edges.importers.lines import Lines, digest, happened

BEGINS = "# aider chat started at "
_USER, _PROGRAM = "#### ", "> "


def is_text(first: bytes) -> bool:
    """Whether this is the first line of such a history."""
    return first.lstrip().startswith(BEGINS.encode())


def entries(lines: Lines) -> Iterator[Entry]:
    """All chats of the file, one after the other."""
    chat = _Chat("", Where(line=1))
    for number, raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if line.startswith(BEGINS):
            yield from chat.end()
            began = line.removeprefix(BEGINS).strip()
            where = Where(line=number, session=digest(began.encode())[:8], at_ms=happened(began))
            chat = _Chat(began, where)
            continue
        kind, text = _kind_of(line)
        if kind != chat.kind:
            yield from chat.end()
            chat.begin(kind, number)
        chat.texts.append(text)
    yield from chat.end()


def _kind_of(line: str) -> tuple[str, str]:
    if line.startswith(_USER):
        return "user", line.removeprefix(_USER)
    if line.startswith(_PROGRAM):
        return "program", line.removeprefix(_PROGRAM)
    return "assistant", line


class _Chat:
    """The chat that is being read, and the lines that one voice has said so far."""

    def __init__(self, began: str, where: Where) -> None:
        self.began, self.where = began, where
        self.kind, self.count = "", 0
        self.texts: list[str] = []

    def begin(self, kind: str, number: int) -> None:
        self.kind, self.texts = kind, []
        self.where = Where(**{**self.where, "line": number})

    def end(self) -> Iterator[Entry]:
        text = "\n".join(self.texts).strip()
        self.texts = []
        if not text:
            return
        self.count += 1
        key = f"{self.began}:{self.count}:{digest(text.encode())}"[:400]
        if self.kind == "program":
            yield Noted(kind="program", data=text, key=key, **self.where)
        else:
            yield Said(message={"role": self.kind, "content": text}, key=key, **self.where)
