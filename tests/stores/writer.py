"""A process that writes to a store and tells by a pipe what was acknowledged, so that it can be
killed at any point."""

from __future__ import annotations

import os
import random
import select
import signal
from collections.abc import Callable

from refold.core import codec
from refold.core.model import Event
from refold.stores import Store, open_store
from refold.stores.contract.kit import sealed

ACK_BYTES = 8 + 16
BATCH_MAX = 5


def endless(
    store: Store, ack: Callable[[Event], None], chance: random.Random, *, flush: bool
) -> None:
    """Appends until it is killed: single events, batches, bookmarks, artifacts."""
    known = store.conversations()
    newest = store.read("log", after=known[0].head - 1)[0] if known else None
    while True:
        count, kind = chance.choice([1, 1, 1, BATCH_MAX]), "message"
        bodies = [chance.randbytes(int(chance.lognormvariate(7, 1.5))) for _ in range(count)]
        if chance.random() < 0.05:
            bodies, kind = [store.put(bodies).encode()], "artifact"
        events = sealed(newest, bodies, kind=kind)
        store.append("log", events, expect=events[0].seq - 1)
        if chance.random() < 0.05:
            store.keep_bookmark("log", bodies[0])
        if flush:
            store.flush()
        newest = events[-1]
        ack(newest)


class Writer:
    """The process, seen from outside."""

    def __init__(self, url: str, *, flush: bool) -> None:
        self._out, into = os.pipe()
        self.seed = random.randrange(1 << 30)
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                ack = lambda event: os.write(into, event.seq.to_bytes(8, "big") + event.chain)  # noqa: E731
                endless(
                    open_store(url),
                    lambda event: void(ack(event)),
                    random.Random(self.seed),
                    flush=flush,
                )
            finally:
                os._exit(status)
        os.close(into)

    def wait_for_first(self, timeout_s: float = 20) -> None:
        """Returns when the writer has acknowledged something, or has ended."""
        ready, _, _ = select.select([self._out], [], [], timeout_s)
        assert ready, "the writer said nothing"

    def kill(self) -> dict[int, bytes]:
        """Ends the process at once; gives what it had acknowledged: seq to chain."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        told = bytearray()
        while piece := os.read(self._out, 1 << 20):
            told += piece
        os.close(self._out)
        acks = [told[start : start + ACK_BYTES] for start in range(0, len(told), ACK_BYTES)]
        return {
            int.from_bytes(ack[:8], "big"): bytes(ack[8:]) for ack in acks if len(ack) == ACK_BYTES
        }


def void(_: int) -> None:
    return None


def check(store: Store, acked: dict[int, bytes]) -> int:
    """Everything acknowledged is there once, in order, unchanged; gives the head."""
    if not acked and not store.conversations():
        return 0
    events: list[Event] = []
    while page := store.read("log", after=len(events)):
        events += page
    assert list(codec.check(events)) == []
    assert {seq: events[seq - 1].chain for seq in acked if seq <= len(events)} == acked
    for event in events:
        if event.kind == "artifact":
            # The event was written after the artifact, so whoever sees the one must find the other.
            assert sum(map(len, store.get(event.body.decode()))) >= 0
    return len(events)
