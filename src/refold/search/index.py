"""The rows of an index: what was taken in from each conversation, and how it leaves again.

An entry's id is made of the number of its conversation, its kind, and its position among the
entries of that kind (a lane). So a conversation is a range of ids, neighbours are ids beside each
other, and the newest are the highest: FTS5 answers all three without looking elsewhere. No text is
kept, only terms; what a hit says is read from the log. Neighbours: `database` opens the file,
`finding` asks it, `refold.indexing` brings the events.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import apsw
from msgspec import Struct

from refold.core.model import Conversation
from refold.search import database, rank, words
from refold.search.documents import Document
from refold.search.hits import KINDS

POSITION_BITS, KIND_BITS = 32, 3
CONVERSATION_BITS = POSITION_BITS + KIND_BITS
ID_MAX = (1 << 62) - 1

Range = tuple[int, int]
EVERYWHERE: tuple[Range, ...] = ((0, ID_MAX),)


class Mark(Struct, frozen=True):
    """How far a conversation is in the index: its number there, the seq and the chain value it
    was taken up to."""

    number: int
    head: int
    chain: bytes
    parent: str
    parent_seq: int


class Entry(Struct, frozen=True):
    """Where an entry comes from."""

    id: int
    conversation: str
    kind: str
    seq: int
    at_ms: int
    start: int
    role: str
    tools: tuple[str, ...]


def lane_of(number: int, kind: str) -> int:
    return number << KIND_BITS | KINDS.index(kind)


def range_of(number: int) -> Range:
    """The ids of a whole conversation."""
    return number << CONVERSATION_BITS, (number + 1 << CONVERSATION_BITS) - 1


class Index:
    """An open index. Not locked: its owner sees to it that one thread at a time uses it."""

    def __init__(self, path: str = database.MEMORY) -> None:
        self.path = path
        self.connection, self.said = database.opened(path)
        self.connection.register_fts5_function("occurrences", _occurrences)
        self._tokens = self.connection.fts5_tokenizer(words.TOKENIZER[0], list(words.TOKENIZER[1:]))

    @property
    def is_writable(self) -> bool:
        return not self.connection.readonly("main")

    def close(self) -> None:
        self.connection.close()

    def stems(self, text: str) -> list[str]:
        """The terms that SQLite makes of a text."""
        return [token for _, _, token in self.tokens(text)]

    def tokens(self, text: str) -> list[tuple[int, int, str]]:
        """The terms with their places in the UTF-8 of the text."""
        found: Any = self._tokens(
            text.encode("utf-8", "replace"), apsw.FTS5_TOKENIZE_DOCUMENT, None
        )
        return found  # type: ignore[no-any-return]

    def rows(self, query: str, given: tuple[Any, ...] = ()) -> list[Any]:
        return self.connection.execute(query, given).fetchall()

    # --- taking in ---

    def mark(self, conversation: str) -> Mark | None:
        row = self.connection.execute(_MARK + "WHERE id = ?", (conversation,)).fetchone()
        return Mark(*row[1:]) if row else None

    def marks(self) -> dict[str, Mark]:
        """How far every conversation is."""
        return {row[0]: Mark(*row[1:]) for row in self.connection.execute(_MARK)}

    def enter(self, about: Conversation) -> None:
        """Makes a conversation known, with nothing of it taken in; a fork begins where it left
        its parent."""
        self.connection.execute(
            "INSERT OR IGNORE INTO conversations(id, parent, parent_seq, head, chain) VALUES (?,?,?,?,?)",
            (about.id, about.parent, about.parent_seq, about.parent_seq, about.chain),
        )

    def add(
        self,
        conversation: str,
        documents: Sequence[Document],
        *,
        after: int,
        head: int,
        chain: bytes,
    ) -> bool:
        """Takes in what the events after `after` and up to `head` gave. False if somebody else
        was here meanwhile."""
        with database.transaction(self.connection):
            mark = self.mark(conversation)
            if mark is None or mark.head != after:
                return False
            for kind in KINDS:
                if fitting := [one for one in documents if one.kind == kind]:
                    self._add(mark.number, kind, fitting)
            self.connection.execute(
                "UPDATE conversations SET head = ?, chain = ? WHERE number = ?",
                (head, chain, mark.number),
            )
        return True

    def _add(self, number: int, kind: str, documents: Sequence[Document]) -> None:
        lane = lane_of(number, kind)
        rows, sum_words, near = self._lane(lane)
        first = (lane << POSITION_BITS) + rows
        recent = [size for (size,) in self.connection.execute(_WORDS_BEFORE, (first - 2, first))]
        entries: list[tuple[int | str, ...]] = []
        authors: dict[str, int] = {}
        for id, one in enumerate(documents, first):
            size = _length(one)
            near += rank.added_near(recent[-2:], size)
            sum_words += size
            recent.append(size)
            tools = "\n".join(["", *one.tools, ""]) if one.tools else ""
            # A long text may hold a question; it is none.
            asks = size <= rank.SHORT_WORDS and words.asks(one.text)
            entries.append(
                (id, one.seq, one.at_ms, size, one.role, tools, one.author, one.start, asks)
            )
            if one.author:
                authors[one.author] = authors.get(one.author, 0) + 1
        self.connection.executemany("INSERT INTO entries VALUES (?,?,?,?,?,?,?,?,?)", entries)
        texts = ((id, *words.columns(one.text)) for id, one in enumerate(documents, first))
        self.connection.executemany(
            "INSERT INTO documents(rowid, text, parts) VALUES (?,?,?)", texts
        )
        self.connection.executemany(_AUTHOR_SEEN, [(number, *item) for item in authors.items()])
        updated = documents[-1].at_ms
        self.connection.execute(_LANE_GREW, (lane, rows + len(documents), sum_words, near, updated))

    def _lane(self, lane: int) -> tuple[int, int, float]:
        row = self.connection.execute(
            "SELECT rows, words, near FROM lanes WHERE number = ?", (lane,)
        ).fetchone()
        return row or (0, 0, 0.0)

    # --- letting go ---

    def forget(self, conversations: Iterable[str]) -> None:
        """Everything of these conversations leaves the index."""
        marks = [mark for id in conversations if (mark := self.mark(id))]
        if not marks:
            return
        with database.transaction(self.connection):
            for mark in marks:
                self._drop(*range_of(mark.number))
                lanes = (mark.number << KIND_BITS, (mark.number + 1 << KIND_BITS) - 1)
                self.connection.execute("DELETE FROM lanes WHERE number BETWEEN ? AND ?", lanes)
                self.connection.execute(
                    "DELETE FROM authors WHERE conversation = ?", (mark.number,)
                )
                self.connection.execute(
                    "DELETE FROM conversations WHERE number = ?", (mark.number,)
                )
        self._scrub()

    def erase(self, conversation: str, seqs: Iterable[int]) -> None:
        """What these events said leaves the index, its terms too. Their places stay empty."""
        mark = self.mark(conversation)
        ids = [id for seq in seqs for id in self._ids(mark, seq)] if mark else []
        if not ids:
            return
        with database.transaction(self.connection):
            for id in ids:
                self._drop(id, id)
        self._scrub()

    def _ids(self, mark: Mark, seq: int) -> list[int]:
        """The entries of one event: at most a few pieces of each kind."""
        found: list[int] = []
        for kind in KINDS:
            first = lane_of(mark.number, kind) << POSITION_BITS
            low = self._position(first, seq - 1)
            query = "SELECT id FROM entries WHERE id >= ? AND id < ? AND seq = ?"
            found += [
                id
                for (id,) in self.connection.execute(query, (low, self._position(first, seq), seq))
            ]
        return found

    def _position(self, first: int, seq: int) -> int:
        """The id behind the last entry of a lane whose seq is not above `seq`; entries of a lane
        are in order."""
        low, high = first, first + self._lane(first >> POSITION_BITS)[0]
        query = "SELECT id, seq FROM entries WHERE id >= ? AND id < ? ORDER BY id LIMIT 1"
        while low < high:
            middle = (low + high) // 2
            found = self.connection.execute(query, (middle, high)).fetchone()
            if found and found[1] <= seq:
                low = found[0] + 1
            else:
                high = middle
        return low

    def _drop(self, first: int, last: int) -> None:
        for table, key in (("documents", "rowid"), ("entries", "id"), ("vectors", "id")):
            self.connection.execute(
                f"DELETE FROM {table} WHERE {key} BETWEEN ? AND ?", (first, last)
            )

    def _scrub(self) -> None:
        """FTS5 only marks a row as gone. Merging all of it leaves the terms out; secure_delete
        clears their pages."""
        self.connection.execute("INSERT INTO documents(documents) VALUES ('optimize')")
        self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    # --- looking up ---

    def upto(self, number: int, seq: int) -> list[Range]:
        """The ids of a conversation up to a seq: what a fork reads of its parent."""
        firsts = [lane_of(number, kind) << POSITION_BITS for kind in KINDS]
        return [
            (first, last - 1) for first in firsts if (last := self._position(first, seq)) > first
        ]

    def size(self, ranges: Sequence[Range]) -> tuple[int, float]:
        """How many entries there are in these ranges, and their mean length with what they
        borrow."""
        query = "SELECT sum(rows), sum(near) FROM lanes WHERE number BETWEEN ? AND ?"
        sums = [
            self.rows(query, (first >> POSITION_BITS, last >> POSITION_BITS))[0]
            for first, last in ranges
        ]
        rows = sum(one[0] or 0 for one in sums)
        return rows, (sum(one[1] or 0.0 for one in sums) / rows if rows else 0.0) or 1.0

    def sizes(self, ids: Iterable[int]) -> dict[int, int]:
        """The lengths of those entries that there are, in words."""
        return dict(
            self.connection.execute(
                "SELECT id, words FROM entries WHERE id IN carray(?)", (carried(ids),)
            )
        )

    def entries(self, ids: Sequence[int]) -> dict[int, Entry]:
        """Where these entries come from."""
        found = {}
        for id, conversation, seq, at_ms, start, role, tools in self.rows(
            _ENTRIES, (carried(ids),)
        ):
            kind = KINDS[id >> POSITION_BITS & (1 << KIND_BITS) - 1]
            found[id] = Entry(
                id, conversation, kind, seq, at_ms, start, role, tuple(tools.split("\n")[1:-1])
            )
        return found


# --- SQL ---

_MARK = "SELECT id, number, head, chain, parent, parent_seq FROM conversations "
_WORDS_BEFORE = "SELECT words FROM entries WHERE id >= ? AND id < ? ORDER BY id"
_AUTHOR_SEEN = """
INSERT INTO authors VALUES (?,?,?) ON CONFLICT(conversation, author) DO UPDATE SET rows = rows + excluded.rows
"""
_LANE_GREW = """
INSERT INTO lanes(number, rows, words, near, updated_ms) VALUES (?,?,?,?,?) ON CONFLICT(number) DO UPDATE
SET rows = excluded.rows, words = excluded.words, near = excluded.near, updated_ms = excluded.updated_ms
"""
_ENTRIES = f"""
SELECT e.id, c.id, e.seq, e.at_ms, e.start, e.role, e.tools
FROM entries e JOIN conversations c ON c.number = e.id >> {CONVERSATION_BITS}
WHERE e.id IN carray(?)
"""


def _length(document: Document) -> int:
    """The words of a document. What has to do with tools is never short: it has nothing to do
    with its neighbours."""
    number = words.count(document.text)
    return max(number, rank.SHORT_WORDS + 1) if document.tools else number


def carried(ids: Iterable[int]) -> Any:
    """Numbers bound as one value. An empty array cannot be bound; no entry has the id -1."""
    return apsw.carray(array("q", sorted(ids) or [-1]))


def _occurrences(api: apsw.FTS5ExtensionApi, *_: object) -> int:
    return api.inst_count
