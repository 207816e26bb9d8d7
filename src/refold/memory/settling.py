"""Which versions of a memory belong together, and what ends what.

Versions that claim something about the same (`claim`) are a group, ordered by when they became
true; in it, the same value said again is merged into the entry that said it first, and where only
one value can be true each ends the one before. What somebody said it replaces ends in any case.
Groups are settled when somebody looks, so adding an event costs nothing but itself. Neighbours:
`fold` answers, `claim` reads sentences, `replacing` knows what was said to replace what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Self

from refold.core.model import Memory
from refold.memory.bookmark import Bookmark, Loaded, Places, Row, packed
from refold.memory.claim import Claim, claim_of, ends
from refold.memory.followers import Followers
from refold.memory.replacing import Replacers
from refold.memory.version import FOREVER_MS, Run, Version

UNACCEPTED = "?"  # how the groups of those begin: they end nothing that somebody said


class Groups:
    """The versions of one memory, in groups. `head` is the seq that was seen last."""

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
    def opened(cls, bookmark: Bookmark, version: Callable[[int], Version]) -> Self:
        """The state of a bookmark, whose events are read by `version(seq)` when they are needed.
        It knows what is asked for by an event or a key; nothing that goes over all entries."""
        places = Places(bookmark)
        out = cls()
        out.head, out._forgotten = bookmark.head, set(bookmark.forgotten)

        def loaded(name: str) -> Loaded[str, dict[int, Version]]:
            return Loaded(lambda key: {seq: version(seq) for seq in places.seqs(name, key)})

        def group_of(seq: int) -> str:
            one = version(seq)
            group = group_name(one.claim, is_accepted=one.is_accepted)
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
        group = group_name(claim, is_accepted=version.is_accepted)
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
            self._replacers.end(run, version)
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


def _ender_key(claim: Claim) -> str:
    return claim.ended or claim.left.partition(" ")[0]


def by_time(version: Version) -> tuple[int, int]:
    return version.from_ms, version.seq
