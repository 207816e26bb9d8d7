"""`refold scan`: where secrets are, without ever showing one. A scan that finds any ends with
`secrets-found`, so that a script can tell that from a scan that failed."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from refold.conversations.scanner import FoundSecret, scan
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, show_damage

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


def run(session: Session, arguments: ScanArguments) -> Scanned:
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


def show(done: Scanned, screen: Screen) -> None:
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
    screen.line(f"{conversations}, {events}, {artifacts} scanned: ", _verdict(done))
    show_damage(done.damaged, screen)


def _cells(one: FoundSecret) -> tuple[str, ...]:
    masked = one.masked if one.sure else f"{one.masked} (unsure)"
    return one.kind, one.conversation, f"#{one.seq}", one.artifact, f"{one.line:,}", masked


def _verdict(done: Scanned) -> tuple[str, str]:
    if not done.total:
        return "green", "no secrets found."
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in done.kinds.items())
    return "red", f"{number(done.total, 'secret')} ({kinds})."


COMMAND = Command(
    name="scan",
    details="Scans every event and artifact of the store, or of the conversations named, and "
    "shows secrets masked. Exit status 9 if any is found.",
    on="store",
    reads=True,
    arguments=ScanArguments,
    run=run,
    show=show,
)
