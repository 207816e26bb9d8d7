"""Which later sentence stands for an earlier one: "The spare key is with Omar" for "Gunilla keeps
the spare key", if somebody asks who has it.

Two sentences speak of the same if they share enough, by their rare words and by their vectors; less
is enough for one that tells of a change. The later one must hold what was asked for as well: the
words of the question that the earlier one has and the kind of value, or at least the names if it
tells of a change. Who asks nothing and only gives words gets what has them. Nothing is ended by
that, because code may be wrong: what succeeds only stands first. Neighbours: `recall` asks,
`followers` weighs words, `claim` ends what is certain to have ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import mul

from msgspec import Struct

from refold.memory.finder import Finder
from refold.memory.fitness import Fitness
from refold.memory.fold import Entries
from refold.memory.followers import telling_stems, tells_of_a_change
from refold.memory.version import Run
from refold.memory.vocabulary import LITTLE
from refold.memory.wording import plain, split, stem
from refold.search.numbers import Vector

# What two sentences must share, and what counts for it: chosen with `bench/life.jsonl` in view,
# flat around these values, and no worse on lives that were not looked at.
SHARED_MIN, SHARED_MIN_BY_VECTORS = 0.33, 0.46
NEARNESS_WORTH, CHANGE_WORTH = 0.4, 0.13
SUCCESSORS_MAX = 8


class Likeness:
    """How near entries are to each other by their vectors, each read once."""

    def __init__(self, finder: Finder, log: str) -> None:
        self._finder, self._log = finder, log
        self._vectors: dict[int, Vector] = {}
        self._least: float | None = None

    def read(self, runs: Iterable[Run]) -> None:
        """Reads the vectors of these entries, where they are not known."""
        new = {run.first.seq for run in runs} - self._vectors.keys()
        if new:
            found = self._finder.wholes(self._log, sorted(new))
            self._vectors.update((seq, found.get(seq, ())) for seq in new)

    def between(self, one: Run, other: Run) -> float | None:
        """From 0, as far apart as two that have nothing to do with each other, to 1; None where
        one has no vector."""
        first, second = self._vectors[one.first.seq], self._vectors[other.first.seq]
        if not first or not second:
            return None
        if self._least is None:
            self._least = self._finder.least_near()
        cosine: float = sum(map(mul, first, second))
        return max(0.0, (cosine - self._least) / (1.0 - self._least))


class Succession:
    """What stands for what among the entries that are true at a time, for who asks a question."""

    def __init__(self, entries: Entries, likeness: Likeness, question: str, at_ms: int) -> None:
        self._entries, self._likeness, self._at_ms = entries, likeness, at_ms
        self._asked, self._fitness = _asked(question), Fitness(question)

    def after(self, run: Run, among: Sequence[Run]) -> list[Run]:
        """What succeeds an entry, and what succeeds that, the newest first: among these, and
        what tells of a change; no more than a few."""
        found = {run.entry: run}
        waiting = [run]
        while waiting and len(found) <= SUCCESSORS_MAX:
            one = waiting.pop()
            for later in self._directly_after(one, among):
                if later.entry not in found:
                    found[later.entry] = later
                    waiting.append(later)
        return sorted(list(found.values())[1:], key=_since, reverse=True)

    def _directly_after(self, run: Run, among: Sequence[Run]) -> list[Run]:
        candidates = {one.entry: one for one in self._entries.changes_after(run, self._at_ms)}
        if self._fitness.is_question:
            candidates.update((one.entry, one) for one in among)
        later = [one for one in candidates.values() if _since(one) > _since(run)]
        holding = [one for one in later if one.entry != run.entry and self._holds(run, one)]
        self._likeness.read([run, *holding] if holding else ())
        return [one for one in holding if self._is_of_the_same(run, one)]

    def _holds(self, run: Run, later: Run) -> bool:
        """Whether a later sentence has what was asked for, as far as the earlier one does."""
        before, content = run.first.body.content, later.first.body.content
        if tells_of_a_change(content):
            return _has(content, self._asked.names & _stems(before))
        if self._fitness.is_kind(before) and not self._fitness.is_kind(content):
            return False
        return _has(content, self._asked.words & _stems(before))

    def _is_of_the_same(self, run: Run, later: Run) -> bool:
        near = self._likeness.between(run, later)
        shared = self._entries.shared(run, later) + NEARNESS_WORTH * (near or 0.0)
        if tells_of_a_change(later.first.body.content):
            shared += CHANGE_WORTH
        return shared >= (SHARED_MIN if near is None else SHARED_MIN_BY_VECTORS)


class _Asked(Struct, frozen=True):
    """The stems of the telling words of a question, and of the names among them."""

    words: frozenset[str]
    names: frozenset[str]


def _asked(question: str) -> _Asked:
    """A name has a capital and does not begin the question."""
    words = telling_stems(" ".join(map(stem, split(plain(question))))) - _LITTLE
    _, _, rest = question.strip().partition(" ")
    names = " ".join(word for word in rest.split() if word[:1].isupper())
    return _Asked(words, words & _stems(names))


_LITTLE = frozenset(map(stem, LITTLE))


def _has(content: str, words: frozenset[str]) -> bool:
    return words <= _stems(content)


def _stems(content: str) -> frozenset[str]:
    return frozenset(stem(word) for word in split(plain(content)))


def _since(run: Run) -> tuple[int, int]:
    return run.first.from_ms, run.first.seq
