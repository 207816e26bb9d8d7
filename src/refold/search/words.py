"""How text becomes terms: the same on the way into the index and on the way to a query.

SQLite's own tokenizer (`porter unicode61`) splits at everything that is no letter or digit, folds
case and accents and stems English, in C. What it cannot do is done here, in bulk, before it sees
the text: Chinese, Japanese and Korean are written as overlapping pairs of signs, and the parts of
names such as `updateScore` or `utf8` go to a second column.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from refold.search.forms import forms_of

TOKENIZER = ("porter", "unicode61", "remove_diacritics", "2")
QUERY_CHARS_MAX, TERMS_MAX, PHRASES_MAX = 20_000, 256, 8
PHRASE_WEIGHT = 2.0
PARTS_MAX, WORD_CHARS_MAX = 8, 64

_CJK = "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_CJK_RUN = re.compile(f"[{_CJK}]+")
_WORD = re.compile(r"[^\W_]+")
_PIECE = re.compile(f"[{_CJK}]+|[^\\W_{_CJK}]+")
_HUMP = re.compile(
    r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])"
)
_DIGIT, _INNER_CAPITAL = re.compile("[0-9]"), re.compile("[A-Za-z][A-Z]")
# A mark behind which a word ends: not that of a URL, nor of `value?.name`.
_ASKED = re.compile(r"\?[^\w\s]*(?:\s|$)|[？؟]")
_QUOTED = re.compile(r'"([^"]*)"')
_EDGES = ".,;:!?()[]{}<>'`*-–—/\\|&=+~^%$#@\"…“”‘’"

_STOP = """
a about above after again against all also am an and any are aren as at be because been before being below between
both but by can cannot could couldn d did didn do does doesn doing don down during each ever few for from further had
hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself just ll
m ma me might more most much must mustn my myself need no nor not now o of off on once only or other our ours
ourselves out over own please re s same shall shan she should shouldn so some such t than that the their theirs them
themselves then there these they this those through to too under until up upon us ve very was wasn we were weren what
when where which while who whom whose why will with won would wouldn y yet you your yours yourself yourselves
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


# --- into the index ---


def columns(text: str) -> tuple[str, str]:
    """What the index is given of a text: itself, and the parts of its names."""
    if not text.isascii():
        text = _CJK_RUN.sub(_pairs, text)
    elif not (_DIGIT.search(text) or _INNER_CAPITAL.search(text)):
        return text, ""  # most prose: no name in it can have parts
    return text, " ".join(filter(None, map(parts_of, dict.fromkeys(_WORD.findall(text)))))


@lru_cache(maxsize=65_536)
def parts_of(word: str) -> str:
    """`updateScore` as `update Score`; nothing for a word that has no parts, or looks like a
    hash."""
    if len(word) > WORD_CHARS_MAX or (word.isalpha() and word[1:].islower()):
        return ""
    parts = _HUMP.split(word)
    return " ".join(parts) if 1 < len(parts) <= PARTS_MAX else ""


def _pairs(run: re.Match[str]) -> str:
    """Every sign begins a pair, the last one alone: so a single sign is found, too, as a prefix."""
    signs = run[0]
    return " ".join(["", *(signs[at : at + 2] for at in range(len(signs))), ""])


def count(text: str) -> int:
    """The length of a text in words, roughly; signs without spaces between them count one by
    one."""
    number = len(text.split())
    return number if text.isascii() else number + sum(len(run) for run in _CJK_RUN.findall(text))


def asks(text: str) -> bool:
    """Whether somebody asks something in a text."""
    return _ASKED.search(text) is not None


# --- into a query ---


def query_of(text: str, stems: Stems) -> Query:
    """A query as a person or a model writes it. Only double quotes mean something: a phrase.
    Phrases alone must be there; beside other words, where they may be prose, they count more.
    All other signs of search languages are text, so no input is an error."""
    text = text[:QUERY_CHARS_MAX].encode("utf-8", "replace").decode().replace("\0", " ")
    quoted = [phrase for phrase in _QUOTED.findall(text) if _WORD.search(phrase)]
    phrases = [term for phrase in quoted[:PHRASES_MAX] if (term := _phrase(phrase))]
    terms, quiet = _terms(text.replace('"', " "), stems)
    if phrases and _WORD.search(_QUOTED.sub(" ", text)):
        known = {term.text for term in phrases}
        heavy = [Term(term.match, term.text, PHRASE_WEIGHT) for term in phrases]
        terms, phrases = [*heavy, *(term for term in terms if term.text not in known)], []
    return Query(tuple(terms[:TERMS_MAX]), tuple(phrases), quiet, text)


def _terms(text: str, stems: Stems) -> tuple[list[Term], tuple[str, ...]]:
    """The words that say something, each once by its stem, and the others; all words if none
    says anything."""
    found: dict[str, Term] = {}
    for chunk in text.split():
        for term in _of_chunk(chunk.strip(_EDGES)):
            forms = forms_of(term.text)
            stem = " ".join(stems(forms[0]))
            # `met` says more than `meeting`: it looks for both.
            if len(forms) > 1 or stem not in found:
                found[stem] = _any_of(forms, term.text) if len(forms) > 1 else term
    found.pop("", None)
    telling = [term for term in found.values() if term.text.lower() not in STOP]
    if not telling:
        return list(found.values()), ()
    return telling, tuple(term.text for term in found.values() if term.text.lower() in STOP)


def _of_chunk(chunk: str) -> list[Term]:
    """The terms of what stands between two spaces: its words, their parts, and a name made of
    several as a whole."""
    pieces = _PIECE.findall(chunk)
    terms = [_word(piece) for piece in pieces]
    for piece in pieces:
        terms += [_word(part) for part in parts_of(piece).split()]
    if len(pieces) > 1 and (whole := _phrase(chunk)):
        terms.append(whole)
    return terms


def _word(piece: str) -> Term:
    if _CJK_RUN.match(piece):
        return (
            Term(f'"{piece}" *', piece) if len(piece) == 1 else Term(_quoted(_pieced(piece)), piece)
        )
    return Term(_quoted(piece), piece)


def _any_of(forms: tuple[str, ...], text: str) -> Term:
    return Term(f"({' OR '.join(map(_quoted, forms))})", text)


def _phrase(text: str) -> Term | None:
    pieces = _PIECE.findall(text)
    if not pieces:
        return None
    if len(pieces) == 1:
        return _word(pieces[0])
    return Term(_quoted(" ".join(_pieced(piece) for piece in pieces)), " ".join(pieces))


def _pieced(piece: str) -> str:
    """A run of signs as its pairs, without the last one alone: in a longer run it would be a
    pair."""
    if len(piece) < 2 or not _CJK_RUN.match(piece):
        return piece
    return " ".join(piece[at : at + 2] for at in range(len(piece) - 1))


def _quoted(text: str) -> str:
    return f'"{text}"'
