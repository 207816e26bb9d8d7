"""What goes back over the wire: a body, whole or in pieces, and how it is sent."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.real.proxy.strict.script import Answer
from tests.real.proxy.strict.wire import Json, digest


@dataclass(frozen=True)
class Call:
    """One request: its path with the query, its headers in lower case, and its body."""

    path: str
    headers: dict[str, str]
    body: Json

    @property
    def account(self) -> str:
        """A digest of the key it came with; empty if there is none."""
        names = ("x-api-key", "x-goog-api-key", "authorization")
        keys = (self.headers.get(name, "") for name in names)
        key = next(filter(None, keys), "")
        return digest(key.removeprefix("Bearer ")) if key else ""

    @property
    def queue(self) -> str:
        return self.headers.get("x-script", "")


@dataclass(frozen=True)
class Reply:
    """A body in pieces; one piece is a whole body, more are a stream."""

    pieces: list[bytes]
    answer: Answer
    content_type: str = "application/json"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def whole(body: Any, answer: Answer | None = None) -> Reply:
    return Reply([json.dumps(body).encode()], answer or Answer(None))


def streamed(events: Iterable[Json], answer: Answer, *, named: bool, end: str = "") -> Reply:
    """Server-sent events, each a piece, with an `event:` line where the API has one."""
    pieces = []
    for event in events:
        head = f"event: {event['type']}\n" if named else ""
        pieces.append(f"{head}data: {json.dumps(event)}\n\n".encode())
    if end:
        pieces.append(end.encode())
    return Reply(pieces, answer, content_type="text/event-stream; charset=utf-8")


def halves(text: str) -> list[str]:
    """A text in two pieces; one where it is too short."""
    middle = len(text) // 2
    return [text[:middle], text[middle:]] if middle else [text]
