"""What a compaction gives back, planned or done."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from refold.core.plan import Item, Price, Step
from refold.edges.commands.command import Result


class WriterUse(Struct, frozen=True, kw_only=True):
    """What came of asking the writer: summaries asked for and accepted, calls, tokens in and
    out, and why the others were refused."""

    asked: int = 0
    accepted: int = 0
    calls: int = 0
    input: int = 0
    output: int = 0
    refused: tuple[str, ...] = ()


class Compaction(Result, frozen=True, kw_only=True):
    """What a compaction did, or would do. `reason` says why it did nothing."""

    conversation: str
    dry_run: bool
    strategy: str
    reason: str
    items: tuple[Item, ...]
    steps: tuple[Step, ...]
    price: Price
    tokens_before: int
    tokens_after: int
    target: int
    reached: bool


class Planned(Compaction, frozen=True, kw_only=True):
    """`edits` is how many would be made, `removed` how many messages would leave the page."""

    edits: int
    removed: int
    window: int


class Compacted(Compaction, frozen=True, kw_only=True):
    """`batch` is what can be reverted; empty if nothing was done. `removed` counts the messages
    that left the page, `summary` is the newest text that stands for such; `active` of all
    `messages` are on the page now."""

    batch: str
    removed: int
    summary: str
    slots_before: int
    slots_after: int
    window: int
    active: int
    messages: int
    summaries: int
    pins: int
    writer: WriterUse | UnsetType = UNSET
    box: bool | UnsetType = UNSET
