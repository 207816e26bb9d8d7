"""What was erased from a log stays erased, however the file that it came from changes.

Of a message that was erased, the log keeps its place, its time, its size, its role, the ids of its
calls and results, and those that the file gives to its lines; none of its words, and nothing by
which a guess of them could be tested. The ids of lines decide (`gone`). Where a file has none, a
message in that place that has all the rest is the one; one that stands elsewhere, since something
before it changed, may be it: it is left out, a stand-in says so in its place, and the report counts
it. Neighbours: `trace` is what is left, `known` finds it, `follow` asks.

Which lines of a file were erased, by the ids that the file itself gives them.

An id decides, wherever its line stands now and whatever stands around it: a line whose id was
erased is gone, one whose id the log still has is not. A line with another id, or none, that was
written at the moment of one that is gone, and of no other, may be it. The parts of a response are
lines of their own, so what came after an erasure is told from what was erased.
Neighbours: `trace` is what is left, `erased` asks this first.

What a file has more of a message than the log: the parts that the log never had.

Where the lines of a message have ids, each part is looked up by its own, so nothing is missed or
written twice, whatever was deleted or moved. Where they have none, parts are counted. What was
erased is no more. Neighbours: `parts` cuts messages, `gone` says what was erased, `follow` writes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from refold.core.laws import calls_of, results_of
from refold.core.model import MOMENT, Erase, Media, Message, ToolResult
from refold.dialects.gemini.render import is_made
from refold.edges.importers.entry import (
    ADOPTED,
    LEFT_BRANCH,
    REWOUND,
    Entry,
    Noted,
    Rewound,
    Said,
    Summed,
    Trace,
    ids_of,
    moment_of,
    stand_in,
)
from refold.edges.importers.imported_log import (
    MORE,
    ImportedItem,
    Known,
    chosen,
    cut,
    has_names,
    parts_in,
)
from refold.engine.batch import Batch
from refold.errors import Invalid
from refold.tokens.counter import FRAMINGS, Framing, count_message, counter_for, framing_for
from refold.tokens.models import model_info

Framings = tuple[Framing, ...]


# --- what of the file is gone ---


class Erased:
    """What was erased from a log that has `held` of a file."""

    def __init__(
        self,
        batch: Batch,
        held: Known,
    ) -> None:
        traces, notes, standing = held.traces, held.erased_notes, held.standing()
        self.gone = Gone(held)
        self._batch, self._notes, self._open_notes = batch, frozenset(notes), notes
        told = [framing_for(model_info(model)) for model in held.models]
        framings = FRAMINGS if held.was_erased else told
        self._framings = tuple(dict.fromkeys([batch.counter.framing, *framings]))
        self._left: set[str] = set()  # messages of branches that were left, which were erased
        self._traces, self._open = traces, list(traces)
        self._read: tuple[Entry | None, list[Message]] = (None, [])  # what was parsed last
        self._counted: tuple[object, set[int]] = (None, set())  # what was counted last
        keys = [place.key for place in standing if not place.key.startswith(MORE)]
        self._kept = Counter(map(_words, keys)) if traces or notes else Counter[str]()

    def see(self, trace: Trace) -> None:
        """The file has it in its place: if it only grew, nothing that stands elsewhere is it."""
        if trace in self._open:
            self._open.remove(trace)

    def pass_over(self, key: str) -> None:
        """The log has what the file has under this key."""
        if self._kept:
            self._kept[_words(key)] -= 1

    def of(self, entry: Entry, *, is_back: bool) -> list[Trace]:
        """What the entry may be, or have in it, that was erased and had another place; nothing if
        it is none of that, or in the log with the same words. `is_back` says that the file went
        another way than the log: then it may be anything that was erased, also a note that became
        a message."""
        if isinstance(entry, Rewound) or not (self._traces or self._notes):
            return []  # what takes others back has no words
        if (found := self.gone.of(entry)) and not self._is_partly(entry):
            return found
        if found or self.gone.stands(entry):
            return []
        if self._kept[_words(entry.key)] > 0:
            self.pass_over(entry.key)
            return []
        trace = self._trace_of(entry, is_back) or self._note_of(entry, is_back=is_back)
        return [trace] if trace else []

    def _trace_of(self, entry: Entry, is_back: bool) -> Trace | None:
        is_timed = entry.at_ms is not None  # then it may also stand twice in the file
        traces = self._at(entry) if is_back or is_timed else self._open
        if isinstance(entry, Summed):
            traces = sorted(traces, key=lambda trace: trace.kind != ADOPTED)
        return next((trace for trace in traces if self.is_it(entry, trace)), None)

    def _at(self, entry: Entry) -> Sequence[Trace]:
        """What was erased of the time of an entry; of any time, each of its kind once."""
        if (times := _times(entry)) is None:
            return self._timeless
        first = bisect_left(self._timed, times[0], key=_time)
        return self._timed[first : bisect_right(self._timed, times[1], key=_time)]

    @cached_property
    def _timed(self) -> list[Trace]:
        return sorted(self._traces, key=_time)

    @cached_property
    def _timeless(self) -> list[Trace]:
        return list({replace(trace, at_ms=0): trace for trace in self._traces}.values())

    def _note_of(self, entry: Entry, *, is_back: bool) -> Trace | None:
        if not isinstance(entry, Said) or not self._notes:
            return None
        is_unread = entry.at_ms in (None, *self._notes) and not self._parsed(entry)
        is_timed = is_back and entry.at_ms is not None and entry.at_ms in self._notes
        return Trace(kind="note", at_ms=entry.at_ms or 0) if is_unread or is_timed else None

    def was_note(self, noted: Noted, *, is_behind: bool) -> bool:
        """Whether a note was erased, as far as its time tells; one without a time may be any that
        was. `is_behind` all that the log has, each that was erased stands for one."""
        if self.gone.has(noted):
            return True
        if noted.kind == LEFT_BRANCH and self._was_message(noted):
            return True
        if noted.at_ms is None:
            at_ms = next(iter(self._open_notes or self._notes), None)
        else:
            at_ms = noted.at_ms if noted.at_ms in self._notes else None
        if at_ms is None:
            return False
        is_it = at_ms in self._open_notes or not is_behind
        self._open_notes -= Counter([at_ms])
        return is_it

    def _was_message(self, noted: Noted) -> bool:
        """Whether the message of a branch that was left was erased while it was on the page."""
        traces = (trace for trace in self._at(noted) if not (trace.ids and any(noted.ids)))
        if noted.message not in self._left and next(traces, None) is None:
            return False
        self._left.add(noted.message)
        return True

    def may_be(self, noted: Noted) -> bool:
        """Whether a line of a branch that was left has an id of its own, and the moment of one that
        was erased."""
        if noted.kind != LEFT_BRANCH or not any(noted.ids) or self.gone.stands(noted):
            return False
        return bool(self.gone.at(noted)) and not self.gone.has(noted)

    def without(self, said: Said) -> list[Any]:
        """The message as it may be written: where it is several, each that may be erased gives
        way to a stand-in."""
        parsed = self._batch.parsed(said.message) if self._traces else []
        if len(parsed) < 2:
            return [said.message]
        return [self._or_stand_in(one, said) for one in parsed]

    def _or_stand_in(self, message: Message, said: Said) -> Message:
        for trace in self.gone.named(said):
            if _is_shaped(message, trace):
                return stand_in(trace)
        for trace in self._at(said):
            if self.is_message(message, trace, said.at_ms):
                return stand_in(trace)
        return message

    def _is_partly(self, entry: Entry) -> bool:
        """Whether an entry is several messages, of which some were erased and some not."""
        if not isinstance(entry, Said) or entry.parts or len(messages := self._parsed(entry)) < 2:
            return False
        traces = self.gone.named(entry)
        are = [any(_is_shaped(message, trace) for trace in traces) for message in messages]
        return any(are) and not all(are)

    def is_it(self, entry: Entry, trace: Trace) -> bool:
        """Whether what was erased may be the entry, or the beginning of it."""
        if trace.ids and any(entry.ids):
            return self._is_named(entry, trace)
        if isinstance(entry, Said) and entry.parts:
            return self.parts_of(entry, 0, trace) > 0
        return _is_of_time(entry, trace) and self._is_unnamed(entry, trace)

    def _is_named(self, entry: Entry, trace: Trace) -> bool:
        """The same, where both have ids; one that came under others is known by its moment."""
        if not set(trace.ids).isdisjoint(filter(None, entry.ids)):
            return not self._is_partly(entry)
        if self.gone.has(entry) or self.gone.stands(entry):
            return False
        if isinstance(entry, Said) and entry.parts:
            return trace in self.gone.of(entry) or self._is_renamed(entry, trace)
        if entry.at_ms is not None and trace not in self.gone.at(entry):
            return self._is_renamed(entry, trace)
        return self._is_unnamed(entry, trace)

    def _is_renamed(self, entry: Entry, trace: Trace) -> bool:
        """Whether what was erased may stand in the file under another id, where its moment says
        little since others have it too: the file has not had it so far, and it has the size."""
        is_here = entry.at_ms in trace.moments and self.gone.seen.isdisjoint(trace.ids)
        if not is_here or not isinstance(entry, Said | Summed):
            return False
        messages = self._parsed(entry)
        return bool(messages) and self._is_whole(messages[0], trace, self._framings)

    def _is_unnamed(self, entry: Entry, trace: Trace) -> bool:
        match entry:
            case Rewound():
                return trace.kind == REWOUND
            case Summed() if trace.kind == ADOPTED:
                return True
            case Said() | Summed():
                messages = self._parsed(entry)
                return bool(messages) and self.is_message(messages[0], trace, entry.at_ms)
            case _:
                return False

    def parts_of(self, said: Said, first: int, trace: Trace) -> int:
        """Up to which part the log had a message, if those from `first` on are what was erased;
        `first` if they are not."""
        last = self.beginning(said, first, trace)
        if last > first or first or not _is_of_time(said, trace):
            return last
        messages = self._parsed(said) if self._may_be_rest(said, trace) else []
        is_it = bool(messages) and self._is_rewritten(messages[0], trace, said.at_ms)
        return said.parts if is_it else first

    def _may_be_rest(self, said: Said, trace: Trace) -> bool:
        """Whether what was erased, if it began earlier, was larger than the first part is."""
        if said.at_ms is None or trace.at_ms >= said.at_ms:
            return True
        messages = self._parsed(cut(said, 0, 1))
        sizes = self._sizes(messages[0], trace.counter, self._framings) if messages else ()
        return not sizes or min(sizes) < trace.tokens

    def beginning(self, said: Said, first: int, trace: Trace) -> int:
        """The same, where no part was written again since."""
        if said.at_ms not in (None, trace.at_ms):
            return first
        for framings in (self._framings[:1], self._framings):
            for last in range(first + 1, said.parts + 1):
                messages = self._parsed(cut(said, first, last))
                if messages and self._is_whole(messages[0], trace, framings):
                    return last
        return first

    def is_message(self, message: Message, trace: Trace, at_ms: int | None) -> bool:
        """Whether what was erased may be the message, said at a time, or was written again as it
        since."""
        is_whole = self._is_whole(message, trace, self._framings)
        return is_whole or self._is_rewritten(message, trace, at_ms)

    def _is_whole(self, message: Message, trace: Trace, framings: Framings) -> bool:
        shape = trace.shape
        if trace.kind != "message" or (shape and shape.role != message.role):
            return False
        if shape and not _has_same_ids(message, shape):
            return False
        sizes = self._sizes(message, trace.counter, framings)
        return not sizes or trace.tokens in sizes or self._is_moved_out(message, min(sizes))

    def _is_moved_out(self, message: Message, size: int) -> bool:
        """Whether something else stands in the page for a result of the message."""
        has_results = any(isinstance(block, ToolResult) for block in message.blocks)
        return has_results and size > self._batch.whole_tokens_max

    def _is_rewritten(self, message: Message, trace: Trace, at_ms: int | None) -> bool:
        """Known by its time, or by its ids where the file has no times."""
        shape = trace.shape or Erase(seq=0, role=message.role)
        if trace.kind != "message" or shape.role != message.role:
            return False
        ids, own = {*shape.calls, *shape.results}, {*calls_of(message), *results_of(message)}
        if at_ms is not None:
            return not ids or not own or not ids.isdisjoint(own)
        return bool(ids) and ids <= own

    def _sizes(self, message: Message, name: str, framings: Framings) -> set[int]:
        """The sizes that a message may have had when it was counted by this counter, for one of
        these models; none if nobody can tell."""
        asked = (message, name, framings)
        if asked != self._counted[0]:
            self._counted = (asked, self._count(message, name, framings))
        return self._counted[1]

    def _count(self, message: Message, name: str, framings: Framings) -> set[int]:
        has_media = any(isinstance(block, Media) for block in message.blocks)
        try:
            counter = self._batch.counter if name == self._batch.counter.name else counter_for(name)
        except Invalid:
            return set()
        if counter.name != name or has_media:
            return set()
        counters = (replace(counter, framing=framing) for framing in framings)
        return {count_message(message, counter) for counter in counters}

    def _parsed(self, entry: Said | Summed) -> list[Message]:
        if entry is not self._read[0]:
            said = entry.message if isinstance(entry, Said) else spoken(entry)
            self._read = (entry, self._batch.parsed(said))
        return self._read[1]


def _times(entry: Entry) -> tuple[int, int] | None:
    """From when to when an entry may have been said; None if that may be any time."""
    at_ms = entry.at_ms
    return entry.within_ms or (None if at_ms is None else (at_ms, at_ms))


def _is_of_time(entry: Entry, trace: Trace) -> bool:
    times = _times(entry)
    return times is None or times[0] <= trace.at_ms <= times[1]


def _time(trace: Trace) -> int:
    return trace.at_ms


def spoken(summed: Summed) -> dict[str, str]:
    """A summary as a message, where it cannot stand for what came before it."""
    return {"role": "user", "content": summed.text or "(an empty summary)"}


def _is_shaped(message: Message, trace: Trace) -> bool:
    """Whether a message has the shape of what was erased under the id of its line."""
    shape = trace.shape
    if trace.kind != "message" or shape is None or shape.role != message.role:
        return False
    return not shape.results or not {*shape.results}.isdisjoint(results_of(message))


def _has_same_ids(message: Message, shape: Erase) -> bool:
    """Whether a message has the calls and results that another had. Ids of results that were made
    here follow from what came before them."""
    results = results_of(message)
    is_known = not any(map(is_made, (*results, *shape.results)))
    same = tuple(results) == shape.results if is_known else len(results) == len(shape.results)
    return same and tuple(calls_of(message)) == shape.calls


def _words(key: str) -> str:
    """The part of a key that stays the same where only the place of the message changed."""
    return key.rpartition(":")[2].partition("#")[0]


class Gone:
    """The lines that were erased from a log that has `held` of the file."""

    def __init__(self, held: Known) -> None:
        traces = held.traces
        named = [trace for trace in traces if trace.ids]
        by_id = {id: trace for trace in named for id in trace.ids if not id.startswith(MOMENT)}
        live = {id for place in held.standing() for id in place.ids}
        self._live = live
        self._named = named
        self.seen: set[str] = set()  # the ids that the file has had so far, if anybody will ask
        self._asks = bool(traces or held.more)
        self._standing = live - by_id.keys()
        self._by_id = {id: trace for id, trace in by_id.items() if id not in live}
        self._by_call = {
            call: trace for trace in named if trace.shape for call in trace.shape.calls
        }
        self._by_moment: defaultdict[int, list[Trace]] = defaultdict(list)
        for trace in named:
            for moment in trace.moments - held.moments:
                self._by_moment[moment].append(trace)
        for moment in [one for one, near in self._by_moment.items() if not _is_one(near)]:
            del self._by_moment[moment]

    def see(self, entry: Entry) -> None:
        """The file has this entry."""
        if self._asks:
            self.seen.update(entry.ids)

    def of(self, entry: Entry) -> list[Trace]:
        """What of the entry was erased; each trace once."""
        if isinstance(entry, Said) and entry.parts:
            found = [self._of_part(entry, at) for at in range(len(entry.message["content"]))]
        else:
            found = [self._by_id.get(id) for id in entry.ids]
        return list(dict.fromkeys(trace for trace in found if trace is not None))

    def _of_part(self, said: Said, at: int) -> Trace | None:
        id = said.ids[at] if said.ids else ""
        if id in self._live:
            return None
        return self._by_id.get(id) or self._near(said, at)

    def _near(self, said: Said, at: int) -> Trace | None:
        moment = said.times[at] if said.times else None
        near = self._by_moment.get(moment, ()) if moment is not None else ()
        call = _call_of(said.message["content"][at])
        called = self._by_call.get(call)
        if called is not None and (moment is None or moment in called.moments):
            return called
        return next((one for one in near if _may_be(call, one)), None)

    def is_guess(self, entry: Entry, trace: Trace | None) -> bool:
        """Whether an entry in the place of what was erased, or a part of it, is taken for that
        under another id."""
        if not any(entry.ids):
            return False
        if trace is not None and trace.ids and set(trace.ids).isdisjoint(entry.ids):
            return True
        if not isinstance(entry, Said) or not entry.parts:
            return False
        known = self._live | self._by_id.keys()
        unknown = (at for at, id in enumerate(entry.ids) if id not in known)
        return any(self._near(entry, at) for at in unknown)

    def rest(self, said: Said) -> Said:
        """The parts of a message that were not erased."""
        if not self._named or not said.parts:
            return said
        places = range(len(said.message["content"]))
        left = [at for at in places if self._of_part(said, at) is None]
        return said if len(left) == len(places) else chosen(said, left)

    def named(self, entry: Entry) -> list[Trace]:
        """What was erased under an id of the entry, also if the log has another part of it."""
        ids = set(filter(None, entry.ids))
        return [trace for trace in self._named if not ids.isdisjoint(trace.ids)] if ids else []

    def stands(self, entry: Entry) -> bool:
        """Whether the log has a line of the entry that was never erased."""
        return any(id in self._standing for id in entry.ids)

    def has(self, entry: Entry) -> bool:
        """Whether a line of the entry was erased, by its id."""
        return any(id in self._by_id for id in entry.ids)

    def at(self, entry: Entry) -> list[Trace]:
        """What was erased that was written when the entry was."""
        return self._by_moment.get(entry.at_ms, []) if entry.at_ms is not None else []


def _is_one(traces: list[Trace]) -> bool:
    """Whether all that was erased at a moment may be one message, which was written again."""
    ids = (frozenset(id for id in trace.ids if not id.startswith(MOMENT)) for trace in traces)
    return bool(frozenset.intersection(*ids))


def _call_of(block: Any) -> str:
    """The id of the call that a block is; empty if it is none."""
    is_call = isinstance(block, dict) and block.get("type") == "tool_use"
    return str(block.get("id") or "") if is_call else ""


def _may_be(call: str, trace: Trace) -> bool:
    """Whether a block of a response may be one of what was erased: no other call is."""
    if trace.kind == "note" or trace.shape is None:
        return trace.kind in ("note", "message")
    return not call and trace.kind == "message" and trace.shape.role == "assistant"


class Growth:
    """What continues messages in the log, by the keys that these have in the file; and so what
    they lack."""

    def __init__(self, more: dict[str, list[ImportedItem]], erased: Erased) -> None:
        self._more, self._erased = more, erased
        self._ids = {id for places in more.values() for place in places for id in place.ids}

    def take(self, rest: Said) -> None:
        """The rest of a message was written."""
        self._ids.update(ids_of(rest))

    def rest(self, said: Said, place: ImportedItem, later: Sequence[ImportedItem]) -> Said | None:
        """What the log, which has a message in this place, never had of it; None if it has all.
        In `later` places, parts of it may have been erased."""
        ids = place.ids or (place.trace.ids if place.trace else ())
        if ids and has_names(said):
            is_renamed = place.trace is not None and not self._erased.gone.of(said)
            return None if is_renamed else self._lacking(said, self._ids.union(ids))
        held = self._held_parts(said, place, later)
        return cut(said, held, said.parts) if held < said.parts else None

    def rest_of(self, entry: Entry) -> Said | None:
        """The same for one of which parts were erased in another place."""
        if not isinstance(entry, Said) or not has_names(entry) or not self._erased.gone.of(entry):
            return None
        return self._lacking(entry, self._ids)

    def _lacking(self, said: Said, held: set[str]) -> Said | None:
        rest = self._erased.gone.rest(said)
        names = [id or moment_of(at_ms) for id, at_ms in zip(rest.ids, rest.times)]
        lacking = [at for at, name in enumerate(names) if name not in held]
        return chosen(rest, lacking) if lacking else None

    def _held_parts(self, said: Said, place: ImportedItem, later: Sequence[ImportedItem]) -> int:
        """How many parts of a message the log has, or had before they were erased."""
        held = parts_in(place.key) if place.key else self._erased_parts(said, 0, place)
        for more in self._more.get(said.key, ()):
            held = max(held, parts_in(more.key))
        for place in later:
            if not place.key and place.trace:
                whole = self._erased.beginning(said, 0, place.trace)  # it was written again since
                held = max(self._erased_parts(said, held, place), whole)
        return held

    def _erased_parts(self, said: Said, first: int, place: ImportedItem) -> int:
        return self._erased.parts_of(said, first, place.trace) if place.trace else first

    def leave(self, seen: Container[str]) -> list[ImportedItem]:
        """What continues messages that the file has not had so far, by their keys or by the ids of
        lines: it continues nothing now."""
        left: list[ImportedItem] = []
        for key, places in self._more.items():
            unseen = [place for place in places if not self._is_seen(place, key in seen)]
            self._more[key] = [place for place in places if place not in unseen]
            left += unseen
        self._ids -= {id for place in left for id in place.ids}
        return left

    def _is_seen(self, place: ImportedItem, is_key_seen: bool) -> bool:
        return not self._erased.gone.seen.isdisjoint(place.ids) if place.ids else is_key_seen
