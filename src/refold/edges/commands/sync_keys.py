"""`refold sync devices`: which devices sync with the far store, and when each did last.

`refold sync forget`: a device that does not come back is listed no more.

The commands of the keys by which what goes to a far store is encrypted.

`refold sync key new`: makes the key by which a far store can read nothing.

`refold sync key list`: the keys of a file by their names, which tell nothing of them.

`refold sync key apply`: what lies far in plain text, or by an older key, is encrypted again.
"""

from __future__ import annotations

import os
from typing import Annotated

from msgspec import Meta

from refold.display import moment
from refold.edges.commands.command import Arguments, Command, Result, Screen, number
from refold.edges.commands.session import Session
from refold.edges.commands.sync import FAR, KEY, synced_store
from refold.errors import Invalid
from refold.stores import key_ids, make_key
from refold.stores.protocol import Device


class DevicesArguments(Arguments, frozen=True, kw_only=True):
    far: Annotated[str, FAR] | None = None
    key: Annotated[str, KEY] | None = None


class DevicesListed(Result, frozen=True, kw_only=True):
    """The devices, the one that synced last first."""

    far: str
    devices: tuple[Device, ...]


def run_sync_devices(session: Session, arguments: DevicesArguments) -> DevicesListed:
    store = synced_store(session, arguments.far, arguments.key)
    return DevicesListed(far=store.far_url, devices=tuple(store.devices()))


def show_sync_devices(listed: DevicesListed, screen: Screen) -> None:
    if not listed.devices:
        screen.line(f"No device is known that syncs with {listed.far}; {screen.call('sync')} asks.")
        return
    rows = [
        (one.name, moment(one.at_ms), "this one" if one.is_here else "") for one in listed.devices
    ]
    screen.table(("DEVICE", "SYNCED ALL", ""), rows)


SYNC_DEVICES = Command(
    name="sync devices",
    details="The list is from the last sync of everything; this asks nobody. A device reports at "
    "most once an hour that it has synced everything. One whose token may only read cannot report "
    "it.",
    on="store",
    arguments=DevicesArguments,
    run=run_sync_devices,
    show=show_sync_devices,
)


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


def run_sync_forget(session: Session, arguments: ForgetArguments) -> Forgotten:
    store = synced_store(session, arguments.far, arguments.key)
    store.forget_device(arguments.device)
    return Forgotten(device=arguments.device, far=store.far_url)


def show_sync_forget(forgotten: Forgotten, screen: Screen) -> None:
    screen.line(f"{forgotten.device} is no longer listed in {forgotten.far}, until it syncs again.")
    screen.line("What it has stays on it, and its token still lets it in.")


SYNC_FORGET = Command(
    name="sync forget",
    details="Only the list changes: nothing is removed from the device, and its token is not "
    "revoked.",
    on="store",
    arguments=ForgetArguments,
    run=run_sync_forget,
    show=show_sync_forget,
)


FILE = Meta(
    description="The file to make, such as ~/.config/refold/acme.key.",
    extra={"positional": True, "metavar": "FILE"},
)
ROTATE = Meta(description="Put a newer key in front of those in the file, which still decrypt.")
PASSPHRASE = Meta(
    description="Ask for a passphrase: with the same name it gives the same key on every device."
)
NAME = Meta(description="With --passphrase: what the key is for, such as acme.")


class KeyNewArguments(Arguments, frozen=True, kw_only=True):
    file: Annotated[str, FILE]
    rotate: Annotated[bool, ROTATE] = False
    passphrase: Annotated[bool, PASSPHRASE] = False
    name: Annotated[str, NAME] = ""


class KeyMade(Result, frozen=True, kw_only=True):
    """The name of the key that encrypts from now on, and of those that decrypt as well.
    `is_derived`: it follows from a passphrase."""

    file: str
    key: str
    older: tuple[str, ...]
    is_derived: bool = False


def run_sync_key_new(session: Session, arguments: KeyNewArguments) -> KeyMade:
    if arguments.name and not arguments.passphrase:
        hint = "leave out --name, or add --passphrase"
        raise Invalid("--name is for a key that is made from a passphrase", hint=hint)
    passphrase = session.secret("Passphrase") if arguments.passphrase else ""
    made = make_key(
        arguments.file, passphrase=passphrase, name=arguments.name, rotates=arguments.rotate
    )
    file = os.path.abspath(os.path.expanduser(arguments.file))
    older = tuple(key_ids(file)[1:])
    return KeyMade(file=file, key=made, older=older, is_derived=arguments.passphrase)


def show_sync_key_new(made: KeyMade, screen: Screen) -> None:
    screen.line(f"The key {made.key} is in {made.file}, which only you can read.")
    if made.older:
        screen.line("It encrypts from now on; the older keys still decrypt.")
        apply = screen.call("sync key apply")
        screen.line(f"{apply} encrypts the far store again with it.")
    screen.line(f"Use it in the URL of the store: hybrid:NEAR?far=FAR&key={made.file}")
    if made.is_derived:
        screen.line("The same passphrase and name give the same key on your other devices. Without")
        screen.line("them and without the file, nobody can read the far store.")
    else:
        screen.line(
            "Copy the file to your other devices, never through the far store. Keep another"
        )
        screen.line("copy: without it, nobody can read the far store.")
    screen.line(
        "The far store still sees the ids of conversations, and so the words of the names and"
    )
    screen.line("the files that an id was made of.")


SYNC_KEY_NEW = Command(
    name="sync key new",
    details="Without --passphrase the key is random, and you copy the file to your other devices. "
    "An existing file is not overwritten. You type the passphrase without seeing it, or pipe it to "
    "standard input.",
    on="nothing",
    arguments=KeyNewArguments,
    run=run_sync_key_new,
    show=show_sync_key_new,
)


LIST_FILE = Meta(description="The key file.", extra={"positional": True, "metavar": "FILE"})


class KeyListArguments(Arguments, frozen=True, kw_only=True):
    file: Annotated[str, LIST_FILE]


class KeysListed(Result, frozen=True, kw_only=True):
    """The names of the keys; the first encrypts."""

    file: str
    keys: tuple[str, ...]


def run_sync_key_list(session: Session, arguments: KeyListArguments) -> KeysListed:
    return KeysListed(file=arguments.file, keys=tuple(key_ids(arguments.file)))


def show_sync_key_list(listed: KeysListed, screen: Screen) -> None:
    newest, *older = listed.keys
    screen.line(("green", newest), " encrypts and decrypts")
    for key in older:
        screen.line(key, " decrypts")


SYNC_KEY_LIST = Command(
    name="sync key list",
    on="nothing",
    arguments=KeyListArguments,
    run=run_sync_key_list,
    show=show_sync_key_list,
)


YES = Meta(description="Do not ask.")


class KeyApplyArguments(Arguments, frozen=True, kw_only=True):
    far: Annotated[str, FAR] | None = None
    key: Annotated[str, KEY] | None = None
    yes: Annotated[bool, YES] = False


class KeyApplied(Result, frozen=True, kw_only=True):
    """What was encrypted again, by conversation: what lay there."""

    far: str
    conversations: dict[str, str]


def run_sync_key_apply(session: Session, arguments: KeyApplyArguments) -> KeyApplied:
    store = synced_store(session, arguments.far, arguments.key)
    session.confirm(
        "Delete from the far store what the newest key did not encrypt, and send it again?",
        arguments.yes,
    )
    return KeyApplied(far=store.far.url, conversations=store.encrypt_again())


def show_sync_key_apply(applied: KeyApplied, screen: Screen) -> None:
    for id, what in applied.conversations.items():
        screen.line(f"{id}: {what}")
    done = number(len(applied.conversations), "conversation")
    screen.line(
        f"{done} encrypted again in {applied.far}; everything there has the newest key now."
    )


SYNC_KEY_APPLY = Command(
    name="sync key apply",
    details="Sync first: both sides must be the same. Each conversation is deleted in the far "
    "store and sent again; this store always has everything. Backups of the far store are not "
    "reached, and a device without a key sends plain text again.",
    on="store",
    arguments=KeyApplyArguments,
    run=run_sync_key_apply,
    show=show_sync_key_apply,
)
