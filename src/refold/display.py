"""Text for display: times and counts, cut text and single lines, the nearest known name, text
without colors, and quoted text that can neither control a terminal nor close its own quote. Each of
these is implemented only here. Imports nothing from refold except `patterns`.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterable

from refold.patterns import regex

MARK_DIGITS = 12
NAME_CHARS_MAX = 64
FAILURE_CHARS = 500
# Minimum similarity of two names, by difflib's ratio, for a suggestion. Without a similar name,
# all known names are listed, so a missed one costs little, while a wrong suggestion hides the list.
# 0.6 still accepts two wrong characters in a name of five.
ALIKE_MIN = 0.6

_PUNCTUATION = regex(r"[\\`*\[\]<>&|]")
_BACKTICKS = regex("`+")
_SPACES = regex(r"\s+")
# Invisible characters, for use in a character class of a pattern: direction marks, joiners,
# fillers, variation selectors, tags.
INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Terminal control sequences: colors, cursor movements, and whole link and title sequences.
_CONTROL_SEQUENCE = regex(
    r"\x1b(?:\[[0-9;:?]{0,40}+[ -/]{0,4}+[@-~]|\][^\x07\x1b]{0,2000}+(?:\x07|\x1b\\))"
)
# The variation selectors U+FE0E and U+FE0F belong to the symbol before them, such as a check mark.
_HIDDEN = regex(
    "(?!(?<=[#*0-9\u00a9\u00ae\u2000-\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f])"
    f"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff{INVISIBLE}]"
)


def counted(parts: Tally[str]) -> str:
    """`45 (20 user, 15 assistant, 10 tool)`."""
    details = ", ".join(f"{number:,} {name}" for name, number in parts.items() if number)
    return f"{parts.total():,}" + (f" ({details})" if details else "")


def plural(type: str, number: int) -> str:
    """`8 files`, `1 command output`."""
    return type.replace("_", " ") + ("s" if number != 1 and type != "custom" else "")


def number(count: float, noun: str) -> str:
    """`1 event`, `2,000 events`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def short_number(count: int) -> str:
    """`999`, `58K`, `2.0M`: rounded down."""
    if count < 1_000:
        return str(count)
    if count < 1_000_000:
        return f"{count // 1_000}K"
    return f"{count // 100_000 / 10:.1f}M"


def percent_of(part: int, whole: int) -> int:
    """The share as a whole percentage, rounded down; 0 if `whole` is 0."""
    return 100 * part // whole if whole > 0 else 0


def tokens_of(used: int, window: int) -> str:
    """`45% (58K/128K tokens)`."""
    sizes = f"{short_number(used)}/{short_number(window)} tokens"
    return f"{percent_of(used, window)}% ({sizes})"


def moment(at_ms: int) -> str:
    """A readable time, the same on every machine; a number out of range is returned as a number."""
    # Imported here, because a status line runs many times a minute and needs no times.
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return str(at_ms)


def local_moment(at_ms: int) -> str:
    """The same time for a person: in the zone of this machine, as options such as `--since` read
    it."""
    from datetime import datetime

    try:
        return datetime.fromtimestamp(at_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return str(at_ms)


def ago(age_ms: int) -> str:
    """`2 hours ago`, `just now`."""
    seconds = age_ms // 1_000
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            count = seconds // size
            return f"{count:,} {unit}{'' if count == 1 else 's'} ago"
    return "just now"


def cut(text: str, length: int) -> str:
    """The text in at most `length` characters; shortened text ends with `…`."""
    return text if len(text) <= length else text[: length - 1] + "…"


def whole_words(text: str, length: int) -> str:
    """The beginning of the text in at most `length` characters, without a partial word at its end,
    because part of a secret would not be recognized."""
    short = text[:length]
    if len(text) <= length or text[length].isspace() or short[-1:].isspace():
        return short
    words = short.rsplit(maxsplit=1)
    return words[0] if len(words) > 1 else ""


def one_line(text: str) -> str:
    """The text on one line, with single spaces."""
    return " ".join(text.split())


def nearest(
    name: str, known: Iterable[str], *, limit: int = 1, alike_min: float = ALIKE_MIN
) -> list[str]:
    """The most similar known names, best first; empty if none is similar enough."""
    from difflib import get_close_matches

    shown = str(name)[:NAME_CHARS_MAX]
    return get_close_matches(shown, list(known), n=limit, cutoff=alike_min)


def suggestion(name: str, known: Iterable[str]) -> str:
    """The hint for an unknown name: the nearest known one, or all of them."""
    names = list(known)
    near = nearest(name, names)
    if near:
        return f"did you mean {near[0]}?"
    return "known: " + ", ".join(names)


def fenced(text: str, tag: str, attributes: str = "") -> str:
    """Untrusted text between two marks, so that nothing in it can end the quoted part.

    A mark consists of the tag and a digest of the text, so the same text always produces the same
    bytes, and a cached page stays valid. In the unlikely case that the text or the attributes
    contain the mark, the digest is computed again until they do not. So the closing mark occurs
    only at the end.
    """
    mark = f"{tag}-{_digits(text)}"
    while mark in text or mark in attributes:
        mark = f"{tag}-{_digits(mark + text)}"
    return f"<{mark}{attributes}>\n{text}\n</{mark}>"


def _digits(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:MARK_DIGITS]


def markdown_fence(texts: Iterable[str]) -> str:
    """A Markdown fence for text in pieces, longer than any run of backticks in them."""
    longest = run = 0
    for text in texts:
        for match in _BACKTICKS.finditer(text):
            size = len(match[0]) + (run if match.start() == 0 else 0)
            longest = max(longest, size)
            run = size if match.end() == len(text) else 0
        if text and not text.endswith("`"):
            run = 0
    return "`" * max(3, longest + 1)


def inline(text: str) -> str:
    """Text escaped for one line of Markdown, so that it cannot start a block, link, tag or code
    span."""
    return _PUNCTUATION.sub(r"\\\g<0>", visible(_SPACES.sub(" ", text).strip()))


def is_text(text: str) -> bool:
    """Whether the text can be encoded as UTF-8. An argument, an environment variable
    or a file name with invalid bytes cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain_text(text: str) -> str:
    """The text as a plain `str`, even if it is a subclass of `str`, such as a string enum."""
    return text if type(text) is str else str.__str__(text)


def without_colors(text: str, *, same_length: bool = False) -> str:
    """The text without terminal control sequences; with `same_length` they become spaces, so that
    positions stay the same."""
    if "\x1b" not in text:
        return text
    if same_length:
        return _CONTROL_SEQUENCE.sub(lambda match: " " * len(match[0]), text)
    return _CONTROL_SEQUENCE.sub("", text)


def failure(error: BaseException) -> str:
    """An error in a few words. A caller's code may raise anything, even an error that cannot be
    printed."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the `__str__` of an error may raise anything
        text = ""
    name = type(error).__name__
    plain = whole_words(f"{name}: {text}" if text else name, FAILURE_CHARS)
    return plain.encode("utf-8", "replace").decode()


def visible(text: str) -> str:
    """The text with escapes in place of invisible characters and of characters that control a
    terminal or the text direction. Newlines and tabs stay."""
    return _HIDDEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
