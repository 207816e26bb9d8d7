"""How deep JSON is nested, known before anything is made of it: of a document while it streams in,
of a value at once.

A decoder needs all bytes of a document, and a hundred million brackets cost more than the bytes. So
brackets are counted on the way, outside of texts, and the first one too many ends the reading.
Neighbour: `importer` uses both.
"""

from __future__ import annotations

from typing import Any

from refold.core.codec import DEPTH_MAX, EVENT_BYTES_MAX
from refold.errors import Invalid

_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
NESTED = (dict, list, tuple)
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
            if depth > frame + DEPTH_MAX:
                raise too_deep()
            if depth <= frame:
                self.size = 0
        self.depth = depth
        self.size += len(plain) if depth > frame else 0
        if self.size > EVENT_BYTES_MAX:
            raise Invalid(TOO_LARGE, hint="store large content as an artifact")


def _nested_in(item: Any) -> list[Any]:
    """The objects and lists that stand directly in a value."""
    children = item.values() if isinstance(item, dict) else item
    return [child for child in children if isinstance(child, NESTED)]


def check_depth(value: Any) -> None:
    """Invalid if the value is nested more than DEPTH_MAX deep. Walks without recursion."""
    stack = [(value, 1)] if isinstance(value, NESTED) else []
    while stack:
        item, depth = stack.pop()
        if depth > DEPTH_MAX:
            raise too_deep()
        stack += [(child, depth + 1) for child in _nested_in(item)]
