"""The devices that sync with a far store: each has a log there, of notes with the time of its last
complete sync.

Only far stores have these logs; a sync reads new notes into its record, so that the list can be
shown without a far call. A device writes at most once an hour, and numbers its notes: a device that
finds a number it did not write has a twin, such as a cloned disk, and takes another name. A
forgotten device is listed again once it syncs. A missing list stops no sync. Neighbours:
`full_sync` calls at the end of a complete sync, `sync_record` keeps the notes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping

import msgspec

from refold import decoding
from refold.checked import quoted
from refold.core import codec, ids
from refold.core.model import DEVICE_NOTE, DEVICE_PREFIX, Conversation, Note
from refold.errors import NotFound, RefoldError
from refold.stores.hybrid import diverged_logs, sync_record
from refold.stores.protocol import Store

BY = "sync"
EVERY_MS = 3_600_000
DEVICES_MAX = 1_000


class DeviceNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A note of a device: its name, the time of its last complete sync, the number of the note, and
    a mark that identifies its author; or a note of another device that it is forgotten."""

    device: str
    at_ms: int
    number: int
    mark: str = ""
    is_forgotten: bool = False


def log_id(device: str) -> str:
    """The id of a device's log, which does not reveal the host name."""
    return f"{DEVICE_PREFIX}{device.rpartition('-')[2]}"


def without(known: Mapping[str, Conversation]) -> dict[str, Conversation]:
    """The logs of a far store, without those of devices."""
    return {id: about for id, about in known.items() if not id.startswith(DEVICE_PREFIX)}


def learn(kept: sync_record.Record, far: Store, there: Mapping[str, Conversation]) -> None:
    """Reads new notes of devices into the record. A device whose log is gone stays listed: it still
    has its data."""
    found = [id for id in there if id.startswith(DEVICE_PREFIX)][:DEVICES_MAX]
    gone = [id for id in kept.devices if id not in there and id != log_id(kept.device)]
    known = {id: kept.devices[id] for id in [*found, *gone][:DEVICES_MAX] if id in kept.devices}
    for id in found:
        if id not in known or known[id].chain != there[id].chain:
            # A damaged log, or one of another key, is left out.
            with contextlib.suppress(RefoldError):
                known[id] = _state(_newest(far, there[id]), there[id].chain)
    kept.devices = known


def confirm_sync(kept: sync_record.Record, path: str | None, far: Store, now_ms: int) -> None:
    """Notes a complete sync of this device, unless it did so within the hour. Without permission to
    write, nothing is noted."""
    if path is None or not os.path.isdir(os.path.dirname(path)):
        return  # it would have another name each time
    last = kept.devices.get(log_id(kept.device))
    has_other_mark = last is not None and last.mark not in ("", kept.told_mark)
    if last is not None and (last.number, has_other_mark) > (kept.told, False):
        # Another device has this name: take a new one.
        kept.device, kept.told, kept.told_mark = sync_record.new_device(), 0, ""
        last = kept.devices.get(log_id(kept.device))
    if last is not None and not last.is_forgotten and 0 <= now_ms - last.at_ms < EVERY_MS:
        return
    kept.told += 1
    kept.told_mark = secrets.token_hex(4)
    # Recorded before the note is sent: a kill in between must not look like a twin. Another process
    # may have changed the record since the sync began, so only these fields are replaced.
    with sync_record.locked(path):
        now = sync_record.read(path, kept.far)
        now.device, now.told, now.told_mark = kept.device, kept.told, kept.told_mark
        sync_record.write(path, now)
    note = DeviceNote(device=kept.device, at_ms=now_ms, number=kept.told, mark=kept.told_mark)
    with contextlib.suppress(RefoldError):
        kept.devices[log_id(kept.device)] = _state(note, _append(far, note, now_ms))


def forget(kept: sync_record.Record, far: Store, name: str, now_ms: int) -> None:
    """Removes a device from the list until it syncs again; NotFound without a device of this
    name."""
    found = [(id, one) for id, one in kept.devices.items() if one.name == name]
    if not found or found[0][1].is_forgotten:
        message = f"there is no device {quoted(name, 80)}"
        raise NotFound(message, hint="refold sync --devices lists them")
    id, one = found[0]
    note = DeviceNote(
        device=name, at_ms=one.at_ms, number=one.number, mark=one.mark, is_forgotten=True
    )
    kept.devices[id] = _state(note, _append(far, note, now_ms, id=id))


def rewrite_log(far: Store, about: Conversation) -> None:
    """Replaces the log of a device by one with only its last note; an unreadable log is deleted,
    and the device writes another."""
    note = None
    with contextlib.suppress(RefoldError):
        note = _newest(far, about)
    far.delete(about.id)
    if note is not None:
        _append(far, note, about.updated_ms, id=about.id)


def _newest(far: Store, about: Conversation) -> DeviceNote:
    [event] = far.read(about.id, after=about.head - 1, last=about.head, limit=1)
    body = codec.decode(event)
    if not isinstance(body, Note) or body.kind != DEVICE_NOTE:
        raise NotFound(f"{about.id} has no device note")
    try:
        return decoding.convert(body.data, DeviceNote)
    except msgspec.ValidationError as error:
        raise NotFound(f"{about.id} has no valid device note: {error}") from error


def _state(note: DeviceNote, chain: bytes) -> sync_record.DeviceState:
    return sync_record.DeviceState(
        name=note.device,
        at_ms=note.at_ms,
        number=note.number,
        mark=note.mark,
        is_forgotten=note.is_forgotten,
        chain=chain,
    )


def _append(far: Store, note: DeviceNote, now_ms: int, *, id: str = "") -> bytes:
    """Writes a note into the log of a device; returns the chain of that log."""
    id = id or log_id(note.device)
    about = diverged_logs.about(far, id) or Conversation(id=id, head=0, chain=codec.ZERO)
    event = codec.seal(
        about.chain,
        about.head + 1,
        id=ids.uuid7(now_ms, secrets.token_bytes(10)),
        at_ms=now_ms,
        by=BY,
        kind="note",
        body=codec.encode(Note(kind=DEVICE_NOTE, data=msgspec.to_builtins(note))),
        salt=secrets.token_bytes(codec.SALT_BYTES),
    )
    far.append(id, [event], expect=about.head)
    far.flush()
    return event.chain
