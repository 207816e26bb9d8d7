"""Messages as passages: their lines, and the names on each; a gist as the lines it kept, under
their own messages.

Reading is dear (half of a compaction), so what was read is remembered in the brief's scratch. A
gist that is folded again is read from the log, newest messages first, up to a bound; what lies
further back is taken from its own text. Neighbours: `gist` asks, `lines` has the passage, `names`
finds the names.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from refold.core.fold import text_of
from refold.core.model import Message, Slot, Span, Thinking, ToolCall
from refold.ledger.todos import stateless
from refold.ledger.tools import BY_NAME, compact
from refold.strategies.brief import Brief
from refold.strategies.gist.lines import Passage, Shown, passage

READ_TOKENS_MAX = 150_000
READ_WINDOWS_MAX = 2
READ_AT_ONCE = 200
REMEMBERED_MAX = 1_000  # messages; the oldest are forgotten first
CHARS_PER_TOKEN = 4
NOTHING = Passage(0, "", [], [])  # stands for an event that is not a message

_TAG = re.compile(r"#(\d+) (user|agent|tool|system)")


def is_gist(slot: Slot) -> bool:
    return slot.standin and "gist" in (slot.notes or {})


def tag(given: Passage) -> str:
    """The line under which a message's lines stand in a gist."""
    return f"#{given.seq} {'agent' if given.role == 'assistant' else given.role}"


class Reader:
    """Reads slots as passages, for one plan."""

    def __init__(self, brief: Brief) -> None:
        self.brief = brief
        self.memory: dict[int, Passage] = brief.scratch.setdefault("passages", {})
        visible = sum(slot.tokens for slot in brief.view.slots)
        self.left = min(READ_TOKENS_MAX, READ_WINDOWS_MAX * brief.budget.window) - visible
        for seq in sorted(self.memory)[:-REMEMBERED_MAX]:
            del self.memory[seq]

    def read(self, slot: Slot) -> list[Passage]:
        """The lines of a message as it came, whatever the page shows of it; of a gist, those of
        the messages behind it as far as they can be read."""
        if not is_gist(slot):
            cut = slot.edits and not slot.standin
            return (self._batch(slot.span) if cut else []) or [self.shown(slot)]
        originals = self._originals(slot.span)
        first = originals[0].seq if originals else slot.last + 1
        return [*kept_lines(flat(slot.message), first), *originals]

    def shown(self, slot: Slot) -> Passage:
        """The lines of a message as the page shows it."""
        if slot.edits or slot.standin:
            return passage(slot.seq, slot.message.role, flat(slot.message))
        if slot.seq not in self.memory:
            self.memory[slot.seq] = passage(slot.seq, slot.message.role, flat(slot.message))
        return self.memory[slot.seq]

    def shown_by_gists(self, gists: Iterable[Slot]) -> Shown:
        """What gists show that stay as they are. Each is read once: what it shows is remembered
        by its text."""
        known: dict[str, Shown] = self.brief.scratch.get("gists", {})
        texts = [flat(slot.message) for slot in gists]
        now = {text: known.get(text) or _shown_by_gist(text) for text in texts}
        self.brief.scratch["gists"] = now
        together = Shown()
        for one in now.values():
            together.join(one)
        return together

    def _originals(self, span: Span) -> list[Passage]:
        """The messages of a span, from its end back to where the bound is met."""
        found: list[Passage] = []
        last = span.last
        while last >= span.first and self.left > 0:
            first = max(span.first, last - READ_AT_ONCE + 1)
            found[:0] = self._batch(Span(first, last))
            last = first - 1
        return found

    def _batch(self, span: Span) -> list[Passage]:
        seqs = range(span.first, span.last + 1)
        if any(seq not in self.memory for seq in seqs):
            self.memory.update(
                dict.fromkeys((seq for seq in seqs if seq not in self.memory), NOTHING)
            )
            for slot in self.brief.originals(span):
                if self.memory[slot.seq] is NOTHING:
                    self.memory[slot.seq] = passage(slot.seq, slot.message.role, flat(slot.message))
        found = [self.memory[seq] for seq in seqs if seq not in self.brief.view.pins]
        self.left -= sum(len(line) for one in found for line in one.lines) // CHARS_PER_TOKEN
        return [one for one in found if one is not NOTHING]


def kept_lines(text: str, before: int) -> list[Passage]:
    """The lines that a gist shows of messages before a seq, under the messages they came from."""
    found: list[tuple[int, str, list[str]]] = []
    for line in text.split("\n"):
        head = _TAG.fullmatch(line) if line.startswith("#") else None
        if head:
            found.append((int(head[1]), "assistant" if head[2] == "agent" else head[2], []))
        elif found:
            found[-1][2].append(line)
    return [passage(seq, role, "\n".join(lines)) for seq, role, lines in found if seq < before]


def _shown_by_gist(text: str) -> Shown:
    shown = Shown()
    for one in kept_lines(text, sys.maxsize):
        shown.add(one)
    return shown


def flat(message: Message) -> str:
    """A message as text: what it says, and each call as its name and a line per argument.
    Thinking is left out."""
    return "\n".join(part for part in _parts(message) if part)


def _parts(message: Message) -> Iterable[str]:
    for block in message.blocks:
        if isinstance(block, ToolCall):
            yield block.name
            yield argument_lines(block)
        elif not isinstance(block, Thinking):
            yield text_of(block)


def argument_lines(call: ToolCall) -> str:
    """A line per argument; the text itself where it is not an object. A list of to-dos is told
    without their states, because the ledger knows the newest, and an old one would open what is
    done."""
    values: Any = call.arguments
    if isinstance(values, str):
        try:
            values = msgspec.json.decode(values)
        except (msgspec.DecodeError, RecursionError):
            values = None
    if not isinstance(values, dict):
        return str(call.arguments)
    if BY_NAME.get(compact(call.name)) == "todo":
        values = stateless(values)
    return text_of(replace(call, arguments=values))
