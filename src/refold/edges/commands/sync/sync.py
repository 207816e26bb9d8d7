"""`refold sync`: makes the near and the far store the same, or says how they stand."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Progress, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.sync import FAR, KEY, synced_store
from refold.edges.commands.text import number, short_line
from refold.stores.protocol import WAITING, Synced, SyncListener

STATUS = "status"
NAMES = Meta(
    description="The conversations; by default all. `status`, or `status ID`, syncs nothing and "
    "says how they stand, without asking anybody.",
    extra={"positional": True, "metavar": "ID"},
)
NEW_FAR = Meta(description="The far store is new, or was emptied on purpose: fill it.")
TAKE_PLAIN = Meta(
    description="With a key: also take plain text from the far store, which anybody there could "
    "have written."
)
STYLES = {
    "synced": "green",
    "forked": "yellow",
    "pending": "yellow",
    "blocked": "red",
    "held": "red",
}


class SyncArguments(Arguments, frozen=True, kw_only=True):
    conversations: Annotated[tuple[str, ...], NAMES] = ()
    far: Annotated[str, FAR] | None = None
    key: Annotated[str, KEY] | None = None
    new_far: Annotated[bool, NEW_FAR] = False
    take_plain: Annotated[bool, TAKE_PLAIN] = False


class SyncResult(Result, frozen=True, kw_only=True):
    """How the conversations stand: after a sync those that it touched or that wait, else all.
    `same` others needed nothing."""

    near: str
    far: str
    conversations: tuple[Synced, ...]
    same: int = 0
    is_status: bool = False
    is_under_way: bool = False
    at_ms: int = 0
    device: str = ""
    reason: str = ""
    is_refused: bool = False

    @property
    def outcome(self) -> str:
        if self.is_status:
            return "ok"
        states = {one.state for one in self.conversations}
        if self.is_refused:
            return "conflict"
        if self.reason or "pending" in states:
            return "unavailable"
        return "conflict" if states & {"blocked", "held"} or self.is_under_way else "ok"


def run(session: Session, arguments: SyncArguments) -> SyncResult:
    store = synced_store(session, arguments.far, arguments.key)
    ids = arguments.conversations
    if ids[:1] == (STATUS,):
        status = store.sync_status(ids[1:])
        return SyncResult(
            near=status.near,
            far=status.far,
            conversations=status.conversations,
            is_status=True,
            at_ms=status.at_ms,
            device=status.device,
            reason=status.reason,
        )
    status = store.sync_status()
    pending = sum(one.pending for one in status.conversations)
    with session.progress("syncing") as progress:
        listener = _listener(progress, pending) if progress else None
        report = store.sync(
            ids,
            new_far=arguments.new_far,
            takes_plain=arguments.take_plain,
            progress=listener,
        )
    return SyncResult(
        near=status.near,
        far=status.far,
        conversations=report.synced,
        same=report.same,
        is_under_way=report.is_under_way,
        device=status.device,
        reason=report.reason,
        is_refused=report.is_refused,
    )


def _listener(progress: Progress, pending: int) -> SyncListener:
    """What is to come from the far store is not known before, so the total grows with it."""
    done = 0

    def listen(conversation: str, count: int) -> None:
        nonlocal done
        done += count
        progress(conversation, done, max(pending, done))

    return listen


def show(result: SyncResult, screen: Screen) -> None:
    if result.is_under_way:
        screen.line("Another sync of this store is running; it does the same.")
        return
    for one in result.conversations:
        screen.line((STYLES[one.state], f"{one.state:8}"), f" {one.conversation}{_done(one)}")
    if result.reason:
        screen.line(("red", f"{result.far}: {short_line(result.reason, 300)}"))
        again = "once it lets you in" if result.is_refused else "later"
        screen.line(f"What was written is kept here; sync again {again}.")
    elif not result.is_status:
        screen.line(_sum(result))
    elif result.at_ms:
        screen.line(f"This device is {result.device}.")
    elif not result.conversations:
        screen.line(f"There are no conversations in {result.near}.")


def _done(one: Synced) -> str:
    """What was done for a conversation, or waits, in words."""
    parts = [
        f"{number(one.pending, 'event')} to send" if one.pending else "",
        f"{number(one.pushed, 'event')} sent" if one.pushed else "",
        f"{number(one.pulled, 'event')} fetched" if one.pulled else "",
        f"{number(one.contents, 'artifact')} copied" if one.contents else "",
        f"{number(one.erased, 'event')} erased" if one.erased else "",
        f"it grew on both sides: what was said here is {one.fork}" if one.fork else "",
        short_line(one.reason, 300),
    ]
    text = ", ".join(part for part in parts if part)
    return f": {text}" if text else ""


def _sum(result: SyncResult) -> str:
    waiting = sum(one.state in WAITING for one in result.conversations)
    same = result.same + len(result.conversations) - waiting
    said = f"{number(same, 'conversation')} the same in {result.near} and {result.far}"
    return f"{said}, {waiting} not yet." if waiting else f"{said}."


COMMAND = Command(
    name="sync",
    details="sync [ID ...] syncs these conversations, by default all; sync status [ID ...] only "
    "says how they differ. A sync sends what the far store does not have and fetches what is "
    "missing here. If a conversation grew on both sides, the far log stands, and what was said "
    "here continues as a fork. A blocked conversation says why, and each sync tries it again.",
    on="store",
    arguments=SyncArguments,
    run=run,
    show=show,
)
