"""The rows of an index, and the reading of logs for it.

An entry's id consists of the number of its conversation, its kind, and its position among the
entries of that kind (a lane). So a conversation is a range of ids, neighbours have adjacent ids,
and the newest entries have the highest ids: FTS5 can use all three without another lookup. The
index keeps terms and no text; the text of a hit is read from the log. An artifact that is missing,
damaged or not text is left out: `refold verify` reports it. Neighbours: `database` opens the file,
`documents` turns events into documents, `index_query` queries, `upkeep` feeds it events.
"""

from __future__ import annotations

from array import array
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import apsw
from msgspec import Struct

from refold.core.codec import decode
from refold.core.model import Artifact, Conversation, Event
from refold.errors import Corrupt, NotFound
from refold.log.log import near_runs
from refold.log.stored_logs import pages_of
from refold.search import database, rank, words
from refold.search.documents import Document, documents_of
from refold.search.snippets import KINDS
from refold.stores.protocol import Store

POSITION_BITS, KIND_BITS = 32, 3
POSITION_MASK, KIND_MASK = (1 << POSITION_BITS) - 1, (1 << KIND_BITS) - 1
CONVERSATION_BITS = POSITION_BITS + KIND_BITS
ID_MAX = (1 << 62) - 1
PAGE_EVENTS = 200
BATCH_CHARS = 4_000_000
LOOK_BACK_EVENTS = 20
ARTIFACT_BYTES_MAX = 16 * 1024 * 1024
BINARY_SAMPLE_BYTES = 4_096
NOT_TEXT = ("image/", "audio/", "video/")

Range = tuple[int, int]
EventDocuments = tuple[Event, list[Document]]
EVERYWHERE: tuple[Range, ...] = ((0, ID_MAX),)


class Mark(Struct, frozen=True):
    """Progress of a conversation in the index: its number there, and the seq and chain value up
    to which it is indexed."""

    number: int
    head: int
    chain: bytes
    parent: str
    parent_seq: int


class Entry(Struct, frozen=True):
    """The source of an entry."""

    id: int
    conversation: str
    kind: str
    seq: int
    at_ms: int
    start: int
    role: str
    tools: tuple[str, ...]


# --- ids ---


def lane_of(number: int, kind: str) -> int:
    return number << KIND_BITS | KINDS.index(kind)


def first_id(number: int, kind: str) -> int:
    """The first id of the lane of a conversation and a kind."""
    return lane_of(number, kind) << POSITION_BITS


def lane_range(lane: int) -> Range:
    """The ids of a lane."""
    return lane << POSITION_BITS, (lane + 1 << POSITION_BITS) - 1


def range_of(number: int) -> Range:
    """The ids of a whole conversation."""
    return number << CONVERSATION_BITS, (number + 1 << CONVERSATION_BITS) - 1


class Index:
    """An open index, with a `notice` if opening it needed a repair. Entries are `standalone` if
    they are unrelated to the ones before and after, as in a log of memories. Not locked: its owner
    lets one thread at a time use it."""

    def __init__(
        self, path: str = database.MEMORY, *, copy_of: str = "", standalone: bool = False
    ) -> None:
        self.path, self.standalone = path, standalone
        self.notice: database.Notice | None = None
        if copy_of:
            self.connection = database.copy(copy_of)
        else:
            self.connection, self.notice = database.connect(path)
        # The sum over all lanes, and the state of the file in which it is valid.
        self._whole_size: tuple[Any, tuple[int, float]] = (None, (0, 1.0))
        self.connection.register_fts5_function("occurrences", _occurrences)
        name, *options = words.TOKENIZER
        self._tokenizer = self.connection.fts5_tokenizer(name, options)

    @property
    def remedy(self) -> str:
        """The command that completes the index."""
        return "refold search --reindex --memory" if self.standalone else "refold search --reindex"

    @property
    def is_writable(self) -> bool:
        return not self.connection.readonly("main")

    def close(self) -> None:
        database.close(self.connection)

    def stems(self, text: str) -> list[str]:
        """The terms of the text, by SQLite's tokenizer."""
        return [token for _, _, token in self.tokens(text)]

    def tokens(self, text: str) -> list[tuple[int, int, str]]:
        """The terms with their byte positions in the UTF-8 text."""
        encoded = text.encode("utf-8", "replace")
        found: Any = self._tokenizer(encoded, apsw.FTS5_TOKENIZE_DOCUMENT, None)
        return found  # type: ignore[no-any-return]

    def rows(self, query: str, given: tuple[Any, ...] = ()) -> list[Any]:
        return self.connection.execute(query, given).fetchall()

    # --- adding ---

    def mark(self, conversation: str) -> Mark | None:
        row = self.connection.execute(_MARK + "WHERE id = ?", (conversation,)).fetchone()
        return Mark(*row[1:]) if row else None

    def marks(self) -> dict[str, Mark]:
        """The marks of all conversations."""
        return {row[0]: Mark(*row[1:]) for row in self.connection.execute(_MARK)}

    @property
    def followed(self) -> int:
        """The store's count of changes up to which everything is in the index; 0 if unknown."""
        found: int | None = self.connection.execute("SELECT upto FROM progress").get
        return found or 0

    def note_followed(self, upto: int) -> None:
        """Stores the count; 0 makes the next search compare all conversations."""
        if upto != self.followed:
            with database.transaction(self.connection):
                self.connection.execute("INSERT OR REPLACE INTO progress VALUES (1, ?)", (upto,))

    def enter(self, about: Conversation) -> None:
        """Registers a conversation without any entries; a fork starts where it left its parent."""
        row = (about.id, about.parent, about.parent_seq, about.parent_seq, about.chain)
        self.connection.execute(_ENTER, row)

    def add(
        self,
        conversation: str,
        documents: Sequence[Document],
        *,
        after: int,
        head: int,
        chain: bytes,
    ) -> bool:
        """Adds the documents of the events after `after` up to `head`. False if another process
        already did."""
        with database.transaction(self.connection):
            mark = self.mark(conversation)
            if mark is None or mark.head != after:
                return False
            for kind in KINDS:
                fitting = [one for one in documents if one.kind == kind]
                if fitting:
                    self._add_to_lane(mark.number, kind, fitting)
            self.connection.execute(_MARK_MOVED, (head, chain, mark.number))
        return True

    def _add_to_lane(self, number: int, kind: str, documents: Sequence[Document]) -> None:
        lane = lane_of(number, kind)
        rows, sum_words, context_words = self._lane(lane)
        first = (lane << POSITION_BITS) + rows
        sizes = [document_words(one) for one in documents]
        context_words = self._context_words(first, sizes, context_words)
        ids = range(first, first + len(documents))
        texts = ((id, *words.columns(one.text)) for id, one in zip(ids, documents))
        self.connection.executemany(_INSERT_ENTRY, map(entry_row, ids, documents, sizes))
        self.connection.executemany(_INSERT_TEXT, texts)
        authors = Tally(one.author for one in documents if one.author)
        self.connection.executemany(_AUTHOR_SEEN, [(number, *item) for item in authors.items()])
        count, updated = rows + len(documents), documents[-1].at_ms
        grown = (lane, count, sum_words + sum(sizes), context_words, updated)
        self.connection.execute(_LANE_GREW, grown)

    def _lane(self, lane: int) -> tuple[int, int, float]:
        """The number of rows in a lane, their words, and their words including borrowed ones."""
        query = "SELECT rows, words, near FROM lanes WHERE number = ?"
        row = self.connection.execute(query, (lane,)).fetchone()
        return row or (0, 0, 0.0)

    def _context_words(self, first: int, sizes: Sequence[int], total: float) -> float:
        """The sum of all context lengths after adding entries of these sizes from id `first` on."""
        if self.standalone:
            return total + sum(sizes)
        before = [size for (size,) in self.connection.execute(_WORDS_BEFORE, (first - 2, first))]
        for size in sizes:
            total += rank.added_context_words(before[-2:], size)
            before.append(size)
        return total

    # --- removing ---

    def forget(self, conversations: Iterable[str]) -> None:
        """Removes everything of these conversations."""
        marks = [mark for id in conversations if (mark := self.mark(id))]
        if not marks:
            return
        self.note_followed(0)
        with database.transaction(self.connection):
            for mark in marks:
                self._delete_rows(*range_of(mark.number))
                for delete in _FORGET:
                    self.connection.execute(delete, (mark.number,))
        self._scrub()

    def erase(self, conversation: str, seqs: Iterable[int]) -> None:
        """Removes the entries of these events with their terms. Their ids stay unused."""
        ids = self.ids_of(conversation, seqs)
        if not ids:
            return
        with database.transaction(self.connection):
            for id in ids:
                self._delete_rows(id, id)
        self._scrub()

    def ids_of(self, conversation: str, seqs: Iterable[int]) -> list[int]:
        """The entries of these events."""
        mark = self.mark(conversation)
        if mark is None:
            return []
        found: list[int] = []
        query = "SELECT id FROM entries WHERE id >= ? AND id < ? AND seq = ?"
        for seq in seqs:
            for kind in KINDS:  # at most a few pieces of each
                first = first_id(mark.number, kind)
                low, high = self._position(first, seq - 1), self._position(first, seq)
                found += [id for (id,) in self.connection.execute(query, (low, high, seq))]
        return found

    def messages_of(self, conversation: str, seqs: Iterable[int]) -> dict[int, int]:
        """The message entries of these events, by seq."""
        mark = self.mark(conversation)
        if mark is None:
            return {}
        first = first_id(mark.number, "message")
        ids = {self._position(first, seq - 1): seq for seq in seqs}
        there = dict(
            self.rows("SELECT id, seq FROM entries WHERE id IN carray(?)", (carried(ids),))
        )
        return {seq: id for id, seq in ids.items() if there.get(id) == seq}

    def _position(self, first: int, seq: int) -> int:
        """The id after the last entry of a lane up to `seq`, by binary search: a lane is ordered
        by seq."""
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

    def _delete_rows(self, first: int, last: int) -> None:
        """Deletes the entries of a range, their terms and their vectors."""
        for table, key in _ROWS_BY_ID:
            delete = f"DELETE FROM {table} WHERE {key} BETWEEN ? AND ?"
            self.connection.execute(delete, (first, last))

    def _scrub(self) -> None:
        """Removes deleted terms from the file. FTS5 only marks rows as deleted; a full merge drops
        their terms, and secure_delete clears the pages."""
        self.connection.execute("INSERT INTO documents(documents) VALUES ('optimize')")
        self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    # --- looking up ---

    def upto(self, number: int, seq: int) -> Iterator[Range]:
        """The ids of a conversation up to a seq: the events a fork shares with its parent."""
        for kind in KINDS:
            first = first_id(number, kind)
            after = self._position(first, seq)
            if after > first:
                yield first, after - 1

    def size(self, ranges: Sequence[Range]) -> tuple[int, float]:
        """The number of entries in these ranges, and their mean length including borrowed words."""
        version = (
            self.connection.execute("PRAGMA data_version").get,
            self.connection.total_changes(),
        )
        if ranges is EVERYWHERE and self._whole_size[0] == version:
            return self._whole_size[1]
        query = "SELECT total(rows), total(near) FROM lanes WHERE number BETWEEN ? AND ?"
        count, context_words = 0, 0.0
        for first, last in ranges:
            [(rows, near)] = self.rows(query, (first >> POSITION_BITS, last >> POSITION_BITS))
            count += int(rows)
            context_words += near
        size = count, (context_words / count if count else 0.0) or 1.0
        if ranges is EVERYWHERE:
            self._whole_size = version, size
        return size

    def sizes(self, ids: Iterable[int]) -> dict[int, int]:
        """The lengths of the existing entries among these ids, in words."""
        query = "SELECT id, words FROM entries WHERE id IN carray(?)"
        return dict(self.connection.execute(query, (carried(ids),)))

    def entries(self, ids: Sequence[int]) -> dict[int, Entry]:
        """The sources of these entries."""
        out: dict[int, Entry] = {}
        rows = self.rows(_ENTRIES, (carried(ids),))
        for id, conversation, seq, at_ms, start, role, tools in rows:
            kind = KINDS[id >> POSITION_BITS & KIND_MASK]
            names = tuple(tools.split("\n")[1:-1])
            out[id] = Entry(id, conversation, kind, seq, at_ms, start, role, names)
        return out


# --- SQL ---

_MARK = "SELECT id, number, head, chain, parent, parent_seq FROM conversations "
_MARK_MOVED = "UPDATE conversations SET head = ?, chain = ? WHERE number = ?"
_ENTER = """
INSERT OR IGNORE INTO conversations(id, parent, parent_seq, head, chain) VALUES (?,?,?,?,?)
"""
_WORDS_BEFORE = "SELECT words FROM entries WHERE id >= ? AND id < ? ORDER BY id"
_AUTHOR_SEEN = """
INSERT INTO authors VALUES (?,?,?)
ON CONFLICT(conversation, author) DO UPDATE SET rows = rows + excluded.rows
"""
_LANE_GREW = """
INSERT INTO lanes(number, rows, words, near, updated_ms) VALUES (?,?,?,?,?)
ON CONFLICT(number) DO UPDATE SET rows = excluded.rows, words = excluded.words,
near = excluded.near, updated_ms = excluded.updated_ms
"""
_FORGET = (
    f"DELETE FROM lanes WHERE number >= ?1 << {KIND_BITS} AND number < (?1 + 1) << {KIND_BITS}",
    "DELETE FROM authors WHERE conversation = ?1",
    "DELETE FROM conversations WHERE number = ?1",
)
_ROWS_BY_ID = (("documents", "rowid"), ("entries", "id"), ("vectors", "id"))
_INSERT_ENTRY = "INSERT INTO entries VALUES (?,?,?,?,?,?,?,?,?)"
_INSERT_TEXT = "INSERT INTO documents(rowid, text, parts) VALUES (?,?,?)"
_ENTRIES = f"""
SELECT e.id, c.id, e.seq, e.at_ms, e.start, e.role, e.tools
FROM entries e JOIN conversations c ON c.number = e.id >> {CONVERSATION_BITS}
WHERE e.id IN carray(?)
"""


def entry_row(id: int, one: Document, size: int) -> tuple[int | str, ...]:
    """An entry in stored form."""
    tools = "\n".join(["", *one.tools, ""]) if one.tools else ""
    # A long text may contain a question, but it is not one.
    asks = size <= rank.SHORT_WORDS and words.is_question(one.text)
    return id, one.seq, one.at_ms, size, one.role, tools, one.author, one.start, asks


def document_words(document: Document) -> int:
    """The number of words. A tool call or result never counts as short, because it is unrelated to
    its neighbours."""
    number = words.count(document.text)
    return max(number, rank.SHORT_WORDS + 1) if document.tools else number


def carried(ids: Iterable[int]) -> Any:
    """Ids bound as one SQL value. An empty array cannot be bound; no entry has the id -1."""
    return apsw.carray(array("q", sorted(ids) or [-1]))


def _occurrences(api: apsw.FTS5ExtensionApi, *_: object) -> int:
    return api.inst_count


# --- conversations ---


def family(store: Store, ids: Iterable[str]) -> list[Conversation]:
    """These conversations and their ancestors."""
    found: dict[str, Conversation] = {}
    for id in ids:
        while id and id not in found:
            found[id] = store.conversation(id)
            id = found[id].parent
    return list(found.values())


def holder(store: Store, about: Conversation, seq: int) -> str:
    """The conversation that has an event in its own log: this one, or an ancestor."""
    while about.parent and seq <= about.parent_seq:
        about = store.conversation(about.parent)
    return about.id


# --- events ---


def events_of(
    store: Store, entries: Iterable[Entry], report: Callable[[Corrupt], None]
) -> dict[tuple[str, int], Event]:
    """The events of entries by conversation and seq, nearby ones read together; missing logs are
    left out, and so are damaged ones, which are reported."""
    found: dict[tuple[str, int], Event] = {}
    for conversation, seqs in _seqs_by_conversation(entries).items():
        for first, last in near_runs(seqs):
            try:
                events = store.read(conversation, after=first - 1, last=last)
            except NotFound:
                break
            except Corrupt as error:
                report(error)
                break
            found.update(((conversation, event.seq), event) for event in events)
    return found


def _seqs_by_conversation(entries: Iterable[Entry]) -> dict[str, list[int]]:
    seqs: dict[str, list[int]] = {}
    for entry in entries:
        seqs.setdefault(entry.conversation, []).append(entry.seq)
    return seqs


# --- documents ---


def documents(store: Store, event: Event, calls: dict[str, str]) -> list[Document]:
    """The documents of an event, including the text of its artifact."""
    content = artifact_text(store, event) if event.kind == "artifact" else ""
    return documents_of(event, calls, content)


def next_batch(
    store: Store, about: Conversation, after: int, most: int, calls: dict[str, str]
) -> list[EventDocuments]:
    """The next events with their documents, bounded in number and size."""
    batch: list[EventDocuments] = []
    chars = 0
    while len(batch) < most and chars < BATCH_CHARS:
        limit = min(PAGE_EVENTS, most - len(batch))
        events = store.read(about.id, after=after + len(batch), last=about.head, limit=limit)
        page = [(event, documents(store, event, calls)) for event in events]
        batch += page
        chars += sum(len(one.text) for _, found in page for one in found)
        if len(events) < limit:
            break
    return batch


def calls_before(store: Store, conversation: str, seq: int) -> dict[str, str]:
    """The tools of the calls shortly before a message, by call id."""
    calls: dict[str, str] = {}
    if seq <= 1:
        return calls
    for event in store.read(conversation, after=max(0, seq - LOOK_BACK_EVENTS), last=seq - 1):
        if event.kind == "message":
            documents_of(event, calls)
    return calls


def texts_of(store: Store, entries: Mapping[int, Entry]) -> dict[int, str]:
    """The texts of these entries by id, read again from the log."""
    ids = {(one.conversation, one.kind, one.seq, one.start): id for id, one in entries.items()}
    texts: dict[int, str] = {}
    for conversation, seqs in _seqs_by_conversation(entries.values()).items():
        for page in pages_of(store, conversation, after=min(seqs) - 1, last=max(seqs)):
            for event in page:
                for one in documents(store, event, {}) if event.seq in seqs else ():
                    id = ids.get((conversation, one.kind, one.seq, one.start))
                    if id is not None:
                        texts[id] = one.text
    return texts


def artifact_text(store: Store, event: Event) -> str:
    """The text of an event's artifact; empty if the artifact is missing, damaged or not text."""
    artifact = None if event.erased else decode(event)
    if not isinstance(artifact, Artifact) or artifact.mime.startswith(NOT_TEXT):
        return ""
    content = bytearray()
    try:
        for chunk in store.get(artifact.digest):
            content += chunk
            if len(content) > ARTIFACT_BYTES_MAX:
                break
    except (NotFound, Corrupt):
        return ""
    is_binary = b"\0" in content[:BINARY_SAMPLE_BYTES]
    return "" if is_binary else content.decode("utf-8", "replace")
