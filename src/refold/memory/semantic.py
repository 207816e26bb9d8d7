"""Semantic memory: entries that outlive conversations, as `context.memory` and
`refold.open_memory` offer them.

    entry = context.memory.store("The database listens on port 6432", tags=["infra"])
    [found] = context.memory.retrieve("which port does the database use?")

Storing is one append to the log of a scope. Merging, ending and ranking follow from that log on
demand. `refold.open_memory` opens a memory without a conversation. Neighbours: `scopes` has the
journals, `recall` finds, `fold` decides.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from os import PathLike
from types import TracebackType
from typing import Any

from refold.checked import NUMBER_MAX, checked
from refold.config import Config
from refold.core.model import Memory, Trust
from refold.errors import Invalid, RefoldError, sentence
from refold.memory.entry import (
    Forgotten,
    MemoryEntry,
    content_checked,
    new_id,
    source_checked,
    tags_checked,
)
from refold.memory.erasure import Which, stores_checked
from refold.memory.extraction import Taken
from refold.memory.inbox import (
    decided,
    ended_bodies,
    taken_bodies,
    undecided,
    undecided_body,
)
from refold.memory.journal import MemoryChange, changes, revert, scope_checked
from refold.memory.ranking import IndexQuery
from refold.memory.recall import Wanted, known_of, listed, near, recall
from refold.memory.scopes import Scopes
from refold.memory.transfer import ImportedMemories, exported, import_lines, read_lines
from refold.memory.vector_stores import check_name
from refold.search.embedders import Embedder, by_name
from refold.search.snippets import limit_checked
from refold.search.upkeep import Progress, Tell
from refold.settings.sources import default_store, loaded, user_store
from refold.stores import open_store
from refold.stores.protocol import Store
from refold.system.disk import Moment, happened_ms

HITS_MAX = 300


class SemanticMemory:
    """Entries of the scopes `project` and `agent.NAME` in the given store, and `user` in the user's
    own. `conversation` is the source of new entries, `vectors` the external vector store, if any,
    and `threshold` the default least score of retrieved entries."""

    def __init__(
        self,
        store: Store,
        *,
        embedder: Embedder | str | bool | None = None,
        scope: str = "project",
        conversation: str = "",
        tell: Tell | None = None,
        owns_store: bool = False,
        user: Callable[[], Store] | None = None,
        vectors: str = "",
        threshold: float | None = None,
    ) -> None:
        self.said: builtins.list[tuple[str, str]] = []
        self._store, self._owns_store, self._listener = store, owns_store, tell
        self.conversation, self._threshold = conversation, threshold
        self._journals: list[tuple[Store, str]] = []  # those that `is_empty` looks at
        self._scopes = Scopes(
            store, scope, embedder=embedder, tell=self._tell, user=user, vectors=vectors
        )
        self.scope = self._scopes.own
        self._lock = threading.RLock()

    # --- the four verbs ---

    @checked
    def store(
        self,
        content: str,
        metadata: dict[str, Any] | None = None,
        *,
        tags: Sequence[str] = (),
        scope: str | None = None,
        trust: Trust = "user",
        source: int | tuple[str, int] | None = None,
        at: Moment | None = None,
        until: Moment | None = None,
        replaces: str | Sequence[str] = (),
    ) -> MemoryEntry:
        """Remembers something, and returns the entry with its id. A duplicate is merged, and
        counted. `at` and `until` limit its validity; `source` is a seq of this conversation, or a
        conversation and a seq. The entries it `replaces` become history; it is kept in their
        scope."""
        body = Memory(
            entry=new_id(),
            content=content_checked(content),
            metadata=metadata or {},
            tags=tags_checked(tags),
            trust=trust,
            source=source_checked(source, self.conversation),
            valid_from_ms=happened_ms(at) or 0,
            valid_until_ms=happened_ms(until) or 0,
            replaces=tuple(dict.fromkeys([replaces] if isinstance(replaces, str) else replaces)),
        )
        with self._lock:
            return self._scopes.store(body, scope)

    @checked
    def retrieve(
        self,
        query: str,
        limit: int = 10,
        *,
        threshold: float | None = None,
        tags: Sequence[str] = (),
        metadata: dict[str, Any] | None = None,
        scope: str | None = None,
        as_of: Moment | None = None,
        accepted: bool = False,
    ) -> builtins.list[MemoryEntry]:
        """The best entries that are true now, or were at `as_of`, with a score from 0 to 1 and a
        reason. `threshold` is the least score; by default it depends on the embedder. Searches the
        memory's own scope and the user's, unless `scope` is set. With `accepted`, pending entries
        are left out: a model must not see them."""
        if not query.strip():
            raise Invalid("there is nothing to look for", hint="give a word or a few")
        least = self._threshold if threshold is None else threshold
        most = 10_000 if tags or metadata or as_of is not None else max(HITS_MAX, 3 * limit)
        asked = IndexQuery(query=query, threshold=least, most=most)
        with self._lock:
            now_ms = self._scopes.journal().now_ms()
            at_ms = happened_ms(as_of)
            wanted = Wanted(
                at_ms=now_ms if at_ms is None else at_ms,
                now_ms=now_ms,
                limit=limit_checked(limit),
                tags=tuple(tags),
                metadata=metadata or {},
                accepted=accepted,
            )
            found: builtins.list[MemoryEntry] = []
            for journal in self._scopes.visible_journals(scope):
                found += recall(journal, self._scopes.finder(journal), asked, wanted)
            found.sort(key=lambda entry: entry.score, reverse=True)
            self._scopes.count_use(found[:limit])
            return found[:limit]

    @checked
    def update(
        self,
        id: str,
        content: str | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        tags: Sequence[str] | None = None,
        at: Moment | None = None,
        until: Moment | None = None,
    ) -> MemoryEntry:
        """Changes the words, metadata or tags of an entry from now or `at` on; `until` ends it. The
        earlier version stays in its history."""
        with self._lock:
            journal, run = self._scopes.named(id)
            before = self._scopes.by_key(journal).newest(run.entry).body
            body = Memory(
                entry=before.entry,
                version=before.version + 1,
                content=before.content if content is None else content_checked(content),
                metadata=before.metadata if metadata is None else metadata,
                tags=before.tags if tags is None else tags_checked(tags),
                trust=before.trust,
                source=before.source,
                valid_from_ms=happened_ms(at) or 0,
                valid_until_ms=happened_ms(until) or 0,
            )
            return self._scopes.write(journal, body)

    @checked
    def forget(
        self,
        id: str | Sequence[str] | None = None,
        *,
        tag: str | None = None,
        before: Moment | None = None,
        said_in: str | None = None,
        scope: str | None = None,
        source: bool = False,
        stores: Sequence[str] = (),
        dry_run: bool = False,
    ) -> Forgotten:
        """Erases entries with all their versions for good: from the log, the index, and the
        conversations that showed it, in this store and in `stores`. Without ids, all entries with a
        tag, last said `before` a time, or said in a conversation: of every scope, including those
        of agents, unless `scope` is set. With `source`, also the messages that said it. No rule
        brings it back. `out_of_reach` names remaining entries that say the same. A dry run
        returns the same, and writes nothing. NotFound if there is no such entry."""
        ids = [id] if isinstance(id, str) else id
        which = Which(tag=tag, before_ms=happened_ms(before), said_in=said_in)
        if (ids is None) == (which == Which()):
            hint = "pass an id, or at least one of tag, before, said_in"
            raise Invalid("the entries to forget are not clear", hint=hint)
        others = stores_checked(stores)
        with self._lock:
            meant = self._scopes.meant(ids, which, scope)
            return self._scopes.forget(meant, source=source, others=others, dry_run=dry_run)

    # --- facts from messages ---

    @checked
    def take(
        self,
        taken: Sequence[Taken],
        *,
        waits: bool,
        ended: Sequence[str] = (),
        entries_max: int | None = None,
        upto: int = 0,
    ) -> int:
        """Remembers facts from messages of this conversation, or puts them in the inbox if they
        wait; returns the number of new entries. Known, rejected and forgotten facts are left out.
        Facts from tools, and facts that would replace an entry of higher trust, always wait. The
        `ended` facts are no longer true. Facts beyond `entries_max` are dropped, and reported.
        Messages up to `upto` are never read again."""
        with self._lock:
            journal = self._scopes.journal()
            entries, said_in = journal.entries(), self.conversation
            new = taken_bodies(entries, taken, conversation=said_in, waits=waits, new_id=new_id)
            kept = new if entries_max is None else new[: max(0, entries_max - entries.size())]
            if left := len(new) - len(kept):
                self._tell("memory-failed", f"{left} were not taken: the memory is full")
            old = ended_bodies(entries, ended, journal.now_ms()) if entries.head else []
            if kept or old:
                journal.append([*kept, *old])
            if upto:
                self._scopes.finder(journal).keep_note(f"read {said_in}", upto)
            return len(kept)

    def _read_upto(self) -> int:
        """The seq up to which this conversation was read for facts; 0 if unknown."""
        with self._lock:
            finder = self._scopes.finder(self._scopes.journal())
            return finder.note(f"read {self.conversation}")

    @checked
    def known_of(self, sentences: Sequence[str], limit: int = 20) -> builtins.list[MemoryEntry]:
        """Up to `limit` true entries of this memory's own scope that may be about these sentences:
        shown to a model that extracts facts from them."""
        with self._lock:
            journal = self._scopes.journal()
            if journal.is_empty():
                return []
            return known_of(journal, self._scopes.finder(journal), sentences, limit)

    def inbox(self) -> builtins.list[MemoryEntry]:
        """The entries that wait to be accepted or rejected, including facts from tools and imports,
        oldest first."""
        with self._lock:
            journals = self._scopes.visible_journals()
            return [entry for journal in journals for entry in undecided(journal)]

    @checked
    def accept(self, id: str, content: str | None = None) -> MemoryEntry:
        """Accepts an entry of the inbox, with new words if `content` is set. From now on it has the
        trust of a user."""
        with self._lock:
            journal, waiting = undecided_body(self._scopes.all(), id)
            text = waiting.content if content is None else content_checked(content)
            return self._scopes.write(journal, decided(waiting, text, state=""))

    @checked
    def reject(self, id: str) -> None:
        """Removes an entry from the inbox. No rule brings it back."""
        with self._lock:
            journal, waiting = undecided_body(self._scopes.all(), id)
            journal.append([decided(waiting, waiting.content, state="rejected")])

    # --- reading ---

    @checked
    def list(
        self,
        *,
        tags: Sequence[str] = (),
        metadata: dict[str, Any] | None = None,
        scope: str | None = None,
        as_of: Moment | None = None,
        ended: bool = False,
        limit: int | None = None,
    ) -> builtins.list[MemoryEntry]:
        """All entries that are true now, or were at `as_of`, the last changed first; with `ended`,
        also entries that are no longer true. With `limit`, the first of them."""
        limit_checked(limit or 0, NUMBER_MAX)
        with self._lock:
            at_ms = happened_ms(as_of)
            now_ms = self._scopes.journal().now_ms() if at_ms is None else at_ms
            when_ms, journals = None if ended else now_ms, self._scopes.visible_journals(scope)
            return listed(journals, when_ms, tags, metadata or {})[:limit]

    @checked
    def history(self, id: str) -> builtins.list[MemoryEntry]:
        """The earlier states of an entry and of entries about the same thing, oldest first, each
        with its time of validity."""
        with self._lock:
            journal, run = self._scopes.named(id)
            entries = self._scopes.by_key(journal)
            runs = entries.history(run.entry)
            if any(one.first.claim.left for one in runs):  # a move cannot be looked up by key
                entries = journal.entries()
                runs = entries.history(run.entry)
            return [entries.entry(one, journal.scope) for one in runs]

    @checked
    def near(
        self, id: str, limit: int = 3, *, accepted: bool = False
    ) -> builtins.list[MemoryEntry]:
        """The true entries that may be about the same thing as this one, the nearest first: if one
        of them has changed, `store` it again with `replaces`. `score` is the nearness above the
        threshold. With `accepted`, pending entries are left out."""
        limit_checked(limit)
        with self._lock:
            journal, run = self._scopes.named(id)
            try:
                return near(journal, self._scopes.finder(journal), run, limit, accepted=accepted)
            except RefoldError as error:  # the entry itself is stored already
                self._tell("memory-failed", sentence(error))
                return []

    @checked
    def ids(self, beginning: str = "") -> builtins.list[str]:
        """The ids with this beginning, of all entries that were not forgotten."""
        with self._lock:
            return self._scopes.ids(beginning)

    @checked
    def log(
        self, scope: str | None = None, limit: int | None = None
    ) -> builtins.list[MemoryChange]:
        """All changes of a scope's memory, the newest first; with `limit`, the first of them."""
        limit_checked(limit or 0, NUMBER_MAX)
        with self._lock:
            return [*islice(changes(self._scopes.journal(scope)), limit)]

    @checked
    def revert(self, seq: int, scope: str | None = None) -> MemoryChange:
        """Reverts the change at a seq of a scope's log, and returns it. A revert is a change too,
        and can be reverted. Forgotten entries stay forgotten."""
        with self._lock:
            return revert(self._scopes.journal(scope), seq)

    @checked
    def export(self, scope: str | None = None) -> builtins.list[bytes]:
        """The memory of a scope as lines of JSON, with its history, for `import_lines`."""
        with self._lock:
            return [*exported(self._scopes.journal(scope))]

    @checked
    def import_lines(
        self,
        lines: Sequence[bytes],
        *,
        scope: str | None = None,
        accepted: bool = False,
        name: str = "the import",
    ) -> ImportedMemories:
        """Imports the lines of `export`. All lines are checked first. Imported entries wait in the
        inbox and are hidden from models until a person accepts them, unless they are `accepted`
        here."""
        read = read_lines(lines, name)
        with self._lock:
            journal = self._scopes.journal(scope)
            return import_lines(journal, read, accepted=accepted, new_id=new_id)

    @checked
    def reindex(self, progress: Progress | None = None) -> None:
        """Rebuilds the index with all vectors: for a new embedder, or after damage. `progress(done,
        all)` is called between batches."""
        with self._lock:
            self._scopes.rebuild(progress or (lambda done, total: None))

    def is_empty(self) -> bool:
        """Whether nothing was ever stored in the visible scopes."""
        with self._lock:
            if not self._journals:
                self._journals = [(one.store, one.id) for one in self._scopes.visible_journals()]
            return not any(store.head(id) for store, id in self._journals)

    # --- closing ---

    def close(self) -> None:
        """Closes the index and the stores. Closing twice is fine."""
        with self._lock:
            self._scopes.close()
            if self._owns_store:
                self._store.close()

    def __enter__(self) -> SemanticMemory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _tell(self, name: str, reason: str) -> None:
        self.said.append((name, reason))
        if self._listener is not None:
            self._listener(name, reason)


@checked
def open_memory(
    scope: str = "project",
    *,
    store: str | PathLike[str] | Store | None = None,
    embedder: Embedder | str | bool | None = None,
    config: Config | Mapping[str, Any] | None = None,
) -> SemanticMemory:
    """Opens the memory of a scope: `user`, `project` or `agent.NAME`. `store` is a URL or a store,
    by default the user's own or this project's. `config` overrides the settings of this project.
    Nothing is written before the first entry is stored. Close it, or use it in a `with` block.
    """
    settings = settings_of(loaded(config)[0], embedder)
    is_users = scope_checked(scope) == "user"
    if store is None:
        store = user_store() if is_users else default_store()
    opened = open_store(store) if isinstance(store, str | PathLike) else store
    return SemanticMemory(
        opened,
        scope=scope,
        owns_store=opened is not store,
        user=(lambda: opened) if is_users else None,
        **settings,
    )


def settings_of(config: Config, embedder: Embedder | str | bool | None = None) -> dict[str, Any]:
    """The arguments of a memory that settings decide. `embedder` takes precedence over the
    configured one. Invalid for unknown names, Unavailable for an embedder that is not installed."""
    check_name(config.memory_vectors)
    chosen = by_name(config.memory_embedder) if embedder is None else embedder
    vectors, threshold = config.memory_vectors, config.memory_threshold
    return {"embedder": chosen, "vectors": vectors, "threshold": threshold}
