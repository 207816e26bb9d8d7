"""Artifacts as rows: a content is cut into chunks, and is there once its row is.

What comes in is hashed on the way into a file without a name on this machine, since its digest is
its key and is known at the end; then it goes to the database in one transaction, and not at all if
it is there. What goes out is asked for chunk by chunk, so nobody holds a connection while reading,
and is hashed again. Neighbours: `store` calls, `stores.contents` does the same with files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO

from msgspec import Struct

from refold.core import codec
from refold.errors import Corrupt
from refold.stores import checks
from refold.stores.postgres import statements
from refold.stores.postgres.connections import Connections
from refold.stores.postgres.link import Link
from refold.system import disk

CHUNK_BYTES = 256 * 1024
IN_MEMORY_BYTES = 1024 * 1024


class Content(Struct, frozen=True):
    """What was taken in: its digest, its size, and a file that holds it."""

    digest: str
    size_bytes: int
    file: IO[bytes]


@contextmanager
def taken(chunks: Iterable[bytes]) -> Iterator[Content]:
    """A content, taken from a stream."""
    hasher, size = codec.content_hasher(), 0
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
    """Keeps a content. In a transaction: all of its chunks, or nothing."""
    values = {"org": org, "digest": bytes.fromhex(content.digest)}
    if link.ask(statements.PUT_AGAIN, values).rowcount:
        return
    link.ask(statements.PUT_CONTENT, {**values, "size_bytes": content.size_bytes})
    link.ask(statements.DROP_CHUNKS, values)
    content.file.seek(0)
    for number, chunk in enumerate(iter(lambda: content.file.read(CHUNK_BYTES), b"")):
        link.ask(statements.PUT_CHUNK, {**values, "number": number, "bytes": chunk})


def get(connections: Connections, org: str, digest: str) -> Iterator[bytes]:
    """The bytes in chunks; NotFound at once if there are none, Corrupt at the end if they are not
    those that were put."""
    size = connections.look(lambda link: _size(link, org, digest), lambda: None)
    if size is None:
        raise checks.no_artifact(digest)
    return _chunks(connections, org, digest, size)


def _size(link: Link, org: str, digest: str) -> int | None:
    values = {"org": org, "digest": bytes.fromhex(digest)}
    row = link.ask(statements.CONTENT, values).fetchone()
    return None if row is None else int(row[0])


def _chunks(connections: Connections, org: str, digest: str, size: int) -> Iterator[bytes]:
    hasher, left, number = codec.content_hasher(), size, 0
    while left > 0:
        chunk = connections.look(lambda link: _chunk(link, org, digest, number), lambda: b"")  # noqa: B023
        if not chunk:
            break
        hasher.update(chunk)
        left -= len(chunk)
        number += 1
        yield chunk
    if left or hasher.hexdigest() != digest:
        said = f"{codec.artifact_id(digest)} does not hold what was put there"
        raise Corrupt(said, hint="refold verify")


def _chunk(link: Link, org: str, digest: str, number: int) -> bytes:
    values = {"org": org, "digest": bytes.fromhex(digest), "number": number}
    row = link.ask(statements.CHUNK, values).fetchone()
    return b"" if row is None else bytes(row[0])


def drop(link: Link, org: str, digest: str, before_ms: int) -> bool:
    """Removes a content that was not put since; True once it is gone."""
    values = {"org": org, "digest": bytes.fromhex(digest)}
    if link.ask(statements.DROP_CONTENT, {**values, "before_ms": before_ms}).rowcount:
        link.ask(statements.DROP_CHUNKS, values)
        return True
    return _size(link, org, digest) is None
