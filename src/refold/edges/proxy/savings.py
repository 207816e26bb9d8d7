"""Savings: the tokens and money of each call and of its alternative, the usage in its answer, and
its outcome; and their sums by conversation.

The provider's usage says what was sent. For a folded call, the alternative is the client's own
list, by its bytes; for observed calls, `forecast` plays the fold when somebody asks. Money follows
from the model's prices, with the cache that the provider reports. Usage is read from a copy
of the answer while it streams; only lines that name a usage are decoded. A new process continues
from the last line in the log; lines that a fork shares with its parent count once.

The outcome of each call goes over a pipe that outlives a killed proxy; a line that is never read is
dropped. Neighbours: `observer` brings the usage, `supervisor` counts outcomes, the command `proxy
report` shows sums.
"""

from __future__ import annotations

import os
import re
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold import decoding
from refold.conversations.listing import described, newest, title_of
from refold.core.codec import EVENT_BYTES_MAX
from refold.core.model import Conversation, Usage
from refold.dialects.usage import read_usage
from refold.edges.proxy.body import Copy
from refold.errors import Corrupt, Denied, RefoldError, Unavailable
from refold.log.log import Log
from refold.log.notes import notes_of
from refold.settings.sources import KEEPER
from refold.stores.protocol import Store
from refold.system.http_answer import Unpacker
from refold.tokens.models import cost, dollars, model_info

NOTE = "proxy-call"
CACHE_LIFE_S = 300.0


class CallLine(Struct, frozen=True, kw_only=True):
    """One call in tokens: the client's list, the request, its cached part, the saving, and the part
    written to the cache. A call that was not `folded` saved nothing."""

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
    tokens = f"in {line.input:,}, sent {line.sent:,}, cached {line.cached:,}"
    saved = f", saved {line.saved:,} ({dollars(line.saved_cost)})"
    return tokens + saved if line.folded else tokens


def line_of(data: object) -> CallLine | None:
    """The line in a note; None for a foreign note under our name."""
    try:
        return decoding.convert(data, CallLine)
    except msgspec.ValidationError:
        return None


class Account:
    """The calls of one conversation. Times are wall-clock seconds, since a conversation may
    continue in another process."""

    def __init__(self) -> None:
        self._before: int | None = None  # tokens of the client's list last; None if unknown
        self._at_s = float("-inf")
        self._is_cached = False  # whether the provider ever reported a cache

    def resume(self, line: CallLine, at_s: float) -> None:
        """Continues from the last line of a conversation, written at that time."""
        self._before = line.input
        self._at_s = at_s
        self._is_cached = line.cached > 0 or line.written > 0

    def folded(self, usage: Usage, share: float, *, broke: bool = False) -> CallLine:
        """The line of a folded call whose bytes were this share of the client's; `broke`: it
        changed bytes that the call before had sent."""
        client = max(usage.input, round(usage.input / max(share, 1e-6)))
        other = self._other(usage, client, is_warm=broke or usage.cache_read > 0)
        return self._line(usage, client, client - usage.input, other, folded=share < 1.0)

    def spent(self, usage: Usage) -> CallLine:
        """The line of a call that no client made, for a compaction or our own tools: pure cost."""
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
        """The line of a call that was passed on unchanged."""
        self._before, self._at_s = usage.input, time.time()
        self._is_cached = self._is_cached or usage.cache_read > 0 or usage.cache_write > 0
        return self._line(usage, usage.input, 0, None, folded=False)

    def _other(self, usage: Usage, size: int, *, is_warm: bool) -> float | None:
        """The cost of the call the other way, with the same use of the cache."""
        now = time.time()
        self._is_cached = self._is_cached or usage.cache_read > 0 or usage.cache_write > 0
        read = 0
        if is_warm and self._is_cached:
            read = self._read(usage, size, now)
        self._before, self._at_s = size, now
        written = _part(size - read, usage.cache_write, usage.input - usage.cache_read)
        other = replace(
            usage,
            input=size,
            cache_read=read,
            cache_write=written,
            cache_write_1h=_part(written, usage.cache_write_1h, usage.cache_write),
        )
        return cost(model_info(usage.model or None), other)

    def _read(self, usage: Usage, size: int, now: float) -> int:
        """The part that would have come from the cache the other way: what was sent last, if not
        too long ago; the same part as here, if that is unknown."""
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
            # The same request costs the same: only a guess at its cache could differ.
            saved_cost=_difference(other if saved else paid, paid),
            folded=folded,
        )


def _difference(other: float | None, paid: float | None) -> float | None:
    return None if other is None or paid is None else other - paid


def _part(whole: int, counted: int, of: int) -> int:
    """The same share of a whole as `counted` is of another."""
    return min(whole, round(whole * counted / of)) if of > 0 else 0


LINE_BYTES_MAX = EVENT_BYTES_MAX
COPY_BYTES_MAX = 8 * 1024 * 1024
# No answer of a model is packed more densely, above its first bytes.
DENSITY_MAX, UNPACKED_BYTES = 100, 1024 * 1024
USAGES_MAX = 20_000  # in one stream; some providers name a usage in every event
_USAGE_WORDS = re.compile(rb'"(?:usage|usageMetadata|usage_metadata)"\s*:(?!\s*null)')
_NESTED = ("message", "response")


class UsageReader:
    """Reads the usage of one answer: `feed` it the bytes, then ask for `usage`."""

    def __init__(self, dialect: str, headers: Mapping[str, str]) -> None:
        self._dialect = dialect
        self._is_stream = "text/event-stream" in headers.get("content-type", "")
        self._rest = bytearray()
        self._copy = bytearray()
        self._fields: dict[str, Any] = {}
        self._model = ""
        self._is_lost = False  # unreadable, or too long
        self._is_copied = True
        self._usages = 0
        self._unpacked_max = UNPACKED_BYTES
        try:
            self._unpacker = Unpacker(headers.get("content-encoding", ""))
        except zlib.error:
            self._is_lost = True

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes of the answer."""
        self._unpacked_max += DENSITY_MAX * len(chunk)
        try:
            for piece in () if self._is_lost else self._unpacker.pieces(chunk):
                self._take_piece(piece)
                if self._is_lost:
                    return
        except zlib.error:
            self._lose()

    def _take_piece(self, piece: bytes) -> None:
        self._unpacked_max -= len(piece)
        self._is_copied = self._is_copied and len(self._copy) + len(piece) <= COPY_BYTES_MAX
        if self._is_copied:
            self._copy += piece
        else:
            self._copy.clear()
        if self._is_stream:
            self._take_lines(piece)
        else:
            self._rest += piece
        if len(self._rest) > LINE_BYTES_MAX or self._unpacked_max < 0:
            self._lose()

    def _take_lines(self, piece: bytes) -> None:
        """Takes the complete lines. A line may come in thousands of pieces, and nothing is searched
        twice."""
        ended, newline, begun = piece.rpartition(b"\n")
        if newline:
            whole = bytes(self._rest + ended)
            self._rest.clear()
            end = 0
            for word in _USAGE_WORDS.finditer(whole):
                if word.start() >= end and self._usages < USAGES_MAX:
                    self._usages += 1
                    begin = whole.rfind(b"\n", end, word.start()) + 1 or end
                    end = whole.find(b"\n", word.end())
                    end = len(whole) if end < 0 else end + 1
                    self._take(whole[begin:end])
        self._rest += begun

    def _lose(self) -> None:
        self._is_lost = True
        self._rest.clear()
        self._copy.clear()

    def _take(self, line: bytes) -> None:
        """Takes the usage in a line of a stream, or in a whole body."""
        try:
            said = decoding.foreign_value(line.strip().removeprefix(b"data:"))
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
            # A stream has some of it at its beginning, and the rest at its end.
            self._fields.update({key: value for key, value in found.items() if value is not None})
        model = said.get("model") or said.get("modelVersion")
        self._model = model if isinstance(model, str) else self._model

    @property
    def copy(self) -> Copy | None:
        """The unpacked answer; None if it is unreadable or too long."""
        if self._is_lost or not self._is_copied:
            return None
        return Copy(bytes(self._copy), self._is_stream)

    @property
    def usage(self) -> Usage | None:
        """The usage so far; None if the answer names none."""
        if _USAGE_WORDS.search(self._rest):
            self._take(bytes(self._rest))
        self._rest.clear()
        if not self._fields:
            return None
        try:
            read = read_usage(self._fields, self._dialect)
        except (RefoldError, TypeError, ValueError):
            return None
        return msgspec.structs.replace(read, model=read.model or self._model)


KEPT = ""
REASON_CHARS = 300
Told = Callable[[str], None]


class Tally:
    """Counts the outcomes on a pipe. `why` is the latest reason why something was not kept."""

    def __init__(self, descriptor: int) -> None:
        self.kept = self.unkept = 0
        self.why = ""
        self._thread = threading.Thread(target=self._count, args=(descriptor,), daemon=True)
        self._thread.start()

    def _count(self, descriptor: int) -> None:
        with open(descriptor, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if (reason := line.strip()) == KEPT:
                    self.kept += 1
                else:
                    self.unkept += 1
                    self.why = reason

    def lose(self, reason: str) -> None:
        """Sets the reason why nothing is kept from now on."""
        self.why = reason

    def finish(self, wait_s: float) -> None:
        """Waits for the outcomes of all writers until they have ended."""
        self._thread.join(wait_s)


def teller(descriptor: int | None) -> Told:
    """A function that writes the outcome of a call to a pipe: KEPT, or the reason why not."""
    if descriptor is None:
        return lambda _: None
    os.set_blocking(descriptor, False)

    def tell(reason: str) -> None:
        line = " ".join(reason.split())[:REASON_CHARS] + "\n"
        with suppress(OSError):
            os.write(descriptor, line.encode("utf-8", "replace"))

    return tell


def reason_of(error: Exception) -> str:
    """Why a call was not kept, without any of its words: only the kind of an error that may quote
    them."""
    if isinstance(error, TimeoutError):
        return "the log took too long"
    if isinstance(error, Unavailable | Denied | Corrupt):
        return error.message
    return error.code if isinstance(error, RefoldError) else type(error).__name__


def place_of(error: Exception) -> str:
    """The kind and place of a failure, without the content being read."""
    places = [
        f"{one.filename.rpartition('/')[2]}:{one.lineno}"
        for one in traceback.extract_tb(error.__traceback__)
    ]
    code = error.code if isinstance(error, RefoldError) else ""
    return " ".join([type(error).__name__, code, *places])


# --- sums ---


class Sum(Struct, frozen=True, kw_only=True):
    """The calls of a conversation, or of all. Money is None if no call has a known price."""

    conversation: str
    title: str = ""
    calls: int = 0
    folded: int = 0
    input: int = 0
    sent: int = 0
    cached: int = 0
    output: int = 0
    saved: int = 0
    cost: float | None = None
    saved_cost: float | None = None


def sums(store: Store, since_ms: int = 0) -> Iterator[Sum]:
    """The conversations that came through a proxy, newest first, with their calls since then."""
    for about in newest(store, tag=KEEPER):
        if about.updated_ms < since_ms:
            continue
        lines = list(_lines(store, about, since_ms))
        if lines:
            title = title_of(store, about.id, described(store, about).title)
            yield msgspec.structs.replace(added(about.id, lines), title=title)


def _lines(store: Store, about: Conversation, since_ms: int) -> Iterator[CallLine]:
    # A restore takes messages off the page, but not off the bill.
    for note in notes_of(Log(store, about.id), NOTE, also_off=True):
        is_own = note.seq > about.parent_seq and note.at_ms >= since_ms
        line = line_of(note.data) if is_own else None
        if line is not None:
            yield line


def added(name: str, lines: Iterable[CallLine | Sum]) -> Sum:
    """The sum of lines, or of sums."""
    given = list(lines)
    costs = [one.cost for one in given if one.cost is not None]
    saved = [one.saved_cost for one in given if one.saved_cost is not None]
    return Sum(
        conversation=name,
        calls=sum(one.calls if isinstance(one, Sum) else 1 for one in given),
        folded=sum(int(one.folded) for one in given),
        input=sum(one.input for one in given),
        sent=sum(one.sent for one in given),
        cached=sum(one.cached for one in given),
        output=sum(one.output for one in given),
        saved=sum(one.saved for one in given),
        cost=sum(costs) if costs else None,
        saved_cost=sum(saved) if saved else None,
    )
