"""What each call took and what folding saved of it, in tokens and money; one line a call.

The provider's usage says what was sent. What the other way would have been is worked out from it:
of a folded call, what the client's own list would have had, by its bytes; of a call that was only
observed, what a fold would have left, by plans made where one would have been due. Money follows
from the model's prices, the other way with the cache that the provider reports: none, or one that
holds whatever was sent last time. A new process goes on from the last line in the log.
Neighbours: `observer` brings the usage, `report` adds the lines up.
"""

from __future__ import annotations

import time

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold import decoding
from refold.core.model import Usage
from refold.tokens.models import cost, dollars, model_info

NOTE = "proxy-call"
CACHE_LIFE_S = 300.0


class CallLine(Struct, frozen=True, kw_only=True):
    """One call: what the client's list has, what was sent, what of it came from the cache, and
    what was saved; `written` is what was put into it. `folded` says that it was; else `saved` is
    what a fold would have saved."""

    model: str = ""
    input: int = 0
    sent: int = 0
    cached: int = 0
    written: int = 0
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


def line_of(data: object) -> CallLine | None:
    """The line that a note holds; None for somebody else's note under our name."""
    try:
        return decoding.convert(data, CallLine)
    except msgspec.ValidationError:
        return None


class Account:
    """The calls of one conversation. Time is in seconds, by the clock of the wall: a conversation
    goes on in another process."""

    def __init__(self) -> None:
        self.offset = 0  # tokens that a fold would have taken off by now
        self._is_broken = False  # whether it would have taken some off since the last call
        self._before: int | None = None  # what the other way sent last; None if nobody knows
        self._at_s = float("-inf")
        self._is_cached = False  # whether the provider ever said that it caches

    def resume(self, line: CallLine, at_s: float) -> None:
        """Goes on from the last line of a conversation, written at that time."""
        self._before = line.input if line.folded else line.input - line.saved
        self._at_s = at_s
        self._is_cached = line.cached > 0 or line.written > 0
        self.offset = 0 if line.folded else line.saved

    def take_off(self, tokens: int, *, breaks: bool) -> None:
        """A fold would have taken so many tokens off by now; `breaks` says that these had been
        sent before, so that the provider's cache would have been lost."""
        self.offset = max(self.offset, tokens)
        self._is_broken = self._is_broken or breaks

    def folded(self, usage: Usage, share: float, *, broke: bool = False) -> CallLine:
        """A call that was sent, of which the bytes were this share of the client's; `broke` says
        that what the call before had sent was changed."""
        client = max(usage.input, round(usage.input / max(share, 1e-6)))
        other = self._other(usage, client, is_warm=broke or usage.cache_read > 0)
        return self._line(usage, client, client - usage.input, other, sign=1, folded=share < 1.0)

    def spent(self, usage: Usage) -> CallLine:
        """A call that no client made, for a compaction or for what our own tools were asked: all
        of it is to be saved by others."""
        paid = cost(model_info(usage.model or None), usage)
        return CallLine(
            model=usage.model,
            sent=usage.input,
            cached=usage.cache_read,
            written=usage.cache_write,
            output=usage.output,
            saved=-usage.input,
            cost=paid,
            saved_cost=None if paid is None else -paid,
            folded=True,
        )

    def observed(self, usage: Usage) -> CallLine:
        """A call that was passed on as it came."""
        would = max(0, usage.input - self.offset)
        is_warm = usage.cache_read > 0 and not self._is_broken
        other = self._other(usage, would, is_warm=is_warm)
        return self._line(usage, usage.input, usage.input - would, other, sign=-1, folded=False)

    def _other(self, usage: Usage, size: int, *, is_warm: bool) -> float | None:
        """What the call would have cost the other way, with the cache that this one had."""
        now = time.time()
        self._is_cached = self._is_cached or usage.cache_read > 0 or usage.cache_write > 0
        read = 0
        if is_warm and self._is_cached:
            read = self._read(usage, size, now)
        self._before, self._at_s, self._is_broken = size, now, False
        written = _part(size - read, usage.cache_write, usage.input - usage.cache_read)
        return cost(
            model_info(usage.model or None),
            replace(usage, input=size, cache_read=read, cache_write=written),
        )

    def _read(self, usage: Usage, size: int, now: float) -> int:
        """How much of it would have come from the cache: what was sent last, if that is not too
        long ago; as much as came from it here, if nobody knows what that was."""
        if self._before is None:
            return _part(size, usage.cache_read, usage.input)
        return min(self._before, size) if now - self._at_s <= CACHE_LIFE_S else 0

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
        return CallLine(
            model=usage.model,
            input=client,
            sent=usage.input,
            cached=usage.cache_read,
            written=usage.cache_write,
            output=usage.output,
            saved=saved,
            cost=paid,
            # What is the same costs the same: only a guess at its cache could say otherwise.
            saved_cost=_difference(other, paid, sign) if saved else _difference(paid, paid, sign),
            folded=folded,
        )


def _difference(other: float | None, paid: float | None, sign: int) -> float | None:
    return None if other is None or paid is None else sign * (other - paid)


def _part(whole: int, counted: int, of: int) -> int:
    """The part of a whole that is as large as what was counted of another."""
    return min(whole, round(whole * counted / of)) if of > 0 else 0
