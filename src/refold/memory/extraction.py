"""Facts in messages, found by rules for English: decisions, constraints, preferences, roles,
places, values, to-dos, and events in somebody's life.

Only the words of people and models are read, never a tool's; the assistant's own count only where
they bind, or name a cause that the user's answer confirms, and of a user's only what was typed
(`ledger.typed_words`). A user's message with a standing rule is one fact, whole; a long message is
several, one per paragraph with a rule; other text is taken sentence by sentence. Text with a
secret, questions and greetings are left out. Events may fill only a share of the talk, the most
informative first. Neighbours: `ledger.sentences` finds binding sentences, `standing_rules` rules
for all later work, `semantic` stores the facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from refold.core.model import Message, Trust, shows_memories
from refold.ledger.sentences import confirmed, marked, own_text, sentences
from refold.ledger.typed_words import PARAGRAPHS, typed, unquoted
from refold.memory.claim import DAYS_AND_MONTHS, claim_of
from refold.memory.standing_rules import REQUIREMENT, SHORT_CHARS, clauses_of, is_standing
from refold.patterns import regex
from refold.redaction import redacted

# Text of more than `SHORT_CHARS` and at most `WHOLE_CHARS_MAX` is taken whole if it has a rule.
SENTENCE_CHARS_MIN, SENTENCE_CHARS_MAX, WHOLE_CHARS_MAX = 8, 400, 1_800
MESSAGE_MAX = 12  # sentences of one message; a longer one is a document
EVENT, EVENTS_SHARE = "event", 0.2  # of the characters of the talk
EVENT_MIN, WORDS_MIN = 1.5, 5  # least worth and words of a sentence that is nothing but an event


class Taken(Struct, frozen=True):
    """A sentence worth remembering, and its seq; `replaces` are the ids of entries that it ends."""

    content: str
    seq: int
    trust: Trust
    kind: str
    replaces: tuple[str, ...] = ()
    at_ms: int = 0


def taken_from(messages: Iterable[tuple[int, Message]], share: float = EVENTS_SHARE) -> list[Taken]:
    """The sentences of these messages worth remembering, without duplicates, in order. Events get
    at most this share of the text."""
    found: dict[str, Taken] = {}
    said, before = 0, (0, "")
    for seq, message in messages:
        if message.role not in ("user", "assistant") or shows_memories(message):
            continue
        by_user, text, uncertain = message.role == "user", own_text(message), ""
        if by_user:
            text, uncertain = typed(text, is_standing)
        said += len(text)
        findings = confirmed(before[1], text) if by_user else ()
        taken = [Taken(one, before[0], "model", "finding") for one in findings if may_be_kept(one)]
        taken += list(_taken(seq, by_user, text))[:MESSAGE_MAX]
        before = (0, "") if by_user else (seq, text)
        maybe = list(_taken(seq, True, uncertain))[: MESSAGE_MAX - len(taken)]
        # Facts of tools wait in the inbox: a person says whether an uncertain rule is theirs.
        taken += [
            replace(one, trust="tool") for one in maybe if one.kind in ("constraint", REQUIREMENT)
        ]
        for one in taken:
            found.setdefault(claim_of(one.content).said, one)
    return _within(list(found.values()), int(share * said))


def _taken(seq: int, by_user: bool, text: str, *, is_part: bool = False) -> Iterator[Taken]:
    """The facts of one speaker's text, or of a part of a long one."""
    trust: Trust = "user" if by_user else "model"
    if by_user and len(text) > WHOLE_CHARS_MAX and len(parts := PARAGRAPHS.split(text)) > 1:
        for part in parts:
            yield from _taken(seq, by_user, part, is_part=True)
        return
    is_long = len(text.strip()) > SHORT_CHARS
    if by_user and is_long and clauses_of(text) and may_be_kept(text, WHOLE_CHARS_MAX):
        yield Taken(text.strip(), seq, trust, "constraint")
        return
    binding = {one.sentence: one.kind for one in marked(text, by_user=by_user)}
    for sentence in sentences(text) if by_user else binding:
        is_firm = by_user and is_standing(sentence, is_short=False)
        bound = "constraint" if is_firm else binding.get(sentence, "")
        if by_user and bound and unquoted(sentence) != sentence and not is_firm:
            bound = next((one.kind for one in marked(unquoted(sentence), by_user=True)), "")
        kind = kind_of(unquoted(sentence), bound, by_user=by_user)
        if by_user and not is_firm and is_standing(sentence):
            kind = kind if kind in ("decision", "preference") else "constraint"
            kind = REQUIREMENT if is_long or is_part else kind
        if kind and may_be_kept(sentence):
            yield Taken(sentence.strip(), seq, trust, kind)


def may_be_kept(text: str, chars_max: int = SENTENCE_CHARS_MAX) -> bool:
    """Whether the text has an acceptable length and contains no secret."""
    size = len(text.strip())
    return SENTENCE_CHARS_MIN <= size <= chars_max and redacted(text) == text


def _within(taken: list[Taken], room: int) -> list[Taken]:
    """The facts, without the least informative events that do not fit into the room."""
    room -= sum(len(one.content) for one in taken if one.kind != EVENT)
    events = [one for one in taken if one.kind == EVENT]
    kept: set[int] = set()
    for one in sorted(events, key=lambda one: worth(one.content), reverse=True):
        if len(one.content) <= room:
            room -= len(one.content)
            kept.add(id(one))
    return [one for one in taken if one.kind != EVENT or id(one) in kept]


_PREFERENCE = regex(
    r"\b(?:i|we)(?:['’]d| would)?(?: really| also| usually| always| do| don['’]t| do not){0,2} "
    r"(?:prefer|like|love|hate|dislike|enjoy|favou?r)\b|\bmy favou?rite\b|\bcall me\b",
    re.IGNORECASE,
)
_ROLE = regex(
    r"\b[Mm]y name is\b|\bI(?: am|['’]m) (?:an?|the|your|our) \w+"
    r"|\b[A-Z][\w.-]{0,40}(?:,| is| was| became)(?: now)? (?:our|my|the|an?|your) (?:[\w-]+ ){0,3}"
    r"(?:lead|manager|owner|maintainer|reviewer|designer|engineer|developer|architect|boss|admin"
    r"|colleague|teammate|customer|client|director|analyst|tester|contact|intern|partner|founder"
    r"|wife|husband|sister|brother|mother|father|mom|dad|son|daughter|friend|teacher|doctor|coach"
    r"|mentor|neighbou?r|roommate|assistant|c[eft]o|head|chief|author|editor|student|professor)\b"
    r"|\b[A-Z][\w.-]{0,40} (?:owns|maintains|leads|manages|reviews|runs|approves|handles"
    r"|is responsible for|is in charge of|reports to|works (?:on|for|at|as|with))\b"
)
_LOCATOR = regex(
    r"https?://|\blocalhost\b|\bports? \d{2,5}\b|\b[\w-]+(?:\.[\w-]+)*:\d{2,5}\b"
    r"|(?<![\w/])(?:~|\.{1,2})?/[\w.@-]{2,}|\b[\w.-]+/[\w.-]+/[\w./-]+|\b[A-Za-z]:\\\w"
    r"|\b[\w-]+\.(?:py|tsx?|jsx?|go|rs|java|toml|ya?ml|json|md|sql|env|ini|cfg|lock|db|sh|log)\b"
)
_STANDS = regex(
    r"\b(?:is|are|lives?|runs?|listens?|lies?|stays?|goes|go|kept|stored|located|found|mounted"
    r"|deployed|served|points?|resides?|belongs?|uses?|reads?|writes?)\b",
    re.IGNORECASE,
)
_TODO = regex(
    r"\b(?:todo|to do|open task)s?\b ?:|\bstill (?:need|have|has|needs) to\b"
    r"|\b(?:remember|remind (?:me|us)|(?:do not|don['’]t) forget) to\b",
    re.IGNORECASE,
)
_ASKS = regex(r"^(?:can|could|would|will|please|how|what|why|where|when|who|which)\b", re.I)

# --- events ---

_ABOUT_SELF = regex(
    r"\b(?:i|i['’](?:m|ve|d|ll)|my|we|we['’](?:re|ve|d|ll)|our|me|us)\b", re.IGNORECASE
)
_TIME = regex(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|ago|since|until|recently|weekend|birthday"
    rf"|{'|'.join(one for one in DAYS_AND_MONTHS if one != 'may')}|spring|summer|autumn|fall|winter"
    r"|(?:year|month|week|day|hour)s?)\b",
    re.IGNORECASE,
)
_PEOPLE = regex(
    r"\b(?:wife|husband|mom|mother|dad|father|son|daughter|kids?|child(?:ren)?|brother|sister"
    r"|friends?|family|partner|girlfriend|boyfriend|colleagues?|boss|team|dog|cat|pets?|puppy"
    r"|neighbou?rs?|grand(?:ma|pa|mother|father)|aunt|uncle|cousin|roommate|teacher|coach|mentor"
    r"|customers?|clients?)\b",
    re.IGNORECASE,
)
_ACTS = regex(
    r"\b(?:went|bought|got|started|began|joined|moved|made|took|won|lost|met|visited|finished"
    r"|signed|adopted|painted|wrote|read|attended|learn(?:ed|t)|applied|planned|planning|working"
    r"|found|gave|ran|saw|had|tried|opened|built|created|hosted|organi[sz]ed|graduated|married"
    r"|volunteer\w*|research\w*|named|called|love|enjoy|into|hope|want|going|play\w*|cook\w*"
    r"|hik\w*|camp\w*|danc\w*|stud(?:y|ied|ying)|launched|booked|quit|shipped|released|migrated"
    r"|deployed|hired|sold)\b",
    re.IGNORECASE,
)
_NAMED = regex(r"(?<=[a-z,] )[A-Z][a-zA-Z]+|\"[^\"]{2,60}\"|\d")
_SMALL_TALK = regex(
    r"^(?:wow|thanks?|thank you|that['’]s|sounds|congrat\w*|awesome|cool|great|yeah|yes|no|hey|hi"
    r"|hello|glad|nice|good|i agree|totally|absolutely|definitely|no problem|sure|ok|okay|oh)\b",
    re.IGNORECASE,
)
_YOU = regex(r"\byou(?:r|['’](?:re|ve|ll|d))?\b", re.IGNORECASE)


def kind_of(sentence: str, binding: str, *, by_user: bool) -> str:
    """The kind of fact in a sentence, empty if there is none. `binding` is the ledger's kind."""
    if sentence.rstrip().endswith("?"):
        return ""
    if not by_user or binding == "constraint":
        return binding
    if _PREFERENCE.search(sentence):
        return "preference"
    if _ASKS.match(sentence):
        return ""
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
    """How much a sentence says about a person: who, when, what, with which names."""
    if not _ABOUT_SELF.search(sentence) or len(sentence.split()) < WORDS_MIN:
        return 0.0
    gain = (
        0.8 * min(2, len(_TIME.findall(sentence)))
        + 0.6 * bool(_PEOPLE.search(sentence))
        + 0.6 * min(2, len(_ACTS.findall(sentence)))
        + 0.9 * min(2, len(_NAMED.findall(sentence)))
    )
    loss = bool(_SMALL_TALK.match(sentence)) + 0.8 * bool(_YOU.search(sentence))
    return max(0.0, gain - loss)
