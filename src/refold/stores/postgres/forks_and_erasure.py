"""Rows that conversations share, and their removal and repair: forks, erased events, deleted logs.

Functions of a connection, each inside a transaction. The row of a conversation is locked before its
data change; a fork is recorded with its parent, so that nobody has to search all conversations for
it. A repair keeps the old rows as lines in a row of its own, until an event of the conversation is
erased or it is deleted: it must not stay on the caller's disk. Neighbours: `log` reads and
appends, `store` calls, `conversations.repairer` judges salvaged pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from refold.core.model import Conversation, Event
from refold.errors import Corrupt
from refold.stores import checks
from refold.stores.postgres import log, search_index, statements
from refold.stores.postgres.connections import Link
from refold.stores.postgres.log import Place
from refold.stores.protocol import Salvage


def fork(link: Link, place: Place, at: int, new: str) -> None:
    """Creates a conversation that shares the log up to `at`; no event is copied."""
    about = log.conversation_row(link, place, locked=True)
    if not 1 <= at <= about.head:
        if existing := log.described(link, place.sibling(new)):
            raise checks.taken(new, existing.head)
        raise checks.outside(about.id, at, about.head)
    chain, at_ms = about.chain, about.updated_ms
    if at < about.head:
        [left] = log.span(link, place, about, at - 1, at, 1)
        chain, at_ms = left.chain, left.at_ms
    made = Conversation(
        id=new,
        head=at,
        chain=chain,
        title=log.title_at(link, place, about, at),
        parent=about.id,
        parent_seq=at,
        at_ms=at_ms,
        updated_ms=at_ms,
    )
    if not link.ask(statements.CREATE, _row_values(place.sibling(new), made)).rowcount:
        existing = log.conversation_row(link, place.sibling(new))
        is_same = (existing.parent, existing.parent_seq, existing.head) == (about.id, at, at)
        # An earlier attempt may have created it, and its response was lost.
        if not (link.is_again and is_same):
            raise checks.taken(new, existing.head)
    link.ask(statements.PUT_FORK, place.named(fork=new, fork_seq=at))


def _row_values(place: Place, about: Conversation) -> dict[str, object]:
    return place.named(
        head=about.head,
        chain=about.chain,
        title=about.title.encode(),
        parent=about.parent,
        parent_seq=about.parent_seq,
        at_ms=about.at_ms,
        updated_ms=about.updated_ms,
    )


def erase(link: Link, place: Place, seq: int) -> None:
    """Empties the row of the event, and removes derived data: bookmarks, copies of a damaged log,
    and a title."""
    about = log.conversation_row(link, place)
    if not 1 <= seq <= about.head:
        raise checks.no_event(about.id, seq, about.head)
    holder, _ = next(log.upwards(link, place, about, seq))
    home = place.sibling(holder.id)
    holder = log.conversation_row(link, home, locked=True)
    [event] = log.span(link, home, holder, seq - 1, seq, 1)
    link.ask(statements.ERASE, home.named(seq=seq))
    search_index.erase(link, home, [seq])
    gave_title = checks.title_in([event]) is not None
    for reader in readers(link, home, seq):
        forget_derived(link, reader, titles=gave_title)


def readers(link: Link, place: Place, seq: int) -> Iterator[Place]:
    """The log with the event, and all forks that share it."""
    pending = [place]
    while pending:
        reader = pending.pop()
        yield reader
        forks = link.ask(statements.FORKS, reader.named(seq=seq)).fetchall()
        pending += [reader.sibling(fork) for (fork,) in forks]


def forget_derived(link: Link, place: Place, *, titles: bool) -> None:
    """Removes the data derived from a changed log, and with `titles` derives its title again."""
    link.ask(statements.DELETE_BOOKMARK, place.named())
    link.ask(statements.DELETE_DAMAGED, place.named())
    about = log.described(link, place) if titles else None
    if about is not None:
        title = log.title_of(link, place, about, checks.SEQ_MAX)
        link.ask(statements.RETITLE, place.named(title=title.encode()))


def delete(link: Link, place: Place) -> None:
    """Removes everything of a conversation; Conflict while forks read from it."""
    about = log.described(link, place, locked=True)
    if about is None:
        if link.is_again:
            return  # an earlier try deleted it, and its answer was lost
        raise checks.unknown(place.conversation)
    reader = link.ask(statements.FORKS, place.named(seq=0)).fetchone()
    if reader is not None:
        raise checks.forked(about.id, reader[0], about.head)
    for statement in (
        statements.DELETE_EVENTS,
        statements.DELETE_BOOKMARK,
        statements.DELETE_DAMAGED,
        statements.DELETE_ROW,
    ):
        link.ask(statement, place.named())
    search_index.forget(link, place)
    leave_parent(link, place, about)


def leave_parent(link: Link, place: Place, about: Conversation) -> None:
    """Removes a fork from its parent's list."""
    if about.parent:
        link.ask(statements.DELETE_FORK, place.sibling(about.parent).named(fork=about.id))


def salvage(link: Link, place: Place) -> Salvage:
    """The rows of a log and of its ancestors: each an event, or a message that describes the
    damage."""
    about = log.conversation_row(link, place)
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
    """Replaces the conversation's own rows by these events."""
    if link.is_again and _is_done(link, place, events, after):
        return  # an earlier try wrote them, and its answer was lost
    about = log.conversation_row(link, place, locked=True)
    if salvage(link, place) != seen:
        raise checks.written_meanwhile(about.id, about.head)
    link.ask(statements.DELETE_EVENTS, place.named())
    search_index.forget(link, place)
    if events:
        log.insert(link, place, events)
    for reader in readers(link, place, 0):
        forget_derived(link, reader, titles=False)
    if events or after:
        _update_row(link, place, about, events, after)
        lines = b"".join(msgspec.json.encode(piece) + b"\n" for piece in seen.pieces)
        link.ask(statements.KEEP_DAMAGED, place.named(stamp=checks.stamp(), pieces=lines))
    else:
        link.ask(statements.DELETE_ROW, place.named())
        leave_parent(link, place, about)


def _is_done(link: Link, place: Place, events: Sequence[Event], after: int) -> bool:
    """Whether the log has these events already."""
    if log.described(link, place) is None:
        return not (events or after)
    return salvage(link, place).pieces[after:] == tuple(events)


def _update_row(
    link: Link, place: Place, about: Conversation, events: Sequence[Event], after: int
) -> None:
    """Updates the conversation's row, its parent's list of forks, and all titles."""
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
    leave_parent(link, place, about)
    if moved.parent:
        parent = place.sibling(moved.parent)
        link.ask(statements.PUT_FORK, parent.named(fork=about.id, fork_seq=after))
    for reader in readers(link, place, 0):
        forget_derived(link, reader, titles=True)
