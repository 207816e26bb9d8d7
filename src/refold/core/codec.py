"""The encoding of events, made once and the same in every store, file and HTTP body.

    digest = blake2b-16(salt ‖ body)
    chain  = blake2b-16(chain before ‖ seq ‖ id ‖ at_ms ‖ len by ‖ by ‖ len kind ‖ kind ‖ digest
                        ‖ tokens ‖ counter)

The salt keeps the digest of an erased body from revealing it. Numbers are 8 bytes, lengths 4, all
big-endian, `tokens` signed; ids are the 16 bytes of the UUID. Files, exports and HTTP bodies have
an event as one line of JSON with the body's exact bytes. Kinds of events, edits and blocks of a
newer version are kept in the log and ignored by the fold; the rest of their message is still shown.
Neighbours: `model` has the values, `ids` the ids, `stores.event_lines` joins lines into batches,
`docs/format.md` has samples.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, get_args
from uuid import UUID

import msgspec

from refold import decoding
from refold.core.ids import EVENT_ID
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
DEPTH_MAX = 64  # of a caller's value
BODY_DEPTH_MAX = DEPTH_MAX + 8  # of a body: such a value, with the fields around it
EVENT_BYTES_MAX = 16 * 1024 * 1024
SALT_BYTES = 16
ZERO = bytes(16)
REPAIR = "refold verify shows the damage, refold verify --repair fixes it"

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
    """Converts a string of a caller's own class to a plain string; the encoder's hook for unknown
    types."""
    if isinstance(value, str):
        return plain_text(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


ENCODE = msgspec.json.Encoder(enc_hook=_as_text).encode
_SIGNED = struct.Struct(">q").pack
_LENGTH = struct.Struct(">I").pack
_PLACE = struct.Struct(">Q16sQI").pack  # seq, id, time, and the length of the author


def kind_of(body: Body) -> str:
    """The kind under which a body is stored."""
    try:
        return _KINDS[type(body)]
    except KeyError:
        raise Invalid(f"a {type(body).__name__} is not the body of an event") from None


_KINDS: dict[type, str] = {type_: kind for kind, type_ in _TYPES.items()} | dict.fromkeys(
    Edit.__args__, "edit"
)


def encode(body: Body) -> bytes:
    """The body's bytes. A lone surrogate, which JSON cannot carry, raises UnicodeEncodeError: see
    `log.draft`."""
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
    """The body of a known kind; raises the decoder's errors."""
    return _DECODERS[kind].decode(body)  # type: ignore[no-any-return]


def decode(event: Event) -> Body | None:
    """The event's body; None for an erased event, and for kinds of events or edits unknown to this
    version. Raises Corrupt if the body does not match its digest."""
    if event.kind not in _DECODERS or not event.salt:
        return None
    if digest_of(event.salt, event.body) != event.digest:
        raise Corrupt(f"event {event.seq}: its body does not match its digest", hint=REPAIR)
    try:
        try:
            return body_of(event.kind, event.body)
        except msgspec.ValidationError:
            # If a newer version wrote it, the part known to this version is used.
            known = known_part(event.kind, msgspec.json.decode(event.body))
            return None if known is None else decoding.convert(known, _TYPES[event.kind])
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        what = f"event {event.seq} is not a {event.kind}: {error}"
        raise Corrupt(what, hint=REPAIR) from error


def unknown_in(event: Event) -> list[str]:
    """The names of parts of an event that only a newer version knows."""
    if event.kind not in _DECODERS:
        return [f"event {event.kind}"]
    if event.kind not in ("edit", "message") or event.erased:
        return []
    with suppress(msgspec.DecodeError, RecursionError, ValueError):
        match event.kind, msgspec.json.decode(event.body):
            case "edit", {"type": str(tag)} if tag not in _EDITS:
                return [f"edit {tag}"]
            case "message", {"blocks": list(blocks)}:
                held = [block.get("content") for block in blocks if isinstance(block, dict)]
                parts = [part for content in held if isinstance(content, list) for part in content]
                return [f"block {tag}" for tag in map(_unknown_tag, [*blocks, *parts]) if tag]
    return []


# --- chain ---


def digest_of(salt: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(salt + body, digest_size=16).digest()


def chain_of(before: bytes, event: Event) -> bytes:
    """The chain value of an event on top of another one: it covers the whole envelope, and through
    the digest the body."""
    position = event.seq, bytes.fromhex(event.id.replace("-", "")), event.at_ms
    size = event.digest, event.tokens, event.counter
    return _linked(before, position, event.by, event.kind, size)


def _linked(
    before: bytes,
    position: tuple[int, bytes, int],
    by: str,
    kind: str,
    size: tuple[bytes, int, str],
) -> bytes:
    writer, tag = by.encode(), kind.encode()
    digest, tokens, counter = size
    parts = (
        before,
        _PLACE(*position, len(writer)),
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
    position = seq, bytes.fromhex(id.replace("-", "")), at_ms
    return Event(
        seq=seq,
        id=id,
        at_ms=at_ms,
        by=by,
        kind=kind,
        body=body,
        salt=salt,
        digest=digest,
        chain=_linked(before, position, by, kind, (digest, tokens, counter)),
        tokens=tokens,
        counter=counter,
    )


def resealed(event: Event, before: bytes, seq: int) -> Event:
    """The same event, id and body, at another position in the log."""
    moved = msgspec.structs.replace(event, seq=seq)
    return msgspec.structs.replace(moved, chain=chain_of(before, moved))


def check(events: Iterable[Event], *, after: int = 0, before: bytes = ZERO) -> Iterator[str]:
    """Walks a log and yields a sentence for every fault."""
    for event in events:
        if event.seq != after + 1:
            yield f"event {event.seq} follows event {after}"
        if not event.erased and digest_of(event.salt, event.body) != event.digest:
            yield f"event {event.seq}: its body does not match its digest"
        if not continues(event, before):
            yield f"event {event.seq}: the chain is broken"
        after, before = event.seq, event.chain


def continues(event: Event, before: bytes) -> bool:
    """Whether the event was sealed on top of a chain value."""
    try:
        # The chain covers the 16 bytes of the id, which have other spellings too.
        return bool(EVENT_ID.fullmatch(event.id)) and chain_of(before, event) == event.chain
    except (struct.error, ValueError):
        return False  # an impossible id or time


def first_unsealed(events: Iterable[Event], before: bytes) -> Event | None:
    """The first event that does not match its digest or the chain; None if all do. The same result
    as `check`, but in one loop without calls: a server runs it for every incoming event."""
    blake2b, is_id, from_hex = hashlib.blake2b, EVENT_ID.fullmatch, bytes.fromhex
    by = kind = None
    writer = named = b""
    for event in events:
        id, salt, digest = event.id, event.salt, event.digest
        if not is_id(id):
            return event
        if salt and blake2b(salt + event.body, digest_size=16).digest() != digest:
            return event
        if event.by != by or event.kind != kind:  # mostly the same as before
            by, kind = event.by, event.kind
            writer, tag = by.encode(), kind.encode()
            named = writer + _LENGTH(len(tag)) + tag
        try:
            position = _PLACE(event.seq, from_hex(id.replace("-", "")), event.at_ms, len(writer))
            size = _SIGNED(event.tokens)
        except struct.error:
            return event  # an impossible time or count
        envelope = b"".join((before, position, named, digest, size, event.counter.encode()))
        before = blake2b(envelope, digest_size=16).digest()
        if before != event.chain:
            return event
    return None


# --- events as lines ---


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
    """The event as one line of JSON, without the newline, with the body's exact bytes."""
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
    """The event in a line, with the body's exact bytes."""
    try:
        return _event_of(_LINES.decode(line))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Corrupt(f"not an event: {error}", hint=REPAIR) from error


def from_lines(lines: bytes) -> list[Event]:
    """The events in many lines, faster than one by one. Raises Corrupt if one is not an event."""
    try:
        return [_event_of(line) for line in _LINES.decode_lines(lines)]
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Corrupt(f"not all are events: {error}", hint=REPAIR) from error


def _event_of(line: _Line) -> Event:
    if line.v > FORMAT:
        raise Invalid(
            f"format version {line.v}; this refold reads up to {FORMAT}", hint="upgrade refold"
        )
    if not EVENT_ID.fullmatch(line.id):
        UUID(line.id)  # raises ValueError, unless it is another spelling
    salt, body = bytes.fromhex(line.salt), bytes(line.body)
    return Event(
        seq=line.seq,
        id=line.id,
        at_ms=line.at_ms,
        by=line.by,
        kind=line.kind,
        body=body if salt else b"",
        salt=salt,
        digest=bytes.fromhex(line.digest),
        chain=bytes.fromhex(line.chain),
        tokens=line.tokens,
        counter=line.counter,
    )


_EDITS = {edit.__struct_config__.tag for edit in get_args(Edit)}
_BLOCKS = {block.__struct_config__.tag for block in get_args(Block)}


def known_part(kind: str, plain: Any) -> Any:
    """The part of a body that this version knows; None if there is none."""
    match kind, plain:
        case "edit", {"type": str(tag)} if tag not in _EDITS:
            return None
        case "message", {"blocks": list(blocks)}:
            known = [block for block in blocks if not _unknown_tag(block)]
            for at, block in enumerate(known):
                match block:
                    case {"content": list(parts)}:
                        content = [part for part in parts if not _unknown_tag(part)]
                        known[at] = {**block, "content": content}
            return {**plain, "blocks": known}
        case _:
            return plain


def _unknown_tag(block: Any) -> str:
    """The kind of a block that only a newer version knows; empty for a known kind."""
    match block:
        case {"type": str(tag)} if tag not in _BLOCKS:
            return tag
        case _:
            return ""
