"""What conversations share: forks, and what leaves when an event is erased or a log deleted.

Functions of a connection, each inside a transaction. The row of a conversation is locked before
what belongs to it changes; a fork is written down with its parent, so that nobody has to look
through all conversations for it. Neighbours: `log` reads and appends, `store` calls.

What the rows of a log still hold, however damaged they are, and a sound log in their place.

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
from refold.stores.postgres import log, statements, terms
from refold.stores.postgres.connections import Link
from refold.stores.postgres.log import Place
from refold.stores.protocol import Salvage


def fork(link: Link, place: Place, at: int, new: str) -> None:
    """A new conversation that shares the log up to `at`; no event is copied."""
    about = log.conversation_row(link, place, locked=True)
    if not 1 <= at <= about.head:
        if there := log.described(link, place.sibling(new)):
            raise checks.taken(new, there.head)
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
        there = log.conversation_row(link, place.sibling(new))
        if not (link.is_again and _is_fork_of(there, about, at)):
            raise checks.taken(new, there.head)
    link.ask(statements.PUT_FORK, place.named(fork=new, fork_seq=at))


def _is_fork_of(there: Conversation, parent: Conversation, at: int) -> bool:
    """Whether this is the fork that an earlier try made."""
    return (there.parent, there.parent_seq, there.head) == (parent.id, at, at)


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
    """Empties the one row that holds the event, and what was derived from it: bookmarks, copies of
    a damaged log, and a title."""
    about = log.conversation_row(link, place)
    if not 1 <= seq <= about.head:
        raise checks.no_event(about.id, seq, about.head)
    holder, _ = next(log.upwards(link, place, about, seq))
    home = place.sibling(holder.id)
    holder = log.conversation_row(link, home, locked=True)
    [event] = log.span(link, home, holder, seq - 1, seq, 1)
    link.ask(statements.ERASE, home.named(seq=seq))
    terms.erase(link, home, [seq])
    gave_title = checks.title_in([event]) is not None
    for reader in readers(link, home, seq):
        forget_derived(link, reader, titles=gave_title)


def readers(link: Link, place: Place, seq: int) -> Iterator[Place]:
    """The log that holds an event, and all that read it from there."""
    fresh = [place]
    while fresh:
        reader = fresh.pop()
        yield reader
        forks = link.ask(statements.FORKS, reader.named(seq=seq)).fetchall()
        fresh += [reader.sibling(fork) for (fork,) in forks]


def forget_derived(link: Link, place: Place, *, titles: bool) -> None:
    """Removes what was made from a log that is another one now."""
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
            return  # an earlier try did it, and its answer was lost
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
    terms.forget(link, place)
    leave_parent(link, place, about)


def leave_parent(link: Link, place: Place, about: Conversation) -> None:
    """Takes a fork off the list that its parent has."""
    if about.parent:
        link.ask(statements.DELETE_FORK, place.sibling(about.parent).named(fork=about.id))


def salvage(link: Link, place: Place) -> Salvage:
    """What lies in the place of a log, and of its ancestors'."""
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
    """Puts these events in place of the conversation's own rows."""
    if link.is_again and _is_done(link, place, events, after):
        return  # an earlier try did it, and its answer was lost
    about = log.conversation_row(link, place, locked=True)
    if salvage(link, place) != seen:
        raise checks.written_meanwhile(about.id, about.head)
    link.ask(statements.DELETE_EVENTS, place.named())
    terms.forget(link, place)
    if events:
        log.insert(link, place, events)
    for reader in readers(link, place, 0):
        forget_derived(link, reader, titles=False)
    if events or after:
        _settle(link, place, about, events, after)
        _keep_copy(link, place, seen)
    else:
        link.ask(statements.DELETE_ROW, place.named())
        leave_parent(link, place, about)


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
    leave_parent(link, place, about)
    if moved.parent:
        parent = place.sibling(moved.parent)
        link.ask(statements.PUT_FORK, parent.named(fork=about.id, fork_seq=after))
    for reader in readers(link, place, 0):
        forget_derived(link, reader, titles=True)


def _keep_copy(link: Link, place: Place, seen: Salvage) -> None:
    lines = b"".join(msgspec.json.encode(piece) + b"\n" for piece in seen.pieces)
    link.ask(statements.KEEP_DAMAGED, place.named(stamp=checks.stamp(), pieces=lines))
