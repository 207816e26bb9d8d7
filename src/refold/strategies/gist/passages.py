"""Messages as passages: their lines, and the names on each; a gist as the lines it kept, under
their own messages.

Reading is expensive (half of a compaction), so passages are remembered in the brief's scratch. A
gist that is folded again is read from the log, newest messages first, up to a bound; older ones are
taken from its own text. A line with fewer than three words besides a name hardly covers that name.
A long line counts in pieces around its names. Neighbours: `layout` reads, `names` finds the names,
`choice` chooses among lines by their numbers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from refold.core.laws import is_request
from refold.core.model import Message, Role, Slot, Span, Thinking, ToolCall, ToolResult
from refold.core.shortened import text_of
from refold.display import without_colors
from refold.ledger.arguments import arguments_of, command_of, is_command_key, key_of, paths_of
from refold.ledger.facts import CHANGES
from refold.ledger.sentences import own_text
from refold.ledger.shell import reading_of
from refold.ledger.todos import stateless
from refold.ledger.tools import BY_NAME, compact, kind_of_tool
from refold.strategies.brief import Brief
from refold.strategies.gist.names import names_of
from refold.strategies.protected_messages import tokens_of

PIECE_CHARS = 160
LINE_CHARS_READ = 32_000  # the longest result that stays on the page
BARE = 0.1  # coverage by a line with fewer than three words besides the name
GAP_CHARS = 3
PATCH = "*** Begin Patch"
WIDEN_CHARS = 12  # maximum growth of a piece to end at a word boundary
TEXTS_REMEMBERED = 20_000
READ_TOKENS_MAX = 150_000
READ_WINDOWS_MAX = 2
READ_AT_ONCE = 200
REMEMBERED_MAX = 1_000  # messages; the oldest are forgotten first
CHARS_PER_TOKEN = 4
SOURCE_CHARS_READ, PATH_PARTS = 2_000, 2
ROUTINE_LINES = 2  # of the report of a change
SAMPLE_SLOTS, SAMPLE_CHARS = 16, 1_000
PER_CHAR_MIN = 0.05  # tokens

_WORD = re.compile(r"[A-Za-z]{3,}")

# The parts of a line that are kept: start and end, in order, not touching.
Pieces = list[tuple[int, int]]


# A line of a result that says only that something went well.
_ROUTINE = re.compile(
    r"(?:ok|pass(?:ed)?|-+ pass:?|[\u2713\u2714\u2705])(?:\s.*|$)"
    r"|.{0,200}\b(?:updated|written|created|saved|applied) successfully\b.{0,80}"
    r"|(?:process )?\W?exit(?:ed)?(?: with)?[ _]?(?:code|status)\W{1,3}0\W*",
    re.IGNORECASE,
)

# The origin of a line, one letter each: prose of the agent, a command or another argument of one
# line, a line of a longer command, of new text, of text that is never quoted (an edit replaced it,
# a tool's name, a limit, the report of a change or of success), of a file that the agent read, of
# anything else.
SAID, TYPED, COMMAND, ARGUMENT, SCRIPT, WRITTEN, REPLACED, FILE, OTHER = "stcamprfo"


class Passage(Struct, gc=False):
    """A message as the gist sees it: its lines without blank ones, the names on each, their
    origins (of all `OTHER` if empty), and the numbers of typed lines."""

    seq: int
    role: Role
    lines: list[str]
    names: list[tuple[str, ...]]
    typed: Sequence[int] = ()
    source: str = ""  # the file or command of a result
    origins: str = ""


def passage(seq: int, role: Role, text: str) -> Passage:
    """The passage of a message, from its text."""
    lines = lines_in(text)
    names = [names_of(line[:LINE_CHARS_READ]) for line in lines]
    return Passage(seq, role, lines, names)


def lines_in(text: str) -> list[str]:
    """The lines of the text, without blank ones and the colors of a terminal, which cost tokens for
    nothing."""
    return list(filter(None, map(str.strip, without_colors(text).splitlines())))


# --- coverage of names ---


def tells(text: str, words: int, name: str) -> bool:
    """Whether the text has at least three words besides the name; `words` is its word count."""
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
    """The number of words in the text, remembered."""
    return count_words(text)


class Shown(Struct):
    """The lines on the rest of the page, the names on them, and the names they cover well."""

    lines: set[str] = set()
    names: set[str] = set()
    well: set[str] = set()

    def add(self, passage: Passage) -> None:
        """Counts all of this message as shown."""
        self.lines.update(passage.lines)
        self.names.update(*passage.names)
        well = self.well
        for line, names in zip(passage.lines, passage.names):
            if not well.issuperset(names):
                words = words_in(line[:LINE_CHARS_READ])
                well.update([name for name in names if tells(line, words, name)])

    def told(self) -> dict[str, float]:
        """The coverage of each name, from 0 to 1."""
        return dict.fromkeys(self.names, BARE) | dict.fromkeys(self.well, 1.0)


# --- pieces ---


def windows(line: str, names: Sequence[str]) -> dict[tuple[int, int], list[str]]:
    """The pieces of a long line: for each name the characters around its first occurrence; names
    may share one."""
    pieces: dict[tuple[int, int], list[str]] = {}
    last = len(line) - PIECE_CHARS
    for name in names:
        middle = line.find(name) + len(name) // 2
        start = max(0, min(middle - PIECE_CHARS // 2, last))
        pieces.setdefault((start, start + PIECE_CHARS), []).append(name)
    return pieces


def merged(pieces: Pieces, start: int, end: int) -> Pieces:
    """The pieces with one more; touching ones are merged."""
    joined: Pieces = []
    for a, b in sorted([*pieces, (start, end)]):
        if joined and a <= joined[-1][1] + GAP_CHARS:
            joined[-1] = (joined[-1][0], max(b, joined[-1][1]))
        else:
            joined.append((a, b))
    return joined


def cut(line: str, pieces: Pieces) -> str:
    """The kept parts of a line, widened to whole words, with … for each gap."""
    if pieces[0][0] == 0 and pieces[0][1] >= len(line):
        return line
    parts: list[str] = []
    for start, end in pieces:
        if start < len(line):
            furthest = max(0, start - WIDEN_CHARS)
            start = max(line.rfind(" ", furthest, start) + 1, furthest)
            space = line.find(" ", end, end + WIDEN_CHARS)
            part = line[start : space if space >= 0 else min(len(line), end)]
            parts.append(f"… {part}" if start else part)
    if pieces[-1][1] < len(line):
        parts.append("…")
    return " ".join(parts)


# --- reading ---

NOTHING = Passage(0, "user", [], [])  # the passage of an event that is not a message


def is_gist(slot: Slot) -> bool:
    return slot.summary is not None and slot.summary.gist is not None


def is_starved(slot: Slot) -> bool:
    """Whether a gist had too little room, and should be folded again as soon as possible."""
    gist = slot.summary.gist if slot.summary else None
    return gist is not None and gist.starved


class Reader:
    """Reads slots as passages, for one plan."""

    def __init__(self, brief: Brief) -> None:
        self.brief = brief
        self.memory: dict[int, Passage] = brief.scratch.setdefault("passages", {})
        # By the id of a call: the source of its result, and the origin of the result's lines.
        self.sources: dict[str, tuple[str, str]] = brief.scratch.setdefault("sources", {})
        most = min(READ_TOKENS_MAX, READ_WINDOWS_MAX * brief.budget.window)
        self.left = most - tokens_of(brief.slots)
        for seq in sorted(self.memory)[:-REMEMBERED_MAX]:
            del self.memory[seq]
        for id in list(self.sources)[:-REMEMBERED_MAX]:
            del self.sources[id]

    def read(self, slot: Slot) -> list[Passage]:
        """The original lines of a message, whatever the page shows of it. Of a gist, the newest
        messages are read from the log, and the others as far as it quotes them."""
        if is_gist(slot):
            originals: list[Passage] = []
            last = slot.last
            while last >= slot.seq and self.left > 0:
                first = max(slot.seq, last - READ_AT_ONCE + 1)
                originals[:0] = self._read_span(Span(first, last))
                last = first - 1
            before = originals[0].seq if originals else slot.last + 1
            return [*quoted_passages(slot, before), *originals]
        if slot.edits and not slot.standin:
            return self._read_span(slot.span) or [self.shown(slot)]
        return [self.shown(slot)]

    def shown(self, slot: Slot) -> Passage:
        """The lines of a message as the page shows it."""
        if slot.edits or slot.standin:
            return self._passage_of(slot)
        if slot.seq not in self.memory:
            self.memory[slot.seq] = self._passage_of(slot)
        return self.memory[slot.seq]

    def shown_by_gists(self, gists: Iterable[Slot]) -> Shown:
        """The lines and names of gists that stay as they are. Each is read once and remembered by
        its text."""
        known: dict[str, Shown] = self.brief.scratch.get("gists", {})
        now: dict[str, Shown] = {}
        for slot in gists:
            text = flat(slot.message)
            if not (shown := known.get(text)):
                shown = Shown()
                for quoted in quoted_passages(slot):
                    shown.add(quoted)
            now[text] = shown
        self.brief.scratch["gists"] = now
        together = Shown()
        for shown in now.values():
            together.lines |= shown.lines
            together.names |= shown.names
            together.well |= shown.well
        return together

    def _read_span(self, span: Span) -> list[Passage]:
        """The messages of a span, without pinned ones."""
        memory, seqs = self.memory, range(span.first, span.last + 1)
        unread = [seq for seq in seqs if seq not in memory]
        if unread:
            memory.update(dict.fromkeys(unread, NOTHING))
            for slot in self.brief.originals(span):
                if memory[slot.seq] is NOTHING:
                    memory[slot.seq] = self._passage_of(slot)
        messages = [memory[seq] for seq in seqs if seq not in self.brief.view.pins]
        self.left -= chars_of(messages) // CHARS_PER_TOKEN
        return [message for message in messages if message is not NOTHING]

    def _passage_of(self, slot: Slot) -> Passage:
        parts = parts_of(slot.message)
        read = passage(slot.seq, slot.message.role, "\n".join(part for _, part in parts))
        if slot.message.role == "assistant":
            read.origins = "".join(origins_in(origin, part) for origin, part in parts)
            # Not the words of a tool's schema, nor its limits and switches.
            if schema := schema_words(slot.message):
                read.names = [
                    tuple([name for name in names if name not in schema]) for names in read.names
                ]
        sources: dict[str, None] = {}  # of the results, as far as their calls were read before
        origins = set[str]()
        for block in slot.message.blocks:
            if isinstance(block, ToolCall):
                source = source_of(block, self.brief.redact)
                self.sources[block.id] = source, origin_of_result(block)
            elif isinstance(block, ToolResult):
                source, origin = self.sources.get(block.call, ("", OTHER))
                sources[source] = None
                origins.add(origin)
        read.source = ", ".join(filter(None, sources))[:SOURCE_CHARS_READ]
        if origins == {FILE}:
            read.origins = FILE * len(read.lines)
        elif origins == {REPLACED} and len(read.lines) <= ROUTINE_LINES:
            read.origins = REPLACED * len(read.lines)
        elif origins:
            routine = [_ROUTINE.fullmatch(line) for line in read.lines]
            read.origins = "".join([REPLACED if match else OTHER for match in routine])
        if is_request(slot):  # the user's own words, not lines that the agent added
            own = without_colors(own_text(slot.message)).splitlines()
            typed = {line.strip() for line in own}
            read.typed = [at for at, line in enumerate(read.lines) if line in typed]
            read.origins = "".join(TYPED if line in typed else OTHER for line in read.lines)
        return read


def source_of(call: ToolCall, redact: Callable[[str], str]) -> str:
    """The end of the path or the beginning of the command of a call; empty if it has neither. The
    end of a path may be a secret that only its beginning shows."""
    arguments = arguments_of(call)
    if paths := paths_of(arguments):
        return "/".join(redact(paths[0]).split("/")[-PATH_PARTS:])
    command = command_of(arguments) or ""
    text = command if isinstance(command, str) else " ".join(command)
    return text[:SOURCE_CHARS_READ]


def origin_of_result(call: ToolCall) -> str:
    """The origin of the lines of a call's result: the text of files, the report of a change, which
    adds nothing to the call, or other output."""
    arguments = arguments_of(call)
    command = command_of(arguments)
    has_path = bool(paths_of(arguments))
    kind = kind_of_tool(call.name, arguments, has_path=has_path, has_command=command is not None)
    if kind == "run" and command:
        reading = reading_of(command)
        is_read = reading.plain and any(effect.kind == "read" for effect in reading.effects)
        return FILE if is_read else OTHER
    return FILE if kind == "read" else REPLACED if kind in CHANGES else OTHER


def chars_of(passages: Iterable[Passage]) -> int:
    """The number of characters on the lines of these messages."""
    return sum(len(line) for passage in passages for line in passage.lines)


def quoted_passages(slot: Slot, before: int = sys.maxsize) -> list[Passage]:
    """The quotes of a gist from messages before a seq. Nearly all kept lines of a user's message
    were typed."""
    passages: list[Passage] = []
    for quote in slot.summary.quotes if slot.summary else ():
        if quote.seq < before:
            quoted = passage(quote.seq, quote.role, "\n".join(quote.lines))
            quoted.source = quote.source
            if quote.role == "user":
                quoted.typed = range(len(quoted.lines))
            passages.append(quoted)
    return passages


def flat(message: Message) -> str:
    """A message as text, without thinking: a call is its name and a line per argument."""
    return "\n".join(part for _, part in parts_of(message))


def parts_of(message: Message) -> list[tuple[str, str]]:
    """The parts of a message's text, each with its origin. A list of to-dos is read without states:
    the ledger has the newest, and an old state would reopen a finished item."""
    parts: list[tuple[str, str]] = []
    own = SAID if message.role == "assistant" else OTHER
    for block in message.blocks:
        if isinstance(block, ToolCall):
            parts.append((REPLACED, block.name))  # says nothing on its own
            values = _arguments(block)
            if not isinstance(values, dict):
                parts.append((SCRIPT, str(block.arguments)))
                continue
            if BY_NAME.get(compact(block.name)) == "todo":
                values = stateless(values)
            parts += [(_origin(name, values), f"{name}: {value}") for name, value in values.items()]
        elif not isinstance(block, Thinking):
            parts.append((own, text_of(block)))
    return [part for part in parts if part[1]]


def _origin(name: str, arguments: dict[str, Any]) -> str:
    """The origin of the lines of an argument. An argument `old…` with a sibling `new…` is the text
    that an edit replaces."""
    key = key_of(name)
    if key.startswith("old") and any(key_of(other) == f"new{key[3:]}" for other in arguments):
        return REPLACED
    value = arguments[name]
    if is_scalar(value):
        return REPLACED
    is_long = isinstance(value, str) and "\n" in value.strip()
    if is_command_key(key):
        return SCRIPT if is_long else COMMAND
    return WRITTEN if is_long else ARGUMENT


def schema_words(message: Message) -> set[str]:
    """The names of the tools that a message calls and of their arguments, and the values that are
    not text, such as a limit."""
    schema = set[str]()
    for block in message.blocks:
        if isinstance(block, ToolCall):
            schema.add(block.name)
            values = _arguments(block)
            if isinstance(values, dict):
                schema.update(values)
                schema.update(str(value) for value in values.values() if is_scalar(value))
    return schema


def is_scalar(value: object) -> bool:
    """Whether the value of an argument is a number, a switch, or nothing at all."""
    return value is None or isinstance(value, int | float)


def origins_in(origin: str, text: str) -> str:
    """The origins of the lines of the text. In a patch, the removed lines were replaced."""
    lines = lines_in(text)
    if origin in (SCRIPT, WRITTEN) and PATCH in text:
        return "".join(REPLACED if line.startswith("-") else WRITTEN for line in lines)
    return origin * len(lines)


def _arguments(call: ToolCall) -> Any:
    """The arguments decoded; None if they came as text that is not JSON."""
    if not isinstance(call.arguments, str):
        return call.arguments
    try:
        return msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        return None


def per_char(brief: Brief, slots: Sequence[Slot]) -> float:
    """Tokens per character of these messages, from a sample: the beginnings of some messages,
    evenly spread; of few messages, more parts of each."""
    chosen = slots[:: max(1, len(slots) // SAMPLE_SLOTS)]
    count = max(1, SAMPLE_SLOTS // max(1, len(chosen)))
    parts: list[str] = []
    for slot in chosen:
        text = flat(slot.message)
        is_long = len(text) > count * SAMPLE_CHARS
        starts = [len(text) * at // count for at in range(count)] if is_long else [0]
        parts += [text[start : start + SAMPLE_CHARS] for start in starts]
    sample = "\n".join(parts)
    return max(PER_CHAR_MIN, brief.text_tokens(sample) / max(1, len(sample)))


class NumberedLines:
    """All lines of a span, numbered through its messages: their text, the names on them, and the
    message each belongs to."""

    def __init__(self, span: Sequence[Passage]) -> None:
        self.span = span
        self.lines: list[str] = []
        self.names: list[tuple[str, ...]] = []
        self.origins = ""
        self.home: list[int] = []  # the message of a line
        self.first: list[int] = []  # the first line of a message
        # The next line of the message, for the last line the one before it; -1 if there is none.
        self.neighbour: list[int] = []
        origins: list[str] = []
        for index, passage in enumerate(span):
            self.first.append(len(self.lines))
            self.lines += passage.lines
            self.names += passage.names
            origins.append(passage.origins or OTHER * len(passage.lines))
            self.home += [index] * len(passage.lines)
            last = len(self.lines) - 1
            self.neighbour += range(self.first[-1] + 1, last + 1)
            if passage.lines:
                self.neighbour.append(last - 1 if len(passage.lines) > 1 else -1)
        self.first.append(len(self.lines))
        self.origins = "".join(origins)

    def beside(self, at: int) -> list[int]:
        """The lines with this neighbour: the one before it, and the last of the message if that is
        the next."""
        home = self.home[at]
        lines = [at - 1] if at > self.first[home] else []
        if at + 2 == self.first[home + 1]:
            lines.append(at + 1)
        return lines

    def location(self, at: int) -> tuple[int, int]:
        """The seq of a line's message, and the number of the line in it."""
        home = self.home[at]
        return self.span[home].seq, at - self.first[home]
