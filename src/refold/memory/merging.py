"""Merging: the grouping of a memory's versions into entries, and the end of each entry.

Versions that claim something about the same thing (`claim`) form a group, ordered by the time they
became true. A repeated value merges into its first entry; where only one value can be true, each
ends the previous one. A declared replacement (`replaces`) ends its predecessors, but a statement by
a tool or an import cannot end one by a person or a model. Later mentions announce changes ("Sold
the Volvo, we have a Kia Niro now"): words are weighted by rarity, and only the rarest words and
newest announcements are compared, so the cost is bounded. Neighbours: `fold`, `claim`,
`succession`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import sqrt

from msgspec import Struct

from refold.memory.bookmark import BookmarkColumns, LazyMap, Row
from refold.memory.claim import WEAK_STEMS, WORDS_MAX, Claim, announces_change, ends, stem
from refold.memory.entry import FOREVER_MS, Run, Version
from refold.search.rank import inverse_document_frequency
from refold.search.words import STOP

REPLACED_MAX = 50  # entries that one entry may replace
UNACCEPTED = "?"  # prefix of groups that no person accepted; they cannot end accepted ones


class Groups:
    """The valid versions, in groups. `versions` maps each entry to its versions, and belongs to the
    caller."""

    def __init__(self, versions: dict[str, list[Version]]) -> None:
        self._versions = versions
        self._groups: dict[str, dict[int, Version]] = {}
        self._group_of: dict[int, str] = {}
        self._merged: dict[str, list[Run]] = {}
        # Versions by their sentence; and versions that end another claim, by the sentence of that
        # claim or the first word of its value.
        self._said: dict[str, dict[int, Version]] = {}
        self._enders: dict[str, dict[int, Version]] = {}
        # Groups by the words of their values; and for each group, the groups that contain a move
        # away from it.
        self._by_value_word: dict[str, set[str]] = {}
        self._moves_away: dict[str, set[str]] = {}
        self.later_mentions = LaterMentions()
        self.replacers = Replacers()

    # --- bookmarks ---

    def rows(self) -> Iterator[Row]:
        """The rows of a bookmark."""
        for name, map in (("groups", self._groups), ("said", self._said), ("enders", self._enders)):
            yield from ((name, key, seq) for key, seqs in map.items() for seq in seqs)
        for word, groups in self._by_value_word.items():
            yield from (("valued", word, seq) for group in groups for seq in self._groups[group])
        yield from self.later_mentions.rows()
        yield from self.replacers.rows()

    def open(self, columns: BookmarkColumns, total: int, version: Callable[[int], Version]) -> None:
        """Continues from a bookmark."""

        def lazy(name: str) -> LazyMap[str, dict[int, Version]]:
            return LazyMap(lambda key: {seq: version(seq) for seq in columns.seqs(name, key)})

        def group_of(seq: int) -> str:
            one = version(seq)
            group = group_name(one.claim, is_accepted=one.is_accepted)
            return group if seq in self._groups[group] else ""

        self._groups, self._said, self._enders = lazy("groups"), lazy("said"), lazy("enders")
        self._group_of = LazyMap(group_of)
        self._by_value_word = LazyMap(
            lambda word: {group_of(seq) for seq in columns.seqs("valued", word)}
        )
        self.later_mentions.open(columns, total, version)
        self.replacers.open(lazy("replacers"))

    # --- adding ---

    def add(self, version: Version) -> None:
        """Adds a valid version."""
        claim = version.claim
        group = group_name(claim, is_accepted=version.is_accepted)
        self.replacers.add(version)
        self.invalidate(version.body.replaces)
        self._groups.setdefault(group, {})[version.seq] = version
        self._group_of[version.seq] = group
        self._merged.pop(group, None)
        if not version.is_accepted:
            return
        # An accepted version also affects other groups.
        self._said.setdefault(claim.said, {})[version.seq] = version
        self.later_mentions.add(version)
        for word in claim.value.split() if claim.is_single else ():
            self._by_value_word.setdefault(word, set()).add(group)
        for move in self._moves_away.get(group, ()):
            self._merged.pop(move, None)
        for ender in self._enders.get(claim.said, {}).values():
            self._merged.pop(self._group_of[ender.seq], None)
        if key := _ender_key(claim):
            self._enders.setdefault(key, {})[version.seq] = version
            self._merged.clear()

    def remove(self, version: Version) -> None:
        """Removes a version, if it was added."""
        group = self._group_of.pop(version.seq, "")
        if group:
            del self._groups[group][version.seq]
            self._merged.pop(group, None)
        self._said.get(version.claim.said, {}).pop(version.seq, None)
        self.later_mentions.remove(version)
        self.replacers.remove(version)
        self.invalidate(version.body.replaces)
        if self._enders.get(_ender_key(version.claim), {}).pop(version.seq, None):
            self._merged.clear()

    def invalidate(self, entries: Iterable[str]) -> None:
        """Discards the merged groups of these entries, which are merged again on demand."""
        for entry in entries:
            for one in self._versions.get(entry, ()):
                self._merged.pop(self.group_of(one.seq), None)

    # --- queries ---

    def names(self) -> list[str]:
        return list(self._groups)

    def group_of(self, seq: int) -> str:
        """The group of the version at a seq; empty if it has none."""
        return self._group_of.get(seq, "")

    def members(self, group: str) -> Iterable[Version]:
        """The versions of a group, in the order of the log."""
        return self._groups.get(group, {}).values()

    def saying(self, said: str) -> Iterable[Version]:
        """The accepted versions with this sentence."""
        return self._said.get(said, {}).values()

    def runs(self, group: str) -> list[Run]:
        """The entries of a group, ordered by the time they became true."""
        if group not in self._merged:
            self._merged[group] = self._merge(group)
        return self._merged[group]

    def run_at(self, seq: int) -> Run | None:
        """The entry that the event at a seq is part of."""
        group = self.group_of(seq)
        if not group:
            return None
        return next(run for run in self.runs(group) if any(one.seq == seq for one in run.versions))

    # --- merging ---

    def _merge(self, group: str) -> list[Run]:
        runs: list[Run] = []
        for version in sorted(self._groups[group].values(), key=by_time):
            run = self._open_run(runs, version)
            if run is None:
                if version.claim.is_single and runs:
                    runs[-1].end(version)
                run = Run([])
                runs.append(run)
            run.versions.append(version)
            if version.body.entry == run.entry:
                run.until_ms = min(run.until_ms, self._own_end(version))
            if len(run.versions) == 1:
                for ender in self._enders_of(run, group):
                    run.end(ender)
            self.replacers.end(run, version)
        return runs

    def _enders_of(self, run: Run, group: str) -> Iterator[Version]:
        """The later versions of other entries that end this claim."""
        claim = run.first.claim
        said = self._said.get(claim.ended, {}) if claim.ended else {}
        for ender in (*self._deniers(claim), *said.values(), *self._after_move(claim, group)):
            if by_time(ender) > by_time(run.first) and ender.body.entry != run.entry:
                yield ender

    def _deniers(self, claim: Claim) -> Iterator[Version]:
        """Versions that deny a claim, or say that something moved away from it."""
        if not self._enders:
            return
        for key in dict.fromkeys((claim.said, *claim.value.split(), *claim.about.split())):
            for ender in self._enders.get(key, {}).values():
                is_moved = bool(ender.claim.left) and ends(ender.claim, claim)
                if is_moved or ender.claim.ended == claim.said:
                    yield ender

    def _after_move(self, move: Claim, group: str) -> Iterator[Version]:
        """Versions about the thing that moved. Later ones make the move outdated."""
        for other in self._by_value_word.get(move.left.partition(" ")[0], ()) if move.left else ():
            versions = self._groups[other].values()
            if any(ends(move, one.claim) for one in versions):
                self._moves_away.setdefault(other, set()).add(group)
                yield from versions

    def _open_run(self, runs: list[Run], version: Version) -> Run | None:
        """The entry with the same value that is still true at the time of this version."""
        claim = version.claim
        candidates = runs[-1:] if claim.is_single else runs
        for run in candidates:
            is_same = run.first.claim.value == claim.value
            if is_same and (version.from_ms < run.until_ms or run.entry == version.body.entry):
                return run
        return None

    def _own_end(self, version: Version) -> int:
        """The end of a version: its own end date, or an earlier change of its entry."""
        until = version.body.valid_until_ms or FOREVER_MS
        for later in self._versions[version.body.entry]:
            is_same = later.claim.said == version.claim.said and not later.body.closed
            is_other = not is_same or later.is_accepted != version.is_accepted
            if later.seq > version.seq and is_other:
                return min(until, later.from_ms)
        return until


def group_name(claim: Claim, *, is_accepted: bool) -> str:
    """The key by which versions are compared: the topic of the claim, or else its sentence."""
    group = claim.about or f"={claim.said}"
    return group if is_accepted else UNACCEPTED + group


def is_unaccepted(group: str) -> bool:
    """Whether no person accepted the versions of a group."""
    return group.startswith(UNACCEPTED)


def _ender_key(claim: Claim) -> str:
    return claim.ended or claim.left.partition(" ")[0]


def by_time(version: Version) -> tuple[int, int]:
    return version.from_ms, version.seq


class Replacers:
    """Versions by the entries they are declared to replace."""

    def __init__(self) -> None:
        self._by_entry: dict[str, dict[int, Version]] = {}

    def add(self, version: Version) -> None:
        """Adds a valid version."""
        for entry in version.body.replaces:
            self._by_entry.setdefault(entry, {})[version.seq] = version

    def remove(self, version: Version) -> None:
        """Removes a version, if it was added."""
        for entry in version.body.replaces:
            self._by_entry.get(entry, {}).pop(version.seq, None)

    def of(self, version: Version) -> Iterator[Version]:
        """The replacements of a version's entry that were said or became true after it: a later
        report or acceptance of an earlier state does not make it true again."""
        for one in self._by_entry.get(version.body.entry, {}).values():
            is_later = one.seq > version.seq or one.from_ms > version.from_ms
            if is_later and (one.is_accepted or not version.is_accepted):
                yield one

    def end(self, run: Run, version: Version) -> None:
        """Ends a run if its version has been replaced."""
        for replacer in self.of(version):
            if not run.says_the_same(replacer):
                run.end(replacer, is_declared=True)

    def rows(self) -> Iterator[Row]:
        """The rows of a bookmark."""
        for entry, versions in self._by_entry.items():
            yield from (("replacers", entry, seq) for seq in versions)

    def open(self, by_entry: dict[str, dict[int, Version]]) -> None:
        """Continues from a bookmark."""
        self._by_entry = by_entry


# In a small memory every word is rare, so at least this number of sentences is assumed.
SENTENCES_MIN = 300
LITTLE_SHARE, RAREST_WORDS, NEWEST_MAX = 0.3, 6, 50
_STOP_STEMS = STOP | frozenset(map(stem, STOP))


class Shared(Struct, frozen=True):
    """The overlap of two sentences: the cosine similarity of their words, weighted by rarity,
    split into the part due to words in the question and the part due to the rest."""

    asked: float
    rest: float
    has_rest: bool = False


class LaterMentions:
    """The sentences of one memory by word, and the announcements of changes among them."""

    def __init__(self) -> None:
        self.total = 0
        self._sentences: dict[str, int] = {}
        self._changes: dict[str, dict[int, Version]] = {}
        # Added since the last query; the next one indexes them, so adding a sentence is cheap.
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

    def sentences_with(self, word: str) -> int:
        """The number of sentences with a stem."""
        self._index_pending()
        return self._sentences.get(word, 0)

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
            of_asked / lengths, (sum(both.values()) - of_asked) / lengths, bool(rest - WEAK_STEMS)
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
        """The words of a sentence, each weighted by its rarity."""
        self._index_pending()
        total = max(self.total, SENTENCES_MIN)
        return {
            word: inverse_document_frequency(self._sentences.get(word, 0), total)
            * (LITTLE_SHARE if word in WEAK_STEMS else 1.0)
            for word in distinctive_stems(version.claim.said)
        }


def distinctive_stems(said: str) -> frozenset[str]:
    """The stems of a sentence, without stop words."""
    return frozenset(said.split()) - _STOP_STEMS


def _length(weights: dict[str, float]) -> float:
    return sqrt(sum(weight * weight for weight in weights.values()))
