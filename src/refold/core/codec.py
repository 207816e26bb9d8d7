"""Events to bytes and back: one encoding, made once at birth, the same in every store, file and
HTTP body.

    digest = blake2b-16(salt ‖ body)
    chain  = blake2b-16(chain before ‖ seq ‖ id ‖ at_ms ‖ len by ‖ by ‖ len kind ‖ kind ‖ digest
                        ‖ tokens ‖ counter)

The salt keeps the digest of an erased body from telling what the body was. Numbers are 8 bytes,
lengths 4, all big-endian, `tokens` signed; ids are the 16 bytes of the UUID. Neighbours: `model`
has the values, `lines` the form of a line, `docs/format.md` the samples.

An event as one line of JSON, and back: what files, exports and HTTP bodies hold.

The body's bytes stand in the line as they are, so that its digest can be checked. Neighbours:
`codec` makes the bytes, `stores.lines` puts lines together into batches.

What a newer version wrote and this one does not know: kinds of edits and of blocks.

It is carried in the log as it came and folded as nothing; the rest of a message is still shown.
Unknown fields need nothing: decoding passes over them. Neighbour: `codec` asks where a body does
not decode, and names unknown kinds of events itself.
"""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from collections.abc import Iterable, Iterator
from typing import Any, get_args
from uuid import UUID

import msgspec

from refold import decoding
from refold.checked import quoted
from refold.core.model import (
    Artifact,
    Block,
    Body,
    Checkpoint,
    Edit,
    Erase,
    Event,
    Memory,
    Message,
    Meta,
    Note,
    Pin,
    Restore,
    Revert,
    Usage,
)
from refold.display import plain_text
from refold.errors import Corrupt, Invalid

FORMAT = 1
DEPTH_MAX = 64  # of a value that a caller gives
BODY_DEPTH_MAX = DEPTH_MAX + 8  # of a body: such a value, and the fields around it
EVENT_BYTES_MAX = 16 * 1024 * 1024
SALT_BYTES = 16
ZERO = bytes(16)
REPAIR = "refold verify says what is wrong, refold verify ID --repair repairs it"

_TYPES: dict[str, Any] = {
    "message": Message,
    "note": Note,
    "memory": Memory,
    "artifact": Artifact,
    "usage": Usage,
    "edit": Edit,
    "revert": Revert,
    "restore": Restore,
    "checkpoint": Checkpoint,
    "meta": Meta,
    "pin": Pin,
    "erase": Erase,
}
_DECODERS = {kind: decoding.decoder(body) for kind, body in _TYPES.items()}
KINDS = frozenset(_TYPES)  # of events that this version knows


def _as_text(value: object) -> str:
    """A text of a caller's own class as a plain one; the encoder asks for whatever else it does
    not know."""
    if isinstance(value, str):
        return plain_text(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


ENCODE = msgspec.json.Encoder(enc_hook=_as_text).encode
_SIGNED = struct.Struct(">q").pack
_LENGTH = struct.Struct(">I").pack
_PLACE = struct.Struct(">Q16sQI").pack  # seq, id, time, and the length of what follows
_RESERVED = {"CON", "PRN", "AUX", "NUL", *(f"{d}{n}" for d in ("COM", "LPT") for n in range(1, 10))}
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Written out: a repeated group would cost as much again, and every event is asked.
EVENT_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
ARTIFACT_ID = re.compile(r"art-[a-z2-7]{12}")  # what `artifact_id` gives


def kind_of(body: Body) -> str:
    """The tag under which a body is stored."""
    try:
        return _KINDS[type(body)]
    except KeyError:
        raise Invalid(f"a {type(body).__name__} is not a body of an event") from None


_KINDS: dict[type, str] = {type_: kind for kind, type_ in _TYPES.items()} | dict.fromkeys(
    Edit.__args__, "edit"
)


def encode(body: Body) -> bytes:
    """The body's bytes. A lone surrogate, which JSON cannot carry, raises UnicodeEncodeError:
    see `log.surrogates`."""
    try:
        encoded = ENCODE(body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, UnicodeEncodeError):
            raise
        raise Invalid(
            f"the {kind_of(body)} is not JSON: {error}", hint="pass plain dicts, lists and text"
        ) from error
    if len(encoded) > EVENT_BYTES_MAX:
        size = f"an event of {len(encoded):,} bytes is over the limit of {EVENT_BYTES_MAX:,}"
        raise Invalid(size, hint="store large content as an artifact")
    return encoded


def body_of(kind: str, body: bytes) -> Body:
    """What the bytes of a known kind say; raises whatever the decoder does."""
    return _DECODERS[kind].decode(body)  # type: ignore[no-any-return]


def decode(event: Event) -> Body | None:
    """What the event says; None for a kind of event or edit that this version does not know, and
    for an erased event. Corrupt if the body is not the one that was sealed."""
    if event.kind not in _DECODERS or not event.salt:
        return None
    if digest_of(event.salt, event.body) != event.digest:
        raise Corrupt(f"event {event.seq}: its body does not match its digest", hint=REPAIR)
    try:
        return body_of(event.kind, event.body)
    except msgspec.ValidationError as error:
        return _known_part(event, error)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise _undecodable(event, error) from error


def _known_part(event: Event, error: msgspec.ValidationError) -> Body | None:
    """What a body of a newer version says to this one; Corrupt if it has nothing unknown."""
    plain = msgspec.json.decode(event.body)
    known = known_part(event.kind, plain)
    if known == plain:
        raise _undecodable(event, error) from error
    return None if known is None else decoding.convert(known, Message)


def _undecodable(event: Event, error: Exception) -> Corrupt:
    return Corrupt(f"event {event.seq} is not a {event.kind}: {error}", hint=REPAIR)


def unknown_in(event: Event) -> list[str]:
    """What a newer version wrote in an event that this one does not know, by name."""
    if event.kind not in _DECODERS:
        return [f"event {event.kind}"]
    if event.kind not in ("edit", "message") or event.erased:
        return []
    return newer_unknown_in(event.kind, msgspec.json.decode(event.body))


# --- chain ---


def digest_of(salt: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(salt + body, digest_size=16).digest()


def chain_of(before: bytes, event: Event) -> bytes:
    """The chain value that an event has on top of another one: it covers the whole envelope, and
    by the digest the body."""
    place = event.seq, bytes.fromhex(event.id.replace("-", "")), event.at_ms
    sized = event.digest, event.tokens, event.counter
    return _linked(before, place, event.by, event.kind, sized)


def _linked(
    before: bytes,
    place: tuple[int, bytes, int],
    by: str,
    kind: str,
    sized: tuple[bytes, int, str],
) -> bytes:
    writer, tag = by.encode(), kind.encode()
    digest, tokens, counter = sized
    parts = (
        before,
        _PLACE(*place, len(writer)),
        writer,
        _LENGTH(len(tag)),
        tag,
        digest,
        _SIGNED(tokens),
        counter.encode(),
    )
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


def seal(
    before: bytes,
    seq: int,
    *,
    id: str,
    at_ms: int,
    by: str,
    kind: str,
    body: bytes,
    salt: bytes,
    tokens: int = 0,
    counter: str = "",
) -> Event:
    """A new event on top of the chain value `before`."""
    digest = digest_of(salt, body)
    place = seq, bytes.fromhex(id.replace("-", "")), at_ms
    return Event(
        seq=seq,
        id=id,
        at_ms=at_ms,
        by=by,
        kind=kind,
        body=body,
        salt=salt,
        digest=digest,
        chain=_linked(before, place, by, kind, (digest, tokens, counter)),
        tokens=tokens,
        counter=counter,
    )


def resealed(event: Event, before: bytes, seq: int) -> Event:
    """The same event, id and body, at another place in the log."""
    moved = msgspec.structs.replace(event, seq=seq)
    return msgspec.structs.replace(moved, chain=chain_of(before, moved))


def check(events: Iterable[Event], *, after: int = 0, before: bytes = ZERO) -> Iterator[str]:
    """Walks a log and yields every place where it is not what was written."""
    for event in events:
        if event.seq != after + 1:
            yield f"event {event.seq} follows event {after}"
        if not event.erased and digest_of(event.salt, event.body) != event.digest:
            yield f"event {event.seq}: its body does not match its digest"
        if not continues(event, before):
            yield f"event {event.seq}: the chain is broken"
        after, before = event.seq, event.chain


def continues(event: Event, before: bytes) -> bool:
    """Whether the envelope is the one that was sealed on top of a chain value."""
    try:
        # The chain covers the 16 bytes of the id, which other spellings have as well.
        return bool(EVENT_ID.fullmatch(event.id)) and chain_of(before, event) == event.chain
    except (struct.error, ValueError):
        return False  # an id or a time that no event can have


def first_unsealed(events: Iterable[Event], before: bytes) -> Event | None:
    """The first event that is not what was sealed on top of the one before it, body and envelope;
    None if all are. It says what `check` says of a log, in one loop without calls: a server asks
    it for every event that it takes in."""
    blake2b, is_id, from_hex = hashlib.blake2b, EVENT_ID.fullmatch, bytes.fromhex
    by = kind = None
    writer = named = b""
    for event in events:
        id, salt, digest = event.id, event.salt, event.digest
        if not is_id(id):
            return event
        if salt and blake2b(salt + event.body, digest_size=16).digest() != digest:
            return event
        if event.by != by or event.kind != kind:  # mostly those of the event before
            by, kind = event.by, event.kind
            writer, tag = by.encode(), kind.encode()
            named = writer + _LENGTH(len(tag)) + tag
        try:
            place = _PLACE(event.seq, from_hex(id.replace("-", "")), event.at_ms, len(writer))
            size = _SIGNED(event.tokens)
        except struct.error:
            return event  # a time or a count that no event can have
        envelope = b"".join((before, place, named, digest, size, event.counter.encode()))
        before = blake2b(envelope, digest_size=16).digest()
        if before != event.chain:
            return event
    return None


def uuid7(at_ms: int, randomness: bytes) -> str:
    """A time-ordered id from a clock value and ten random bytes."""
    value = bytearray(at_ms.to_bytes(6, "big") + randomness[:10])
    value[6] = 0x70 | (value[6] & 0x0F)
    value[8] = 0x80 | (value[8] & 0x3F)
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# --- names ---


def conversation_checked(id: str) -> str:
    """The id itself, if it is a plain name that is safe as a file name everywhere."""
    if (
        not isinstance(id, str)
        or not _ID.fullmatch(id)
        or id.endswith((".", ".lock"))
        or id.upper().partition(".")[0] in _RESERVED
    ):
        raise Invalid(
            f"{quoted(id)} is not a conversation id",
            hint="1 to 64 letters, digits, dots, dashes, underscores: fix-login",
        )
    return plain_text(id)


def artifact_id(digest: str) -> str:
    """The short name of an artifact: the same on every device, because it follows from the
    content."""
    return "art-" + base64.b32encode(bytes.fromhex(digest))[:12].decode().lower()


def digest_checked(digest: str) -> str:
    """The digest of a content itself, if it is a sha256 in lower-case hex."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise Invalid(f"{quoted(digest)} is not a digest", hint="64 hex digits, as `put` gave them")
    return digest


content_hasher = hashlib.sha256  # artifacts are named by it


class _Line(msgspec.Struct, kw_only=True):
    v: int
    seq: int
    id: str
    at_ms: int
    by: str
    kind: str
    salt: str
    digest: str
    chain: str
    tokens: int = 0
    counter: str = ""
    body: msgspec.Raw


_LINES = decoding.decoder(_Line)


def to_line(event: Event) -> bytes:
    """The event as one line of JSON, without the newline. The body's bytes stand in it
    untouched."""
    line = _Line(
        v=FORMAT,
        seq=event.seq,
        id=event.id,
        at_ms=event.at_ms,
        by=event.by,
        kind=event.kind,
        salt=event.salt.hex(),
        digest=event.digest.hex(),
        chain=event.chain.hex(),
        tokens=event.tokens,
        counter=event.counter,
        body=msgspec.Raw(b"null" if event.erased else event.body),
    )
    return ENCODE(line)


def from_line(line: bytes) -> Event:
    """The event that a line holds. The body is taken as the exact bytes that stand there."""
    try:
        return _event_of(_LINES.decode(line))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Corrupt(f"not an event: {error}", hint=REPAIR) from error


def from_lines(lines: bytes) -> list[Event]:
    """The same for many lines at once, which costs less. Corrupt if one of them is no event."""
    try:
        return [_event_of(read) for read in _LINES.decode_lines(lines)]
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Corrupt(f"not all are events: {error}", hint=REPAIR) from error


def _event_of(read: _Line) -> Event:
    if read.v > FORMAT:
        raise Invalid(
            f"format version {read.v}, this refold reads up to {FORMAT}",
            hint="upgrade refold",
        )
    if not EVENT_ID.fullmatch(read.id):
        UUID(read.id)  # there are other spellings, and texts that are none
    salt, body = bytes.fromhex(read.salt), bytes(read.body)
    return Event(
        seq=read.seq,
        id=read.id,
        at_ms=read.at_ms,
        by=read.by,
        kind=read.kind,
        body=body if salt else b"",
        salt=salt,
        digest=bytes.fromhex(read.digest),
        chain=bytes.fromhex(read.chain),
        tokens=read.tokens,
        counter=read.counter,
    )


_EDITS = {edit.__struct_config__.tag for edit in get_args(Edit)}
_BLOCKS = {block.__struct_config__.tag for block in get_args(Block)}


def known_part(kind: str, plain: Any) -> Any:
    """The part of a body that this version knows; None if that is nothing."""
    match kind, plain:
        case "edit", {"type": str(tag)} if tag not in _EDITS:
            return None
        case "message", {"blocks": list(blocks)}:
            return {**plain, "blocks": [_known_block(one) for one in blocks if not _tag(one)]}
        case _:
            return plain


def _known_block(block: Any) -> Any:
    match block:
        case {"content": list(parts)}:
            return {**block, "content": [part for part in parts if not _tag(part)]}
        case _:
            return block


def newer_unknown_in(kind: str, plain: Any) -> list[str]:
    """The kinds of edits or blocks in a body that this version does not know."""
    match kind, plain:
        case "edit", {"type": str(tag)} if tag not in _EDITS:
            return [f"edit {tag}"]
        case "message", {"blocks": list(blocks)}:
            contents = [block.get("content") for block in blocks if isinstance(block, dict)]
            parts = [part for content in contents if isinstance(content, list) for part in content]
            return [f"block {tag}" for one in [*blocks, *parts] if (tag := _tag(one))]
        case _:
            return []


def _tag(block: Any) -> str:
    """The kind of a block, if it is none of ours."""
    match block:
        case {"type": str(tag)} if tag not in _BLOCKS:
            return tag
        case _:
            return ""
