"""The page for a framework that owns the history: its own messages wherever nothing was folded.

The list is mirrored, the request decides whether a compaction is due, and what stands on the page
is given as places in the framework's list, or as messages of ours where an edit stands. As long as
nothing was folded, the framework is told so and sends what it has. Neighbours: `engine.mirror`
follows the list, `Context.page` names the seqs, the adapters turn messages of ours into objects of
their framework, `guest` keeps what is answered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

import refold

Own = TypeVar("Own")
Wire = dict[str, Any]

log = logging.getLogger("refold.adapters")
# What is raised where an object of a framework is not what it usually is.
UNREADABLE = (refold.Invalid, ValueError, TypeError, LookupError, AttributeError)


class Sent(Struct, Generic[Own], frozen=True, kw_only=True):
    """A call under way: what is sent for it, and where its list ends in the log. `conversation` is
    empty for a list that is not in the log."""

    shown: list[Own]
    session: str = ""
    wires: list[Any] = []
    conversation: str = ""
    last: int = 0  # the seq of the newest message
    head: int = 0


def folded(
    context: refold.Context,
    messages: Sequence[Own],
    wire: Callable[[Own], Any],
    made: Callable[[Wire], Own],
    *,
    dialect: str,
    system: Any = None,
    tools: list[Any] | None = None,
) -> Sent[Own]:
    """What to send instead of these messages. `wire` gives a message of the framework in the
    dialect, `made` makes one of it. A list that cannot be read is sent as it is, and logged: what
    is wrong with it, its provider says better."""
    try:
        wires = [wire(one) for one in messages]
        mirrored = context.mirror(wires, system=system, tools=tools)
        context.request(dialect)
    except UNREADABLE as error:
        return sent_as_they_are(messages, error)
    view = context.view
    if _is_own(view, mirrored.seqs, wires):
        shown = list(messages)
    else:
        shown = _shown(context, messages, wires, made, dialect, mirrored.seqs)
    return Sent(
        shown=shown, wires=wires, conversation=context.id, last=newest(view), head=view.head
    )


def sent_as_they_are(messages: Sequence[Own], error: Exception) -> Sent[Own]:
    """The very list, and a warning that says why."""
    log.warning("the messages are sent as they are, not folded: %s", error)
    return Sent(shown=list(messages))


def same(message: Own) -> Own:
    """For a framework whose messages are those of a dialect."""
    return message


def definitions(tools: Iterable[Any], wire: Callable[[Any], Any]) -> list[Any] | None:
    """The tools in the dialect; None if there are none. One that cannot be read is left out: the
    framework sends it, here it would only be counted."""
    read = []
    for tool in tools:
        try:
            read.append(wire(tool))
        except UNREADABLE as error:
            log.info("a tool is not counted: %s", error)
    return read or None


def newest(view: refold.View) -> int:
    """The seq of the newest message on the page."""
    return view.slots[-1].last if view.slots else 0


def _shown(
    context: refold.Context,
    messages: Sequence[Own],
    wires: Sequence[Any],
    made: Callable[[Wire], Own],
    dialect: str,
    seqs: Sequence[tuple[int, ...]],
) -> list[Own]:
    """The page, in the framework's own messages wherever no edit is on them."""
    shown, untouched = [], _untouched(context, seqs)
    for one in context.page(dialect):
        place = untouched.get(one.seqs)
        if place is None or (_thinks(wires[place]) and one.message != wires[place]):
            shown.append(made(one.message))
        else:
            shown.append(messages[place])
    return shown


def _is_own(view: refold.View, seqs: Sequence[tuple[int, ...]], wires: Sequence[Any]) -> bool:
    """Whether the page is the framework's own list: no edit stands on it, none of its messages was
    taken off, and there is no thinking of a time when that was otherwise."""
    there = {slot.seq for slot in view.slots}
    is_edited = any(slot.edits or slot.summary for slot in view.slots)
    if is_edited or not all(map(there.issuperset, seqs)):
        return False
    return not view.undoable or not any(map(_thinks, wires))


def _untouched(
    context: refold.Context, seqs: Sequence[tuple[int, ...]]
) -> dict[tuple[int, ...], int]:
    """Seqs → the place in the list, for messages that no edit is on."""
    whole = {slot.seq for slot in context.view.slots if not slot.edits and not slot.summary}
    return {one: place for place, one in enumerate(seqs) if one and whole.issuperset(one)}


def _thinks(wire: Any) -> bool:
    """Whether a message has thinking, which a page that changed before it may have lost."""
    parts = wire.get("content") if isinstance(wire, dict) else None
    kinds = {part.get("type") for part in parts or () if isinstance(part, dict)}
    return bool(kinds & {"thinking", "redacted_thinking", "reasoning"})
