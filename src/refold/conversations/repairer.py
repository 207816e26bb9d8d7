"""A damaged conversation becomes one that opens: what cannot be trusted goes, the rest stays.

A body that is not the one that was sealed becomes an erased envelope. At an envelope that is broken
or missing the log ends, and what can be read after it becomes a conversation of its own, `ID-rest`.
A copy of all that was read is kept in a file first, and the report says what was given up.
Neighbours: `verifier` finds the same damage and changes nothing, `log.reading` reads damaged logs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from refold.core import codec
from refold.core.model import Conversation, Event
from refold.errors import Conflict, Corrupt, NotFound
from refold.log.log import now_ms
from refold.log.reading import conversations, readable
from refold.stores.protocol import Store
from refold.system import disk

APPEND_EVENTS = 500
ID_CHARS_MAX = 55  # with `-rest-999` it is still an id


class Repaired(Struct, frozen=True, kw_only=True):
    """What was done: which events lost their bodies, where the log ends now if it was cut, where
    the rest and the copy are, and what is gone."""

    conversation: str
    erased: tuple[int, ...] = ()
    ends_at: int | None = None
    rest: str = ""
    copy: str = ""
    lost: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        return bool(self.erased) or self.ends_at is not None


class _Damage(Struct, kw_only=True):
    """A log in two parts: the events that continue each other, and what is readable after the
    first one that does not."""

    sound: list[Event]
    rest: list[Event]
    lost: list[str]

    @property
    def is_cut(self) -> bool:
        return bool(self.rest or self.lost)

    def spoilt(self) -> list[int]:
        """The events whose bodies are not those that were sealed."""
        return [event.seq for event in self.sound if not _is_readable(event)]


def repair(store: Store, conversation: str) -> Repaired:
    """Makes a conversation readable again. Conflict, and nothing is changed, if others were forked
    from a log that has to be cut."""
    about = store.conversation(conversation)
    damage = _look(store, about)
    spoilt = damage.spoilt()
    if not damage.is_cut and not spoilt:
        return Repaired(conversation=conversation)
    if damage.is_cut:
        _check_may_cut(store, about, damage)
    copy = _keep_copy(store, conversation, [*damage.sound, *damage.rest])
    rest = _cut(store, about, damage) if damage.is_cut else ""
    for seq in spoilt:
        store.erase(conversation, seq)
    store.flush()
    return Repaired(
        conversation=conversation,
        erased=tuple(spoilt),
        ends_at=len(damage.sound) if damage.is_cut else None,
        rest=rest,
        copy=copy,
        lost=(*damage.lost, *(f"the body of event {seq}" for seq in spoilt)),
    )


def _look(store: Store, about: Conversation) -> _Damage:
    damage = _Damage(sound=[], rest=[], lost=[])
    before = codec.ZERO
    for event in readable(store, about):
        if isinstance(event, Corrupt):
            damage.lost.append(event.message)
        elif damage.is_cut:
            damage.rest.append(event)
        elif event.seq == len(damage.sound) + 1 and codec.continues(event, before):
            damage.sound.append(event)
            before = event.chain
        else:
            damage.lost.append(f"the place of event {event.seq}: the chain is broken there")
            damage.rest.append(event)
    return damage


def _is_readable(event: Event) -> bool:
    try:
        codec.decode(event)
    except Corrupt:
        return False
    return event.erased or codec.digest_of(event.salt, event.body) == event.digest


def _check_may_cut(store: Store, about: Conversation, damage: _Damage) -> None:
    """Conflict if a fork reads the log that has to be cut, or the damage is in a parent's."""
    if len(damage.sound) < about.parent_seq:
        hint = f"refold repair {about.parent}"
        raise Conflict(f"the damage is in {about.parent!r}, the parent", head=about.head, hint=hint)
    for other in conversations(store):
        if other.parent == about.id:
            said = f"{about.id!r} has to be cut, and its fork {other.id!r} reads it"
            raise Conflict(said, head=about.head, hint=f"export or delete {other.id!r} first")


def _cut(store: Store, about: Conversation, damage: _Damage) -> str:
    """Puts the sound part in place of the log, and the rest beside it; gives the id of that."""
    rest = [event for event in damage.rest if _is_readable(event)]
    beside = _free_id(store, about.id) if rest else ""
    _append(store, beside, rest)
    head = store.conversation(about.id).head
    if head != about.head:
        hint = "stop the agent that writes to it, then repair again"
        raise Conflict(f"{about.id!r} was written to meanwhile", head=head, hint=hint)
    store.delete(about.id)
    _append(store, about.id, damage.sound)
    return beside


def _append(store: Store, id: str, events: Sequence[Event]) -> None:
    """Writes a new log; an event that stood elsewhere is sealed at its new place."""
    before, moved = codec.ZERO, []
    for seq, event in enumerate(events, 1):
        moved.append(codec.resealed(event, before, seq))
        before = moved[-1].chain
    for at in range(0, len(moved), APPEND_EVENTS):
        store.append(id, moved[at : at + APPEND_EVENTS], expect=at)


def _free_id(store: Store, id: str) -> str:
    names = [f"{id[:ID_CHARS_MAX]}-rest{number}" for number in ("", *(f"-{n}" for n in range(999)))]
    return next(name for name in names if not _exists(store, name))


def _exists(store: Store, id: str) -> bool:
    try:
        store.conversation(id)
    except NotFound:
        return False
    return True


def _keep_copy(store: Store, id: str, events: Sequence[Event]) -> str:
    """Writes every event that was read to a file beside the store, bytes in base64; gives its
    path. A store without a place on this disk has no copy."""
    path = store.derived_path(f"{id}.damaged-{now_ms()}.jsonl")
    if path is None:
        return ""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.writelines(msgspec.json.encode(event) + b"\n" for event in events)
            file.flush()
            os.fsync(fd)
    except OSError as error:
        raise disk.os_failure(error, f"cannot keep a copy at {path}") from error
    return path
