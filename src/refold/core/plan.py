"""What a compaction would do, what it costs, and what it did.

A plan is free and changes nothing. Its price is what the prompt cache loses: everything after the
first changed slot is written again; against it stands what every later call saves by being shorter.
Where the cache has expired anyway, nothing is lost.
An applied plan leaves a receipt. Neighbours: strategies propose edits, `fold` shows what they would
do, the engine appends them as one batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from refold.core.model import Edit, Slot, Span, Summarize, View

# Of the input price, where a model's own cache prices are not known.
READ_RATIO, WRITE_RATIO = 0.1, 1.25


class Ask(Struct, frozen=True, kw_only=True):
    """A span that a strategy wants put in words by a writer; `draft` stands if there is none or
    it fails."""

    span: Span
    draft: Summarize
    instructions: str = ""


class Proposal(Struct, frozen=True):
    """An edit and the tokens that its event will add to the page."""

    edit: Edit
    tokens: int


class Item(Struct, frozen=True, kw_only=True):
    """One thing that was shortened or hidden, with the handle by which it is unfolded."""

    handle: str
    action: str
    tokens_before: int
    tokens_after: int
    reason: str = ""


class Price(Struct, frozen=True, kw_only=True):
    """In tokens of ordinary input, and in dollars where the model's prices are known. `expired`:
    the provider no longer has the page in its cache, so changing it costs nothing."""

    rewritten_tokens: int = 0
    kept_messages: int = 0
    kept_upto: int = 0
    cost_tokens: float = 0.0
    saved_per_call_tokens: float = 0.0
    cost_dollars: float | None = None
    expired: bool = False

    @property
    def break_even_calls(self) -> float:
        """After how many calls the lost cache is paid back."""
        return (
            self.cost_tokens / self.saved_per_call_tokens if self.saved_per_call_tokens > 0 else 0.0
        )


class Step(Struct, frozen=True, kw_only=True):
    """What one rung of the ladder did; `chars_saved` is by how many characters the page shrank."""

    strategy: str
    edits: int
    tokens_before: int
    tokens_after: int
    chars_saved: int = 0
    cpu_ms: float = 0.0
    note: str = ""


class _Account(Struct, frozen=True, kw_only=True):
    """What a plan and its receipt both tell. `reason` says why nothing is to be done, or why the
    target was missed."""

    items: tuple[Item, ...] = ()
    steps: tuple[Step, ...] = ()
    price: Price = Price()
    tokens_before: int = 0
    tokens_after: int = 0
    target: int = 0
    reason: str = ""

    @property
    def strategy(self) -> str:
        return "+".join(step.strategy for step in self.steps if step.edits) or "none"

    @property
    def saved_tokens(self) -> int:
        return self.tokens_before - self.tokens_after

    @property
    def reached(self) -> bool:
        return self.tokens_after <= self.target


class Plan(_Account, frozen=True, kw_only=True):
    """Proposed edits and their price, for the log up to `head`."""

    head: int
    proposals: tuple[Proposal, ...] = ()
    asks: tuple[Ask, ...] = ()


class Receipt(_Account, frozen=True, kw_only=True):
    """What an applied plan did. `revert` takes `batch`; `summary` has all texts that stand for what
    left the page, in its order, with an empty line between them."""

    batch: str = ""
    summary: str = ""
    messages_before: int = 0
    messages_after: int = 0
    messages_hidden: int = 0

    def __repr__(self) -> str:
        if not self.batch:
            return f"<Receipt: nothing was done ({self.reason or 'nothing to do'})>"
        sizes = f"{self.tokens_before:,} to {self.tokens_after:,} tokens"
        return f"<Receipt {self.batch}: {self.strategy}, {sizes}>"


def price_of(
    before: View, after: View, *, per_token: float | None = None, expired: bool = False
) -> Price:
    """What going from one page to the other costs in lost cache, and saves on every later call."""
    kept = unchanged(before.slots, after.slots)
    rewritten = sum(slot.tokens for slot in after.slots[kept:])
    cost = 0.0 if expired else rewritten * (WRITE_RATIO - READ_RATIO)
    return Price(
        rewritten_tokens=rewritten,
        kept_messages=kept,
        kept_upto=after.slots[kept - 1].last if kept else 0,
        cost_tokens=cost,
        saved_per_call_tokens=(before.tokens - after.tokens) * READ_RATIO,
        cost_dollars=cost * per_token if per_token is not None else None,
        expired=expired,
    )


def unchanged(before: Sequence[Slot], after: Sequence[Slot]) -> int:
    """How many leading slots are the same on both pages."""
    same = 0
    for old, new in zip(before, after, strict=False):
        if old is not new and (old.seq, old.last, old.edits) != (new.seq, new.last, new.edits):
            break
        same += 1
    return same
