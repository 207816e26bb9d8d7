"""Which devices sync with a far store: each has a log of its own there, of notes that say when it
synced everything last.

Only far stores have these logs; a sync reads what is new in them into its record, so that the list
can be shown without asking anybody. A device says it at most once an hour, and numbers what it
says: one that finds a number which it did not write has a twin, such as a cloned disk, and goes on
under another name. A device that is forgotten is listed again once it syncs. That a list is missing
stops no sync. Neighbours: `rounds` calls at the end of a whole sync, `record` keeps what was read.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from refold import decoding
from refold.checked import quoted
from refold.core import codec
from refold.core.model import DEVICE_NOTE, DEVICE_PREFIX, Conversation, Event, Note
from refold.errors import NotFound, RefoldError
from refold.stores.hybrid import record, tails
from refold.stores.protocol import Store

BY = "sync"
EVERY_MS = 3_600_000
DEVICES_MAX = 1_000


class Said(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a device says of itself: its name, when it synced everything, the number of the note and
    a mark by which it knows its own; or what another says, that it is forgotten."""

    device: str
    at_ms: int
    number: int
    mark: str = ""
    is_forgotten: bool = False


def log_id(device: str) -> str:
    """The id of a device's log: it does not tell the name of the machine."""
    return f"{DEVICE_PREFIX}{device.rpartition('-')[2]}"


def without(known: Mapping[str, Conversation]) -> dict[str, Conversation]:
    """The conversations among the logs of a far store."""
    return {id: about for id, about in known.items() if not id.startswith(DEVICE_PREFIX)}


def learn(kept: record.Record, far: Store, there: Mapping[str, Conversation]) -> None:
    """Reads what devices said since the last sync into the record. One whose log is gone there
    stays known: it still has what it has."""
    found = [id for id in there if id.startswith(DEVICE_PREFIX)][:DEVICES_MAX]
    gone = [id for id in kept.devices if id not in there and id != log_id(kept.device)]
    known = {id: kept.devices[id] for id in [*found, *gone][:DEVICES_MAX] if id in kept.devices}
    for id in found:
        if id not in known or known[id].chain != there[id].chain:
            # One that is damaged, or of another key, is left out.
            with contextlib.suppress(RefoldError):
                known[id] = _state(_newest(far, there[id]), there[id].chain)
    kept.devices = known


def tell(kept: record.Record, path: str | None, far: Store, now_ms: int) -> None:
    """Says that this device has synced everything, unless it did a short while ago. One that may
    not write cannot say it."""
    if path is None or not os.path.isdir(os.path.dirname(path)):
        return  # it would have another name each time
    _check_twin(kept)
    said = kept.devices.get(log_id(kept.device))
    if said is not None and not said.is_forgotten and 0 <= now_ms - said.at_ms < EVERY_MS:
        return
    kept.told += 1
    kept.told_mark = secrets.token_hex(4)
    _keep(kept, path)  # before it is said: else a kill would leave a twin
    note = Said(device=kept.device, at_ms=now_ms, number=kept.told, mark=kept.told_mark)
    with contextlib.suppress(RefoldError):
        kept.devices[log_id(kept.device)] = _state(note, _append(far, note, now_ms))


def _keep(kept: record.Record, path: str) -> None:
    """Writes what this device is about to say into the record as it is now: others may have changed
    it since the sync began."""
    with record.locked(path):
        now = record.read(path, kept.far)
        now.device, now.told, now.told_mark = kept.device, kept.told, kept.told_mark
        record.write(path, now)


def _check_twin(kept: record.Record) -> None:
    """Gives this device another name if somebody else goes by its own."""
    said = kept.devices.get(log_id(kept.device))
    if said is None or said.number < kept.told:
        return
    if said.number > kept.told or (said.mark and said.mark != kept.told_mark):
        kept.device, kept.told, kept.told_mark = record.new_device(), 0, ""


def forget(kept: record.Record, far: Store, name: str, now_ms: int) -> None:
    """Says that a device is not to be listed until it syncs again; NotFound if none is listed by
    this name."""
    found = [(id, one) for id, one in kept.devices.items() if one.name == name]
    if not found or found[0][1].is_forgotten:
        said = f"there is no device {quoted(name, 80)}"
        raise NotFound(said, hint="refold sync --devices lists them")
    id, one = found[0]
    note = Said(device=name, at_ms=one.at_ms, number=one.number, mark=one.mark, is_forgotten=True)
    kept.devices[id] = _state(note, _append(far, note, now_ms, id=id))


def say_again(far: Store, about: Conversation) -> None:
    """Says what a device said last once more, in a log that has nothing else; one that cannot be
    read goes, and the device says it again."""
    try:
        said = _newest(far, about)
    except RefoldError:
        said = None
    far.delete(about.id)
    if said is not None:
        _append(far, said, about.updated_ms, id=about.id)


def _newest(far: Store, about: Conversation) -> Said:
    [event] = far.read(about.id, after=about.head - 1, last=about.head, limit=1)
    body = codec.decode(event)
    if not isinstance(body, Note) or body.kind != DEVICE_NOTE:
        raise NotFound(f"{about.id} says nothing of a device")
    try:
        return decoding.convert(body.data, Said)
    except msgspec.ValidationError as error:
        raise NotFound(f"{about.id} says nothing of a device: {error}") from error


def _state(said: Said, chain: bytes) -> record.DeviceState:
    return record.DeviceState(
        name=said.device,
        at_ms=said.at_ms,
        number=said.number,
        mark=said.mark,
        is_forgotten=said.is_forgotten,
        chain=chain,
    )


def _append(far: Store, said: Said, now_ms: int, *, id: str = "") -> bytes:
    """Writes a note into the log of a device; gives the chain of that log."""
    id = id or log_id(said.device)
    about = tails.about(far, id) or Conversation(id=id, head=0, chain=codec.ZERO)
    event = _sealed(about, said, now_ms)
    far.append(id, [event], expect=about.head)
    far.flush()
    return event.chain


def _sealed(about: Conversation, said: Said, now_ms: int) -> Event:
    return codec.seal(
        about.chain,
        about.head + 1,
        id=codec.uuid7(now_ms, secrets.token_bytes(10)),
        at_ms=now_ms,
        by=BY,
        kind="note",
        body=codec.encode(Note(kind=DEVICE_NOTE, data=msgspec.to_builtins(said))),
        salt=secrets.token_bytes(codec.SALT_BYTES),
    )


def listed(kept: record.Record) -> Sequence[record.DeviceState]:
    """The devices that are not forgotten, the one that synced last first."""
    found = [one for one in kept.devices.values() if not one.is_forgotten]
    return sorted(found, key=lambda one: (-one.at_ms, one.name))
