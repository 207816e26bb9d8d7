"""What is left of something that was erased, by which it may be known in a file again.

Of a message that an importer wrote, the ids that the file gives to its lines stay, and the moments
of those that came later than the first; of any, its time, its size and its shape. Nothing of it
tests a guess of the words. Neighbours: `known` finds traces in a log, `gone` decides by ids and
moments, `erased` by size and shape where there are none.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from refold.core.laws import calls_of, results_of
from refold.core.model import MOMENT, Erase, Event, Message
from refold.core.shortened import skeleton
from refold.edges.importers.entry import STAND_IN, Said


class Trace(Struct, frozen=True, kw_only=True):
    """What is left of something that was erased: the kind of its event, or of the note that it
    was, its time, its size and who counted it, the ids of its lines, and the shape of a message if
    anybody said it."""

    kind: str
    at_ms: int
    tokens: int = 0
    counter: str = ""
    ids: tuple[str, ...] = ()
    shape: Erase | None = None

    @property
    def moments(self) -> frozenset[int]:
        """When its lines were written."""
        return moments_of(self.ids, self.at_ms)


def moments_of(ids: tuple[str, ...], at_ms: int) -> frozenset[int]:
    """When the lines of a message with these ids were written; its own time, if that is all."""
    told = (id.removeprefix(MOMENT) for id in ids if id.startswith(MOMENT))
    return frozenset(int(moment) for moment in told if moment.isdecimal()) or frozenset([at_ms])


def trace_of(event: Event, kind: str, ids: tuple[str, ...], shape: Erase | None) -> Trace:
    """What is left of something, by the event that it was, or that stands for it."""
    tokens, counter = event.tokens, event.counter
    return Trace(kind=kind, at_ms=event.at_ms, tokens=tokens, counter=counter, ids=ids, shape=shape)


def shape_of(message: Message) -> Erase:
    """The shape of a message, whatever its seq."""
    calls, results = tuple(calls_of(message)), tuple(results_of(message))
    return Erase(seq=0, role=message.role, calls=calls, results=results)


def stand_in(trace: Trace) -> Message:
    """What takes the place of a message that was left out: its shape without its words. Whoever
    appends it gives it the time and the size of the trace, so it leaves the same trace."""
    return replace(skeleton(trace.shape), key=STAND_IN, ids=trace.ids)


def moment_of(at_ms: int | None) -> str:
    """The id of a line that has none: when it was written."""
    return f"{MOMENT}{at_ms}"


def ids_of(said: Said) -> tuple[str, ...]:
    """The ids under which a message is written: those of its lines, and of a message that may
    have several, their moments."""
    moments = (moment_of(at_ms) for at_ms in said.times if at_ms is not None)
    return tuple(dict.fromkeys([*filter(None, said.ids), *moments])) if any(said.ids) else ()
