"""`refold artifacts`: the artifacts that are kept, what they hold, which of their lines match, and
removing them.

Artifacts are named by id, and only in the conversation that has them.

`refold artifacts list`: the artifacts of a conversation. Contents are not read.

`refold artifacts show`: what an artifact holds. A long one is read while it is shown.

`refold artifacts grep`: which lines of the artifacts match.

`refold artifacts clean`: old artifacts are removed, of one conversation or of all.

`refold artifacts delete`: one artifact is removed for good. It asks first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from refold.artifacts import cleanup
from refold.artifacts.artifacts import ArtifactReader, Artifacts, Matches
from refold.artifacts.cleanup import CleanupItem, Quota
from refold.artifacts.listing import StoredArtifact
from refold.core.model import Artifact
from refold.display import moment
from refold.edges.commands.command import (
    POSITIONAL,
    Arguments,
    Command,
    Pieces,
    Result,
    Screen,
    line_span,
    number,
    short_line,
    show_damage,
)
from refold.edges.commands.session import Session
from refold.errors import Invalid
from refold.log.log import now_ms
from refold.log.open_log import OpenLog
from refold.log.unfold import lines_between

ARTIFACT = Meta(
    description="The id of the artifact.",
    extra={"positional": True, "metavar": "ARTIFACT", "completes": "artifact"},
)


class RemovedItem(Struct, frozen=True, kw_only=True):
    """One artifact that was removed, or could not be; `why` says so."""

    id: str
    name: str
    size_bytes: int
    at_ms: int
    conversations: tuple[str, ...]
    why: str


class Stored(NamedTuple):
    """The artifacts of a stored conversation, and the reader of their contents."""

    id: str
    artifacts: Artifacts
    reader: ArtifactReader


def stored_artifacts(session: Session) -> Stored:
    """The artifacts of the conversation asked for; NotFound if it does not exist."""
    id = session.store.conversation(session.conversation).id
    log = OpenLog(session.store, id, session.config)
    reader = ArtifactReader(log)
    return Stored(id, Artifacts(log, reader), reader)


def removed_item(item: CleanupItem) -> RemovedItem:
    return RemovedItem(
        id=item.artifact.id,
        name=item.artifact.name,
        size_bytes=item.artifact.size_bytes,
        at_ms=item.at_ms,
        conversations=item.conversations,
        why=item.why,
    )


TASK = Meta(description="Only those of this task.")
QUERY = Meta(description="Only those of this query: its text, or its q_ id.")
TOOL = Meta(description="Only those of this tool.")
MATCH = Meta(
    description="Only those that fit these words, best first, with the reason.",
    extra={"metavar": "WORDS"},
)


class ListArguments(Arguments, frozen=True, kw_only=True):
    task: Annotated[str, TASK] | None = None
    query: Annotated[str, QUERY] | None = None
    tool: Annotated[str, TOOL] | None = None
    match: Annotated[str, MATCH] | None = None


class ArtifactRow(Artifact, frozen=True, kw_only=True):
    """One artifact; `why` says why it matches."""

    seq: int
    at_ms: int
    by: str
    cleaned_ms: int
    why: str


class Listed(Result, frozen=True, kw_only=True):
    conversation: str
    match: str | UnsetType = UNSET
    artifacts: tuple[ArtifactRow, ...]


def run_artifacts_list(session: Session, arguments: ListArguments) -> Listed:
    stored = stored_artifacts(session)
    return Listed(
        conversation=stored.id,
        match=UNSET if arguments.match is None else arguments.match,
        artifacts=tuple(_rows(stored.artifacts, arguments)),
    )


def _rows(artifacts: Artifacts, arguments: ListArguments) -> Iterator[ArtifactRow]:
    chosen = artifacts.list(task=arguments.task, query=arguments.query, tool=arguments.tool)
    if arguments.match is None:
        for stored in chosen:
            yield _row(stored)
    else:
        for selected in artifacts.select(arguments.match, among=chosen):
            yield _row(selected.artifact, selected.why)


def _row(stored: StoredArtifact, why: str = "") -> ArtifactRow:
    return ArtifactRow(
        **asdict(stored.artifact),
        seq=stored.seq,
        at_ms=stored.at_ms,
        by=stored.by,
        cleaned_ms=stored.cleaned_ms,
        why=why,
    )


def show_artifacts_list(listed: Listed, screen: Screen) -> None:
    if not listed.artifacts:
        screen.line(f"There are no such artifacts in {listed.conversation}.")
    elif listed.match is not UNSET:
        screen.table(("ID", ">BYTES", "NAME", "WHY"), map(_match_cells, listed.artifacts))
    else:
        heads = ("ID", ">SEQ", ">BYTES", ">LINES", "TYPE", "TASK", "NAME")
        screen.table(heads, map(_cells, listed.artifacts))


def _match_cells(row: ArtifactRow) -> tuple[str, ...]:
    return row.id, f"{row.size_bytes:,}", row.name, row.why


def _cells(row: ArtifactRow) -> tuple[str, ...]:
    name = row.name
    if row.cleaned_ms:
        name = f"[cleaned up {moment(row.cleaned_ms)}] {name}"
    size, lines = f"{row.size_bytes:,}", f"{row.lines:,}"
    return row.id, f"#{row.seq}", size, lines, row.type, row.origin.task, name


ARTIFACTS_LIST = Command(
    name="artifacts list",
    reads=True,
    arguments=ListArguments,
    run=run_artifacts_list,
    show=show_artifacts_list,
)


LINES = Meta(description="Only these lines, counted from 1.", extra={"metavar": "A-B"})


class ShowArguments(Arguments, frozen=True, kw_only=True):
    artifact: Annotated[str, ARTIFACT]
    lines: Annotated[str, LINES] | None = None


class Content(Result, frozen=True, kw_only=True):
    conversation: str
    handle: str
    text: Pieces


def run_artifacts_show(session: Session, arguments: ShowArguments) -> Content:
    span = None if arguments.lines is None else line_span(arguments.lines)
    stored = stored_artifacts(session)
    found = stored.reader.original(arguments.artifact)
    texts: Iterable[str] = found.texts
    if span is not None:
        first, last = span
        texts = [lines_between(found.texts, first, None if last == -1 else last).text]
    return Content(conversation=stored.id, handle=found.handle, text=Pieces(texts))


def show_artifacts_show(content: Content, screen: Screen) -> None:
    last = ""
    for text in content.text:
        screen.text(text)
        last = text or last
    if not last.endswith("\n"):
        screen.line()


ARTIFACTS_SHOW = Command(
    name="artifacts show",
    reads=True,
    arguments=ShowArguments,
    run=run_artifacts_show,
    show=show_artifacts_show,
)


PATTERN = Meta(description="The text to look for.", extra=POSITIONAL)
REGEX = Meta(description="The pattern is a regular expression.", extra={"short": "-e"})
IGNORE_CASE = Meta(description="Ignore upper and lower case.", extra={"short": "-i"})
LIMIT = Meta(description="At most this many lines.", ge=1, le=1_000)
WAIT = Meta(description="At most this many seconds.", ge=0.1, le=60.0)


class GrepArguments(Arguments, frozen=True, kw_only=True):
    pattern: Annotated[str, PATTERN]
    artifact: Annotated[str, ARTIFACT] | None = None
    regex: Annotated[bool, REGEX] = False
    ignore_case: Annotated[bool, IGNORE_CASE] = False
    limit: Annotated[int, LIMIT] = 50
    wait: Annotated[float, WAIT] = 10.0


class GrepLine(Struct, frozen=True, kw_only=True):
    artifact: str
    line: int
    text: str


class Grepped(Result, frozen=True, kw_only=True):
    """`ended` says why the search stopped early, if it did."""

    conversation: str
    lines: tuple[GrepLine, ...]
    ended: str


def run_artifacts_grep(session: Session, arguments: GrepArguments) -> Grepped:
    stored = stored_artifacts(session)
    found = stored.artifacts.grep(
        arguments.pattern,
        arguments.artifact or "",
        regex=arguments.regex,
        ignore_case=arguments.ignore_case,
        limit=arguments.limit,
        wait_s=arguments.wait,
    )
    lines: list[GrepLine] = []
    for one in found:
        lines += _lines(one)
    ended = "; ".join(one.grepped.ended for one in found if one.grepped.ended)
    return Grepped(conversation=stored.id, lines=tuple(lines), ended=ended)


def _lines(found: Matches) -> list[GrepLine]:
    """The lines that match in one artifact."""
    lines = found.grepped.lines
    return [GrepLine(artifact=found.handle, line=one.number, text=one.text) for one in lines]


def show_artifacts_grep(grepped: Grepped, screen: Screen) -> None:
    for line in grepped.lines:
        screen.line(("cyan", f"{line.artifact}:{line.line}: "), line.text)
    count = f"{number(len(grepped.lines), 'line')} found"
    if grepped.ended:
        screen.line(("yellow", f"{count}; {grepped.ended}, there may be more."))
    elif not grepped.lines:
        screen.line(("yellow", f"{count}."))


ARTIFACTS_GREP = Command(
    name="artifacts grep",
    reads=True,
    arguments=GrepArguments,
    run=run_artifacts_grep,
    show=show_artifacts_grep,
)


SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
BYTES = {"": 1, "b": 1, "kb": 1_000, "mb": 1_000_000, "gb": 1_000_000_000}
_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([a-z]{0,2})", re.IGNORECASE)
NAME = Meta(
    description="The conversation; by default all.", extra={"positional": True, "metavar": "ID"}
)
OLDER_THAN = Meta(description="Remove what is older: 30d, 12h.", extra={"metavar": "TIME"})
KEEP_BYTES = Meta(
    description="Remove the oldest until this much is left: 100MB.", extra={"metavar": "SIZE"}
)
KEEP_COUNT = Meta(description="Remove the oldest until this many are left.", ge=0)
DRY_RUN = Meta(description="Say what would be removed, and remove nothing.")


class CleanArguments(Arguments, frozen=True, kw_only=True):
    conversation: Annotated[str, NAME] | None = None
    older_than: Annotated[str, OLDER_THAN] | None = None
    keep_bytes: Annotated[str, KEEP_BYTES] | None = None
    keep_count: Annotated[int, KEEP_COUNT] | None = None
    dry_run: Annotated[bool, DRY_RUN] = False


class Cleaned(Result, frozen=True, kw_only=True):
    """What was removed (or would be), and what was over the bounds but had to stay."""

    dry_run: bool
    size_bytes: int
    removed: tuple[RemovedItem, ...]
    kept: tuple[RemovedItem, ...]
    damaged: dict[str, str]

    @property
    def outcome(self) -> str:
        return "corrupt" if self.damaged else "ok"


def run_artifacts_clean(session: Session, arguments: CleanArguments) -> Cleaned:
    quota = _quota(arguments)
    name = arguments.conversation
    done = cleanup.clean(
        session.store,
        quota,
        conversation=None if name is None else session.find(name),
        now_ms=now_ms(),
        dry_run=arguments.dry_run,
    )
    return Cleaned(
        dry_run=arguments.dry_run,
        size_bytes=done.size_bytes,
        removed=tuple(map(removed_item, done.removed)),
        kept=tuple(map(removed_item, done.kept)),
        damaged=done.damaged,
    )


def _quota(arguments: CleanArguments) -> Quota:
    """What may stay, in seconds and bytes."""
    age, size = arguments.older_than, arguments.keep_bytes
    return Quota(
        older_than_s=None if age is None else amount(age, "time", SECONDS),
        keep_bytes=None if size is None else int(amount(size, "size", BYTES)),
        keep_count=arguments.keep_count,
    )


def amount(text: str, kind: str, units: Mapping[str, int]) -> float:
    """A number with a unit, such as `30d` or `1.5 MB`; Invalid if it is not one."""
    found = _AMOUNT.fullmatch(text.strip())
    unit = found[2].lower() if found else ""
    if found is None or unit not in units:
        known = ", ".join(f"10{name}" for name in units if name)
        reason = f"{short_line(text, 40)!r} is not a {kind} such as {known}"
        raise Invalid(reason, hint="refold artifacts clean --help")
    return float(found[1]) * units[unit]


def show_artifacts_clean(done: Cleaned, screen: Screen) -> None:
    for item in done.removed:
        _show_item("- ", item, screen)
    for item in done.kept:
        _show_item("  ", item, screen)
    screen.line(_totals(done))
    show_damage(done.damaged, screen)


def _totals(done: Cleaned) -> str:
    """`2 artifacts removed (4,096 bytes), 1 artifact over the bounds had to stay.`"""
    verb = "would be removed" if done.dry_run else "removed"
    removed = f"{number(len(done.removed), 'artifact')} {verb} ({number(done.size_bytes, 'byte')})"
    if not done.kept:
        return f"{removed}."
    return f"{removed}, {number(len(done.kept), 'artifact')} over the bounds had to stay."


def _show_item(mark: str, item: RemovedItem, screen: Screen) -> None:
    screen.line(("cyan", f"{mark}{item.id} "), short_line(f"{item.name}: {item.why}", 200))


ARTIFACTS_CLEAN = Command(
    name="artifacts clean",
    details="Keeps what a page shows or names, what was stored by hand, and what is new.",
    on="store",
    arguments=CleanArguments,
    run=run_artifacts_clean,
    show=show_artifacts_clean,
)


YES = Meta(description="Do not ask.")


class DeleteArguments(Arguments, frozen=True, kw_only=True):
    artifact: Annotated[str, ARTIFACT]
    yes: Annotated[bool, YES] = False


class Deleted(Result, frozen=True, kw_only=True):
    """What was removed, and how many artifacts are left."""

    removed: RemovedItem
    left: int


def run_artifacts_delete(session: Session, arguments: DeleteArguments) -> Deleted:
    stored = stored_artifacts(session)
    name = short_line(arguments.artifact, 40)
    session.confirm(f"Remove {name} from {stored.id} for good?", arguments.yes)
    removed = stored.artifacts.remove(arguments.artifact)
    return Deleted(removed=removed_item(removed), left=stored.reader.count())


def show_artifacts_delete(deleted: Deleted, screen: Screen) -> None:
    removed = deleted.removed
    left = number(deleted.left, "artifact")
    screen.line(f"{removed.id} is removed, {removed.why}; {left} left.")


ARTIFACTS_DELETE = Command(
    name="artifacts delete",
    details="Its bytes stay if another conversation has it. The log still says what it was.",
    arguments=DeleteArguments,
    run=run_artifacts_delete,
    show=show_artifacts_delete,
)
