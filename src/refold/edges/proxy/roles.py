"""The roles of a page as the client's own list has them.

Where the client's messages take turns, ours do: some gateways refuse two of a user in a row, and a
summary that stands before a message of the user's would make two. What the client said as system
inside its list stays so where the provider takes it, directly after the user. Both follow from the
page and from the beginning of the client's list alone, so what was sent stays as it was sent.
Neighbours: `observer` asks, `page` encodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from refold.edges.proxy.body import Wire

LOOKED_AT = 8  # messages by which a list is known to take turns
_CONTENTS = {"anthropic": "content", "openai_chat": "content", "gemini": "parts"}


def as_the_client_has_them(
    wires: Sequence[Wire], own: Sequence[Wire], dialect: str
) -> Sequence[Wire]:
    """The messages of a page, in the roles of the client's list."""
    key = _CONTENTS.get(dialect)
    if key is None or not _takes_turns(own[:LOOKED_AT]):
        return wires
    made: list[Wire] = []
    for wire in wires:
        if made and wire.get("role") == made[-1].get("role") == "user":
            made[-1] = {**made[-1], key: _joined(made[-1].get(key), wire.get(key))}
        else:
            made.append(wire)
    return made


def _takes_turns(own: Sequence[Wire]) -> bool:
    return all(one.get("role") != other.get("role") for one, other in pairwise(own))


def _joined(one: Any, other: Any) -> list[Any]:
    return [*_parts(one), *_parts(other)]


def _parts(content: Any) -> Sequence[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def in_place(chosen: Sequence[Wire]) -> list[Wire]:
    """The messages; what the system says elsewhere than directly after the user, the user says."""
    before = ["", *(one.get("role") for one in chosen)]
    return [
        {**one, "role": "user"} if one.get("role") == "system" and role != "user" else one
        for role, one in zip(before, chosen, strict=False)
    ]
