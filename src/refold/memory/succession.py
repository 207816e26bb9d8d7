"""Succession: the later sentences that answer a question instead of an earlier one, such as "The
spare key is with Omar" after "Gunilla keeps the spare key", when someone asks who has it.

Evidence is added up. In favor: overlap of the two sentences, above all in words that are not in the
question, because those are the old value ("no more coffee"); near vectors; an announced change; and
nearness to the question. Against: a name in the question that is missing, and another kind of
value. If the query is not a question, only announced changes are candidates. Code may be wrong, so
no entry is ended: the successor is only ranked first. Neighbours: `recall` asks, `merging` weighs
words.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import islice, pairwise
from operator import mul

from msgspec import Struct

from refold.memory.claim import LITTLE, announces_change, plain, split, stem
from refold.memory.entry import Run
from refold.memory.fold import Entries
from refold.memory.merging import by_time, distinctive_stems
from refold.memory.ranking import Finder, Fitness, Found
from refold.search.embedders import Vector

SUCCESSORS_MAX = 8


class Evidence(Struct, frozen=True, kw_only=True):
    """The weight of each piece of evidence; the sum must reach 1."""

    near: float = 0.0  # nearness of the two by their vectors
    nearer: float = 0.0  # gain in nearness to the question
    asked: float  # overlap in words of the question
    rest: float = 0.0  # overlap in all other words
    has_rest: float = 0.0
    change: float  # the later one announces a change
    asked_of_change: float = 0.0
    has_rest_of_change: float = 0.0
    name_gone: float
    word_gone: float = 0.0  # from a later one that announces no change
    kind_gone: float


NEVER = -9.0
# By words alone, and by vectors of single words, which know little about a sentence: the overlap
# decides, and no word of the question may be missing. Results are flat around these values.
BY_WORDS = Evidence(
    asked=3.0, rest=3.0, change=0.4, name_gone=NEVER, word_gone=NEVER, kind_gone=NEVER
)
BY_WORD_VECTORS = Evidence(
    near=0.87, asked=2.17, rest=2.17, change=0.28, name_gone=NEVER, word_gone=NEVER, kind_gone=NEVER
)
# Fitted to the questions of two of the lives in `bench/` and checked on the third, in all three
# modes.
BY_SENTENCES = Evidence(
    near=2.1,
    nearer=1.7,
    asked=0.8,
    has_rest=0.43,
    change=0.37,
    asked_of_change=0.42,
    has_rest_of_change=0.27,
    name_gone=-0.45,
    kind_gone=-0.36,
)
UNFOUND_COSINE = 0.2  # below the threshold, for entries that were not found


class Likeness:
    """Nearness of entries to each other by their vectors, each read once."""

    def __init__(self, finder: Finder, log: str) -> None:
        self._finder, self._log = finder, log
        self._vectors: dict[int, Vector] = {}

    def read(self, runs: Iterable[Run]) -> None:
        """Reads the missing vectors of these entries."""
        new = {run.first.seq for run in runs} - self._vectors.keys()
        if new:
            found = self._finder.means(self._log, sorted(new))
            self._vectors.update((seq, found.get(seq, ())) for seq in new)

    def between(self, one: Run, other: Run) -> float | None:
        """The similarity of two entries: 1 for the same meaning, 0 for unrelated entries, None if
        one has no vector."""
        first, second = self._vectors[one.first.seq], self._vectors[other.first.seq]
        if not first or not second:
            return None
        cosine: float = sum(map(mul, first, second))
        return (cosine - self.least) / (1.0 - self.least)

    @cached_property
    def worth(self) -> Evidence:
        """The weights to use with vectors."""
        return BY_WORD_VECTORS if self._finder.adds_words else BY_SENTENCES

    @cached_property
    def least(self) -> float:
        """The lowest meaningful cosine."""
        return self._finder.least_near()


class Succession:
    """The successors among the entries that are true at a time, for one question. `found` has the
    matches of the question, by entry id, and `telling` the words of the question that tell things
    apart."""

    def __init__(
        self,
        entries: Entries,
        likeness: Likeness,
        question: str,
        at_ms: int,
        found: Mapping[str, Found],
        telling: frozenset[str],
    ) -> None:
        self._entries, self._likeness, self._at_ms = entries, likeness, at_ms
        self._fitness, self._found = Fitness(question), found
        self._telling = telling
        words = distinctive_stems(" ".join(map(stem, split(plain(question))))) - _LITTLE
        # A name has a capital and is not the first word.
        _, _, rest = question.strip().partition(" ")
        names = " ".join(word for word in rest.split() if word[:1].isupper())
        self._words, self._names = words, words & stems_of(names)

    def after(self, run: Run, among: Sequence[Run]) -> list[Run]:
        """The successors of an entry, direct or not, among these runs and the announced changes: at
        most a few, the newest first."""
        found = {run.entry: run}
        waiting = [run]
        while waiting and len(found) <= SUCCESSORS_MAX:
            one = waiting.pop()
            for later in self._directly_after(one, among):
                if later.entry not in found:
                    found[later.entry] = later
                    waiting.append(later)
        successors = list(found.values())[1:]
        return sorted(successors, key=lambda one: by_time(one.first), reverse=True)

    def _directly_after(self, run: Run, among: Sequence[Run]) -> list[Run]:
        candidates = {one.entry: one for one in self._entries.changes_after(run, self._at_ms)}
        if self._fitness.is_question:
            candidates.update((one.entry, one) for one in among)
        later = [
            one
            for one in candidates.values()
            if by_time(one.first) > by_time(run.first)
            and one.entry != run.entry
            and self._may_answer(run, one)
        ]
        self._likeness.read([run, *later] if later else ())
        return [one for one in later if self._evidence(run, one) >= 1.0]

    def _may_answer(self, run: Run, later: Run) -> bool:
        """Whether a later sentence is about the same thing of its kind, and was found as well or
        at least has the same names."""
        had, has = stems_of(run.first.body.content), stems_of(later.first.body.content)
        if not self._telling & had <= has:
            return False
        return later.entry in self._found or self._names & had <= has

    def _evidence(self, run: Run, later: Run) -> float:
        """The evidence that a later sentence succeeds an earlier one."""
        near = self._likeness.between(run, later)
        worth = BY_WORDS if near is None else self._likeness.worth
        shared = self._entries.shared(run, later, self._words)
        found = worth.asked * shared.asked + worth.rest * shared.rest
        found += worth.has_rest * shared.has_rest
        if announces_change(later.first.body.content):
            found += worth.change + worth.asked_of_change * shared.asked
            found += worth.has_rest_of_change * shared.has_rest
        if near is not None:
            found += worth.near * near + worth.nearer * self._nearer(run, later)
        return found + self._counterevidence(run, later, worth)

    def _counterevidence(self, run: Run, later: Run, worth: Evidence) -> float:
        """The penalty for parts of the question that only the earlier sentence has."""
        before, content = run.first.body.content, later.first.body.content
        had, has = stems_of(before), stems_of(content)
        gone = worth.name_gone * _missing(self._names & had, has)
        if not announces_change(content):
            gone += worth.word_gone * _missing(self._words & had, has)
        is_kind_gone = self._fitness.is_kind(before) and not self._fitness.is_kind(content)
        return gone + worth.kind_gone * is_kind_gone

    def _nearer(self, run: Run, later: Run) -> float:
        """The gain in nearness to the question from one sentence to the later, from -1 to 1."""
        least = self._likeness.least
        before, after = (
            least - UNFOUND_COSINE if one is None or one.cosine is None else one.cosine
            for one in map(self._found.get, (run.entry, later.entry))
        )
        return (after - before) / (1.0 - least)


_LITTLE = frozenset(map(stem, LITTLE))
SIBLINGS_MIN, SIBLINGS_AMONG = 3, 60


def telling_words(query: str, contents: Iterable[str]) -> frozenset[str]:
    """The words of a question that say which thing of a kind it is about: those that some of these
    sentences have and their siblings lack. A number does so with the word before it, because there
    may be a crane 5 and a bay 5."""
    words = [stem(word) for word in split(plain(query))]
    known = list(dict.fromkeys(map(stems_of, islice(contents, SIBLINGS_AMONG))))
    siblings: Tally[str] = Tally()
    for one in known:
        if own := one.intersection(words):
            gone: Tally[str] = Tally()
            for other in known:
                if _are_siblings(one, other):
                    gone.update(own - other)
            siblings |= gone
    telling = {word for word, number in siblings.items() if number >= SIBLINGS_MIN}
    for kind, word in pairwise(words):
        if word in telling and word[0].isdigit() and any({kind, word} <= one for one in known):
            telling.add(kind)
    return frozenset(telling)


def about_others(query: str, contents: Sequence[str]) -> set[str]:
    """The sentences about other things of a kind than the one in the question."""
    telling = telling_words(query, contents)
    known = {content: stems_of(content) for content in contents}
    return {
        content
        for content, one in known.items()
        if any(
            (other - one) & telling and not (one - other) & telling and _are_siblings(one, other)
            for other in known.values()
        )
    }


def _are_siblings(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two sentences are alike but for two words, the thing and its value."""
    return len(one - other) <= 2 and len(other - one) <= 2 and len(one & other) >= 2


def _missing(words: frozenset[str], there: frozenset[str]) -> float:
    """The share of the words that are missing."""
    return len(words - there) / len(words) if words else 0.0


@lru_cache(maxsize=1_024)
def stems_of(content: str) -> frozenset[str]:
    return frozenset(stem(word) for word in split(plain(content)))
