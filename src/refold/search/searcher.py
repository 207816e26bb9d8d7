"""Searching a store: the index is asked, and what its hits say is read from the logs.

Full text and, where there is an embedder, vectors find messages and artifacts of all conversations,
also those that no page shows any more. What a user should know (an index that had to be rebuilt or
is behind, an embedder that fails) is told, and the answer is the best there is. Neighbours:
`upkeep` hands out the index, `finding` looks into it, the engine and the command line ask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from refold.checked import quoted
from refold.core.model import Event
from refold.errors import Corrupt, Invalid, NotFound, Unavailable
from refold.search import database, finding, served, words
from refold.search import index as sources
from refold.search.documents import Document
from refold.search.embedders import Embedder, chosen
from refold.search.finding import newest_matches
from refold.search.index import EVERYWHERE, Entry, Index, Range, range_of
from refold.search.served import ServedIndex, ServedUpkeep
from refold.search.snippets import (
    Filters,
    Hit,
    ShownMessages,
    Wanted,
    filters_checked,
    is_text,
    limit_checked,
    snippet_of,
    wanted_of,
)
from refold.search.upkeep import (
    SEARCH_EVENTS,
    Progress,
    Tell,
    Upkeep,
    VectorUpkeep,
    index_path,
    retried,
)
from refold.search.words import Query
from refold.stores import terms_of
from refold.stores.protocol import Store
from refold.system.disk import Moment, ms_of

CLOSE_EVENTS = 2_000
SEARCH_WAIT_S = 5.0
# More are looked for than are asked for: some may be gone by now, an artifact has several pieces.
SPARE = 10

IDS_TYPES = (list, tuple, set, frozenset, dict)  # a text is a collection as well

Scored = tuple[int, float]  # the id of an entry, and its score


class Question(Struct, frozen=True, kw_only=True):
    """What is asked. `conversations` are those to look in; None means all."""

    text: str
    limit: int
    newest: bool
    conversations: list[str] | None
    filters: Filters


class Asking(TypedDict, total=False):
    """What a search takes besides its words; times are ms or datetimes."""

    limit: int
    newest: bool
    role: str | None
    conversation: str | None
    conversations: Collection[str] | None
    since: Moment | None
    until: Moment | None
    tool: str | None
    kind: str | None


def question_of(query: str, **asked: Unpack[Asking]) -> Question:
    """What is asked, or Invalid if it is no question."""
    newest = asked.get("newest", False)
    if not isinstance(newest, bool):
        raise Invalid(f"newest={quoted(newest)} is neither True nor False", hint="newest=True")
    if not isinstance(query, str) or not query.strip():
        raise Invalid("there is nothing to search for", hint="give a word or a few")
    since, until = asked.get("since"), asked.get("until")
    return Question(
        text=query,
        limit=limit_checked(asked.get("limit", 10)),
        newest=newest,
        conversations=_conversation_ids(asked.get("conversation"), asked.get("conversations")),
        filters=filters_checked(
            role=asked.get("role"),
            tool=asked.get("tool"),
            kind=asked.get("kind"),
            since_ms=None if since is None else ms_of("since", since),
            until_ms=None if until is None else ms_of("until", until),
        ),
    )


class Searcher:
    """Search over one store. `embedder=None` takes the best extra that is installed, False
    none at all. `tell(name, reason)` is called with what a user should know; `said` keeps
    it as well."""

    def __init__(
        self,
        store: Store,
        *,
        embedder: Embedder | str | bool | None = None,
        tell: Tell | None = None,
        path: str | None = None,
    ) -> None:
        self.store = store
        self.said: list[tuple[str, str]] = []
        self._listener = tell
        self._upkeep = self._chosen_upkeep(path)
        # What was given is checked here; looking for one takes longer than all else that is done
        # where nobody searches.
        self._embedder = embedder
        if embedder is not None and not isinstance(embedder, bool):
            self._embedder = chosen(embedder) or False
        self._embedder_asked = embedder is not None and embedder is not False
        self._shown = ShownMessages(store)

    @cached_property
    def _vectors(self) -> VectorUpkeep:
        return VectorUpkeep(self.store, chosen(self._embedder), tell=self._tell)

    def _chosen_upkeep(self, path: str | None) -> Upkeep:
        """The index that the store keeps itself, if it does; else a file, or memory."""
        terms = terms_of(self.store) if path is None else None
        if terms is not None:
            return ServedUpkeep(self.store, terms, tell=self._tell)
        place = index_path(self.store) if path is None else path
        return Upkeep(self.store, place, tell=self._tell)

    @property
    def path(self) -> str:
        """The index's file, `:memory:`, or the store that keeps it."""
        return self.store.url if isinstance(self._upkeep, ServedUpkeep) else self._upkeep.path

    def _tell(self, name: str, reason: str) -> None:
        self.said.append((name, reason))
        if self._listener is not None:
            self._listener(name, reason)

    # --- asking ---

    def search(self, query: str, **asked: Unpack[Asking]) -> list[Hit]:
        """The places that answer the query best, or the newest that hold all its words. `"double
        quotes"` make a phrase that must be there. Looks in all conversations unless some are
        named. Answers of refold's own tools are found only by `tool`."""
        return self._answer(question_of(query, **asked))

    @retried
    def _answer(self, question: Question) -> list[Hit]:
        with self._upkeep.index() as index:
            self._upkeep.freshen(index, question.conversations)
            query = words.query_of(question.text, index.stems)
            if not question.limit or not query.all_terms:
                return []
            found = self._found(index, query, question)
            return self._hits(index, wanted_of(query, index.tokens), found, question)

    def _found(self, index: Index, query: Query, question: Question) -> list[Scored]:
        if isinstance(index, ServedIndex):
            self._tell_of_missing_vectors()
            scope = served.scope_of(index, question.conversations)
            search = served.Search(index, query, scope, question.filters)
            if question.newest:
                return served.newest_matches(search, question.limit + SPARE)
            return served.best_matches(search, 2 * question.limit + SPARE)
        ranges = _ranges(index, question.conversations)
        if not question.newest:
            return self._ranked(index, query, ranges, question)
        with database.limited(index.connection, SEARCH_WAIT_S):
            most = question.limit + SPARE
            return newest_matches(index, query, ranges, question.filters, most)

    def _tell_of_missing_vectors(self) -> None:
        """Tells once that an embedder which was asked for has nothing to do here."""
        if self._embedder_asked:
            self._embedder_asked = False
            reason = f"{self.store.url} keeps no vectors: answers are by full text alone"
            self._tell("embedder-failed", reason)

    def _ranked(
        self, index: Index, query: Query, ranges: Sequence[Range], question: Question
    ) -> list[Scored]:
        """The best entries, by full text and by vectors where there are any."""
        filters = question.filters
        with database.limited(index.connection, SEARCH_WAIT_S):
            found = finding.matches(index, query, ranges, filters)
            scored = finding.scored(index, query, found, ranges, filters)
        # Vectors that are missing are made first, however long that takes.
        fused = self._vectors.fused(index, query, found, scored, ranges)
        with database.limited(index.connection, SEARCH_WAIT_S):
            most = 2 * question.limit + SPARE
            return finding.best(index, query, fused, ranges, filters, most)

    # --- what a hit says ---

    def _hits(
        self, index: Index, wanted: Wanted, found: Sequence[Scored], question: Question
    ) -> list[Hit]:
        hits: dict[tuple[str, int], Hit] = {}
        at = 0
        # As many are read as are still needed; usually that is all.
        while at < len(found) and len(hits) < question.limit:
            taken = found[at : at + question.limit - len(hits)]
            at += len(taken)
            self._add_hits(hits, index, wanted, taken)
        placed = [self._placed(hit, question.conversations) for hit in hits.values()]
        # Whoever asked for one tool is not told of the others that were called beside it.
        asked = question.filters.tool
        return placed if asked is None else [replace(hit, tool=asked) for hit in placed]

    def _add_hits(
        self,
        hits: dict[tuple[str, int], Hit],
        index: Index,
        wanted: Wanted,
        taken: Sequence[Scored],
    ) -> None:
        """Adds what these entries say; a place that is among the hits already is left out."""
        entries = index.entries([id for id, _ in taken])
        events = sources.events_of(self.store, entries.values())
        for id, score in taken:
            entry = entries.get(id)
            place = (entry.conversation, entry.seq) if entry else None
            if entry is None or place not in events or place in hits:
                continue
            hit = self._hit(index, wanted, entry, events[place], score)
            if hit is not None:
                hits[place] = hit

    def _hit(
        self, index: Index, wanted: Wanted, entry: Entry, event: Event, score: float
    ) -> Hit | None:
        """The hit, with what its event says; None if that was erased."""
        if event.erased:
            self._upkeep.erase(index, entry.conversation, entry.seq)
            return None
        documents = sources.documents(self.store, event, {})
        document = next((one for one in documents if one.start == entry.start), None)
        if document is None:
            return None
        text = _own_text(document)
        snippet, marks, start = snippet_of(text, wanted, index.tokens)
        lines_before = _lines_before(documents, document) + text.count("\n", 0, start)
        return Hit(
            conversation=entry.conversation,
            seq=entry.seq,
            score=score,
            snippet=snippet,
            marks=marks,
            kind=entry.kind,
            role=entry.role,
            tool=", ".join(entry.tools),
            at_ms=entry.at_ms,
            artifact=document.artifact,
            line=lines_before + 1 if document.artifact else 0,
        )

    def _placed(self, hit: Hit, wanted: list[str] | None) -> Hit:
        """The hit, in the conversation that was asked for where it shares the event, and whether
        the page shows it."""
        home = self._home(hit, wanted)
        if hit.kind == "message":
            hidden = self._shown.is_hidden(self._upkeep.conversation(home), hit.seq)
        else:
            hidden = hit.kind == "artifact"
        return replace(hit, conversation=home, hidden=hidden)

    def _home(self, hit: Hit, wanted: list[str] | None) -> str:
        """The hit's own conversation, or the one asked for that reads the event from there."""
        if wanted is None or hit.conversation in wanted:
            return hit.conversation
        for fork in wanted:
            about = self.store.conversation(fork)
            if sources.holder(self.store, about, hit.seq) == hit.conversation:
                return fork
        return hit.conversation

    # --- keeping up ---

    def catch_up(self, budget: int = SEARCH_EVENTS) -> int:
        """Indexes what was appended, at most `budget` events; gives how many are left."""
        return self._upkeep.catch_up(budget)

    def complete(self, progress: Progress | None = None) -> int:
        """Indexes everything that is not in the index yet, vectors included; gives the number of
        events. `progress(done, all)` is called between batches."""
        return self._complete(progress or _no_progress, rebuild=False)

    def rebuild(self, progress: Progress | None = None) -> int:
        """Throws the index away and makes it again; gives the number of events."""
        return self._complete(progress or _no_progress, rebuild=True)

    @retried
    def _complete(self, progress: Progress, *, rebuild: bool) -> int:
        with self._upkeep.index(rebuild=rebuild) as index:
            done = self._upkeep.complete(index, progress)
            self._vectors.complete(index, progress, done)
            return done

    def close(self, *, conversation: str | None = None) -> None:
        """Catches up a little, with one conversation or with all, and closes the index. Where
        nobody has ever searched there is none, and none is made."""
        wanted = None if conversation is None else [conversation]
        try:
            if self._upkeep.has_file():
                self._upkeep.catch_up(CLOSE_EVENTS, wanted)
        except (Unavailable, Corrupt, NotFound) as error:
            self._tell("index-behind", error.message)
        finally:
            self._upkeep.close()


def _no_progress(done: int, total: int) -> None:
    """Nobody wants to know."""


def _own_text(document: Document) -> str:
    """The text of a document without the lines that name its artifact, which every piece repeats:
    a snippet shows the piece itself."""
    return document.text.split("\n", document.head_lines)[-1] or document.text


def _lines_before(documents: Sequence[Document], document: Document) -> int:
    """How many lines of an artifact come before one of its pieces."""
    before = [one for one in documents if one.start < document.start]
    return sum(one.text.count("\n") - one.head_lines for one in before)


def _ranges(index: Index, wanted: list[str] | None) -> tuple[Range, ...]:
    """The ids in which to look."""
    if wanted is None:
        return EVERYWHERE
    ranges = [one for id in wanted for one in _own_ranges(index, id)]
    return tuple(dict.fromkeys(ranges))


def _own_ranges(index: Index, conversation: str) -> Iterator[Range]:
    """The ids of a conversation and of what it shares with its ancestors."""
    mark = index.mark(conversation)
    if mark:
        yield range_of(mark.number)
    while mark and mark.parent:
        seq, mark = mark.parent_seq, index.mark(mark.parent)
        if mark:
            yield from index.upto(mark.number, seq)


def _conversation_ids(
    conversation: str | None, conversations: Collection[str] | None
) -> list[str] | None:
    """The conversations that were asked for, each once; None for all."""
    if conversations is not None and not isinstance(conversations, IDS_TYPES):
        raise Invalid(
            f"conversations={quoted(conversations)} is not a list",
            hint="conversation= takes one id",
        )
    if conversation is None and conversations is None:
        return None
    ids = [] if conversation is None else [conversation]
    ids += conversations or ()
    for id in ids:
        if not is_text(id):
            raise Invalid(f"conversation: {quoted(id)} is not an id", hint="refold list has them")
    return list(dict.fromkeys(ids))
