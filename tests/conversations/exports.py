"""Conversations to export, and what comes of it."""

from __future__ import annotations

import refold
from refold.conversations.exporter import json_chunks
from refold.core.model import Event
from refold.stores.in_memory import MemoryStore


def store_of(events: list[Event], id: str = "talk") -> MemoryStore:
    store = MemoryStore()
    store.append(id, events, expect=0)
    return store


def talk() -> MemoryStore:
    """A conversation with artifacts, text and not, a compaction, an odd body and a long history."""
    store = MemoryStore()
    config = {"ladder": ("hide",), "offload_tokens": 200}
    with refold.open(
        "talk", store=store, model="claude-sonnet-4-5", system="Be brief", config=config
    ) as context:
        context.update(title="A talk")
        for turn in range(6):
            context.append({"role": "user", "content": f"question {turn}: é \u2028 \x00 \x1b[31m"})
            call = {"type": "tool_use", "id": f"t{turn}", "name": "run", "input": {"a": turn}}
            context.append({"role": "assistant", "content": [call]})
            context.append_result(f"t{turn}", "öutput ``` line\n" * (2_000 if turn == 1 else 3))
        context.artifacts.put(
            bytes(range(256)) * 2_000, name="picture", mime="application/octet-stream"
        )
        context.compact("hide", target=100)
    return store


def document(store: MemoryStore, id: str = "talk") -> bytes:
    return b"".join(json_chunks(store, id))


def log(store: MemoryStore, id: str = "talk") -> list[Event]:
    return store.read(id, limit=100_000)


def talk_of(store: MemoryStore) -> MemoryStore:
    """The numbered copy under the id that it came with."""
    twin = MemoryStore()
    twin.contents = store.contents
    twin.append("talk", log(store, "talk-2"), expect=0)
    return twin
