"""Text as stemmed words, and the search for such words in text.

Strategies compare messages with a task by these words; stop words are left out, and an English
ending never makes a difference. Neighbours: `importance`, `shorten_results` and `gist` weigh
messages and lines by them; the index of `refold.search` has its own words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from math import log

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_RUN = re.compile(rf"[{CJK}]+|[^\W\d_{CJK}]+|\d+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_IS_CJK = re.compile(rf"[{CJK}]")
_STOP = """
a about after all also am an and any are as at be because been before being but by can could did do
does doing for from further had has have having he her here hers him his how i if in into is it its
itself just let me more most my no nor not now of off on once only or other our out over own please
same she should so some such than that the their them then there these they this those through to
too under until up us very was we were what when where which while who whom why will with would you
your
"""
STOP = frozenset(_STOP.split())
HITS_MAX = 8  # hits of a word that are checked per text
NAME_CHARS = 40
_ENDINGS = (
    ("ies", "y"),
    ("sses", "ss"),
    ("ing", ""),
    ("ed", ""),
    ("ly", ""),
    ("es", ""),
    ("s", ""),
)


def words(text: str) -> list[str]:
    """The words of the text in order: split, lower-cased, stemmed, without stop words.
    `getUserName`, `user_name` and `user name` have the same words; Chinese, Japanese and Korean go
    by pairs of characters."""
    found: list[str] = []
    for run in _RUN.findall(text):
        if _IS_CJK.match(run):  # overlapping pairs; a single character stays alone
            found += [run[at : at + 2] for at in range(max(1, len(run) - 1))]
        elif run.islower() or run.isdigit():
            found.append(_stem_or_nothing(run))
        else:  # `getHTTPResponse` is get, HTTP, Response
            found += map(_stem_or_nothing, _HUMP.split(run))
    return [word for word in found if word]


@lru_cache(maxsize=4096)
def _stem_or_nothing(run: str) -> str:
    """The stem of a word; nothing for a stop word."""
    lower = run.lower()
    return "" if lower in STOP else stem(lower)


def stem(word: str) -> str:
    """The word without its English ending, so that its forms are equal; not a linguistic stem."""
    if len(word) <= 3 or not word.isascii():
        return word
    if not word.endswith("ss"):
        for ending, replacement in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                word = word[: -len(ending)] + replacement
                break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]  # `plann` is `plan`
    return word.removesuffix("e") if len(word) > 3 else word


def mentions(text: str, lower: str, word: str) -> bool:
    """Whether the text has a stemmed word, without splitting the whole text. `lower` is the text in
    lower case."""
    needle = _needle(word)
    at = lower.find(needle)
    if at >= 0 and len(lower) != len(text):
        return word in words(text)
    for _ in range(HITS_MAX):
        if at < 0:
            return False
        if word in _name_words(_name_around(text, at, at + len(needle))):
            return True
        at = lower.find(needle, at + len(needle))
    return False


def _needle(word: str) -> str:
    """The common start of all forms of a stemmed word: `queries` has no y."""
    return word.removesuffix("y") if len(word) > 3 else word


@lru_cache(maxsize=4096)
def _name_words(name: str) -> frozenset[str]:
    return frozenset(words(name))


def _name_around(text: str, start: int, stop: int) -> str:
    """The name around a hit: up to 40 more letters and digits on both sides."""
    lowest = max(0, start - NAME_CHARS)
    highest = min(len(text), stop + NAME_CHARS)
    while start > lowest and text[start - 1].isalnum():
        start -= 1
    while stop < highest and text[stop].isalnum():
        stop += 1
    return text[start:stop]


def mentioning(word: str, texts: Sequence[str], lowers: Sequence[str]) -> list[int]:
    """The indices of the texts with a stemmed word."""
    needle = _needle(word)
    return [
        index
        for index, lower in enumerate(lowers)
        if needle in lower and mentions(texts[index], lower, word)
    ]


def weight(count: int, total: int) -> float:
    """The weight of a word in `count` of `total` texts: rare words weigh more, absent ones
    nothing."""
    return log(1 + (total - count + 0.5) / (count + 0.5)) if count else 0.0
