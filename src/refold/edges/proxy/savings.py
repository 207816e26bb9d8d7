"""What each call took and what folding saved of it, in tokens and money; one line a call.

The provider's usage says what was sent. What the other way would have been is worked out from it:
of a folded call, what the client's own list would have had, by its bytes; of a call that was only
observed, what a fold would have left, by plans made where one would have been due. Money follows
from the model's prices, the other way with the cache that the provider reports: none, or one that
holds whatever was sent last time. A new process goes on from the last line in the log.
Neighbours: `observer` brings the usage, `report` adds the lines up.

What a call was billed, read from a copy of its answer while that streams by.

Only lines that name a usage are decoded, so a long answer costs a search for one word. The copy is
unpacked here if it is packed; what cannot be read is left alone, and the answer never touched.
Neighbours: `dialects.usage` knows the four shapes, `app` feeds the chunks, `reply` reads what was
said from the same copy.

What became of the calls of one agent: kept, or not and why; said over a pipe, one line a call.

The pipe outlives a proxy that is killed, and what was said before is not lost with it. Saying never
waits: a line that nobody reads is dropped. Neighbours: `app` says, `supervisor` counts and the
command `run` tells the person.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold import decoding
from refold.core.model import Usage
from refold.dialects.usage import read_usage
from refold.edges.proxy.body import Copy
from refold.errors import Corrupt, Denied, RefoldError, Unavailable
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


LINE_BYTES_MAX = 32 * 1024 * 1024
COPY_BYTES_MAX = 8 * 1024 * 1024
_TELLING = (b'"usage"', b'"usageMetadata"', b'"usage_metadata"')
_NESTED = ("message", "response")


class UsageReader:
    """Reads the usage of one answer. `feed` it what comes, then ask for `usage`."""

    def __init__(self, dialect: str, headers: Mapping[str, str]) -> None:
        self._dialect = dialect
        self._is_stream = "text/event-stream" in headers.get("content-type", "")
        self._unpacked = _unpacker(headers.get("content-encoding", ""))
        self._rest = bytearray()
        self._copy = bytearray()
        self._fields: dict[str, Any] = {}
        self._model = ""
        self._is_lost = False  # it cannot be read, or is too long

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes of the answer."""
        if self._is_lost:
            return
        try:
            plain = self._plain(chunk)
        except zlib.error:
            self._lose()
            return
        if len(self._copy) <= COPY_BYTES_MAX:
            self._copy += plain
        if self._is_stream:
            self._take_lines(plain)
        else:
            self._rest += plain
        if len(self._rest) > LINE_BYTES_MAX:
            self._lose()

    def _take_lines(self, plain: bytes) -> None:
        """Takes the lines that are whole now. A line may come in thousands of pieces: what was
        looked at is not looked at again."""
        ended, newline, begun = plain.rpartition(b"\n")
        if newline:
            whole, self._rest = self._rest + ended, bytearray()
            for line in whole.split(b"\n"):
                self._take(line.strip())
        self._rest += begun

    def _plain(self, chunk: bytes) -> bytes:
        """The bytes unpacked, if they are packed; bounded, because others packed them."""
        if self._unpacked is None:
            return chunk
        plain: bytes = self._unpacked.decompress(chunk, LINE_BYTES_MAX)
        if self._unpacked.unconsumed_tail:
            raise zlib.error("packed more densely than any answer")
        return plain

    def _lose(self) -> None:
        self._is_lost = True
        self._rest.clear()

    def _take(self, line: bytes | bytearray) -> None:
        """Takes what a line of a stream, or a whole body, says of its usage."""
        if not any(word in line for word in _TELLING):
            return
        try:
            said = msgspec.json.decode(bytes(line).removeprefix(b"data:").strip())
        except msgspec.DecodeError:
            return
        for one in said if isinstance(said, list) else [said]:
            self._take_fields(one)

    def _take_fields(self, said: Any) -> None:
        if not isinstance(said, dict):
            return
        for name in _NESTED:
            if isinstance(said.get(name), dict):
                self._take_fields(said[name])
        found = said.get("usage") or said.get("usageMetadata") or said.get("usage_metadata")
        if isinstance(found, dict):
            # A stream says some of it at its beginning, and the rest at its end.
            self._fields.update({key: value for key, value in found.items() if value is not None})
        model = said.get("model") or said.get("modelVersion")
        self._model = model if isinstance(model, str) else self._model

    @property
    def copy(self) -> Copy | None:
        """What came, unpacked; None if it could not be read, or is too long to be kept."""
        if self._is_lost or len(self._copy) > COPY_BYTES_MAX:
            return None
        return Copy(bytes(self._copy), self._is_stream)

    @property
    def usage(self) -> Usage | None:
        """What was billed, as far as it was said; None if nothing was."""
        if self._rest and not self._is_lost:
            self._take(self._rest.strip())
            self._rest.clear()
        if not self._fields:
            return None
        try:
            read = read_usage(self._fields, self._dialect)
        except (RefoldError, TypeError, ValueError):
            return None
        return msgspec.structs.replace(read, model=read.model or self._model)


def _unpacker(coding: str) -> Any:
    """What unpacks a copy; None where nothing is packed."""
    match coding.strip().lower():
        case "gzip" | "x-gzip":
            return zlib.decompressobj(16 + zlib.MAX_WBITS)
        case "deflate":
            return zlib.decompressobj()
        case _:
            return None


KEPT = ""
REASON_CHARS = 300
Told = Callable[[str], None]


class Tally:
    """Counts what is said on a pipe. `why` is the newest reason why something was not kept."""

    def __init__(self, descriptor: int) -> None:
        self.kept = self.unkept = 0
        self.why = ""
        self._thread = threading.Thread(target=self._count, args=(descriptor,), daemon=True)
        self._thread.start()

    def _count(self, descriptor: int) -> None:
        with open(descriptor, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self._take(line.strip())

    def _take(self, reason: str) -> None:
        if reason == KEPT:
            self.kept += 1
        else:
            self.unkept += 1
            self.lose(reason)

    def lose(self, reason: str) -> None:
        """Something is not kept from now on, and nobody counts it."""
        self.why = reason

    def finish(self, wait_s: float) -> None:
        """Waits for what was said before everybody who says something has ended."""
        self._thread.join(wait_s)


def teller(descriptor: int | None) -> Told:
    """What says on a pipe what became of a call: KEPT, or the reason why not."""
    if descriptor is None:
        return lambda _: None
    os.set_blocking(descriptor, False)

    def tell(reason: str) -> None:
        line = " ".join(reason.split())[:REASON_CHARS] + "\n"
        with suppress(OSError):
            os.write(descriptor, line.encode("utf-8", "replace"))

    return tell


def reason_of(error: Exception) -> str:
    """Why a call was not kept, without a word of what it said: of errors that quote what they were
    given, only the kind."""
    if isinstance(error, TimeoutError):
        return "the log took too long"
    if isinstance(error, Unavailable | Denied | Corrupt):
        return error.message
    return error.code if isinstance(error, RefoldError) else type(error).__name__


def place_of(error: Exception) -> str:
    """What failed and where, without a word of what was being read."""
    places = [
        f"{one.filename.rpartition('/')[2]}:{one.lineno}"
        for one in traceback.extract_tb(error.__traceback__)
    ]
    code = error.code if isinstance(error, RefoldError) else ""
    return " ".join([type(error).__name__, code, *places])
