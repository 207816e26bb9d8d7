"""`refold context prune`: the messages that the work needs least leave the page.

One strategy, by default that which scores messages by what the latest request needs, until the page
has at most so many tokens, by default half of the window. It is a compaction like any other: one
batch, which `undo` takes back.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Screen
from refold.edges.commands.compact import CompactArguments
from refold.edges.commands.compact import run as compact
from refold.edges.commands.compact_result import Compacted, Planned
from refold.edges.commands.compaction_shown import show as show_compaction
from refold.edges.commands.session import Session
from refold.edges.commands.text import number
from refold.strategies.registry import BUILT_IN

STRATEGY = Meta(
    description="By default relevance.", extra={"metavar": "NAME", "completes": "strategy"}
)
MAX_TOKENS = Meta(description="By default half of the window.", ge=0, extra={"metavar": "N"})
DRY_RUN = Meta(description="Say what would go, and change nothing.")


class PruneArguments(Arguments, frozen=True, kw_only=True):
    strategy: Annotated[str, STRATEGY] = "relevance"
    max_tokens: Annotated[int, MAX_TOKENS] | None = None
    dry_run: Annotated[bool, DRY_RUN] = False


def run(session: Session, arguments: PruneArguments) -> Planned | Compacted:
    target = arguments.max_tokens
    if target is None:
        with session.context() as context:
            target = context.budget.window // 2
    given = CompactArguments(
        strategies=(arguments.strategy,),
        target=target,
        settings=_size(arguments.strategy, target),
        dry_run=arguments.dry_run,
    )
    return compact(session, given)


def _size(strategy: str, target: int) -> tuple[str, ...]:
    """The size as a setting, for strategies that have a size of their own."""
    _, settings = BUILT_IN.get(strategy, ("", {}))
    return (f"max_tokens={target}",) if "max_tokens" in settings else ()


def show(done: Planned | Compacted, screen: Screen) -> None:
    if isinstance(done, Planned) and done.edits:
        saved = number(done.tokens_before - done.tokens_after, "token")
        screen.line(f"Would hide: {number(done.removed, 'message')}, {saved}")
    show_compaction(done, screen)


COMMAND = Command(
    name="context prune",
    details="Nothing is lost: undo takes it back.",
    arguments=PruneArguments,
    run=run,
    show=show,
)
