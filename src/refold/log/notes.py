"""Notes: events that are no messages and never on the page, where a guest keeps its own state.

A note stands like everything else in the log: a restore to a point before it switches it off, and
an undo of the restore brings it back. Neighbours: `keys` says whether one is known, `Context.note`
writes them, `context.log.notes` reads them.

Which keys the log holds: a message or note that comes again under its key is not written again.

A key is the caller's own name for what it appends (the id of an entry in another program's file, of
a message in a framework). What a restore switched off may be appended again. The answer follows
from the log; what is held here is only what was read of it so far, and nothing before the first
question. Neighbours: `core.model` has the key as a field, `engine.recorder` and `notes` ask.

What is sealed into a log that a team shares, without its secrets.

A store may ask for this (`redact=append` in the URL of a synced store): what is sealed is what
travels, because the chain covers the body. `draft_redacted` is the law: whatever an event says, of
whatever kind, goes through it on its way into the log. What something is found again by (a key, the
id of a call) cannot be changed: one that holds a secret is refused. A thought whose words changed
loses its signature, which would no longer be true. Redacting twice changes nothing, so a history
that comes back is known again. Neighbours: `redaction` finds secrets, `log` seals, and
`artifacts.offload` keeps contents; `stores.hybrid.hold` keeps near what was sealed otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from refold import decoding
from refold.core import codec
from refold.core.codec import REPAIR, decode, digest_of
from refold.core.model import Event, Message, Meta, Note
from refold.core.switches import REACHING, switches
from refold.errors import Corrupt, Invalid
from refold.log.draft import Draft
from refold.log.log import Log
from refold.log.open_log import OpenLog
from refold.redaction import redacted
from refold.redaction.redact import KEY_CHARS, PlainRedactor, decoded, has_sure
from refold.system.disk import Moment, happened_ms

KIND_CHARS_MAX = 100
_LOOKED_AT = frozenset({"note", *REACHING})


class Noted(Struct, frozen=True, kw_only=True):
    """A note as it stands in the log: its place, its time, who wrote it, and what it says."""

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
    """The notes after a seq that stand, oldest first; of one kind, if it is named, and also those
    that are switched off, if that is asked."""
    events = [event for event in log.read(after) if event.kind in _LOOKED_AT]
    reached = not also_off and any(event.kind in REACHING for event in events)
    off = switches(log.read()).off if reached else ()
    return [
        _noted(event, note)
        for event in events
        if event.kind == "note" and event.seq not in off
        if isinstance(note := decode(event), Note) and kind in ("", note.kind)
    ]


def _noted(event: Event, note: Note) -> Noted:
    return Noted(
        seq=event.seq, at_ms=event.at_ms, by=event.by, kind=note.kind, data=note.data, key=note.key
    )


KEY_CHARS_MAX = 500
_KEYED = ("message", "note")
_MARK = b'"key":"'  # in every body that has a key


class Keys:
    """The keys of one log. Asked with the lock held."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: set[str] = set()
        self._head = 0  # how far the log was read

    def hold(self, key: str) -> bool:
        """Whether an event with this key stands in the log."""
        self._catch_up()
        return key in self._known

    def take(self, keys: Iterable[str], events: Sequence[Event]) -> None:
        """The log grew by these events, which have these keys; what else came is still read."""
        if events and events[0].seq == self._head + 1:
            self._known.update(keys)
            self._head = events[-1].seq

    def forget(self) -> None:
        """The log is another one now."""
        self._known.clear()
        self._head = 0

    def _catch_up(self) -> None:
        head = self._log.state.head
        if head == self._head:
            return
        came = list(self._log.read(self._head, head))
        if any(event.kind in REACHING for event in came):
            self._known.clear()
            off = switches(self._log.read(last=head)).off
            came = [event for event in self._log.read(last=head) if event.seq not in off]
        self._known.update(key for _, key in keyed(came))
        self._head = head


class Name(Struct, frozen=True):
    """The key of a message or note, the kind of a note, and the ids of its lines in a file."""

    key: str = ""
    kind: str = ""
    ids: tuple[str, ...] = ()


_NAMES = decoding.decoder(Name)


def name_of(event: Event) -> Name:
    """The key of an event without the rest of what it says; empty if it has none, or is erased.
    Corrupt if the body is not the one that was sealed."""
    # Most that have no key are told apart without being read.
    if event.kind not in _KEYED or _MARK not in event.body or event.erased:
        return Name()
    if digest_of(event.salt, event.body) != event.digest:
        raise Corrupt(f"event {event.seq}: its body does not match its digest", hint=REPAIR)
    return _NAMES.decode(event.body)


def keyed(events: Iterable[Event]) -> Iterable[tuple[int, str]]:
    """The seqs of the events that have a key, with it."""
    for event in events:
        if key := name_of(event).key:
            yield event.seq, key


class Stamp(Struct, frozen=True):
    """When something happened (None: now), and the caller's key for it (empty: it has none)."""

    at_ms: int | None = None
    key: str = ""

    def of(self, key: str) -> Stamp:
        """The same for a message that brings a key of its own, unless the caller gave one."""
        return self if self.key or not key else Stamp(self.at_ms, key_checked(key))


NOW = Stamp()


def stamp(at: Moment | None, key: str) -> Stamp:
    """What a caller said of the thing it appends."""
    if at is None and not key:
        return NOW
    return Stamp(happened_ms(at), key_checked(key))


def key_checked(key: str) -> str:
    """The key itself; Invalid if it is too long to be one, or cannot be written."""
    if len(key) > KEY_CHARS_MAX or not key.isprintable():
        hint = f"give at most {KEY_CHARS_MAX} printable characters, or a digest of the long one"
        raise Invalid(f"key has {len(key):,} characters, or some that do not print", hint=hint)
    return key


def append_once(
    log: OpenLog, keys: Keys, stamp: Stamp, make: Callable[[], Sequence[Draft]]
) -> list[Event]:
    """Appends what `make` gives, at its own time, unless the log has its key. Drafts are not even
    made then."""
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
# What names or sorts something, by kind of event: it stays as it is.
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
    """The draft without its secrets; itself if it has none. Invalid if a name holds one."""
    kind = codec.kind_of(draft.body)
    plain = msgspec.json.decode(draft.encoded)
    clean, by = body_redacted(kind, plain), redacted(draft.by)
    if (clean, by) == (plain, draft.by):
        return draft
    body = codec.body_of(kind, msgspec.json.encode(clean))
    return Draft(body=body, by=by, tokens=draft.tokens, counter=draft.counter, at_ms=draft.at_ms)


def message_redacted(message: Message) -> Message:
    """The message without its secrets; itself if it has none."""
    plain = msgspec.to_builtins(message)
    clean = body_redacted("message", plain)
    return message if clean == plain else decoding.convert(clean, Message)


def meta_redacted(meta: Meta) -> Meta:
    """What is said of a conversation without its secrets, before it is compared with the log."""
    return decoding.convert(body_redacted("meta", msgspec.to_builtins(meta)), Meta)


def value_redacted(value: Any) -> Any:
    """Plain data with every secret in it replaced by a note; anything else as it is."""
    return VALUES.value(value)


def bytes_redacted(data: bytes) -> bytes:
    """Bytes without secrets where they are text; others as they are."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    clean = redacted(text)
    return data if clean == text else clean.encode()


def name_checked(name: str) -> str:
    """The name by which something is found again. Invalid if it holds a secret."""
    if len(name) >= KEY_CHARS and has_sure(name):
        said = "a name, a key or an id holds what looks like a secret"
        raise Invalid(said, hint="names are kept as they are: give another, or sync without redact")
    return name


# --- bodies ---


def body_redacted(kind: str, plain: Plain) -> Plain:
    """A body as plain JSON without its secrets; an equal one if it has none."""
    clean = _but_for(NAMES.get(kind, ()), plain)
    if kind == "message" and "blocks" in plain:
        clean["blocks"] = _blocks(plain["blocks"])
    return clean


def _blocks(blocks: list[Plain]) -> list[Plain]:
    return [_block(block) for block in blocks]


def _block(block: Plain) -> Plain:
    clean = _but_for((*BLOCK_NAMES, *BYTES), block)
    if block["type"] == "tool_result" and "content" in block:
        clean["content"] = _blocks(block["content"])
    changed = clean != block
    for name in BYTES:
        if name in clean:
            clean[name] = "" if changed and name == "signature" else _bytes(clean[name])
    return clean


def _bytes(text: str) -> str:
    """Bytes in base64, or a signature: what they say where they are text, and what is surely a
    secret."""
    if decoded(text) is not None:
        return VALUES.encoded(text)
    return redacted(text) if has_sure(text) else text


def _but_for(names: tuple[str, ...], plain: Plain) -> Plain:
    """An object without secrets, but for these fields, which stay."""
    kept = {name: plain[name] for name in names if name in plain}
    for name, value in kept.items():
        if name not in BYTES:
            for one in value if isinstance(value, list | tuple) else (value,):
                name_checked(one)
    rest = {name: value for name, value in plain.items() if name not in kept}
    return {**kept, **VALUES.value(rest)}
