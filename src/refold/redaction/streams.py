"""Streams of text without their secrets, in pieces that can be searched one by one.

Neighbours: `redact` does this for a whole text, `private_keys` says how long a key may be.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from refold.redaction.known import KnownSecrets
from refold.redaction.private_keys import KEY_CHARS
from refold.redaction.redact import redacted

HELD_CHARS, LINE_CHARS = 64_000, 1_000_000


def redacted_chunks(
    chunks: Iterable[bytes], *, emails: bool = False, known: KnownSecrets | None = None
) -> Iterator[bytes]:
    """A stream of UTF-8 text without its secrets, such as an export for reading. Those that are
    `known` go wherever they stand."""
    values = known or KnownSecrets()
    for piece in pieces(chunks):
        yield values.redacted(redacted(piece, emails=emails)).encode()


def pieces(chunks: Iterable[bytes]) -> Iterator[str]:
    """A stream of UTF-8 text in pieces that can be searched one by one. What is held back is
    bounded; a piece ends at the end of a line, and never inside a private key."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    waiting: list[str] = []
    size, enough = 0, HELD_CHARS
    for chunk in chunks:
        waiting.append(decoder.decode(chunk))
        size += len(waiting[-1])
        if size > enough:
            held = "".join(waiting)
            end = _piece_end(held)
            if end:
                yield held[:end]
            waiting = [held[end:]]
            size = len(waiting[0])
            # Where no piece could end, the next try waits for as much again: the cost of many
            # small chunks does not grow with their square.
            enough = size + HELD_CHARS
    yield "".join(waiting) + decoder.decode(b"", True)


def _piece_end(text: str) -> int:
    """How much of a text can be searched without what comes after it: 0 if there is no such
    place yet."""
    end = text.rfind("\n") + 1
    if not end and len(text) > LINE_CHARS:
        end = len(text)
    key = text.rfind("-----BEGIN", max(0, end - KEY_CHARS), end)
    is_in_key = key > text.rfind("-----END", 0, end)
    return text.rfind("\n", 0, key) + 1 if is_in_key else end
