"""What the calls of the proxy took and saved, added up by conversation.

The lines stand as notes in the logs; what a fork shares with its parent counts once, for the
parent. Neighbours: `savings` makes the lines, the command `proxy --report` shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from refold.conversations.listing import described, newest, title_of
from refold.core.model import Conversation
from refold.edges.proxy.book import TAG
from refold.edges.proxy.savings import NOTE, CallLine, line_of
from refold.log.log import Log
from refold.log.notes import notes_of
from refold.stores.protocol import Store


class Sum(Struct, frozen=True, kw_only=True):
    """The calls of a conversation, or of all. Money is None where no call's price is known."""

    conversation: str
    title: str = ""
    calls: int = 0
    folded: int = 0
    input: int = 0
    sent: int = 0
    cached: int = 0
    output: int = 0
    saved: int = 0
    cost: float | None = None
    saved_cost: float | None = None


def sums(store: Store) -> Iterator[Sum]:
    """The conversations that came through a proxy, the newest first."""
    for about in newest(store, tag=TAG):
        lines = list(_lines(store, about))
        if lines:
            title = title_of(store, about.id, described(store, about).title)
            yield msgspec.structs.replace(added(about.id, lines), title=title)


def _lines(store: Store, about: Conversation) -> Iterator[CallLine]:
    # What was billed stays billed, whatever a restore takes off the page.
    for note in notes_of(Log(store, about.id), NOTE, also_off=True):
        line = line_of(note.data) if note.seq > about.parent_seq else None
        if line is not None:
            yield line


def added(name: str, lines: Iterable[CallLine | Sum]) -> Sum:
    """What lines, or sums, come to."""
    given = list(lines)
    costs = [one.cost for one in given if one.cost is not None]
    saved = [one.saved_cost for one in given if one.saved_cost is not None]
    return Sum(
        conversation=name,
        calls=sum(one.calls if isinstance(one, Sum) else 1 for one in given),
        folded=sum(int(one.folded) for one in given),
        input=sum(one.input for one in given),
        sent=sum(one.sent for one in given),
        cached=sum(one.cached for one in given),
        output=sum(one.output for one in given),
        saved=sum(one.saved for one in given),
        cost=sum(costs) if costs else None,
        saved_cost=sum(saved) if saved else None,
    )
