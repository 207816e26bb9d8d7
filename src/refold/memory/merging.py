"""Merging: which versions of a memory belong together, and which version ends which.

Versions that claim something about the same thing (`claim`) form a group, ordered by the time they
became true. In it, a repeated value is merged into the entry that said it first; where only one
value can be true, each ends the one before. A version declared as a replacement (`replaces`) ends
its predecessors in any case, but a tool or an import ends nothing that a person or a model said.
Groups are merged on demand, so adding a version costs nothing but itself. Neighbours: `fold` keeps
the entries and answers, `claim` reads sentences, `later_mentions` finds announced changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from refold.memory.bookmark import BookmarkColumns, LazyMap, Row
from refold.memory.claim import Claim, ends
from refold.memory.entry import FOREVER_MS, Run, Version
from refold.memory.later_mentions import LaterMentions

REPLACED_MAX = 50  # entries that one entry may replace
UNACCEPTED = "?"  # prefix of groups that no person accepted: they end nothing that people said


class Groups:
    """The valid versions, in groups. `versions` maps each entry to its versions, and belongs to the
    owner."""

    def __init__(self, versions: dict[str, list[Version]]) -> None:
        self._versions = versions
        self._groups: dict[str, dict[int, Version]] = {}
        self._group_of: dict[int, str] = {}
        self._merged: dict[str, list[Run]] = {}
        # Versions by their sentence; and versions that end another claim, by its sentence or the
        # first word of its value.
        self._said: dict[str, dict[int, Version]] = {}
        self._enders: dict[str, dict[int, Version]] = {}
        # Groups by the words of their values, and for each group the groups of moves away from it.
        self._valued: dict[str, set[str]] = {}
        self._moved: dict[str, set[str]] = {}
        self.later_mentions = LaterMentions()
        self.replacers = Replacers()

    # --- bookmarks ---

    def rows(self) -> Iterator[Row]:
        """The rows of a bookmark."""
        for name, map in (("groups", self._groups), ("said", self._said), ("enders", self._enders)):
            yield from ((name, key, seq) for key, seqs in map.items() for seq in seqs)
        for word, groups in self._valued.items():
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
        self._valued = LazyMap(lambda word: {group_of(seq) for seq in columns.seqs("valued", word)})
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
        # An accepted version has an effect on other groups as well.
        self._said.setdefault(claim.said, {})[version.seq] = version
        self.later_mentions.add(version)
        for word in claim.value.split() if claim.is_single else ():
            self._valued.setdefault(word, set()).add(group)
        for move in self._moved.get(group, ()):
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
        """Marks the groups of these entries to be merged again."""
        for entry in entries:
            for one in self._versions.get(entry, ()):
                self._merged.pop(self.group_of(one.seq), None)

    # --- asking ---

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
        """Versions about the same thing that are later than a move, and make it history."""
        for other in self._valued.get(move.left.partition(" ")[0], ()) if move.left else ():
            versions = self._groups[other].values()
            if any(ends(move, one.claim) for one in versions):
                self._moved.setdefault(other, set()).add(group)
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
        """The end of a version by its own date, or by the next version of its entry."""
        until = version.body.valid_until_ms or FOREVER_MS
        for later in self._versions[version.body.entry]:
            is_same = later.claim.said == version.claim.said and not later.body.closed
            is_other = not is_same or later.is_accepted != version.is_accepted
            if later.seq > version.seq and is_other:
                return min(until, later.from_ms)
        return until


def group_name(claim: Claim, *, is_accepted: bool) -> str:
    """The key by which versions are compared: the topic of the claim, else its sentence."""
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
        """The replacements of a version's entry that were said later or became true later:
        reporting or accepting an earlier state afterwards does not make it true again."""
        for one in self._by_entry.get(version.body.entry, {}).values():
            is_later = one.seq > version.seq or one.from_ms > version.from_ms
            if is_later and (one.is_accepted or not version.is_accepted):
                yield one

    def end(self, run: Run, version: Version) -> None:
        """Ends the entry of a version, if something replaces it."""
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
