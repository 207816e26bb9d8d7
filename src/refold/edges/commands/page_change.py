"""What `undo`, `redo`, `revert` and `clear` give back: how large the page was, and is now.

Sizes are those of `stats`, so that every command says the same number for the same page.
"""

from __future__ import annotations

from typing import NamedTuple, TypedDict

from refold.display import number
from refold.edges.commands.command import Result
from refold.engine.context import Context


class PageChange(Result, frozen=True, kw_only=True):
    conversation: str
    slots_before: int
    slots_after: int
    tokens_before: int
    tokens_after: int


class PageSize(NamedTuple):
    slots: int
    tokens: int


class Sizes(TypedDict):
    """The fields of a `PageChange` that are sizes."""

    slots_before: int
    slots_after: int
    tokens_before: int
    tokens_after: int


def page_size(context: Context) -> PageSize:
    return PageSize(len(context.view.slots), context.stats().current)


def sizes(before: PageSize, after: PageSize) -> Sizes:
    return Sizes(
        slots_before=before.slots,
        slots_after=after.slots,
        tokens_before=before.tokens,
        tokens_after=after.tokens,
    )


def sizes_text(change: PageChange) -> str:
    """`4 -> 16 slots, 953 -> 1,778 tokens`."""
    slots = f"{change.slots_before:,} -> {number(change.slots_after, 'slot')}"
    return f"{slots}, {change.tokens_before:,} -> {number(change.tokens_after, 'token')}"
