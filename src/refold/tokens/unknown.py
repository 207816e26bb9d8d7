"""What a request carries that no block of ours stands for: unknown keys, and a provider's own
blocks.

It is sent, so it is counted: as JSON, without what only frames a message (roles, types, ids, empty
values). An image inside counts as an image, and sealed data by its size, because neither is read
letter by letter. Neighbours: `counter` adds it to the blocks, `dialects.form` keeps unknown keys,
with a hole `{"$": …}` where a block stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from math import ceil
from typing import Any

import msgspec

from refold.core.model import Media
from refold.tokens.media import MediaRule, media_tokens
from refold.tokens.schemas import json_text

HOLE = "$"
# Keys whose values say how a message is built, unless a value is longer than any such word.
FRAMES = frozenset(
    {
        "cache_control", "call_id", "created_at", "detail", "format", "id", "index", "media_type",
        "mime_type", "mimeType", "name", "object", "phase", "role", "status", "tool_call_id",
        "tool_use_id", "type",
    }
)  # fmt: skip
FRAME_CHARS_MAX = 64
SMALL_BYTES_MAX, SMALL_KEPT = 512, 1_024
DEPTH_MAX = 64
# Withheld thinking is its text, sealed and written as base64: 4 characters for 3 bytes, 4 bytes
# for a token.
SEALED_CHARS_PER_TOKEN = 16 / 3
SEALED_CHARS_MIN = 256
_SEALED = re.compile(r"[A-Za-z0-9+/_=-]+\Z")
_IMAGES = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR")  # PNG, JPEG, GIF and WebP as base64
_IMAGE_URL = "data:image/"


def unknown_tokens(value: object, count: Callable[[str], int], rule: MediaRule) -> int:
    """The tokens of a value that is sent as it came; nothing where it only frames what blocks
    hold."""
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        encoded = b""
    is_small = 0 < len(encoded) <= SMALL_BYTES_MAX
    text, apart = _small_parts(encoded, rule) if is_small else _parts(value, rule)
    return (count(text) if text else 0) + apart


@lru_cache(maxsize=SMALL_KEPT)
def _small_parts(encoded: bytes, rule: MediaRule) -> tuple[str, int]:
    """What `_parts` gives. Messages of one kind have one form, so the same comes again and
    again."""
    return _parts(msgspec.json.decode(encoded), rule)


def _parts(value: object, rule: MediaRule) -> tuple[str, int]:
    """The text that is to be counted, and the tokens of what is not read letter by letter."""
    apart: list[int] = []
    rest = _rest(value, apart, rule, 0)
    return ("" if rest is None else json_text(rest)), sum(apart)


def _rest(value: Any, apart: list[int], rule: MediaRule, depth: int) -> Any:
    """What is left to be counted as text; None if nothing is. The sizes of images and of sealed
    data go to `apart`."""
    if depth > DEPTH_MAX:
        return value
    if isinstance(value, str):
        return _text_rest(value, apart, rule)
    if isinstance(value, dict):
        pairs = {
            key: _rest(item, apart, rule, depth + 1)
            for key, item in _entries(value)
            if not _is_frame(key, item)
        }
        return {key: item for key, item in pairs.items() if item is not None} or None
    if isinstance(value, list | tuple):
        items = [_rest(item, apart, rule, depth + 1) for item in value]
        return [item for item in items if item is not None] or None
    return None if value is False else value


def _entries(value: dict[str, Any]) -> list[tuple[str, Any]]:
    """The entries of an object. A hole shows its block, and only what stands around that is
    unknown."""
    if len(value) != 1 or HOLE not in value:
        return list(value.items())
    inside = value[HOLE]
    has_form = isinstance(inside, list) and len(inside) == 2
    return [(HOLE, inside[1])] if has_form else _own_entries(inside)


def _own_entries(inside: Any) -> list[tuple[str, Any]]:
    """The sender's own object that looks like a hole; nothing for a block or one of its fields."""
    return list(inside.items()) if isinstance(inside, dict) else []


def _is_frame(key: str, value: object) -> bool:
    if key not in FRAMES:
        return False
    return not isinstance(value, str | list | dict) or len(json_text(value)) <= FRAME_CHARS_MAX


def _text_rest(text: str, apart: list[int], rule: MediaRule) -> str | None:
    """A text, unless it is empty, an image or sealed."""
    if text.startswith((_IMAGE_URL, *_IMAGES)):
        data, url = ("", text) if text.startswith(_IMAGE_URL) else (text, "")
        apart.append(media_tokens(Media(media="image", data=data, url=url), rule))
        return None
    if len(text) >= SEALED_CHARS_MIN and _SEALED.match(text):
        apart.append(sealed_tokens(text))
        return None
    return text or None


def sealed_tokens(data: str) -> int:
    """What data costs that only the provider can read."""
    return ceil(len(data) / SEALED_CHARS_PER_TOKEN)
