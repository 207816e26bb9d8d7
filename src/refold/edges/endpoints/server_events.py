"""Server-sent events, as the providers stream their replies: the JSON object of each.

Only `data` counts, in one line or several; an `error` field, which some servers of llama.cpp send,
is read like it. Bytes may be cut anywhere. Neighbours: `client` gives the bytes, `chat` reads the
objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from refold.errors import Unavailable

END = "[DONE]"
FIELDS = ("data", "error")


def objects(chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The objects of a stream, as they come. Unavailable for data that is no JSON object."""
    data: list[str] = []
    for line in _lines(chunks):
        name, _, value = line.partition(":")
        if name in FIELDS:
            data.append(value.removeprefix(" "))
        elif not line and data:
            if data == [END]:
                return
            yield _decoded("\n".join(data))
            data = []
    if data and data != [END]:
        # The empty line that ends an event is missing at the end of some streams.
        yield _decoded("\n".join(data))


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """The lines of a stream of bytes; a line ends with LF or CRLF."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")
    if rest:
        yield rest.removesuffix(b"\r").decode("utf-8", "replace")


def _decoded(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _unreadable(text) from error
    if not isinstance(value, dict):
        raise _unreadable(text)
    return value


def _unreadable(text: str) -> Unavailable:
    reason = f"the stream holds {len(text):,} characters that are not a JSON object"
    return Unavailable(reason, hint="check the address and the kind of the endpoint")
