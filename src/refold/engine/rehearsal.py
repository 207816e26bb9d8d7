"""The price of an act before it is done: the act itself is tried, on a log that is not written.

The trial reads the real log up to its head and keeps what it appends in memory, so the real act
runs on the real events, and the two pages are compared. `perform` does an act by its name, for the
trial and for those who do it afterwards. Neighbours: `core.plan` prices the change of a page,
`stores.trial_store` opens the log of the trial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold.compaction.trigger import kind_due
from refold.core.budget import current_tokens
from refold.core.plan import READ_RATIO, WRITE_RATIO, Price, price_of
from refold.engine.context import Context
from refold.engine.log_reader import Act
from refold.errors import Invalid
from refold.log.open_log import OpenLog
from refold.log.undo import Undone
from refold.stores import trial_store
from refold.tokens.models import input_price, model_info

# The least and the most that each act is done with; None: any number.
COUNTS: dict[Act, tuple[int, int | None]] = {
    "pin": (1, 1),
    "unpin": (1, 1),
    "hide": (1, 2),
    "undo": (0, None),
    "redo": (0, 0),
    "restore": (1, 1),
    "clear": (0, 0),
    "compact": (0, None),
}


class Rehearsal(Struct, frozen=True, kw_only=True):
    """The effect of an act on the page, decided at `head`. `price` is the cost of the change, and
    `breaks_at` the first place on the page that the provider must read again because of it (0: the
    whole page; None: its cache holds). `request_dollars` is the price of the next request's input,
    and `later_dollars` what every later request costs more than now; None if the model's prices are
    unknown. `leaving` and `returning` are messages by seq. `undone` is the result of an undo or
    redo, falsy if there is nothing to do. `is_due`: the next request would compact the page."""

    head: int
    tokens_before: int
    tokens_after: int
    slots_before: int
    slots_after: int
    window: int
    price: Price
    breaks_at: int | None
    request_dollars: float | None
    later_dollars: float | None
    leaving: tuple[int, ...]
    returning: tuple[int, ...]
    undone: Undone
    is_due: bool
    changes_page: bool


def perform(
    context: Context,
    act: Act,
    what: Sequence[Any] = (),
    settings: Mapping[str, Any] = MappingProxyType({}),
    expect: int | None = None,
) -> Undone:
    """Does an act, at the head `expect` if one is given. Returns the result of an undo or redo: of
    several undone batches, the last one's, with the covering batches that were not undone."""
    least, most = COUNTS[act]
    if len(what) < least or (most is not None and len(what) > most):
        counts = f"{least}" if least == most else f"{least} to {most}"
        raise Invalid(f"{act} takes {counts} arguments, not {len(what)}")
    if settings and act != "compact":
        raise Invalid(f"{act} takes no settings", hint=f"without {', '.join(settings)}")
    undone = Undone()
    match act:
        case "pin" | "unpin":
            context.pin(what[0], on=act == "pin", expect=expect)
        case "hide":
            context.hide(*what, expect=expect)
        case "restore":
            context.restore(what[0], expect=expect)
        case "clear":
            context.clear(expect=expect)
        case "compact":
            context.compact(*what, **{"expect": expect, **settings})
        case "redo":
            undone = context.redo(expect=expect)
        case "undo":
            covered = dict[str, None]()
            for batch in what or ("",):
                undone = context.undo(batch, expect=expect)
                covered.update(dict.fromkeys(undone.covered_by))
                expect = None if expect is None else context.view.head
            undone = replace(undone, covered_by=tuple(one for one in covered if one not in what))
    return undone


def rehearsed(
    log: OpenLog, act: Act, what: Sequence[Any], settings: Mapping[str, Any]
) -> Rehearsal:
    """An act tried on an open log, whose lock the caller holds."""
    meta, head = log.metadata, log.state.head
    info = model_info(meta.model or None)
    trial = Context(
        trial_store(log.store, log.id, head),
        log.id,
        config=log.configured,
        model=meta.model or None,
        window=(meta.windows or {}).get(info.name),
        counter=log.counter_given,
        embedder=False,
        owns_store=True,
    )
    with trial:
        tried = trial._open
        tried.pending, tried.log.clock = list(log.pending), log.log.clock
        tried.redacts = tried.log.redacts = log.redacts
        model, before = trial._model, trial.view
        tokens_before = current_tokens(before, trial.budget.factor)
        is_expired = model.moment().is_expired(tried.state)
        undone = perform(trial, act, what, settings)
        after, budget = trial.view, trial.budget
        due, _ = kind_due(tried.state, model.load, tried.config, model.moment())
    per_token = input_price(model_info(after.model or None))
    price = price_of(before, after, per_token=per_token, expired=is_expired)
    more = (after.tokens - before.tokens) * READ_RATIO
    cached = 0 if is_expired else after.tokens - price.rewritten_tokens
    input = cached * READ_RATIO + (after.tokens - cached) * WRITE_RATIO
    kept, breaks_at = price.kept_messages, None
    if not is_expired and price.rewritten_tokens and kept < len(before.slots):
        breaks_at = before.slots[kept].seq if kept else 0
    old, new = ({slot.seq for slot in view.slots if not slot.standin} for view in (before, after))
    return Rehearsal(
        head=head,
        tokens_before=tokens_before,
        tokens_after=current_tokens(after, budget.factor),
        slots_before=len(before.slots),
        slots_after=len(after.slots),
        window=budget.window,
        price=price,
        breaks_at=breaks_at,
        request_dollars=None if per_token is None else input * per_token,
        later_dollars=None if per_token is None else more * per_token,
        leaving=tuple(sorted(old - new)),
        returning=tuple(sorted(new - old)),
        undone=undone,
        is_due=due == "compact",
        changes_page=before.slots != after.slots,
    )
