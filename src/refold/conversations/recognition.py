"""Finding the conversation that a list of messages belongs to, by what it says.

Whoever only sees requests has no id to go by, or one that several conversations share. The longest
front wins (`log.front`); a header can only narrow the choice. Neighbours: `search.fronts` has the
fronts of a store, `engine.mirror` goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from msgspec import Struct

from refold import dialects
from refold.conversations.listing import described
from refold.core.model import Conversation
from refold.log.front import BEGINNING, front_of
from refold.search.fronts import StoreFronts
from refold.stores.protocol import Store


class Recognised(Struct, frozen=True, kw_only=True):
    """A conversation, and how many messages at the beginning of the list it has."""

    conversation: Conversation
    shared: int


def recognise(store: Store, messages: Sequence[Any], dialect: str) -> Recognised | None:
    """The conversation that shares the longest front with the list; None if none has its first
    message."""
    known = StoreFronts(store)
    try:
        found = known.longest(fronts_of(messages, dialect))
    finally:
        known.close()
    if found is None:
        return None
    id, shared = found
    return Recognised(conversation=described(store, store.conversation(id)), shared=shared)


def fronts_of(messages: Sequence[Any], dialect: str) -> list[bytes]:
    """The fronts of a list."""
    parsed = (dialects.parse(message, dialect) for message in messages)
    _, *fronts = accumulate(parsed, front_of, initial=BEGINNING)
    return fronts
