"""What the rows of a log still hold, however damaged they are, and a sound log in their place.

Functions of a connection, each inside a transaction. What was there is kept as lines in a row of
its own, until the conversation is erased from or deleted: there is no place for it on the disk of
whoever repairs. Neighbours: `log` reads sound rows, `conversations.repairer` judges what is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from refold.core.model import Conversation, Event
from refold.errors import Corrupt
from refold.stores import checks
from refold.stores.postgres import families, log, statements, terms
from refold.stores.postgres.link import Link
from refold.stores.postgres.log import Place
from refold.stores.protocol import Salvage


def salvage(link: Link, place: Place) -> Salvage:
    """What lies in the place of a log, and of its ancestors'."""
    about = log.known(link, place)
    pieces: list[Event | str] = []
    for holder, last in log.upwards(link, place, about, checks.SEQ_MAX):
        pieces[:0] = _pieces(link, place.sibling(holder.id), last)
    return Salvage(pieces=tuple(pieces), parent=about.parent, parent_seq=about.parent_seq)


def _pieces(link: Link, place: Place, last: int) -> Iterator[Event | str]:
    bounds = {"after": -1, "last": last, "limit": checks.SEQ_MAX}
    for row in link.ask(statements.SPAN, place.named(**bounds)):
        try:
            yield log.event_of(row)
        except Corrupt as error:
            yield f"{error.message}: its row is damaged"


def rewrite(link: Link, place: Place, events: Sequence[Event], after: int, seen: Salvage) -> None:
    """Puts these events in place of the conversation's own rows."""
    if link.is_again and _is_done(link, place, events, after):
        return  # an earlier try did it, and its answer was lost
    about = log.known(link, place, locked=True)
    if salvage(link, place) != seen:
        raise checks.written_meanwhile(about.id, about.head)
    link.ask(statements.DELETE_EVENTS, place.named())
    terms.forget(link, place)
    if events:
        log.insert(link, place, events)
    for reader in families.readers(link, place, 0):
        families.forget_derived(link, reader, titles=False)
    if events or after:
        _settle(link, place, about, events, after)
        _keep_copy(link, place, seen)
    else:
        link.ask(statements.DELETE_ROW, place.named())
        families.leave_parent(link, place, about)


def _is_done(link: Link, place: Place, events: Sequence[Event], after: int) -> bool:
    """Whether the log holds these events already."""
    if log.described(link, place) is None:
        return not (events or after)
    return salvage(link, place).pieces[after:] == tuple(events)


def _settle(
    link: Link, place: Place, about: Conversation, events: Sequence[Event], after: int
) -> None:
    """Brings the conversation's row, its parent's list and all titles up to date."""
    moved = replace(about, parent=about.parent if after else "", parent_seq=after)
    newest = events[-1] if events else log.span(link, place, moved, after - 1, after, 1)[0]
    values = place.named(
        head=newest.seq,
        chain=newest.chain,
        parent=moved.parent,
        parent_seq=moved.parent_seq,
        at_ms=about.at_ms if after else events[0].at_ms,
        updated_ms=newest.at_ms,
    )
    link.ask(statements.REPLACE_ROW, values)
    families.leave_parent(link, place, about)
    if moved.parent:
        parent = place.sibling(moved.parent)
        link.ask(statements.PUT_FORK, parent.named(fork=about.id, fork_seq=after))
    for reader in families.readers(link, place, 0):
        families.forget_derived(link, reader, titles=True)


def _keep_copy(link: Link, place: Place, seen: Salvage) -> None:
    lines = b"".join(msgspec.json.encode(piece) + b"\n" for piece in seen.pieces)
    link.ask(statements.KEEP_DAMAGED, place.named(stamp=checks.stamp(), pieces=lines))
