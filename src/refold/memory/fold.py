"""What a log of memories says: which entries there are, which were merged, and what is true when.

Pure: the same events give the same entries, added one by one or all at once. An event is one
version of an entry. Versions that claim something about the same (`claim`) are a group, ordered by
when they became true; in it, the same value said again is merged into the entry that said it first,
and where only one value can be true each ends the one before. What somebody said it replaces ends
in any case. Groups are settled when somebody looks, so adding an event costs nothing but itself.
Neighbours: `claim` reads sentences, `replacing` knows what was said to replace what, `journal`
brings the events, `memory` asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from refold.core.model import Memory
from refold.memory.bookmark import Bookmark, Loaded, Places, Row, packed
from refold.memory.claim import Claim, claim_of, ends, telling_words
from refold.memory.entry import MemoryEntry
from refold.memory.followers import Followers, Shared
from refold.memory.replacing import Replacers
from refold.memory.seals import is_sealed
from refold.memory.version import FOREVER_MS, Run, Version

_UNACCEPTED = "?"  # how the groups of those begin: they end nothing that somebody said


class Entries:
    """The fold. `head` is the seq that it has seen last."""

    def __init__(self) -> None:
        self.head = 0
        self.waiting: dict[str, Version] = {}
        # What was forgotten and may not be erased everywhere yet, by entry.
        self.unfinished: dict[str, list[Version]] = {}
        self._rejected: dict[str, Version] = {}
        self.seals: list[str] = []
        self._versions: dict[str, list[Version]] = {}
        # What was taken back: it says nothing, but must be erased with its entry.
        self._off: dict[str, list[Version]] = {}
        self._forgotten: set[str] = set()
        self._groups: dict[str, dict[int, Version]] = {}
        self._settled: dict[str, list[Run]] = {}
        # Versions by what they say, and versions that end what others claim: by the sentence, or
        # the first word of the value.
        self._said: dict[str, dict[int, Version]] = {}
        # Groups by the words of their values, and the groups of what moved away from them.
        self._valued: dict[str, set[str]] = {}
        self._moved: dict[str, set[str]] = {}
        self._enders: dict[str, dict[int, Version]] = {}
        self._group_of: dict[int, str] = {}
        self._followers = Followers()
        self._replacers = Replacers()

    # --- bookmarks ---

    def packed(self, chain: bytes) -> bytes:
        """A bookmark of this state, at an event with that chain."""
        rows = [*self._rows(), *self._followers.rows(), *self._replacers.rows()]
        total = self._followers.total
        return packed(rows, head=self.head, chain=chain, forgotten=self._forgotten, total=total)

    def _rows(self) -> Iterator[Row]:
        for name, map in (("groups", self._groups), ("said", self._said), ("enders", self._enders)):
            yield from ((name, key, seq) for key, seqs in map.items() for seq in seqs)
        for entry, versions in self._versions.items():
            yield from (("versions", entry, one.seq) for one in versions)
        for word, groups in self._valued.items():
            yield from (("valued", word, seq) for group in groups for seq in self._groups[group])

    @classmethod
    def opened(cls, bookmark: Bookmark, version: Callable[[int], Version]) -> Entries:
        """The state of a bookmark, whose events are read by `version(seq)` when they are needed.
        It knows what is asked for by an event or a key; nothing that goes over all entries."""
        places = Places(bookmark)
        out = cls()
        out.head, out._forgotten = bookmark.head, set(bookmark.forgotten)

        def loaded(name: str) -> Loaded[str, dict[int, Version]]:
            return Loaded(lambda key: {seq: version(seq) for seq in places.seqs(name, key)})

        def group_of(seq: int) -> str:
            one = version(seq)
            group = _group(one.claim, is_accepted=one.is_accepted)
            return group if seq in out._groups[group] else ""

        out._groups, out._said, out._enders = loaded("groups"), loaded("said"), loaded("enders")
        out._versions = Loaded(lambda key: [version(seq) for seq in places.seqs("versions", key)])
        out._group_of = Loaded(group_of)
        out._valued = Loaded(lambda word: {group_of(seq) for seq in places.seqs("valued", word)})
        out._followers.open(places, bookmark.total, version)
        out._replacers.open(loaded("replacers"))
        return out

    # --- adding ---

    def add(self, seq: int, at_ms: int, body: Memory | None, *, is_off: bool = False) -> None:
        """Takes the next event; None for one that was erased. One that is off was taken back."""
        self.head = seq
        if body is None or (body.entry in self._forgotten and body.state != "forgotten"):
            return
        if body.state == "forgotten":
            self._forget(body)
            return
        version = Version(seq, at_ms, body, claim_of(body.content))
        if is_off:
            self._off.setdefault(body.entry, []).append(version)
        else:
            self._take(version)

    def _take(self, version: Version) -> None:
        body = version.body
        self._unsettle((body.entry,))
        self._versions.setdefault(body.entry, []).append(version)
        self.waiting.pop(body.entry, None)
        self._rejected.pop(body.entry, None)
        if body.state == "waiting":
            self.waiting[body.entry] = version
        elif body.state == "rejected":
            self._rejected[body.entry] = version
        elif not body.state and not body.closed:
            self._place(version)

    def _unsettle(self, entries: Iterable[str]) -> None:
        """What these entries say must be settled again."""
        for entry in entries:
            for one in self._versions.get(entry, ()):
                self._settled.pop(self._group_of.get(one.seq, ""), None)

    def _place(self, version: Version) -> None:
        claim = version.claim
        group = _group(claim, is_accepted=version.is_accepted)
        self._replacers.add(version)
        self._unsettle(version.body.replaces)
        self._groups.setdefault(group, {})[version.seq] = version
        self._group_of[version.seq] = group
        self._settled.pop(group, None)
        key = _ender_key(claim)
        if not version.is_accepted:
            return
        self._said.setdefault(claim.said, {})[version.seq] = version
        self._followers.add(version)
        for word in claim.value.split() if claim.is_single else ():
            self._valued.setdefault(word, set()).add(group)
        for move in self._moved.get(group, ()):
            self._settled.pop(move, None)
        for ender in self._enders.get(claim.said, {}).values():
            self._settled.pop(self._group_of[ender.seq], None)
        if key:
            self._enders.setdefault(key, {})[version.seq] = version
            self._settled.clear()

    def _forget(self, body: Memory) -> None:
        self._forgotten.add(body.entry)
        self.waiting.pop(body.entry, None)
        self._rejected.pop(body.entry, None)
        if body.seal:
            self.seals.append(body.seal)
        versions = self._versions.pop(body.entry, []) + self._off.pop(body.entry, [])
        if body.closed:
            self.unfinished.pop(body.entry, None)
        else:
            self.unfinished.setdefault(body.entry, []).extend(versions)
        for version in versions:
            group = self._group_of.pop(version.seq, "")
            if group:
                del self._groups[group][version.seq]
                self._settled.pop(group, None)
            self._said.get(version.claim.said, {}).pop(version.seq, None)
            self._followers.remove(version)
            self._replacers.remove(version)
            self._unsettle(version.body.replaces)
            if self._enders.get(_ender_key(version.claim), {}).pop(version.seq, None):
                self._settled.clear()

    # --- settling ---

    def _runs(self, group: str) -> list[Run]:
        if group not in self._settled:
            self._settled[group] = self._settle(group)
        return self._settled[group]

    def _settle(self, group: str) -> list[Run]:
        """The entries of a group, in the order in which they became true."""
        runs: list[Run] = []
        for version in sorted(self._groups[group].values(), key=_by_time):
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
            self._replacers.end(run, version)
        return runs

    def _enders_of(self, run: Run, group: str) -> Iterator[Version]:
        """The later versions of other entries that end what is claimed."""
        claim = run.first.claim
        said = self._said.get(claim.ended, {}) if claim.ended else {}
        for ender in (*self._deniers(claim), *said.values(), *self._after_move(claim, group)):
            if _by_time(ender) > _by_time(run.first) and ender.body.entry != run.entry:
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

    # --- looking ---

    def runs(self, at_ms: int | None = None) -> Iterator[Run]:
        """Every entry that is true at a time; without one, whatever was ever true."""
        for group in list(self._groups):
            for run in self._runs(group):
                if at_ms is None or run.holds_at(at_ms):
                    yield run

    def run_at(self, seq: int) -> Run | None:
        """The entry that the event at a seq is part of."""
        group = self._group_of.get(seq)
        if not group:
            return None
        return next(run for run in self._runs(group) if any(one.seq == seq for one in run.versions))

    def changes_after(self, run: Run, at_ms: int) -> Iterator[Run]:
        """What was said later, tells of a change and is true at a time."""
        for version in self._followers.of(run.first):
            later = self.run_at(version.seq)
            if later is not None and later.holds_at(at_ms):
                yield later

    def shared(self, one: Run, other: Run, asked: frozenset[str]) -> Shared:
        """How much two entries share of these words, and of all others."""
        return self._followers.shared(one.first, other.first, asked)

    def run_of(self, entry: str) -> Run | None:
        """The newest state of an entry, or of the one that it was merged into."""
        for version in reversed(self._versions.get(entry, ())):
            run = self.run_at(version.seq)
            if run is not None:
                return run
        return None

    def newest(self, entry: str) -> Version:
        """The newest version of an entry."""
        return self._versions[entry][-1]

    def history(self, entry: str) -> list[Run]:
        """What was ever said by an entry, about what it speaks of, or by what it replaces or is
        replaced by, oldest first."""
        found: dict[int, Run] = {}
        left, looked = [entry], set[str]()
        while left:
            id = left.pop()
            looked.add(id)
            found.update((run.first.seq, run) for run in self._about(id))
            for version in self._versions.get(id, ()):
                more = (*version.body.replaces, *_entries_of(self._replacers.of(version)))
                left += [other for other in more if other not in looked]
        return sorted(found.values(), key=lambda run: _by_time(run.first))

    def _about(self, entry: str) -> Iterator[Run]:
        """What an entry said, and others about the same."""
        for version in self._versions.get(entry, ()):
            group = self._group_of.get(version.seq)
            for run in self._runs(group) if group else ():
                if version.claim.about or any(one.seq == version.seq for one in run.versions):
                    yield run
        own = self.run_of(entry)
        if own and own.first.claim.left:
            yield from (run for run in [*self.runs()] if run.heir == own.first.seq)

    def versions_of(self, entries: Iterable[str]) -> list[Version]:
        """Every event of these entries, of those ever merged with one of them, and of those that
        wait or were rejected and say the same."""
        ids = dict.fromkeys(entries)
        looked: set[str] = set()
        while left := [id for id in ids if id not in looked]:
            for version in self._versions.get(left[0], ()):
                merged = self.run_at(version.seq)
                ids.update(_entries_of(merged.versions if merged else ()))
                ids.update(_entries_of(self._set_aside(version.claim.said)))
            looked.add(left[0])
        return [version for id in ids for version in self._ever_said(id)]

    def _set_aside(self, said: str) -> Iterator[Version]:
        """What says this, and waits for a person or was rejected by one."""
        for version in (*self.waiting.values(), *self._rejected.values()):
            if version.claim.said == said:
                yield version

    def size(self) -> int:
        """How many entries there are, those that wait or ended included."""
        return len(self._versions)

    def _ever_said(self, entry: str) -> list[Version]:
        return self._versions.get(entry, []) + self._off.get(entry, [])

    def has(self, entry: str) -> bool:
        """Whether there is such an entry, also one that waits, was rejected or taken back."""
        return entry in self._versions or entry in self._off

    def chosen(self, wanted: Callable[[Sequence[Version]], bool]) -> list[str]:
        """The entries whose versions are wanted."""
        ids = dict.fromkeys((*self._versions, *self._off))
        return [id for id in ids if wanted(self._ever_said(id))]

    def unaccepted(self, at_ms: int) -> Iterator[Run]:
        """What is true as far as tools and imports say, and no person accepted."""
        for group in [name for name in self._groups if name.startswith(_UNACCEPTED)]:
            yield from (run for run in self._runs(group) if run.holds_at(at_ms))

    def is_forgotten(self, content: str) -> bool:
        """Whether these words were forgotten, and must not be brought back by a rule."""
        claim = claim_of(content)
        return is_sealed((claim.said, telling_words(claim.said)), self.seals)

    def knows(self, content: str) -> bool:
        """Whether an entry says this, or a person rejected it."""
        claim = claim_of(content)
        groups = (self._groups.get(_group(claim, is_accepted=is_ok), {}) for is_ok in (True, False))
        said = (version.claim.said for group in groups for version in group.values())
        return claim.said in said or any(self._set_aside(claim.said))

    def saying(self, content: str) -> str:
        """The entry that says this and was not ended; empty if there is none."""
        for version in self._said.get(claim_of(content).said, {}).values():
            run = self.run_at(version.seq)
            if run is not None and run.until_ms == FOREVER_MS:
                return run.entry
        return ""

    def rivals(self, run: Run) -> tuple[str, ...]:
        """Entries that are true as well and say something else about the same."""
        if not run.first.claim.is_rival or run.until_ms != FOREVER_MS:
            return ()
        group = self._group_of[run.first.seq]
        others = (one for one in self._runs(group) if one is not run)
        return tuple(one.entry for one in others if one.until_ms == FOREVER_MS)

    def entry(self, run: Run, scope: str, **more: Any) -> MemoryEntry:
        """A state as a caller sees it."""
        created_ms = self._versions[run.entry][0].at_ms
        return run.shown(scope=scope, created_ms=created_ms, rivals=self.rivals(run), **more)


def _group(claim: Claim, *, is_accepted: bool) -> str:
    """By what versions are compared: what they are about, else what they say."""
    group = claim.about or f"={claim.said}"
    return group if is_accepted else _UNACCEPTED + group


def _entries_of(versions: Iterable[Version]) -> dict[str, None]:
    return dict.fromkeys(one.body.entry for one in versions)


def _ender_key(claim: Claim) -> str:
    return claim.ended or claim.left.partition(" ")[0]


def _by_time(version: Version) -> tuple[int, int]:
    return version.from_ms, version.seq
