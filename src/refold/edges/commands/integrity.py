"""`refold verify`: checks the store and says what is wrong, and where.

`refold repair`: makes a damaged conversation readable again and says what it gave up.

`refold scan`: where secrets are, without ever showing one. A scan that finds any ends with
`secrets-found`, so that a script can tell that from a scan that failed.

`refold erase`: what was said goes for good, here and, by the next sync, everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, field
from msgspec.structs import replace

from refold.conversations.eraser import erase, erased
from refold.conversations.repairer import repair
from refold.conversations.scanner import FoundSecret, scan
from refold.conversations.verifier import Problem, verify
from refold.display import moment
from refold.edges.commands.command import (
    Arguments,
    Command,
    Result,
    Screen,
    number,
    seq_of,
    short_line,
    show_damage,
)
from refold.edges.commands.session import Session
from refold.errors import Invalid
from refold.stores import synced_of
from refold.stores.protocol import Device, Store, SyncedStore

NAME = Meta(
    description="The conversation; by default all.",
    extra={"positional": True, "metavar": "ID", "completes": "conversation"},
)


class VerifyArguments(Arguments, frozen=True, kw_only=True):
    conversation: Annotated[str, NAME] | None = None


class Verified(Result, frozen=True, kw_only=True):
    """What was checked. `remarks` are not damage: a text may name what never existed."""

    store: str
    ok: bool
    conversations: int
    events: int
    artifacts: int
    memories: int = 0
    problems: tuple[Problem, ...]
    remarks: tuple[Problem, ...]

    @property
    def outcome(self) -> str:
        return "ok" if self.ok else "corrupt"


def run_verify(session: Session, arguments: VerifyArguments) -> Verified:
    name = arguments.conversation
    id = None if name is None else session.find(name)
    with session.followed("checking", id) as store:
        report = verify(store, id)
    return Verified(
        store=session.store.url,
        ok=not report.problems,
        conversations=report.conversations,
        events=report.events,
        artifacts=report.artifacts,
        memories=report.memories,
        problems=report.problems,
        remarks=report.remarks,
    )


def show_verify(verified: Verified, screen: Screen) -> None:
    for problem in verified.problems:
        what = f": {short_line(problem.what, 500)}"
        screen.line(("red", _location(problem)), what, ("dim", f" [{problem.file}]"))
    for remark in verified.remarks:
        screen.line(("yellow", _location(remark)), f": {short_line(remark.what, 500)}")
    counts = [
        number(verified.conversations, "conversation"),
        number(verified.memories, "memory log") if verified.memories else "",
        number(verified.events, "event"),
        number(verified.artifacts, "artifact"),
    ]
    counted = ", ".join(count for count in counts if count)
    screen.line(f"{counted} checked: ", _verdict(verified))


def _location(problem: Problem) -> str:
    place = problem.conversation or "the store"
    return f"{place} #{problem.seq}, {problem.part}" if problem.seq else f"{place}, {problem.part}"


def _verdict(verified: Verified) -> tuple[str, str]:
    if verified.ok:
        return "green", "everything is as it was written."
    return "red", f"{number(len(verified.problems), 'problem')}."


VERIFY = Command(
    name="verify",
    details="Checks every event, artifact, bookmark and page of the store, memories too, or of one "
    "conversation. An artifact that a text names and that does not exist is a remark, not damage.",
    on="store",
    reads=True,
    arguments=VerifyArguments,
    run=run_verify,
    show=show_verify,
)


class RepairResult(Result, frozen=True, kw_only=True):
    """What was done. `erased` are events that lost their bodies; `ends_at` is set if the log was
    cut, and `rest` is the conversation that has what came after; `copy` is what was there."""

    conversation: str
    changed: bool
    erased: tuple[int, ...]
    ends_at: int | None
    rest: str
    copy: str
    lost: tuple[str, ...]
    recovered: tuple[str, ...]


def run_repair(session: Session, arguments: Arguments) -> RepairResult:
    done = repair(session.store, session.conversation)
    recovered = session.store.recovered
    return RepairResult(
        conversation=done.conversation,
        changed=done.changed or bool(recovered),
        erased=done.erased,
        ends_at=done.ends_at,
        rest=done.rest,
        copy=done.copy,
        lost=done.lost,
        recovered=tuple(one.file for one in recovered),
    )


def show_repair(repaired: RepairResult, screen: Screen) -> None:
    for what in repaired.lost:
        screen.line(("yellow", "given up: "), short_line(what, 500))
    if repaired.ends_at is not None:
        screen.line(_end_of(repaired))
    if repaired.rest:
        screen.line("What came after is the conversation ", ("bold", repaired.rest), ".")
    if repaired.copy:
        screen.line("What was there before is kept in ", repaired.copy)
    screen.line(("green", _repair_verdict(repaired)))


def _end_of(repaired: RepairResult) -> str:
    if repaired.ends_at:
        return f"{repaired.conversation} ends at event {repaired.ends_at} now."
    return f"{repaired.conversation} has nothing before the damage: it is gone."


def _repair_verdict(repaired: RepairResult) -> str:
    if not repaired.changed:
        return "nothing had to be repaired."
    if repaired.lost:
        return f"repaired: {number(len(repaired.erased), 'event')} erased."
    return "repaired: no event was given up."


REPAIR = Command(
    name="repair",
    details="Keeps a copy of the damaged log first. Removes what is not an event, puts events in "
    "order, turns a body that does not match its digest into an erased event, ends the log at a "
    "broken event and puts what follows into ID-rest.",
    on="conversation",
    arguments=Arguments,
    run=run_repair,
    show=show_repair,
)


NAMES = Meta(
    description="The conversations; by default all.",
    extra={"positional": True, "metavar": "ID", "completes": "conversation"},
)
DOUBTFUL = Meta(description="Also show what is probably an example, not a real secret.")


class ScanArguments(Arguments, frozen=True, kw_only=True):
    conversations: Annotated[tuple[str, ...], NAMES] = ()
    doubtful: Annotated[bool, DOUBTFUL] = field(name="all", default=False)


class Scanned(Result, frozen=True, kw_only=True):
    """What was scanned and found. `total` and `kinds` count all findings, of which the first are
    listed; `unread` are artifacts without their content."""

    store: str
    ok: bool
    conversations: int
    events: int
    artifacts: int
    unread: tuple[str, ...]
    total: int
    kinds: dict[str, int]
    truncated: bool
    findings: tuple[FoundSecret, ...]
    damaged: dict[str, str]

    @property
    def outcome(self) -> str:
        if self.total:
            return "secrets-found"
        return "corrupt" if self.damaged else "ok"


def run_scan(session: Session, arguments: ScanArguments) -> Scanned:
    store = session.store
    ids = [session.find(name) for name in arguments.conversations]
    with session.progress("scanning") as progress:
        report = scan(store, ids, doubtful=arguments.doubtful, progress=progress)
    return Scanned(
        store=store.url,
        ok=not report.total and not report.damaged,
        conversations=report.conversations,
        events=report.events,
        artifacts=report.artifacts,
        unread=report.unread,
        total=report.total,
        kinds=report.kinds,
        truncated=len(report.findings) < report.total,
        findings=report.findings,
        damaged=report.damaged,
    )


# --- shown ---


def show_scan(done: Scanned, screen: Screen) -> None:
    if done.findings:
        heads = ("KIND", "ID", ">EVENT", "ARTIFACT", ">LINE", "MASKED")
        screen.table(heads, map(_cells, done.findings))
    if done.truncated:
        screen.line(f"Only the first {len(done.findings):,} are shown.")
    for artifact in done.unread:
        screen.line(
            ("yellow", f"{artifact} has no content here; {screen.call('verify')} says why.")
        )
    conversations = number(done.conversations, "conversation")
    events, artifacts = number(done.events, "event"), number(done.artifacts, "artifact")
    screen.line(f"{conversations}, {events}, {artifacts} scanned: ", _scan_verdict(done))
    show_damage(done.damaged, screen)


def _cells(one: FoundSecret) -> tuple[str, ...]:
    masked = one.masked if one.sure else f"{one.masked} (unsure)"
    return one.kind, one.conversation, f"#{one.seq}", one.artifact, f"{one.line:,}", masked


def _scan_verdict(done: Scanned) -> tuple[str, str]:
    if not done.total:
        return "green", "no secrets found."
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in done.kinds.items())
    return "red", f"{number(done.total, 'secret')} ({kinds})."


SCAN = Command(
    name="scan",
    details="Scans every event and artifact of the store, or of the conversations named, and "
    "shows secrets masked. Exit status 9 if any is found.",
    on="store",
    reads=True,
    arguments=ScanArguments,
    run=run_scan,
    show=show_scan,
)


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


def run_erase(session: Session, arguments: EraseArguments) -> EraseResult:
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


def show_erase(result: EraseResult, screen: Screen) -> None:
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


ERASE = Command(
    name="erase",
    details="The envelope stays, and the page keeps its shape. Summaries, memories and artifacts "
    "made from it are erased too. Other devices erase it when they sync, and confirm it: refold "
    "erase ID shows which have. Exports and backups are not reached.",
    arguments=EraseArguments,
    run=run_erase,
    show=show_erase,
)
