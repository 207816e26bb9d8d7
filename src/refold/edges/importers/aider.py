"""aider's chat history: `.aider.chat.history.md`.

A heading begins a chat, `#### ` marks the user's text, `> ` the program's (a note); everything else
is the model's. Lines of the first two end in two spaces. The program's lines also name the model
and the tokens of a reply. Every chat of the file is a separate session. Neighbours: `entry`,
`lines`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from refold.core.model import Usage
from refold.edges.importers.entry import (
    Entry,
    MessageEntry,
    NoteEntry,
    SessionFacts,
    UsageEntry,
    Where,
)
from refold.edges.importers.lines import Lines, Reader, digest, time_ms

BEGINS = "# aider chat started at "
_USER, _PROGRAM = "#### ", "> "
_MODEL = re.compile(r"^(?:Main model|Model): (\S+) with ", re.MULTILINE)
_TOKENS = re.compile(r"Tokens: ([\d.,]+k?) sent,(?: .*?,)? ([\d.,]+k?) received")


def is_text(first: bytes) -> bool:
    """Whether a first line begins a chat history."""
    return first.lstrip().startswith(BEGINS.encode())


def entries(lines: Lines) -> Iterator[Entry]:
    """All chats of the file, one after the other."""
    chat = _Chat("", Where(line=1))
    before = 0
    for number, raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        # Empty lines are skipped by the walk, but belong to an answer.
        chat.texts += [""] * (number - before - 1)
        before = number
        if line.startswith(BEGINS):
            yield from chat.end()
            began = line.removeprefix(BEGINS).strip()
            where = Where(line=number, session=digest(began.encode())[:8], at_ms=time_ms(began))
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
        return "user", line.removeprefix(_USER).rstrip()
    if line.startswith(_PROGRAM):
        return "program", line.removeprefix(_PROGRAM).rstrip()
    return "assistant", line


class _Chat:
    """The chat being read, and the lines of the current speaker so far."""

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
        if (at_ms := self.where.get("at_ms")) is not None:
            self.where["at_ms"] = at_ms + 1  # the file only has the start time of the chat
        key = f"{self.began}:{self.count}:{digest(text.encode())}"[:400]
        if self.kind == "program":
            yield NoteEntry(kind="program", data=text, key=key, **self.where)
            yield from self._facts(text, key)
        else:
            yield MessageEntry(message={"role": self.kind, "content": text}, key=key, **self.where)

    def _facts(self, text: str, key: str) -> Iterator[Entry]:
        """The model, and the usage of a reply, if the program names them."""
        if model := _MODEL.search(text):
            yield SessionFacts(model=model[1].rpartition("/")[2], **self.where)
        if tokens := _TOKENS.search(text):
            usage = Usage(input=_count(tokens[1]), output=_count(tokens[2]), response=key)
            yield UsageEntry(usage=usage, key=key, **self.where)


def _count(text: str) -> int:
    """A token count in the program's notation: 728, or 4.1k."""
    digits = text.rstrip("k.,").replace(",", "")
    try:
        return round(float(digits) * (1_000 if text.endswith("k") else 1))
    except ValueError:
        return 0


READER = Reader(is_start=is_text, entries=entries)
