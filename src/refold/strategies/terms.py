"""The words of a text as code and prose have them, and how much a word says.

`getUserName`, `user_name` and `user name` have the same words; `is` is not in `this`. Words come
lower-case and without their endings, so that `fixes` meets `fixing`; words that say nothing are
left out; Chinese, Japanese and Korean go by pairs of characters. A word that is everywhere weighs
nothing. Neighbours: `keep` and `scores` look for the words of the task, `artifacts.word_ranking`
for those of a query.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from math import log

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_RUN = re.compile(rf"[{_CJK}]+|[^\W\d_{_CJK}]+|\d+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_IS_CJK = re.compile(rf"[{_CJK}]")
_STOP = """
a about after all also am an and any are as at be because been before being but by can could did do
does doing for from further had has have having he her here hers him his how i if in into is it its
itself just let me more most my no nor not now of off on once only or other our out over own please
same she should so some such than that the their them then there these they this those through to
too under until up us very was we were what when where which while who whom why will with would you
your
"""
STOP = frozenset(_STOP.split())
HITS_MAX = 8  # places of a word that are looked at in one text
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
    """The words of a text in order: split, lower-cased, stemmed, without stop words."""
    out: list[str] = []
    for run in _RUN.findall(text):
        if _IS_CJK.match(run):
            out += _pairs(run)
        elif run.islower() or run.isdigit():
            out.append(_stem_or_nothing(run))
        else:  # `getHTTPResponse` is get, HTTP, Response
            out += map(_stem_or_nothing, _HUMP.split(run))
    return [word for word in out if word]


def _pairs(run: str) -> list[str]:
    """The characters of a run two by two, overlapping; one alone stays alone."""
    last = max(1, len(run) - 1)
    return [run[at : at + 2] for at in range(last)]


@lru_cache(maxsize=4096)
def _stem_or_nothing(run: str) -> str:
    """The stem of a word; nothing for a stop word."""
    lower = run.lower()
    return "" if lower in STOP else stem(lower)


def stem(word: str) -> str:
    """The word without its English ending, so that forms of one word are alike; not a linguist's
    stem."""
    if len(word) <= 3 or not word.isascii():
        return word
    word = _undoubled(_without_ending(word))
    return word.removesuffix("e") if len(word) > 3 else word


def _undoubled(word: str) -> str:
    """The word with one consonant at its end where it has two: `plann` is `plan`."""
    is_doubled = len(word) > 3 and word[-1] == word[-2]
    return word[:-1] if is_doubled and word[-1] not in "aeiouls" else word


def _without_ending(word: str) -> str:
    """The word with its first known ending taken off; at least three letters stay."""
    if word.endswith("ss"):
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)] + instead
    return word


def mentions(text: str, lower: str, word: str) -> bool:
    """Whether a text has a stemmed word, without taking the whole text apart. `lower` is the
    text in lower case."""
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
    """What every form of a stemmed word begins with: `queries` has no y."""
    return word.removesuffix("y") if len(word) > 3 else word


@lru_cache(maxsize=4096)
def _name_words(name: str) -> frozenset[str]:
    return frozenset(words(name))


def _name_around(text: str, start: int, stop: int) -> str:
    """The name in which a hit stands: up to 40 letters and digits more on both sides."""
    lowest = max(0, start - NAME_CHARS)
    highest = min(len(text), stop + NAME_CHARS)
    while start > lowest and text[start - 1].isalnum():
        start -= 1
    while stop < highest and text[stop].isalnum():
        stop += 1
    return text[start:stop]


def mentioning(word: str, texts: Sequence[str], lowers: Sequence[str]) -> list[int]:
    """Which of the texts have a stemmed word."""
    needle = _needle(word)
    found: list[int] = []
    for index, lower in enumerate(lowers):
        if needle in lower and mentions(texts[index], lower, word):
            found.append(index)
    return found


def weight(count: int, total: int) -> float:
    """What a word says that stands in `count` of `total` texts: rare ones weigh more, absent
    ones nothing."""
    if not count:
        return 0.0
    return log(1 + (total - count + 0.5) / (count + 0.5))
