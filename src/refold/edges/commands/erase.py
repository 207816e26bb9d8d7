"""`refold erase`: what was said goes for good, here and, by the next sync, everywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from refold.conversations.eraser import erase, erased
from refold.display import moment
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.position import seq_of
from refold.edges.commands.session import Session
from refold.edges.commands.text import number
from refold.errors import Invalid
from refold.stores import synced_of
from refold.stores.protocol import Device, Store, SyncedStore

SEQS = Meta(
    description="The events, by seq: 41 or #41. Without any, shows what was erased, and where.",
    extra={"positional": True, "metavar": "SEQ"},
)
ALL = Meta(description="Erase everything that the conversation says.")
YES = Meta(description="Do not ask.")


class EraseArguments(Arguments, frozen=True, kw_only=True):
    seqs: Annotated[tuple[str, ...], SEQS] = ()
    all: Annotated[bool, ALL] = False
    yes: Annotated[bool, YES] = False


class EraseResult(Result, frozen=True, kw_only=True):
    """What is erased, by seq; how many summaries, memories and contents went now because of it;
    the devices that said they erased it too, by seq; and, where it is synced, this device, the far
    store and whether that has erased it, as far as is known here, and the devices that have not
    said so of everything."""

    conversation: str
    seqs: tuple[int, ...]
    derived: int
    contents: int
    confirmed: dict[int, tuple[str, ...]]
    notes: tuple[str, ...]
    device: str = ""
    far: str = ""
    is_far_erased: bool = False
    unconfirmed: tuple[Device, ...] = ()


def run(session: Session, arguments: EraseArguments) -> EraseResult:
    id = session.conversation
    seqs = [seq_of(text) for text in arguments.seqs]
    if seqs and arguments.all:
        raise Invalid(
            "--all erases every event, but you also named some", hint="give one of the two"
        )
    if seqs or arguments.all:
        what = "everything" if arguments.all else number(len(seqs), "event")
        session.confirm(
            f"Erase {what} of {id} for good, on every device that syncs?", arguments.yes
        )
        found = erase(session.store, id, None if arguments.all else seqs)
    else:
        found = erased(session.store, id)
    result = EraseResult(
        conversation=id,
        seqs=found.seqs,
        derived=found.derived,
        contents=found.contents,
        confirmed=found.confirmed,
        notes=found.notes,
    )
    synced = synced_of(session.store)
    return result if synced is None else _with_far(result, synced, session.store, found.said_at)


def _with_far(result: EraseResult, synced: SyncedStore, store: Store, said_at: int) -> EraseResult:
    """With how the far store stands: it erases before the event that says so arrives."""
    status = synced.sync_status([result.conversation])
    [one] = status.conversations
    sent = store.conversation(result.conversation).head - one.pending
    return replace(
        result,
        device=status.device,
        far=status.far,
        is_far_erased=sent >= said_at,
        unconfirmed=tuple(_unconfirmed(result, synced)) if result.seqs else (),
    )


def _unconfirmed(result: EraseResult, synced: SyncedStore) -> Iterator[Device]:
    """The other devices that have not said of every event that they erased it."""
    for device in synced.devices():
        has_all = all(device.name in result.confirmed.get(seq, ()) for seq in result.seqs)
        if not device.is_here and not has_all:
            yield device


def show(result: EraseResult, screen: Screen) -> None:
    if not result.seqs:
        screen.line(f"Nothing of {result.conversation} is erased.")
        return
    count = len(result.seqs)
    screen.line(
        f"{number(count, 'event')} of {result.conversation} {'is' if count == 1 else 'are'} erased."
    )
    if result.derived or result.contents:
        made = number(result.derived, "text")
        screen.line(
            f"Erased with them: {made} made from them, {number(result.contents, 'content')}."
        )
    _show_places(result, screen)
    for note in result.notes:
        screen.note(note)


def _show_places(result: EraseResult, screen: Screen) -> None:
    """Where it is erased, and where not yet as far as anybody knows."""
    if result.far:
        screen.line(("green", f"{'erased':9}"), f" here, on {result.device}")
        if result.is_far_erased:
            screen.line(("green", f"{'erased':9}"), f" in {result.far}")
        else:
            waits = f" in {result.far}: {screen.call('sync')} erases it there"
            screen.line(("yellow", f"{'not yet':9}"), waits)
    devices = Counter(name for names in result.confirmed.values() for name in names)
    for name, count in sorted(devices.items()):
        is_all = count == len(result.seqs)
        of_all = (
            number(count, "event")
            if is_all
            else f"{count:,} of {number(len(result.seqs), 'event')}"
        )
        screen.line(("green" if is_all else "yellow", "confirmed"), f" {name}: {of_all}")
    for device in result.unconfirmed:
        if device.name not in devices:
            waits = f" {device.name}: synced all {moment(device.at_ms)}"
            screen.line(("yellow", f"{'not yet':9}"), waits)
    if result.unconfirmed:
        screen.line(
            "A device that never had it confirms nothing; neither does the one that erased it."
        )
        screen.line("If one is gone for good:")
        screen.line(screen.call("sync forget", "", "DEVICE"))


COMMAND = Command(
    name="erase",
    details="The envelope stays, and the page keeps its shape. Summaries, memories and artifacts "
    "made from it are erased too. Other devices erase it when they sync, and confirm it: refold "
    "erase ID shows which have. Exports and backups are not reached.",
    arguments=EraseArguments,
    run=run,
    show=show,
)
