"""The scopes of one memory: `project` and `agent.NAME` in its store, `user` in the user's own.

Each scope has a journal, each store one index. A journal is opened at first use, which also
finishes an interrupted erasure. Not locked: its owner has the lock. Neighbours: `journal`,
`ranking`, `semantic`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from refold.checked import quoted
from refold.core.model import MEMORY_PREFIX, Memory
from refold.errors import Invalid, NotFound
from refold.memory.entry import Forgotten, MemoryEntry, Run, Version, is_whole
from refold.memory.erasure import MENTIONS_TOLD, Forgetter, Place, Which
from refold.memory.fold import Entries
from refold.memory.inbox import repeated, waiting_entry
from refold.memory.journal import AGENT, Journal, scope_checked
from refold.memory.merging import REPLACED_MAX
from refold.memory.ranking import Finder
from refold.search.embedders import Embedder
from refold.search.upkeep import Progress, Tell
from refold.settings.sources import user_store
from refold.stores import is_read_only, open_store
from refold.stores.protocol import Store

AGENTS_MAX = 1_000


class Scopes:
    """Journals by scope, and the index of each store. `own` is the default scope."""

    def __init__(
        self,
        store: Store,
        own: str,
        *,
        embedder: Embedder | str | bool | None,
        tell: Tell,
        user: Callable[[], Store] | None,
        vectors: str = "",
    ) -> None:
        self.own = scope_checked(own)
        self._store, self._tell = store, tell
        self._embedder, self._vectors = embedder, vectors
        self._user = user or (lambda: open_store(user_store()))
        self._journals: dict[str, Journal] = {}
        self._finders: dict[str, Finder] = {}
        self._finished: set[str] = set()

    # --- journals ---

    def journal(self, scope: str | None = None) -> Journal:
        """The journal of a scope, by default its own."""
        name = self.own if scope is None else scope_checked(scope)
        if name not in self._journals:
            store = self._user() if name == "user" else self._store
            self._journals[name] = Journal(store, name)
        return self._journals[name]

    def visible_journals(self, scope: str | None = None) -> list[Journal]:
        """The journal of a scope; without one, its own, the project's and the user's."""
        own = ["user"] if self.own == "user" else [self.own, "project", "user"]
        names = own if scope is None else [scope]
        journals = [self.journal(name) for name in dict.fromkeys(names)]
        for journal in journals:
            self._finish(journal)
        return journals

    def all(self) -> Iterator[Journal]:
        """The visible journals, then the journals of all agents."""
        yield from self.visible_journals()
        for scope in self._agents():
            yield self.journal(scope)

    def named(self, id: str) -> tuple[Journal, Run]:
        """The journal and run of an entry in any scope; NotFound if there is none."""
        for journal in self.all():
            run = self.by_key(journal).run_of(id)
            if run is not None:
                return journal, run
        raise _no_entry(id)

    def by_key(self, journal: Journal) -> Entries:
        """The entries of a journal, for lookups by id alone."""
        return journal.by_key(lambda: self.finder(journal))

    def store(self, body: Memory, scope: str | None) -> MemoryEntry:
        """Appends the first version of an entry, or the next version of a duplicate if it only adds
        `replaces`. A model that repeats a pending entry does not accept it."""
        ids = body.replaces
        journal = self._replaced(ids, scope) if ids else self.journal(scope)
        if body.trust == "model":
            body = repeated(journal, self.all(), body)
        return self.write(journal, self.by_key(journal).continued(body) if ids else body)

    def write(self, journal: Journal, body: Memory) -> MemoryEntry:
        """Appends one version of an entry, and returns the resulting entry."""
        entries = journal.append([body], lambda: self.finder(journal))
        if body.entry in entries.waiting:
            return waiting_entry(entries.waiting[body.entry], journal.scope)
        run = entries.run_of(body.entry)
        assert run is not None
        return entries.entry(run, journal.scope)

    def _replaced(self, ids: Sequence[str], scope: str | None) -> Journal:
        """The journal of the entries to replace, which must be in this scope if one is given;
        NotFound or Invalid before anything is written."""
        if len(ids) > REPLACED_MAX:
            raise Invalid(
                f"{len(ids)} entries are too many to replace",
                hint=f"at most {REPLACED_MAX} at once",
            )
        found = {id: self._replaceable(id) for id in ids}
        places = {journal.scope for journal in found.values()}
        if scope is not None:
            places.add(scope_checked(scope))
        if len(places) > 1:
            owners = ", ".join(f"{quoted(id)} is of {one.scope}" for id, one in found.items())
            hint = "an entry is replaced by one of its own scope; store it there"
            raise Invalid(f"replaces: {owners}", hint=hint)
        return next(iter(found.values()))

    def _replaceable(self, id: str) -> Journal:
        try:
            return self.named(id)[0]
        except NotFound:
            if any(id in journal.entries().waiting for journal in self.all()):
                hint = "a person accepts or rejects it there"
                raise Invalid(f"{quoted(id)} waits in the inbox", hint=hint) from None
            raise

    def meant(
        self, named: Sequence[str] | None, which: Which, scope: str | None
    ) -> Iterator[tuple[Journal, list[str]]]:
        """The entries of these ids, even if pending or rejected, or all entries that match, with
        their journals. NotFound if there is no entry of these ids."""
        found = 0
        is_narrow = named is None and (scope is not None or self.own == "user")
        for journal in self.visible_journals(scope) if is_narrow else self.all():
            entries = journal.entries()
            ids = entries.chosen(which.fits) if named is None else list(filter(entries.has, named))
            found += len(ids)
            if ids:
                yield journal, ids
        if named is not None and not found:
            raise _no_entry(", ".join(named))

    def ids(self, beginning: str) -> list[str]:
        """The ids with this beginning in all scopes, including pending and rejected entries."""

        def begins(versions: Sequence[Version]) -> bool:
            return versions[0].body.entry.startswith(beginning)

        if is_whole(beginning) and any(self.by_key(one).run_of(beginning) for one in self.all()):
            return [beginning]
        found = (id for journal in self.all() for id in journal.entries().chosen(begins))
        return sorted(set(found))

    def _agents(self) -> list[str]:
        """The agent scopes in the store."""
        first = MEMORY_PREFIX + AGENT
        found = self._store.conversations(after=first, limit=AGENTS_MAX)
        ids = [about.id for about in found if about.id.startswith(first)]
        return [id.removeprefix(MEMORY_PREFIX) for id in ids]

    # --- indexes ---

    def finder(self, journal: Journal) -> Finder:
        """The index of a journal."""
        place = "user" if journal.scope == "user" else ""
        if place not in self._finders:
            self._finders[place] = Finder(
                journal.store, embedder=self._embedder, tell=self._tell, vectors=self._vectors
            )
        return self._finders[place]

    def count_use(self, found: Sequence[MemoryEntry]) -> None:
        """Counts a use of these entries."""
        for journal in self._journals.values():
            ids = [entry.id for entry in found if entry.scope == journal.scope]
            if ids:
                self.finder(journal).count_use(ids)

    def rebuild(self, progress: Progress) -> None:
        """Rebuilds the indexes of all visible journals."""
        journals = [one for one in self.visible_journals() if not one.is_empty()]
        for journal in journals:
            scopes = ["user"] if journal.scope == "user" else ["project", *self._agents()]
            logs = [one.id for one in map(self.journal, scopes) if not one.is_empty()]
            self.finder(journal).rebuild(logs, progress)
        for journal in journals:  # bookmarks were in the old index
            journal.keep_bookmark(self.finder(journal))

    # --- forgetting and closing ---

    def forgetter(self, journal: Journal) -> Forgetter:
        """The forgetter for a journal's entries, which also erases them where they were shown."""
        stores = tuple(dict.fromkeys((self._store, journal.store)))
        return Forgetter(journal, self.finder(journal), stores)

    def forget(
        self,
        meant: Iterable[tuple[Journal, list[str]]],
        *,
        source: bool,
        others: Sequence[str],
        dry_run: bool,
    ) -> Forgotten:
        """Forgets entries of these journals, and reports remaining entries that say the same."""
        done = Forgotten()
        said: set[str] = set()
        going: set[Place] = set()
        for journal, ids in meant:
            said |= {one.claim.said for one in journal.entries().versions_of(ids)}
            forgetter = replace(self.forgetter(journal), going=going, dry_run=dry_run)
            done += forgetter.forget(ids, source=source, others=others)

        def says_it(versions: Sequence[Version]) -> bool:
            return any(one.claim.said in said for one in versions)

        same = (
            f"{id} of {journal.scope}, which says it too"
            for journal in (self.all() if said else ())
            for id in journal.entries().chosen(says_it)
            if id not in done.entries
        )
        return replace(done, out_of_reach=(*islice(same, MENTIONS_TOLD), *done.out_of_reach))

    def _finish(self, journal: Journal) -> None:
        if journal.scope in self._finished:
            return
        self._finished.add(journal.scope)
        if journal.is_empty() or is_read_only(journal.store):
            return
        if journal.glance(self.finder(journal)).unfinished:
            self.forgetter(journal).finish(self._tell)

    def close(self) -> None:
        """Closes the indexes, and the user's own store."""
        for finder in self._finders.values():
            finder.close()
        user = self._journals.pop("user", None)
        if user is not None and user.store is not self._store:
            user.store.close()
        self._journals.clear()
        self._finders.clear()


def _no_entry(id: str) -> NotFound:
    return NotFound(
        f"there is no entry {quoted(id)}", hint="refold memory list has the ids of all entries"
    )
