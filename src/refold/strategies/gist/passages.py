"""Messages as passages: their lines, and the names on each; a gist as the lines it kept, under
their own messages.

Reading is expensive (half of a compaction), so what was read is remembered in the brief's scratch.
A gist that is folded again is read from the log, newest messages first, up to a bound; what lies
further back is taken from its own text. Neighbours: `material` asks, `lines` has the passage,
`names` finds the names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from refold.core.laws import is_request
from refold.core.model import Message, Quote, Slot, Span, Thinking, ToolCall, ToolResult
from refold.core.shortened import text_of
from refold.display import without_colors
from refold.ledger.arguments import arguments_of, command_of, paths_of
from refold.ledger.sentences import own_text
from refold.ledger.todos import stateless
from refold.ledger.tools import BY_NAME, compact
from refold.strategies.brief import Brief, tokens_of
from refold.strategies.gist.lines import Passage, Shown, joined, passage

READ_TOKENS_MAX = 150_000
READ_WINDOWS_MAX = 2
READ_AT_ONCE = 200
REMEMBERED_MAX = 1_000  # messages; the oldest are forgotten first
CHARS_PER_TOKEN = 4
SOURCE_CHARS_READ, PATH_PARTS = 2_000, 2
SAMPLE_SLOTS, SAMPLE_CHARS = 16, 1_000
PER_CHAR_MIN = 0.05  # tokens
NOTHING = Passage(0, "user", [], [])  # stands for an event that is not a message


def is_gist(slot: Slot) -> bool:
    return slot.summary is not None and slot.summary.gist is not None


def is_starved(slot: Slot) -> bool:
    """Whether a gist had too little room, and should be made again as soon as possible."""
    return slot.summary is not None and slot.summary.gist is not None and slot.summary.gist.starved


def is_typed(slot: Slot) -> bool:
    """Whether a slot holds words that a person typed."""
    return is_request(slot) and bool(own_text(slot.message).strip())


class Reader:
    """Reads slots as passages, for one plan."""

    def __init__(self, brief: Brief) -> None:
        self.brief = brief
        self.memory: dict[int, Passage] = brief.scratch.setdefault("passages", {})
        self.sources: dict[str, str] = brief.scratch.setdefault("sources", {})  # by id of the call
        most = min(READ_TOKENS_MAX, READ_WINDOWS_MAX * brief.budget.window)
        self.left = most - tokens_of(brief.slots)
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        for seq in sorted(self.memory)[:-REMEMBERED_MAX]:
            del self.memory[seq]
        for id in list(self.sources)[:-REMEMBERED_MAX]:
            del self.sources[id]

    def read(self, slot: Slot) -> list[Passage]:
        """The lines of a message as it came, whatever the page shows of it; of a gist, those of
        the messages it stands for as far as they can be read."""
        if is_gist(slot):
            return self._read_gist(slot)
        if slot.edits and not slot.standin:
            return self._read_span(slot.span) or [self.shown(slot)]
        return [self.shown(slot)]

    def _read_gist(self, slot: Slot) -> list[Passage]:
        """The newest messages of a gist from the log, the others as far as it quotes them."""
        originals = self._read_back(slot.span)
        first = originals[0].seq if originals else slot.last + 1
        return [*quoted_passages(slot, first), *originals]

    def shown(self, slot: Slot) -> Passage:
        """The lines of a message as the page shows it."""
        if slot.edits or slot.standin:
            return self._passage_of(slot)
        known = self.memory.get(slot.seq)
        if known is None:
            known = self.memory[slot.seq] = self._passage_of(slot)
        return known

    def shown_by_gists(self, gists: Iterable[Slot]) -> Shown:
        """What gists show that stay as they are. Each is read once: what it shows is remembered
        by its text."""
        known: dict[str, Shown] = self.brief.scratch.get("gists", {})
        now: dict[str, Shown] = {}
        for slot in gists:
            text = flat(slot.message)
            now[text] = known.get(text) or _shown_by_gist(slot)
        self.brief.scratch["gists"] = now
        return joined(now.values())

    def _read_back(self, span: Span) -> list[Passage]:
        """The messages of a span, from its end back to where the bound is met."""
        found: list[Passage] = []
        last = span.last
        while last >= span.first and self.left > 0:
            first = max(span.first, last - READ_AT_ONCE + 1)
            found[:0] = self._read_span(Span(first, last))
            last = first - 1
        return found

    def _read_span(self, span: Span) -> list[Passage]:
        """The messages of a span, without pinned ones."""
        self._remember(span)
        pins = self.brief.view.pins
        seqs = [seq for seq in range(span.first, span.last + 1) if seq not in pins]
        found = [self.memory[seq] for seq in seqs]
        self.left -= chars_of(found) // CHARS_PER_TOKEN
        return [one for one in found if one is not NOTHING]

    def _remember(self, span: Span) -> None:
        """Reads the messages of a span that are not remembered yet."""
        memory = self.memory
        unread = [seq for seq in range(span.first, span.last + 1) if seq not in memory]
        if not unread:
            return
        memory.update(dict.fromkeys(unread, NOTHING))
        for slot in self.brief.originals(span):
            if memory[slot.seq] is NOTHING:
                memory[slot.seq] = self._passage_of(slot)

    def _passage_of(self, slot: Slot) -> Passage:
        one = passage(slot.seq, slot.message.role, flat(slot.message))
        one.source = self._source_of(slot.message)
        if is_request(slot):
            one.typed = _typed_numbers(one.lines, own_text(slot.message))
        return one

    def _source_of(self, message: Message) -> str:
        """The files or commands that the results in a message are of, as far as their calls were
        read before."""
        found: dict[str, None] = {}
        for block in message.blocks:
            if isinstance(block, ToolCall):
                self.sources[block.id] = source_of(block)
            elif isinstance(block, ToolResult):
                found[self.sources.get(block.call, "")] = None
        return ", ".join(filter(None, found))[:SOURCE_CHARS_READ]


def source_of(call: ToolCall) -> str:
    """The end of the path or the beginning of the command of a call; nothing if it has neither."""
    given = arguments_of(call)
    if paths := paths_of(given):
        return "/".join(paths[0].split("/")[-PATH_PARTS:])
    command = command_of(given) or ""
    text = command if isinstance(command, str) else " ".join(command)
    return text[:SOURCE_CHARS_READ]


def chars_of(passages: Iterable[Passage]) -> int:
    """How many characters the lines of these messages have."""
    return sum(len(line) for one in passages for line in one.lines)


def _typed_numbers(lines: Sequence[str], own: str) -> Sequence[int]:
    """The numbers of the lines that are the user's own words, and not put there by the agent."""
    said = {line.strip() for line in without_colors(own).splitlines()}
    return [at for at, line in enumerate(lines) if line in said]


def quoted_passages(slot: Slot, before: int = sys.maxsize) -> list[Passage]:
    """What a gist quotes of messages before a seq."""
    quotes = slot.summary.quotes if slot.summary else ()
    return [_quoted_passage(quote) for quote in quotes if quote.seq < before]


def _quoted_passage(quote: Quote) -> Passage:
    """What a gist kept of a message; what it kept of a user's was typed, for the most part."""
    one = passage(quote.seq, quote.role, "\n".join(quote.lines))
    one.source = quote.source
    if quote.role == "user":
        one.typed = range(len(one.lines))
    return one


def _shown_by_gist(slot: Slot) -> Shown:
    shown = Shown()
    for one in quoted_passages(slot):
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
    without their states: the ledger knows the newest, and an old one would reopen what is done."""
    values = _arguments(call)
    if not isinstance(values, dict):
        return str(call.arguments)
    if BY_NAME.get(compact(call.name)) == "todo":
        values = stateless(values)
    return text_of(replace(call, arguments=values))


def _arguments(call: ToolCall) -> Any:
    """The arguments decoded; None if they came as text that is not JSON."""
    if not isinstance(call.arguments, str):
        return call.arguments
    try:
        return msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        return None


def per_char(brief: Brief, slots: Sequence[Slot]) -> float:
    """Tokens per character of what these messages say, from a sample of them."""
    sample = _sample(slots)
    return max(PER_CHAR_MIN, brief.text_tokens(sample) / max(1, len(sample)))


def _sample(slots: Sequence[Slot]) -> str:
    """The beginnings of some messages, evenly spread; of few, more parts of each."""
    step = max(1, len(slots) // SAMPLE_SLOTS)
    chosen = slots[::step]
    parts = max(1, SAMPLE_SLOTS // max(1, len(chosen)))
    return "\n".join(part for slot in chosen for part in _spread(flat(slot.message), parts))


def _spread(text: str, parts: int) -> Iterable[str]:
    """So many parts of a long text, evenly spread; of a short one its beginning."""
    if len(text) <= parts * SAMPLE_CHARS:
        return [text[:SAMPLE_CHARS]]
    starts = [len(text) * part // parts for part in range(parts)]
    return [text[start : start + SAMPLE_CHARS] for start in starts]
