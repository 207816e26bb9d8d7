"""Keeping an index up to date with a store: what was appended is taken in, what is gone leaves.

Nothing here is on the way of an append, and no thread runs behind anybody's back: `catch_up` reads
a bounded number of events from the mark that each conversation has in the index. An index that is
missing, damaged, locked or read-only is said and never loses anything, because the log is the
truth. Neighbours: `search/` has the index, `stores/` the logs, `searching` asks.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TypeVar

from refold import process_fork
from refold.core.codec import decode
from refold.core.model import Artifact, Conversation, Erase, Event
from refold.errors import Corrupt, Denied, Invalid, NotFound, Unavailable
from refold.log.log import near_runs
from refold.log.reading import conversations, pages_of
from refold.search import database, embedders
from refold.search.documents import Document, documents_of
from refold.search.embedders import Embedder
from refold.search.index import Entry, Index, Mark
from refold.search.vectors import Vectors
from refold.stores.protocol import Store

BATCH_EVENTS, PAGE_EVENTS, BATCH_VECTORS = 5_000, 200, 200
BATCH_CHARS = 4_000_000
LOOK_BACK_EVENTS = 20
ARTIFACT_BYTES_MAX = 16 * 1024 * 1024
EMBEDDER_PAUSE_S = 60.0
T = TypeVar("T")

Tell = Callable[[str, str], None]
Progress = Callable[[int, int], None]


class Keeper:
    """The index of one store. `tell(name, reason)` hears what a caller should know."""

    def __init__(self, store: Store, path: str, *, embedder: Embedder | None, tell: Tell) -> None:
        self.store, self.path, self.embedder, self.tell = store, path, embedder, tell
        self.lock = threading.RLock()
        self.abouts: dict[str, Conversation] = {}  # as they were when the index last caught up
        self._index: Index | None = None
        self._vectors: Vectors | None = None
        self._embedder_failed_s = -EMBEDDER_PAUSE_S
        process_fork.watch(self)

    # --- the file ---

    def opened(self) -> Index:
        """The index, opened when it is first needed."""
        if self._index is None:
            # A store that was never written to has no folder yet; then there is nothing to search
            # either.
            there = self.path == database.MEMORY or os.path.isdir(os.path.dirname(self.path))
            self._index = Index(self.path if there else database.MEMORY)
            if self._index.said:
                self.tell(*self._index.said)
        return self._index

    def sound(self, work: Callable[[], T]) -> T:
        """Does the work with the lock held. Damage that shows in the middle of it costs a new
        index, nothing else."""
        with self.lock:
            try:
                with database.translated(self.path):
                    return work()
            except Corrupt as error:
                if self._index is None or not str(error).startswith(self.path):
                    raise
                self.let_go()
                self.remove()
                self.tell("index-rebuilt", f"{error}: it is built anew, nothing is lost")
            with database.translated(self.path):
                return work()

    def remove(self) -> None:
        """Takes the file away, if it is ours."""
        if self.path == database.MEMORY:
            return
        if database.is_foreign(self.path):
            raise Invalid(
                f"{self.path} belongs to another program", hint="move it, or the store, elsewhere"
            )
        try:
            database.remove(self.path)
        except OSError as error:
            raise Unavailable(
                f"cannot remove {self.path}: {error.strerror}", hint="check the folder"
            ) from error

    def let_go(self) -> None:
        index, self._index = self._index, None
        self._vectors = None
        if index is not None:
            index.close()

    def before_fork(self) -> None:
        """Nothing: the parent goes on with its connection."""

    def after_fork(self, *, in_child: bool) -> None:
        """A connection is not carried over a fork of the process: its locks belong to the
        parent."""
        if in_child and self.path != database.MEMORY:
            _LEFT_ALONE.append(self._index)
            self._index = self._vectors = None

    @property
    def is_open(self) -> bool:
        return self._index is not None

    def written(self, work: Callable[[Index], None]) -> None:
        """Changes the index if it can be changed now; says so if not."""
        try:
            with database.translated(self.path):
                work(self._writable())
        except Unavailable as error:
            self.tell("index-behind", str(error))

    def _writable(self) -> Index:
        index = self.opened()
        if not index.is_writable:
            raise Unavailable(f"{self.path} is read-only", hint="check the mode of the file")
        return index

    # --- catching up ---

    def catch_up(self, budget: int, wanted: Sequence[str] | None = None) -> int:
        """Takes in what was appended, at most `budget` events; gives how many are left."""
        index = self.opened()
        marks = index.marks() if wanted is None else {}
        there = conversations(self.store) if wanted is None else self._family(wanted)
        self.abouts = {}
        left = 0
        for about in there:
            self.abouts[about.id] = about
            mark = marks.get(about.id) if wanted is None else index.mark(about.id)
            if mark is None or (mark.head, mark.chain) != (about.head, about.chain):
                done, behind = self._taken_in(about, mark, budget)
                budget -= done
                left += behind
        if gone := marks.keys() - self.abouts.keys():
            self._writable().forget(gone)
        return left

    def _family(self, wanted: Iterable[str]) -> list[Conversation]:
        """The conversations and what they were forked from."""
        found: dict[str, Conversation] = {}
        for id in wanted:
            while id and id not in found:
                found[id] = self.store.conversation(id)
                id = found[id].parent
        return list(found.values())

    def _taken_in(self, about: Conversation, mark: Mark | None, budget: int) -> tuple[int, int]:
        """The same as `take_in`, but a log that is damaged is said and left out: the others must
        be found."""
        try:
            return self.take_in(about, mark, budget)
        except Corrupt as error:
            self.tell("index-behind", f"{about.id} cannot be read: {error}")
            return 0, 0

    def take_in(self, about: Conversation, mark: Mark | None, budget: int) -> tuple[int, int]:
        """Takes in a conversation from its mark on: how many events were read, how many are
        left."""
        index = self._writable()
        if mark is not None and not self._fits(about, mark):
            index.forget([about.id])
            mark = None
        if mark is None:
            index.enter(about)
        after = mark.head if mark else about.parent_seq
        calls = self.calls_before(about.id, after + 1)
        done = 0
        while after < about.head and done < budget:
            batch = self._batch(about, after, min(BATCH_EVENTS, budget - done), calls)
            if not batch or not self._add(index, about, batch, after):
                break
            done += len(batch)
            after = batch[-1][0].seq
        return done, about.head - after

    def _batch(
        self, about: Conversation, after: int, most: int, calls: dict[str, str]
    ) -> list[tuple[Event, list[Document]]]:
        """The next events with what they say: bounded in number and in size."""
        batch: list[tuple[Event, list[Document]]] = []
        chars = 0
        while len(batch) < most and chars < BATCH_CHARS:
            limit = min(PAGE_EVENTS, most - len(batch))
            events = self.store.read(
                about.id, after=after + len(batch), last=about.head, limit=limit
            )
            said = [(event, self.documents(event, calls)) for event in events]
            batch += said
            chars += sum(len(one.text) for _, documents in said for one in documents)
            if len(events) < limit:
                break
        return batch

    def _fits(self, about: Conversation, mark: Mark) -> bool:
        """Whether the log still has, at the mark, the event that the mark speaks of."""
        if mark.head > about.head or (mark.parent, mark.parent_seq) != (
            about.parent,
            about.parent_seq,
        ):
            return False
        if mark.head == about.parent_seq:
            return True
        events = self.store.read(about.id, after=mark.head - 1, last=mark.head, limit=1)
        return bool(events) and events[0].chain == mark.chain

    def _add(
        self,
        index: Index,
        about: Conversation,
        batch: Sequence[tuple[Event, list[Document]]],
        after: int,
    ) -> bool:
        """Takes in one batch. False if another process took it in meanwhile."""
        documents = [document for _, said in batch for document in said]
        newest = batch[-1][0]
        if not index.add(about.id, documents, after=after, head=newest.seq, chain=newest.chain):
            return False
        erasures = [decode(event) for event, _ in batch if event.kind == "erase"]
        for erasure in erasures:
            if isinstance(erasure, Erase):
                index.erase(self._holder(about, erasure.seq), [erasure.seq])
        return True

    def _holder(self, about: Conversation, seq: int) -> str:
        """The conversation that holds an event: this one, or the ancestor it shares the event
        with."""
        while about.parent and seq <= about.parent_seq:
            about = self.store.conversation(about.parent)
        return about.id

    # --- what events say ---

    def documents(self, event: Event, calls: dict[str, str]) -> list[Document]:
        return documents_of(event, calls, self.content(event) if event.kind == "artifact" else "")

    def calls_before(self, conversation: str, seq: int) -> dict[str, str]:
        """Which tools the calls just before a message are of."""
        calls: dict[str, str] = {}
        if seq > 1:
            for event in self.store.read(
                conversation, after=max(0, seq - LOOK_BACK_EVENTS), last=seq - 1
            ):
                if event.kind == "message":
                    documents_of(event, calls)
        return calls

    def content(self, event: Event) -> str:
        """The text of the artifact that an event names; nothing if it is not text, or not there."""
        artifact = None if event.erased else decode(event)
        if not isinstance(artifact, Artifact) or artifact.mime.startswith(
            ("image/", "audio/", "video/")
        ):
            return ""
        chunks: list[bytes] = []
        try:
            for chunk in self.store.get(artifact.digest):
                chunks.append(chunk)
                if sum(map(len, chunks)) > ARTIFACT_BYTES_MAX:
                    break
        except (NotFound, Corrupt):
            # `verify` reports artifacts that are missing or damaged; the rest must be found all the
            # same.
            return ""
        content = b"".join(chunks)
        return "" if b"\0" in content[:4_096] else content.decode("utf-8", "replace")

    # --- vectors ---

    def vectors(self, budget: int) -> Vectors | None:
        """The vectors, up to date but for what exceeds the budget; None without an embedder that
        works."""
        if self.embedder is None or time.monotonic() - self._embedder_failed_s < EMBEDDER_PAUSE_S:
            return None
        return self.embedding(lambda: self._vectors_caught_up(budget))

    def embedding(self, work: Callable[[], T]) -> T | None:
        """Does what needs the embedder; None, a notice and a pause if it fails: full text
        answers without it."""
        try:
            with database.translated(self.path):
                return work()
        except (Unavailable, Invalid, Denied) as error:
            self._embedder_failed_s = time.monotonic()
            self.tell("embedder-failed", f"{error}; this answer is by full text alone")
            return None

    def _vectors_caught_up(self, budget: int) -> Vectors:
        assert self.embedder is not None
        if self._vectors is None:
            self._vectors = Vectors(self.opened(), self.embedder)
            if self.opened().is_writable and (said := self._vectors.changed()):
                self.tell("embedder-changed", said)
        while budget > 0 and self.opened().is_writable:
            ids = self._vectors.behind(min(BATCH_VECTORS, budget))
            if not ids:
                break
            self._vectors.add(ids, self._texts(ids))
            budget -= len(ids)
        return self._vectors

    def _texts(self, ids: Sequence[int]) -> dict[int, str]:
        """What these entries say, read again from the log."""
        entries = self.opened().entries(ids)
        wanted = {
            (one.conversation, one.kind, one.seq, one.start): id for id, one in entries.items()
        }
        texts: dict[int, str] = {}
        for conversation in {one.conversation for one in entries.values()}:
            seqs = [one.seq for one in entries.values() if one.conversation == conversation]
            span = pages_of(self.store, conversation, after=min(seqs) - 1, last=max(seqs))
            for event in chain.from_iterable(span):
                for one in self.documents(event, {}) if event.seq in set(seqs) else ():
                    id = wanted.get((conversation, one.kind, one.seq, one.start))
                    texts.update({id: one.text} if id is not None else {})
        return texts

    def events_of(self, entries: Sequence[Entry]) -> dict[tuple[str, int], Event]:
        """The events of entries, near ones read together; those that are gone or damaged by now
        are left out."""
        by_conversation: dict[str, list[int]] = {}
        for entry in entries:
            by_conversation.setdefault(entry.conversation, []).append(entry.seq)
        found: dict[tuple[str, int], Event] = {}
        for conversation, seqs in by_conversation.items():
            for first, last in near_runs(seqs):
                try:
                    events = self.store.read(conversation, after=first - 1, last=last)
                except (NotFound, Corrupt):
                    break
                found.update(((conversation, event.seq), event) for event in events)
        return found


# Connections of a parent process. Closing them here would touch the parent's files; so they are
# kept, unused.
_LEFT_ALONE: list[Index | None] = []


def chosen(embedder: Embedder | bool | None) -> Embedder | None:
    """The embedder that was given; the installed one if none was; none at all for False."""
    if embedder is None or embedder is True:
        return embedders.installed()
    if embedder is False:
        return None
    if not callable(embedder):
        raise Invalid(
            f"{embedder!r} is not an embedder", hint="a function from a list of texts to vectors"
        )
    return embedder


def index_path(store: Store) -> str:
    """Where the index of a store lies: with its files, or in memory for a store that has no place
    on this disk."""
    return store.derived_path("index.db") or database.MEMORY
