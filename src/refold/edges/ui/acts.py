"""Acts on a page: rehearsed first, so that a person sees the price, then done at that head.

Nothing is written until the act is confirmed, with the head of the rehearsal: if the log has grown
since, the act is a Conflict, and is rehearsed again. Everything here can be undone. Neighbours:
`engine.rehearsal` tries and does acts, `answers` opens the stores, `static/acts.js` asks.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from refold import decoding
from refold.engine.context import Context
from refold.engine.rehearsal import perform
from refold.errors import Invalid, NotFound
from refold.log.undo import Undone

Name = Literal["pin", "unpin", "hide", "restore", "undo", "redo", "clear", "compact"]


class Act(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do, with the message at `seq`, or with `batches` (the newest first; none: the newest
    step). `head` is the position at which its price was seen."""

    act: Name
    seq: int = 0
    batches: tuple[str, ...] = ()
    head: int = 0

    @property
    def what(self) -> tuple[int | str, ...]:
        return self.batches if self.act == "undo" else (self.seq,) if self.seq else ()


def act_of(body: bytes) -> Act:
    """The act in the body of a call."""
    try:
        return decoding.decode(body, Act)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Invalid(f"not an act: {error}") from error


def rehearsed(context: Context, act: Act) -> dict[str, Any]:
    """The effect of an act on the page, and its price."""
    tried = context.log.rehearse(act.act, *act.what)
    _check_done(act, tried.undone)
    return {
        "head": tried.head,
        "before": tried.tokens_before,
        "after": tried.tokens_after,
        "pieces": (tried.slots_before, tried.slots_after),
        "window": tried.window,
        "rewritten": tried.price.rewritten_tokens,
        "expired": tried.price.expired,
        "once": tried.price.cost_dollars,
        "later": tried.later_dollars,
        "covered_by": tried.undone.covered_by,
        "made_room": bool(tried.undone.made_room),
        "due": tried.is_due,
        "nothing": not tried.changes_page,
        "back": _back(context, act.seq) if act.act == "restore" else None,
    }


def _back(context: Context, seq: int) -> dict[str, int]:
    """How much a restore switches off, and how many files it leaves as they are on disk."""
    off = context.restore(seq, dry_run=True)
    return {"requests": len(off.requests), "calls": len(off.calls), "files": len(off.files)}


def do(context: Context, act: Act) -> None:
    """Does an act. Conflict if the log is not at the head of its rehearsal."""
    _check_done(act, perform(context, act.act, act.what, expect=act.head))


def _check_done(act: Act, undone: Undone) -> None:
    if act.act in ("undo", "redo") and not undone:
        raise NotFound(f"there is nothing to {act.act}")
