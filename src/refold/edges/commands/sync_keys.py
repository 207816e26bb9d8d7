"""`refold sync key`: the keys that encrypt what goes to a far store, made, listed and applied.

A key file holds several keys: the first encrypts, all decrypt. Keys are shown by names that reveal
nothing of them. Neighbours: `sync` has the other commands of syncing, `refold.stores` the keys.
"""

from __future__ import annotations

import os
from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Result, Screen, Yes, command, number
from refold.edges.commands.session import Session
from refold.edges.commands.sync import Far, Key, synced_store
from refold.errors import Invalid
from refold.stores import key_ids, make_key

FILE_POSITION = {"positional": True, "metavar": "FILE"}


class KeyMade(Result, frozen=True, kw_only=True):
    """The names of the key that encrypts from now on and of the older keys, which only decrypt.
    `is_derived` for a key made from a passphrase."""

    file: str
    key: str
    older: tuple[str, ...]
    is_derived: bool = False

    def show(self, screen: Screen) -> None:
        screen.line(f"The key {self.key} is in {self.file}, which only you can read.")
        if self.older:
            screen.line("It encrypts from now on; the older keys still decrypt.")
            screen.line(f"{screen.call('sync key apply')} encrypts the far store again with it.")
        screen.line(f"Use it in the URL of the store: hybrid:NEAR?far=FAR&key={self.file}")
        if self.is_derived:
            screen.line(
                "The same passphrase and name give the same key on your other devices. Without"
            )
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


@command(
    "sync key new",
    details="Without --passphrase the key is random, and you copy the file to your other devices. "
    "An existing file is not overwritten. You type the passphrase without seeing it, or pipe it to "
    "standard input.",
    on="nothing",
)
def new_key(
    session: Session,
    *,
    file: Annotated[
        str,
        Meta(
            description="The file to make, such as ~/.config/refold/acme.key.", extra=FILE_POSITION
        ),
    ],
    rotate: Annotated[
        bool,
        Meta(description="Put a newer key in front of those in the file, which still decrypt."),
    ] = False,
    passphrase: Annotated[
        bool,
        Meta(
            description="Ask for a passphrase: with the same name it gives the same key on every "
            "device."
        ),
    ] = False,
    name: Annotated[
        str, Meta(description="With --passphrase: what the key is for, such as acme.")
    ] = "",
) -> KeyMade:
    if name and not passphrase:
        hint = "leave out --name, or add --passphrase"
        raise Invalid("--name is for a key that is made from a passphrase", hint=hint)
    secret = session.secret("Passphrase") if passphrase else ""
    key = make_key(file, passphrase=secret, name=name, rotates=rotate)
    path = os.path.abspath(os.path.expanduser(file))
    return KeyMade(file=path, key=key, older=tuple(key_ids(path)[1:]), is_derived=passphrase)


class KeysListed(Result, frozen=True, kw_only=True):
    """The names of the keys; the first encrypts."""

    file: str
    keys: tuple[str, ...]

    def show(self, screen: Screen) -> None:
        newest, *older = self.keys
        screen.line(("green", newest), " encrypts and decrypts")
        for key in older:
            screen.line(key, " decrypts")


@command("sync key list", on="nothing")
def list_keys(
    session: Session,
    *,
    file: Annotated[str, Meta(description="The key file.", extra=FILE_POSITION)],
) -> KeysListed:
    return KeysListed(file=file, keys=tuple(key_ids(file)))


class KeyApplied(Result, frozen=True, kw_only=True):
    """By conversation, what was there before it was encrypted again."""

    far: str
    conversations: dict[str, str]

    def show(self, screen: Screen) -> None:
        for id, what in self.conversations.items():
            screen.line(f"{id}: {what}")
        done = f"{number(len(self.conversations), 'conversation')} encrypted again in {self.far}"
        screen.line(f"{done}; everything there has the newest key now.")


@command(
    "sync key apply",
    details="Sync first: both sides must be the same. Each conversation is deleted in the far "
    "store and sent again; this store always has everything. Backups of the far store are not "
    "reached, and a device without a key sends plain text again.",
    on="store",
)
def apply_key(
    session: Session, *, far: Far | None = None, key: Key | None = None, yes: Yes = False
) -> KeyApplied:
    store = synced_store(session, far, key)
    session.confirm(
        "Delete from the far store what the newest key did not encrypt, and send it again?", yes
    )
    return KeyApplied(far=store.far.url, conversations=store.encrypt_again())
