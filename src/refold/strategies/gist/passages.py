"""Messages as passages: their lines, and the names on each; a gist as the lines it kept, under
their own messages.

Reading is expensive (half of a compaction), so what was read is remembered in the brief's scratch.
A gist that is folded again is read from the log, newest messages first, up to a bound; what lies
further back is taken from its own text. Neighbours: `material` asks, `lines` has the passage,
`names` finds the names.

Messages as lines, what a line tells of a name, and lines in pieces.

A line that says fewer than three words besides a name hardly tells it. A long line counts in pieces
around its names. Neighbours: `names` finds names, `choice` chooses among lines, `gist` makes a text
of them.

The lines of a span, numbered through all of its messages, and which line stood beside which.

Neighbour: `choice` speaks of lines by these numbers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold.core.laws import is_request
from refold.core.model import Message, Quote, Role, Slot, Span, Thinking, ToolCall, ToolResult
from refold.core.shortened import text_of
from refold.display import without_colors
from refold.ledger.arguments import arguments_of, command_of, paths_of
from refold.ledger.sentences import own_text
from refold.ledger.todos import stateless
from refold.ledger.tools import BY_NAME, compact
from refold.strategies.brief import Brief, tokens_of
from refold.strategies.gist.names import names_of

PIECE_CHARS = 160
LINE_CHARS_READ = 32_000  # as long as a result may be that stays on the page
BARE = 0.1  # worth of a line that says fewer than three words besides the name
GAP_CHARS = 3
WIDEN_CHARS = 12  # how far a piece may grow to end at a whole word
TEXTS_REMEMBERED = 20_000

_WORD = re.compile(r"[A-Za-z]{3,}")

# The parts of a line that are kept: start and end, in order, not touching.
Pieces = list[tuple[int, int]]


class Passage(Struct, gc=False):
    """A message as the gist sees it: its lines without blank ones, the names on each, and the
    numbers of those that a person typed."""

    seq: int
    role: Role
    lines: list[str]
    names: list[tuple[str, ...]]
    typed: Sequence[int] = ()
    source: str = ""  # of a result: the file or command that it is of


def passage(seq: int, role: Role, text: str) -> Passage:
    """A message by its text, without the colours of a terminal: they cost a model tokens, and tell
    it nothing."""
    lines = list(filter(None, map(str.strip, without_colors(text).splitlines())))
    names = [names_of(line[:LINE_CHARS_READ]) for line in lines]
    return Passage(seq, role, lines, names)


def names_on(passages: Iterable[Passage], lines: Mapping[int, Iterable[int]]) -> set[str]:
    """The names on some lines, which are given by the seq of their message and their numbers."""
    names = set[str]()
    for one in passages:
        for at in lines.get(one.seq, ()):
            names.update(one.names[at])
    return names


# --- what a text tells ---


def tells(text: str, words: int, name: str) -> bool:
    """Whether a text says at least three words besides the name; `words` is how many it has in
    all."""
    own = words_in(name)
    if words - own < 3:
        return False
    times = text.count(name)
    if times == 1 or (times < 3 and words - 2 * own >= 3):
        return True
    return count_words(text.replace(name, " ")) >= 3


def count_words(text: str) -> int:
    return len(_WORD.findall(text))


@lru_cache(maxsize=TEXTS_REMEMBERED)  # the same lines are weighed at every fold
def words_in(text: str) -> int:
    """How many words a text has, remembered."""
    return count_words(text)


class Shown(Struct):
    """What the rest of the page tells already: lines verbatim, the names on them, and those that
    a line tells well."""

    lines: set[str] = set()
    names: set[str] = set()
    well: set[str] = set()

    def add(self, given: Passage) -> None:
        """All of this message is on the page."""
        self.lines.update(given.lines)
        self.names.update(*given.names)
        well = self.well
        for line, names in zip(given.lines, given.names):
            if not well.issuperset(names):
                words = words_in(line[:LINE_CHARS_READ])
                well.update([name for name in names if tells(line, words, name)])

    def told(self) -> dict[str, float]:
        """How well each name is told."""
        return dict.fromkeys(self.names, BARE) | dict.fromkeys(self.well, 1.0)


def joined(parts: Iterable[Shown]) -> Shown:
    """What all of these tell together."""
    together = Shown()
    for one in parts:
        together.lines |= one.lines
        together.names |= one.names
        together.well |= one.well
    return together


# --- pieces ---


def windows(line: str, names: Sequence[str]) -> dict[tuple[int, int], list[str]]:
    """The pieces of a long line: for each name the characters around its first place; names may
    share one."""
    found: dict[tuple[int, int], list[str]] = {}
    last = len(line) - PIECE_CHARS
    for name in names:
        middle = line.find(name) + len(name) // 2
        start = max(0, min(middle - PIECE_CHARS // 2, last))
        found.setdefault((start, start + PIECE_CHARS), []).append(name)
    return found


def merged(pieces: Pieces, start: int, end: int) -> Pieces:
    """The pieces with one more; those that touch become one."""
    out: Pieces = []
    for a, b in sorted([*pieces, (start, end)]):
        if out and a <= out[-1][1] + GAP_CHARS:
            out[-1] = (out[-1][0], max(b, out[-1][1]))
        else:
            out.append((a, b))
    return out


def cut(line: str, pieces: Pieces) -> str:
    """The kept parts of a line, widened to whole words, with … where something is left out."""
    if pieces[0][0] == 0 and pieces[0][1] >= len(line):
        return line
    parts = [_widened(line, start, end) for start, end in pieces if start < len(line)]
    if pieces[-1][1] < len(line):
        parts.append("…")
    return " ".join(parts)


def _widened(line: str, start: int, end: int) -> str:
    """A part of a line, widened to whole words, with … in front if something is left out there."""
    start = _word_start(line, start)
    part = line[start : _word_end(line, end)]
    return f"… {part}" if start else part


def _word_start(line: str, start: int) -> int:
    """The start of the word at this place, or as far before it as a piece may grow."""
    furthest = max(0, start - WIDEN_CHARS)
    return max(line.rfind(" ", furthest, start) + 1, furthest)


def _word_end(line: str, end: int) -> int:
    """The end of the word at this place, unless it is too far away."""
    space = line.find(" ", end, end + WIDEN_CHARS)
    return space if space >= 0 else min(len(line), end)


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


class NumberedLines:
    """All lines of a span: their text, the names on them, and the message each belongs to."""

    def __init__(self, span: Sequence[Passage]) -> None:
        self.span = span
        self.lines: list[str] = []
        self.names: list[tuple[str, ...]] = []
        self.home: list[int] = []  # the message that a line belongs to
        self.first: list[int] = []  # the first line of a message
        # The line that stood beside a line: the next of its message, or the one before the last;
        # -1 if none.
        self.neighbour: list[int] = []
        for index, given in enumerate(span):
            self.first.append(len(self.lines))
            self.lines += given.lines
            self.names += given.names
            self.home += [index] * len(given.lines)
            last = len(self.lines) - 1
            self.neighbour += range(self.first[-1] + 1, last + 1)
            if given.lines:
                self.neighbour.append(last - 1 if len(given.lines) > 1 else -1)
        self.first.append(len(self.lines))

    def beside(self, at: int) -> list[int]:
        """The lines whose neighbour this line is: the one before it, and the last of the message
        if that is the next."""
        home = self.home[at]
        found = [at - 1] if at > self.first[home] else []
        if at + 2 == self.first[home + 1]:
            found.append(at + 1)
        return found

    def place(self, at: int) -> tuple[int, int]:
        """The seq of a line's message, and the number of the line in it."""
        home = self.home[at]
        return self.span[home].seq, at - self.first[home]
