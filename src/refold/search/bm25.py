"""BM25: how well a text matches the terms of a query.

A rare term says more than a common one (`rarity`), each further occurrence says less than the one
before (`saturation`), and an occurrence in a long text says less than in a short one
(`length_share`). Talk and tool output need different parameters, so each caller has a formula of
its own. Neighbours: `rank` scores messages with it, `artifacts.word_ranking` artifacts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import log
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


def rarity(texts: int, total: int) -> float:
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
