"""The plan of a compaction, its price, and the receipt of an applied plan.

A plan is free and changes nothing. Its price is the loss of prompt cache: everything after the
first changed slot is written again, unless the cache has expired anyway. In return, every later
call is shorter. Neighbours: strategies propose edits, `fold` shows their effect, `compaction`
appends them as one batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from refold.core.model import Edit, Slot, Span, Summarize, View

# Shares of the input price, for models without known cache prices.
READ_RATIO, WRITE_RATIO = 0.1, 1.25


class Ask(Struct, frozen=True, kw_only=True):
    """A span for which a strategy requests a writer's summary; `draft` is used if there is no
    writer or the writer fails."""

    span: Span
    draft: Summarize
    instructions: str = ""


class Proposal(Struct, frozen=True):
    """An edit and the tokens that its event will add to the page."""

    edit: Edit
    tokens: int


class Item(Struct, frozen=True, kw_only=True):
    """A message or span that was shortened or hidden, with the handle to unfold it."""

    handle: str
    action: str
    tokens_before: int
    tokens_after: int
    reason: str = ""


class Price(Struct, frozen=True, kw_only=True):
    """The price of a plan in tokens of ordinary input, and in dollars if the model's prices are
    known. `expired`: the page has left the provider's cache, so changing it costs nothing."""

    rewritten_tokens: int = 0
    kept_messages: int = 0
    kept_upto: int = 0
    cost_tokens: float = 0.0
    saved_per_call_tokens: float = 0.0
    cost_dollars: float | None = None
    expired: bool = False

    @property
    def break_even_calls(self) -> float:
        """The number of calls after which the lost cache is paid back."""
        saved = self.saved_per_call_tokens
        return self.cost_tokens / saved if saved > 0 else 0.0


class Step(Struct, frozen=True, kw_only=True):
    """The result of one rung of the ladder; the page shrank by `chars_saved` characters."""

    strategy: str
    edits: int
    tokens_before: int
    tokens_after: int
    chars_saved: int = 0
    cpu_ms: float = 0.0
    note: str = ""


class _Account(Struct, frozen=True, kw_only=True):
    """Common fields of a plan and its receipt. `reason` says why there is nothing to do, why the
    target was missed, or why a gist is much shorter than the target allows."""

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
    """The result of an applied plan. `batch` is for `revert`; `summary` has all summary texts in
    the order of the page, separated by empty lines."""

    batch: str = ""
    summary: str = ""
    messages_before: int = 0
    messages_after: int = 0
    messages_hidden: int = 0

    def __repr__(self) -> str:
        if not self.batch:
            return f"<Receipt: nothing changed ({self.reason or 'nothing to do'})>"
        sizes = f"{self.tokens_before:,} to {self.tokens_after:,} tokens"
        return f"<Receipt {self.batch}: {self.strategy}, {sizes}>"


def price_of(
    before: View, after: View, *, per_token: float | None = None, expired: bool = False
) -> Price:
    """The cost in lost cache of changing the page, and the savings on every later call. A page with
    another system prompt, other tools or another model is written again as a whole."""
    fronts = [(view.model, view.system, view.tools) for view in (before, after)]
    is_kept = fronts[0] == fronts[1]
    kept = unchanged(before.slots, after.slots) if is_kept else 0
    rewritten = sum(slot.tokens for slot in after.slots[kept:]) if is_kept else after.tokens
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
    """The number of leading slots that are equal on both pages."""
    same = 0
    for old, new in zip(before, after, strict=False):
        if old is not new and (old.seq, old.last, old.edits) != (new.seq, new.last, new.edits):
            break
        same += 1
    return same
