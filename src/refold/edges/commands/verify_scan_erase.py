"""Damage, secrets and erasure: `verify`, `scan` and `erase`.

`verify` checks the store, and repairs one conversation on request. `scan` finds secrets without
ever showing one. `erase` permanently removes content, here and, after the next sync, everywhere.
Neighbours: `refold.conversations` does the work, `sync` verifies the far store.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from refold.conversations.eraser import Erased, erase, erased
from refold.conversations.repairer import repair
from refold.conversations.scanner import FoundSecret, scan
from refold.conversations.verifier import Problem, verify
from refold.display import local_moment, number
from refold.edges.commands.command import (
    DryRun,
    Removable,
    Result,
    Screen,
    Yes,
    command,
    seq_of,
    short_line,
    show_damage,
    show_removable,
)
from refold.edges.commands.session import Session
from refold.errors import Invalid
from refold.stores import synced_of
from refold.stores.protocol import Device, Store, SyncedStore

ID_POSITION = {"positional": True, "metavar": "ID", "completes": "conversation"}


class Verified(Result, frozen=True, kw_only=True):
    """The result of a check. `remarks` are not damage: a message may name an artifact that never
    existed, and a provider may refuse a caller's value."""

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

    def show(self, screen: Screen) -> None:
        for problem in self.problems:
            what = f": {short_line(problem.what, 500)}"
            screen.line(("red", _location(problem)), what, ("dim", f" [{problem.file}]"))
        for remark in self.remarks:
            screen.line(("yellow", _location(remark)), f": {short_line(remark.what, 500)}")
        counts = [
            number(self.conversations, "conversation"),
            *([number(self.memories, "memory log")] if self.memories else []),
            number(self.events, "event"),
            number(self.artifacts, "artifact"),
        ]
        verdict = ("green", "everything is as it was written.")
        if not self.ok:
            verdict = ("red", f"{number(len(self.problems), 'problem')}.")
        screen.line(f"{', '.join(counts)} checked: ", verdict)


def _location(problem: Problem) -> str:
    location = problem.conversation or "the store"
    seq = f" #{problem.seq}" if problem.seq else ""
    return f"{location}{seq}, {problem.part}"


class RepairResult(Result, frozen=True, kw_only=True):
    """The result of a repair. `erased` are events that lost their bodies; `ends_at` is set if the
    log was cut, and `rest` is the conversation with the events after that; `copy` is the damaged
    log."""

    conversation: str
    changed: bool
    erased: tuple[int, ...]
    ends_at: int | None
    rest: str
    copy: str
    lost: tuple[str, ...]
    recovered: tuple[str, ...]

    def show(self, screen: Screen) -> None:
        for what in self.lost:
            screen.line(("yellow", "given up: "), short_line(what, 500))
        if self.ends_at:
            screen.line(f"{self.conversation} ends at event {self.ends_at} now.")
        elif self.ends_at is not None:
            screen.line(f"{self.conversation} has nothing before the damage: it is gone.")
        if self.rest:
            screen.line("What came after is the conversation ", ("bold", self.rest), ".")
        if self.copy:
            screen.line("What was there before is kept in ", self.copy)
        verdict = "nothing had to be repaired."
        if self.changed:
            verdict = "repaired: no event was given up."
        if self.changed and self.lost:
            verdict = f"repaired: {number(len(self.erased), 'event')} erased."
        screen.line(("green", verdict))


@command(
    "verify",
    details="Checks every event, artifact, bookmark and page of the store, memories too, or of one "
    "conversation. A mention of an artifact that does not exist is a remark, not damage, "
    "and so is a page that a provider would refuse. "
    "--repair keeps a copy of the damaged log first. It removes what is not an event, puts events "
    "in order, turns a body that does not match its digest into an erased event, ends the log at "
    "a broken event and puts what follows into ID-rest.",
    on="either",
    reads=True,
    writes_with=("repair",),
)
def verify_store(
    session: Session,
    *,
    repair: Annotated[
        bool, Meta(description="Make a damaged conversation readable again.")
    ] = False,
) -> Verified | RepairResult:
    if repair:
        return _repaired(session)
    id = session.conversation if session.is_named else None
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


def _repaired(session: Session) -> RepairResult:
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


class Scanned(Result, frozen=True, kw_only=True):
    """The result of a scan. `total` and `kinds` count all findings, of which the first are listed;
    `unread` are artifacts without their content. A scan with findings ends with `secrets-found`,
    so that a script can tell it from a scan that failed."""

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

    def show(self, screen: Screen) -> None:
        rows = [
            (
                one.kind,
                one.conversation,
                f"#{one.seq}",
                one.artifact,
                f"{one.line:,}",
                one.masked if one.sure else f"{one.masked} (unsure)",
            )
            for one in self.findings
        ]
        if rows:
            screen.table(("KIND", "ID", ">EVENT", "ARTIFACT", ">LINE", "MASKED"), rows)
        if self.truncated:
            screen.line(f"Only the first {len(self.findings):,} are shown.")
        for artifact in self.unread:
            why = f"{artifact} has no content here; {screen.call('verify')} says why."
            screen.line(("yellow", why))
        conversations = number(self.conversations, "conversation")
        events, artifacts = number(self.events, "event"), number(self.artifacts, "artifact")
        verdict = ("green", "no secrets found.")
        if self.total:
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.kinds.items())
            verdict = ("red", f"{number(self.total, 'secret')} ({kinds}).")
        screen.line(f"{conversations}, {events}, {artifacts} scanned: ", verdict)
        show_damage(self.damaged, screen)


@command(
    "scan",
    details="Scans every event and artifact of the store, or of the conversations named, and "
    "shows secrets masked. Exit status 9 if any is found.",
    on="store",
    reads=True,
)
def scan_store(
    session: Session,
    *,
    conversations: Annotated[
        tuple[str, ...],
        Meta(description="The conversations; by default all.", extra=ID_POSITION),
    ] = (),
    all: Annotated[
        bool, Meta(description="Also show what is probably an example, not a real secret.")
    ] = False,
) -> Scanned:
    store = session.store
    ids = [session.find(name) for name in conversations]
    with session.progress("scanning") as progress:
        report = scan(store, ids, doubtful=all, progress=progress)
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


class EraseResult(Result, frozen=True, kw_only=True):
    """The seqs of erased events; the number of summaries, memories and contents erased with them;
    the devices that confirmed it, by seq. For a synced store also this device, the far store, its
    state as known here, and the devices that have not confirmed everything. `items` are the
    conversations that lose events, forks included, unless a person was asked and has seen them. A
    dry run has only these, and the seqs that would be erased."""

    conversation: str
    seqs: tuple[int, ...]
    derived: int
    contents: int
    confirmed: dict[int, tuple[str, ...]]
    notes: tuple[str, ...]
    items: tuple[Removable, ...] = ()
    dry_run: bool = False
    device: str = ""
    far: str = ""
    is_far_erased: bool = False
    unconfirmed: tuple[Device, ...] = ()

    def show(self, screen: Screen) -> None:
        show_removable(self.items, screen)
        if self.dry_run:
            screen.line(f"{number(len(self.seqs), 'event')} would be erased.")
            return
        if not self.seqs:
            screen.line(f"Nothing of {self.conversation} is erased.")
            return
        count = len(self.seqs)
        verb = "is" if count == 1 else "are"
        screen.line(f"{number(count, 'event')} of {self.conversation} {verb} erased.")
        if self.derived or self.contents:
            derived, contents = number(self.derived, "text"), number(self.contents, "content")
            screen.line(f"Erased with them: {derived} made from them, {contents}.")
        self._show_locations(screen)
        for note in self.notes:
            screen.note(note)

    def _show_locations(self, screen: Screen) -> None:
        """Prints where the events are erased, and where not yet, as far as known."""
        done, pending = ("green", f"{'erased':9}"), ("yellow", f"{'not yet':9}")
        if self.far:
            screen.line(done, f" here, on {self.device}")
            if self.is_far_erased:
                screen.line(done, f" in {self.far}")
            else:
                screen.line(pending, f" in {self.far}: {screen.call('sync')} erases it there")
        devices = Counter(name for names in self.confirmed.values() for name in names)
        events = number(len(self.seqs), "event")
        for name, count in sorted(devices.items()):
            if count == len(self.seqs):
                screen.line(("green", "confirmed"), f" {name}: {events}")
            else:
                screen.line(("yellow", "confirmed"), f" {name}: {count:,} of {events}")
        for device in self.unconfirmed:
            if device.name not in devices:
                screen.line(pending, f" {device.name}: synced all {local_moment(device.at_ms)}")
        if self.unconfirmed:
            screen.line(
                "A device that never had it confirms nothing; neither does the one that erased it."
            )
            screen.line("If one is gone for good:")
            screen.line(screen.call("sync", "", "--forget-device", "DEVICE"))


@command(
    "erase",
    details="The envelope stays, and the page keeps its shape. Summaries, memories and artifacts "
    "made from it are erased too. Other devices erase it when they sync, and confirm it: refold "
    "erase ID shows which have. Exports and backups are not reached.",
)
def erase_events(
    session: Session,
    *,
    seqs: Annotated[
        tuple[str, ...],
        Meta(
            description="The events, by seq: 41 or #41. Without any, shows what was erased, and "
            "where.",
            extra={"positional": True, "metavar": "SEQ"},
        ),
    ] = (),
    all: Annotated[bool, Meta(description="Erase everything that the conversation says.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> EraseResult:
    numbers = [seq_of(text) for text in seqs]
    acts = bool(numbers or all) and not dry_run
    id = session.removable(yes=yes) if acts else session.conversation
    if numbers and all:
        reason = "--all erases every event, but you also named some"
        raise Invalid(reason, hint="pass only one of them")
    store = session.store
    plan = Erased(conversation=id)
    if numbers or all:
        plan = erase(store, id, None if all else numbers, dry_run=True)
    items = tuple(session.removable_conversation(one, count) for one, count in plan.logs.items())
    if items:
        what = f"{number(len(plan.seqs), 'event')} of {id}"
        question = f"Erase {what} for good, on every device that syncs?"
        items = items if dry_run else session.confirm_removal(items, question, yes)
    if acts:
        # What was shown is erased, and nothing that was written while the question was open. With
        # nothing left to erase, this ends an erasure that was interrupted.
        report = erase(store, id, plan.seqs or numbers)
    else:
        report = plan if dry_run else erased(store, id)
    result = EraseResult(
        conversation=id,
        seqs=report.seqs,
        derived=report.derived,
        contents=report.contents,
        confirmed=report.confirmed,
        notes=report.notes,
        items=items,
        dry_run=dry_run,
    )
    if dry_run:
        return result
    synced = synced_of(session.store)
    return result if synced is None else _with_far(result, synced, session.store, report.said_at)


def _with_far(result: EraseResult, synced: SyncedStore, store: Store, said_at: int) -> EraseResult:
    """The result with the states of the far store and the other devices. The far store erases
    before it gets the event about the erasure."""
    status = synced.sync_status([result.conversation])
    [one] = status.conversations
    sent = store.conversation(result.conversation).head - one.pending
    unconfirmed = [
        device
        for device in (synced.devices() if result.seqs else ())
        if not device.is_here
        and any(device.name not in result.confirmed.get(seq, ()) for seq in result.seqs)
    ]
    return replace(
        result,
        device=status.device,
        far=status.far,
        is_far_erased=sent >= said_at,
        unconfirmed=tuple(unconfirmed),
    )
