"""Upkeep of a store's index and vectors: opening, repairing and catching up.

Nothing here delays an append, and nothing runs in the background: catching up reads a bounded
number of events, beginning at each conversation's mark in the index. A missing, damaged, locked or
read-only index is reported and loses nothing, because the log is the truth. An embedder is the
caller's code: after a failure, which is reported, it is paused, and answers use full text alone.
Neighbours: `index` has the rows and reads the logs, `vectors` compares, `searcher` asks.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from refold.core.codec import decode
from refold.core.model import Conversation, Erase
from refold.display import number
from refold.errors import Corrupt, Denied, Invalid, Unavailable, sentence
from refold.log.stored_logs import conversations, is_conversation
from refold.search import database
from refold.search import index as sources
from refold.search.embedders import Embedder, Transformer, Vector
from refold.search.index import EventDocuments, Index, Mark, Range
from refold.search.rank import Matches
from refold.search.vectors import CombinedScores, DimensionChanged, StandaloneVectors, Vectors
from refold.search.words import Query
from refold.stores import changing, is_read_only
from refold.stores.protocol import Changing, Store
from refold.system import process_fork

SEARCH_EVENTS, BATCH_EVENTS = 20_000, 5_000

_BEHIND = "{} not in the index yet: search again, or run {}"
_BEHIND_READ_ONLY = (
    "{} not searched: they come into the index when a user with write access runs {}"
)
_VECTORS_BEHIND = "{:,} entries have no vectors yet: search again, or run {}"

Tell = Callable[[str, str], None]
Progress = Callable[[int, int], None]
Given = ParamSpec("Given")
Result = TypeVar("Result")

# Connections inherited from a parent process. They stay open and unused, because closing them would
# touch the parent's files.
_INHERITED: list[Index] = []


class IndexLost(Corrupt):
    """The damaged index was removed; the next caller gets a new one."""


def retried(work: Callable[Given, Result]) -> Callable[Given, Result]:
    """A decorator that runs the function again if the index was damaged and removed meanwhile."""

    @wraps(work)
    def run(*args: Given.args, **given: Given.kwargs) -> Result:
        try:
            return work(*args, **given)
        except IndexLost:
            return work(*args, **given)

    return run


class Upkeep:
    """The index of one store. `tell(name, reason)` receives the notices for the user; see `Index`
    for `standalone`."""

    def __init__(self, store: Store, path: str, *, tell: Tell, standalone: bool = False) -> None:
        # A reader of a read-only store works on a copy of its index, in memory.
        is_copy = is_read_only(store) and path != database.MEMORY
        self._copy_of = path if is_copy else ""
        self.path = database.MEMORY if is_copy else path
        self._store, self._tell, self._standalone = store, tell, standalone
        self._lock = threading.RLock()
        self._index: Index | None = None
        self._known: dict[str, Conversation] = {}  # as of the last catch-up
        process_fork.watch(self)

    # --- the file ---

    @contextmanager
    def index(self, *, rebuild: bool = False) -> Iterator[Index]:
        """The index, for this thread alone. A damaged one is removed and raises IndexLost: see
        `retried`."""
        with self._lock:
            if rebuild:
                self._remove()
            try:
                with database.translated(self.path):
                    yield self._open()
            except Corrupt as error:
                if self._index is None or not error.message.startswith(self.path):
                    raise
                self._remove()
                self._tell(
                    "index-rebuilt", f"{error.message}: it is being rebuilt, nothing is lost"
                )
                raise IndexLost(error.message, hint=error.hint) from error

    def before_fork(self) -> None:
        """Does nothing: the parent keeps its connection."""

    def after_fork(self, *, in_child: bool) -> None:
        """Leaves the connection, with its locks, to the parent; the child opens its own."""
        if in_child and self._index is not None and self.path != database.MEMORY:
            _INHERITED.append(self._index)
            self._index = None

    def _open(self) -> Index:
        if self._index is None:
            # A store without events has no folder yet, and nothing to search.
            has_folder = self.path == database.MEMORY or os.path.isdir(os.path.dirname(self.path))
            path = self.path if has_folder else database.MEMORY
            self._index = Index(path, copy_of=self._copy_of, standalone=self._standalone)
            if self._index.notice:
                self._tell(*self._index.notice)
        return self._index

    def _remove(self) -> None:
        """Closes the index and deletes its file, if it is ours."""
        self.close()
        if self.path == database.MEMORY:
            return
        if database.is_foreign(self.path):
            hint = "move it, or the store, elsewhere"
            raise Invalid(f"{self.path} belongs to another program", hint=hint)
        try:
            database.remove(self.path)
        except OSError as error:
            problem = f"cannot remove {self.path}: {error.strerror}"
            raise Unavailable(problem, hint="check the folder") from error

    def close(self) -> None:
        with self._lock:
            index, self._index = self._index, None
            if index is not None:
                index.close()

    def has_file(self) -> bool:
        """Whether there is an index that outlives this process."""
        if self.path == database.MEMORY:
            return False
        return self._index is not None or os.path.isfile(self.path)

    # --- catching up ---

    def conversation(self, id: str) -> Conversation:
        """A conversation as of the last catch-up, or as of now."""
        return self._known.get(id) or self._store.conversation(id)

    def freshen(
        self, index: Index, wanted: Sequence[str] | None, budget: int | None = None
    ) -> None:
        """Catches up before a search. An unwritable index is reported, and searched as it is."""
        try:
            with database.translated(self.path):
                left = self._catch_up(index, budget or SEARCH_EVENTS, wanted)
        except Unavailable as error:
            self._tell("index-behind", f"{error.message}; the newest messages may be missing")
            return
        if left:
            notice = _BEHIND_READ_ONLY if self._copy_of else _BEHIND
            self._tell("index-behind", notice.format(number(left, "event"), index.remedy))

    @retried
    def catch_up(self, budget: int, wanted: Sequence[str] | None = None) -> int:
        """Indexes new events, at most `budget`; returns the number left."""
        with self.index() as index:
            return self._catch_up(index, budget, wanted)

    def complete(self, index: Index, progress: Progress) -> int:
        """Indexes all new events; returns their number."""
        total = left = self._catch_up(index, 0, None)
        while left:
            less = self._catch_up(index, BATCH_EVENTS, None)
            if less >= left:
                break  # the others cannot be indexed now
            left = less
            progress(total - left, total)
        return total - left

    def _catch_up(self, index: Index, budget: int, wanted: Sequence[str] | None) -> int:
        known = changing(self._store) if wanted is None else None
        if known is not None:
            left = self._follow(index, budget, known)
            if left is not None:
                return left
        left = 0
        marks = index.marks() if wanted is None else {}
        self._known = {}
        some = sources.family(self._store, wanted) if wanted is not None else None
        for about in conversations(self._store) if some is None else some:
            self._known[about.id] = about
            mark = marks.get(about.id) if wanted is None else index.mark(about.id)
            if mark is None or (mark.head, mark.chain) != (about.head, about.chain):
                done, behind = self._index_readable(index, about, mark, budget)
                budget -= done
                left += behind
        deleted = marks.keys() - self._known.keys()
        if deleted:
            self._writable(index).forget(deleted)
        return left

    def _follow(self, index: Index, budget: int, known: Changing) -> int | None:
        """Catches up with the conversations that changed since the index was complete; None if the
        store does not know them."""
        upto = complete = index.followed
        left, compares_all, is_complete = 0, upto == 0, True
        self._known = {}
        while True:
            found = known.changes(upto)
            if found is None:
                return None
            if found.upto < upto:  # another store is there now
                upto, compares_all = 0, True
                continue
            for about in filter(is_conversation, found.conversations):
                if self._known.get(about.id) == about:
                    continue  # the last one that changed is always among them
                self._known[about.id] = about
                mark = index.mark(about.id)
                if mark is None or (mark.head, mark.chain) != (about.head, about.chain):
                    done, behind = self._index_readable(index, about, mark, budget)
                    budget -= done
                    left += behind
                    mark = index.mark(about.id)
                    # An unreadable log is reported again by the next search.
                    is_whole = mark is not None and mark.head == about.head
                    is_complete = is_complete and is_whole
            compares_all = compares_all or found.has_deleted
            if is_complete:
                complete = found.upto
            if found.upto == upto:
                break
            upto = found.upto
        if compares_all:
            marks = index.marks()
            there = {about.id for about in conversations(self._store)}
            if deleted := marks.keys() - there:
                self._writable(index).forget(deleted)
        if complete != index.followed:
            self._writable(index).note_followed(complete)
        return left

    def _index_readable(
        self, index: Index, about: Conversation, mark: Mark | None, budget: int
    ) -> tuple[int, int]:
        """Like `_index_conversation`, but reports and skips a damaged log, so that the others can
        be found."""
        try:
            return self._index_conversation(self._writable(index), about, mark, budget)
        except Corrupt as error:
            self._tell("index-behind", f"{about.id} cannot be read: {error.message}")
            return 0, 0

    def _index_conversation(
        self, index: Index, about: Conversation, mark: Mark | None, budget: int
    ) -> tuple[int, int]:
        """Indexes a conversation from its mark on; returns the numbers of events read and left."""
        after = self._start(index, about, mark)
        calls = sources.calls_before(self._store, about.id, after + 1)
        done = 0
        while after < about.head and done < budget:
            most = min(BATCH_EVENTS, budget - done)
            batch = sources.next_batch(self._store, about, after, most, calls)
            if not batch or not self._add(index, about, batch, after):
                break
            done += len(batch)
            after = batch[-1][0].seq
        return done, about.head - after

    def _start(self, index: Index, about: Conversation, mark: Mark | None) -> int:
        """The seq up to which a conversation is in the index."""
        if mark is not None:
            if self._fits(about, mark):
                return mark.head
            index.forget([about.id])
        index.enter(about)
        return about.parent_seq

    def _fits(self, about: Conversation, mark: Mark) -> bool:
        """Whether the log still has the event of the mark."""
        is_same_fork = (mark.parent, mark.parent_seq) == (about.parent, about.parent_seq)
        if not is_same_fork or mark.head > about.head:
            return False
        if mark.head == about.parent_seq:
            return True
        events = self._store.read(about.id, after=mark.head - 1, last=mark.head, limit=1)
        return bool(events) and events[0].chain == mark.chain

    def _add(
        self, index: Index, about: Conversation, batch: Sequence[EventDocuments], after: int
    ) -> bool:
        """Indexes one batch. False if another process did so in the meantime."""
        documents = [document for _, found in batch for document in found]
        newest = batch[-1][0]
        if not index.add(about.id, documents, after=after, head=newest.seq, chain=newest.chain):
            return False
        for event, _ in batch:
            erasure = decode(event) if event.kind == "erase" else None
            if isinstance(erasure, Erase):
                holder = sources.holder(self._store, about, erasure.seq)
                index.erase(holder, [erasure.seq])
        return True

    # --- removing ---

    @retried
    def forget(self, ids: Iterable[str]) -> None:
        """Removes conversations from the index; reports if it cannot be written now."""
        with self.index() as index, self.told_if_unavailable():
            self._writable(index).forget(ids)

    def erase(self, index: Index, conversation: str, seq: int) -> None:
        """Removes an event from the index; reports if it cannot be written now."""
        with self.told_if_unavailable():
            self._writable(index).erase(conversation, [seq])

    @contextmanager
    def told_if_unavailable(self) -> Iterator[None]:
        """Reports an index that cannot be written now, and skips the rest of the block."""
        try:
            with database.translated(self.path):
                yield
        except Unavailable as error:
            self._tell("index-behind", error.message)

    def _writable(self, index: Index) -> Index:
        if not index.is_writable:
            raise Unavailable(f"{self.path} is read-only", hint="check the mode of the file")
        return index


def index_path(store: Store) -> str:
    """The path of a store's index: beside its files, or `:memory:` for a store on another
    machine."""
    return store.derived_path("index.db") or database.MEMORY


SEARCH_VECTORS, SEARCH_VECTORS_S = 10_000, 10.0
INDEX_VECTORS = 200
EMBEDDER_PAUSE_S = 60.0
MakeVectors = Callable[[Index, Embedder], Vectors]
FAILURES = (Unavailable, Invalid, Denied)


class VectorUpkeep:
    """The vectors of one store's index, if there is an embedder. `tell(name, reason)` receives the
    notices for the user."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        *,
        tell: Tell,
        kind: MakeVectors | None = None,
    ) -> None:
        self._store, self._embedder, self._tell = store, embedder, tell
        self._kind = kind or _vectors
        self._vectors: Vectors | None = None
        self._failed_s = -EMBEDDER_PAUSE_S

    def compared(
        self,
        index: Index,
        query: Query,
        found: Sequence[Matches],
        scored: dict[int, float],
        ranges: Sequence[Range],
        least: float | None = None,
    ) -> CombinedScores:
        """The combined scores and the cosines."""
        if not self.is_ready():
            return CombinedScores(scored, {})
        try:
            with database.translated(index.path):
                vectors = self._caught_up(index, SEARCH_VECTORS)
                left = vectors.missing_count() if index.is_writable else 0
                if left:
                    self._tell("index-behind", _VECTORS_BEHIND.format(left, index.remedy))
                try:
                    return vectors.compared(query, found, scored, ranges, least=least)
                except DimensionChanged as error:
                    self._tell("embedder-changed", sentence(error))
                    vectors = self._caught_up(index, SEARCH_VECTORS)
                    return vectors.compared(query, found, scored, ranges, least=least)
        except FAILURES as error:
            self.pause(error)
            return CombinedScores(scored, {})

    def means(self, index: Index, ids: Sequence[int]) -> dict[int, Vector]:
        """The mean vector of each of these entries that has vectors."""
        if not self.is_ready():
            return {}
        with database.translated(index.path):
            return self._vectors_of(index).means(ids)

    def complete(self, index: Index, progress: Progress, done: int) -> None:
        """Computes all missing vectors. Progress continues from the `done` events."""
        left = None
        while self.is_ready():
            try:
                with database.translated(index.path):
                    missing = self._caught_up(index, INDEX_VECTORS).missing_count()
            except FAILURES as error:
                self.pause(error)
                return
            if not missing or missing == left:
                return
            left = missing
            progress(done, done + left)

    def remove(self, index: Index, ids: Sequence[int]) -> None:
        """Removes externally stored vectors; the index drops its own with the rows."""
        if ids and self._embedder is not None:
            self._vectors_of(index).remove(ids)

    def is_ready(self) -> bool:
        """Whether there is an embedder that has not failed in the last minute."""
        if self._embedder is None:
            return False
        return time.monotonic() - self._failed_s >= EMBEDDER_PAUSE_S

    def pause(self, error: Exception) -> None:
        """Reports a failure, and stops using the embedder for a minute."""
        self._failed_s = time.monotonic()
        self._tell("embedder-failed", f"{sentence(error)}; this answer is by full text alone")

    def _caught_up(self, index: Index, budget: int) -> Vectors:
        """The vectors, up to date within the budget and the time limit."""
        vectors = self._vectors_of(index)
        try:
            return self._added(vectors, index, budget)
        except DimensionChanged as error:
            self._tell("embedder-changed", sentence(error))
            return self._added(vectors, index, budget)

    def _added(self, vectors: Vectors, index: Index, budget: int) -> Vectors:
        end_s = time.monotonic() + SEARCH_VECTORS_S
        while budget > 0 and index.is_writable and time.monotonic() < end_s:
            ids = vectors.missing(min(vectors.batch, budget))
            if not ids:
                break
            vectors.add(ids, sources.texts_of(self._store, index.entries(ids)))
            budget -= len(ids)
        return vectors

    def _vectors_of(self, index: Index) -> Vectors:
        """The vectors of this index, after removing and reporting those by another embedder."""
        if self._vectors is not None and self._vectors.index is index:
            return self._vectors
        assert self._embedder is not None
        self._vectors = self._kind(index, self._embedder)
        notice = self._vectors.adopt_embedder() if index.is_writable else ""
        if notice:
            self._tell("embedder-changed", notice)
        return self._vectors


def _vectors(index: Index, embedder: Embedder) -> Vectors:
    if not isinstance(embedder, Transformer):
        return (StandaloneVectors if index.standalone else Vectors)(index, embedder)
    embedder.check()
    from refold.search.group_vectors import GroupVectors

    return GroupVectors(index, embedder)
