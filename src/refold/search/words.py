"""How text becomes terms: the same on the way into the index and on the way to a query.

SQLite's own tokenizer (`porter unicode61`) splits at everything that is not a letter or digit,
folds case and accents and stems English, in C. What it cannot do is done here, in bulk, before it
sees the text: Chinese, Japanese and Korean are written as overlapping pairs of characters, and the
parts of names such as `updateScore` or `utf8` go to a second column. Neighbours: `index` stores the
columns, `searcher` makes queries, `forms` knows irregular words.

Forms of a word that no stemmer brings together: `meet` and `met`, `child` and `children`.

A question is asked in one tense and answered in another, so a query looks for all forms at once.
Forms that are more often another word (`bit`, `wound`) and verbs that say nothing (`have`, `do`)
are left out. A capital may be a name (`Rose`), so only words in small letters have forms.
Neighbours: `words` asks.

Days and months that a query names: what was said then is preferred.

`7 May 2023`, `May 7th`, `in May`, `2023-05-07`, `2023-05`. A message that speaks of a day is often
written on it or soon after ("yesterday we …"), so the days after a named one count as well; the
rest of its month counts half. Neighbour: `finding` raises scores by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import lru_cache

from msgspec import Struct

from refold.display import without_colors

TOKENIZER = ("porter", "unicode61", "remove_diacritics", "2")
QUERY_CHARS_MAX, TERMS_MAX, PHRASES_MAX = 20_000, 256, 8
# FTS5 compares a phrase at every place of its words, so a long one of equal words would cost the
# product. So many words find the place as well as all of them.
PHRASE_WORDS_MAX = 32
PHRASE_WEIGHT = 2.0
PARTS_MAX, WORD_CHARS_MAX = 8, 64

_CJK = (
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003134f"
)
_CJK_RUN = re.compile(f"[{_CJK}]+")
_WORD = re.compile(r"[^\W_]+")
_PIECE = re.compile(f"[{_CJK}]+|[^\\W_{_CJK}]+")
_HUMP = re.compile(
    r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])"
)
_DIGIT, _INNER_CAPITAL = re.compile("[0-9]"), re.compile("[A-Za-z][A-Z]")
# A question mark that ends a word: not that of a URL, nor of `value?.name`.
_ASKED = re.compile(r"\?[^\w\s]*(?:\s|$)|[？؟]")
_QUOTED = re.compile(r'"([^"]*)"')
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
    """One thing to look for: an expression of FTS5, the words as they were asked for, and how
    much it counts."""

    match: str
    text: str
    weight: float = 1.0


class Query(Struct, frozen=True):
    """Terms make a ranking; `required` phrases must all be there. `quiet` words say too little
    to be looked for."""

    terms: tuple[Term, ...] = ()
    required: tuple[Term, ...] = ()
    quiet: tuple[str, ...] = ()
    text: str = ""

    @property
    def all_terms(self) -> tuple[Term, ...]:
        return (*self.terms, *self.required)


# --- into the index ---


def columns(text: str) -> tuple[str, str]:
    """What the index is given of a text: itself, and the parts of its names."""
    text = without_colors(text)
    if not text.isascii():
        text = _CJK_RUN.sub(_spaced_pairs, text)
    elif not (_DIGIT.search(text) or _INNER_CAPITAL.search(text)):
        return text, ""  # most prose: no name in it can have parts
    names = dict.fromkeys(_WORD.findall(text))
    return text, " ".join(filter(None, map(parts_of, names)))


@lru_cache(maxsize=65_536)
def parts_of(word: str) -> str:
    """`updateScore` as `update Score`; nothing for a word that has no parts, or looks like a
    hash."""
    if len(word) > WORD_CHARS_MAX or (word.isalpha() and word[1:].islower()):
        return ""
    parts = _HUMP.split(word)
    return " ".join(parts) if 1 < len(parts) <= PARTS_MAX else ""


def _spaced_pairs(run: re.Match[str]) -> str:
    """Every character begins a pair, the last one alone: so a single character is found as a
    prefix."""
    return f" {' '.join(_pairs(run[0]))} "


def _pairs(run: str) -> list[str]:
    """Every character with the one after it, the last one alone."""
    return [run[at : at + 2] for at in range(len(run))]


def count(text: str) -> int:
    """The length of a text in words, roughly; characters that are written without spaces count one
    by one."""
    number = len(text.split())
    if not text.isascii():
        number += sum(len(run) for run in _CJK_RUN.findall(text))
    return number


def is_question(text: str) -> bool:
    """Whether somebody asks something in a text."""
    return _ASKED.search(text) is not None


# --- into a query ---


def query_of(text: str, stems: Stems) -> Query:
    """A query as a person or a model writes it. Only double quotes mean something: a phrase.
    Phrases alone must be there; beside other words, where they may be prose, they count more.
    All other punctuation of search languages is text, so no input is an error."""
    text = text[:QUERY_CHARS_MAX].encode("utf-8", "replace").decode().replace("\0", " ")
    phrases = _phrases(text)
    terms, quiet = _terms(text.replace('"', " "), stems)
    if phrases and _WORD.search(_QUOTED.sub(" ", text)):
        terms, phrases = _with_phrases_first(terms, phrases), []
    return Query(tuple(terms[:TERMS_MAX]), tuple(phrases), quiet, text)


def _phrases(text: str) -> list[Term]:
    """What stands in double quotes."""
    quoted = [phrase for phrase in _QUOTED.findall(text) if _WORD.search(phrase)]
    return [term for phrase in quoted[:PHRASES_MAX] if (term := _phrase_term(phrase))]


def _with_phrases_first(terms: list[Term], phrases: list[Term]) -> list[Term]:
    known = {term.text for term in phrases}
    heavy = [Term(term.match, term.text, PHRASE_WEIGHT) for term in phrases]
    return heavy + [term for term in terms if term.text not in known]


def _terms(text: str, stems: Stems) -> tuple[list[Term], tuple[str, ...]]:
    """The words that say something, each once by its stem, and the others; all words if none
    says anything."""
    found = _terms_by_stem(text, stems)
    telling: list[Term] = []
    quiet: list[str] = []
    for term in found.values():
        if term.text.lower() in STOP:
            quiet.append(term.text)
        else:
            telling.append(term)
    if not telling:
        return list(found.values()), ()
    return telling, tuple(quiet)


def _terms_by_stem(text: str, stems: Stems) -> dict[str, Term]:
    found: dict[str, Term] = {}
    for chunk in text.split():
        for term in _chunk_terms(chunk.strip(_EDGES)):
            forms = forms_of(term.text)
            stem = " ".join(stems(forms[0]))
            # `met` says more than `meeting`: it looks for both.
            if len(forms) > 1:
                found[stem] = _any_of(forms, term.text)
            elif stem not in found:
                found[stem] = term
    found.pop("", None)
    return found


def _chunk_terms(chunk: str) -> list[Term]:
    """The terms of what stands between two spaces: its words, their parts, and a name made of
    several as a whole."""
    pieces = _PIECE.findall(chunk)
    terms = [_word_term(piece) for piece in pieces]
    for piece in pieces:
        terms += [_word_term(part) for part in parts_of(piece).split()]
    is_name = 1 < len(pieces) <= PHRASE_WORDS_MAX
    whole = _phrase_term(chunk) if is_name else None
    if whole:
        terms.append(whole)
    return terms


def _word_term(piece: str) -> Term:
    if len(piece) == 1 and _CJK_RUN.match(piece):
        return Term(f'"{piece}" *', piece)
    return Term(_quoted(_as_indexed(piece)), piece)


def _any_of(forms: tuple[str, ...], text: str) -> Term:
    return Term(f"({' OR '.join(map(_quoted, forms))})", text)


def _phrase_term(text: str) -> Term | None:
    pieces = _PIECE.findall(text)[:PHRASE_WORDS_MAX]
    if not pieces:
        return None
    if len(pieces) == 1:
        return _word_term(pieces[0])
    phrase = " ".join(map(_as_indexed, pieces)).split(" ")
    return Term(_quoted(" ".join(phrase[:PHRASE_WORDS_MAX])), " ".join(pieces))


def _as_indexed(piece: str) -> str:
    """A run of CJK characters as its pairs, without the last one alone: in a longer run it would
    be a pair. Any other piece as it is."""
    if len(piece) < 2 or not _CJK_RUN.match(piece):
        return piece
    return " ".join(_pairs(piece[: PHRASE_WORDS_MAX + 1])[:-1])


def _quoted(text: str) -> str:
    return f'"{text}"'


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
    """All forms of a word, the plain one first; a word that has no others alone."""
    return _FORMS.get(word, (word,))


MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_VERBS = ("may", "march")
_BEFORE_MONTHS = frozenset(("in", "of", "since", "last"))
DATE_WORTH = 0.8
DAYS_AFTER = 3
_NAMED = re.compile(
    rf"(?:\b(?P<before>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?\b(?P<month>{'|'.join(MONTHS)})\b"
    r"(?:,?\s+(?P<after>\d{1,2})(?:st|nd|rd|th)?(?!\d))?(?:,?\s+(?P<year>\d{4})\b)?",
    re.IGNORECASE,
)
_WRITTEN = re.compile(r"\b(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])(?:-(?P<day>[0-3]\d))?\b")


class Date(Struct, frozen=True):
    """A month, perhaps of a year, perhaps a day of it; 0 where it is not said."""

    month: int
    day: int = 0
    year: int = 0

    def is_in_month_of(self, moment: datetime) -> bool:
        """Whether a time lies in the month of this date, in its year if that is said."""
        return self.month == moment.month and self.year in (0, moment.year)


def dates_in(text: str) -> list[Date]:
    """The dates that a query names."""
    return [*_named_dates(text), *_written_dates(text)]


def _named_dates(text: str) -> Iterator[Date]:
    for found in _NAMED.finditer(text):
        month = MONTHS.index(found["month"].lower()) + 1
        day, year = found["before"] or found["after"], found["year"]
        if day or year or not _is_verb(text, found):
            yield _date(month, day, year)


def _written_dates(text: str) -> Iterator[Date]:
    for found in _WRITTEN.finditer(text):
        yield _date(int(found["month"]), found["day"], found["year"])


def _date(month: int, day: str | None, year: str | None) -> Date:
    return Date(month, int(day or 0), int(year or 0))


def _is_verb(text: str, found: re.Match[str]) -> bool:
    """`may` and `march` alone are months only after `in` or the like."""
    before = text[: found.start()].lower().split()
    return found["month"].lower() in _VERBS and _BEFORE_MONTHS.isdisjoint(before[-1:])


def nearness(at_ms: int, dates: list[Date]) -> float:
    """How well a time fits the dates: 1 if it is of one of them, 0.5 in the month of a day, else
    0."""
    moment = datetime.fromtimestamp(at_ms / 1_000, UTC)
    return max((_nearness_to(moment, date) for date in dates), default=0.0)


def _nearness_to(moment: datetime, date: Date) -> float:
    if not date.is_in_month_of(moment):
        return 0.0
    if not date.day or 0 <= moment.day - date.day <= DAYS_AFTER:
        return 1.0
    return 0.5
