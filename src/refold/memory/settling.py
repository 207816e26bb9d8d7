"""Which versions of a memory belong together, and what ends what.

Versions that claim something about the same (`claim`) are a group, ordered by when they became
true; in it, the same value said again is merged into the entry that said it first, and where only
one value can be true each ends the one before. What somebody said it replaces ends in any case.
Groups are settled when somebody looks, so adding a version costs nothing but itself. Neighbours:
`fold` keeps the entries and answers, `claim` reads sentences, `replacing` knows what was said to
replace what.

Which entries are so no longer because somebody said what replaces them.

Whoever remembers something may know that a fact has changed; then it stands in the event itself,
and no rule has to guess it. It can be taken back with the event. What tools or imports said
replaces nothing that a person or a model said. Neighbours: `fold` ends what is replaced, `semantic`
takes `replaces=`.

How much two sentences of a memory share, and which later ones may tell that an earlier one has
changed: "Sold the Volvo, we have a Kia Niro now" after "We drive a grey Volvo".

Words count by how rare they are among all that is remembered. Only the rarest words and the newest
sentences that tell of a change are looked at, so the price does not grow with the memory.
Neighbours: `fold` adds versions, `succession` decides what stands for what, `claim` ends what is
certain to have ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import sqrt

from msgspec import Struct

from refold.memory.claim import (
    CHANGE_PHRASE_WORDS,
    CHANGE_WORDS,
    CURRENCIES,
    DAYS_AND_MONTHS,
    LITTLE,
    NUMBER_WORDS,
    WORDS_MAX,
    Claim,
    ends,
    stem,
)
from refold.memory.entry import FOREVER_MS, Loaded, Places, Row, Run, Version
from refold.search.rank import inverse_document_frequency
from refold.search.words import STOP

UNACCEPTED = "?"  # how the groups of those begin: they end nothing that somebody said


class Groups:
    """The versions that hold, in groups. `versions` are those of each entry, kept by whoever has
    these."""

    def __init__(self, versions: dict[str, list[Version]]) -> None:
        self._versions = versions
        self._groups: dict[str, dict[int, Version]] = {}
        self._group_of: dict[int, str] = {}
        self._settled: dict[str, list[Run]] = {}
        # Versions by what they say, and versions that end what others claim: by the sentence, or
        # the first word of the value.
        self._said: dict[str, dict[int, Version]] = {}
        self._enders: dict[str, dict[int, Version]] = {}
        # Groups by the words of their values, and the groups of what moved away from them.
        self._valued: dict[str, set[str]] = {}
        self._moved: dict[str, set[str]] = {}
        self.followers = Followers()
        self.replacers = Replacers()

    # --- bookmarks ---

    def rows(self) -> Iterator[Row]:
        """What a bookmark keeps of this."""
        for name, map in (("groups", self._groups), ("said", self._said), ("enders", self._enders)):
            yield from ((name, key, seq) for key, seqs in map.items() for seq in seqs)
        for word, groups in self._valued.items():
            yield from (("valued", word, seq) for group in groups for seq in self._groups[group])
        yield from self.followers.rows()
        yield from self.replacers.rows()

    def open(self, places: Places, total: int, version: Callable[[int], Version]) -> None:
        """Goes on from a bookmark."""

        def loaded(name: str) -> Loaded[str, dict[int, Version]]:
            return Loaded(lambda key: {seq: version(seq) for seq in places.seqs(name, key)})

        def group_of(seq: int) -> str:
            one = version(seq)
            group = group_name(one.claim, is_accepted=one.is_accepted)
            return group if seq in self._groups[group] else ""

        self._groups, self._said, self._enders = loaded("groups"), loaded("said"), loaded("enders")
        self._group_of = Loaded(group_of)
        self._valued = Loaded(lambda word: {group_of(seq) for seq in places.seqs("valued", word)})
        self.followers.open(places, total, version)
        self.replacers.open(loaded("replacers"))

    # --- adding ---

    def add(self, version: Version) -> None:
        """Takes a version that holds."""
        claim = version.claim
        group = group_name(claim, is_accepted=version.is_accepted)
        self.replacers.add(version)
        self.unsettle(version.body.replaces)
        self._groups.setdefault(group, {})[version.seq] = version
        self._group_of[version.seq] = group
        self._settled.pop(group, None)
        if version.is_accepted:
            self._add_accepted(version, group)

    def _add_accepted(self, version: Version, group: str) -> None:
        """Lets a version that somebody stands for count for other groups as well."""
        claim = version.claim
        self._said.setdefault(claim.said, {})[version.seq] = version
        self.followers.add(version)
        for word in claim.value.split() if claim.is_single else ():
            self._valued.setdefault(word, set()).add(group)
        for move in self._moved.get(group, ()):
            self._settled.pop(move, None)
        for ender in self._enders.get(claim.said, {}).values():
            self._settled.pop(self._group_of[ender.seq], None)
        if key := _ender_key(claim):
            self._enders.setdefault(key, {})[version.seq] = version
            self._settled.clear()

    def remove(self, version: Version) -> None:
        """Forgets a version, if it was added."""
        group = self._group_of.pop(version.seq, "")
        if group:
            del self._groups[group][version.seq]
            self._settled.pop(group, None)
        self._said.get(version.claim.said, {}).pop(version.seq, None)
        self.followers.remove(version)
        self.replacers.remove(version)
        self.unsettle(version.body.replaces)
        if self._enders.get(_ender_key(version.claim), {}).pop(version.seq, None):
            self._settled.clear()

    def unsettle(self, entries: Iterable[str]) -> None:
        """What these entries say must be settled again."""
        for entry in entries:
            for one in self._versions.get(entry, ()):
                self._settled.pop(self.group_of(one.seq), None)

    # --- asking ---

    def names(self) -> list[str]:
        return list(self._groups)

    def group_of(self, seq: int) -> str:
        """The group of the version at a seq; empty if that is in none."""
        return self._group_of.get(seq, "")

    def members(self, group: str) -> Iterable[Version]:
        """The versions of a group, in the order in which they were said."""
        return self._groups.get(group, {}).values()

    def saying(self, said: str) -> Iterable[Version]:
        """The versions that say this, and that somebody stands for."""
        return self._said.get(said, {}).values()

    def runs(self, group: str) -> list[Run]:
        """The entries of a group, in the order in which they became true."""
        if group not in self._settled:
            self._settled[group] = self._settle(group)
        return self._settled[group]

    def run_at(self, seq: int) -> Run | None:
        """The entry that the event at a seq is part of."""
        group = self.group_of(seq)
        if not group:
            return None
        return next(run for run in self.runs(group) if any(one.seq == seq for one in run.versions))

    # --- settling ---

    def _settle(self, group: str) -> list[Run]:
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
        """The later versions of other entries that end what is claimed."""
        claim = run.first.claim
        said = self._said.get(claim.ended, {}) if claim.ended else {}
        for ender in (*self._deniers(claim), *said.values(), *self._after_move(claim, group)):
            if by_time(ender) > by_time(run.first) and ender.body.entry != run.entry:
                yield ender

    def _deniers(self, claim: Claim) -> Iterator[Version]:
        """What says that a claim is so no longer, or that something moved away from it."""
        if not self._enders:
            return
        for key in dict.fromkeys((claim.said, *claim.value.split(), *claim.about.split())):
            for ender in self._enders.get(key, {}).values():
                is_moved = bool(ender.claim.left) and ends(ender.claim, claim)
                if is_moved or ender.claim.ended == claim.said:
                    yield ender

    def _after_move(self, move: Claim, group: str) -> Iterator[Version]:
        """What was said of the same thing after something moved: the move is history then."""
        for other in self._valued.get(move.left.partition(" ")[0], ()) if move.left else ():
            versions = self._groups[other].values()
            if any(ends(move, one.claim) for one in versions):
                self._moved.setdefault(other, set()).add(group)
                yield from versions

    def _open_run(self, runs: list[Run], version: Version) -> Run | None:
        """The entry that says the same and is still true when this is said."""
        claim = version.claim
        candidates = runs[-1:] if claim.is_single else runs
        for run in candidates:
            is_same = run.first.claim.value == claim.value
            if is_same and (version.from_ms < run.until_ms or run.entry == version.body.entry):
                return run
        return None

    def _own_end(self, version: Version) -> int:
        """When a version ends by itself: by its date, or by the next version of its entry."""
        until = version.body.valid_until_ms or FOREVER_MS
        for later in self._versions[version.body.entry]:
            is_same = later.claim.said == version.claim.said and not later.body.closed
            is_other = not is_same or later.is_accepted != version.is_accepted
            if later.seq > version.seq and is_other:
                return min(until, later.from_ms)
        return until


def group_name(claim: Claim, *, is_accepted: bool) -> str:
    """By what versions are compared: what they are about, else what they say."""
    group = claim.about or f"={claim.said}"
    return group if is_accepted else UNACCEPTED + group


def is_unaccepted(group: str) -> bool:
    """Whether the versions of a group are those that no person accepted."""
    return group.startswith(UNACCEPTED)


def _ender_key(claim: Claim) -> str:
    return claim.ended or claim.left.partition(" ")[0]


def by_time(version: Version) -> tuple[int, int]:
    return version.from_ms, version.seq


REPLACED_MAX = 50  # by one entry


class Replacers:
    """Versions by the entries that they replace."""

    def __init__(self) -> None:
        self._by_entry: dict[str, dict[int, Version]] = {}

    def add(self, version: Version) -> None:
        """Takes a version that holds."""
        for entry in version.body.replaces:
            self._by_entry.setdefault(entry, {})[version.seq] = version

    def remove(self, version: Version) -> None:
        """Forgets a version, if it was added."""
        for entry in version.body.replaces:
            self._by_entry.get(entry, {}).pop(version.seq, None)

    def of(self, version: Version) -> Iterator[Version]:
        """What replaces the entry of a version, and was said later or became true later: who says
        afterwards how it was before, or accepts that, does not make it true again."""
        for one in self._by_entry.get(version.body.entry, {}).values():
            is_later = one.seq > version.seq or one.from_ms > version.from_ms
            if is_later and (one.is_accepted or not version.is_accepted):
                yield one

    def end(self, run: Run, version: Version) -> None:
        """Ends an entry that a version is part of, if something replaces it."""
        for replacer in self.of(version):
            if not run.says_the_same(replacer):
                run.end(replacer, is_told=True)

    def rows(self) -> Iterator[Row]:
        """What a bookmark keeps of this."""
        for entry, versions in self._by_entry.items():
            yield from (("replacers", entry, seq) for seq in versions)

    def open(self, by_entry: dict[str, dict[int, Version]]) -> None:
        """Goes on from a bookmark."""
        self._by_entry = by_entry


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
