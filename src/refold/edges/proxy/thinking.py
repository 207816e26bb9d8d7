"""Thinking that the provider does not take back, because it was thought under another front.

Where refold acts, a client's own list holds thinking that stands under our page. If refold then
fails, that list goes up as it came, and the provider may refuse it: it is sent once more without
any thinking, so that the agent goes on. Neighbours: `app` asks for calls that are not only
observed, `observer` has the page renewed.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from refold import decoding

_REFUSED = re.compile(rb"`signature`.{0,20}`(redacted_)?thinking`")
_THINKING = frozenset({"thinking", "redacted_thinking"})
_NOTHING = [{"type": "text", "text": "…"}]  # a message has to say something


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
