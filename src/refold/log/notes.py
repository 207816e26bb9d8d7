"""Notes, keys, and redaction of drafts.

A note keeps the state of a host program: an event separate from the messages, never on the page. A
key is the caller's own name for a message or note; the same key is not written twice, unless a
restore switched the first one off. A synced store may require redaction before sealing
(`redact=append` in its URL), because the chain covers the body. Then every draft goes through
`draft_redacted`: names (keys, call ids) cannot change, so a secret in one is refused, and changed
thinking loses its signature. Redaction is idempotent, so a history that comes back is recognized.
Neighbours: `redaction` finds secrets, `log` seals, `engine.recorder` asks for keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from refold import decoding
from refold.core import codec
from refold.core.active_events import REACHING, switches
from refold.core.codec import REPAIR, decode, digest_of
from refold.core.model import Event, Message, Meta, Note
from refold.errors import Corrupt, Invalid
from refold.log.draft import Draft
from refold.log.log import Log
from refold.log.open_log import OpenLog
from refold.redaction import redacted
from refold.redaction.redact import KEY_CHARS, PlainRedactor, decoded, has_sure
from refold.system.disk import Moment, happened_ms

KIND_CHARS_MAX = 100
KEY_CHARS_MAX = 500
_NOTE_KINDS = frozenset({"note", *REACHING})
_KEYED_KINDS = ("message", "note")
_KEY_MARK = b'"key":"'  # in every body that has a key


class Noted(Struct, frozen=True, kw_only=True):
    """A note in the log: its position, time, author and content."""

    seq: int
    at_ms: int
    by: str
    kind: str
    data: Any = None
    key: str = ""


def write_note(
    log: OpenLog, keys: Keys, kind: str, data: Any, *, by: str, stamp: Stamp
) -> list[Event]:
    """Appends a note, unless the log has its key."""
    if not 0 < len(kind) <= KIND_CHARS_MAX:
        hint = f"name the kind of the note in at most {KIND_CHARS_MAX} characters"
        raise Invalid(f"kind has {len(kind):,} characters", hint=hint)
    draft = log.draft(Note(kind=kind, data=data, key=stamp.key), by=by)
    with log.guard:
        return append_once(log, keys, stamp, lambda: [draft])


def notes_of(log: Log, kind: str, after: int = 0, *, also_off: bool = False) -> list[Noted]:
    """The active notes after a seq, oldest first; of one kind, or of all if `kind` is empty; with
    `also_off`, those switched off too."""
    events = [event for event in log.read(after) if event.kind in _NOTE_KINDS]
    is_reached = not also_off and any(event.kind in REACHING for event in events)
    off = switches(log.read()).off if is_reached else ()
    return [
        Noted(
            seq=event.seq,
            at_ms=event.at_ms,
            by=event.by,
            kind=note.kind,
            data=note.data,
            key=note.key,
        )
        for event in events
        if event.kind == "note" and event.seq not in off
        if isinstance(note := decode(event), Note) and kind in ("", note.kind)
    ]


class Keys:
    """The keys of one log, read on demand. Requires the lock."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._keys: set[str] = set()
        self._head = 0  # the last seq read

    def hold(self, key: str) -> bool:
        """Whether the log has an active event with this key."""
        head = self._log.state.head
        if head != self._head:
            events = list(self._log.read(self._head, head))
            if any(event.kind in REACHING for event in events):
                self._keys.clear()
                off = switches(self._log.read(last=head)).off
                events = [event for event in self._log.read(last=head) if event.seq not in off]
            self._keys.update(key for _, key in keyed(events))
            self._head = head
        return key in self._keys

    def take(self, keys: Iterable[str], events: Sequence[Event]) -> None:
        """Adds the keys of new events without reading them; after a gap, they are read later."""
        if events and events[0].seq == self._head + 1:
            self._keys.update(keys)
            self._head = events[-1].seq

    def forget(self) -> None:
        """Starts over for another log."""
        self._keys.clear()
        self._head = 0


class Name(Struct, frozen=True):
    """The key of a message or note, the kind of a note, and the ids of its lines in a file."""

    key: str = ""
    kind: str = ""
    ids: tuple[str, ...] = ()


_NAMES = decoding.decoder(Name)


def name_of(event: Event) -> Name:
    """The key of an event, without decoding the rest; empty if it has none, or is erased. Raises
    Corrupt if the body does not match its digest."""
    # Most events without a key are recognized without decoding.
    if event.kind not in _KEYED_KINDS or _KEY_MARK not in event.body or event.erased:
        return Name()
    if digest_of(event.salt, event.body) != event.digest:
        raise Corrupt(f"event {event.seq}: its body does not match its digest", hint=REPAIR)
    return _NAMES.decode(event.body)


def keyed(events: Iterable[Event]) -> Iterable[tuple[int, str]]:
    """The seq and key of every event that has a key."""
    for event in events:
        if key := name_of(event).key:
            yield event.seq, key


class Stamp(Struct, frozen=True):
    """The time of a fact (None: now), and the caller's key for it (empty: none)."""

    at_ms: int | None = None
    key: str = ""

    def of(self, key: str) -> Stamp:
        """The stamp with a message's own key, unless the caller passed one."""
        return self if self.key or not key else Stamp(self.at_ms, key_checked(key))


NOW = Stamp()


def stamp(at: Moment | None, key: str) -> Stamp:
    """The stamp for a caller's time and key."""
    if at is None and not key:
        return NOW
    return Stamp(happened_ms(at), key_checked(key))


def key_checked(key: str) -> str:
    """The key itself; Invalid if it is too long or not printable."""
    if len(key) > KEY_CHARS_MAX or not key.isprintable():
        hint = f"use at most {KEY_CHARS_MAX} printable characters, or a digest of the long key"
        raise Invalid(f"key has {len(key):,} characters, or some that do not print", hint=hint)
    return key


def append_once(
    log: OpenLog, keys: Keys, stamp: Stamp, make: Callable[[], Sequence[Draft]]
) -> list[Event]:
    """Appends the drafts of `make` at the stamp's time; they are not even made if the log has the
    stamp's key."""
    if not stamp.key:
        return log.append(make(), at_ms=stamp.at_ms)
    log.catch_up()
    if keys.hold(stamp.key):
        return []
    events = log.append(make(), fresh=lambda _: not keys.hold(stamp.key), at_ms=stamp.at_ms)
    keys.take([stamp.key], events)
    return events


Plain = dict[str, Any]
VALUES = PlainRedactor(redacted)
# Fields that identify or classify something, by kind of event: never redacted.
NAMES = {
    "message": ("key", "role", "dialect"),
    "note": ("key",),
    "memory": ("entry", "seal", "state", "trust"),
    "artifact": ("id", "digest", "type"),
    "edit": ("batch", "type", "purpose"),
    "revert": ("batch",),
    "usage": ("response", "model"),
    "erase": ("role", "calls", "results"),
}
BLOCK_NAMES = ("type", "id", "call", "artifact")
BYTES = ("data", "signature")


def draft_redacted(draft: Draft) -> Draft:
    """The redacted draft; itself if it has no secret. Invalid if a name contains one."""
    kind = codec.kind_of(draft.body)
    plain = msgspec.json.decode(draft.encoded)
    clean, by = body_redacted(kind, plain), redacted(draft.by)
    if (clean, by) == (plain, draft.by):
        return draft
    body = codec.body_of(kind, msgspec.json.encode(clean))
    return Draft(body=body, by=by, tokens=draft.tokens, counter=draft.counter, at_ms=draft.at_ms)


def message_redacted(message: Message) -> Message:
    """The redacted message; itself if it has no secret."""
    plain = msgspec.to_builtins(message)
    clean = body_redacted("message", plain)
    return message if clean == plain else decoding.convert(clean, Message)


def meta_redacted(meta: Meta) -> Meta:
    """Redacted metadata of a conversation, for comparison with the log."""
    return decoding.convert(body_redacted("meta", msgspec.to_builtins(meta)), Meta)


def value_redacted(value: Any) -> Any:
    """Plain data with every secret replaced by a note; other values unchanged."""
    return VALUES.value(value)


def bytes_redacted(data: bytes) -> bytes:
    """Redacted text in bytes; bytes that are not text, unchanged."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    clean = redacted(text)
    return data if clean == text else clean.encode()


def name_checked(name: str) -> str:
    """The name of something; Invalid if it contains a secret."""
    if len(name) >= KEY_CHARS and has_sure(name):
        what = "a name, a key or an id looks like a secret, or has one in it"
        raise Invalid(
            what, hint="names are stored as they are: choose another, or sync without redact"
        )
    return name


def body_redacted(kind: str, plain: Plain) -> Plain:
    """A redacted body in plain JSON; an equal one if it has no secret."""
    clean = _redacted_except(NAMES.get(kind, ()), plain)
    if kind == "message" and "blocks" in plain:
        clean["blocks"] = [_block_redacted(block) for block in plain["blocks"]]
    return clean


def _block_redacted(block: Plain) -> Plain:
    """A redacted block. Its bytes (base64 or a signature) are redacted if they are text, or
    certainly a secret."""
    clean = _redacted_except((*BLOCK_NAMES, *BYTES), block)
    if block["type"] == "tool_result" and "content" in block:
        clean["content"] = [_block_redacted(part) for part in block["content"]]
    is_changed = clean != block
    for name in BYTES:
        text = clean.get(name)
        if text is None:
            continue
        if is_changed and name == "signature":
            clean[name] = ""
        elif decoded(text) is not None:
            clean[name] = VALUES.encoded(text)
        elif has_sure(text):
            clean[name] = redacted(text)
    return clean


def _redacted_except(names: tuple[str, ...], plain: Plain) -> Plain:
    """A redacted object, with these fields unchanged."""
    kept = {name: plain[name] for name in names if name in plain}
    for name, value in kept.items():
        if name not in BYTES:
            for text in value if isinstance(value, list | tuple) else (value,):
                name_checked(text)
    rest = {name: value for name, value in plain.items() if name not in kept}
    return {**kept, **VALUES.value(rest)}
