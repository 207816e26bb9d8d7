"""How matches become an order: BM25 in which a short message borrows the words of its neighbours.

In talk an answer is elliptic: "3 years now" holds the answer, the message before it the question's
words. So the occurrences of a term in the two messages before and after count in part for a message
as well, but only between short messages: in code and tool output a neighbour says nothing. What
follows a question answers it, so it takes the words of the question whole; the question itself,
which says nothing yet, counts a little less. Mixing happens inside the saturation, so a term that
all neighbours hold is not counted many times over. Shares and factors raise recall@10 in both
halves of `bench/locomo.py`; around these values it hardly changes. Neighbours: `bm25` has the
formula, `finding` asks.

BM25: how well a text matches the terms of a query.

A rare term says more than a common one (`rarity`), each further occurrence says less than the one
before (`saturation`), and an occurrence in a long text says less than in a short one
(`length_share`). Talk and tool output need different parameters, so each caller has a formula of
its own. Neighbours: `rank` scores messages with it, `artifacts.word_ranking` artifacts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from math import log, sqrt
from typing import TypeVar

from msgspec import Struct

Key = TypeVar("Key")


class Formula(Struct, frozen=True):
    """The two parameters of BM25, known elsewhere as k1 and b."""

    saturation: float
    length_share: float

    def norm(self, length: float, mean: float) -> float:
        """How many occurrences give half of the most, in a text of this length."""
        return self.saturation * (1 - self.length_share + self.length_share * length / mean)

    def most(self, weight: float) -> float:
        """What a term of this weight adds to a score at most, however often it occurs."""
        return weight * (self.saturation + 1)


def inverse_document_frequency(texts: int, total: int) -> float:
    """What a term says that occurs in so many of all texts."""
    return log(1 + (max(total, texts) - texts + 0.5) / (texts + 0.5))


def add_term(
    scores: defaultdict[Key, float],
    counts: Mapping[Key, float],
    norms: Mapping[Key, float],
    most: float,
) -> None:
    """Adds what one term is worth to the score of every text in which it occurs."""
    for key, count in counts.items():
        scores[key] += most * count / (count + norms[key])


BM25 = Formula(saturation=0.9, length_share=0.3)
SHORT_WORDS = 100
NEIGHBOURS = ((-2, 0.4), (-1, 0.4), (1, 0.2), (2, 0.2))
_SHARES = dict(NEIGHBOURS)
# An answer leaves out the words of the question, so what comes right after it takes them whole.
ANSWER_SHARE = 1.0
_OF_QUESTIONS = tuple((step, ANSWER_SHARE if step == -1 else share) for step, share in NEIGHBOURS)
# Who asks something looks for the answer, not for somebody who asked the same.
QUESTION_FACTOR = 0.9
AUTHOR_FACTOR = 1.25  # more would hide what others say of them
VECTOR_WEIGHT = 0.5
STANDALONE_WEIGHT = (
    0.8  # where no neighbour lends its words; `bench/memory_locomo.py`, `memory_life.py`
)
# For vectors of word groups: where all entries are long, and where all are short. In talk meaning
# finds more than words do, in the work of an agent names decide.
GROUP_WEIGHT_WORK, GROUP_WEIGHT_TALK = 0.3, 1.8
GROUP_WEIGHT_STANDALONE = 6.0  # of a sentence that stands apart, `bench/memory_life.py`
# A neighbour's groups count less by so many deviations; an entry said by whom the query names
# counts more by so many, and a question less.
GROUP_HANDICAPS = ((-2, 1.2), (-1, 1.2), (1, 1.5), (2, 1.5))
AUTHOR_LEANING, QUESTION_LEANING = 0.6, -0.4


class Matches(Struct, frozen=True):
    """One term's occurrences by entry, in how many entries it occurs, and how much it counts."""

    occurrences: Mapping[int, int]
    entries: int
    weight: float = 1.0

    def worth(self, total: int) -> float:
        """What the term says among so many entries."""
        return self.weight * inverse_document_frequency(self.entries, total)


def seeds(
    found: Sequence[Matches], total: int, most: int, among: set[int] | None = None
) -> set[int]:
    """The entries that match best by a rough count, the newest of equal ones: no more than are
    worth ranking."""
    rough = _rough_scores(found, total)
    if among is not None:
        rough = {id: score for id, score in rough.items() if id in among}
    if len(rough) <= most:
        return set(rough)
    return {id for id, _ in best(rough, most)}


def _rough_scores(found: Sequence[Matches], total: int) -> dict[int, float]:
    """Scores without lengths and neighbours, which cost a look at the rows."""
    rough: dict[int, float] = {}
    for one in found:
        worth = one.worth(total)
        for id, times in one.occurrences.items():
            rough[id] = rough.get(id, 0.0) + worth * times / (times + BM25.saturation)
    return rough


def around(ids: set[int], reach: int) -> set[int]:
    """The entries and their neighbours."""
    return {id + step for id in ids for step in range(-reach, reach + 1)}


def scores(
    found: Sequence[Matches],
    kept: set[int],
    words: Mapping[int, int],
    asking: Set[int],
    total: int,
    mean: float,
) -> dict[int, float]:
    """The score of every entry that matches, itself or by a neighbour. `words` are lengths, also
    of neighbours; `asking` are those that are questions."""
    out: defaultdict[int, float] = defaultdict(float)
    norms: dict[int, float] = {}
    for one in found:
        counts = borrowed(one.occurrences, kept, words, asking)
        for id in counts:
            if id not in norms:
                norms[id] = BM25.norm(context_words(id, words), mean)
        add_term(out, counts, norms, BM25.most(one.worth(total)))
    return dict(out)


def standalone_scores(
    found: Sequence[Matches], words: Mapping[int, int], total: int, mean: float
) -> dict[int, float]:
    """The same for entries that take nothing from their neighbours."""
    out: defaultdict[int, float] = defaultdict(float)
    norms = {id: BM25.norm(size, mean) for id, size in words.items()}
    for one in found:
        counts = {id: times for id, times in one.occurrences.items() if id in norms}
        add_term(out, counts, norms, BM25.most(one.worth(total)))
    return dict(out)


def borrowed(
    occurrences: Mapping[int, int], kept: set[int], words: Mapping[int, int], asking: Set[int]
) -> dict[int, float]:
    """Occurrences by entry, with what short entries take from short neighbours, and answers from
    their questions."""
    out: dict[int, float] = {}
    for id, times in occurrences.items():
        if id not in kept:
            continue
        out[id] = out.get(id, 0.0) + times
        if words[id] <= SHORT_WORDS:
            for step, share in _OF_QUESTIONS if id in asking else NEIGHBOURS:
                if words.get(id - step, SHORT_WORDS + 1) <= SHORT_WORDS:
                    out[id - step] = out.get(id - step, 0.0) + share * times
    return out


def context_words(id: int, words: Mapping[int, int]) -> float:
    """The length of an entry with what it takes from its neighbours."""
    own: float = words[id]
    if own > SHORT_WORDS:
        return own
    for step, share in NEIGHBOURS:
        near = words.get(id + step, 0)
        if near <= SHORT_WORDS:
            own += share * near
    return own


def added_context_words(before: Sequence[int], words: int) -> float:
    """By how much the sum of all context lengths grows when an entry of so many words comes
    after those of `before`."""
    own = float(words)
    if words > SHORT_WORDS:
        return own
    for distance, near in enumerate(reversed(before), 1):
        if near <= SHORT_WORDS:
            # What the new entry takes from those before it, and what they take from it.
            own += _SHARES[-distance] * near + _SHARES[distance] * words
    return own


def best(scored: Mapping[int, float], most: int) -> list[tuple[int, float]]:
    """The best entries, the newest of equal ones first."""
    return sorted(scored.items(), key=lambda item: (item[1], item[0]), reverse=True)[:most]


def spread(scored: Mapping[int, float], total: int) -> tuple[float, float]:
    """Mean and deviation over all entries, those without a match counted as 0."""
    count = max(1, total)
    mean = sum(scored.values()) / count
    square = sum(value * value for value in scored.values()) / count
    return mean, sqrt(max(square - mean * mean, 0.0)) or 1.0
