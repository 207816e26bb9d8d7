"""A process that appends to two logs of a store and tells what was acknowledged.

`python -m tests.real.postgres.client URL NAME` writes one line for each acknowledged event:
conversation, seq, chain, body. One log is its own, the other is shared with all other clients.
Whatever passes (a server that dies, a standby that takes over) it must survive by itself.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable

from refold.core import codec
from refold.core.model import Event
from refold.errors import Conflict, NotFound, Unavailable
from refold.stores import Store, open_store
from refold.stores.contract.kit import sealed

SHARED = "shared"
TRIES_MAX = 10_000

Acked = tuple[str, int, str, str]


def newest_of(store: Store, conversation: str) -> Event | None:
    try:
        head = store.conversation(conversation).head
    except NotFound:
        return None
    return store.read(conversation, after=head - 1, last=head)[0]


def appended(store: Store, conversation: str, newest: Event | None, body: bytes) -> Event:
    """Appends one event, whatever others append at the same time."""
    for _ in range(TRIES_MAX):
        [event] = sealed(newest, [body], by=conversation)
        try:
            return again_if_unavailable(store, conversation, event)
        except Conflict:
            newest = newest_of(store, conversation)
    raise AssertionError(f"{TRIES_MAX} conflicts in a row")


def again_if_unavailable(store: Store, conversation: str, event: Event) -> Event:
    """The same event again: it is written once."""
    while True:
        try:
            store.append(conversation, [event], expect=event.seq - 1)
            return event
        except Unavailable as error:
            print(f"waiting: {error}", file=sys.stderr, flush=True)


def main(url: str, name: str) -> None:
    store = open_store(url)
    newest: dict[str, Event | None] = {log: newest_of(store, log) for log in (name, SHARED)}
    while True:
        for log in (name, SHARED):
            body = f'{{"of":"{name}","once":"{secrets.token_hex(8)}"}}'
            event = newest[log] = appended(store, log, newest[log], body.encode())
            print(log, event.seq, event.chain.hex(), body, flush=True)


class Client:
    """The process, seen from outside; `acked` grows by itself."""

    def __init__(self, url: str, name: str) -> None:
        self.url, self.name = url, name
        self.acked: list[Acked] = []
        self.ended = False
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "tests.real.postgres.client", self.url, self.name]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
        self._listener = threading.Thread(target=self._listen, args=(self.process,))
        self._listener.start()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):
                log, seq, chain, body = line.rstrip("\n").split(" ", 3)
                self.acked.append((log, int(seq), chain, body))

    def kill(self) -> None:
        """kill -9, in the middle of whatever it does."""
        self.process.kill()
        self.process.wait(120)
        self._listener.join(120)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def restart(self) -> None:
        self.kill()
        self._start()

    def check_alive(self) -> None:
        if self.process.poll() is not None:
            assert self.process.stderr is not None
            raise AssertionError(f"{self.name} gave up: {self.process.stderr.read()}")


def wait_for_more(clients: Iterable[Client], more: int = 10, wait_s: float = 120) -> float:
    """Returns when every client has had so many more events acknowledged; gives the seconds."""
    began = time.monotonic()
    goals = [(client, len(client.acked) + more) for client in clients]
    for client, goal in goals:
        while len(client.acked) < goal:
            client.check_alive()
            assert time.monotonic() - began < wait_s, f"{client.name} does not go on"
            time.sleep(0.01)
    return time.monotonic() - began


def check_nothing_lost_or_doubled(store: Store, clients: Iterable[Client]) -> int:
    """Everything acknowledged is there once, where it was said to be; gives the number."""
    logs = {about.id: read_all(store, about.id) for about in store.conversations()}
    for events in logs.values():
        assert list(codec.check(events)) == []
    bodies = Counter(event.body for events in logs.values() for event in events)
    assert [body for body, times in bodies.items() if times > 1] == []
    acked = [one for client in clients for one in client.acked]
    for log, seq, chain, body in acked:
        event = logs[log][seq - 1]
        assert (event.seq, event.chain.hex(), event.body) == (seq, chain, body.encode())
    return len(acked)


def read_all(store: Store, conversation: str) -> list[Event]:
    events: list[Event] = []
    while page := store.read(conversation, after=len(events)):
        events += page
    return events


if __name__ == "__main__":
    main(*sys.argv[1:])
