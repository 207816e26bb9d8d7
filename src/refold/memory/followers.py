"""How much two sentences of a memory share, and which later ones may tell that an earlier one has
changed: "Sold the Volvo, we have a Kia Niro now" after "We drive a grey Volvo".

Words count by how rare they are among all that is remembered. Only the rarest words and the newest
sentences that tell of a change are looked at, so the price does not grow with the memory.
Neighbours: `fold` adds versions, `succession` decides what stands for what, `claim` ends what is
certain to have ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from math import sqrt

from msgspec import Struct

from refold.memory.bookmark import Loaded, Places, Row
from refold.memory.claim import (
    CHANGE_PHRASE_WORDS,
    CHANGE_WORDS,
    CURRENCIES,
    DAYS_AND_MONTHS,
    LITTLE,
    NUMBER_WORDS,
    WORDS_MAX,
    stem,
)
from refold.memory.entry import Version
from refold.search.rank import inverse_document_frequency
from refold.search.words import STOP

# In a small memory every word is rare; so many sentences are taken to be there at least.
SENTENCES_MIN = 300
LITTLE_SHARE = 0.3
RAREST_WORDS, NEWEST_MAX = 6, 50
_PHRASE = re.compile(
    r"\b(?:no (?:more|longer)|any (?:more|longer)|these days|as of|went from"
    r"|(?:from|starting|beginning) (?:this|today|now|next|on)|(?:up|down|over) to|stepped down"
    r"|is over|t(?:ake|akes|ook|aken) over|g[ai]ven? up)\b"
)
_WORD = re.compile(r"\w+")


def tells_of_a_change(content: str) -> bool:
    """Whether a sentence says that something is so now, and was not before."""
    text = content.casefold()
    words = _WORD.findall(text)
    if not CHANGE_WORDS.isdisjoint(words):
        return True
    return not CHANGE_PHRASE_WORDS.isdisjoint(words) and bool(_PHRASE.search(text))


class Shared(Struct, frozen=True):
    """How much two sentences share, as parts of the cosine of their words weighed by rarity: of
    words that were asked for, and of the rest."""

    asked: float
    rest: float
    has_rest: bool = False


class Followers:
    """The sentences of one memory by their words, and those among them that tell of a change."""

    def __init__(self) -> None:
        self.total = 0
        self._sentences: dict[str, int] = {}
        self._changes: dict[str, dict[int, Version]] = {}
        # What was added since somebody asked: to store a sentence costs nothing more.
        self._waiting: dict[int, Version] = {}
        self._taken: set[int] = set()

    def add(self, version: Version) -> None:
        """Takes the next sentence."""
        self._waiting[version.seq] = version

    def _take(self, version: Version) -> None:
        words = telling_stems(version.claim.said)
        self.total += 1
        self._taken.add(version.seq)
        for word in words:
            self._sentences[word] = self._sentences.get(word, 0) + 1
        if len(words) <= WORDS_MAX and tells_of_a_change(version.body.content):
            for word in words:
                self._changes.setdefault(word, {})[version.seq] = version

    def remove(self, version: Version) -> None:
        """Forgets a sentence, if it was added."""
        if self._waiting.pop(version.seq, None) or version.seq not in self._taken:
            return
        self._taken.discard(version.seq)
        words = telling_stems(version.claim.said)
        self.total -= 1
        for word in words:
            self._sentences[word] -= 1
            self._changes.get(word, {}).pop(version.seq, None)

    def of(self, version: Version) -> Iterator[Version]:
        """Later sentences of other entries that tell of a change, and share a rare word."""
        weights = self._weights(version)
        rarest = sorted(weights, key=weights.__getitem__, reverse=True)[:RAREST_WORDS]
        near: dict[int, Version] = {}
        for word in rarest:
            near.update(islice(reversed(self._changes.get(word, {}).items()), NEWEST_MAX))
        for later in near.values():
            if later.from_ms > version.from_ms and later.body.entry != version.body.entry:
                yield later

    def shared(self, one: Version, other: Version, asked: frozenset[str]) -> Shared:
        """How much two sentences share, of words that were asked for and of others."""
        return _shared(self._weights(one), self._weights(other), asked)

    def rows(self) -> Iterator[Row]:
        """What a bookmark keeps of this."""
        self._take_waiting()
        for word, count in self._sentences.items():
            yield "sentences", word, count
        for word, changes in self._changes.items():
            for seq in islice(reversed(changes), NEWEST_MAX):
                yield "changes", word, seq

    def open(self, places: Places, total: int, version: Callable[[int], Version]) -> None:
        """Goes on from a bookmark."""
        self.total = total
        self._sentences = Loaded(lambda word: next(places.seqs("sentences", word), 0))
        self._changes = Loaded(
            lambda word: {seq: version(seq) for seq in places.seqs("changes", word)}
        )

    def _take_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            self._take(one)

    def _weights(self, version: Version) -> dict[str, float]:
        self._take_waiting()
        total = max(self.total, SENTENCES_MIN)
        return {
            word: inverse_document_frequency(self._sentences.get(word, 0), total)
            * (LITTLE_SHARE if word in _LITTLE else 1.0)
            for word in telling_stems(version.claim.said)
        }


# A value that two sentences share says little of what they are about: both may be on Mondays.
_LITTLE = frozenset(map(stem, (*LITTLE, *DAYS_AND_MONTHS, *NUMBER_WORDS, *CURRENCIES)))
_SILENT = STOP | frozenset(map(stem, STOP))


def telling_stems(said: str) -> frozenset[str]:
    """The stems of a sentence without those of stop words."""
    return frozenset(said.split()) - _SILENT


def _shared(one: dict[str, float], other: dict[str, float], asked: frozenset[str]) -> Shared:
    both = {word: one[word] * other[word] for word in one.keys() & other.keys()}
    if not both:
        return Shared(0.0, 0.0)
    lengths = _length(one) * _length(other)
    of_asked = sum(worth for word, worth in both.items() if word in asked)
    rest = both.keys() - asked
    return Shared(
        of_asked / lengths, (sum(both.values()) - of_asked) / lengths, bool(rest - _LITTLE)
    )


def _length(weights: dict[str, float]) -> float:
    return sqrt(sum(weight * weight for weight in weights.values()))
