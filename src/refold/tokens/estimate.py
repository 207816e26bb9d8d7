"""An estimate of the number of tokens in text, at the speed of memory.

Every character has the average weight of its class in o200k, in 128ths of a token; the weights were
fitted to 6,000 messages (agent runs, code, documents, JSON) and samples of ten scripts. A table
turns each byte into its weight, and the lower half of Adler-32, a sum of bytes, adds them up: two
passes in C, whatever the script. Sums make the estimate additive and monotone: two halves weigh as
much as the whole, and one more character never makes text lighter. The exception is base64, which
has a rule of its own. Neighbour: `counter` counts messages with this or another counter.
"""

from __future__ import annotations

from zlib import adler32

from refold.patterns import regex

NAME = "estimate"
UNIT = 128

# 29, because nine lower-case letters must be three tokens and eight must be two, as with four
# characters per token.
LOWER, DIGIT, NEWLINE, CONTROL = 29, 106, 127, 100
# Blanks come in runs, and a run of any length is one token.
BLANK = 2
BASE64 = 86
# Lines and boxes are drawn with long runs of a symbol that would be expensive alone.
SYMBOL, LINE = 185, 32
# Large text is weighed in pieces that fit the processor's cache, without a copy of all of it.
PIECE_CHARS = 1 << 15
# Few enough bytes to keep their sum below Adler's modulus, 65,521: no byte of ASCII weighs more
# than 127, and only the first byte of a longer character has a weight.
SUM_BYTES = 512
# Base64 has no spaces: letters are counted only if a window in the middle has none.
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
    # From symbols that mostly come in runs, or attach to a word for free, to those that are tokens
    # of their own.
    (b"-=", 17),
    (b"#+.;<{", 25),
    (b"!*_}", 52),
    (b'"(),:>?@^`~', 70),
    (b"$%&'/[\\]|", 105),
)
# Beyond ASCII, the first byte of a character in UTF-8 identifies its script.
_SCRIPTS: tuple[tuple[int, int, int], ...] = (
    (0xC0, 0xCB, 133),  # accented Latin: it also splits its word
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
    (0xF0, 0xFF, 243),  # emoji and the rest above 0xFFFF
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
_DRAWN = regex(rb"\xe2[\x94\x95]")


def estimate(text: str) -> int:
    """The number of tokens; 0 only for the empty string."""
    if len(text) <= PIECE_CHARS:
        weight = _weight(text)
    else:
        starts = range(0, len(text), PIECE_CHARS)
        weight = sum(_weight(text[at : at + PIECE_CHARS]) for at in starts)
    return -(-weight // UNIT)


def _weight(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    weight, size = _sum(data.translate(_WEIGHTS)), len(data)
    # Most text with such a byte has only dashes and quotes: a search is faster than a count.
    if b"\xe2" in data and (drawn := _DRAWN.search(data)):
        lines = data.count(b"\xe2\x94", drawn.start()) + data.count(b"\xe2\x95", drawn.start())
        weight -= lines * (SYMBOL - LINE)
    return max(weight, size * BASE64) if _is_base64(data) else weight


def _sum(weights: bytes) -> int:
    """The sum of the bytes."""
    size = len(weights)
    if size <= SUM_BYTES:
        return adler32(weights, 0) & 0xFFFF
    view = memoryview(weights)  # slices without copies
    return sum([adler32(view[at : at + SUM_BYTES], 0) & 0xFFFF for at in range(0, size, SUM_BYTES)])


def _is_base64(data: bytes) -> bool:
    """Whether the text is base64: only random letters have this mixture. Without this rule, an
    image pasted as text would count half."""
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
