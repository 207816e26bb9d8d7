"""`refold context summarize`: the older messages become a summary, whether the page is full or not.

With a writer the words are a model's, without one they are taken from the messages by code. It is a
compaction by one strategy: one batch, which `undo` takes back.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import TEXT, Arguments, Command
from refold.edges.commands.compact import WRITER, CompactArguments
from refold.edges.commands.compact import run as compact
from refold.edges.commands.compact_result import Compacted, Planned
from refold.edges.commands.compaction_shown import show
from refold.edges.commands.session import Session

INSTRUCTIONS = Meta(description="What the writer should pay attention to.", extra=TEXT)
KEEP = Meta(description="This many of the newest messages stay as they are.", ge=0)
DRY_RUN = Meta(description="Say what would be summarized, and change nothing.")


class SummarizeArguments(Arguments, frozen=True, kw_only=True):
    instructions: Annotated[str, INSTRUCTIONS] = ""
    keep: Annotated[int, KEEP] | None = None
    writer: Annotated[str, WRITER] | None = None
    dry_run: Annotated[bool, DRY_RUN] = False


def run(session: Session, arguments: SummarizeArguments) -> Planned | Compacted:
    kept = () if arguments.keep is None else (f"keep={arguments.keep}",)
    given = CompactArguments(
        strategies=("summarize",),
        settings=kept,
        instructions=arguments.instructions,
        writer=arguments.writer,
        dry_run=arguments.dry_run,
    )
    return compact(session, given)


COMMAND = Command(
    name="context summarize",
    details="Nothing is lost: undo takes it back.",
    arguments=SummarizeArguments,
    run=run,
    show=show,
)
