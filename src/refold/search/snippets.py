"""Search filters and hits: the snippet of a hit with its matches, and its visibility on the page.

A snippet is the part of a text with the most terms of the query, closest together. A short message
is shown whole, and most of a user's are short: people say what matters in a few sentences. Terms
are compared as in the index, by the tokenizer's stems; names also part by part, and Chinese,
Japanese and Korean character by character. Long text is truncated first. Visibility comes from a
bookmark and the few events after it; it is unknown if finding out would take reading all of a long
log. Neighbours: `words` builds the query, `searcher` asks.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import islice

from msgspec import Struct

from refold.checked import quoted
from refold.core import bookmark
from refold.core.active_events import CONTROLS
from refold.core.model import ROLES, Conversation, Event, Role
from refold.display import without_colors
from refold.errors import Invalid
from refold.log.log import Log
from refold.patterns import regex
from refold.search.words import Query, forms_of, parts_of
from refold.stores.protocol import Store

SNIPPET_CHARS, SHORT_CHARS, USER_CHARS, LEAD_CHARS = 240, 480, 900, 60
TEXT_CHARS_MAX, MARKS_MAX = 200_000, 64
TAIL_EVENTS = 2_000
PAGES_KEPT = 100
KINDS = ("message", "artifact", "meta", "checkpoint", "edit")
# A summary repeats its messages, so it is found only on request.
KINDS_USUAL = KINDS[:4]
LIMIT_MAX = 1_000
# Results of our own tools repeat other hits, so they are found only on request.
OWN_PREFIX = "refold_"
_SPACES = regex(r"\s{2,}|[^\S ]")  # all but a single space

Tokens = Callable[[str], list[tuple[int, int, str]]]
Place = tuple[int, int, str]  # start, end and the term
Mark = tuple[int, int]


class Wanted(Struct, frozen=True):
    """The terms of a query in comparable form: stems, and words of scripts without spaces."""

    stems: frozenset[str]
    unspaced: tuple[str, ...]


def wanted_of(query: Query, tokens: Tokens) -> Wanted:
    texts = [form for term in query.all_terms for form in forms_of(term.text)]
    stems = frozenset(stem for text in texts for _, _, stem in tokens(text))
    return Wanted(stems, tuple(text for text in texts if not text.isascii()))


def snippet_of(
    text: str, wanted: Wanted, tokens: Tokens, chars: int = SNIPPET_CHARS, short_chars: int = 0
) -> tuple[str, tuple[Mark, ...], int]:
    """The snippet of this length, its matches, and its start in the text; a short text is shown
    whole."""
    text = without_colors(text[:TEXT_CHARS_MAX], same_length=True)
    places = _places(text, wanted, tokens)
    is_whole = len(text) <= max(chars, short_chars)
    start, end = (0, len(text)) if is_whole else _widened(text, _best_start(places, chars), chars)
    inside = [(first, last) for first, last, _ in places if start < last <= end]
    marks = [(max(first, start) - start, last - start) for first, last in inside[:MARKS_MAX]]
    snippet, moved = _flattened(text[start:end], marks, start > 0, end < len(text))
    return snippet, moved, start


def _places(text: str, wanted: Wanted, tokens: Tokens) -> list[Place]:
    """The matches in the text, by character position, in order and without overlaps."""
    at = _characters(text)
    there = tokens(text)
    found = [(at(start), at(end), stem) for start, end, stem in there if stem in wanted.stems]
    if not found:
        # The match can only be a part of a name.
        for first, last, _ in there:
            start, end = at(first), at(last)
            parts = parts_of(text[start:end])
            stems = [stem for _, _, stem in tokens(parts)] if parts else []
            found += [(start, end, stem) for stem in stems if stem in wanted.stems]
    for word in wanted.unspaced:
        matches = islice(re.finditer(re.escape(word), text), MARKS_MAX)
        found += [(match.start(), match.end(), word) for match in matches]
    out: list[Place] = []
    reached = 0
    for place in sorted(found):
        if place[0] >= reached:
            out.append(place)
            reached = place[1]
    return out


def _characters(text: str) -> Callable[[int], int]:
    """A function from byte positions in the UTF-8 of the text to character positions."""
    if text.isascii():
        return lambda place: place
    encoded = text.encode("utf-8", "replace")
    reached = (0, 0)

    def at(place: int) -> int:
        nonlocal reached
        # Tokens come in order, so only the bytes between two of them are counted.
        byte, character = reached if reached[0] <= place else (0, 0)
        between = encoded[byte:place].decode("utf-8", "ignore")
        reached = place, character + len(between)
        return reached[1]

    return at


def _best_start(places: list[Place], chars: int) -> int:
    """The start of the part with the most different terms; of several, of the one where they are
    closest together: what a long text repeats says less than where its terms meet."""
    room = chars - 2 * LEAD_CHARS if chars > 4 * LEAD_CHARS else chars // 2
    if places and places[-1][1] <= places[0][0] + room:
        return places[0][0]
    best, best_start = (0, 0), 0
    for index, (start, _, _) in enumerate(places):
        there: dict[str, int] = {}
        for _, end, term in places[index : index + MARKS_MAX]:
            if end <= start + room:
                there.setdefault(term, end)
        worth = len(there), start - max(there.values(), default=start)
        if worth > best:
            best, best_start = worth, start
    return best_start


def _widened(text: str, start: int, chars: int) -> Mark:
    """The window around the first match, from the start of its line or of a word shortly before."""
    low = max(0, start - LEAD_CHARS)
    if low:
        line, space = text.rfind("\n", low, start), text.find(" ", low, start)
        if line >= 0:
            low = line + 1
        elif space >= 0:
            low = space + 1
    while low < len(text) and text[low].isspace():
        low += 1
    return low, min(len(text), low + chars)


def _flattened(
    part: str, marks: list[Mark], cut_before: bool, cut_after: bool
) -> tuple[str, tuple[Mark, ...]]:
    """The snippet on one line, with every run of white space as one space, and its marks."""
    # The ends of the runs, and the number of characters removed up to each.
    ends, removed = [0], [0]
    # Most texts have nothing to flatten, and this is the fastest check.
    is_flat = " ".join(part.split()) == part
    for run in _SPACES.finditer(part) if not is_flat else ():
        ends.append(run.end())
        removed.append(removed[-1] + len(run[0]) - 1)

    def moved(place: int) -> int:
        return place - removed[bisect_right(ends, place) - 1] + cut_before

    flat = part if is_flat else _SPACES.sub(" ", part)
    line = f"{'…' if cut_before else ''}{flat}{'…' if cut_after else ''}"
    return line, tuple((moved(first), moved(last)) for first, last in marks)


class ShownMessages:
    """The messages shown on the pages of one store, cached until their logs grow."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pages: dict[str, tuple[bytes, set[int] | None]] = {}

    def is_hidden(self, about: Conversation, seq: int) -> bool | None:
        """Whether the page does not show a message verbatim; None if unknown."""
        chain, seqs = self._pages.get(about.id, (b"", None))
        if chain != about.chain:
            if len(self._pages) >= PAGES_KEPT:
                self._pages.clear()
            seqs = seqs_shown(self._store, about)
            self._pages[about.id] = about.chain, seqs
        return None if seqs is None else seq not in seqs


def seqs_shown(store: Store, about: Conversation) -> set[int] | None:
    """The seqs of the messages shown verbatim; None if that would take reading a long log."""
    mark = bookmark.read(store.bookmark(about.id))
    head = mark.head if mark else 0
    if about.head - head > TAIL_EVENTS:
        return None
    tail: list[Event] = []
    if about.head > head:
        tail = store.read(about.id, after=head, last=about.head, limit=TAIL_EVENTS)
    if mark is not None and not any(event.kind in CONTROLS for event in tail):
        slots = {seq for seq, _, _, edits in mark.slots if not edits}
        return slots | {event.seq for event in tail if event.kind == "message"}
    return {slot.seq for slot in Log(store, about.id).state.slots if not slot.edits}


class Hit(Struct, frozen=True, kw_only=True):
    """One search result. `snippet` is a part of its text, `marks` are the matches in it (start,
    end). `hidden` means that the page does not show this text now; None if unknown."""

    conversation: str
    seq: int
    score: float
    snippet: str = ""
    marks: tuple[tuple[int, int], ...] = ()
    kind: str = "message"
    role: str = ""
    tool: str = ""
    at_ms: int = 0
    hidden: bool | None = False
    artifact: str = ""
    line: int = 0  # for an artifact, the line at which the snippet starts

    def highlighted(self, before: str = "**", after: str = "**") -> str:
        """The snippet with its matches between `before` and `after`."""
        parts: list[str] = []
        at = 0
        for start, end in self.marks:
            parts += [self.snippet[at:start], before, self.snippet[start:end], after]
            at = end
        parts.append(self.snippet[at:])
        return "".join(parts)


def grouped(hits: Iterable[Hit], *, newest: bool = False) -> list[list[Hit]]:
    """The hits by conversation, the best one first; within each, a user's words come first, and
    tool output last. The `newest` hits keep their order."""
    groups: dict[str, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(hit.conversation, []).append(hit)

    def rank(hit: Hit) -> int:
        is_output = bool(hit.tool or hit.artifact)
        return 0 if newest else 2 if is_output else 0 if hit.role == "user" else 1

    return [sorted(one, key=rank) for one in groups.values()]


class Filters(Struct, frozen=True, kw_only=True):
    """Conditions on a hit besides matching. Times are inclusive."""

    role: Role | None = None
    tool: str | None = None
    kinds: tuple[str, ...] = KINDS_USUAL
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def leaves_out_own(self) -> bool:
        """Whether results of our own tools are left out. They are, unless a tool is named."""
        return self.tool is None

    @property
    def needs_entries(self) -> bool:
        """Whether the filters need the rows of entries, not only their ids."""
        return any(one is not None for one in (self.role, self.tool, self.since_ms, self.until_ms))


def filters_checked(
    *,
    role: str | None,
    tool: str | None,
    kind: str | None,
    since_ms: int | None,
    until_ms: int | None,
) -> Filters:
    """The filters; Invalid, with the possible values, for a bad one."""
    if role is not None and role not in ROLES:
        raise Invalid(f"role: there is no role {quoted(role)}", hint="roles: " + ", ".join(ROLES))
    if kind is not None and kind not in KINDS:
        problem = f"kind: events of kind {quoted(kind)} are not searched"
        raise Invalid(problem, hint="kinds: " + ", ".join(KINDS))
    if tool is not None and not is_text(tool):
        raise Invalid(f"tool: {quoted(tool)} is not the name of a tool", hint="a text")
    kinds = KINDS_USUAL if kind is None else (kind,)
    return Filters(role=role, tool=tool, kinds=kinds, since_ms=since_ms, until_ms=until_ms)


def is_text(value: object) -> bool:
    """Whether a value is a string without unpaired surrogates."""
    if not isinstance(value, str):
        return False
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)


def limit_checked(limit: int, most: int = LIMIT_MAX) -> int:
    """The limit; Invalid if it is not a number of hits."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= most:
        raise Invalid(f"limit={limit!r} is not a number of hits", hint=f"from 0 to {most:,}")
    return limit
