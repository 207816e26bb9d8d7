"""What makes anything fit to be shown to a person: times, counts, and text that can neither
steer a terminal nor forge a line."""

from __future__ import annotations

import re
from collections import Counter as Tally
from datetime import UTC, datetime

_PUNCTUATION = re.compile(r"[\\`*\[\]<>&|]")
_SPACES = re.compile(r"\s+")
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)


def counted(parts: Tally[str]) -> str:
    """`45 (20 user, 15 assistant, 10 tool)`."""
    details = ", ".join(f"{number:,} {name}" for name, number in parts.items() if number)
    return f"{parts.total():,}" + (f" ({details})" if details else "")


def plural(type: str, number: int) -> str:
    """`8 files`, `1 command output`."""
    return type.replace("_", " ") + ("s" if number != 1 and type != "custom" else "")


def moment(at_ms: int) -> str:
    """A time that a person can read; a number that is no time stays a number."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return str(at_ms)


def inline(text: str) -> str:
    """A text as part of one Markdown line: it can open no block, link, tag or code."""
    return _PUNCTUATION.sub(r"\\\g<0>", visible(_SPACES.sub(" ", text).strip()))


def visible(text: str) -> str:
    """The text with every sign that would steer a terminal or turn the writing direction shown
    as an escape. Newlines and tabs stay."""
    return _HIDDEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )
