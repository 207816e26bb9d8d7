"""refold as one more row of the peers harness: an `Adapter` with the interface that its other
adapters have.

Copied beside them by `bench.peers`; imports nothing of this folder. The harness's messages have
`call` (`id`, `name`, `args`) and `call_id`; its floor keeps a window of 100,000 tokens, so refold
gets the same.
"""

from __future__ import annotations

import os
from typing import Any

import refold

WINDOW = 100_000
# Messages between two requests while a history is loaded, so that compactions come as they would
SEED_STEP = 20


class Adapter:
    counter = "kept sum of refold's estimate"
    note = "durable log, page folded from it; turns with a compaction included"

    def __init__(self, folder: str, variant: str) -> None:
        self.path = os.path.join(folder, "refold.db")
        self.context: refold.Context
        _import_all()

    def open(self, new: bool) -> None:
        config = {"reserve_tokens": 0}
        self.context = refold.open(
            "peer", store=f"sqlite:{self.path}", window=WINDOW, config=config
        )

    def seed(self, messages: list[dict[str, Any]]) -> None:
        for start in range(0, len(messages), SEED_STEP):
            self.turn_append(messages[start : start + SEED_STEP])
            self.prepare()

    def turn_append(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            if message["role"] == "tool":
                self.context.append_result(message["call_id"], message["content"])
            else:
                self.context.append(wire_of(message))

    def prepare(self) -> int:
        return len(self.context.request(dialect="openai_chat")["messages"])

    def count(self) -> int:
        return self.context.stats().current

    def close(self) -> None:
        self.context.close()


def _import_all() -> None:
    """Names are imported when they are first used; the harness times what comes after imports."""
    import refold.stores.sqlite

    with refold.open(
        "warm", store="memory:", window=WINDOW, config={"reserve_tokens": 0}
    ) as context:
        context.append({"role": "user", "content": "warm"})
        context.request(dialect="openai_chat")


def wire_of(message: dict[str, Any]) -> dict[str, Any]:
    wire = {"role": message["role"], "content": message["content"]}
    if "call" in message:
        call = message["call"]
        wire["tool_calls"] = [{"id": call["id"], "name": call["name"], "arguments": call["args"]}]
    return wire
