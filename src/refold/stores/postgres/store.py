"""A store in PostgreSQL: shared by a team, kept by a server with its own copies.

An append is one statement under the lock of its conversation's row, and is acknowledged when it is
committed: on the disk of the server, and of its synchronous standby if there is one. A server that
dies costs a wait: the work is repeated, and written once, because an append that already exists is
recognized by its chain. Erased bytes are gone from every answer at once; from the files of the
server when it vacuums them, and from its backups when these expire.

A content is stored in chunks and exists once its row does. It is hashed into an unnamed file on the
way in, since the digest is its key. On the way out it is queried chunk by chunk, so that no reader
holds a connection, and hashed again. Neighbours: `log` and `forks_and_erasure` have the rows,
`connections` runs the work.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, NoReturn, TypeVar

from msgspec import Struct

from refold.core import ids
from refold.core.model import Conversation, Event
from refold.errors import Corrupt
from refold.stores import checks
from refold.stores.postgres import forks_and_erasure, log, schema, statements
from refold.stores.postgres.address import SERVER_CONNECTIONS_MAX, SERVER_WAIT_S, Address, parsed
from refold.stores.postgres.connections import Connections, Link, Pool, Way
from refold.stores.postgres.log import Place
from refold.stores.postgres.notifications import PostgresHints
from refold.stores.postgres.search_index import PostgresTerms
from refold.stores.protocol import Recovery, Salvage
from refold.system import disk

R = TypeVar("R")

MS_MAX = (1 << 62) - 1


@checks.checked_store
class PostgresStore:
    """Keeps logs and artifacts of one org in a PostgreSQL database; satisfies `Store`."""

    recovered: Sequence[Recovery] = ()  # PostgreSQL recovers automatically

    def __init__(self, at: Address, *, pool: Pool | None = None, read_only: bool = False) -> None:
        self.connections = Connections(at, pool or Pool(at), read_only=read_only)
        self.url, self.org = at.url, at.org
        self.terms = PostgresTerms(self.connections, self.org)

    def hints(self, direct: str) -> PostgresHints:
        """Hints between the processes that use this database, for all orgs."""
        return PostgresHints(self.connections, direct)

    def passes_walls(self) -> bool:
        """Whether the database role bypasses row-level security and sees the rows of all orgs."""
        return self.connections.run(
            lambda link: bool(link.execute(schema.PASSES_WALLS).fetchone()[0]),
            way=Way.ALONE,
            nothing=lambda: False,
        )

    # --- logs ---

    def conversations(self, *, after: str = "", limit: int = 100) -> list[Conversation]:
        most = checks.bounded(limit)
        return self.connections.read(
            lambda link: log.listed(link, self.org, after.replace("\0", ""), most), list
        )

    def head(self, conversation: str) -> int | None:
        values = self._place(conversation).named()

        def head_of(link: Link) -> int | None:
            row = link.ask(statements.HEAD, values).fetchone()
            return None if row is None else int(row[0])

        return self.connections.read(head_of, lambda: None)

    def conversation(self, conversation: str) -> Conversation:
        return self._read_existing(log.conversation_row, conversation)

    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        end = checks.SEQ_MAX if last is None else checks.bounded(last)
        bounds = checks.bounded(after), end, checks.bounded(limit)
        own = self._read_existing(
            lambda link, place: log.read_own(link, place, *bounds), conversation
        )
        if own is not None:
            return own
        return self._read_existing(
            lambda link, place: log.read_through(link, place, *bounds), conversation, Way.ONE_MOMENT
        )

    def append(self, conversation: str, events: Sequence[Event], *, expect: int) -> None:
        checks.check_append(conversation, events, expect)
        if not events:
            return
        place = self._place(conversation)
        if not self.connections.run(
            lambda link: log.append(link, place, events, expect), way=Way.ALONE
        ):
            self.connections.run(lambda link: log.confirm(link, place, events, expect))

    def bookmark(self, conversation: str, *, at: int | None = None) -> bytes | None:
        if at is not None:
            return None
        values = self._place(conversation).named()

        def kept(link: Link) -> bytes | None:
            row = link.ask(statements.BOOKMARK, values).fetchone()
            return None if row is None else bytes(row[0])

        return self.connections.read(kept, lambda: None)

    def keep_bookmark(self, conversation: str, data: bytes, *, at: int | None = None) -> None:
        if at is not None:
            return
        values = self._place(conversation).named(bookmark=bytes(data))

        def keep(link: Link) -> int:
            return int(link.ask(statements.KEEP_BOOKMARK, values).rowcount)

        if not self.connections.run(keep, way=Way.ALONE, nothing=lambda: 0):
            raise checks.unknown(conversation)

    # --- contents ---

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        with spooled(chunks) as content:
            self.connections.run(lambda link: put(link, self.org, content))
            return content.digest

    def get(self, digest: str) -> Iterator[bytes]:
        return get(self.connections, self.org, ids.digest_checked(digest))

    def location(self, digest: str) -> str | None:
        """None: no content is on this disk."""
        ids.digest_checked(digest)
        return None

    def drop(self, digest: str, *, before_ms: int) -> bool:
        ids.digest_checked(digest)
        before_ms = min(max(before_ms, 0), MS_MAX)
        return self.connections.run(
            lambda link: drop(link, self.org, digest, before_ms), nothing=lambda: True
        )

    def derived_path(self, name: str) -> str | None:
        """None: this store has no place on this disk."""
        return None

    # --- forks, and removing ---

    def fork(self, conversation: str, at: int, new: str) -> None:
        ids.conversation_checked(new)
        self._change_existing(
            lambda link, place: forks_and_erasure.fork(link, place, at, new), conversation
        )

    def erase(self, conversation: str, seq: int) -> None:
        self._change_existing(
            lambda link, place: forks_and_erasure.erase(link, place, seq), conversation
        )

    def delete(self, conversation: str) -> None:
        self._change_existing(forks_and_erasure.delete, conversation)

    # --- repair ---

    def salvage(self, conversation: str) -> Salvage:
        return self._read_existing(forks_and_erasure.salvage, conversation, Way.ONE_MOMENT)

    def rewrite(
        self, conversation: str, events: Sequence[Event], *, after: int, seen: Salvage
    ) -> str:
        self._change_existing(
            lambda link, place: forks_and_erasure.rewrite(link, place, events, after, seen),
            conversation,
        )
        return ""

    # --- the end ---

    def flush(self) -> None:
        """Does nothing: every acknowledged write is committed."""

    def close(self) -> None:
        self.connections.close()

    # --- one conversation ---

    def _place(self, conversation: str) -> Place:
        return Place(self.org, ids.conversation_checked(conversation))

    def _read_existing(
        self, work: Callable[[Link, Place], R], conversation: str, way: Way = Way.ALONE
    ) -> R:
        """Reads from a conversation; NotFound without tables."""
        place = self._place(conversation)
        return self.connections.read(
            lambda link: work(link, place), _unknown(conversation), way=way
        )

    def _change_existing(self, work: Callable[[Link, Place], R], conversation: str) -> R:
        """Changes a conversation in one transaction; NotFound without tables."""
        place = self._place(conversation)
        nothing = _unknown(conversation)
        return self.connections.run(lambda link: work(link, place), nothing=nothing)


def opened(url: str, *, read_only: bool) -> PostgresStore:
    """The store that a URL names."""
    return PostgresStore(parsed(url), read_only=read_only)


def orgs_at(url: str, *, processes: int) -> Callable[[str], PostgresStore]:
    """Opens the stores of orgs in one database, all on the same connections: this process gets its
    share of those that the URL allows."""
    at = parsed(url, SERVER_CONNECTIONS_MAX, SERVER_WAIT_S).divided(processes)
    pool = Pool(at)
    return lambda org: PostgresStore(at.of_org(org), pool=pool)


def _unknown(conversation: str) -> Callable[[], NoReturn]:
    """Raises NotFound when called: without tables there is no conversation."""

    def refuse() -> NoReturn:
        raise checks.unknown(conversation)

    return refuse


CHUNK_BYTES = 256 * 1024
IN_MEMORY_BYTES = 1024 * 1024


class Content(Struct, frozen=True):
    """A content on its way in: its digest, its size, and a file with the bytes."""

    digest: str
    size_bytes: int
    file: IO[bytes]


@contextmanager
def spooled(chunks: Iterable[bytes]) -> Iterator[Content]:
    """A content, read from a stream into a temporary file."""
    hasher, size = ids.content_hasher(), 0
    with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as file:
        for chunk in chunks:
            try:
                hasher.update(chunk)
                size += file.write(chunk)
            except TypeError as error:
                raise checks.not_bytes(error) from error
            except OSError as error:
                doing = "cannot keep an artifact on its way to the database"
                raise disk.os_failure(error, doing) from error
        yield Content(hasher.hexdigest(), size, file)


def put(link: Link, org: str, content: Content) -> None:
    """Writes a content, inside the caller's transaction."""
    values = {"org": org, "digest": bytes.fromhex(content.digest)}
    if link.ask(statements.PUT_AGAIN, values).rowcount:
        return
    link.ask(statements.PUT_CONTENT, {**values, "size_bytes": content.size_bytes})
    link.ask(statements.DROP_CHUNKS, values)
    content.file.seek(0)
    for number, chunk in enumerate(iter(lambda: content.file.read(CHUNK_BYTES), b"")):
        link.ask(statements.PUT_CHUNK, {**values, "number": number, "bytes": chunk})


def get(connections: Connections, org: str, digest: str) -> Iterator[bytes]:
    """The bytes in chunks; NotFound at once if they are missing, Corrupt at the end if their digest
    is another."""
    size = connections.read(lambda link: _size(link, org, digest), lambda: None)
    if size is None:
        raise checks.no_artifact(digest)
    return _chunks(connections, org, digest, size)


def _size(link: Link, org: str, digest: str) -> int | None:
    values = {"org": org, "digest": bytes.fromhex(digest)}
    row = link.ask(statements.CONTENT, values).fetchone()
    return None if row is None else int(row[0])


def _chunks(connections: Connections, org: str, digest: str, size: int) -> Iterator[bytes]:
    hasher, left, number = ids.content_hasher(), size, 0
    while left > 0:
        chunk = connections.read(lambda link: _chunk(link, org, digest, number), lambda: b"")  # noqa: B023
        if not chunk:
            break
        hasher.update(chunk)
        left -= len(chunk)
        number += 1
        yield chunk
    if left or hasher.hexdigest() != digest:
        message = f"{ids.artifact_id(digest)} does not hold what was put there"
        raise Corrupt(message, hint="refold verify")


def _chunk(link: Link, org: str, digest: str, number: int) -> bytes:
    values = {"org": org, "digest": bytes.fromhex(digest), "number": number}
    row = link.ask(statements.CHUNK, values).fetchone()
    return b"" if row is None else bytes(row[0])


def drop(link: Link, org: str, digest: str, before_ms: int) -> bool:
    """Removes a content unless it was put since; True once it is gone."""
    values = {"org": org, "digest": bytes.fromhex(digest)}
    if link.ask(statements.DROP_CONTENT, {**values, "before_ms": before_ms}).rowcount:
        link.ask(statements.DROP_CHUNKS, values)
        return True
    return _size(link, org, digest) is None
