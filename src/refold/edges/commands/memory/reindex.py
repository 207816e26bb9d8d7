"""`refold memory reindex`: the index of a memory made again, with all vectors."""

from __future__ import annotations

from functools import partial

from refold.edges.commands.command import Command, Result, Screen
from refold.edges.commands.memory import MemoryArguments, memory_of
from refold.edges.commands.session import Session


class Reindexed(Result, frozen=True, kw_only=True):
    """The scopes whose index is new."""

    scopes: tuple[str, ...]


def run(session: Session, arguments: MemoryArguments) -> Reindexed:
    with memory_of(session, arguments) as memory, session.progress("indexing") as progress:
        memory.reindex(partial(progress, "indexing") if progress else None)
        return Reindexed(scopes=("project", "user"))


def show(made: Reindexed, screen: Screen) -> None:
    screen.line(f"The index is new: {', '.join(made.scopes)}.")


COMMAND = Command(
    name="memory reindex",
    details="For another embedder, or after damage. The index holds nothing that the logs do not.",
    on="store",
    arguments=MemoryArguments,
    run=run,
    show=show,
)
