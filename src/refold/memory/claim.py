"""The claim of a sentence, found by code: its topic, its value, and the claim it ends.

A sentence is first normalized: "The database now listens on port 6432", "database port:
6432" and "the database port was changed to 6432" become equal (`said`). Two sentences with
different values for the same thing have the same `about`, and where only one value can be true
(`is_single`) the later ends the earlier. A denial ends the denied sentence, and vice versa.
Nothing is guessed: a sentence without a known verb claims only itself, and so does a sentence in
another language, except around `=`, `:` and a number. Neighbour: `merging` derives periods of
validity.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from refold.patterns import regex


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


FILLERS = _word_set("""
a an the that please note remember also just now currently today very really fyi back again
""")
SELF = _word_set("i we me us my our you")
IS = _word_set("is are was were equals")
# Verbs with one true value at a time: with a preposition, or after `is`.
SINGLE = _word_set("""
live work run listen reside sit stay cost weigh report belong base locate host deploy name call own
maintain manage schedule plan
""")
# Verbs of location, if a path or an address follows.
LOCATION_VERBS = _word_set("go point write read store save mount lie")
# Verbs for tasks that usually one person does, but several may.
AGENT_VERBS = _word_set("own lead maintain manage handle approve review")
MANY = _word_set("use have prefer like want need require support contain keep set")
PREPOSITIONS = _word_set("in at for on to by as from with")
# Attributes with one value at a time: the subject ends in one of these, or has an adjective below.
ATTRIBUTES = _word_set("""
address age backend birthday branch budget capital city code color colour country currency database
date deadline default domain editor email employer endpoint extension folder format framework goal
headquarters height host hostname job key language level license licence limit locale location login
maximum minimum mode model name nickname number office password path phase phone platform port
price priority pronouns provider purpose rate region release repo repository role salary schedule
shell size stage state status street style theme threshold timeout timezone title url username value
vendor venue version wage website weight zone
""")
# Roles of one person at a time, with a definite article: "the lead", "our manager".
ROLES = _word_set("""
lead leader manager owner maintainer boss director president chair head admin contact reviewer
captain coach editor designer architect founder chief secretary treasurer ceo cto cfo coo
""")
ADJECTIVES = _word_set(
    "favourite favorite preferred default current main primary official latest next"
)
DAYS_AND_MONTHS = _words("""
monday tuesday wednesday thursday friday saturday sunday january february march april may june july
august september october november december
""")
# Words that are values, like numbers: days, months and states.
SHAPED = frozenset(DAYS_AND_MONTHS) | _word_set("""
true false on off yes no enabled disabled active inactive open closed public private allowed
forbidden optional mandatory green red up down online offline available unavailable
""")
CURRENCIES = _words("euro dollar pound krona kronor franc yen rupee cent")
NUMBER_WORDS = _words("""
one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty
sixty seventy eighty ninety hundred thousand million
""")

# Words that announce a change, and words in phrases that do.
CHANGE_WORDS = _word_set("""
now nowadays anymore instead since again back today new newly off gone away replaced replaces
replacing switched switching swapped moved moving changed changes upgraded downgraded migrated
handed joined joins cancelled canceled retired retires sold left quit stopped dropped died ended
slipped postponed pushed rescheduled raised lowered reduced increased extended shortened cut started
promoted became become renamed lost broke traded abandoned discontinued resigned divorced
""")
CHANGE_PHRASE_WORDS = _word_set("no any these as from starting beginning up down over")
# Words that reveal little about the topic of a sentence.
LITTLE = _word_set("""
day time thing way kind sort lot bit get go take make give come put keep know tell think want look
find mean currently usually often again still right long exactly use have like need buy work do year
month week hour minute morning evening night today number name people good great big small percent
""")

IRREGULAR = {
    **dict.fromkeys(("has", "had", "have", "having"), "have"),
    **dict.fromkeys(("using", "used", "uses"), "use"),
    **dict.fromkeys(("running", "runs"), "run"),
    **dict.fromkeys(("goes", "going"), "go"),
    **dict.fromkeys(("colour", "colours"), "color"),
    "led": "lead",
    "favourite": "favorit",
    "licence": "licens",
    "grey": "gray",
    "centre": "center",
}


_WORD = regex(r"[^\W_]+(?:[.:/@_+\\'’-]+[^\W_]+)*")
# `port: 6432` sets a value; `Caroline: I moved to …` names a speaker.
_ASSIGNED = regex(
    r"(?<=\w)\s*(?:=|:(?=\s)(?!\s+(?:i|we|he|she|they|you|it|my|our)\b)(?!\s+(?:\S+\s+){6}))\s*"
)
_SHORT_FORMS = (
    (regex(r"(?<=[a-z])['’]re\b"), " are"),
    (regex(r"\b(it|that|he|she|there|here)['’]s\b"), r"\1 is"),
    (regex(r"\bcan['’]t\b"), "can not"),
    (regex(r"(?<=[a-z])n['’]t\b"), " not"),
)
_BEING_DONE = regex(r"\b(?:am|is|are)\s+(?=\w+ing\b)")
_ON_PORT = regex(
    r"\b(?:(?:is|are)\s+)?(?:listens?|listening|runs?|running|is|are|available|reachable|serves?)"
    r"\s+(?:on|at)\s+port\s+(?=\d)"
)
_BECAME = regex(
    r"\b(?:(?:has|have|had)\s+)?(?P<passive>(?:been|was|were|is|are|got)\s+)?"
    r"(?P<verb>changed|raised|lowered|reduced|increased|extended|set|reset|updated|bumped|pushed"
    r"|postponed|shifted|switched|moved|upgraded|downgraded|migrated|relocated|transferred"
    r"|rescheduled|delayed)(?:\s+(?:back|over|up|down|out))?\s+to\s+(?=\w)"
)
_WENT = ("moved", "relocated", "transferred")
_TOOK_UP = ("switched", "upgraded", "downgraded", "migrated")
NUMBER = regex(r"[vV]?\d[\w.:/,%-]*")


def plain(content: str) -> str:
    """The text in lower case, with contractions and changes spelled out. For speed, each pattern is
    tried only if a substring shows that it can match."""
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
    # "we are using" means "we use".
    text = _BEING_DONE.sub("", text) if "ing" in text else text
    return _with_changes(text) if " to " in text and " from " not in text else text


def _with_changes(text: str) -> str:
    """Turns a change into its result: "was changed to" becomes "is"."""
    found = _BECAME.search(text)
    if found is None or not found.start():
        return text
    subject = _WORD.findall(text[: found.start()])
    value = (_WORD.findall(text[found.end() :]) or [""])[0]
    is_shaped = bool(NUMBER.fullmatch(value)) or value in SHAPED
    is_thing = bool(found["passive"]) or subject[0] in ("the", "our", "this")
    if found["verb"] in _TOOK_UP and not is_thing:
        verb = "use"
    elif is_shaped or found["verb"] not in _WENT or subject[-1] in ATTRIBUTES - {"office"}:
        verb = "is"
    else:
        verb = "is in" if is_thing else "live in"
    return f"{text[: found.start()]}{verb} {text[found.end() :]}"


def split(text: str) -> list[str]:
    """The words of plain text."""
    return _WORD.findall(text)


def stems(raw: list[str]) -> list[str]:
    """Words without fillers and endings."""
    return [stem(word) for word in raw if word not in FILLERS]


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """A word without English verb and plural endings; a value unchanged."""
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


_VALUE = r"[^.;]{1,80}?"
_CHANGES = r"moved?|switch(?:ed)?|changed?|migrated?|upgraded?|renamed?|went|relocated?"
# Phrases for leaving one thing for another.
_MOVES = (
    regex(
        rf"\b(?:{_CHANGES})\b(?P<what>[^.;]{{0,80}}?)\bfrom\s+(?P<old>{_VALUE})\s+to\s+"
        r"(?P<new>[^.;]{1,80})"
    ),
    regex(
        rf"\b(?:{_CHANGES})\b(?P<what>[^.;]{{0,80}}?)\bto\s+(?P<new>{_VALUE})\s+from\s+"
        r"(?P<old>[^.;]{1,80})"
    ),
    regex(r"(?P<what>)\breplaced?\s+(?P<old>[^.;]{1,80}?)\s+(?:with|by)\s+(?P<new>[^.;]+)"),
    regex(
        r"(?P<what>)^(?P<old>[^.;]{1,80}?)\s+(?:was|were|is|has been)\s+replaced\s+(?:with|by)\s+"
        r"(?P<new>[^.;]+)"
    ),
    regex(r"(?P<what>)\buse\s+(?P<new>[^.;]{1,80}?)\s+instead of\s+(?P<old>[^.;]{1,80})"),
)
_ENDED = regex(r"\bno longer\b|\b(?:stopped|quit)\s+(?=\w+ing\b)")
_DENIED = regex(r"(?<=\w)\s+(?:(?:do|does|did)\s+)?(?:not|never)\b")
_ANY_MORE = regex(r"\bany ?(?:more|longer)\b")
_LEFT_WORK = regex(r"^(?P<who>\w+(?: \w+)?) (?:has )?(?:left|quit) (?P<what>\w+(?: \w+)?)\W*$")
_SENTENCES = regex(r"[.;!?。]\s+\S|\n\s*\S")
_DETERMINERS = frozenset({"the", "our", "my", "all"})
SUBJECT_WORDS_MAX, WORDS_MAX = 8, 40  # a longer sentence makes several claims


class Claim(Struct, frozen=True, gc=False):
    """`said` is the normalized sentence. `about` is the thing that has the value, empty if unknown.
    `left` is the value that something moved away from, and `left_words` are the words for the thing
    that moved; `ended` is a sentence that is no longer true."""

    said: str
    about: str = ""
    value: str = ""
    is_single: bool = False
    is_rival: bool = False  # another value deserves a note, although both can be true
    left: str = ""
    left_words: frozenset[str] = frozenset()
    ended: str = ""


def claim_of(content: str) -> Claim:
    """The claim of a sentence."""
    text = plain(content)
    raw = split(text)
    # Text without words claims itself, because two different symbols are not equal.
    said = " ".join(stems(raw)) or text.strip()
    if len(raw) > WORDS_MAX or _SENTENCES.search(text):
        return Claim(said)
    if ended := _denied(text):
        return Claim(said, ended=" ".join(stems(split(ended))))
    may_move = " from " in text or "replace" in text or "instead of" in text
    for pattern in _MOVES if may_move else ():
        if found := pattern.search(text):
            return _move(said, text, found)
    return _statement(said, raw)


def _denied(text: str) -> str:
    """The sentence that the text denies or ends; empty if there is none."""
    if found := _ENDED.search(text):
        return f"{text[: found.start()]} {text[found.end() :]}"
    if "not" in text or "never" in text:
        without, count = _DENIED.subn("", text, count=1)
        return _ANY_MORE.sub("", without) if count else ""
    if "left" in text or "quit" in text:
        found = _LEFT_WORK.match(text)
        return f"{found['who']} work at {found['what']}" if found else ""
    return ""


def _move(said: str, text: str, left: re.Match[str]) -> Claim:
    before = stems(split(text[: left.start()] + " " + left["what"]))
    old = " ".join(stems(split(left["old"])))
    words = frozenset(before) - SELF if left["what"].strip() or left.start() else frozenset()
    return Claim(said, left=old, left_words=words - {"use"})


# --- statements ---


def _statement(said: str, raw: list[str]) -> Claim:
    """The claim around the first known verb: subject, verb, value."""
    words = stems(raw)
    at = _verb_at(words)
    if at < 0 or at + 1 >= len(words):
        return Claim(said)
    if "of" in words[:at]:
        # The email of Anna is Anna's email.
        of = words.index("of")
        words = [*words[of + 1 : at], *words[:of], *words[at:]]
        at = _verb_at(words)
    return _by_person(said, raw, words, at) or _by_value(said, words, at)


def _verb_at(words: list[str]) -> int:
    """The position of the first verb that is not a noun before `is`; -1 if there is none."""
    for at, word in enumerate(words[:SUBJECT_WORDS_MAX]):
        if word in _VERBS and not _is_noun(words, at):
            return at
    return -1


def _is_noun(words: list[str], at: int) -> bool:
    """Whether a possible verb is a noun here: "the host is", "the work address is"."""
    if words[at] in IS:
        return False
    after = words[at + 1 : at + 3]
    return bool(after) and (after[0] in IS or (after[0] in ATTRIBUTE_STEMS and after[-1] in IS))


def _by_person(said: str, raw: list[str], words: list[str], at: int) -> Claim | None:
    """A claim about who has a role or does something, with the person as value."""
    subject, rest = words[:at], words[at + 1 :]
    if not subject or len(subject) > 3 or subject[-1] in ATTRIBUTE_STEMS:
        return None
    if words[at] in _AGENTS and rest[0] not in PREPOSITIONS and _is_the(raw):
        return _agent(said, raw, subject, [words[at], *rest])
    if words[at] not in IS:
        return None
    if rest[:2] in (["responsibl", "for"], ["in", "charg"]):
        return _agent(said, raw, subject, ["responsibl", rest[-1]])
    if rest[-1] not in ROLE_STEMS or not _is_the(raw):
        return None
    role = " ".join(word for word in rest if word not in OWN)
    return Claim(said, about=f"{role} is", value=" ".join(subject), is_single=True)


def _is_the(raw: list[str]) -> bool:
    """Whether a definite determiner follows the verb: `the lead`, not `a lead`."""
    at = next((at for at, word in enumerate(raw) if stem(word) in _VERBS), len(raw))
    return not _DETERMINERS.isdisjoint(raw[at + 1 : at + 3])


def _agent(said: str, raw: list[str], subject: list[str], task: list[str]) -> Claim:
    """A claim about who does something; with "now", the person takes over from another."""
    return Claim(
        said,
        about=f"who {' '.join(task)}",
        value=" ".join(subject),
        is_single="now" in raw,
        is_rival=True,
    )


def _by_value(said: str, words: list[str], at: int) -> Claim:
    after = _after_verb(words, at)
    frame, value = " ".join(_frame(words, at, after)), words[after:]
    if not value:
        return Claim(said)
    if _is_single(words, at, after):
        return Claim(said, about=frame, value=" ".join(value), is_single=True)
    takes_paths = words[at] in IS or words[at] in _PLACED
    shaped = [word for word in value if _is_shaped(word, takes_paths)]
    if shaped:
        mask = " ".join("#" if word in shaped else word for word in value)
        return Claim(said, about=f"{frame} {mask}", value=" ".join(shaped), is_single=True)
    if words[at] in IS and value[-1] in _NEEDED and (own := list(filter(_is_number, words[:at]))):
        mask = " ".join("#" if word in own else word for word in words)
        return Claim(said, about=mask, value=" ".join(own), is_single=True)
    is_rival = words[at] in IS or words[at] == stem("prefer")
    return Claim(said, about=frame, value=" ".join(value), is_rival=is_rival)


_ONE_VALUE = frozenset(map(stem, SINGLE))
_PLACED = frozenset(map(stem, LOCATION_VERBS))
_AGENTS = frozenset(map(stem, AGENT_VERBS))
_VERBS = IS | _ONE_VALUE | _PLACED | _AGENTS | frozenset(map(stem, MANY))
_UNTELLING = IS | SELF | PREPOSITIONS | {"of", "and", "or", "it", "this", "user"}
_ADJECTIVES = frozenset(map(stem, ADJECTIVES))
_NEEDED = frozenset(map(stem, ("required", "needed", "recommended", "mandatory")))


def _frame(words: list[str], at: int, after: int) -> list[str]:
    """The words before the value; "work for" and "work at" are the same."""
    subject = words[:at]
    if subject[-1:] and subject[-1] in ROLE_STEMS:
        subject = [word for word in subject if word != "our"]
    frame = [*subject, *words[at:after]]
    return [*frame[:-1], "at"] if frame[-2:] == ["work", "for"] else frame


def _is_single(words: list[str], at: int, after: int) -> bool:
    """Whether only one value at a time can be true, judged by verb and preposition or by the
    subject."""
    verbs = _ONE_VALUE & set(words[at:after])
    if verbs and (words[at] in IS or words[after - 1] in PREPOSITIONS):
        return True
    subject = words[:at]
    return words[at] in IS and bool(
        subject and (subject[-1] in ATTRIBUTE_STEMS or _ADJECTIVES & set(subject))
    )


def _after_verb(words: list[str], at: int) -> int:
    """The start of the value: after the verb, a verb of state after `is`, and a preposition."""
    after = at + 1
    if words[at] in IS and after < len(words) - 1 and words[after] in _ONE_VALUE:
        after += 1
    if after < len(words) - 1 and words[after] in PREPOSITIONS:
        after += 1
    return after


def _is_shaped(word: str, takes_paths: bool = False) -> bool:
    return _is_number(word) or word in SHAPED_STEMS or (takes_paths and is_path(word))


def _is_number(word: str) -> bool:
    return bool(NUMBER.fullmatch(word))


def telling_words(said: str) -> str:
    """The distinctive words of a sentence, sorted, so that word order does not matter."""
    return " ".join(sorted(set(said.split()) - _UNTELLING))


def ends(move: Claim, claim: Claim) -> bool:
    """Whether a move ends this claim: its value contains the words that were left, and it is about
    the thing that moved, if the move names one."""
    left = f" {move.left} "
    subject = set(claim.about.split()) - {"#"}
    if "use" in subject and left in f" {claim.about} {claim.value} ":
        return (
            not move.left_words or not SELF.isdisjoint(subject) or bool(move.left_words & subject)
        )
    # In "1,020 euros" only the number is the value; the unit is part of the topic.
    number = " ".join(word for word in move.left.split() if _is_shaped(word))
    is_value = left in f" {claim.value} " or (number and f" {number} " == f" {claim.value} ")
    if not claim.is_single or not is_value:
        return False
    if move.left_words:
        return bool(move.left_words & subject)
    return any(map(str.isdigit, move.left)) or bool(subject & SELF)


# Sharing one of these does not mean that two sentences have a topic in common: two unrelated
# appointments may both be on Mondays.
WEAK_STEMS = frozenset(map(stem, (*LITTLE, *DAYS_AND_MONTHS, *NUMBER_WORDS, *CURRENCIES)))
_PHRASE = regex(
    r"\b(?:no (?:more|longer)|any (?:more|longer)|these days|as of|went from"
    r"|(?:from|starting|beginning) (?:this|today|now|next|on)|(?:up|down|over) to|stepped down"
    r"|is over|t(?:ake|akes|ook|aken) over|g[ai]ven? up)\b"
)
_SIMPLE_WORD = regex(r"\w+")


def announces_change(content: str) -> bool:
    """Whether a sentence announces that something has changed."""
    text = content.casefold()
    words = _SIMPLE_WORD.findall(text)
    if not CHANGE_WORDS.isdisjoint(words):
        return True
    return not CHANGE_PHRASE_WORDS.isdisjoint(words) and bool(_PHRASE.search(text))
