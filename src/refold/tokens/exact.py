"""Exact counts with a model's own vocabulary, by the extra `exact` (splintr-rs, which contains the
vocabularies).

o200k and cl100k give the token counts of OpenAI's models; for other providers the nearest published
vocabulary is used, and calibration does the rest. Nothing is imported before the first count, and
nothing is downloaded. Special tokens in the input count as plain text. Neighbours: `counter`
decides when this is used, `estimate` is the counter without dependencies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any
from unicodedata import category

from refold.errors import Invalid, Unavailable, install_hint
from refold.patterns import regex

PACKAGE = "splintr"
HINT = f"{install_hint('exact')}; or leave counter out to use the estimate"

# Our names, which events contain, and the package's names.
VOCABULARIES = {
    "o200k": "o200k_base",
    "cl100k": "cl100k_base",
    "deepseek": "deepseek_v3",
    "gemma": "gemma3",
    "glm": "glm4",
    "kimi": "kimi_k2",
    "llama": "llama3",
    "mistral": "mistral_v3",
    "qwen": "qwen3",
}
# The first pattern found in a model's name decides its vocabulary; Claude's and Grok's are not
# published.
_NEAREST = tuple(
    (regex(pattern), vocabulary)
    for pattern, vocabulary in (
        (r"gpt-3\.?5|gpt-4(?![.\w])", "cl100k"),
        ("gpt|chatgpt", "o200k"),
        ("gemini|gemma", "gemma"),
        ("deepseek", "deepseek"),
        ("qwen|qwq", "qwen"),
        ("glm", "glm"),
        ("kimi|moonshot", "kimi"),
        ("llama", "llama"),
        ("mistral|ministral|mixtral|magistral|codestral|devstral|pixtral", "mistral"),
    )
)
NEAREST_DEFAULT = "o200k"

# Large text is counted in pieces, so that neither time nor memory grows faster than the text.
PIECE_CHARS = 1 << 16
# A piece ends where the vocabulary splits anyway, if there is such a place this close to its end.
SEAM_CHARS = 4096
_SEAM = regex(r"(?<=\n)(?=[0-9A-Za-z])|(?<=[0-9A-Za-z])(?= [A-Za-z])")
MARK_CHARS = 2
ID_BYTES = 4  # of a token in the flat form
_SURROGATES = regex("[\ud800-\udfff]")
# The one difference between the package and o200k, where a long s is an s even in the ending of a
# word.
_LONG_S = "'ſ"
_ENDING = regex("'(?:s|t|re|ve|m|ll|d)", re.IGNORECASE)


def installed() -> bool:
    """Whether the extra `exact` is installed; imports nothing."""
    return find_spec(PACKAGE) is not None


def nearest(model: str) -> str:
    """The name of a model's own vocabulary, or of the nearest one."""
    return next(
        (name for pattern, name in _NEAREST if pattern.search(model.lower())), NEAREST_DEFAULT
    )


class Vocabulary:
    """A tokenizer, loaded at its first use: `count` for sizes, `encode` and `decode` for callers
    that need the tokens."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def _tokenizer(self) -> Any:
        try:
            import splintr
        except ImportError as error:
            needs = f"the vocabulary {self.name} needs the extra exact: {error}"
            raise Unavailable(needs, hint=HINT) from error
        return splintr.Tokenizer.from_pretrained(VOCABULARIES[self.name])

    def count(self, text: str) -> int:
        """The number of tokens. In text of more than 65,536 characters without the end of a word,
        it may be off by one for each piece."""
        if len(text) > PIECE_CHARS or (_LONG_S in text and self._has_long_s(text)):
            return sum(map(self._size, self._parts(text)))
        return self._size(text)

    def encode(self, text: str) -> list[int]:
        """The tokens themselves. Lone surrogates become U+FFFD, as in requests."""
        return [token for part in self._parts(text) for token in self._encoded(part)]

    def decode(self, tokens: list[int]) -> str:
        """The text of tokens that are complete characters."""
        try:
            text: str = self._tokenizer.decode(tokens)
        except (ValueError, OverflowError, TypeError) as error:
            hint = "pass all the tokens that encode returned"
            raise Invalid(f"these are not tokens of {self.name}: {error}", hint=hint) from error
        return text

    def _has_long_s(self, text: str) -> bool:
        return _LONG_S in text and self.name == "o200k"

    def _parts(self, text: str) -> Iterator[str]:
        for piece in _pieces(text):
            if self._has_long_s(piece):
                yield from _split_after_long_s(piece)
            else:
                yield piece

    @cached_property
    def _marks(self) -> frozenset[str]:
        """The beginnings of the special tokens of this vocabulary."""
        return frozenset(name[:MARK_CHARS] for name in self._tokenizer.special_tokens())

    def _size(self, text: str) -> int:
        """The length of `_encoded`, without a list of tokens. That call interprets special tokens,
        so it is used only for text without any."""
        # A loop, because a generator costs as much as counting short text. Searching one character
        # is ten times as fast as two.
        for mark in self._marks:
            if mark[-1] in text and mark[0] in text and mark in text:
                return len(self._encoded(text))
        try:
            return len(self._tokenizer.encode_flat(text)) // ID_BYTES
        except UnicodeEncodeError:
            return len(self._encoded(text))

    def _encoded(self, text: str) -> list[int]:
        try:
            tokens: list[int] = self._tokenizer.encode_ordinary(text)
        except UnicodeEncodeError:
            tokens = self._tokenizer.encode_ordinary(_SURROGATES.sub("\ufffd", text))
        return tokens


def _pieces(text: str) -> Iterator[str]:
    """Large text in pieces, cut where the vocabulary splits if possible."""
    start = 0
    while len(text) - start > PIECE_CHARS:
        end = start + PIECE_CHARS
        seam = _SEAM.search(text, end - SEAM_CHARS, end)
        if seam:
            end = seam.start()
        yield text[start:end]
        start = end
    yield text[start:]


def _split_after_long_s(text: str) -> Iterator[str]:
    """The text, split after every word ending with a long s."""
    start = last = 0
    for ending in _ENDING.finditer(text):
        # Only directly after a word, and only once; the apostrophe of a second ending opens the
        # next word.
        if ending.start() > last and category(text[ending.start() - 1])[0] in "LM":
            last = ending.end()
            if text[last - 1] == "ſ":
                yield text[start:last]
                start = last
    yield text[start:]


@cache
def vocabulary(name: str) -> Vocabulary:
    """The vocabulary of that name, one for the whole process."""
    if name not in VOCABULARIES:
        raise Invalid(f"there is no vocabulary {name!r}", hint="known: " + ", ".join(VOCABULARIES))
    return Vocabulary(name)
