"""What a team server says of changes while somebody listens: a hint for each.

A hint promises nothing. Whoever missed one finds out by comparing heads, and compares all of them
after `is_all`: where the listening began, and where the server no longer knows what was told. The
server is heard from every few seconds; if it is not, the connection is over. Neighbours: `client`
calls, `stores.hybrid.follower` listens.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from refold import decoding
from refold.errors import Unavailable
from refold.stores.protocol import NewHeads

if TYPE_CHECKING:
    import httpx

LINE_BYTES_MAX = 8 * 1024 * 1024
DATA = b"data: "


class _Change(Struct):
    conversation: str
    head: int


class _Changes(Struct, kw_only=True):
    cursor: str
    changes: list[_Change]
    rescan: bool = False


class Feed:
    """The hints of one connection, as they come. `cursor` is where another goes on."""

    def __init__(
        self,
        response: httpx.Response,
        cursor: str,
        translated: Callable[[Callable[[], bytes | None]], bytes | None],
    ) -> None:
        self._response, self._translated = response, translated
        self.cursor = cursor

    def __iter__(self) -> Iterator[NewHeads]:
        try:
            for line in self._lines():
                if line.startswith(DATA + b"{"):
                    yield self._hint(line.removeprefix(DATA))
        finally:
            self._response.close()

    def _hint(self, data: bytes) -> NewHeads:
        try:
            said = decoding.decode(data, _Changes)
        except msgspec.DecodeError as error:
            raise Unavailable(f"the feed is not understood: {error}") from error
        self.cursor = said.cursor
        heads = {one.conversation: one.head for one in said.changes}
        return NewHeads(heads=heads, is_all=said.rescan)

    def _lines(self) -> Iterator[bytes]:
        parts = self._response.iter_bytes()
        rest = b""
        while (part := self._translated(lambda: next(parts, None))) is not None:
            *lines, rest = (rest + part).split(b"\n")
            if len(rest) > LINE_BYTES_MAX:
                raise Unavailable(f"a line of the feed is longer than {LINE_BYTES_MAX:,} bytes")
            yield from lines

    def end(self) -> None:
        """Ends the listening, from any thread: whoever waits for the next hint stops waiting."""
        stream = self._response.extensions.get("network_stream")
        plain = stream.get_extra_info("socket") if stream is not None else None
        if plain is not None:
            with contextlib.suppress(OSError):
                plain.shutdown(socket.SHUT_RDWR)
