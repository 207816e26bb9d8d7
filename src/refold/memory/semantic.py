"""Semantic memory: entries that outlive conversations, as `context.memory` and
`refold.open_memory` offer them.

    entry = context.memory.store("The database listens on port 6432", tags=["infra"])
    [found] = context.memory.retrieve("which port does the database use?")

To store is one append to the log of a scope. Merging, closing and ranking follow from that log
whenever somebody looks. Neighbours: `journal` has the logs, `recall` finds, `fold` decides.

`refold.open_memory`: a memory without a conversation.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any

from msgspec import Struct

from refold.checked import checked
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
from refold.memory.external_vectors import check_name
from refold.memory.extraction import Taken
from refold.memory.finder import Asked
from refold.memory.forgetting import Which, stores_checked, which_checked
from refold.memory.inbox import (
    decided,
    ended_bodies,
    taken_bodies,
    too_many,
    undecided,
    undecided_body,
)
from refold.memory.journal import MemoryChange, changes, revert, scope_checked
from refold.memory.recall import Wanted, listed, recall
from refold.memory.related_entries import known_of, near
from refold.memory.scopes import Scopes
from refold.memory.transfer import ImportedMemories, exported, import_lines, read_lines
from refold.search.embedders import Embedder, by_name
from refold.search.snippets import limit_checked
from refold.search.upkeep import Progress, Tell
from refold.settings.sources import default_store, loaded, user_store
from refold.stores import open_store
from refold.stores.protocol import Store
from refold.system.disk import Moment, happened_ms

HITS_MAX, LISTED_MAX = 300, 100_000


class SemanticMemory:
    """Entries of the scopes `project` and `agent.NAME`, which are in the store that is given, and
    `user`, which is in the user's own. `conversation` is what new entries name as their source;
    `vectors` the vector store, if it is not refold's own index; `threshold` the least score of what
    is retrieved where none is given."""

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
        self._journals: list[tuple[Store, str]] = []  # those that `is_empty` asks about
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
        """Remembers something, and gives the entry with its id. What is remembered already is
        merged, and counted. `at` and `until` say from when to when it is true; `source` is where
        it was said: a seq of this conversation, or a conversation and a seq. The entries that it
        `replaces` are history from then on; it is kept in their scope."""
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
        """The entries that answer best, with a score from 0 to 1 and why: what is true now, or what
        was at `as_of`. `threshold` is the least score; without one it depends on the embedder.
        Looks in this memory's own scope and the user's, unless one is named. With `accepted`,
        nothing that waits for a person: give a model no more than that."""
        if not query.strip():
            raise Invalid("there is nothing to look for", hint="give a word or a few")
        least = self._threshold if threshold is None else threshold
        most = 10_000 if tags or metadata or as_of is not None else max(HITS_MAX, 3 * limit)
        asked = Asked(query=query, threshold=least, most=most)
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
        """Gives an entry other words, metadata or tags, from now or `at` on; `until` ends it. What
        it said before stays in its history."""
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
        id: str | None = None,
        *,
        tag: str | None = None,
        before: Moment | None = None,
        said_in: str | None = None,
        scope: str | None = None,
        source: bool = False,
        stores: Sequence[str] = (),
    ) -> Forgotten:
        """Erases an entry with everything that it ever said, for good: from the log, the index,
        and the conversations that showed it, in this store and in `stores`. Or all entries with a
        tag, last said `before` a time, or said in a conversation: of every scope, agents' too,
        unless one is named. With `source`, also the messages that said it. No rule brings it back.
        `out_of_reach` names entries that stay and say the same. NotFound if there is no such
        entry."""
        which = Which(tag=tag, before_ms=happened_ms(before), said_in=said_in)
        which_checked(id, which)
        others = stores_checked(stores)
        with self._lock:
            meant = self._scopes.meant(id, which, scope)
            return self._scopes.forget(meant, source=source, others=others)

    # --- what was taken from messages ---

    @checked
    def take(
        self,
        taken: Sequence[Taken],
        *,
        waits: bool,
        ended: Sequence[str] = (),
        entries_max: int | None = None,
    ) -> int:
        """Remembers what was taken from messages of this conversation, or lets it wait in the
        inbox; gives how many entries are new. What is known, rejected or forgotten is left out.
        What only a tool said waits in any case, and so does what would replace an entry of higher
        trust. What is `ended` is true no longer. Beyond `entries_max`, nothing is taken; that is
        told."""
        with self._lock:
            journal = self._scopes.journal()
            entries, said_in = journal.entries(), self.conversation
            new = taken_bodies(entries, taken, conversation=said_in, waits=waits, new_id=new_id)
            if left := too_many(entries, new, entries_max):
                self._tell("memory-failed", f"{left} were not taken: the memory is full")
                new = new[: len(new) - left]
            old = ended_bodies(entries, ended, journal.now_ms()) if entries.head else []
            if new or old:
                journal.append([*new, *old])
            return len(new)

    @checked
    def known_of(self, sentences: Sequence[str], limit: int = 20) -> builtins.list[MemoryEntry]:
        """The entries of this memory's own scope that are true and may be about what these
        sentences say: what a model is shown that takes facts from them."""
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
        """Remembers what waits in the inbox, in other words if some are given. From now on it has
        the trust of a user."""
        with self._lock:
            journal, waiting = undecided_body(self._scopes.all(), id)
            text = waiting.content if content is None else content_checked(content)
            return self._scopes.write(journal, decided(waiting, text, state=""))

    @checked
    def reject(self, id: str) -> None:
        """Takes an entry out of the inbox. No rule brings it back."""
        with self._lock:
            journal, waiting = undecided_body(self._scopes.all(), id)
            journal.append([decided(waiting, waiting.content, state="rejected")])

    # --- looking ---

    @checked
    def list(
        self,
        *,
        tags: Sequence[str] = (),
        metadata: dict[str, Any] | None = None,
        scope: str | None = None,
        as_of: Moment | None = None,
        ended: bool = False,
        limit: int = 100,
    ) -> builtins.list[MemoryEntry]:
        """The entries that are true now, or were at `as_of`, the one that changed last first;
        with `ended`, also those that are true no longer."""
        limit_checked(limit, LISTED_MAX)
        with self._lock:
            at_ms = happened_ms(as_of)
            now_ms = self._scopes.journal().now_ms() if at_ms is None else at_ms
            when_ms, journals = None if ended else now_ms, self._scopes.visible_journals(scope)
            return listed(journals, when_ms, tags, metadata or {})[:limit]

    @checked
    def history(self, id: str) -> builtins.list[MemoryEntry]:
        """What an entry said before, and what others said about the same, oldest first, each with
        the time for which it was true."""
        with self._lock:
            journal, run = self._scopes.named(id)
            entries = self._scopes.by_key(journal)
            runs = entries.history(run.entry)
            if any(one.first.claim.left for one in runs):  # what moved away is known by no key
                entries = journal.entries()
                runs = entries.history(run.entry)
            return [entries.entry(one, journal.scope) for one in runs]

    @checked
    def near(
        self, id: str, limit: int = 3, *, accepted: bool = False
    ) -> builtins.list[MemoryEntry]:
        """The entries that are true and may be about the same as this one, the nearest first: if it
        has changed, `store` it again with `replaces`. `score` says by how much it is nearer than
        what counts as near. With `accepted`, nothing that waits for a person."""
        limit_checked(limit)
        with self._lock:
            journal, run = self._scopes.named(id)
            try:
                return near(journal, self._scopes.finder(journal), run, limit, accepted=accepted)
            except RefoldError as error:  # whoever stored something has stored it
                self._tell("memory-failed", sentence(error))
                return []

    @checked
    def ids(self, beginning: str = "") -> builtins.list[str]:
        """The ids that begin so, of whatever was not forgotten: for who has only part of one."""
        with self._lock:
            return self._scopes.ids(beginning)

    @checked
    def log(self, scope: str | None = None, limit: int = 50) -> builtins.list[MemoryChange]:
        """What was written into the memory of a scope, the newest change first."""
        limit_checked(limit)
        with self._lock:
            return [*changes(self._scopes.journal(scope), limit)]

    @checked
    def revert(self, seq: int, scope: str | None = None) -> MemoryChange:
        """Takes back the change at a seq of a scope's log, and gives it. It can be taken back in
        turn: a revert is a change as well. What was forgotten stays forgotten."""
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
        """Takes in what `export` gave. All lines are checked first. What comes in waits in the
        inbox and is shown to no model before it is accepted, unless it is `accepted` here."""
        read = read_lines(lines, name)
        with self._lock:
            journal = self._scopes.journal(scope)
            return import_lines(journal, read, accepted=accepted, new_id=new_id)

    @checked
    def reindex(self, progress: Progress | None = None) -> None:
        """Makes the index again, with all vectors: for another embedder, or after damage.
        `progress(done, all)` is called between batches."""
        with self._lock:
            self._scopes.rebuild(progress or (lambda done, total: None))

    def is_empty(self) -> bool:
        """Whether nothing was ever stored in the scopes that are looked at."""
        with self._lock:
            if not self._journals:
                self._journals = [(one.store, one.id) for one in self._scopes.visible_journals()]
            return not any(store.head(id) for store, id in self._journals)

    # --- the end ---

    def close(self) -> None:
        """Lets go of the index and the stores. Closing twice is fine."""
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
    """Opens the memory of a scope: `user`, `project` or `agent.NAME`. `store` is a URL or a store;
    without one, the user's own or that of this project. `config` overrides the settings of this
    project. Nothing is written before something is stored. Close it, or use it in a `with` block.
    """
    settings = settings_of(loaded(config)[0], embedder)
    is_users = scope_checked(scope) == "user"
    if store is None:
        store = user_store() if is_users else default_store()
    opened = open_store(store) if isinstance(store, str | PathLike) else store
    return SemanticMemory(
        opened,
        embedder=settings.embedder,
        vectors=settings.vectors,
        threshold=settings.threshold,
        scope=scope,
        owns_store=opened is not store,
        user=(lambda: opened) if is_users else None,
    )


class MemorySettings(Struct, frozen=True, kw_only=True):
    """What a memory is told by the settings of a project."""

    embedder: Embedder | str | bool | None
    vectors: str
    threshold: float | None


def settings_of(config: Config, embedder: Embedder | str | bool | None = None) -> MemorySettings:
    """The settings of a memory. An embedder that is given wins over the one that is named. Invalid
    for names that are not known, Unavailable for an embedder that is not installed."""
    check_name(config.memory_vectors)
    return MemorySettings(
        embedder=by_name(config.memory_embedder) if embedder is None else embedder,
        vectors=config.memory_vectors,
        threshold=config.memory_threshold,
    )
