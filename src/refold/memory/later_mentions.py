"""Later mentions: how much two sentences of a memory share, and which later sentences may announce
a change of an earlier one: "Sold the Volvo, we have a Kia Niro now" after "We drive a grey Volvo".

Words count by their rarity in the memory. Only the rarest words and the newest announcements of a
change are looked at, so the cost does not grow with the memory. Neighbours: `merging` adds
versions, `succession` decides which sentence succeeds which, `claim` ends what is certain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from math import sqrt

from msgspec import Struct

from refold.memory.bookmark import BookmarkColumns, LazyMap, Row
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

# In a small memory every word is rare, so a memory counts as at least this large.
SENTENCES_MIN = 300
LITTLE_SHARE = 0.3
RAREST_WORDS, NEWEST_MAX = 6, 50
_PHRASE = re.compile(
    r"\b(?:no (?:more|longer)|any (?:more|longer)|these days|as of|went from"
    r"|(?:from|starting|beginning) (?:this|today|now|next|on)|(?:up|down|over) to|stepped down"
    r"|is over|t(?:ake|akes|ook|aken) over|g[ai]ven? up)\b"
)
_WORD = re.compile(r"\w+")


# A shared value says little about the topic of two sentences: both may be on Mondays.
_LITTLE = frozenset(map(stem, (*LITTLE, *DAYS_AND_MONTHS, *NUMBER_WORDS, *CURRENCIES)))
_SILENT = STOP | frozenset(map(stem, STOP))


def announces_change(content: str) -> bool:
    """Whether a sentence says that something is different now."""
    text = content.casefold()
    words = _WORD.findall(text)
    if not CHANGE_WORDS.isdisjoint(words):
        return True
    return not CHANGE_PHRASE_WORDS.isdisjoint(words) and bool(_PHRASE.search(text))


class Shared(Struct, frozen=True):
    """The overlap of two sentences as parts of the cosine of their words, weighted by rarity: of
    the words in the question, and of the rest."""

    asked: float
    rest: float
    has_rest: bool = False


class LaterMentions:
    """The sentences of one memory by their words, and those among them that announce a change."""

    def __init__(self) -> None:
        self.total = 0
        self._sentences: dict[str, int] = {}
        self._changes: dict[str, dict[int, Version]] = {}
        # Added since the last query: storing a sentence costs nothing more.
        self._pending: dict[int, Version] = {}
        self._indexed: set[int] = set()

    def add(self, version: Version) -> None:
        """Adds the next sentence."""
        self._pending[version.seq] = version

    def remove(self, version: Version) -> None:
        """Removes a sentence, if it was added."""
        if self._pending.pop(version.seq, None) or version.seq not in self._indexed:
            return
        self._indexed.discard(version.seq)
        words = distinctive_stems(version.claim.said)
        self.total -= 1
        for word in words:
            self._sentences[word] -= 1
            self._changes.get(word, {}).pop(version.seq, None)

    def of(self, version: Version) -> Iterator[Version]:
        """Later sentences of other entries that announce a change and share a rare word."""
        weights = self._weights(version)
        rarest = sorted(weights, key=weights.__getitem__, reverse=True)[:RAREST_WORDS]
        near: dict[int, Version] = {}
        for word in rarest:
            near.update(islice(reversed(self._changes.get(word, {}).items()), NEWEST_MAX))
        for later in near.values():
            if later.from_ms > version.from_ms and later.body.entry != version.body.entry:
                yield later

    def shared(self, one: Version, other: Version, asked: frozenset[str]) -> Shared:
        """The overlap of two sentences, in the words of the question and in all others."""
        weights, others = self._weights(one), self._weights(other)
        both = {word: weights[word] * others[word] for word in weights.keys() & others.keys()}
        if not both:
            return Shared(0.0, 0.0)
        lengths = _length(weights) * _length(others)
        of_asked = sum(worth for word, worth in both.items() if word in asked)
        rest = both.keys() - asked
        return Shared(
            of_asked / lengths, (sum(both.values()) - of_asked) / lengths, bool(rest - _LITTLE)
        )

    def rows(self) -> Iterator[Row]:
        """The rows of a bookmark."""
        self._index_pending()
        for word, count in self._sentences.items():
            yield "sentences", word, count
        for word, changes in self._changes.items():
            for seq in islice(reversed(changes), NEWEST_MAX):
                yield "changes", word, seq

    def open(self, columns: BookmarkColumns, total: int, version: Callable[[int], Version]) -> None:
        """Continues from a bookmark."""
        self.total = total
        self._sentences = LazyMap(lambda word: next(columns.seqs("sentences", word), 0))
        self._changes = LazyMap(
            lambda word: {seq: version(seq) for seq in columns.seqs("changes", word)}
        )

    def _index_pending(self) -> None:
        pending, self._pending = self._pending, {}
        for version in pending.values():
            words = distinctive_stems(version.claim.said)
            self.total += 1
            self._indexed.add(version.seq)
            for word in words:
                self._sentences[word] = self._sentences.get(word, 0) + 1
            if len(words) <= WORDS_MAX and announces_change(version.body.content):
                for word in words:
                    self._changes.setdefault(word, {})[version.seq] = version

    def _weights(self, version: Version) -> dict[str, float]:
        """The words of a sentence by rarity."""
        self._index_pending()
        total = max(self.total, SENTENCES_MIN)
        return {
            word: inverse_document_frequency(self._sentences.get(word, 0), total)
            * (LITTLE_SHARE if word in _LITTLE else 1.0)
            for word in distinctive_stems(version.claim.said)
        }


def distinctive_stems(said: str) -> frozenset[str]:
    """The stems of a sentence, without stop words."""
    return frozenset(said.split()) - _SILENT


def _length(weights: dict[str, float]) -> float:
    return sqrt(sum(weight * weight for weight in weights.values()))
