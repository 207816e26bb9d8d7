"""What each call took and what folding saved of it, in tokens and money; one line a call.

The provider's usage says what was sent. What the other way would have been is worked out from it:
of a folded call, what the client's own list would have had, by its bytes; of a call that was only
observed, what a fold would have left, by plans made where one would have been due. Money follows
from the model's prices, the other way with a cache that holds whatever was sent last time.
Neighbours: `observer` brings the usage, `report` adds the lines up.
"""

from __future__ import annotations

import time

from msgspec import Struct
from msgspec.structs import replace

from refold.core.model import Usage
from refold.tokens.models import cost, dollars, model_info

NOTE = "proxy-call"
CACHE_LIFE_S = 300.0


class CallLine(Struct, frozen=True, kw_only=True):
    """One call: what the client's list has, what was sent, what of it came from the cache, and
    what was saved. `folded` says that it was; else `saved` is what a fold would have saved."""

    model: str = ""
    input: int = 0
    sent: int = 0
    cached: int = 0
    output: int = 0
    saved: int = 0
    cost: float | None = None
    saved_cost: float | None = None
    folded: bool = False


def line_text(line: CallLine) -> str:
    """`in 61,204, sent 38,110, cached 35,000, saved 23,094 ($0.0693)`."""
    saved = "saved" if line.folded else "could save"
    tokens = f"in {line.input:,}, sent {line.sent:,}, cached {line.cached:,}"
    return f"{tokens}, {saved} {line.saved:,} ({dollars(line.saved_cost)})"


class Account:
    """The calls of one conversation."""

    def __init__(self) -> None:
        self.offset = 0  # tokens that a fold would have taken off by now
        self._is_broken = False  # whether it would have taken some off since the last call
        self._before, self._at = 0, float("-inf")  # what the other way sent last, and when

    def take_off(self, tokens: int, *, breaks: bool) -> None:
        """A fold would have taken so many tokens off by now; `breaks` says that these had been
        sent before, so that the provider's cache would have been lost."""
        self.offset = max(self.offset, tokens)
        self._is_broken = self._is_broken or breaks

    def folded(self, usage: Usage, share: float) -> CallLine:
        """A call that was sent, of which the bytes were this share of the client's."""
        client = max(usage.input, round(usage.input / max(share, 1e-6)))
        other = self._other(usage, client)
        return self._line(usage, client, client - usage.input, other, sign=1, folded=share < 1.0)

    def observed(self, usage: Usage) -> CallLine:
        """A call that was passed on as it came."""
        would = max(0, usage.input - self.offset)
        other = self._other(usage, would)
        return self._line(usage, usage.input, usage.input - would, other, sign=-1, folded=False)

    def _other(self, usage: Usage, size: int) -> float | None:
        """What the call would have cost the other way."""
        now = time.monotonic()
        is_fresh = now - self._at <= CACHE_LIFE_S and not self._is_broken
        read = min(self._before, size) if is_fresh else 0
        self._before, self._at, self._is_broken = size, now, False
        model = model_info(usage.model or None)
        writes = model.prices is not None and model.prices.cache_write is not None
        return cost(
            model,
            replace(usage, input=size, cache_read=read, cache_write=size - read if writes else 0),
        )

    def _line(
        self,
        usage: Usage,
        client: int,
        saved: int,
        other: float | None,
        *,
        sign: int,
        folded: bool,
    ) -> CallLine:
        paid = cost(model_info(usage.model or None), usage)
        is_priced = paid is not None and other is not None
        return CallLine(
            model=usage.model,
            input=client,
            sent=usage.input,
            cached=usage.cache_read,
            output=usage.output,
            saved=saved,
            cost=paid,
            saved_cost=sign * (other - paid) if is_priced else None,  # type: ignore[operator]
            folded=folded,
        )
