"""A sentence in one wording, however it was put: spelling, short forms, and ways to say that
something is so or has become so.

"The database now listens on port 6432", "database port: 6432" and "the database port was changed to
6432" are one sentence here. Only English is known; any other text keeps its words. Neighbours:
`vocabulary` has the words, `claim` reads what the sentence claims.
"""

from __future__ import annotations

import re
from functools import lru_cache

from refold.memory.vocabulary import ATTRIBUTES, FILLERS, IRREGULAR, ROLES, SELF, SHAPED

_WORD = re.compile(r"[^\W_]+(?:[.:/@_+\\'’-]+[^\W_]+)*")
# `port: 6432` gives a value; `Caroline: I moved to …` is somebody who speaks.
_ASSIGNED = re.compile(
    r"(?<=\w)\s*(?:=|:(?=\s)(?!\s+(?:i|we|he|she|they|you|it|my|our)\b)(?!\s+(?:\S+\s+){6}))\s*"
)
_SHORT_FORMS = (
    (re.compile(r"(?<=[a-z])['’]re\b"), " are"),
    (re.compile(r"\b(it|that|he|she|there|here)['’]s\b"), r"\1 is"),
    (re.compile(r"\bcan['’]t\b"), "can not"),
    (re.compile(r"(?<=[a-z])n['’]t\b"), " not"),
)
_BEING_DONE = re.compile(r"\b(?:am|is|are)\s+(?=\w+ing\b)")
_ON_PORT = re.compile(
    r"\b(?:(?:is|are)\s+)?(?:listens?|listening|runs?|running|is|are|available|reachable|serves?)"
    r"\s+(?:on|at)\s+port\s+(?=\d)"
)
_BECAME = re.compile(
    r"\b(?:(?:has|have|had)\s+)?(?P<passive>(?:been|was|were|is|are|got)\s+)?"
    r"(?P<verb>changed|raised|lowered|reduced|increased|extended|set|reset|updated|bumped|pushed"
    r"|postponed|shifted|switched|moved|upgraded|downgraded|migrated|relocated|transferred"
    r"|rescheduled|delayed)(?:\s+(?:back|over|up|down|out))?\s+to\s+(?=\w)"
)
_WENT = ("moved", "relocated", "transferred")
_TOOK_UP = ("switched", "upgraded", "downgraded", "migrated")
NUMBER = re.compile(r"[vV]?\d[\w.:/,%-]*")


def plain(content: str) -> str:
    """A text in small letters, with short forms and changes spelt out. Each look is taken only at
    a text that may need it."""
    text = content.casefold()
    if "=" in text or ":" in text:
        text = _ASSIGNED.sub(" is ", text)
    if "'" in text or "’" in text:
        for pattern, long in _SHORT_FORMS:
            text = pattern.sub(long, text)
    if " back to " in text:
        text = text.replace(" is back to ", " is ").replace(" are back to ", " are ")
    if "port " in text:
        text = _ON_PORT.sub("port is ", text)
    # What is being done is done: "we are using" says "we use".
    text = _BEING_DONE.sub("", text) if "ing" in text else text
    return _with_changes(text) if " to " in text and " from " not in text else text


def _with_changes(text: str) -> str:
    """What became something is that now."""
    found = _BECAME.search(text)
    if found is None or not found.start():
        return text
    return f"{text[: found.start()]}{_verb_now(text, found)} {text[found.end() :]}"


def _verb_now(text: str, found: re.Match[str]) -> str:
    """By which verb that is so which became so: by what changed, and into what."""
    subject = _WORD.findall(text[: found.start()])
    value = (_WORD.findall(text[found.end() :]) or [""])[0]
    is_shaped = bool(NUMBER.fullmatch(value)) or value in SHAPED
    is_thing = bool(found["passive"]) or subject[0] in ("the", "our", "this")
    if found["verb"] in _TOOK_UP and not is_thing:
        return "use"
    if is_shaped or found["verb"] not in _WENT or subject[-1] in ATTRIBUTES - {"office"}:
        return "is"
    return "is in" if is_thing else "live in"


def split(text: str) -> list[str]:
    """The words of a plain text."""
    return _WORD.findall(text)


def stems(raw: list[str]) -> list[str]:
    """Words without fillers and endings."""
    return [stem(word) for word in raw if word not in FILLERS]


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """A word without the endings of English verbs and plurals; a value as it is."""
    word = word.removesuffix("'s").removesuffix("’s")
    if word in IRREGULAR:
        return IRREGULAR[word]
    if not word.isalpha() or len(word) < 4:
        return word
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) >= 3:
            return word[: -len(ending)].rstrip("e")
    return word.rstrip("e")


def is_path(word: str) -> bool:
    """Whether a word looks like a path, an address or a host."""
    return "/" in word or "@" in word or ("." in word and not NUMBER.fullmatch(word))


SHAPED_STEMS = SHAPED | frozenset(map(stem, SHAPED))
ATTRIBUTE_STEMS = frozenset(map(stem, ATTRIBUTES | ROLES))
ROLE_STEMS = frozenset(map(stem, ROLES))
OWN = SELF | {"new"}
