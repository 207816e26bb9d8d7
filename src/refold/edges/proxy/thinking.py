"""Thinking that the provider does not take back, because it was thought under another front.

Where refold acts, a client's own list holds thinking that stands under our page. If refold then
fails, that list goes up as it came, and the provider may refuse it: it is sent once more without
any thinking, so that the agent goes on. Where the page left thinking out of an open tool loop, and
the client asks for thinking by a budget, its calls are said as text, as in the library. Neighbours:
`app` asks for calls that are not only observed, `observer` has the page renewed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from refold import decoding
from refold.dialects.anthropic.thinking import with_loops_said
from refold.edges.proxy.body import Asked, Wire
from refold.tokens.models import model_info

_REFUSED = re.compile(rb"`signature`.{0,20}`(redacted_)?thinking`")
_THINKING = frozenset({"thinking", "redacted_thinking"})
_NOTHING = [{"type": "text", "text": "…"}]  # a message has to say something


def with_loops_taken(asked: Asked, wires: Sequence[Wire]) -> Sequence[Wire]:
    """The messages of a page, so that every answer of an open tool loop begins with thinking. A
    model that does not bind its thinking keeps that of the loop anyway, and one that thinks when
    it likes (`adaptive`) takes calls without."""
    is_by_budget = b'"enabled"' in bytes(asked.fields.get("thinking", b""))
    if asked.dialect != "anthropic" or not is_by_budget:
        return wires
    is_bound = model_info(asked.model or None).thinking_bound
    return with_loops_said(list(wires)) if is_bound else wires


def is_refused(status: int, answer: bytes) -> bool:
    """Whether a provider says that it does not take thinking back."""
    return status == 400 and _REFUSED.search(answer) is not None


def without_thinking(body: bytes) -> bytes | None:
    """The body without any thinking in its messages; None if there is none."""
    try:
        fields = decoding.decode(body, dict[str, msgspec.Raw])
        messages = decoding.decode(fields["messages"], list[dict[str, Any]])
    except (msgspec.DecodeError, KeyError):
        return None
    plain = list(map(_plain, messages))
    if plain == messages:
        return None
    return msgspec.json.encode({**fields, "messages": msgspec.Raw(msgspec.json.encode(plain))})


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    kept = [one for one in content if not is_thinking(one)]
    return message if len(kept) == len(content) else {**message, "content": kept or _NOTHING}


def is_thinking(block: Any) -> bool:
    """Whether a block of the Messages API is thinking."""
    return isinstance(block, dict) and block.get("type") in _THINKING
