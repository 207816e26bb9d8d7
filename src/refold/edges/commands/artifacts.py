"""`refold artifact`: stored artifacts listed, shown, searched and removed.

Artifacts are named by id, within a conversation that has them. A long one is read while it is
shown. Removing one by name asks first; removing old ones keeps those that a page still names.
Neighbour: `refold.artifacts` does the work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from refold.artifacts import cleanup
from refold.artifacts.artifacts import ArtifactReader, Artifacts, id_of
from refold.artifacts.cleanup import CleanupItem, Quota
from refold.checked import beginning
from refold.core.model import Artifact
from refold.display import ago, local_moment, number
from refold.edges.commands.command import (
    POSITIONAL,
    DryRun,
    Lines,
    Pieces,
    Removable,
    Result,
    Screen,
    Yes,
    command,
    is_seq,
    line_span,
    short_line,
    show_damage,
)
from refold.edges.commands.session import Session
from refold.errors import Invalid, NotFound
from refold.log.handles import lines_between
from refold.log.log import now_ms
from refold.log.open_log import OpenLog

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
BYTES = {"": 1, "b": 1, "kb": 1_000, "mb": 1_000_000, "gb": 1_000_000_000}
_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([a-z]{0,2})", re.IGNORECASE)
ArtifactId = Annotated[
    str,
    Meta(
        description="The id of the artifact.",
        extra={"positional": True, "metavar": "ARTIFACT", "completes": "artifact"},
    ),
]


class Stored(NamedTuple):
    """The artifacts of a conversation, and a reader for their contents."""

    id: str
    artifacts: Artifacts
    reader: ArtifactReader


def stored_artifacts(session: Session) -> Stored:
    """The artifacts of the session's conversation; NotFound if it does not exist."""
    id = session.store.conversation(session.conversation).id
    log = OpenLog(session.store, id, session.config)
    reader = ArtifactReader(log)
    return Stored(id, Artifacts(log, reader), reader)


class ArtifactRow(Artifact, frozen=True, kw_only=True):
    """One artifact; `why` is the reason for a match."""

    seq: int
    at_ms: int
    by: str
    cleaned_ms: int
    why: str


class Listed(Result, frozen=True, kw_only=True):
    conversation: str
    match: str | UnsetType = UNSET
    artifacts: tuple[ArtifactRow, ...]

    def show(self, screen: Screen) -> None:
        if not self.artifacts:
            screen.line(f"There are no such artifacts in {self.conversation}.")
        elif self.match is not UNSET:
            matches = [(one.id, f"{one.size_bytes:,}", one.name, one.why) for one in self.artifacts]
            screen.table(("ID", ">BYTES", "NAME", "WHY"), matches)
        else:
            rows = [
                (
                    one.id,
                    f"#{one.seq}",
                    f"{one.size_bytes:,}",
                    f"{one.lines:,}",
                    one.type,
                    one.origin.task,
                    f"[cleaned up {local_moment(one.cleaned_ms)}] {one.name}"
                    if one.cleaned_ms
                    else one.name,
                )
                for one in self.artifacts
            ]
            screen.table(("ID", ">SEQ", ">BYTES", ">LINES", "TYPE", "TASK", "NAME"), rows)


@command("artifact list", reads=True)
def list_artifacts(
    session: Session,
    *,
    task: Annotated[str, Meta(description="Only those of this task.")] | None = None,
    query: Annotated[str, Meta(description="Only those of this query: its text, or its q_ id.")]
    | None = None,
    tool: Annotated[str, Meta(description="Only those of this tool.")] | None = None,
    match: Annotated[
        str,
        Meta(
            description="Only those that fit these words, best first, with the reason.",
            extra={"metavar": "WORDS"},
        ),
    ]
    | None = None,
) -> Listed:
    stored = stored_artifacts(session)
    chosen = stored.artifacts.list(task=task, query=query, tool=tool)
    if match is None:
        reasons = [(one, "") for one in chosen]
    else:
        selected = stored.artifacts.select(match, among=chosen)
        reasons = [(one.artifact, one.why) for one in selected]
    rows = [
        ArtifactRow(
            **asdict(one.artifact),
            seq=one.seq,
            at_ms=one.at_ms,
            by=one.by,
            cleaned_ms=one.cleaned_ms,
            why=why,
        )
        for one, why in reasons
    ]
    return Listed(
        conversation=stored.id, match=UNSET if match is None else match, artifacts=tuple(rows)
    )


class Content(Result, frozen=True, kw_only=True):
    conversation: str
    handle: str
    text: Pieces

    def show(self, screen: Screen) -> None:
        last = ""
        for text in self.text:
            screen.text(text)
            last = text or last
        if not last.endswith("\n"):
            screen.line()


@command("artifact show", reads=True)
def show_artifact(session: Session, *, artifact: ArtifactId, lines: Lines | None = None) -> Content:
    span = None if lines is None else line_span(lines)
    stored = stored_artifacts(session)
    original = stored.reader.original(artifact_meant(stored.artifacts, artifact))
    texts: Iterable[str] = original.texts
    if span is not None:
        first, last = span
        texts = [lines_between(original.texts, first, None if last == -1 else last).text]
    return Content(conversation=stored.id, handle=original.handle, text=Pieces(texts))


class GrepLine(Struct, frozen=True, kw_only=True):
    artifact: str
    line: int
    text: str


class Grepped(Result, frozen=True, kw_only=True):
    """The matching lines; `ended` is the reason for an early stop."""

    conversation: str
    lines: tuple[GrepLine, ...]
    ended: str

    def show(self, screen: Screen) -> None:
        for line in self.lines:
            screen.line(("cyan", f"{line.artifact}:{line.line}: "), line.text)
        count = f"{number(len(self.lines), 'line')} found"
        if self.ended:
            screen.line(("yellow", f"{count}; {self.ended}, there may be more."))
        elif not self.lines:
            screen.line(("yellow", f"{count}."))


@command("artifact grep", reads=True)
def grep_artifacts(
    session: Session,
    *,
    pattern: Annotated[str, Meta(description="The text to look for.", extra=POSITIONAL)],
    artifact: ArtifactId | None = None,
    regex: Annotated[
        bool, Meta(description="The pattern is a regular expression.", extra={"short": "-e"})
    ] = False,
    ignore_case: Annotated[
        bool, Meta(description="Ignore upper and lower case.", extra={"short": "-i"})
    ] = False,
    limit: Annotated[int, Meta(description="At most this many.", ge=1, le=1_000)] = 50,
    wait: Annotated[float, Meta(description="At most this many seconds.", ge=0.1, le=60.0)] = 10.0,
) -> Grepped:
    stored = stored_artifacts(session)
    matches = stored.artifacts.grep(
        pattern,
        artifact_meant(stored.artifacts, artifact) if artifact else "",
        regex=regex,
        ignore_case=ignore_case,
        limit=limit,
        wait_s=wait,
    )
    lines = [
        GrepLine(artifact=one.handle, line=line.number, text=line.text)
        for one in matches
        for line in one.grepped.lines
    ]
    ended = "; ".join(one.grepped.ended for one in matches if one.grepped.ended)
    return Grepped(conversation=stored.id, lines=tuple(lines), ended=ended)


class RemovedItem(Struct, frozen=True, kw_only=True):
    """An artifact that was removed, or had to stay, with the reason."""

    id: str
    name: str
    size_bytes: int
    at_ms: int
    conversations: tuple[str, ...]
    why: str


def _removed_item(item: CleanupItem) -> RemovedItem:
    return RemovedItem(
        id=item.artifact.id,
        name=item.artifact.name,
        size_bytes=item.artifact.size_bytes,
        at_ms=item.at_ms,
        conversations=item.conversations,
        why=item.why,
    )


class Deleted(Result, frozen=True, kw_only=True):
    """The removed artifact, or in a dry run the one to remove, and the number of artifacts left."""

    removed: RemovedItem
    left: int
    dry_run: bool = False

    def show(self, screen: Screen) -> None:
        left = number(self.left, "artifact")
        one = self.removed
        named = f"{one.id} ({short_line(one.name, 200)}, {number(one.size_bytes, 'byte')})"
        if self.dry_run:
            screen.line(f"{named} would be removed.")
        else:
            screen.line(f"{named} is removed, {one.why}; {left} left.")


class Cleaned(Result, frozen=True, kw_only=True):
    """The artifacts removed, or to be removed in a dry run, and those over the bounds that had to
    stay."""

    dry_run: bool
    size_bytes: int
    removed: tuple[RemovedItem, ...]
    kept: tuple[RemovedItem, ...]
    damaged: dict[str, str]

    @property
    def outcome(self) -> str:
        return "corrupt" if self.damaged else "ok"

    def show(self, screen: Screen) -> None:
        marked = [*(("- ", one) for one in self.removed), *(("  ", one) for one in self.kept)]
        for mark, item in marked:
            screen.line(("cyan", f"{mark}{item.id} "), short_line(f"{item.name}: {item.why}", 200))
        verb = "would be removed" if self.dry_run else "removed"
        size = number(self.size_bytes, "byte")
        kept = f", {number(len(self.kept), 'artifact')} over the bounds had to stay"
        screen.line(
            f"{number(len(self.removed), 'artifact')} {verb} ({size}){kept if self.kept else ''}."
        )
        show_damage(self.damaged, screen)


@command(
    "artifact remove",
    details="With ARTIFACT, removes it for good, even if the page names it; its bytes stay if "
    "another conversation has it, and the log still says what it was. Without, removes old ones "
    "of the conversation or of all, and keeps what a page shows or names, what was stored by hand, "
    "and what is new.",
    on="either",
)
def remove_artifacts(
    session: Session,
    *,
    artifact: ArtifactId | None = None,
    older_than: Annotated[
        str, Meta(description="Remove what is older: 30d, 12h.", extra={"metavar": "TIME"})
    ]
    | None = None,
    keep_bytes: Annotated[
        str,
        Meta(
            description="Remove the oldest until this much is left: 100MB.",
            extra={"metavar": "SIZE"},
        ),
    ]
    | None = None,
    keep_count: Annotated[
        int, Meta(description="Remove the oldest until this many are left.", ge=0)
    ]
    | None = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> Deleted | Cleaned:
    is_cleanup = any(bound is not None for bound in (older_than, keep_bytes, keep_count))
    if session.is_named and not dry_run:
        session.removable(yes=yes)
    if artifact is not None:
        if is_cleanup:
            reason = "ARTIFACT excludes --older-than, --keep-bytes and --keep-count"
            raise Invalid(reason, hint="name an artifact, or set a bound")
        return _remove_one(session, artifact, dry_run=dry_run, yes=yes)
    if not is_cleanup:
        hint = "pass an ID and an ARTIFACT, or a bound such as --older-than 30d"
        raise Invalid("say what to remove", hint=hint)
    quota = Quota(
        older_than_s=None if older_than is None else amount(older_than, "time", SECONDS),
        keep_bytes=None if keep_bytes is None else int(amount(keep_bytes, "size", BYTES)),
        keep_count=keep_count,
    )
    clean = partial(
        cleanup.clean,
        session.store,
        quota,
        conversation=session.conversation if session.is_named else None,
        now_ms=now_ms(),
    )
    done = clean(dry_run=True)
    if done.removed:
        items = [_removable(one.artifact, one.at_ms) for one in done.removed]
        question = f"Remove {number(len(items), 'artifact')} for good?"
        if not dry_run:
            session.confirm_removal(items, question, yes)
    if not dry_run:
        done = clean(among={one.artifact.digest for one in done.removed})
    return Cleaned(
        dry_run=dry_run,
        size_bytes=done.size_bytes,
        removed=tuple(map(_removed_item, done.removed)),
        kept=tuple(map(_removed_item, done.kept)),
        damaged=done.damaged,
    )


def _remove_one(session: Session, typed: str, *, dry_run: bool, yes: bool) -> Deleted:
    stored = stored_artifacts(session)
    id = artifact_meant(stored.artifacts, typed)
    there = [one for one in stored.artifacts.list() if one.id == id and not one.cleaned_ms]
    if dry_run and not there:
        hint = f"refold artifact list {stored.id} names those there are"
        raise NotFound(f"there is no artifact {short_line(typed, 80)!r} to remove", hint=hint)
    if dry_run:
        one, at_ms = there[-1].artifact, there[-1].at_ms
        held = CleanupItem(artifact=one, conversations=(stored.id,), at_ms=at_ms, why="named")
        return Deleted(dry_run=True, removed=_removed_item(held), left=stored.reader.count())
    session.check_whole(id_of(typed), id, yes=yes)
    if there:
        items = [_removable(there[-1].artifact, there[-1].at_ms)]
        session.confirm_removal(items, f"Remove {id} from {stored.id} for good?", yes)
    removed = _removed_item(stored.artifacts.remove(id))
    return Deleted(removed=removed, left=stored.reader.count())


def _removable(artifact: Artifact, at_ms: int) -> Removable:
    size = artifact.size_bytes
    return Removable(id=artifact.id, title=artifact.name, at_ms=at_ms, size=size, unit="byte")


def artifact_meant(artifacts: Artifacts, typed: str) -> str:
    """The id of an artifact, or the only one that begins so, with or without `art-`; another handle
    is returned as typed."""
    if is_seq(typed):
        return typed  # of a message
    there = {one.id: one for one in artifacts.list()}

    def described(id: str) -> str:
        one = there[id]
        return f"{id} ({short_line(one.artifact.name, 60)}, {ago(max(0, now_ms() - one.at_ms))})"

    return beginning(id_of(typed), there, "artifacts", described) or typed


def amount(text: str, kind: str, units: Mapping[str, int]) -> float:
    """A number with a unit, such as `30d` or `1.5 MB`; Invalid for anything else."""
    match = _AMOUNT.fullmatch(text.strip())
    unit = match[2].lower() if match else ""
    if match is None or unit not in units:
        examples = ", ".join(f"10{name}" for name in units if name)
        reason = f"{short_line(text, 40)!r} is not a {kind} such as {examples}"
        raise Invalid(reason, hint="refold artifact remove --help")
    return float(match[1]) * units[unit]
