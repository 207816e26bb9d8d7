"""Hints between the processes that share a database: which logs may have a new head.

NOTIFY sends them, LISTEN receives them. A hint may be lost, late, repeated, or forged by anyone who
can connect, so it only says where to look. Hints are sent after their commits, many at once: a
NOTIFY inside an append would serialize all appends of the database. Receiving needs a separate
connection, which a pooler does not provide. Neighbours: `edges.server` publishes and receives,
`connections` runs the statements.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import msgspec
import psycopg
from msgspec import Meta, Struct

from refold import decoding
from refold.errors import Invalid, Unavailable
from refold.stores.postgres.address import Address, parsed
from refold.stores.postgres.connections import Connections, Link, Way, connected, failure_of
from refold.stores.protocol import Hint

CHANNEL = "refold_hints"
PAYLOAD_BYTES_MAX = 7_500  # PostgreSQL takes less than 8,000
CHECK_S = 5.0
NAME = "refold hints"  # in pg_stat_activity
# A hint need not be on the disk.
_PUBLISH = f"""
SELECT set_config('synchronous_commit', 'off', true), pg_notify('{CHANNEL}', payload)
FROM unnest(%(payloads)s::text[]) AS payload
"""
Name = Annotated[str, Meta(max_length=100)]


class Payload(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a NOTIFY: its sender, and org, conversation and head of each change."""

    sender: Name
    changes: list[tuple[Name, Name, Annotated[int, Meta(ge=0)]]]


class PostgresHints:
    """Publishes and receives hints; satisfies `Hints`. `direct` is an address of the same database
    that bypasses a pooler; empty if the store's own address does."""

    def __init__(self, connections: Connections, direct: str) -> None:
        self._connections = connections
        self._address = connections.address
        if direct:
            if direct.partition(":")[0] not in ("postgresql", "postgres"):
                raise Invalid("the direct address is not one of PostgreSQL", hint="postgresql://…")
            self._address = parsed(direct)
        self._name = secrets.token_hex(8)

    def publish(self, hints: Sequence[Hint]) -> None:
        values = {"payloads": payloads_of(self._name, hints)}
        self._connections.run(
            lambda link: link.execute(_PUBLISH, values), way=Way.ALONE, nothing=lambda: None
        )

    @contextmanager
    def receiver(self) -> Iterator[PostgresHintReceiver]:
        with _translated(self._address):
            link = connected(self._address.conninfo, self._address.org)
        try:
            with _translated(self._address):
                self._begin(link)
            yield PostgresHintReceiver(link, self._name, self._address)
        finally:
            link.close()

    def _begin(self, link: Link) -> None:
        """Starts to listen, and checks that a published hint arrives here."""
        url = self._address.url
        if link.is_shared:
            message = f"{url} leads through a pooler, where no hint can be received"
            raise Invalid(message, hint="--direct postgresql://… names the database itself")
        link.execute("SELECT set_config('application_name', %s, false)", (NAME,))
        link.execute(f"LISTEN {CHANNEL}")
        self.publish([])
        until = time.monotonic() + CHECK_S
        while (left_s := until - time.monotonic()) > 0:
            for notify in link.notifies(timeout=left_s, stop_after=1):
                payload = payload_in(notify.payload)
                if payload is not None and payload.sender == self._name:
                    return
        message = f"{url} does not receive the hints of {self._connections.address.url}"
        raise Unavailable(message, hint="--direct must lead to the same database as --store")


class PostgresHintReceiver:
    """A listening connection; satisfies `HintReceiver`."""

    def __init__(self, link: Link, name: str, address: Address) -> None:
        self._link, self._name, self._address = link, name, address

    def receive(self, wait_s: float) -> list[Hint]:
        """The next hints of other processes, as soon as there is one; empty after the wait."""
        with _translated(self._address):
            notifies = list(self._link.notifies(timeout=wait_s, stop_after=1))
        payloads = [payload_in(notify.payload) for notify in notifies]
        return [
            Hint(*change)
            for payload in payloads
            if payload is not None and payload.sender != self._name
            for change in payload.changes
        ]


def payloads_of(sender: str, hints: Sequence[Hint]) -> list[str]:
    """The hints in payloads that PostgreSQL accepts; at least one."""
    payloads: list[str] = []
    changes = [(hint.org, hint.conversation, hint.head) for hint in hints]
    while True:
        count = len(changes)
        while len(text := _encoded(sender, changes[:count])) > PAYLOAD_BYTES_MAX and count > 1:
            count //= 2
        payloads.append(text.decode())
        changes = changes[count:]
        if not changes:
            return payloads


def _encoded(sender: str, changes: list[tuple[str, str, int]]) -> bytes:
    return msgspec.json.encode(Payload(sender, changes))


def payload_in(text: str) -> Payload | None:
    """The content of a NOTIFY; None if it is foreign, because anyone may use the channel."""
    try:
        return decoding.decode(text, Payload)
    except (msgspec.DecodeError, RecursionError):
        return None


@contextmanager
def _translated(address: Address) -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, OSError) as error:
        raise failure_of(error, address.url) from error
