"""Turns text into terms, in the same way for the index and for queries; and finds the dates in a
query.

SQLite's own tokenizer (`porter unicode61`) splits at everything but letters and digits, folds case
and accents, and stems English, in C. The rest is done here, in bulk, before it sees the text:
Chinese, Japanese and Korean become overlapping pairs of characters, and the parts of names such as
`updateScore` or `utf8` go to a second column. A query looks for all forms of an irregular word
(`meet`, `met`), and prefers messages written on a day it names, or in the days after.
Neighbours: `index` stores the columns, `searcher` builds queries, `index_query` uses the dates.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

from msgspec import Struct

from refold.display import without_colors
from refold.patterns import regex

TOKENIZER = ("porter", "unicode61", "remove_diacritics", "2")
QUERY_CHARS_MAX, TERMS_MAX, PHRASES_MAX = 20_000, 256, 8
# FTS5 compares a phrase at every position of its words, so a long one of equal words would be slow;
# this many words find the place as well as all of them do.
PHRASE_WORDS_MAX = 32
PHRASE_WEIGHT = 2.0
PARTS_MAX, WORD_CHARS_MAX = 8, 64

_CJK = (
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003134f"
)
_CJK_RUN = regex(f"[{_CJK}]+")
_WORD = regex(r"[^\W_]+")
_PIECE = regex(f"[{_CJK}]+|[^\\W_{_CJK}]+")
_HUMP = regex(
    r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])"
)
_DIGIT, _INNER_CAPITAL = regex("[0-9]"), regex("[A-Za-z][A-Z]")
# A question mark after a word, not one inside a URL or `value?.name`.
_ASKED = regex(r"\?[^\w\s]*(?:\s|$)|[？؟]")
_QUOTED = regex(r'"([^"]*)"')
_EDGES = ".,;:!?()[]{}<>'`*-–—/\\|&=+~^%$#@\"…“”‘’"

_STOP = """
a about above after again against all also am an and any are aren as at be because been before being
below between both but by can cannot could couldn d did didn do does doesn doing don down during
each ever few for from further had hadn has hasn have haven having he her here hers herself him
himself his how i if in into is isn it its itself just ll m ma me might more most much must mustn my
myself need no nor not now o of off on once only or other our ours ourselves out over own please re
s same shall shan she should shouldn so some such t than that the their theirs them themselves then
there these they this those through to too under until up upon us ve very was wasn we were weren
what when where which while who whom whose why will with won would wouldn y yet you your yours
yourself yourselves
"""
STOP = frozenset(_STOP.split())

Stems = Callable[[str], list[str]]


class Term(Struct, frozen=True):
    """One term of a query: an FTS5 expression, the original words, and the weight."""

    match: str
    text: str
    weight: float = 1.0


class Query(Struct, frozen=True):
    """A parsed query. `terms` rank, `required` phrases must all occur, and `quiet` words are too
    common to search for."""

    terms: tuple[Term, ...] = ()
    required: tuple[Term, ...] = ()
    quiet: tuple[str, ...] = ()
    text: str = ""

    @property
    def all_terms(self) -> tuple[Term, ...]:
        return (*self.terms, *self.required)


# --- into the index ---


def columns(text: str) -> tuple[str, str]:
    """The two columns of the text in the index: the text, and the parts of its names."""
    text = without_colors(text)
    if not text.isascii():
        # Every character starts a pair, and the last is on its own, so a prefix finds a single
        # character.
        text = _CJK_RUN.sub(lambda run: f" {' '.join(_pairs(run[0]))} ", text)
    elif not (_DIGIT.search(text) or _INNER_CAPITAL.search(text)):
        return text, ""  # most prose: no name in it can have parts
    names = dict.fromkeys(_WORD.findall(text))
    return text, " ".join(filter(None, map(parts_of, names)))


@lru_cache(maxsize=65_536)
def parts_of(word: str) -> str:
    """`updateScore` as `update Score`; empty for a word without parts, or one like a hash."""
    if len(word) > WORD_CHARS_MAX or (word.isalpha() and word[1:].islower()):
        return ""
    parts = _HUMP.split(word)
    return " ".join(parts) if 1 < len(parts) <= PARTS_MAX else ""


def _pairs(run: str) -> list[str]:
    """Every character with the next one; the last one alone."""
    return [run[at : at + 2] for at in range(len(run))]


def count(text: str) -> int:
    """The approximate length of the text in words; characters of scripts without spaces count one
    each."""
    number = len(text.split())
    if not text.isascii():
        number += sum(len(run) for run in _CJK_RUN.findall(text))
    return number


def is_question(text: str) -> bool:
    """Whether the text contains a question."""
    return _ASKED.search(text) is not None


# --- into a query ---


def query_of(text: str, stems: Stems) -> Query:
    """The query of a person or a model. The only syntax is double quotes, for a phrase. Phrases
    alone are required; next to other words, where they may be prose, they weigh more. All other
    punctuation is text, so no input is an error."""
    text = text[:QUERY_CHARS_MAX].encode("utf-8", "replace").decode().replace("\0", " ")
    quoted = [phrase for phrase in _QUOTED.findall(text) if _WORD.search(phrase)]
    phrases = [term for phrase in quoted[:PHRASES_MAX] if (term := _phrase_term(phrase))]
    found = _terms_by_stem(text.replace('"', " "), stems).values()
    terms = [term for term in found if term.text.lower() not in STOP]
    quiet = tuple(term.text for term in found if term.text.lower() in STOP)
    if not terms:
        terms, quiet = list(found), ()  # only stop words: search for these
    if phrases and _WORD.search(_QUOTED.sub(" ", text)):
        texts = {term.text for term in phrases}
        heavy = [Term(term.match, term.text, PHRASE_WEIGHT) for term in phrases]
        terms, phrases = heavy + [term for term in terms if term.text not in texts], []
    return Query(tuple(terms[:TERMS_MAX]), tuple(phrases), quiet, text)


def _terms_by_stem(text: str, stems: Stems) -> dict[str, Term]:
    """The words of a query, each stem once."""
    found: dict[str, Term] = {}
    for chunk in text.split():
        for term in _chunk_terms(chunk.strip(_EDGES)):
            forms = forms_of(term.text)
            stem = " ".join(stems(forms[0]))
            # `met` replaces `meeting`: it searches for both.
            if len(forms) > 1:
                found[stem] = Term(f"({' OR '.join(map(_quoted, forms))})", term.text)
            elif stem not in found:
                found[stem] = term
    found.pop("", None)
    return found


def _chunk_terms(chunk: str) -> list[Term]:
    """The terms of a chunk between two spaces: its words, their parts, and the whole of a name made
    of several words."""
    pieces = _PIECE.findall(chunk)
    terms = [_word_term(piece) for piece in pieces]
    for piece in pieces:
        terms += [_word_term(part) for part in parts_of(piece).split()]
    if 1 < len(pieces) <= PHRASE_WORDS_MAX and (name := _phrase_term(chunk)):
        terms.append(name)
    return terms


def _word_term(piece: str) -> Term:
    if len(piece) == 1 and _CJK_RUN.match(piece):
        return Term(f'"{piece}" *', piece)
    return Term(_quoted(_as_indexed(piece)), piece)


def _phrase_term(text: str) -> Term | None:
    pieces = _PIECE.findall(text)[:PHRASE_WORDS_MAX]
    if not pieces:
        return None
    if len(pieces) == 1:
        return _word_term(pieces[0])
    phrase = " ".join(map(_as_indexed, pieces)).split(" ")
    return Term(_quoted(" ".join(phrase[:PHRASE_WORDS_MAX])), " ".join(pieces))


def _as_indexed(piece: str) -> str:
    """A run of CJK characters as pairs, without the single last one, which would be part of a pair
    in a longer run. Any other piece unchanged."""
    if len(piece) < 2 or not _CJK_RUN.match(piece):
        return piece
    return " ".join(_pairs(piece[: PHRASE_WORDS_MAX + 1])[:-1])


def _quoted(text: str) -> str:
    return f'"{text}"'


# Words whose forms no stemmer unites, without forms that are more often another word (`bit`,
# `wound`) and without verbs that say little (`have`, `do`).
_IRREGULAR = """
become became, begin began begun, bend bent, blow blew blown, break broke broken, bring brought,
build built, burn burnt, buy bought, catch caught, choose chose chosen, come came, creep crept, deal
dealt, dig dug, draw drew drawn, dream dreamt, drink drank drunk, drive drove driven, eat ate eaten,
fall fell fallen, feed fed, feel felt, fight fought, find found, fly flew flown, forget forgot
forgotten, forgive forgave forgiven, freeze froze frozen, get got gotten, give gave given, go went
gone, grow grew grown, hang hung, hear heard, hide hid hidden, hold held, keep kept, know knew
known, lay laid, lead led, learn learnt, leave left, lend lent, light lit, lose lost, make made,
mean meant, meet met, pay paid, ride rode ridden, ring rang rung, rise rose risen, run ran, say
said, see saw seen, seek sought, sell sold, send sent, shake shook shaken, shine shone, shoot shot,
show shown, sing sang sung, sink sank sunk, sit sat, sleep slept, speak spoke spoken, spend spent,
spin spun, stand stood, steal stole stolen, stick stuck, strike struck, swim swam swum, swing swung,
take took taken, teach taught, tear tore torn, tell told, think thought, throw threw thrown,
understand understood, wake woke woken, wear wore worn, weave wove woven, win won, write wrote
written, child children, foot feet, man men, mouse mice, tooth teeth, woman women
"""
_FORMS = {form: tuple(group.split()) for group in _IRREGULAR.split(",") for form in group.split()}


def forms_of(word: str) -> tuple[str, ...]:
    """All forms of a word, the base form first. A capitalized word may be a name (`Rose`), so only
    words in lower case have several."""
    return _FORMS.get(word, (word,))


MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_VERBS = ("may", "march")
_BEFORE_MONTHS = frozenset(("in", "of", "since", "last"))
DATE_WORTH = 0.8
DAYS_AFTER = 3
_NAMED = regex(
    rf"(?:\b(?P<before>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?\b(?P<month>{'|'.join(MONTHS)})\b"
    r"(?:,?\s+(?P<after>\d{1,2})(?:st|nd|rd|th)?(?!\d))?(?:,?\s+(?P<year>\d{4})\b)?",
    re.IGNORECASE,
)
_WRITTEN = regex(r"\b(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])(?:-(?P<day>[0-3]\d))?\b")


class Date(Struct, frozen=True):
    """A month, with an optional day and year; 0 if absent."""

    month: int
    day: int = 0
    year: int = 0


def dates_in(text: str) -> list[Date]:
    """The dates in a query: `7 May 2023`, `May 7th`, `in May`, `2023-05-07`, `2023-05`."""
    dates: list[Date] = []
    for found in _NAMED.finditer(text):
        name = found["month"].lower()
        day, year = found["before"] or found["after"], found["year"]
        before = text[: found.start()].lower().split()
        # `may` and `march` alone are months only after `in` or the like.
        is_verb = name in _VERBS and _BEFORE_MONTHS.isdisjoint(before[-1:])
        if day or year or not is_verb:
            dates.append(Date(MONTHS.index(name) + 1, int(day or 0), int(year or 0)))
    for found in _WRITTEN.finditer(text):
        dates.append(Date(int(found["month"]), int(found["day"] or 0), int(found["year"])))
    return dates


def nearness(at_ms: int, dates: list[Date]) -> float:
    """The fit of a time to the dates: 1 on a named day or up to three days after, because messages
    often say "yesterday"; 1 in a named month, 0.5 in the month of a named day, else 0."""
    moment = datetime.fromtimestamp(at_ms / 1_000, UTC)
    best = 0.0
    for date in dates:
        if date.month == moment.month and date.year in (0, moment.year):
            is_near = not date.day or 0 <= moment.day - date.day <= DAYS_AFTER
            best = max(best, 1.0 if is_near else 0.5)
    return best
