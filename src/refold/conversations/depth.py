"""How deep a document of JSON is nested, known while it streams in, before anything is made of it.

A decoder needs all bytes of a document, and a hundred million brackets cost more than the bytes. So
brackets are counted on the way, outside of texts, and the first one too many ends the reading.
Neighbours: `importer` uses it, `core.codec` has the bound and checks one body.
"""

from __future__ import annotations

from refold.core.codec import BODY_DEPTH_MAX, DEPTH_MAX, EVENT_BYTES_MAX
from refold.errors import Invalid

_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
TOO_DEEP = f"nested more than {DEPTH_MAX} levels deep"
TOO_LARGE = f"an event of more than {EVENT_BYTES_MAX:,} bytes"


def too_deep() -> Invalid:
    return Invalid(TOO_DEEP, hint="pass deep structures as text")


class Nesting:
    """Looks at a document chunk by chunk. An event is `frame` levels deep in it. Invalid ends the
    reading: where something is nested too deep, or has more between its texts than an event may
    have in all."""

    def __init__(self, frame: int) -> None:
        self.frame, self.depth, self.size = frame, 0, 0
        self._in_text, self._rest = False, b""

    def take(self, chunk: bytes) -> None:
        """Counts the brackets of the next chunk."""
        chunk = self._rest + chunk
        # A backslash without the character that it escapes waits for the next chunk.
        alone = (len(chunk) - len(chunk.rstrip(b"\\"))) % 2
        self._rest = b"\\" * alone
        whole = chunk[: len(chunk) - alone]
        parts = whole.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        self._count(b"".join(parts[self._in_text :: 2]))
        self._in_text ^= len(parts) % 2 == 0

    def _count(self, plain: bytes) -> None:
        depth, frame = self.depth, self.frame
        for byte in plain.translate(None, _NO_BRACKETS):
            depth += 1 if byte in b"[{" else -1
            if depth > frame + BODY_DEPTH_MAX:
                raise too_deep()
            if depth <= frame:
                self.size = 0
        self.depth = depth
        self.size += len(plain) if depth > frame else 0
        if self.size > EVENT_BYTES_MAX:
            raise Invalid(TOO_LARGE, hint="store large content as an artifact")
