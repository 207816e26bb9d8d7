"""Which lines of a file were erased, by the ids that the file itself gives them.

An id decides, wherever its line stands now and whatever stands around it: a line whose id was
erased is gone, one whose id the log still has is not. A line with another id, or none, that was
written at the moment of one that is gone, and of no other, may be it. The parts of a response are
lines of their own, so what came after an erasure is told from what was erased.
Neighbours: `trace` is what is left, `erased` asks this first.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from refold.core.model import MOMENT
from refold.edges.importers.entry import Entry, Said
from refold.edges.importers.known import Known
from refold.edges.importers.parts import chosen
from refold.edges.importers.trace import Trace


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
