"""The order of matches: BM25 in which a short message borrows words from its neighbours.

A rare term counts more than a common one (`inverse_document_frequency`), further occurrences count
less (`saturation`), and an occurrence in long text counts less (`length_share`). In talk an answer
is elliptic: "3 years now" has the answer, the message before it the words of the question. So
between short messages, occurrences in the two messages before and after count in part; a message
after a question borrows its words in full, and the question itself counts a little less. Shares and
factors were tuned on both halves of `bench/locomo.py`, where results are flat around them.
Neighbours: `index_query` asks, `artifacts` ranks artifacts with the same formula.
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
        """The number of occurrences worth half of the maximum, in a text of this length."""
        return self.saturation * (1 - self.length_share + self.length_share * length / mean)

    def most(self, weight: float) -> float:
        """The most that a term of this weight can add to a score."""
        return weight * (self.saturation + 1)


def inverse_document_frequency(texts: int, total: int) -> float:
    """The weight of a term that occurs in `texts` of `total` texts."""
    return log(1 + (max(total, texts) - texts + 0.5) / (texts + 0.5))


def add_term(
    scores: defaultdict[Key, float],
    counts: Mapping[Key, float],
    norms: Mapping[Key, float],
    most: float,
) -> None:
    """Adds the worth of one term to the score of every text in which it occurs."""
    for key, count in counts.items():
        scores[key] += most * count / (count + norms[key])


BM25 = Formula(saturation=0.9, length_share=0.3)
SHORT_WORDS = 100
NEIGHBOURS = ((-2, 0.4), (-1, 0.4), (1, 0.2), (2, 0.2))
_SHARES = dict(NEIGHBOURS)
# An answer omits the words of the question, so the message right after it borrows them in full.
ANSWER_SHARE = 1.0
_OF_QUESTIONS = tuple((step, ANSWER_SHARE if step == -1 else share) for step, share in NEIGHBOURS)
# A question looks for the answer, not for another person's question.
QUESTION_FACTOR = 0.9
AUTHOR_FACTOR = 1.25  # more would hide what other people say about the author
VECTOR_WEIGHT = 0.5
STANDALONE_WEIGHT = 0.8  # neighbours lend nothing; `bench/memory_locomo.py`, `memory_life.py`
# For vectors of word groups, among long entries and among short ones: in talk, meaning finds more
# than words; in an agent's work, names decide.
GROUP_WEIGHT_WORK, GROUP_WEIGHT_TALK = 0.3, 1.8
GROUP_WEIGHT_STANDALONE = 6.0  # for a standalone sentence, `bench/memory_life.py`
# In deviations: the handicap of a neighbour's groups, the bonus of an author whom the query names,
# and the penalty of a question.
GROUP_HANDICAPS = ((-2, 1.2), (-1, 1.2), (1, 1.5), (2, 1.5))
AUTHOR_LEANING, QUESTION_LEANING = 0.6, -0.4


class Matches(Struct, frozen=True):
    """One term's occurrences by entry, the number of entries with it, and its weight."""

    occurrences: Mapping[int, int]
    entries: int
    weight: float = 1.0

    def worth(self, total: int) -> float:
        """The weight of the term among `total` entries."""
        return self.weight * inverse_document_frequency(self.entries, total)


def seeds(
    found: Sequence[Matches], total: int, most: int, among: set[int] | None = None
) -> set[int]:
    """At most `most` entries worth ranking: the best by a rough score without lengths and
    neighbours, which would cost a lookup of the rows; among equals, the newest."""
    rough: dict[int, float] = {}
    for one in found:
        worth = one.worth(total)
        for id, times in one.occurrences.items():
            rough[id] = rough.get(id, 0.0) + worth * times / (times + BM25.saturation)
    if among is not None:
        rough = {id: score for id, score in rough.items() if id in among}
    if len(rough) <= most:
        return set(rough)
    return {id for id, _ in best(rough, most)}


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
    """The score of every entry that matches, directly or through a neighbour. `words` are lengths,
    including neighbours; `asking` are the questions."""
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
    """Like `scores`, for entries that borrow nothing from their neighbours."""
    out: defaultdict[int, float] = defaultdict(float)
    norms = {id: BM25.norm(size, mean) for id, size in words.items()}
    for one in found:
        counts = {id: times for id, times in one.occurrences.items() if id in norms}
        add_term(out, counts, norms, BM25.most(one.worth(total)))
    return dict(out)


def borrowed(
    occurrences: Mapping[int, int], kept: set[int], words: Mapping[int, int], asking: Set[int]
) -> dict[int, float]:
    """Occurrences by entry, including those borrowed from short neighbours and from questions."""
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
    """The length of an entry including words borrowed from its neighbours."""
    own: float = words[id]
    if own > SHORT_WORDS:
        return own
    for step, share in NEIGHBOURS:
        near = words.get(id + step, 0)
        if near <= SHORT_WORDS:
            own += share * near
    return own


def added_context_words(before: Sequence[int], words: int) -> float:
    """The growth of the sum of all context lengths when an entry with this number of words follows
    entries of the lengths `before`."""
    own = float(words)
    if words > SHORT_WORDS:
        return own
    for distance, near in enumerate(reversed(before), 1):
        if near <= SHORT_WORDS:
            # The new entry borrows from earlier ones, and they borrow from it.
            own += _SHARES[-distance] * near + _SHARES[distance] * words
    return own


def best(scored: Mapping[int, float], most: int) -> list[tuple[int, float]]:
    """The best entries; among equals, the newest first."""
    return sorted(scored.items(), key=lambda item: (item[1], item[0]), reverse=True)[:most]


def spread(scored: Mapping[int, float], total: int) -> tuple[float, float]:
    """Mean and deviation over all entries; entries without a match count as 0."""
    count = max(1, total)
    mean = sum(scored.values()) / count
    square = sum(value * value for value in scored.values()) / count
    return mean, sqrt(max(square - mean * mean, 0.0)) or 1.0
