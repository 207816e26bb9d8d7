"""An index that the store keeps itself (`stores.protocol.Terms`): for stores on a server.

Whoever searches brings it up to date, for all: no machine indexes a team's conversations again.
Terms, lengths and neighbours are those of a local index, so the order is by the same arithmetic.
There are no vectors here. Neighbours: `served_finding` asks it, `upkeep` brings the events,
`searcher` takes it where a store has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from refold.core.model import Conversation
from refold.search import rank, words
from refold.search.documents import Document
from refold.search.hits import KINDS, OWN_PREFIX
from refold.search.index import (
    CONVERSATION_BITS,
    KIND_MASK,
    POSITION_BITS,
    POSITION_MASK,
    Entry,
    Index,
    Mark,
    _entry_row,
    _length,
)
from refold.search.upkeep import Tell, Upkeep
from refold.stores import is_read_only
from refold.stores.protocol import Store
from refold.stores.terms import TermEntry, TermLane, TermMark, TermPlace, Terms

# Between the words of a text and the parts of its names: no phrase reaches over it.
GAP = 8


class ServedUpkeep(Upkeep):
    """The upkeep of an index that the store keeps."""

    def __init__(self, store: Store, terms: Terms, *, tell: Tell) -> None:
        super().__init__(store, ":memory:", tell=tell)
        self._terms = terms

    def _open(self) -> Index:
        if self._index is None:
            self._index = ServedIndex(self._terms, is_writable=not is_read_only(self._store))
        return self._index

    def _remove(self) -> None:
        """Empties the index."""
        self._terms.forget(list(self._terms.marks()))
        self.close()


class ServedIndex(Index):
    """An index behind `Terms`. Ids are made as in a local one, of numbers that hold for as long as
    it is open."""

    def __init__(self, terms: Terms, *, is_writable: bool) -> None:
        super().__init__()  # in memory: for its tokenizer
        self.terms, self._is_writable = terms, is_writable
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}

    @property
    def is_writable(self) -> bool:
        return self._is_writable

    # --- ids ---

    def id_of(self, place: TermPlace) -> int:
        """The id of an entry."""
        conversation, lane, position = place
        number = self._numbers.setdefault(conversation, len(self._names))
        if number == len(self._names):
            self._names.append(conversation)
        return number << CONVERSATION_BITS | lane << POSITION_BITS | position

    def place_of(self, id: int) -> TermPlace:
        """Where an entry stands."""
        conversation = self._names[id >> CONVERSATION_BITS]
        return conversation, id >> POSITION_BITS & KIND_MASK, id & POSITION_MASK

    def found(self, ids: Iterable[int]) -> dict[int, TermEntry]:
        """Those entries that there are, by id."""
        known = [id for id in ids if 0 <= id >> CONVERSATION_BITS < len(self._names)]
        entries = self.terms.entries([self.place_of(id) for id in known])
        return {self.id_of((one.conversation, one.lane, one.position)): one for one in entries}

    def entries(self, ids: Sequence[int]) -> dict[int, Entry]:
        return {id: _entry_of(id, one) for id, one in self.found(ids).items()}

    # --- how far it is ---

    def mark(self, conversation: str) -> Mark | None:
        found = self.terms.marks([conversation]).get(conversation)
        return None if found is None else self._mark_of(conversation, found)

    def marks(self) -> dict[str, Mark]:
        return {id: self._mark_of(id, mark) for id, mark in self.terms.marks().items()}

    def _mark_of(self, conversation: str, mark: TermMark) -> Mark:
        number = self.id_of((conversation, 0, 0)) >> CONVERSATION_BITS
        return Mark(number, mark.head, mark.chain, mark.parent, mark.parent_seq)

    def enter(self, about: Conversation) -> None:
        head = about.parent_seq
        mark = TermMark(
            head=head, chain=about.chain, parent=about.parent, parent_seq=about.parent_seq
        )
        self.terms.enter(about.id, mark)

    # --- adding and removing ---

    def add(
        self,
        conversation: str,
        documents: Sequence[Document],
        *,
        after: int,
        head: int,
        chain: bytes,
    ) -> bool:
        lanes = self.terms.lanes(conversation)
        added: list[TermEntry] = []
        grown: dict[int, TermLane] = {}
        for lane, kind in enumerate(KINDS):
            fitting = [one for one in documents if one.kind == kind]
            if fitting:
                before = lanes.get(lane, TermLane())
                grown[lane], entries = self._grown(conversation, lane, before, fitting)
                added += entries
        return self.terms.add(conversation, added, grown, after=after, head=head, chain=chain)

    def _grown(
        self, conversation: str, lane: int, before: TermLane, documents: Sequence[Document]
    ) -> tuple[TermLane, list[TermEntry]]:
        """A lane with these documents on top, and their entries."""
        sizes = list(before.last_words)
        context_words = before.context_words
        entries: list[TermEntry] = []
        for position, document in enumerate(documents, before.entries):
            size = _length(document)
            context_words += rank.added_context_words(sizes[-2:], size)
            sizes.append(size)
            entries.append(self._entry(conversation, lane, position, document, size))
        count = before.entries + len(documents)
        return TermLane(entries=count, context_words=context_words), entries

    def _entry(
        self, conversation: str, lane: int, position: int, document: Document, size: int
    ) -> TermEntry:
        tools, asks = itemgetter(5, 8)(_entry_row(0, document, size))
        is_own = document.role == "tool" and bool(document.tools)
        return TermEntry(
            conversation=conversation,
            lane=lane,
            position=position,
            seq=document.seq,
            at_ms=document.at_ms,
            words=size,
            role=document.role,
            tools=str(tools),
            author=document.author,
            start=document.start,
            asks=bool(asks),
            is_own=is_own and all(tool.startswith(OWN_PREFIX) for tool in document.tools),
            terms=self._terms_in(document.text),
        )

    def _terms_in(self, text: str) -> Mapping[str, list[int]]:
        """The terms of a text with their places, the parts of names after all others."""
        places: dict[str, list[int]] = {}
        at = 0
        for column in words.columns(text):
            for term in self.stems(column):
                at += 1
                places.setdefault(term, []).append(at)
            at += GAP
        return places

    def forget(self, conversations: Iterable[str]) -> None:
        self.terms.forget(list(conversations))

    def erase(self, conversation: str, seqs: Iterable[int]) -> None:
        self.terms.erase(conversation, list(seqs))


def _entry_of(id: int, one: TermEntry) -> Entry:
    names = tuple(one.tools.split("\n")[1:-1])
    kind = KINDS[one.lane]
    return Entry(id, one.conversation, kind, one.seq, one.at_ms, one.start, one.role, names)
