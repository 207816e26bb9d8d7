"""Semantic memory: entries that outlive conversations, as `context.memory` and
`refold.open_memory` offer them.

    entry = context.memory.store("The database listens on port 6432", tags=["infra"])
    [found] = context.memory.retrieve("which port does the database use?")

To store is one append to the log of a scope. Merging, closing and ranking follow from that log
whenever somebody looks. Neighbours: `journal` has the logs, `recall` finds, `fold` decides.
"""

from __future__ import annotations

import builtins
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

from refold.checked import checked, quoted
from refold.core.model import MEMORY_PREFIX, Memory, Trust
from refold.errors import Invalid, NotFound
from refold.memory.entry import Forgotten, MemoryEntry
from refold.memory.extraction import Taken
from refold.memory.finder import Asked, Finder
from refold.memory.fold import Run
from refold.memory.given import content_checked, tags_checked
from refold.memory.inbox import decided, waiting_entry
from refold.memory.journal import AGENT, Journal, scope_checked
from refold.memory.pages import erase_shown
from refold.memory.recall import Wanted, is_wanted, recall
from refold.search.embedders import Embedder
from refold.search.hits import limit_checked
from refold.search.upkeep import Progress, Tell
from refold.settings.sources import user_store
from refold.stores import open_store
from refold.stores.protocol import Store
from refold.system.moments import Moment, happened_ms

AGENTS_MAX = 1_000
HITS_MAX = 300
ID_BYTES = 8


class SemanticMemory:
    """Entries of the scopes `project` and `agent.NAME`, which are in the store that is given, and
    `user`, which is in the user's own. `conversation` is what new entries name as their source."""

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
    ) -> None:
        self.scope, self.conversation = scope_checked(scope), conversation
        self.said: builtins.list[tuple[str, str]] = []
        self._store, self._embedder, self._listener = store, embedder, tell
        self._owns_store, self._user = owns_store, user or (lambda: open_store(user_store()))
        self._lock = threading.RLock()
        self._journals: dict[str, Journal] = {}
        self._finders: dict[str, Finder] = {}

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
    ) -> MemoryEntry:
        """Remembers something, and gives the entry with its id. What is remembered already is
        merged, and counted. `at` and `until` say from when to when it is true; `source` is where
        it was said: a seq of this conversation, or a conversation and a seq."""
        body = Memory(
            entry=_new_id(),
            content=content_checked(content),
            metadata=metadata or {},
            tags=tags_checked(tags),
            trust=trust,
            source=self._source(source),
            valid_from_ms=happened_ms(at) or 0,
            valid_until_ms=happened_ms(until) or 0,
        )
        return self._write(self._journal(scope), body)

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
    ) -> builtins.list[MemoryEntry]:
        """The entries that answer best, with a score from 0 to 1 and why: what is true now, or what
        was at `as_of`. `threshold` is the least score; without one it depends on the embedder.
        Looks in this memory's own scope and the user's, unless one is named."""
        if not query.strip():
            raise Invalid("there is nothing to look for", hint="give a word or a few")
        is_narrow = bool(tags or metadata or as_of is not None)
        asked = Asked(
            query=query, threshold=threshold, most=10_000 if is_narrow else max(HITS_MAX, 3 * limit)
        )
        with self._lock:
            now_ms = self._journal(self.scope).now_ms()
            at_ms = happened_ms(as_of)
            wanted = Wanted(
                at_ms=now_ms if at_ms is None else at_ms,
                now_ms=now_ms,
                limit=limit_checked(limit),
                tags=tuple(tags),
                metadata=metadata or {},
            )
            found: builtins.list[MemoryEntry] = []
            for journal in self._looked_at(scope):
                found += recall(journal, self._finder(journal), asked, wanted)
            found.sort(key=lambda entry: entry.score, reverse=True)
            self._count_use(found[:limit])
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
            journal, run = self._named(id)
            newest = journal.newest(run)
            before = newest.body
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
            return self._write(journal, body)

    @checked
    def forget(self, id: str) -> Forgotten:
        """Erases an entry with everything that it ever said, for good: from the log, the index
        and the pages of this store that showed it. No rule brings it back. NotFound if there is
        none."""
        with self._lock:
            journal, run = self._named(id)
            versions = journal.entries().versions_of(run)
            ids = tuple(dict.fromkeys(one.body.entry for one in versions))
            seqs = [one.seq for one in versions]
            said = builtins.list(dict.fromkeys(one.claim.said for one in versions))
            journal.forget(ids, seqs, said)
            self._finder(journal).erase(journal.id, seqs, ids)
            messages = erase_shown(self._store, ids)
            journal.store.flush()
            return Forgotten(entries=ids, events=len(seqs), messages=messages)

    # --- what was taken from messages ---

    @checked
    def take(self, taken: Sequence[Taken], *, waits: bool) -> int:
        """Remembers what was taken from messages of this conversation, or lets it wait in the
        inbox; gives how many entries are new. What is known, rejected or forgotten is left out."""
        with self._lock:
            journal = self._journal(None)
            entries = journal.entries()
            new = [
                Memory(
                    entry=_new_id(),
                    content=one.content,
                    tags=(one.kind,),
                    trust=one.trust,
                    source=(self.conversation, one.seq),
                    state="waiting" if waits else "",
                )
                for one in taken
                if not entries.knows(one.content) and not entries.is_forgotten(one.content)
            ]
            if new:
                journal.append(new)
            return len(new)

    def inbox(self) -> builtins.list[MemoryEntry]:
        """What waits to be accepted or rejected, oldest first."""
        with self._lock:
            waiting = [
                (journal, version)
                for journal in self._looked_at(None)
                for version in journal.entries().waiting.values()
            ]
            return [waiting_entry(version, journal.scope) for journal, version in waiting]

    @checked
    def accept(self, id: str, content: str | None = None) -> MemoryEntry:
        """Remembers what waits in the inbox, in other words if some are given. From now on it has
        the trust of a user."""
        with self._lock:
            journal, waiting = self._waiting_in_inbox(id)
            text = waiting.content if content is None else content_checked(content)
            return self._write(journal, decided(waiting, text, state=""))

    @checked
    def reject(self, id: str) -> None:
        """Takes an entry out of the inbox. No rule brings it back."""
        with self._lock:
            journal, waiting = self._waiting_in_inbox(id)
            journal.append([decided(waiting, waiting.content, state="rejected")])

    def _waiting_in_inbox(self, id: str) -> tuple[Journal, Memory]:
        for journal in self._all():
            version = journal.entries().waiting.get(id)
            if version is not None:
                return journal, version.body
        raise NotFound(f"{quoted(id)} does not wait in the inbox", hint="inbox() has what does")

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
        limit_checked(limit)
        with self._lock:
            at_ms = happened_ms(as_of)
            now_ms = self._journal(self.scope).now_ms() if at_ms is None else at_ms
            found = [
                entry
                for journal in self._looked_at(scope)
                for run in journal.entries().runs(None if ended else now_ms)
                if is_wanted(entry := _entry(journal, run), tags, metadata or {})
            ]
        found.sort(key=lambda entry: (entry.updated_ms, entry.seq), reverse=True)
        return found[:limit]

    @checked
    def history(self, id: str) -> builtins.list[MemoryEntry]:
        """What an entry said before, and what others said about the same, oldest first, each with
        the time for which it was true."""
        with self._lock:
            journal, run = self._named(id)
            runs = journal.entries().history(run.entry)
            return [_entry(journal, one) for one in runs]

    @checked
    def reindex(self, progress: Progress | None = None) -> None:
        """Makes the index again, with all vectors: for another embedder, or after damage.
        `progress(done, all)` is called between batches."""
        with self._lock:
            for journal in self._looked_at(None):
                if journal.entries().head:
                    finder = self._finder(journal)
                    finder.rebuild(
                        self._logs_beside(journal), progress or (lambda done, total: None)
                    )

    def is_empty(self) -> bool:
        """Whether nothing was ever stored in the scopes that are looked at."""
        with self._lock:
            return not any(journal.entries().head for journal in self._looked_at(None))

    # --- the end ---

    def close(self) -> None:
        """Lets go of the index and the stores. Closing twice is fine."""
        with self._lock:
            for finder in self._finders.values():
                finder.close()
            user = self._journals.pop("user", None)
            if user is not None and user.store is not self._store:
                user.store.close()
            self._journals.clear()
            self._finders.clear()
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

    # --- scopes ---

    def _journal(self, scope: str | None) -> Journal:
        name = self.scope if scope is None else scope_checked(scope)
        with self._lock:
            if name not in self._journals:
                store = self._user() if name == "user" else self._store
                self._journals[name] = Journal(store, name)
            return self._journals[name]

    def _looked_at(self, scope: str | None) -> builtins.list[Journal]:
        own = ["user"] if self.scope == "user" else [self.scope, "project", "user"]
        names = own if scope is None else [scope]
        return [self._journal(name) for name in dict.fromkeys(names)]

    def _named(self, id: str) -> tuple[Journal, Run]:
        """The entry of an id, wherever it is."""
        for journal in self._all():
            run = journal.entries().run_of(id)
            if run is not None:
                return journal, run
        hint = "list() has the ids of all entries"
        raise NotFound(f"there is no entry {quoted(id)}", hint=hint)

    def _all(self) -> Iterator[Journal]:
        yield from self._looked_at(None)
        for scope in self._agents():
            yield self._journal(scope)

    def _agents(self) -> builtins.list[str]:
        """The scopes of agents that the store has."""
        first = MEMORY_PREFIX + AGENT
        found = self._store.conversations(after=first, limit=AGENTS_MAX)
        ids = [about.id for about in found if about.id.startswith(first)]
        return [id.removeprefix(MEMORY_PREFIX) for id in ids]

    def _finder(self, journal: Journal) -> Finder:
        place = "user" if journal.scope == "user" else ""
        if place not in self._finders:
            embedder = self._embedder
            self._finders[place] = Finder(journal.store, embedder=embedder, tell=self._tell)
        return self._finders[place]

    def _logs_beside(self, journal: Journal) -> builtins.list[str]:
        """The logs that one index is made of."""
        if journal.scope == "user":
            return [journal.id]
        journals = [self._journal(scope) for scope in ("project", *self._agents())]
        return [one.id for one in journals if one.entries().head]

    # --- writing ---

    def _write(self, journal: Journal, body: Memory) -> MemoryEntry:
        with self._lock:
            entries = journal.append([body])
            run = entries.run_of(body.entry)
            assert run is not None
            return _entry(journal, run)

    def _source(self, source: int | tuple[str, int] | None) -> tuple[str, int] | None:
        if source is None or isinstance(source, tuple):
            return source
        if not self.conversation:
            hint = "give a conversation and a seq"
            raise Invalid(f"source={source} names no conversation", hint=hint)
        return self.conversation, source

    def _count_use(self, found: Sequence[MemoryEntry]) -> None:
        for journal in self._journals.values():
            ids = [entry.id for entry in found if entry.scope == journal.scope]
            if ids:
                self._finder(journal).count_use(ids)

    def _tell(self, name: str, reason: str) -> None:
        self.said.append((name, reason))
        if self._listener is not None:
            self._listener(name, reason)


def _entry(journal: Journal, run: Run) -> MemoryEntry:
    return journal.entries().entry(run, journal.scope)


def _new_id() -> str:
    return f"mem-{secrets.token_hex(ID_BYTES)}"
