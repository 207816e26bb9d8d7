"""How deep JSON is nested, told before anything is made of it: of a document while it streams in,
of a value at once.

A decoder needs all bytes of a document, and a hundred million brackets cost more than the bytes. So
brackets are counted on the way, outside of texts, and the first one too many ends the reading.
Neighbour: `transfer` reads them.
"""

from __future__ import annotations

from typing import Any

from refold.core.codec import DEPTH_MAX, EVENT_BYTES_MAX
from refold.errors import Invalid

_NO_BRACKETS = bytes(sign for sign in range(256) if sign not in b"[]{}")
TOO_DEEP = f"nested more than {DEPTH_MAX} levels deep"


class Nesting:
    """Looks at a document chunk by chunk. An event stands `frame` levels deep in it. `Invalid`
    ends the reading: where something is nested too deep, or has more between its texts than an
    event may have in all."""

    def __init__(self, frame: int) -> None:
        self.frame, self.depth, self.size = frame, 0, 0
        self._in_text, self._rest = False, b""

    def take(self, chunk: bytes) -> None:
        chunk = self._rest + chunk
        # A backslash without the sign that it escapes waits for the next chunk.
        alone = (len(chunk) - len(chunk.rstrip(b"\\"))) % 2
        self._rest = b"\\" * alone
        parts = chunk[: len(chunk) - alone].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        self._count(b"".join(parts[self._in_text :: 2]))
        self._in_text ^= len(parts) % 2 == 0

    def _count(self, plain: bytes) -> None:
        depth = self.depth
        for sign in plain.translate(None, _NO_BRACKETS):
            depth += 1 if sign in b"[{" else -1
            if depth > self.frame + DEPTH_MAX:
                raise Invalid(TOO_DEEP, hint="pass deep structures as text")
            if depth <= self.frame:
                self.size = 0
        self.depth = depth
        self.size += len(plain) if depth > self.frame else 0
        if self.size > EVENT_BYTES_MAX:
            raise Invalid(
                f"an event of more than {EVENT_BYTES_MAX:,} bytes",
                hint="store large content as an artifact",
            )


def depth_checked(value: Any) -> Any:
    """The value itself, if it is nested at most codec.DEPTH_MAX deep; walks without recursion."""
    stack = [(value, 1)]
    while stack:
        item, depth = stack.pop()
        if depth > DEPTH_MAX:
            raise Invalid(TOO_DEEP, hint="pass deep structures as text")
        if isinstance(item, dict):
            stack.extend(
                (child, depth + 1)
                for child in item.values()
                if isinstance(child, dict | list | tuple)
            )
        elif isinstance(item, list | tuple):
            stack.extend(
                (child, depth + 1) for child in item if isinstance(child, dict | list | tuple)
            )
    return value
