"""`refold artifacts list`: the artifacts of a conversation. Contents are not read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict

from refold.artifacts.artifacts import Artifacts
from refold.artifacts.listing import StoredArtifact
from refold.core.model import Artifact
from refold.display import moment
from refold.edges.commands.artifacts import stored_artifacts
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session

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


def run(session: Session, arguments: ListArguments) -> Listed:
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


def show(listed: Listed, screen: Screen) -> None:
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


COMMAND = Command(
    name="artifacts list",
    reads=True,
    arguments=ListArguments,
    run=run,
    show=show,
)
