"""Hints among all who use one database: which logs have a new head.

NOTIFY carries them, LISTEN hears them. A hint may be lost, late, doubled, or made up by anybody who
may connect, so it only says where to look. It is sent after the commit that it tells of, many at
once: a NOTIFY inside an append would make all appends of the database commit one after the other.
Hearing needs a connection of its own, which a pooler does not give. Neighbours: `edges.server`
tells and hears; `connections` is the way to tell.
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
from refold.stores.postgres import connections as failures
from refold.stores.postgres.address import Address, parsed
from refold.stores.postgres.connections import Connections, Link, Way
from refold.stores.protocol import Hint

CHANNEL = "refold_hints"
PAYLOAD_BYTES_MAX = 7_500  # PostgreSQL takes less than 8,000
CHECK_S = 5.0
NAME = "refold hints"  # in pg_stat_activity
# A hint need not be on the disk.
_TELL = f"""
SELECT set_config('synchronous_commit', 'off', true), pg_notify('{CHANNEL}', payload)
FROM unnest(%(payloads)s::text[]) AS payload
"""
Name = Annotated[str, Meta(max_length=100)]


class Payload(Struct, frozen=True, forbid_unknown_fields=True):
    """What one NOTIFY carries: who sent it, and org, conversation and head of each change."""

    sender: Name
    changes: list[tuple[Name, Name, Annotated[int, Meta(ge=0)]]]


class PostgresHints:
    """Tells and hears hints; satisfies `Hints`. `direct` is an address of the same database that
    does not lead through a pooler; empty if that of the store does not."""

    def __init__(self, connections: Connections, direct: str) -> None:
        self._connections = connections
        self._address = _direct(direct) if direct else connections.address
        self._name = secrets.token_hex(8)

    def tell(self, hints: Sequence[Hint]) -> None:
        values = {"payloads": payloads_of(self._name, hints)}
        self._connections.run(
            lambda link: link.execute(_TELL, values), way=Way.ALONE, nothing=lambda: None
        )

    @contextmanager
    def hearing(self) -> Iterator[PostgresEar]:
        with _translated(self._address):
            link = failures.connected(self._address.conninfo, self._address.org)
        try:
            with _translated(self._address):
                self._begin(link)
            yield PostgresEar(link, self._name, self._address)
        finally:
            link.close()

    def _begin(self, link: Link) -> None:
        """Listens, and makes sure that what is told is heard here."""
        place = self._address.url
        if link.is_shared:
            said = f"{place} leads through a pooler, where nothing can be heard"
            raise Invalid(said, hint="--direct postgresql://… names the database itself")
        link.execute("SELECT set_config('application_name', %s, false)", (NAME,))
        link.execute(f"LISTEN {CHANNEL}")
        self.tell([])
        until = time.monotonic() + CHECK_S
        while (left_s := until - time.monotonic()) > 0:
            for notify in link.notifies(timeout=left_s, stop_after=1):
                payload = payload_in(notify.payload)
                if payload is not None and payload.sender == self._name:
                    return
        said = f"{place} does not hear what is told at {self._connections.address.url}"
        raise Unavailable(said, hint="--direct must lead to the same database as --store")


class PostgresEar:
    """A connection that listens."""

    def __init__(self, link: Link, name: str, address: Address) -> None:
        self._link, self._name, self._address = link, name, address

    def heard(self, wait_s: float) -> list[Hint]:
        """What others told, as soon as one did; nothing after so long."""
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
    """The hints in payloads that PostgreSQL takes; at least one."""
    found: list[str] = []
    changes = [(hint.org, hint.conversation, hint.head) for hint in hints]
    while True:
        count = len(changes)
        while len(text := _encoded(sender, changes[:count])) > PAYLOAD_BYTES_MAX and count > 1:
            count //= 2
        found.append(text.decode())
        changes = changes[count:]
        if not changes:
            return found


def _encoded(sender: str, changes: list[tuple[str, str, int]]) -> bytes:
    return msgspec.json.encode(Payload(sender, changes))


def payload_in(text: str) -> Payload | None:
    """What a NOTIFY says; None if it is not one of ours: the channel is anybody's."""
    try:
        return decoding.decode(text, Payload)
    except (msgspec.DecodeError, RecursionError):
        return None


def _direct(url: str) -> Address:
    if url.partition(":")[0] not in ("postgresql", "postgres"):
        raise Invalid("the direct address is not one of PostgreSQL", hint="postgresql://…")
    return parsed(url)


@contextmanager
def _translated(address: Address) -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, OSError) as error:
        raise failures.failures_failure(error, address.url) from error
