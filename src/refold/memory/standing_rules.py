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
from typing import NamedTuple

from refold.ledger.sentences import sentences
from refold.ledger.typed_words import PARAGRAPHS, unquoted
from refold.memory.claim import split, stem
from refold.memory.entry import MemoryEntry
from refold.patterns import regex
from refold.search.words import STOP

CLAUSE_CHARS_MAX = 700

_SOON = (
    r"\bfrom (?:now|here|today|this point) on(?:wards?)?\b|\b(?:going|moving) forward\b"
    r"|\bhenceforth\b|\buntil (?:further notice|i say)\b|\bstanding (?:rules?|orders?)\b"
    r"|\b(?:every|all|any|each) (?:new|future|later) \w+s? (?:gets?|has|have|must|should|needs?)\b"
    r"|\bget into the habit of\b|\bwe['’]re (?:now )?standardi[sz]ing\b"
    r"|\bab (?:jetzt|sofort|heute)\b|\b(?:in zukunft|künftig|von nun an|fortan|grundsätzlich)\b"
    r"|\bjede[rsnm]? neue[rsnm]?\b|\balle neuen\b|\b(?:désormais|dorénavant)\b"
    r"|\bà partir de maintenant\b|\bà l['’]avenir\b|\bchaque nouve(?:au|lle)\b"
    r"|\b(?:a partir de ahora|(?:de ahora )?en adelante)\b|\b(?:cada|tod[oa]) nuev[oa]\b"
)
_VERBS = (
    r"(?:us(?:e|ing)|start(?:ing)?|end(?:ing)?|begin|name|naming|prefix|includ(?:e|ing)|add(?:ing)?"
    r"|import|writ(?:e|ing)|keep|format|ensure|make sure|avoid|prefer|put|wrap|document)"
)
_ALWAYS = r"(?:always|never|immer|nie(?:mals)?|toujours|jamais|siempre|nunca)"
_BE_SO = r"(?:are|is|was|were|be|been|had|has|have|can|could|may|might)"
_LEAD = r"^\W*(?:[\w'’]+,? ){0,2}?(?:please |bitte )?"
_ORDERS = (
    rf"(?:{_LEAD}|[:;—–] ){_ALWAYS}\b(?! (?:a|the|{_BE_SO})\b)"
    r"|(?<!\bas if )(?<!\bals ob )(?<!\bcomme si )"
    rf"\b(?:you|we|du|sie|wir|nous|vous)(?: (?!{_BE_SO}\b)\w+){{0,6}}? {_ALWAYS}\b"
    rf"|(?:{_LEAD}|\byou (?:to |should |must ))(?:start )?{_VERBS}\b[^.;]{{0,60}}?"
    r"\b(?:all|every|each|any|your)\b"
    r"|\b(?:for|when) (?:[\w-]+ ){1,6}?[\w-]+, (?:please |you should |i[\w'’ ]+ you to )?"
    rf"(?:{_ALWAYS} )?{_VERBS}\b"
    r"|\ball [\w ]{1,40}? (?:should|must) (?:start|end|begin|be|have|use)\b"
    r"|\b(?:i['’]d like|i want|i need) you to (?:start|begin|use|end|get|update|change|switch)\b"
    r"|\bi (?:now )?(?:want|need|expect) (?:all|every|each|your)\b"
)
_STANDS = regex(f"{_SOON}|{_ORDERS}", re.IGNORECASE)
_GOES_ON = regex(r"(?:please )?\w+ (?:them|it)\b", re.IGNORECASE)


def is_standing(sentence: str) -> bool:
    """Whether a sentence of a user is a rule for all later work."""
    said = unquoted(sentence)[:CLAUSE_CHARS_MAX]
    return not sentence.rstrip().endswith("?") and bool(_STANDS.search(said))


def clauses_of(text: str) -> list[str]:
    """The standing rules in the text, each complete enough to be read on its own."""
    found: dict[str, None] = {}
    for paragraph in PARAGRAPHS.split(text):
        parts = sentences(paragraph)
        for at, part in enumerate(parts):
            if is_standing(part):
                end = at + 1 + bool(_GOES_ON.match(" ".join(parts[at + 1 : at + 2])))
                whole = " ".join(parts[at : None if part.endswith(":") else end])
                found[whole[:CLAUSE_CHARS_MAX]] = None
                if part.endswith(":"):
                    break
    return list(found)


class Rule(NamedTuple):
    """A standing rule and the entry that says it."""

    clause: str
    entry: MemoryEntry


def rules_of(entries: Iterable[MemoryEntry]) -> Iterator[Rule]:
    """The rules in force that a user set, the newest first, each once. A rule is left out if a
    later one sets another value."""
    seen: dict[frozenset[str], str] = {}
    changes: list[str] = []
    for entry in sorted(entries, key=lambda one: (one.valid_from_ms, one.seq), reverse=True):
        if entry.trust != "user" or entry.waits:
            continue
        new: list[str] = []
        for clause in _clauses_kept(entry.content):
            topic = _topic(clause)
            if (topic and topic in seen) or any(_ends(change, clause) for change in changes):
                continue
            seen[topic] = clause
            new += [clause] if _CHANGES.search(clause) else []
            yield Rule(clause, entry)
        changes += new


@lru_cache(maxsize=4_096)
def _clauses_kept(text: str) -> tuple[str, ...]:
    return tuple(clauses_of(text))


_VALUE = regex(r"[`'\"“„«][^`'\"”“»]{1,40}[`'\"”“»]|\S*[\d_/@.]\w\S*")
_WORD = regex(r"[^\W\d_]{3,}")
_MARKS = """
always never now forward going moving every all please want like need start starting ensure make
sure additionally also should must prefix suffix names name naming
"""
_MARK_STEMS = frozenset(map(stem, _MARKS.split()))


def _topic(clause: str) -> frozenset[str]:
    """The words of a clause without its values: of two clauses with one topic, the later is in
    force."""
    words = _WORD.findall(_VALUE.sub(" ", clause).casefold())
    return frozenset(stem(word) for word in words if word not in STOP) - _MARK_STEMS


_INSTEAD = regex(r"\b(?:instead of|(?:an)?statt|au lieu de|en (?:lugar|vez) de)\b", re.IGNORECASE)
_NOT = regex(r"\b(?:never|not?|nie(?:mals)?|nicht|kein\w*|ne|jamais|pas|nunca)\b|n['’]t\b", re.I)
_CHANGES = regex(f"{_SOON}|{_INSTEAD.pattern}", re.IGNORECASE)
# A pronoun with the verb beside it, which allows or orders: "you may", "darfst du".
_TOLD = regex(r"\b(?:you|we|tu|vous|nous)\s+\w+|\b\w+\s+(?:du|wir|sie)\b", re.IGNORECASE)
_FRAME = regex(f"{_SOON}|{_INSTEAD.pattern}|{_NOT.pattern}|\\b{_ALWAYS}\\b", re.IGNORECASE)
ALIKE_CHARS, ENDING_CHARS = 4, 2  # of two forms of one verb: pushe, pushen


def _ends(change: str, earlier: str) -> bool:
    """Whether a clause that announces a change is surely about all that an earlier clause says, and
    says the opposite, or names it as replaced."""
    old, new = _spoken(earlier), _spoken(_TOLD.sub(" ", _FRAME.sub(" . ", change)))
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
