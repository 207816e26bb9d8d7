"""What a sentence claims, as far as code can tell: about what, which value, and what it ends.

Two sentences that say the same in other spelling are equal here (`said`). Two that give the same
thing different values ("the port is 5432", "the port is 6432") have the same `about`, and where
only one of them can be true (`is_single`) the later one ends the earlier one. Nothing is guessed:
a sentence without a known verb claims only itself. Neighbour: `fold` decides what is true when.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from refold.memory.vocabulary import (
    ATTRIBUTES,
    FILLERS,
    IRREGULAR,
    IS,
    MANY,
    ONE_OF,
    PREPOSITIONS,
    SELF,
    SHAPED,
    SINGLE,
)

_WORD = re.compile(r"[^\W_]+(?:[.:/@_+\\'’-]+[^\W_]+)*")
# `port: 6432` gives a value; `Caroline: I moved to …` is somebody who speaks.
_ASSIGNED = re.compile(
    r"(?<=\w)\s*(?:=|:(?=\s)(?!\s+(?:i|we|he|she|they|you|it|my|our)\b)(?!\s+(?:\S+\s+){6}))\s*"
)
_SHORT_FORMS = (
    (re.compile(r"(?<=[a-z])['’]re\b"), " are"),
    (re.compile(r"\b(it|that|he|she|there|here)['’]s\b"), r"\1 is"),
    (re.compile(r"(?<=[a-z])n['’]t\b"), " not"),
)
_BEING_DONE = re.compile(r"\b(?:am|is|are)\s+(?=\w+ing\b)")
_LEFT = re.compile(
    r"\b(?:moved?|switch(?:ed)?|changed?|migrated?|upgraded?|renamed?|went|relocated?)\b"
    r"(?P<what>[^.;]{0,80}?)\bfrom\s+(?P<old>[^.;]{1,80}?)\s+to\s+(?P<new>[^.;]{1,80})"
)
_ENDED = re.compile(r"\b(?:no longer|not any ?more)\b|\b(?:stopped|quit)\s+(?=\w+ing\b)")
# A number, with what is written around it: a version, a port, a date, a share, an amount.
_NUMBER = re.compile(r"[vV]?\d[\w.:/,%-]*")
_SENTENCES = re.compile(r"[.;!?。]\s+\S|\n\s*\S")
SUBJECT_WORDS_MAX, WORDS_MAX = 8, 40  # what is longer says more than one thing


class Claim(Struct, frozen=True):
    """`said` is the whole sentence, spelt one way. `about` is what it gives a value to, empty where
    that is not known. `left` is the value that something moved away from, and `left_words` what
    was moved; `ended` is a sentence that is true no longer."""

    said: str
    about: str = ""
    value: str = ""
    is_single: bool = False
    is_rival: bool = False  # whether another value is worth a remark, where both can be true
    left: str = ""
    left_words: frozenset[str] = frozenset()
    ended: str = ""


def claim_of(content: str) -> Claim:
    """What a sentence claims."""
    text = _plain(content)
    raw = _WORD.findall(text)
    said = " ".join(_words(raw))
    if len(raw) > WORDS_MAX or _SENTENCES.search(text):
        return Claim(said)
    ended = _ENDED.search(text)
    if ended:
        without = text[: ended.start()] + " " + text[ended.end() :]
        return Claim(said, ended=" ".join(_words(_WORD.findall(without))))
    left = _LEFT.search(text) if "from" in text else None
    if left:
        return _move(said, text, left)
    return _statement(said, raw)


def _plain(content: str) -> str:
    text = content.casefold()
    if "=" in text or ":" in text:
        text = _ASSIGNED.sub(" is ", text)
    if "'" in text or "’" in text:
        for pattern, long in _SHORT_FORMS:
            text = pattern.sub(long, text)
    # What is being done is done: "we are using" says "we use".
    return _BEING_DONE.sub("", text) if "ing" in text else text


def _words(raw: list[str]) -> list[str]:
    return [_stem(word) for word in raw if word not in FILLERS]


@lru_cache(maxsize=16_384)
def _stem(word: str) -> str:
    """A word without the endings of English verbs and plurals; a value as it is."""
    if word in IRREGULAR:
        return IRREGULAR[word]
    if not word.isalpha() or len(word) < 4:
        return word
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) >= 3:
            return word[: -len(ending)].rstrip("e")
    return word.rstrip("e")


def _move(said: str, text: str, left: re.Match[str]) -> Claim:
    before = _words(_WORD.findall(text[: left.start()] + " " + left["what"]))
    old = " ".join(_words(_WORD.findall(left["old"])))
    return Claim(said, left=old, left_words=frozenset(before) - SELF)


def _statement(said: str, raw: list[str]) -> Claim:
    """A claim by its first known verb: subject, verb, value."""
    words = _words(raw)
    at = next((n for n, word in enumerate(words[:SUBJECT_WORDS_MAX]) if _is_verb(word)), -1)
    if at < 0 or at + 1 >= len(words):
        return Claim(said)
    after = _after_verb(words, at)
    frame, value = " ".join(words[:after]), words[after:]
    if not value:
        return Claim(said)
    if _is_single(words, at, after):
        return Claim(said, about=frame, value=" ".join(value), is_single=True)
    shaped = [word for word in value if _is_shaped(word)]
    if shaped:
        mask = " ".join("#" if _is_shaped(word) else word for word in value)
        return Claim(said, about=f"{frame} {mask}", value=" ".join(shaped), is_single=True)
    is_rival = words[at] in IS or words[at] == _stem("prefer")
    return Claim(said, about=frame, value=" ".join(value), is_rival=is_rival)


_ONE_VALUE = frozenset(map(_stem, SINGLE))
_VERBS = IS | _ONE_VALUE | frozenset(map(_stem, MANY))
_UNTELLING = IS | SELF | PREPOSITIONS | {"of", "and", "or", "it", "this", "user"}
_NOUNS, _ADJECTIVES = frozenset(map(_stem, ATTRIBUTES)), frozenset(map(_stem, ONE_OF))


def _is_verb(word: str) -> bool:
    return word in _VERBS


def _is_single(words: list[str], at: int, after: int) -> bool:
    """Whether only one value at a time can be true: by the verb with its preposition, or by what
    the subject is."""
    verbs = _ONE_VALUE & set(words[at:after])
    if verbs and (words[at] in IS or words[after - 1] in PREPOSITIONS):
        return True
    subject = words[:at]
    return words[at] in IS and bool(
        subject and (subject[-1] in _NOUNS or _ADJECTIVES & set(subject))
    )


def _after_verb(words: list[str], at: int) -> int:
    """Where the value begins: after the verb, a verb of state after `is`, and a preposition."""
    after = at + 1
    if words[at] in IS and after < len(words) - 1 and words[after] in _ONE_VALUE:
        after += 1
    if after < len(words) - 1 and words[after] in PREPOSITIONS:
        after += 1
    return after


def _is_shaped(word: str) -> bool:
    return bool(_NUMBER.fullmatch(word)) or word in SHAPED


def telling_words(said: str) -> str:
    """The telling words of a sentence in no order: the same for one that says it another way."""
    words = {word.removesuffix("'s").removesuffix("’s") for word in said.split()}
    return " ".join(sorted(words - _UNTELLING))


def ends(move: Claim, claim: Claim) -> bool:
    """Whether what was moved away from is what this claims: its value holds the words, and it is
    of the same thing where the move names one."""
    if not claim.is_single or f" {move.left} " not in f" {claim.value} ":
        return False
    subject = set(claim.about.split()) - {"#"}
    if move.left_words:
        return bool(move.left_words & subject)
    return any(map(str.isdigit, move.left)) or bool(subject & SELF)
