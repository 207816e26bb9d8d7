"""Why a hit is a hit: the part of its text that holds most of the query, and where exactly.

Terms are compared as the index compares them, by the tokenizer's own stems; names are also looked
at part by part, and Chinese, Japanese and Korean character by character. Texts are bounded before
they are looked at. Neighbours: `words` makes the query, `searcher` asks.

Which messages a conversation's page shows now, known without folding its log where possible.

A bookmark and the few events after it are usually enough. Where only the whole of a long log would
tell, the answer is that nobody knows. Neighbours: `core.bookmark` keeps the fold's state,
`searcher` marks its hits.

What is asked of an index, and what it answers.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import Struct

from refold.checked import quoted
from refold.core import bookmark
from refold.core.model import ROLES, Conversation, Event, Role
from refold.core.switches import CONTROLS
from refold.display import without_colors
from refold.errors import Invalid
from refold.log.log import Log
from refold.search.words import Query, forms_of, parts_of
from refold.stores.protocol import Store

SNIPPET_CHARS, LEAD_CHARS = 240, 60
TEXT_CHARS_MAX, MARKS_MAX = 200_000, 64
_SPACES = re.compile(r"\s{2,}|[^\S ]")  # all but a single space

Tokens = Callable[[str], list[tuple[int, int, str]]]
Place = tuple[int, int, str]  # start, end and the term
Mark = tuple[int, int]


class Wanted(Struct, frozen=True):
    """What a query looks for, as it is compared: stems, and words in scripts that may have no
    spaces."""

    stems: frozenset[str]
    unspaced: tuple[str, ...]


def wanted_of(query: Query, tokens: Tokens) -> Wanted:
    texts = [form for term in query.all_terms for form in forms_of(term.text)]
    stems = frozenset(stem for text in texts for _, _, stem in tokens(text))
    return Wanted(stems, tuple(text for text in texts if not text.isascii()))


def snippet_of(text: str, wanted: Wanted, tokens: Tokens) -> tuple[str, tuple[Mark, ...], int]:
    """The snippet, the places in it that match, and where in the text it begins."""
    text = without_colors(text[:TEXT_CHARS_MAX], same_length=True)
    places = _places(text, wanted, tokens)
    start, end = _widened(text, _best_start(places))
    marks = _marks_within(places, start, end)
    snippet, moved = _flattened(text[start:end], marks, start > 0, end < len(text))
    return snippet, moved, start


def _marks_within(places: list[Place], start: int, end: int) -> list[Mark]:
    """The places that end in a window, as they lie in it."""
    inside = [(first, last) for first, last, _ in places if start < last <= end]
    return [(max(first, start) - start, last - start) for first, last in inside[:MARKS_MAX]]


def _places(text: str, wanted: Wanted, tokens: Tokens) -> list[Place]:
    """Where the text says what was asked for, in characters and in order."""
    at = _characters(text)
    there = tokens(text)
    found = [(at(start), at(end), stem) for start, end, stem in there if stem in wanted.stems]
    if not found:
        # Only names remain that hold a word as one of their parts.
        words = [(at(start), at(end)) for start, end, _ in there]
        found = list(_names_with_parts(text, words, wanted, tokens))
    for word in wanted.unspaced:
        found += _occurrences(text, word)
    return _apart(sorted(found))


def _names_with_parts(
    text: str, words: list[Mark], wanted: Wanted, tokens: Tokens
) -> Iterator[Place]:
    for start, end in words:
        parts = parts_of(text[start:end])
        for _, _, part in tokens(parts) if parts else ():
            if part in wanted.stems:
                yield start, end, part


def _characters(text: str) -> Callable[[int], int]:
    """From places in the UTF-8 of a text to places in the text."""
    if text.isascii():
        return lambda place: place
    encoded = text.encode("utf-8", "replace")
    reached = (0, 0)

    def at(place: int) -> int:
        nonlocal reached
        # Tokens come in order, so only what lies between two of them is counted.
        byte, character = reached if reached[0] <= place else (0, 0)
        between = encoded[byte:place].decode("utf-8", "ignore")
        reached = place, character + len(between)
        return reached[1]

    return at


def _occurrences(text: str, word: str) -> list[Place]:
    found = re.finditer(re.escape(word), text)
    return [(one.start(), one.end(), word) for one in islice(found, MARKS_MAX)]


def _apart(places: list[Place]) -> list[Place]:
    """The places without those that lie in another."""
    out = []
    reached = 0
    for place in places:
        if place[0] >= reached:
            out.append(place)
            reached = place[1]
    return out


def _best_start(places: list[Place]) -> int:
    """Where a window begins that holds most different terms; the first of equal ones."""
    if places and places[-1][0] < places[0][0] + SNIPPET_CHARS:
        return places[0][0]
    best, best_start = 0, 0
    for index, (start, _, _) in enumerate(places):
        worth = _window_score(places[index : index + MARKS_MAX], start + SNIPPET_CHARS)
        if worth > best:
            best, best_start = worth, start
    return best_start


def _window_score(places: list[Place], end: int) -> int:
    """What the places that begin before an end are worth: different terms first."""
    terms = [term for first, _, term in places if first < end]
    return 8 * len(set(terms)) + len(terms)


def _widened(text: str, start: int) -> Mark:
    """The window around the first match, from the beginning of its line or a word a little
    before it."""
    low = _lead(text, start)
    while low < len(text) and text[low].isspace():
        low += 1
    return low, min(len(text), low + SNIPPET_CHARS)


def _lead(text: str, start: int) -> int:
    low = start - LEAD_CHARS
    if low <= 0:
        return 0
    line = text.rfind("\n", low, start)
    if line >= 0:
        return line + 1
    space = text.find(" ", low, start)
    return space + 1 if space >= 0 else low


def _flattened(
    part: str, marks: list[Mark], cut_before: bool, cut_after: bool
) -> tuple[str, tuple[Mark, ...]]:
    """One line: every run of white space becomes one space, marks move along."""
    ends, removed = _runs_removed(part)

    def moved(place: int) -> int:
        return place - removed[bisect_right(ends, place) - 1] + cut_before

    flat = _SPACES.sub(" ", part) if len(ends) > 1 else part
    line = f"{'…' if cut_before else ''}{flat}{'…' if cut_after else ''}"
    return line, tuple((moved(first), moved(last)) for first, last in marks)


def _runs_removed(part: str) -> tuple[list[int], list[int]]:
    """Where runs of white space end, and how many characters are gone by then."""
    ends, removed = [0], [0]
    # Most texts have nothing to flatten, and this is the fastest way to know.
    if " ".join(part.split()) == part:
        return ends, removed
    for run in _SPACES.finditer(part):
        ends.append(run.end())
        removed.append(removed[-1] + len(run[0]) - 1)
    return ends, removed


TAIL_EVENTS = 2_000
PAGES_KEPT = 100


class ShownMessages:
    """What the pages of one store show, remembered until their logs go on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pages: dict[str, tuple[bytes, set[int] | None]] = {}

    def is_hidden(self, about: Conversation, seq: int) -> bool | None:
        """Whether the page does not show a message in its own words; None if only the whole log
        would tell."""
        seqs = self._seqs(about)
        return None if seqs is None else seq not in seqs

    def _seqs(self, about: Conversation) -> set[int] | None:
        chain, seqs = self._pages.get(about.id, (b"", None))
        if chain != about.chain:
            if len(self._pages) >= PAGES_KEPT:
                self._pages.clear()
            seqs = seqs_shown(self._store, about)
            self._pages[about.id] = about.chain, seqs
        return seqs


def seqs_shown(store: Store, about: Conversation) -> set[int] | None:
    """The seqs that the page shows in their own words; None if only the whole log would tell."""
    mark = bookmark.read(store.bookmark(about.id))
    head = mark.head if mark else 0
    if about.head - head > TAIL_EVENTS:
        return None
    tail = _tail(store, about, head)
    if mark is not None and not any(event.kind in CONTROLS for event in tail):
        slots = {seq for seq, _, _, edits in mark.slots if not edits}
        return slots | {event.seq for event in tail if event.kind == "message"}
    return {slot.seq for slot in Log(store, about.id).state.slots if not slot.edits}


def _tail(store: Store, about: Conversation, after: int) -> list[Event]:
    """The events after a seq, which are few."""
    if about.head <= after:
        return []
    return store.read(about.id, after=after, last=about.head, limit=TAIL_EVENTS)


KINDS = ("message", "artifact", "meta", "checkpoint", "edit")
# A summary repeats what the messages say better: it is found only when it is asked for.
KINDS_USUAL = KINDS[:4]
LIMIT_MAX = 1_000
# What our own tools answered repeats what was found: it is found only when it is asked for.
OWN_PREFIX = "refold_"


class Hit(Struct, frozen=True, kw_only=True):
    """One place that answers a query. `snippet` is a part of its text, `marks` the places in it
    (start, end) that match. `hidden`: the page does not show these words now; None if only the
    whole log would tell."""

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
    line: int = 0  # of an artifact: the line at which the snippet begins

    def highlighted(self, before: str = "**", after: str = "**") -> str:
        """The snippet with its matches between two marks."""
        parts: list[str] = []
        at = 0
        for start, end in self.marks:
            parts += [self.snippet[at:start], before, self.snippet[start:end], after]
            at = end
        parts.append(self.snippet[at:])
        return "".join(parts)


class Filters(Struct, frozen=True, kw_only=True):
    """What a hit must be, besides matching. Times are inclusive."""

    role: Role | None = None
    tool: str | None = None
    kinds: tuple[str, ...] = KINDS_USUAL
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def leaves_out_own(self) -> bool:
        """Whether answers of our own tools do not count: unless a tool is named."""
        return self.tool is None

    @property
    def needs_entries(self) -> bool:
        """Whether the index's own numbers do not tell, and rows have to be looked up."""
        return any(one is not None for one in (self.role, self.tool, self.since_ms, self.until_ms))


def filters_checked(
    *,
    role: str | None,
    tool: str | None,
    kind: str | None,
    since_ms: int | None,
    until_ms: int | None,
) -> Filters:
    """The filters, or Invalid with what there is to choose from."""
    if role is not None and role not in ROLES:
        raise Invalid(f"role: there is no role {quoted(role)}", hint="roles: " + ", ".join(ROLES))
    if kind is not None and kind not in KINDS:
        raise Invalid(
            f"kind: events of kind {quoted(kind)} are not searched",
            hint="kinds: " + ", ".join(KINDS),
        )
    if tool is not None and not is_text(tool):
        raise Invalid(f"tool: {quoted(tool)} is not the name of a tool", hint="a text")
    kinds = KINDS_USUAL if kind is None else (kind,)
    return Filters(role=role, tool=tool, kinds=kinds, since_ms=since_ms, until_ms=until_ms)


def is_text(value: object) -> bool:
    """Whether a value is a text that can be written: one without lone surrogates."""
    if not isinstance(value, str):
        return False
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)


def is_integer(value: object) -> bool:
    """Whether a value is an int; a bool is not meant as one."""
    return isinstance(value, int) and not isinstance(value, bool)


def limit_checked(limit: int, most: int = LIMIT_MAX) -> int:
    """The limit, or Invalid if it is not a number of hits."""
    if not is_integer(limit) or not 0 <= limit <= most:
        raise Invalid(f"limit={limit!r} is not a number of hits", hint=f"from 0 to {most:,}")
    return limit
