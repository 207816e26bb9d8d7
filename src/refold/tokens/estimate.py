"""How many tokens a text has, nearly, at the speed of memory.

Every character weighs what characters of its class cost on average in o200k, in thousandths of a token; the weights
were fitted to 10,000 texts (agent runs, code, documents, JSON, logs, ten scripts). A class is counted by
deleting it from the bytes, which C does in one pass, on ever shorter rests. Sums of weights make the estimate
additive and monotone: two halves are as heavy as the whole, and one more character never makes a text lighter. The
one exception is base64, where letters say nothing. Neighbour: `counter` counts messages with this or another counter.
"""

from __future__ import annotations

NAME = "estimate"
UNIT = 1000

# 226, because nine lower-case letters must be three tokens and eight must be two, as with four characters per token.
LOWER, UPPER, DIGIT, LIGHT, HEAVY, NEWLINE, BLANK = 226, 324, 764, 292, 781, 980, 20
BASE64 = 670
# Lines and boxes are drawn with long runs of a sign that would be dear alone.
SIGN, LINE = 1448, 250
# A large text is weighed in pieces that fit the processor's cache, so that no copy of the whole is made.
PIECE_CHARS = 1 << 15

_LOWER = b"abcdefghijklmnopqrstuvwxyz"
_UPPER = _LOWER.upper()
_DIGIT = b"0123456789"
# Signs that mostly stand in runs, or that a word carries with it for free.
_LIGHT = b'-=,]{"_>*.#~`}'
# Blanks come in runs, and a run is one token however long it is.
_BLANK = b" " + bytes(set(range(32)) - {10}) + b"\x7f"
_WIDE = bytes(range(128, 256))

# Beyond ASCII the first byte of a character in UTF-8 tells its script; the bytes that follow it weigh nothing.
_NOT_FIRST = bytes(range(0xC0))
_SCRIPTS: tuple[tuple[int, int, int], ...] = (
    (0xE2, 0xE2, SIGN),  # typographic signs, arrows
    (0xE4, 0xE9, 760),  # Han: simplified costs less, traditional more
    (0xE3, 0xE3, 624),  # kana
    (0xEE, 0xEF, 436),  # full-width forms, private use
    (0xC0, 0xCB, 1036),  # accented Latin: it also splits the word it stands in
    (0xF0, 0xFF, 1899),  # emoji and all else above 0xFFFF
    (0xEA, 0xED, 720),  # Hangul, and lone surrogates
    (0xD0, 0xD3, 320),  # Cyrillic: Russian costs less, the others more
    (0xD4, 0xDF, 390),  # Armenian, Hebrew, Arabic
    (0xE0, 0xE1, 420),  # Indic scripts, Thai, Georgian
    (0xCE, 0xCF, 420),  # Greek
    (0xCC, 0xCD, 1000),  # combining marks
)
_FIRSTS = tuple((bytes(range(first, last + 1)), weight) for first, last, weight in _SCRIPTS)


def estimate(text: str) -> int:
    """The tokens of a text; 0 only for the empty text."""
    if len(text) <= PIECE_CHARS:
        weight = _weight(text)
    else:
        weight = sum(_weight(text[at : at + PIECE_CHARS]) for at in range(0, len(text), PIECE_CHARS))
    return -(-weight // UNIT)


def _weight(text: str) -> int:
    if text.isascii():
        return _ascii_weight(text.encode())
    encoded = text.encode("utf-8", "surrogatepass")
    lines = encoded.count(b"\xe2\x94") + encoded.count(b"\xe2\x95")
    wide = _wide_weight(encoded.translate(None, _NOT_FIRST)) - lines * (SIGN - LINE)
    return _ascii_weight(encoded.translate(None, _WIDE)) + wide


def _ascii_weight(text: bytes) -> int:
    """The classes are taken away one after the other, the commonest first, so that the passes get shorter."""
    no_lower = text.translate(None, _LOWER)
    no_blank = no_lower.translate(None, _BLANK)
    no_light = no_blank.translate(None, _LIGHT)
    no_upper = no_light.translate(None, _UPPER)
    heavy_or_newline = no_upper.translate(None, _DIGIT)
    size, newlines = len(text), heavy_or_newline.count(b"\n")
    lower, upper = size - len(no_lower), len(no_light) - len(no_upper)
    digits = len(no_upper) - len(heavy_or_newline)
    weight = (
        lower * LOWER
        + (len(no_lower) - len(no_blank)) * BLANK
        + (len(no_blank) - len(no_light)) * LIGHT
        + upper * UPPER
        + digits * DIGIT
        + len(heavy_or_newline) * HEAVY
        + newlines * (NEWLINE - HEAVY)
    )
    return max(weight, size * BASE64) if _is_base64(size, lower, upper, digits) else weight


def _is_base64(size: int, lower: int, upper: int, digits: int) -> bool:
    """Only random letters have this mixture; without the rule, an image pasted as text would count half."""
    return upper * 4 > size and lower * 4 > size and digits * 20 > size


def _wide_weight(firsts: bytes) -> int:
    weight = 0
    for script, each in _FIRSTS:
        others = firsts.translate(None, script)
        weight += (len(firsts) - len(others)) * each
        if not others:
            break
        firsts = others
    return weight
