"""The words of a text as code and prose have them, and how much a word says.

`getUserName`, `user_name` and `user name` have the same words; `is` is not in `this`. Words come
lower-case with their endings off, so that `fixes` meets `fixing`; words that say nothing are left
out; Chinese, Japanese and Korean go by pairs of signs. A word that is everywhere weighs nothing.
Neighbours: `keep` and `importance` look for the words of the task.
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
a about after all also am an and any are as at be because been before being but by can could did do does doing for from
further had has have having he her here hers him his how i if in into is it its itself just let me more most my no nor
not now of off on once only or other our out over own please same she should so some such than that the their them then
there these they this those through to too under until up us very was we were what when where which while who whom why
will with would you your
"""
STOP = frozenset(_STOP.split())
HITS_MAX, NAME_CHARS = 8, 40


def words(text: str) -> list[str]:
    """The words of a text in order: split, lower-cased, stemmed, without stop words."""
    out: list[str] = []
    for run in _RUN.findall(text):
        if _IS_CJK.match(run):
            out += [run[at : at + 2] for at in range(max(1, len(run) - 1))]
        else:
            out += [word for word in map(_word, _humps(run)) if word]
    return out


def _humps(run: str) -> list[str]:
    """`getHTTPResponse` as get, HTTP, Response; `Sentence` and `words` as they are."""
    return [run] if run.islower() or run.isdigit() else _HUMP.split(run)


@lru_cache(maxsize=4096)
def _word(run: str) -> str:
    """The stem of a word, or nothing for a stop word. A function of its text, so remembering it
    is safe."""
    lower = run.lower()
    return "" if lower in STOP else stem(lower)


def stem(word: str) -> str:
    """The word without its English ending, so that forms of one word are alike; not a linguist's
    stem."""
    if len(word) <= 3 or not word.isascii():
        return word
    for ending, instead in (
        ("ies", "y"),
        ("sses", "ss"),
        ("ing", ""),
        ("ed", ""),
        ("ly", ""),
        ("es", ""),
        ("s", ""),
    ):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)] + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


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
        if word in _name_words(_name(text, at, at + len(needle))):
            return True
        at = lower.find(needle, at + len(needle))
    return False


def _needle(word: str) -> str:
    """What every form of a stemmed word begins with: `queries` has no y."""
    return word.removesuffix("y") if len(word) > 3 else word


@lru_cache(maxsize=4096)
def _name_words(name: str) -> frozenset[str]:
    return frozenset(words(name))


def _name(text: str, first: int, last: int) -> str:
    """The name in which a hit stands: up to 40 letters and digits more on both sides."""
    start, stop = first, last
    while start > max(0, first - NAME_CHARS) and text[start - 1].isalnum():
        start -= 1
    while stop < min(len(text), last + NAME_CHARS) and text[stop].isalnum():
        stop += 1
    return text[start:stop]


def mentioning(word: str, texts: Sequence[str], lowers: Sequence[str]) -> list[int]:
    """Which of the texts have a stemmed word."""
    needle = _needle(word)
    near = [index for index, lower in enumerate(lowers) if needle in lower]
    return [index for index in near if mentions(texts[index], lowers[index], word)]


def weight(count: int, total: int) -> float:
    """What a word says that stands in `count` of `total` texts: rare ones weigh more, absent
    ones nothing."""
    return log(1 + (total - count + 0.5) / (count + 0.5)) if count else 0.0
