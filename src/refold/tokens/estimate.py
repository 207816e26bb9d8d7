"""How many tokens a text has, nearly, at the speed of memory.

Every character weighs what characters of its class cost on average in o200k, in 128ths of a token;
the weights were fitted to 6,000 messages (agent runs, code, documents, JSON) and samples of ten
scripts. A table turns each byte into its weight, and the lower half of Adler-32, which is a sum of
bytes, adds them up: two passes in C, whatever the script. Sums of weights make the estimate
additive and monotone: two halves are as heavy as the whole, and one more character never makes a
text lighter. The one exception is base64, where letters say nothing. Neighbour: `counter` counts
messages with this or another counter.
"""

from __future__ import annotations

import re
from zlib import adler32

NAME = "estimate"
UNIT = 128

# 29, because nine lower-case letters must be three tokens and eight must be two, as with four
# characters per token.
LOWER, DIGIT, NEWLINE, CONTROL = 29, 106, 127, 100
# Blanks come in runs, and a run is one token however long it is.
BLANK = 2
BASE64 = 86
# Lines and boxes are drawn with long runs of a symbol that would be expensive alone.
SYMBOL, LINE = 185, 32
# A large text is weighed in pieces that fit the processor's cache, so that no copy of the whole is
# made.
PIECE_CHARS = 1 << 15
# So many bytes that their sum stays below Adler's modulus, 65,521: no byte of ASCII weighs more
# than 127, and of a longer character all bytes but the first weigh nothing.
SUM_BYTES = 512
# Base64 has no spaces: only where a window in the middle has none are letters counted.
WINDOW_BYTES = 48

_LOWER = b"abcdefghijklmnopqrstuvwxyz"
_UPPER = _LOWER.upper()
_DIGIT = b"0123456789"
_ASCII: tuple[tuple[bytes, int], ...] = (
    (bytes(range(128)), CONTROL),
    (_LOWER + _UPPER, LOWER),
    (_DIGIT, DIGIT),
    (b" \t\r", BLANK),
    (b"\n", NEWLINE),
    # Symbols that mostly come in runs, or that a word carries with it for free, to those that
    # stand alone.
    (b"-=", 17),
    (b"#+.;<{", 25),
    (b"!*_}", 52),
    (b'"(),:>?@^`~', 70),
    (b"$%&'/[\\]|", 105),
)
# Beyond ASCII the first byte of a character in UTF-8 tells its script.
_SCRIPTS: tuple[tuple[int, int, int], ...] = (
    (0xC0, 0xCB, 133),  # accented Latin: it also splits the word it stands in
    (0xCC, 0xCD, 128),  # combining marks
    (0xCE, 0xCF, 54),  # Greek
    (0xD0, 0xD3, 41),  # Cyrillic: Russian costs less, the others more
    (0xD4, 0xDF, 50),  # Armenian, Hebrew, Arabic
    (0xE0, 0xE1, 54),  # Indic scripts, Thai, Georgian
    (0xE2, 0xE2, SYMBOL),  # typographic symbols, arrows
    (0xE3, 0xE3, 80),  # kana
    (0xE4, 0xE9, 97),  # Han: simplified costs less, traditional more
    (0xEA, 0xED, 92),  # Hangul, and lone surrogates
    (0xEE, 0xEF, 56),  # full-width forms, private use
    (0xF0, 0xFF, 243),  # emoji and all else above 0xFFFF
)


def _table() -> bytes:
    weights = bytearray(256)
    for characters, weight in _ASCII:
        for byte in characters:
            weights[byte] = weight
    for first, last, weight in _SCRIPTS:
        weights[first : last + 1] = bytes([weight]) * (last + 1 - first)
    return bytes(weights)


_WEIGHTS = _table()
_DRAWN = re.compile(rb"\xe2[\x94\x95]")


def estimate(text: str) -> int:
    """The tokens of a text; 0 only for the empty text."""
    if len(text) <= PIECE_CHARS:
        weight = _weight(text)
    else:
        starts = range(0, len(text), PIECE_CHARS)
        weight = sum(_weight(text[at : at + PIECE_CHARS]) for at in starts)
    return -(-weight // UNIT)


def _weight(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    weight, size = _sum(data.translate(_WEIGHTS)), len(data)
    # Most texts with such a byte have only dashes and quotes: the search is faster than counting.
    if b"\xe2" in data and (drawn := _DRAWN.search(data)):
        lines = data.count(b"\xe2\x94", drawn.start()) + data.count(b"\xe2\x95", drawn.start())
        weight -= lines * (SYMBOL - LINE)
    return max(weight, size * BASE64) if _is_base64(data) else weight


def _sum(weights: bytes) -> int:
    """The bytes added up."""
    size = len(weights)
    if size <= SUM_BYTES:
        return adler32(weights, 0) & 0xFFFF
    view = memoryview(weights)  # whose pieces are no copies
    return sum([adler32(view[at : at + SUM_BYTES], 0) & 0xFFFF for at in range(0, size, SUM_BYTES)])


def _is_base64(data: bytes) -> bool:
    """Only random letters have this mixture; without the rule, an image pasted as text would
    count half."""
    middle = len(data) // 2
    end = middle + WINDOW_BYTES
    if data.find(b" ", middle, end) >= 0 or not data[middle:end].isascii():
        return False
    # Capitals first: they are rare in everything else.
    return (
        _has_share(data, _UPPER, 4) and _has_share(data, _LOWER, 4) and _has_share(data, _DIGIT, 20)
    )


def _has_share(data: bytes, characters: bytes, part: int) -> bool:
    return (len(data) - len(data.translate(None, characters))) * part > len(data)
