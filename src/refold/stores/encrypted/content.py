"""Artifacts, encrypted in records as they stream, so that a large one is never held whole.

    refold-content-1 LF, the key's name LF, then records of 64 KiB, each with its tag

The key of a content follows from the file's key and from the content's own digest, and the nonce
is the number of the record, with a mark on the last one. So the same content gives the same bytes,
which a far store keeps once, and no two contents share a key. Records that are changed, moved, left
out or of another content do not decrypt. Neighbours: `store` sends and fetches.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import IO

from refold.errors import Corrupt
from refold.stores.encrypted import cipher
from refold.stores.encrypted.keys import Key, Keys

CONTENTS = b"refold content"  # what a key is derived for
HEAD = b"refold-content-1\n"
PLAIN_BYTES = 64 * 1024
RECORD_BYTES = PLAIN_BYTES + cipher.TAG_BYTES
NAME_BYTES_MAX = 64


def encrypted(file: IO[bytes], digest: str, key: Key) -> Iterator[bytes]:
    """The content of a file, which has this digest, as a far store is to keep it."""
    aead = cipher.aead(_secret(key, digest))
    yield HEAD + key.id.encode() + b"\n"
    number, plain = 0, file.read(PLAIN_BYTES)
    while True:
        following = file.read(PLAIN_BYTES)
        yield aead.encrypt(_nonce(number, is_last=not following), plain, HEAD)
        if not following:
            return
        number, plain = number + 1, following


def decrypted(chunks: Iterable[bytes], digest: str, keys: Keys, what: str) -> Iterator[bytes]:
    """What was encrypted; Corrupt where it is not, after the chunks before it."""
    stream = _Stream(chunks)
    if stream.line() != HEAD.rstrip():
        raise Corrupt(f"{what} is not encrypted as this refold does", hint="upgrade refold")
    key = keys.named(stream.line().decode("ascii", "replace"), what)
    secret = _secret(key, digest)
    number, record = 0, stream.record()
    while True:
        following = stream.record()
        nonce = _nonce(number, is_last=not following)
        try:
            plain = cipher.decrypt_with(secret, nonce, record, HEAD)
        except cipher.Changed as error:
            hint = "a device that has it sends it again with the next event that names it"
            raise Corrupt(f"{what} was changed there: {error}", hint=hint) from error
        if plain:
            yield plain
        if not following:
            return
        number, record = number + 1, following


def _secret(key: Key, digest: str) -> bytes:
    return key.derived(CONTENTS, bytes.fromhex(digest))


def _nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(cipher.NONCE_BYTES - 1, "big") + bytes([is_last])


class _Stream:
    """Chunks of any size, read as lines and records."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = io.BytesIO()

    def line(self) -> bytes:
        """Bytes up to the end of a line; at most as many as a name has."""
        found = b""
        while len(found) < NAME_BYTES_MAX and (byte := self._read(1)) not in (b"", b"\n"):
            found += byte
        return found

    def record(self) -> bytes:
        """The bytes of one record, or what is left of them."""
        return self._read(RECORD_BYTES)

    def _read(self, count: int) -> bytes:
        found = self._rest.read(count)
        while len(found) < count:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._rest = io.BytesIO(chunk)
            found += self._rest.read(count - len(found))
        return found
