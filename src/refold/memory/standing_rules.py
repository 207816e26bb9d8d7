"""Standing rules: sentences of a user that hold for all later work, not for one task.

A sentence is a standing rule if it is about the future ("from now on"), or orders something for
always, for never, or for everything of a kind ("end all variable names with"); in English, German,
French and Spanish. A clause can be read on its own: it is the sentence, and the list below it if it
ends in a colon. Of two clauses that differ only in their values the later one is in force. So is a
later one that announces a change and allows what the earlier one forbids, forbids what it orders,
or names what it replaces. If more differs, both are shown. Neighbours: `extraction` stores what has
clauses, `engine.conversation_memory` shows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from refold.ledger.sentences import sentences
from refold.ledger.typed_words import PARAGRAPHS, unquoted
from refold.memory.claim import ATTRIBUTE_STEMS, DAYS_AND_MONTHS, NUMBER_WORDS, split, stem
from refold.memory.entry import MemoryEntry
from refold.patterns import regex
from refold.search.words import STOP

CLAUSE_CHARS_MAX, SHORT_CHARS = 700, 240  # the latter of a message that says little but a rule
REQUIREMENT = "requirement"  # the kind of an order in a long message, for its task

# The grammar of a rule: function words of four languages, and no nouns of a trade.
_EACH = r"(?:every|each|all|any|jede[rsnm]?|alle[rsnm]?|chaque|tou(?:te)?s(?: les)?|cada|tod[oa]s)"
_SOON = (
    r"\bfrom (?:now|here|today|this point) on(?:wards?)?\b|\bfrom here on out\b"
    r"|\b(?:going|moving) forward\b|^\W*(?:as of|starting|beginning|effective) (?:now|today)\b"
    r"|\bhenceforth\b|\buntil (?:further notice|i say)\b|\bstanding (?:rules?|orders?)\b"
    r"|\bab (?:jetzt|sofort|heute)\b|\bvon (?:jetzt|nun|heute) an\b"
    r"|\b(?:in zukunft|künftig|fortan|grundsätzlich|désormais|dorénavant)\b"
    r"|\bà (?:partir de maintenant|compter d['’]aujourd['’]hui)\b"
    r"|\bà l['’]avenir\b|\b(?:(?:a partir de|desde) (?:ahora|hoy)|en adelante)\b"
    rf"|\b{_EACH} (?:(?:new|future|later) \w+ (?!is|are|was)|neue[rsnm]?\b|nouve\w+|nuev[oa])"
)
_ALWAYS = r"(?:always|(?:do not|don['’]t|only) ever|never|immer|nie(?:mals)?|"
_ALWAYS += r"toujours|jamais|siempre|nunca)"
_MUST = (
    r"(?:must|should(?! have\b)|shall|needs|ha(?:s|ve) to|muss|müssen|soll(?:en)?|brauch(?:t|en)"
    r"|doi(?:t|s|vent)|devez|faut|debe[ns]?|tienen? que)"
)
_BE_SO = (
    r"(?:are|is|was|were|be|been|had|has|have|he|can|could|may|might|got|did|does|habe[nt]?|hat"
    r"|hatten?|avons|avez|avait|hemos|ha[ns]?|\w+ed)"
)
# With one of these at its beginning, a clause tells or asks something and orders nothing.
_TELLS = (
    r"(?:i|it|he|she|they|there|the|an?|this|that|these|those|my|its|ich|er|es|der|die|das|eine?"
    r"|je|il|elles?|ils|ce|cette|les?|la|l['’]|une?|yo|él|ella|el|los|las|una?"
    r"|can|could|would|will|why|how|what|is|are|was|were|do|does|did)"
)
_WE = r"(?:you|we|du|sie|wir|nous|vous|tu|on|nosotros)"
_LEAD = rf"^\W*(?:(?!{_TELLS}\b)[\w'’/.-]+,? ){{0,2}}?(?:please |bitte )?"
_TIMES = (
    r"(?:whenever|(?:each|every) time|(?:before|after|for|with|on) (?:each|every|any)|immer wenn"
    r"|jedes mal|(?:vor|nach|für|bei|mit) jede[rsmn]|chaque fois|(?:avant|après|pour|à) chaque"
    r"|cada vez|(?:antes de|después de|para|con|en) cada)"
)
_VERBS = (
    r"(?:us(?:e|ing)|start(?:ing)?|end(?:ing)?|begin|name|naming|prefix|includ(?:e|ing)|add(?:ing)?"
    r"|import|writ(?:e|ing)|keep|format|ensure|make sure|avoid|prefer|put|wrap|document)"
)
_USE = r"(?:use|using|verwende[nt]?|benutze[nt]?|nutze[nt]?|utilis\w+|us(?:a|ad|amos|es))"
_NO_MORE = (
    r"(?:no longer|not? [^.,]{0,30}any ?(?:more|longer)|nicht mehr|kein\w* [^.,]{1,30}mehr|ya no"
    r"|n(?:e |['’])\w+ plus)"
)
_RATHER = r"(?:instead of|rather than|(?:an)?statt|au lieu de|plutôt que|en (?:vez|lugar) de)"
_ORDERS = (
    rf"(?:{_LEAD}|[:;—–] |\b(?:must|muss|müssen|faut|doi\w+|debe[ns]?) ){_ALWAYS}\b"
    rf"(?! (?:a|the|{_BE_SO})\b)|(?<!\bas if )(?<!\bals ob )(?<!\bcomme si )"
    rf"\b{_WE}(?: (?!(?:n['’])?(?:{_BE_SO}|if|ob|si)\b)[\w'’]+){{0,6}}? {_ALWAYS}\b(?! {_BE_SO}\b)"
    rf"|(?:{_LEAD}|\byou (?:to |should |must ))(?:start )?{_VERBS}\b[^.;]{{0,60}}?"
    r"\b(?:all|every|each|any|your)\b"
    r"|\b(?:for|when) (?:[\w-]+ ){1,6}?[\w-]+, (?:please |you should |i[\w'’ ]+ you to )?"
    rf"(?:{_ALWAYS} )?{_VERBS}\b"
    r"|\b(?:under no circumstances|unter keinen umständen|en aucun cas|bajo ningun\w+ \w+)\b"
    r"|\bi(?:['’]d)? (?:now )?(?:like|want|need|expect) (?:all|every|each|your"
    r"|you to (?:start|begin|use|end|get|change|switch))\b"
    r"|\ball [\w ]{1,40}? (?:should|must) (?:start|end|begin|be|use)\b"
)
# In a long message these may be about its task; in a short one they are all that it says.
_SHORT_ORDERS = (
    rf"\b{_EACH} (?!(?:i|{_WE}|time|of|that|this)\b)(?:[\w'’-]+ ){{1,6}}?{_MUST}\b"
    rf"|{_LEAD}{_WE} {_MUST} [^.;]{{1,60}}?\b{_EACH}\b"
    rf"|^\W*{_TIMES}\b [^.;]{{1,80}}?(?:, (?!{_TELLS}\b)\w|\b{_MUST}\b|\b{_WE}\b)"
    rf"|{_LEAD}\b[^.;,]{{1,60}}?(?:before|after|vor|nach|avant|après)"
    r" (?:each|every|jede[rsmn]|chaque)\b"
    r"|^\W*(?:please |bitte )?(?:stop \w+ing|no more|keine? [^.]{1,40} mehr|n['’e]\W?\w+ plus)\b"
    rf"|{_LEAD}(?:{_WE} )?{_USE}\b[^.;]{{1,60}}?(?:, (?:not|never|nicht|nie|pas|no)|{_RATHER})\b"
    rf"|{_LEAD}(?:{_WE} )?(?:{_USE}\b.{{0,30}}?{_NO_MORE}|n['’o]\s?{_USE} (?:plus|más))\b"
    r"|^\W*(?:[\w'’-]+ ){0,3}(?:convention|rule|policy|regel|konvention|règle|regla)s?\b"
    r"[^.:?]{0,30}:|^\W*(?:please )?(?:remember(?::| that\b)|merk dir\b|retiens que|recuerda que)"
    r"|^\W*(?:(?:i|we|ich|je|nous) (?:\w+ly )?(?:prefer|dislike|hate|bevorzuge|préf\w+)|prefiero)"
    rf" (?!{_TELLS}\b|option)|\b(?:we|wir|nous|on|hemos)\b.{{0,20}} (?:decided|beschloss|décid)"
)
# What takes an order back: "you no longer need to", "you may deploy on Fridays again".
_AGAIN = r"\b(?:again|wieder|de nouveau|de nuevo|otra vez)\b"
_MAY = (
    r"(?:(?:you|we) (?:can|may)|(?:(?:du|ihr|wir|sie) )?(?:darf|dürf|kann|könn)\w*"
    r"(?: (?:du|ihr|wir|sie))?|(?:tu|vous|nous|on) (?:peu|pouv)\w+|puedes?|podéis|podemos)"
)
_LIFTS = regex(rf"{_LEAD}(?:{_WE} )?{_NO_MORE}\b|\b{_MAY}\b[^.;]{{0,80}}{_AGAIN}", re.IGNORECASE)
_STANDS = regex(f"{_SOON}|{_ORDERS}", re.IGNORECASE)
_STANDS_ALONE = regex(f"{_LIFTS.pattern}|{_SHORT_ORDERS}", re.IGNORECASE)
_GOES_ON = regex(r"(?:please )?\w+ (?:them|it)\b", re.IGNORECASE)


def is_standing(sentence: str, *, is_short: bool = True) -> bool:
    """Whether a sentence of a user is a rule for all later work; `is_short` says whether its
    message is."""
    said = unquoted(sentence)[:CLAUSE_CHARS_MAX]
    if sentence.rstrip().endswith("?"):
        return False
    return bool(_STANDS.search(said) or (is_short and _STANDS_ALONE.search(said)))


@lru_cache(maxsize=4_096)
def clauses_of(text: str, *, is_short: bool = True) -> tuple[str, ...]:
    """The standing rules in the text, each complete enough to be read on its own."""
    found: dict[str, None] = {}
    is_short = is_short and len(text.strip()) <= SHORT_CHARS
    for paragraph in PARAGRAPHS.split(text):
        parts = sentences(paragraph)
        for at, part in enumerate(parts):
            if is_standing(part, is_short=is_short):
                end = at + 1 + bool(_GOES_ON.match(" ".join(parts[at + 1 : at + 2])))
                whole = " ".join(parts[at : None if part.endswith(":") else end])
                found[whole[:CLAUSE_CHARS_MAX]] = None
                if part.endswith(":"):
                    break
    return tuple(found)


def clauses_in(entry: MemoryEntry) -> tuple[str, ...]:
    """The standing rules in an entry."""
    return clauses_of(entry.content, is_short=REQUIREMENT not in entry.tags)


class Rule(NamedTuple):
    """A standing rule and the entry that says it."""

    clause: str
    entry: MemoryEntry


def rules_of(entries: Iterable[MemoryEntry]) -> Iterator[Rule]:
    """The rules in force that a user set, the newest first, each once. A rule is left out if a
    later message surely replaces it; a message that lifts rules is shown if there is one."""
    said, changes, is_lifting = set[frozenset[str]](), list[str](), dict[str, bool]()
    rules: list[Rule] = []
    own = [one for one in entries if one.trust == "user" and not one.waits]
    own.sort(key=lambda one: (one.valid_from_ms, one.seq), reverse=True)
    for _, message in groupby(own, lambda one: one.source or one.id):
        new: list[Rule] = []
        for rule in (Rule(text, one) for one in message for text in clauses_in(one)):
            words, topic = _spoken(rule.clause), _topic(rule.clause)
            for change in changes:
                shared = sum(_covers(_spoken(change), frozenset({one})) for one in words)
                is_lifting[change] |= 2 * shared >= len(words)  # of a rule in other words, too
            is_over = any(_ends(change, rule.clause) for change in changes)
            if not is_over and said.isdisjoint({words, topic} - {frozenset()}):
                new.append(rule)
        for rule in new:
            said.add(_spoken(rule.clause))
            is_change = bool(_CHANGES.search(rule.clause))
            said.add(_topic(rule.clause, is_set=not is_change))
            if is_change:
                changes.append(rule.clause)
                is_lifting.setdefault(rule.clause, not _LIFTS.search(rule.clause))
        rules += new
    return (one for one in rules if is_lifting.get(one.clause, True))


_QUOTED = r"[`'\"“„«][^`'\"”“»]{1,40}[`'\"”“»]"
_NUMBER, _DATE = "|".join(NUMBER_WORDS), "|".join(DAYS_AND_MONTHS)
_SET = rf"{_QUOTED}|(?P<number>\d[\w.,:%-]*|{_NUMBER})|(?:{_DATE})s?"
# The value at the end of an order, with its unit: "to 15 minutes".
_FINAL = regex(rf"(?<=\s)(?P<value>(?P<set>{_SET})|\S*[\d_/@.]\w\S*?)(?:\s+[^\W\d_]+)?\W*$")
_LINKS = ATTRIBUTE_STEMS | STOP | {"ist", "est", "son", "von", "auf", "bis", "mit", "sur", "por"}
_MARKS = """
always never now forward going moving every all please want like need start starting ensure make
sure additionally also should must prefix suffix names name naming
"""
_MARK_STEMS = frozenset(map(stem, _MARKS.split()))
_INSTEAD = regex(rf"\b{_RATHER}\b", re.IGNORECASE)
_NOT = regex(r"\b(?:never|not?|nie(?:mals)?|nicht|kein\w*|ne|jamais|pas|nunca)\b|n['’]t\b", re.I)
_CHANGES = regex(f"{_SOON}|{_INSTEAD.pattern}|{_LIFTS.pattern}", re.IGNORECASE)
_TOLD = regex(rf"\b(?:{_MAY}|{_WE} {_MUST})\b", re.IGNORECASE)  # "you may", "du sollst"
_FRAME = regex(
    rf"{_SOON}|{_INSTEAD.pattern}|{_NOT.pattern}|\b{_ALWAYS}\b|{_AGAIN}|\b(?:longer|plus|mehr|más)\b",
    re.IGNORECASE,
)
ALIKE_CHARS, ENDING_CHARS = 4, 2  # of two forms of one verb: pushe, pushen


def _topic(clause: str, *, is_set: bool = False) -> frozenset[str]:
    """The words of an order without the value at its end, empty if it has none: of two orders with
    one topic, the later sets another value. A number behind a noun names a thing, as in "crane 5",
    and what is forbidden stays so: neither is a value. With `is_set`, only for a number, a day or a
    literal."""
    text = _FRAME.sub(" ", clause.casefold())
    found = _FINAL.search(text)
    if found is None or _NOT.search(clause) or (is_set and not found["set"]):
        return frozenset()
    before = split(text[: found.start()])[-1:]
    is_name = before and found["number"] and len(before[0]) > 2 and stem(before[0]) not in _LINKS
    if not before or is_name:
        return frozenset()
    return _spoken(f"{text[: found.start()]} . {text[found.end('value') :]}") | {"#"}


def _ends(change: str, earlier: str) -> bool:
    """Whether a clause that announces a change is surely about all that an earlier clause says, and
    says the opposite, or names it as replaced."""
    old, new = _spoken(_TOLD.sub(" ", earlier)), _spoken(_TOLD.sub(" ", _FRAME.sub(" . ", change)))
    if not old or not _covers(new, old):
        return False
    _, *replaced = _INSTEAD.split(change, maxsplit=1)
    if replaced:
        return _covers(old, _spoken(replaced[0]))
    is_opposite = bool(_NOT.search(change)) != bool(_NOT.search(earlier))
    return is_opposite and _covers(old, new)


def _spoken(clause: str) -> frozenset[str]:
    """The words of a clause with its values, without those that make it a rule."""
    words = split(_FRAME.sub(" . ", clause).casefold())
    return frozenset(stem(word) for word in words if word not in STOP) - _MARK_STEMS


def _covers(words: frozenset[str], those: frozenset[str]) -> bool:
    """Whether all of those words, in some form, are among the words."""
    return all(
        word in words or any(_is_form(*sorted((word, one))) for one in words) for word in those
    )


def _is_form(short: str, long: str) -> bool:
    ending = len(long) - len(short)
    return long.startswith(short) and len(short) >= ALIKE_CHARS and ending <= ENDING_CHARS
