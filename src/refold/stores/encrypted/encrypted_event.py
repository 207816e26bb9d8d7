"""Encrypted events and artifacts, as a far store keeps them.

A far event is a note with the seq, the id and the time of the near one. The rest of the near
envelope is encrypted in its `counter`, and the near salt and body in its body: after a far store
has erased the body, the envelope is still readable, and the near chain continues. The envelope is
bound to seq, id and time, the body to the near chain, which covers the whole log before it. The far
chain is made of far events, so a far store verifies its logs like any other.

    refold-content-1 LF, the key's id LF, then records of 64 KiB, each with its tag

An artifact is encrypted in records as it streams, so a large one is never held in memory. Its key
is derived from the file's key and its own digest, and the nonce is the number of the record, with a
mark on the last one. So the same content gives the same bytes, which a far store keeps once, and no
two contents share a key. Records that are changed, moved, missing or of another content do not
decrypt. Neighbours: `store` sends and fetches, `core.codec` has the chains.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterable, Iterator
from typing import IO

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold import decoding
from refold.core import codec
from refold.core.model import ENCRYPTED, Event, Note
from refold.errors import Corrupt, Invalid
from refold.stores.checks import Encrypted
from refold.stores.encrypted import keys as cipher
from refold.stores.encrypted.keys import Key, Keys

VERSION = "1"
ENVELOPES, BODIES = b"refold envelope", b"refold body"  # purposes of derived keys
OVERHEAD_BYTES = 1024  # of the note around a body, and of its nonce, salt and tag
BODY_BYTES_MAX = (codec.EVENT_BYTES_MAX - OVERHEAD_BYTES) // 4 * 3
KEEP = "on a device that has it: refold delete ID --store FAR, then refold sync"


class Envelope(Struct, frozen=True, kw_only=True, array_like=True):
    """A near event without its body, the conversation it was first sent to, and the far digest of
    its artifact."""

    conversation: str
    by: str
    kind: str
    digest: bytes
    chain: bytes
    tokens: int
    counter: str
    content: str = ""


class Opened(Struct, frozen=True):
    """A decrypted near event, with its envelope and the id of its key."""

    event: Event
    envelope: Envelope
    key: str


_ENVELOPE = decoding.packed_decoder(Envelope)


def is_encrypted(event: Event) -> bool:
    """Whether the event is encrypted."""
    return event.kind == "note" and event.by == ENCRYPTED


def key_named(event: Event) -> str:
    """The id of the key that encrypted an event."""
    return event.counter.partition(".")[2].partition(".")[0]


def check_readable(url: str, conversation: str, event: Event) -> None:
    """Raises Denied for an encrypted event."""
    if is_encrypted(event):
        raise Encrypted(conversation, key_named(event), url)


# --- encrypting events ---


def encrypted(
    event: Event, before: bytes, key: Key, conversation: str, *, content: str = ""
) -> Event:
    """The far event, on top of the far chain `before`."""
    if len(event.body) > BODY_BYTES_MAX:
        message = f"event {event.seq} has {len(event.body):,} bytes, encrypted at most"
        hint = "store large content as an artifact"
        raise Invalid(f"{message} {BODY_BYTES_MAX:,} can be sent", hint=hint)
    envelope = Envelope(
        conversation=conversation,
        by=event.by,
        kind=event.kind,
        digest=event.digest,
        chain=event.chain,
        tokens=event.tokens,
        counter=event.counter,
        content=content,
    )
    far = codec.seal(
        before,
        event.seq,
        id=event.id,
        at_ms=event.at_ms,
        by=ENCRYPTED,
        kind="note",
        body=b"" if event.erased else _body(event, key),
        salt=os.urandom(codec.SALT_BYTES),
        counter=f"{VERSION}.{key.id}.{_text(_hidden(envelope, event, key))}",
    )
    return replace(far, salt=b"") if event.erased else far


def _hidden(envelope: Envelope, event: Event, key: Key) -> bytes:
    try:
        plain = msgspec.msgpack.encode(envelope)
    except (UnicodeEncodeError, OverflowError) as error:
        hint = "use text without surrogates, and 64-bit numbers"
        raise Invalid(f"event {event.seq} is not storable: {error}", hint=hint) from error
    return cipher.encrypt(key.derived(ENVELOPES), plain, _place(event))


def _body(event: Event, key: Key) -> bytes:
    salted = len(event.salt).to_bytes(4, "big") + event.salt + event.body
    hidden = cipher.encrypt(key.derived(BODIES), salted, event.chain)
    return codec.encode(Note(kind=ENCRYPTED, data=_text(hidden)))


def _place(event: Event) -> bytes:
    return f"{event.seq} {event.id} {event.at_ms}".encode()


def _text(hidden: bytes) -> str:
    return base64.b64encode(hidden).decode()


# --- decrypting events ---


def opened(far: Event, keys: Keys, what: str) -> Opened:
    """The near event. Denied without its key, Corrupt if it was changed or moved; `what` names the
    event in errors."""
    version, _, hidden = far.counter.partition(f".{key_named(far)}.")
    if version != VERSION:
        raise Corrupt(f"{what} is not encrypted as this refold does", hint="upgrade refold")
    key = keys.named(key_named(far), what)
    try:
        plain = cipher.decrypt(key.derived(ENVELOPES), _bytes(hidden), _place(far))
        envelope = _ENVELOPE.decode(plain)
        salt, body = (b"", b"") if far.erased else _opened_body(far, key, envelope)
    except (cipher.Changed, ValueError, msgspec.MsgspecError) as error:
        raise Corrupt(f"{what} was changed there: {error}", hint=KEEP) from error
    event = Event(
        seq=far.seq,
        id=far.id,
        at_ms=far.at_ms,
        by=envelope.by,
        kind=envelope.kind,
        body=body,
        salt=salt,
        digest=envelope.digest,
        chain=envelope.chain,
        tokens=envelope.tokens,
        counter=envelope.counter,
    )
    return Opened(event, envelope, key.id)


def _opened_body(far: Event, key: Key, envelope: Envelope) -> tuple[bytes, bytes]:
    note = decoding.decode(far.body, Note)
    if not isinstance(note.data, str):
        raise cipher.Changed("its body is not one that was encrypted")
    salted = cipher.decrypt(key.derived(BODIES), _bytes(note.data), envelope.chain)
    end = 4 + int.from_bytes(salted[:4], "big")
    return salted[4:end], salted[end:]


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


# --- artifacts ---

CONTENTS = b"refold content"  # the purpose of a derived key
HEAD = b"refold-content-1\n"
PLAIN_BYTES = 64 * 1024
RECORD_BYTES = PLAIN_BYTES + cipher.TAG_BYTES
NAME_BYTES_MAX = 64


def content_encrypted(file: IO[bytes], digest: str, key: Key) -> Iterator[bytes]:
    """The encrypted content of a file with this digest."""
    aead = cipher.aead(_secret(key, digest))
    yield HEAD + key.id.encode() + b"\n"
    number, plain = 0, file.read(PLAIN_BYTES)
    while True:
        following = file.read(PLAIN_BYTES)
        yield aead.encrypt(_nonce(number, is_last=not following), plain, HEAD)
        if not following:
            return
        number, plain = number + 1, following


def content_decrypted(
    chunks: Iterable[bytes], digest: str, keys: Keys, what: str
) -> Iterator[bytes]:
    """The decrypted content; Corrupt at the first record that does not decrypt."""
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
        """Bytes up to the end of a line, but at most the length of a key id."""
        line = b""
        while len(line) < NAME_BYTES_MAX and (byte := self._read(1)) not in (b"", b"\n"):
            line += byte
        return line

    def record(self) -> bytes:
        """The next record; the last one may be shorter, or empty."""
        return self._read(RECORD_BYTES)

    def _read(self, count: int) -> bytes:
        data = self._rest.read(count)
        while len(data) < count:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._rest = io.BytesIO(chunk)
            data += self._rest.read(count - len(data))
        return data
