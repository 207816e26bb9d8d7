"""Exact counts by a model's own vocabulary: the extra `exact` (splintr-rs, which carries the
vocabularies inside).

o200k and cl100k give the token counts of OpenAI's models; for other makers the nearest vocabulary
that is published stands in, and calibration does the rest. Nothing is imported before the first
count and nothing is downloaded. What looks like a special token in a text is text. Neighbours:
`choice` decides when this is used, `estimate` is the counter without dependencies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any
from unicodedata import category

from refold.errors import Invalid, Unavailable

PACKAGE = "splintr"
HINT = "pip install 'refold[exact]', or leave counter out to use the estimate"

# Our names, which are written into events, and those of the package.
VOCABULARIES = {
    "o200k": "o200k_base", "cl100k": "cl100k_base", "deepseek": "deepseek_v3", "gemma": "gemma3", "glm": "glm4",
    "kimi": "kimi_k2", "llama": "llama3", "mistral": "mistral_v3", "qwen": "qwen3",
}  # fmt: skip
# The first pattern that is found in a model's name tells its vocabulary; for Claude and Grok none
# is published.
_NEAREST = tuple(
    (re.compile(pattern), vocabulary)
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

# A large text is counted in pieces, so that neither time nor memory grows faster than the text.
PIECE_CHARS = 1 << 16
# Within so many characters before its end a piece looks for a place where the vocabulary splits
# anyhow.
SEAM_CHARS = 4096
_SEAM = re.compile(r"(?<=\n)(?=[0-9A-Za-z])|(?<=[0-9A-Za-z])(?= [A-Za-z])")
_SURROGATES = re.compile("[\ud800-\udfff]")
# The one place where the package splits otherwise than o200k: there a long s is an s, also in what
# ends a word.
_LONG_S = "'ſ"
_ENDING = re.compile("'(?:s|t|re|ve|m|ll|d)", re.IGNORECASE)


def installed() -> bool:
    """Whether the extra `exact` is there; imports nothing."""
    return find_spec(PACKAGE) is not None


def nearest(model: str) -> str:
    """The name of the vocabulary that is a model's own, or nearest to it."""
    return next(
        (name for pattern, name in _NEAREST if pattern.search(model.lower())), NEAREST_DEFAULT
    )


class Vocabulary:
    """A tokenizer: `count` for sizes, `encode` and `decode` for who needs the tokens. Loaded
    when it is first used."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def _tokenizer(self) -> Any:
        try:
            import splintr
        except ImportError as error:
            raise Unavailable(
                f"the vocabulary {self.name} needs the extra exact: {error}", hint=HINT
            ) from error
        return splintr.Tokenizer.from_pretrained(VOCABULARIES[self.name])

    def count(self, text: str) -> int:
        """The tokens of a text. Beyond 65,536 characters without a word's end it may be one off
        for each piece."""
        return (
            len(self._piece(text))
            if self._is_one_piece(text)
            else sum(map(len, self._encoded(text)))
        )

    def encode(self, text: str) -> list[int]:
        """The tokens themselves. Lone surrogates are U+FFFD, as in what is sent."""
        return [token for piece in self._encoded(text) for token in piece]

    def decode(self, tokens: list[int]) -> str:
        """The text of whole characters' tokens."""
        try:
            text: str = self._tokenizer.decode(tokens)
        except (ValueError, OverflowError, TypeError) as error:
            raise Invalid(
                f"these are no tokens of {self.name}: {error}", hint="give what encode gave, whole"
            ) from error
        return text

    def _is_one_piece(self, text: str) -> bool:
        return len(text) <= PIECE_CHARS and (self.name != "o200k" or _LONG_S not in text)

    def _encoded(self, text: str) -> Iterator[list[int]]:
        for piece in _pieces(text):
            for part in (
                _behind_long_s(piece) if self.name == "o200k" and _LONG_S in piece else [piece]
            ):
                yield self._piece(part)

    def _piece(self, text: str) -> list[int]:
        try:
            tokens: list[int] = self._tokenizer.encode_ordinary(text)
        except UnicodeEncodeError:
            tokens = self._tokenizer.encode_ordinary(_SURROGATES.sub("\ufffd", text))
        return tokens


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > PIECE_CHARS:
        end = start + PIECE_CHARS
        seam = _SEAM.search(text, end - SEAM_CHARS, end)
        cut = seam.start() if seam else end
        yield text[start:cut]
        start = cut
    yield text[start:]


def _behind_long_s(text: str) -> Iterator[str]:
    start = last = 0
    for found in _ENDING.finditer(text):
        # It ends a word only where there is one, and only once; the apostrophe of a second ending
        # opens the next word.
        if found.start() > last and category(text[found.start() - 1])[0] in "LM":
            last = found.end()
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
