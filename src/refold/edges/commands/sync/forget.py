"""`refold sync forget`: a device that does not come back is listed no more."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.sync import FAR, KEY, synced_store

DEVICE = Meta(
    description="The device, by the name that sync devices shows.",
    extra={"positional": True, "metavar": "DEVICE"},
)


class ForgetArguments(Arguments, frozen=True, kw_only=True):
    device: Annotated[str, DEVICE]
    far: Annotated[str, FAR] | None = None
    key: Annotated[str, KEY] | None = None


class Forgotten(Result, frozen=True, kw_only=True):
    device: str
    far: str


def run(session: Session, arguments: ForgetArguments) -> Forgotten:
    store = synced_store(session, arguments.far, arguments.key)
    store.forget_device(arguments.device)
    return Forgotten(device=arguments.device, far=store.far_url)


def show(forgotten: Forgotten, screen: Screen) -> None:
    screen.line(f"{forgotten.device} is no longer listed in {forgotten.far}, until it syncs again.")
    screen.line("What it has stays on it, and its token still lets it in.")


COMMAND = Command(
    name="sync forget",
    details="Only the list changes: nothing is removed from the device, and its token is not "
    "revoked.",
    on="store",
    arguments=ForgetArguments,
    run=run,
    show=show,
)
