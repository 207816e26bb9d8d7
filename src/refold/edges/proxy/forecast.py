"""The forecast of a fold for calls that were only observed: their lists, as the log has them, go
through an observer that folds in memory, so the fold's own code decides.

A call costs what the provider reported, in proportion to its bytes; the cache loses as much of a
common beginning as it did at the observed call. Neighbours: `observer` folds, `savings` has a line
for each call, `edges.commands.proxy` shows the forecast.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import accumulate, takewhile
from operator import eq

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from refold.core.codec import decode
from refold.core.model import Note, Usage
from refold.edges.proxy.body import LISTS, ParsedCall
from refold.edges.proxy.conversation_registry import ConversationRegistry
from refold.edges.proxy.folding import Folding
from refold.edges.proxy.observer import Observer
from refold.edges.proxy.savings import NOTE
from refold.edges.proxy.upstream import Limits
from refold.engine.context import Context
from refold.stores import open_store
from refold.stores.protocol import Store
from refold.tokens.models import cost, model_info


class Forecast(Struct, frozen=True, kw_only=True):
    """What calls would have sent and cost folded, and the number of compactions. `cost` is None if
    no call has a known price."""

    sent: int = 0
    cost: float | None = None
    compactions: int = 0


def forecast(store: Store, id: str, window: int | None, since_ms: int = 0) -> Forecast:
    """The calls of a conversation since then, folded into this window (None: the model's). Earlier
    ones are folded, too, but not counted."""
    context = Context(store, id)
    view = context.view
    dialect = next((slot.message.dialect for slot in view.slots if slot.message.dialect), "")
    if not dialect:
        return Forecast()
    page = context.page(dialect, settle=False)
    ends = list(accumulate((max(one.seqs, default=0) for one in page), max))
    values = {"system": view.system, "tools": view.tools, LISTS[dialect]: []}
    fields = {
        name: Raw(msgspec.json.encode(one)) for name, one in values.items() if one is not None
    }
    registry = ConversationRegistry(
        open_store("memory:"), Folding(folds=True, window=window), Limits()
    )
    sent, costs, before = 0, list[float](), 0
    with closing(Observer(registry)) as observer:
        fold = _Fold(observer)
        for usage, at_ms in _calls(context):
            if at_ms < since_ms:
                before = fold.compactions
            parsed = ParsedCall(
                dialect=dialect,
                model=view.model or "",
                messages=[one.message for one in page[: bisect_right(ends, usage.upto)]],
                marks=[],
                session="",
                size_bytes=0,
                is_native=False,
                fields=fields,
            )
            folded = fold.call(parsed, usage)
            if at_ms >= since_ms:
                price = cost(model_info(folded.model or view.model), folded)
                sent += folded.input
                costs += () if price is None else (price,)
    made = fold.compactions - before
    return Forecast(sent=sent, cost=sum(costs) if costs else None, compactions=made)


def _calls(context: Context) -> Iterator[tuple[Usage, int]]:
    """The usage of each call that has a line in the log, and the time of the line."""
    usage: Usage | None = None
    for event in context.log.events():
        if event.kind not in ("usage", "note") or event.erased:
            continue
        body = decode(event)
        if isinstance(body, Usage):
            usage = body
        elif isinstance(body, Note) and body.kind == NOTE and usage is not None:
            yield usage, event.at_ms
            usage = None


class _Fold:
    """One conversation folded by an observer, and what it sent last."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._list: list[object] = []  # the client's, and its messages encoded
        self._client: list[bytes] = []
        self._sent: list[bytes] = []  # the messages of the fold
        self._before = 0  # tokens of the observed call before
        self.compactions = 0

    def call(self, parsed: ParsedCall, usage: Usage) -> Usage:
        """The usage of this call if it had been folded; `usage` is that of the list as it is."""
        known = _common(self._list, parsed.messages)
        self._list = list(parsed.messages)
        self._client[known:] = map(msgspec.json.encode, self._list[known:])
        observed = self._observer.take(parsed)
        held = None if observed is None else observed.held
        if observed is None or held is None or observed.body is None:
            sent = self._client
        else:
            sent = held.encoded.sent
        said = self._usage(usage, sent, sum(len(bytes(raw)) for raw in parsed.fields.values()))
        self._before, self._sent = usage.input, list(sent)
        if observed is not None and held is not None:
            observed.answered()
            self._observer.finish(observed, said, None)
            self.compactions = sum(batch.live for batch in held.context.log.batches())
        return said

    def _usage(self, usage: Usage, sent: Sequence[bytes], beside: int) -> Usage:
        """The usage in proportion to the bytes sent, and to those that the call before sent."""
        same = _common(self._sent, sent)
        if sent is self._client and self._sent == self._client[:same]:
            return usage
        a_byte = usage.input / max(1, beside + sum(map(len, self._client)))
        size = min(usage.input, round(a_byte * (beside + sum(map(len, sent)))))
        kept = min(1.0, usage.cache_read / max(1, min(self._before, usage.input)))
        again = round(kept * a_byte * (beside + sum(map(len, sent[:same]))))
        read = min(size, again if self._sent else usage.cache_read)
        new = max(1, usage.input - usage.cache_read)
        written = min(size - read, round((size - read) * usage.cache_write / new))
        written_1h = round(written * usage.cache_write_1h / (usage.cache_write or 1))
        return replace(
            usage, input=size, cache_read=read, cache_write=written, cache_write_1h=written_1h
        )


def _common(before: Sequence[object], now: Sequence[object]) -> int:
    """The number of values that two lists have in common at their beginning."""
    return sum(1 for _ in takewhile(bool, map(eq, before, now)))
