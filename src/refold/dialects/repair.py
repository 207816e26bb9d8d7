"""What every dialect does alike with a part that its provider would refuse, although it came in.

A log keeps what came, whatever it was; a request holds only what the provider takes. A part that it
would refuse is sent as the text in it, or as a note, or not at all, and `lost` says so. What nobody
knows yet is carried as it is. Neighbours: the `repair` modules of the dialects know the rules of
their providers; they are written apart from `check`, which tests them.
"""

from __future__ import annotations

import json
import re
from typing import Any

from refold.checked import quoted
from refold.core.model import Opaque
from refold.dialects.wire import plain_id, report, shown_text

# Parts that one of the providers has: where it stands in another's message, or in a place that is
# not its own, it is refused. Any other type may be new, and is carried as it is.
KNOWN_PARTS = frozenset({
    "text", "image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result",
    "image_url", "input_audio", "file", "refusal", "input_text", "output_text", "input_image",
    "input_file",
})  # fmt: skip
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` makes one for every call
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"


def is_fitting(name: Any, length_max: int) -> bool:
    """Whether providers take this as the name of a tool."""
    return isinstance(name, str) and len(name) <= length_max and bool(_NAME.fullmatch(name))


def fitting_name(name: Any, dialect: str, length_max: int, lost: list[str]) -> str:
    """The name of a tool in characters that the provider takes; the same for the same name."""
    if is_fitting(name, length_max):
        return name  # type: ignore[no-any-return]
    fit = plain_id(name if isinstance(name, str) else "tool", length_max)
    report(lost, f"the tool {quoted(name, 80)} is called {fit} here: {dialect} takes no such name")
    return fit


def argument_text(arguments: Any) -> str:
    """The arguments of a call as text; an object without fields for none."""
    if isinstance(arguments, str):
        return arguments
    return "{}" if arguments is None else _ENCODE(arguments)


def is_base64(data: Any) -> bool:
    """Whether this is base64, of either alphabet."""
    if not isinstance(data, str) or not data:
        return False
    digits = data.rstrip("=")
    is_padded = len(data) - len(digits) <= 2
    return is_padded and bool(digits) and digits.isascii() and not _rest(digits)


def _rest(digits: str) -> bytes:
    """What of a text is not a digit of base64."""
    return digits.encode().translate(None, _BASE64)


def is_data_url(url: str) -> bool:
    """Whether a URL with its content in it has content that can be decoded."""
    return is_base64(url.partition(";base64,")[2])


def refused_text(part: Any, dialect: str, lost: list[str]) -> str:
    """What is said in the place of a part that the provider would refuse: the text in it, or a
    note for media, or nothing."""
    kind = part.get("type") if isinstance(part, dict) else type(part).__name__
    text = _text_in(part, kind)
    fate = "sent as text" if text else "not sent"
    report(lost, f"a part of type {quoted(kind, 40)} is {fate}: {dialect} takes no such part there")
    return text


_MEDIA = ("image", "document", "audio", "file", "video", "inlineData", "fileData")


def _text_in(part: Any, kind: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    text = shown_text(Opaque(raw=part))
    if not text and isinstance(kind, str):
        text = next((f"[{name}]" for name in _MEDIA if name in kind), "")
    return text
