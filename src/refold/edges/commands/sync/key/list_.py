"""`refold sync key list`: the keys of a file by their names, which tell nothing of them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.stores import key_ids

FILE = Meta(description="The key file.", extra={"positional": True, "metavar": "FILE"})


class KeyListArguments(Arguments, frozen=True, kw_only=True):
    file: Annotated[str, FILE]


class KeysListed(Result, frozen=True, kw_only=True):
    """The names of the keys; the first encrypts."""

    file: str
    keys: tuple[str, ...]


def run(session: Session, arguments: KeyListArguments) -> KeysListed:
    return KeysListed(file=arguments.file, keys=tuple(key_ids(arguments.file)))


def show(listed: KeysListed, screen: Screen) -> None:
    newest, *older = listed.keys
    screen.line(("green", newest), " encrypts and decrypts")
    for key in older:
        screen.line(key, " decrypts")


COMMAND = Command(
    name="sync key list", on="nothing", arguments=KeyListArguments, run=run, show=show
)
