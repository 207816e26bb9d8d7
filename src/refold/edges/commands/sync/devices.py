"""`refold sync devices`: which devices sync with the far store, and when each did last."""

from __future__ import annotations

from typing import Annotated

from refold.display import moment
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.sync import FAR, KEY, synced_store
from refold.stores.protocol import Device


class DevicesArguments(Arguments, frozen=True, kw_only=True):
    far: Annotated[str, FAR] | None = None
    key: Annotated[str, KEY] | None = None


class DevicesListed(Result, frozen=True, kw_only=True):
    """The devices, the one that synced last first."""

    far: str
    devices: tuple[Device, ...]


def run(session: Session, arguments: DevicesArguments) -> DevicesListed:
    store = synced_store(session, arguments.far, arguments.key)
    return DevicesListed(far=store.far_url, devices=tuple(store.devices()))


def show(listed: DevicesListed, screen: Screen) -> None:
    if not listed.devices:
        screen.line(f"No device is known that syncs with {listed.far}; {screen.call('sync')} asks.")
        return
    rows = [
        (one.name, moment(one.at_ms), "this one" if one.is_here else "") for one in listed.devices
    ]
    screen.table(("DEVICE", "SYNCED ALL", ""), rows)


COMMAND = Command(
    name="sync devices",
    details="The list is from the last sync of everything; this asks nobody. A device reports at "
    "most once an hour that it has synced everything. One whose token may only read cannot report "
    "it.",
    on="store",
    arguments=DevicesArguments,
    run=run,
    show=show,
)
