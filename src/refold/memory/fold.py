"""The fold of a memory's log: its entries, what was merged into them, and what was true when.

Pure: the same events give the same entries, whether they are added one by one or all at once. An
event is one version of an entry. Forgotten words leave a seal, a keyed hash with a key of its own,
so equal words have different seals, and a log confirms them only to someone who guesses them.
Neighbours: `merging` decides which versions belong together and when they end, `journal` reads the
events, `erasure` creates seals.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

from msgspec.structs import replace

from refold.core.model import Memory
from refold.memory.bookmark import Bookmark, BookmarkColumns, LazyMap, packed
from refold.memory.claim import claim_of, telling_words
from refold.memory.entry import FOREVER_MS, MemoryEntry, Run, Version, is_same
from refold.memory.merging import Groups, Shared, by_time, group_name, is_unaccepted

HEIRS_MAX = 20
KEY_BYTES = 16
_KEY_DIGITS = 2 * KEY_BYTES


class Entries:
    """The fold. `head` is the seq of the last event added."""

    def __init__(self, versions: dict[str, list[Version]] | None = None) -> None:
        self.head = 0
        self.waiting: dict[str, Version] = {}
        # Versions of forgotten entries that may not be erased everywhere yet.
        self.unfinished: dict[str, list[Version]] = {}
        self._rejected: dict[str, Version] = {}
        self._seals: list[str] = []
        self._versions = {} if versions is None else versions
        # Reverted versions: they do not count, but must be erased with their entry.
        self._reverted: dict[str, list[Version]] = {}
        self._forgotten: set[str] = set()
        self._groups = Groups(self._versions)

    # --- bookmarks ---

    def packed(self, chain: bytes) -> bytes:
        """A bookmark of this state, at the event with this chain."""
        own = [
            ("versions", entry, one.seq) for entry, ones in self._versions.items() for one in ones
        ]
        rows = [*own, *self._groups.rows()]
        total = self._groups.later_mentions.total
        return packed(rows, head=self.head, chain=chain, forgotten=self._forgotten, total=total)

    @classmethod
    def opened(cls, bookmark: Bookmark, version: Callable[[int], Version]) -> Self:
        """The state of a bookmark, which reads events by `version(seq)` on demand. It can answer
        lookups by event or key, but nothing that iterates over all entries."""
        columns = BookmarkColumns(bookmark)
        out = cls(LazyMap(lambda key: [version(seq) for seq in columns.seqs("versions", key)]))
        out.head, out._forgotten = bookmark.head, set(bookmark.forgotten)
        out._groups.open(columns, bookmark.total, version)
        return out

    # --- adding ---

    def add(self, seq: int, at_ms: int, body: Memory | None, *, is_off: bool = False) -> None:
        """Adds the next event; None for an erased one. `is_off` means that it was reverted."""
        self.head = seq
        if body is None or (body.entry in self._forgotten and body.state != "forgotten"):
            return
        if body.state == "forgotten":
            self._forget(body)
            return
        version = Version(seq, at_ms, body, claim_of(body.content))
        if is_off:
            self._reverted.setdefault(body.entry, []).append(version)
            return
        self._groups.invalidate((body.entry,))
        self._versions.setdefault(body.entry, []).append(version)
        self.waiting.pop(body.entry, None)
        self._rejected.pop(body.entry, None)
        if body.state == "waiting":
            self.waiting[body.entry] = version
        elif body.state == "rejected":
            self._rejected[body.entry] = version
        elif not body.state and not body.closed:
            self._groups.add(version)

    def _forget(self, body: Memory) -> None:
        self._forgotten.add(body.entry)
        self.waiting.pop(body.entry, None)
        self._rejected.pop(body.entry, None)
        if body.seal:
            self._seals.append(body.seal)
        versions = self._versions.pop(body.entry, []) + self._reverted.pop(body.entry, [])
        if body.closed:
            self.unfinished.pop(body.entry, None)
        else:
            self.unfinished.setdefault(body.entry, []).extend(versions)
        for version in versions:
            self._groups.remove(version)

    # --- asking ---

    def runs(self, at_ms: int | None = None) -> Iterator[Run]:
        """Every entry that is true at a time; without a time, every entry that ever was."""
        for group in self._groups.names():
            for run in self._groups.runs(group):
                if at_ms is None or run.holds_at(at_ms):
                    yield run

    def run_at(self, seq: int) -> Run | None:
        """The entry of the event at a seq."""
        return self._groups.run_at(seq)

    def changes_after(self, run: Run, at_ms: int) -> Iterator[Run]:
        """Later entries that announce a change and are true at a time."""
        for version in self._groups.later_mentions.of(run.first):
            later = self.run_at(version.seq)
            if later is not None and later.holds_at(at_ms):
                yield later

    @property
    def total(self) -> int:
        """The number of sentences."""
        return self._groups.later_mentions.total

    def sentences_with(self, word: str) -> int:
        """The number of sentences with a stem."""
        return self._groups.later_mentions.sentences_with(word)

    def shared(self, one: Run, other: Run, asked: frozenset[str]) -> Shared:
        """The overlap of two entries, in these words and in all others."""
        return self._groups.later_mentions.shared(one.first, other.first, asked)

    def run_of(self, entry: str) -> Run | None:
        """The newest run of an entry, or of the entry it was merged into."""
        for version in reversed(self._versions.get(entry, ())):
            run = self.run_at(version.seq)
            if run is not None:
                return run
        return None

    def newest(self, entry: str) -> Version:
        """The newest version of an entry."""
        return self._versions[entry][-1]

    def history(self, entry: str) -> list[Run]:
        """The runs of an entry, of entries about the same topic, and of its predecessors and
        successors, oldest first."""
        found: dict[int, Run] = {}
        left, looked = [entry], set[str]()
        while left:
            id = left.pop()
            looked.add(id)
            found.update((run.first.seq, run) for run in self._about(id))
            for version in self._versions.get(id, ()):
                more = (*version.body.replaces, *_entries_of(self._groups.replacers.of(version)))
                left += [other for other in more if other not in looked]
        return sorted(found.values(), key=lambda run: by_time(run.first))

    def _about(self, entry: str) -> Iterator[Run]:
        """The runs of an entry, and of entries about the same topic."""
        for version in self._versions.get(entry, ()):
            group = self._groups.group_of(version.seq)
            for run in self._groups.runs(group) if group else ():
                if version.claim.about or any(one.seq == version.seq for one in run.versions):
                    yield run
        own = self.run_of(entry)
        if own and own.first.claim.left:
            yield from (run for run in [*self.runs()] if run.heir == own.first.seq)

    def versions_of(self, entries: Iterable[str]) -> list[Version]:
        """Every event of these entries, of entries ever merged with one of them, and of pending or
        rejected duplicates."""
        ids = dict.fromkeys(entries)
        looked: set[str] = set()
        while left := [id for id in ids if id not in looked]:
            for version in self._versions.get(left[0], ()):
                merged = self.run_at(version.seq)
                ids.update(_entries_of(merged.versions if merged else ()))
                ids.update(_entries_of(self._set_aside(version.claim.said)))
                ids.update(_entries_of(self._same(version.body.content, is_accepted=False)))
            looked.add(left[0])
        return [version for id in ids for version in self._ever_said(id)]

    def _set_aside(self, said: str) -> Iterator[Version]:
        """Pending and rejected versions with this sentence."""
        for version in (*self.waiting.values(), *self._rejected.values()):
            if version.claim.said == said:
                yield version

    def size(self) -> int:
        """The number of entries, including pending and ended ones."""
        return len(self._versions)

    def _ever_said(self, entry: str) -> list[Version]:
        maps = (self._versions, self._reverted, self.unfinished)
        return [version for versions in maps for version in versions.get(entry, ())]

    def has(self, entry: str) -> bool:
        """Whether there is such an entry, including pending, rejected and reverted ones, and those
        forgotten but not erased yet."""
        return entry in self.unfinished or entry in self._versions or entry in self._reverted

    def chosen(self, wanted: Callable[[Sequence[Version]], bool]) -> list[str]:
        """The entries whose versions satisfy a condition."""
        ids = dict.fromkeys((*self._versions, *self._reverted, *self.unfinished))
        return [id for id in ids if (said := self._ever_said(id)) and wanted(said)]

    def unaccepted(self, at_ms: int) -> Iterator[Run]:
        """Entries from tools and imports that are true, but that no person accepted."""
        for group in filter(is_unaccepted, self._groups.names()):
            yield from (run for run in self._groups.runs(group) if run.holds_at(at_ms))

    def is_forgotten(self, content: str) -> bool:
        """Whether these words were forgotten, so that no rule may bring them back."""
        claim = claim_of(content)
        return is_sealed((claim.said, telling_words(claim.said)), self._seals)

    def knows(self, content: str) -> bool:
        """Whether an entry says this, or a person rejected it."""
        claim = claim_of(content)
        groups = (group_name(claim, is_accepted=is_ok) for is_ok in (True, False))
        said = (one.claim.said for group in groups for one in self._groups.members(group))
        return claim.said in said or any(self._set_aside(claim.said))

    def has_accepted(self, content: str) -> bool:
        """Whether a trusted speaker ever said or accepted this."""
        return next(self._same(content, is_accepted=True), None) is not None

    def undecided(self, content: str) -> Version | None:
        """A version with the same meaning that no person accepted: pending, rejected, or only from
        tools and imports."""
        claim = claim_of(content)
        aside = (*self.waiting.values(), *self._rejected.values())
        same = (one for one in aside if is_same(one.claim, claim))
        return next(same, None) or next(self._same(content, is_accepted=False), None)

    def _same(self, content: str, *, is_accepted: bool) -> Iterator[Version]:
        claim = claim_of(content)
        group = self._groups.members(group_name(claim, is_accepted=is_accepted))
        return (one for one in group if is_same(one.claim, claim))

    def saying(self, content: str) -> str:
        """The id of the current entry that says this; empty if there is none."""
        for version in self._groups.saying(claim_of(content).said):
            run = self.run_at(version.seq)
            if run is not None and run.until_ms == FOREVER_MS:
                return run.entry
        return ""

    def continued(self, body: Memory) -> Memory:
        """The body as a first version, or as the next version of the entry that says the same:
        repeating it only to add `replaces` creates no duplicate."""
        known = self.saying(body.content)
        if not known:
            return body
        return replace(body, entry=known, version=self.newest(known).body.version + 1)

    def rivals(self, run: Run) -> tuple[str, ...]:
        """Current entries with another value for the same thing, or that replaced the same
        entry."""
        if run.until_ms != FOREVER_MS:
            return ()
        group = self._groups.group_of(run.first.seq) if run.first.claim.is_rival else ""
        others = [*(self._groups.runs(group) if group else ()), *self._co_successors(run)]
        is_other = (one for one in others if one.entry != run.entry)
        return tuple(dict.fromkeys(one.entry for one in is_other if one.until_ms == FOREVER_MS))

    def _co_successors(self, run: Run) -> Iterator[Run]:
        """The current successors, direct or not, of the entries that this one replaces."""
        ids = run.replaces if run.first.is_accepted else ()
        for version in (one for id in ids for one in self._versions.get(id, ())):
            heirs = [one.seq for one in self._groups.replacers.of(version)]
            ended = self.run_at(version.seq)
            if ended is not None and ended.heir:
                heirs.append(ended.heir)
            for heir in map(self.run_at, heirs):
                for _ in range(HEIRS_MAX):
                    if heir is None or heir.until_ms == FOREVER_MS:
                        break
                    heir = self.run_at(heir.heir) if heir.heir else None
                if heir is not None and heir.first.is_accepted:
                    yield heir

    def entry(self, run: Run, scope: str, **more: Any) -> MemoryEntry:
        """A run as a caller sees it."""
        created_ms = self._versions[run.entry][0].at_ms
        return run.shown(scope=scope, created_ms=created_ms, rivals=self.rivals(run), **more)


def _entries_of(versions: Iterable[Version]) -> dict[str, None]:
    return dict.fromkeys(one.body.entry for one in versions)


def sealed(words: str, key: str = "") -> str:
    """The seal of these words: the key, by default a new one, and the hash."""
    key = key or secrets.token_hex(KEY_BYTES)
    data = words.encode("utf-8", "replace")
    return key + hashlib.blake2b(data, key=bytes.fromhex(key), digest_size=16).hexdigest()


def is_sealed(words: Iterable[str], seals: Iterable[str]) -> bool:
    """Whether one of the seals matches one of these strings."""
    texts = list(words)
    return any(
        hmac.compare_digest(seal, sealed(text, seal[:_KEY_DIGITS]))
        for seal in seals
        for text in texts
    )
