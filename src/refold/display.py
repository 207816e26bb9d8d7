"""What makes a text fit to be shown: times and counts, texts cut to a length or put on one line,
the nearest known name, texts without colours, and quoted text that can neither steer a terminal
nor end its quotation.

Each of these has one mechanism, and it is here; every room above uses it. No imports of ours.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterable

MARK_DIGITS = 12
NAME_CHARS_MAX = 64
FAILURE_CHARS = 500
# How alike two names must be, in difflib's measure, for one to be suggested for the other. Where
# nothing is alike, all known names are listed, so a name that is missed costs little, while a
# wrong suggestion hides the list. 0.6 still takes two wrong characters in a name of five.
ALIKE_MIN = 0.6

_PUNCTUATION = re.compile(r"[\\`*\[\]<>&|]")
_BACKTICKS = re.compile("`+")
_SPACES = re.compile(r"\s+")
# Characters that no screen shows, for use between the brackets of a pattern: marks of direction,
# joiners, fillers, selectors, tags.
INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# What steers a terminal: colours and moves of the cursor, and links and titles up to their end.
_STEERING = re.compile(
    r"\x1b(?:\[[0-9;:?]{0,40}+[ -/]{0,4}+[@-~]|\][^\x07\x1b]{0,2000}+(?:\x07|\x1b\\))"
)
# The selectors U+FE0E and U+FE0F belong to a sign such as the check mark before them.
_HIDDEN = re.compile(
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
    """The share in whole percent, rounded down; 0 if `whole` is 0."""
    return 100 * part // whole if whole > 0 else 0


def tokens_of(used: int, window: int) -> str:
    """`45% (58K/128K tokens)`."""
    sizes = f"{short_number(used)}/{short_number(window)} tokens"
    return f"{percent_of(used, window)}% ({sizes})"


def moment(at_ms: int) -> str:
    """A time that a person can read; a number that is no time stays a number."""
    # Imported here, because a status line is asked for many times a minute and needs no times.
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return str(at_ms)


def cut(text: str, length: int) -> str:
    """The text with at most so many characters; a shortened one ends with `…`."""
    return text if len(text) <= length else text[: length - 1] + "…"


def whole_words(text: str, length: int) -> str:
    """The beginning of a text in at most so many characters, without the half of a word at its
    end: half of a secret would not be known as one."""
    short = text[:length]
    if len(text) <= length or text[length].isspace() or short[-1:].isspace():
        return short
    words = short.rsplit(maxsplit=1)
    return words[0] if len(words) > 1 else ""


def one_line(text: str) -> str:
    """The words of the text with single spaces between them."""
    return " ".join(text.split())


def nearest(
    name: str, known: Iterable[str], *, limit: int = 1, alike_min: float = ALIKE_MIN
) -> list[str]:
    """The known names that are most like this one, best first; none if none is alike."""
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
    """Untrusted text between two marks, so that nothing in it can end the quotation.

    The mark is the tag and a digest of the text. It follows from the text, so the same text gives
    the same bytes and a cached page stays valid; a random mark would not. Nobody can write a text
    that contains its own digest, and if one ever does, the digest is taken again until the mark
    occurs neither in the text nor in the attributes. So the closing mark stands at the end only.
    """
    mark = f"{tag}-{_digits(text)}"
    while mark in text or mark in attributes:
        mark = f"{tag}-{_digits(mark + text)}"
    return f"<{mark}{attributes}>\n{text}\n</{mark}>"


def _digits(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:MARK_DIGITS]


def markdown_fence(texts: Iterable[str]) -> str:
    """A fence for a text that comes in pieces: longer than any run of backticks in it, which is how
    Markdown itself keeps a text from closing its own fence."""
    longest = run = 0
    for text in texts:
        for found in _BACKTICKS.finditer(text):
            size = len(found[0]) + (run if found.start() == 0 else 0)
            longest = max(longest, size)
            run = size if found.end() == len(text) else 0
        if text and not text.endswith("`"):
            run = 0
    return "`" * max(3, longest + 1)


def inline(text: str) -> str:
    """A text as part of one Markdown line: it can open no block, link, tag or code."""
    return _PUNCTUATION.sub(r"\\\g<0>", visible(_SPACES.sub(" ", text).strip()))


def is_text(text: str) -> bool:
    """Whether the text can be written as UTF-8. What came from the system as other bytes (an
    argument, a variable, the name of a file) cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain_text(text: str) -> str:
    """The text itself, also where it is of a class of the caller's, such as an enumeration."""
    return text if type(text) is str else str.__str__(text)


def without_colors(text: str, *, same_length: bool = False) -> str:
    """A text as a terminal would show it, without what it tells the terminal; with `same_length`
    there are spaces instead, so that places in it stay the same."""
    if "\x1b" not in text:
        return text
    if same_length:
        return _STEERING.sub(lambda found: " " * len(found[0]), text)
    return _STEERING.sub("", text)


def failure(error: BaseException) -> str:
    """What was raised, in a few words that can be kept and shown: a caller's code may raise
    anything, also what cannot be shown."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - the text of an error is its author's code
        said = ""
    name = type(error).__name__
    plain = whole_words(f"{name}: {said}" if said else name, FAILURE_CHARS)
    return plain.encode("utf-8", "replace").decode()


def visible(text: str) -> str:
    """The text with every character that would steer a terminal, turn the writing direction, or
    not be seen at all, shown as an escape. Newlines and tabs stay."""
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
