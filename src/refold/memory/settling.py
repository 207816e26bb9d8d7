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
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from refold.memory.bookmark import Loaded, Places, Row
from refold.memory.claim import Claim, ends
from refold.memory.entry import FOREVER_MS, Run, Version
from refold.memory.followers import Followers

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
