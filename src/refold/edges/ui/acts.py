"""Acts on a page: tried on a copy first, so that a person sees the price, then done at that head.

The copy is in memory, and nothing is written until the act is confirmed, with the head of the
rehearsal: if the log has grown since, the act is a Conflict, and is rehearsed again. Everything
here can be undone. Neighbours: `answers` opens the stores, `static/acts.js` asks.
"""

from __future__ import annotations

import time
from typing import Any, Literal

import msgspec
from msgspec import Struct

from refold import decoding
from refold.core.plan import price_of
from refold.edges.commands.stats import EXPIRES_S
from refold.engine.context import Context
from refold.errors import Invalid, NotFound
from refold.log.stored_logs import pages_of
from refold.stores import open_store
from refold.stores.protocol import Store
from refold.tokens.models import input_price, model_info

Name = Literal["pin", "unpin", "hide", "undo", "redo", "compact"]


class Act(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do, with the message at `seq`, or with `batches` (the newest first; none: the newest
    step). `head` is the place at which its price was seen."""

    act: Name
    seq: int = 0
    batches: tuple[str, ...] = ()
    head: int = 0


def act_of(body: bytes) -> Act:
    """The act in the body of a call."""
    try:
        return decoding.decode(body, Act)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Invalid(f"not an act: {error}") from error


def rehearsed(store: Store, context: Context, act: Act, called_ms: int) -> dict[str, Any]:
    """The effect of an act on the page, and its price; `called_ms` is the time of the last call."""
    copy = open_store("memory:")
    for events in pages_of(store, context.id, last=context.view.head):
        copy.append(context.id, events, expect=events[0].seq - 1)
    with Context(copy, context.id, config=context.config) as tried:
        before, size = tried.view, tried.stats()
        covered_by, made_room = done(tried, act)
        after, stats = tried.view, tried.stats()
    is_expired = time.time_ns() // 1_000_000 - called_ms > EXPIRES_S * 1_000
    per_token = input_price(model_info(before.model or None))
    price = price_of(before, after, per_token=per_token, expired=is_expired)
    saved = price.saved_per_call_tokens
    return {
        "head": before.head,
        "before": size.current,
        "after": stats.current,
        "pieces": (len(before.slots), len(after.slots)),
        "window": stats.window,
        "rewritten": price.rewritten_tokens if before.slots != after.slots else 0,
        "expired": price.expired,
        "once": price.cost_dollars,
        "later": None if per_token is None else -saved * per_token,
        "covered_by": covered_by,
        "made_room": made_room,
        "due": stats.due == "compact",
        "nothing": before.slots == after.slots,
    }


def done(context: Context, act: Act, expect: int | None = None) -> tuple[list[str], bool]:
    """Does an act. Returns the later compactions that still cover an undone one, and whether the
    oldest messages had to leave. Conflict if the log is not at the head `expect`."""
    match act.act:
        case "pin" | "unpin":
            context.pin(act.seq, on=act.act == "pin", expect=expect)
        case "hide":
            context.hide(act.seq, expect=expect)
        case "compact":
            context.compact(expect=expect)
        case "redo":
            if not context.redo(expect=expect):
                raise NotFound("there is nothing to redo")
        case "undo":
            covered: list[str] = []
            made_room = False
            for batch in act.batches or ("",):
                undone = context.undo(batch, expect=expect)
                if not undone:
                    raise NotFound("there is nothing to undo")
                covered = [one for one in undone.covered_by if one not in act.batches]
                made_room = made_room or bool(undone.made_room)
                expect = None if expect is None else context.view.head
            return covered, made_room
    return [], False
