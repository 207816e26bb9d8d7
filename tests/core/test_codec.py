"""Bodies under a valid seal that say anything: a log may come with a clone, and its seals prove only
that nothing changed since."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

import pytest

from refold.core import codec
from refold.core.codec import ZERO, seal
from refold.core.ids import uuid7
from refold.core.model import Event
from refold.errors import Corrupt

BODIES: dict[str, list[dict[str, Any]]] = {
    "message": [
        {"role": "user", "blocks": [{"type": "text", "text": "a"}], "dialect": "anthropic"},
        {"role": "tool", "blocks": [{"type": "tool_result", "call": "t", "content": []}]},
    ],
    "edit": [{"type": "hide", "batch": "b", "span": [1, 2], "notice": "n"}],
    "memory": [{"entry": "mem-1", "content": "the port is 8080", "source": ["x", 1]}],
    "artifact": [{"id": "a", "digest": "d", "origin": {"tool": "read"}}],
    "usage": [{"model": "m", "input": 5}],
    "meta": [{"title": "t", "tags": ["a"], "windows": {"m": 1}}],
}
VALUES = (None, True, -1, 2**70, 1.5e308, "", "x_new", [], {}, [None], {"type": "x_new"})
NEWER = {"type": "x_new", "a": 1}


def event_of(kind: str, body: bytes) -> Event:
    id = uuid7(1, bytes(10))
    return seal(ZERO, 1, id=id, at_ms=1, by="x", kind=kind, body=body, salt=b"salt")


def holders(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value
    below = [holder for one in inner if isinstance(one, dict | list) for holder in holders(one)]
    return [value, *below]


def changed(body: dict[str, Any], draw: Random) -> bytes:
    """The body with some places changed, taken out, nested or cut off."""
    body = copy.deepcopy(body)
    if draw.random() < 0.5 and "blocks" in body:
        body["blocks"].insert(
            draw.randrange(2), {**NEWER}
        )  # as a newer version may have written it
    for _ in range(draw.choice((1, 1, 2))):
        holder = draw.choice([one for one in holders(body) if one] or [body])
        places = list(holder) if isinstance(holder, dict) else range(len(holder))
        if not places:
            continue
        place = draw.choice(list(places))
        if draw.random() < 0.3 and isinstance(holder, dict):
            del holder[place]
        else:
            holder[place] = copy.deepcopy(draw.choice(VALUES))
    text = json.dumps(body)
    match draw.randrange(6):
        case 0:
            text = text[: draw.randrange(len(text))]
        case 1:
            depth = draw.choice((90, 900, 100_000))
            text = text.replace("1", "[" * depth + "]" * depth, 1)
        case 2:
            text = text.replace('"', '"\\ud800', 1)
    return text.encode()


@pytest.mark.parametrize("kind", BODIES)
def test_a_body_that_says_anything_is_read_or_corrupt(kind: str) -> None:
    draw = Random(kind)
    outcomes = set()
    for _ in range(400):
        event = event_of(kind, changed(draw.choice(BODIES[kind]), draw))
        try:
            codec.decode(event)
            outcomes.add("read")
        except Corrupt as error:
            assert error.hint
            outcomes.add("corrupt")
        assert isinstance(codec.unknown_in(event), list)
    assert outcomes == {"read", "corrupt"}
