"""The least that keeping a session takes: what no importer can leave out, each measured alone.

Every line decoded, every body encoded, every event hashed twice (its digest and the chain), a token
count of every text, and one insert per event in transactions of a thousand. No message is parsed
and nothing is checked. The bodies are those that the import itself wrote. Neighbours: `importers`
holds the import against the sum.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from refold.config import Config
from refold.core import codec
from refold.core.model import Event, Message, Text, ToolCall, ToolResult
from refold.edges.importers.importer import import_file
from refold.engine.context import Context
from refold.log.draft import RUN_EVENTS_MAX
from refold.stores.protocol import Store

PARTS = ("encode", "hash", "count", "insert")
Clock = Callable[[Callable[[], object]], float]


def floor_of(path: Path, store: Store, clock: Clock) -> dict[str, float]:
    """CPU seconds of each part for one file, after an import of it into the store."""
    sums = dict.fromkeys(PARTS, 0.0)
    for session in import_file(store, Config(), path).sessions:
        for part, spent in _parts_of(session.conversation, store, clock).items():
            sums[part] += spent
    return sums


def _parts_of(conversation: str, store: Store, clock: Clock) -> dict[str, float]:
    with Context(store, conversation) as context:
        count = context._open.counter
    events = list(_events(store, conversation))
    bodies = [codec.decode(event) for event in events]
    texts = [text for body in bodies if isinstance(body, Message) for text in _texts(body)]
    return {
        "encode": clock(lambda: [msgspec.json.encode(body) for body in bodies]),
        "hash": clock(lambda: _hash(events)),
        "count": clock(lambda: [count(text) for text in texts]),
        "insert": clock(lambda: _insert(store, f"floor-{len(events)}", events)),
    }


def _events(store: Store, conversation: str) -> Iterator[Event]:
    after = 0
    while page := store.read(conversation, after=after, limit=RUN_EVENTS_MAX):
        yield from page
        after = page[-1].seq


def _texts(message: Message) -> Iterator[str]:
    for block in message.blocks:
        parts = block.content if isinstance(block, ToolResult) else (block,)
        for part in parts:
            if isinstance(part, Text) and part.text:
                yield part.text
            if isinstance(part, ToolCall):
                yield str(part.arguments)


def _hash(events: list[Event]) -> None:
    chain = codec.ZERO
    for event in events:
        salt = os.urandom(codec.SALT_BYTES)
        digest = hashlib.blake2b(salt + event.body, digest_size=16).digest()
        envelope = chain + digest + event.id.encode() + event.by.encode()
        chain = hashlib.blake2b(envelope, digest_size=16).digest()


def _insert(store: Store, conversation: str, events: list[Event]) -> None:
    for first in range(0, len(events), RUN_EVENTS_MAX):
        store.append(conversation, events[first : first + RUN_EVENTS_MAX], expect=first)
