"""`refold sync key apply`: what lies far in plain text, or by an older key, is encrypted again."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.sync import FAR, KEY, synced_store
from refold.edges.commands.text import number

YES = Meta(description="Do not ask.")


class KeyApplyArguments(Arguments, frozen=True, kw_only=True):
    far: Annotated[str, FAR] | None = None
    key: Annotated[str, KEY] | None = None
    yes: Annotated[bool, YES] = False


class KeyApplied(Result, frozen=True, kw_only=True):
    """What was encrypted again, by conversation: what lay there."""

    far: str
    conversations: dict[str, str]


def run(session: Session, arguments: KeyApplyArguments) -> KeyApplied:
    store = synced_store(session, arguments.far, arguments.key)
    session.confirm(
        "Delete from the far store what the newest key did not encrypt, and send it again?",
        arguments.yes,
    )
    return KeyApplied(far=store.far.url, conversations=store.encrypt_again())


def show(applied: KeyApplied, screen: Screen) -> None:
    for id, what in applied.conversations.items():
        screen.line(f"{id}: {what}")
    done = number(len(applied.conversations), "conversation")
    screen.line(
        f"{done} encrypted again in {applied.far}; everything there has the newest key now."
    )


COMMAND = Command(
    name="sync key apply",
    details="Sync first: both sides must be the same. Each conversation is deleted in the far "
    "store and sent again; this store always has everything. Backups of the far store are not "
    "reached, and a device without a key sends plain text again.",
    on="store",
    arguments=KeyApplyArguments,
    run=run,
    show=show,
)
