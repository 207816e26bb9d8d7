"""What a call was billed, read from a copy of its answer while that streams by.

Only lines that name a usage are decoded, so a long answer costs a search for one word. The copy is
unpacked here if it is packed; what cannot be read is left alone, and the answer never touched.
Neighbours: `dialects.usage` knows the four shapes, `app` feeds the chunks, `reply` reads what was
said from the same copy.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from refold.core.model import Usage
from refold.dialects.usage import read_usage
from refold.edges.proxy.reply import Copy
from refold.errors import RefoldError

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
