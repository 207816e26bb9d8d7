"""A stored session, read for a verdict: its messages, its bill, its window, and the windows to
measure it in.

The bill is the conversation's own, so it equals that of `refold stats --cost`. If the caller asks
for another model, all calls are priced as that model's. Where no usage is recorded, or refold
folded the page of every call, the bill is our own count and says that it is estimated. Neighbours:
`session` reads the messages, `verdict` judges, `edges.commands.replay` shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold.config import NUMBER_MAX, Config
from refold.conversations.listing import PROGRAMS, title_of
from refold.engine.context import Context
from refold.errors import Invalid
from refold.replay.needs import Message, tokens_of, tokens_of_all
from refold.replay.run import Settings, replay_windows
from refold.replay.scale import scale_of
from refold.replay.session import SUMMARY, USAGE, ReplaySession, said_in
from refold.replay.verdict import Bill, Measured
from refold.settings.sources import KEEPER
from refold.stores.protocol import Store
from refold.tokens.models import model_info


class Recorded(Struct, frozen=True, kw_only=True):
    """A session ready to be played. `messages` and `tokens` are those of the list; `peak` is its
    largest prompt; `program` starts its agent, as far as it is known; `remark` explains missing
    prices."""

    id: str
    title: str
    program: str
    said: ReplaySession
    messages: int
    tokens: int
    model: str
    window: int
    peak: int
    bill: Bill
    remark: str = ""


def recorded(store: Store, id: str, config: Config, model_wanted: str | None = None) -> Recorded:
    """Reads a session; Invalid if no assistant answered in it."""
    context = Context(store, id, config=config)
    said, stats = said_in(context), context.stats()
    if not any(message["role"] == "assistant" for message in said.messages):
        raise Invalid(f"{id} has no answer of an assistant", hint="nothing would have been sent")
    model = model_wanted or said.model
    info = model_info(model or None)
    if model_wanted is not None:
        said = replace(said, messages=[_priced_as(model, one) for one in said.messages])
    scale = scale_of(said.messages)
    billed = stats.billed
    bill = Bill(
        calls=billed.calls,
        input=billed.input,
        cached=billed.cache_read,
        output=billed.output,
        cost=stats.cost,
        estimated=not scale.calls,
    )
    if bill.estimated:
        bill = Bill(calls=0, input=0, cached=0, output=0, cost=None, estimated=True)
    if bill.estimated or model_wanted is not None:
        bill = _bill_by_replay(said, model, bill)
    remark = ""
    if not model:
        remark = "the session does not name its model"
    elif not info.known:
        remark = f"no table knows the model {model}: its prices and its window are not known"
    # Behind the proxy, the window of a conversation is only a wish.
    had = 0 if model_wanted is not None or KEEPER in context.view.tags else said.window
    whole = [one for one in said.messages if not one.get(SUMMARY)]
    return Recorded(
        id=id,
        title=title_of(store, id, context.view.title),
        program=PROGRAMS.get(str((context.view.metadata or {}).get("imported")), ""),
        said=said,
        messages=stats.messages,
        tokens=stats.current,
        model=model,
        window=had or info.window,
        peak=scale.peak or tokens_of_all(whole),
        bill=bill,
        remark=remark,
    )


def _priced_as(model: str, message: Message) -> Message:
    if USAGE not in message:
        return message
    return {**message, USAGE: replace(message[USAGE], model=model)}


def _bill_by_replay(said: ReplaySession, model: str, bill: Bill) -> Bill:
    """The bill of the calls as they were sent; calls without a recorded usage are counted by
    refold."""
    [played] = replay_windows(said.messages, (NUMBER_MAX,), model)
    answers = (one for one in said.messages if one["role"] == "assistant")
    return replace(
        bill,
        calls=bill.calls or len(played.sent.turns),
        input=bill.input or played.sent.sent,
        cached=bill.cached or played.sent.cached,
        output=bill.output or sum(map(tokens_of, answers)),
        cost=played.sent.dollars,
    )


def measured(
    session: Recorded,
    windows: Sequence[int],
    settings: Settings,
    progress: Callable[[int, int], Any] | None = None,
) -> Measured:
    """Replays the session in one pass: in its own window with refold's defaults, and in these
    windows with these settings."""

    def chosen(window: int) -> dict[str, Any]:
        return {} if window == session.window else settings(window)

    played = tuple(dict.fromkeys((*windows, session.window)))
    replays = replay_windows(session.said.messages, played, session.model, progress, chosen)
    by_window = {one.window: one for one in replays}
    return Measured(
        bill=session.bill,
        peak=session.peak,
        own=by_window[session.window],
        tried=[by_window[window] for window in windows],
    )
