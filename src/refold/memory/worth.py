"""Which sentences are worth remembering, by rules for English: what kind each is, and how much it
tells.

A user's sentence may be a constraint, a decision, a preference, somebody's role, a place, a value,
something to be done, or something that happened to somebody (`event`). The assistant's own words
count only where they bind. A question or a greeting is worth nothing. Neighbours:
`ledger.sentences` knows what binds, `claim` what has a value, `extraction` chooses.
"""

from __future__ import annotations

import re

from refold.memory.claim import claim_of

EVENT = "event"
EVENT_MIN = 1.5  # what a sentence of no other kind must be worth

_PREFERENCE = re.compile(
    r"\b(?:i|we)(?:['’]d| would)?(?: really| also| usually| always| do| don['’]t| do not){0,2} "
    r"(?:prefer|like|love|hate|dislike|enjoy|favou?r)\b|\bmy favou?rite\b|\bcall me\b",
    re.IGNORECASE,
)
_ROLE = re.compile(
    r"\b[Mm]y name is\b|\bI(?: am|['’]m) (?:an?|the|your|our) \w+"
    r"|\b[A-Z][\w.-]{0,40}(?:,| is| was| became)(?: now)? (?:our|my|the|an?|your) (?:[\w-]+ ){0,3}"
    r"(?:lead|manager|owner|maintainer|reviewer|designer|engineer|developer|architect|boss|admin"
    r"|colleague|teammate|customer|client|director|analyst|tester|contact|intern|partner|founder"
    r"|wife|husband|sister|brother|mother|father|mom|dad|son|daughter|friend|teacher|doctor|coach"
    r"|mentor|neighbou?r|roommate|assistant|c[eft]o|head|chief|author|editor|student|professor)\b"
    r"|\b[A-Z][\w.-]{0,40} (?:owns|maintains|leads|manages|reviews|runs|approves|handles"
    r"|is responsible for|is in charge of|reports to|works (?:on|for|at|as|with))\b"
)
_LOCATOR = re.compile(
    r"https?://|\blocalhost\b|\bports? \d{2,5}\b|\b[\w-]+(?:\.[\w-]+)*:\d{2,5}\b"
    r"|(?<![\w/])(?:~|\.{1,2})?/[\w.@-]{2,}|\b[\w.-]+/[\w.-]+/[\w./-]+|\b[A-Za-z]:\\\w"
    r"|\b[\w-]+\.(?:py|tsx?|jsx?|go|rs|java|toml|ya?ml|json|md|sql|env|ini|cfg|lock|db|sh|log)\b"
)
_STANDS = re.compile(
    r"\b(?:is|are|lives?|runs?|listens?|lies?|stays?|goes|go|kept|stored|located|found|mounted"
    r"|deployed|served|points?|resides?|belongs?|uses?|reads?|writes?)\b",
    re.IGNORECASE,
)
_TODO = re.compile(
    r"\b(?:todo|to do|open task)s?\b ?:|\bstill (?:need|have|has|needs) to\b"
    r"|\b(?:remember|remind (?:me|us)|(?:do not|don['’]t) forget) to\b",
    re.IGNORECASE,
)
_ASKS = re.compile(r"^(?:can|could|would|will|please|how|what|why|where|when|who|which)\b", re.I)

# --- what happened to somebody ---

_ABOUT_SELF = re.compile(
    r"\b(?:i|i['’](?:m|ve|d|ll)|my|we|we['’](?:re|ve|d|ll)|our|me|us)\b", re.IGNORECASE
)
_TIME = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|ago|since|until|recently|weekend|birthday"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|june|july|august"
    r"|september|october|november|december|(?:year|month|week|day|hour)s?|spring|summer|autumn"
    r"|fall|winter)\b",
    re.IGNORECASE,
)
_PEOPLE = re.compile(
    r"\b(?:wife|husband|mom|mother|dad|father|son|daughter|kids?|child(?:ren)?|brother|sister"
    r"|friends?|family|partner|girlfriend|boyfriend|colleagues?|boss|team|dog|cat|pets?|puppy"
    r"|neighbou?rs?|grand(?:ma|pa|mother|father)|aunt|uncle|cousin|roommate|teacher|coach|mentor"
    r"|customers?|clients?)\b",
    re.IGNORECASE,
)
_ACTS = re.compile(
    r"\b(?:went|bought|got|started|began|joined|moved|made|took|won|lost|met|visited|finished"
    r"|signed|adopted|painted|wrote|read|attended|learn(?:ed|t)|applied|planned|planning|working"
    r"|found|gave|ran|saw|had|tried|opened|built|created|hosted|organi[sz]ed|graduated|married"
    r"|volunteer\w*|research\w*|named|called|love|enjoy|into|hope|want|going|play\w*|cook\w*"
    r"|hik\w*|camp\w*|danc\w*|stud(?:y|ied|ying)|launched|booked|quit|shipped|released|migrated"
    r"|deployed|hired|sold)\b",
    re.IGNORECASE,
)
_NAMED = re.compile(r"(?<=[a-z,] )[A-Z][a-zA-Z]+|\"[^\"]{2,60}\"|\d")
_SMALL_TALK = re.compile(
    r"^(?:wow|thanks?|thank you|that['’]s|sounds|congrat\w*|awesome|cool|great|yeah|yes|no|hey|hi"
    r"|hello|glad|nice|good|i agree|totally|absolutely|definitely|no problem|sure|ok|okay|oh)\b",
    re.IGNORECASE,
)
_YOU = re.compile(r"\byou(?:r|['’](?:re|ve|ll|d))?\b", re.IGNORECASE)
WORDS_MIN = 5


def kind_of(sentence: str, binding: str, *, by_user: bool) -> str:
    """What kind of fact a sentence is, empty if it is none. `binding` is what the ledger takes it
    for."""
    if sentence.rstrip().endswith("?"):
        return ""
    if not by_user or binding == "constraint":
        return binding
    if _PREFERENCE.search(sentence):
        return "preference"
    return "" if _ASKS.match(sentence) else _told(sentence, binding)


def _told(sentence: str, binding: str) -> str:
    """What kind of fact a sentence is that asks for nothing."""
    if _TODO.search(sentence):
        return "todo"
    if _ROLE.search(sentence):
        return "role"
    if binding:
        return binding
    if _LOCATOR.search(sentence) and _STANDS.search(sentence):
        return "place"
    if claim_of(sentence).is_single:
        return "value"
    return EVENT if worth(sentence) >= EVENT_MIN else ""


def worth(sentence: str) -> float:
    """How much a sentence tells of somebody: who, when, what, with which names."""
    if not _ABOUT_SELF.search(sentence) or len(sentence.split()) < WORDS_MIN:
        return 0.0
    told = (
        0.8 * min(2, len(_TIME.findall(sentence)))
        + 0.6 * bool(_PEOPLE.search(sentence))
        + 0.6 * min(2, len(_ACTS.findall(sentence)))
        + 0.9 * min(2, len(_NAMED.findall(sentence)))
    )
    lost = bool(_SMALL_TALK.match(sentence)) + 0.8 * bool(_YOU.search(sentence))
    return max(0.0, told - lost)
