"""`refold sync key new`: makes the key by which a far store can read nothing."""

from __future__ import annotations

import os
from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.errors import Invalid
from refold.stores import key_ids, make_key

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


def run(session: Session, arguments: KeyNewArguments) -> KeyMade:
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


def show(made: KeyMade, screen: Screen) -> None:
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


COMMAND = Command(
    name="sync key new",
    details="Without --passphrase the key is random, and you copy the file to your other devices. "
    "An existing file is not overwritten. You type the passphrase without seeing it, or pipe it to "
    "standard input.",
    on="nothing",
    arguments=KeyNewArguments,
    run=run,
    show=show,
)
