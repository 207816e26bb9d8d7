"""Updates a conversation from its session file: appends new entries, and reverts entries that are
no longer in the file.

The keys of the file's entries are compared with those in the log, in order: importing again changes
nothing, whatever a user did to the page; a rewound session is followed. A user's edits stay, except
for summaries of reverted messages. An erased line is recognized by its id and never written again;
a new line without an id is refused once anything was erased.
Neighbours: `entry` is the input, `imported_log` the state of the log, `importer` the caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from refold.core.codec import decode
from refold.core.model import Note, Revert, Summarize, Usage
from refold.edges.importers.entry import (
    ADOPTED,
    LEFT_BRANCH,
    REWOUND,
    UNREAD,
    Entry,
    MessageEntry,
    NoteEntry,
    RewindEntry,
    SessionFacts,
    SummaryEntry,
    Tally,
    UnreadLine,
    UsageEntry,
)
from refold.edges.importers.imported_log import (
    TAKEN,
    ChangedFile,
    FactWriter,
    ImportedItem,
    ImportedLog,
    continuation_key,
    imported_log,
    is_key_of,
    is_touched,
    log_key,
    part_count,
    with_parts,
    with_valid_names,
)
from refold.engine.bulk_write import Batch
from refold.engine.context import Context
from refold.errors import Invalid
from refold.log.notes import Stamp
from refold.tokens.models import is_more, most

OrderedEntry = MessageEntry | SummaryEntry | RewindEntry  # entries with a place in the file's order


class Follower:
    """Writes the entries of one session to one conversation. `log` is the imported content of the
    conversation; `has_line_ids` means that the file's lines have ids; `unread` collects entries
    that could not be written."""

    def __init__(
        self, context: Context, source: str, log: ImportedLog, tally: Tally, *, has_line_ids: bool
    ) -> None:
        self.context, self._source, self.tally, self._log = context, source, tally, log
        self.unread: list[UnreadLine] = []
        self.messages = 0
        self._batch = Batch(context)
        self._is_frozen = log.has_erasures and not has_line_ids
        self._facts = FactWriter(context, self._batch, log, self.unread, is_frozen=self._is_frozen)
        self._items = log.items
        self._erased_notes = log.erased_notes
        continuations = [item for items in log.continuations.values() for item in items]
        self._continued_ids = {id for item in continuations for id in item.ids}
        self._at = 0  # the number of items matched so far
        self._seen: dict[str, int] = {}  # keys in the file so far, with their earliest possible seq
        self._seen_ids: set[str] = set()
        self._item: ImportedItem | None = None  # of the current entry
        self._is_new = False  # whether the current message is new
        self._left: set[str] = set()

    @property
    def missing(self) -> int:
        """The number of messages in the log that are missing at the end of the file."""
        return sum(1 for item in self._items[self._at :] if item.key)

    @property
    def left(self) -> int:
        """The number of messages in abandoned branches."""
        return len(self._left)

    def describe(self, metadata: dict[str, Any]) -> None:
        """Adds metadata about the session to the conversation."""
        if not self._is_frozen:
            self.context.update(metadata={**self._batch.metadata, **metadata})

    def take(self, entry: Entry) -> None:
        """Writes the entry unless it is in the log. ChangedFile if it may have been erased."""
        entry = with_valid_names(entry)
        try:
            match entry:
                case MessageEntry():
                    self._take_message(entry)
                case SessionFacts():
                    self._facts.add(entry)
                case UsageEntry():
                    self._record(entry, entry.usage)
                case NoteEntry():
                    self._take_note(entry)
                case SummaryEntry():
                    self._take_summary(entry)
                case RewindEntry():
                    self._rewind(entry)
                case UnreadLine():
                    self.unread.append(entry)
                case _:
                    assert_never(entry)  # type: ignore[arg-type]
        except Invalid as error:
            self._report(entry, error)
        if self._batch.is_full:
            self._batch.write()

    def finish(self) -> None:
        """Writes all pending events."""
        self._facts.pass_over()
        self._batch.write()
        self.tally.end()

    def close(self) -> None:
        """Closes the conversation, also after an incomplete import."""
        self.tally.stop(self._batch.written)
        self.context.close()

    # --- messages ---

    def _take_message(self, entry: MessageEntry) -> None:
        if entry.key in self._seen:
            return  # a duplicate in the file
        is_known = self._is_known(entry)
        # The usage of the last message in the log may not have been written.
        may_lack = self._at == len(self._items) and not self._log.lacks_facts
        self._is_new = not is_known or may_lack
        if not is_known:
            self._write(entry, log_key(entry))
        elif entry.parts:
            self._write_rest(entry, self._item)
        if entry.usage is not None:
            self._record(entry, entry.usage)

    def _write(self, entry: MessageEntry, key: str, *, continues: bool = False) -> None:
        stamp, ids = Stamp(entry.at_ms, key), _ids_of(entry)
        is_written = False
        try:
            is_written = self._batch.message(entry.message, stamp, ids=ids, continues=continues)
        except Invalid as error:
            self._report(entry, error)
        if not is_written:
            self._write_unparsed(entry, stamp, ids)
        self.tally.count(entry.key, self._batch.written)

    def _write_unparsed(self, entry: MessageEntry, stamp: Stamp, ids: tuple[str, ...]) -> None:
        """Writes an unparseable message as a note, without content if that is invalid too. Every
        message of the file has an event in the log, so that the next import recognizes it."""
        try:
            self._batch.note(UNREAD, entry.message, self._source, stamp, ids)
        except Invalid as error:
            self._batch.note(UNREAD, None, self._source, stamp, ids)
            self.unread.append(UnreadLine(line=entry.line, reason=f"not kept: {error.message}"))

    def _write_rest(self, entry: MessageEntry, item: ImportedItem | None) -> None:
        """Writes the parts of a message that the log lacks: replaces the message if no user touched
        it; otherwise appends a continuation."""
        rest = self._rest(entry, item)
        if rest is None:
            return
        self._refuse_unless_named(rest)
        self._batch.write()
        if item is None:  # some of its parts were erased
            self._revert_rest()
            self._facts.write()
            self._write(rest, continuation_key(entry))
            self._continued_ids.update(rest.ids)
            return
        self._facts.write()
        grown = self._items[self._at - 1 :]
        if self._is_erased(entry) or is_touched(self.context, self._source, grown):
            self.tally.again.add(entry.key)
            self._write(rest, continuation_key(entry), continues=True)
            self._continued_ids.update(rest.ids)
            return
        del self._items[self._at - 1 :]
        self._at -= 1
        self.tally.grown_at = self._batch.head
        self.tally.again |= {item.key for item in grown[1:]} | {entry.key}
        reverts = [Revert(seq=seq) for item in grown for seq in item.seqs]
        self._batch.take_off(reverts, self._source)
        self._write(entry, log_key(entry))

    def _rest(self, entry: MessageEntry, item: ImportedItem | None) -> MessageEntry | None:
        """The parts of a message that the log never had. Parts are looked up by their line ids, or
        counted where lines have no ids."""
        lacking: Sequence[int] = ()
        if entry.has_line_ids and (item is None or item.ids):
            held = self._continued_ids.union(item.ids if item else ())
            numbered = enumerate(entry.ids)
            lacking = [at for at, id in numbered if id not in held | self._log.erased_ids]
        elif item is not None and item.key:
            more = self._log.continuations.get(entry.key, ())
            count = max(part_count(one.key) for one in (item, *more))
            lacking = range(count, entry.parts)
        return with_parts(entry, lacking) if lacking else None

    # --- the file's order and the log's ---

    def _is_known(self, entry: OrderedEntry) -> bool:
        """Whether the entry is in the log, or was before an erasure. If not, reverts all
        later items: the log and the file differ."""
        self.messages += not isinstance(entry, RewindEntry)
        self._item = item = self._item_of(entry)
        if self._log.continuations:
            self._seen_ids.update(entry.ids)
        if item is not None:
            self._seen[entry.key] = item.seqs[0]
            self._facts.pass_over()
            return True
        self._seen[entry.key] = self._batch.head + 1
        if self._is_erased(entry):
            return True
        if not any(entry.ids) and self._erased_notes:
            self._erased_notes -= 1  # it may have been an unparseable message
            return True
        self._refuse_unless_named(entry)
        self._revert_rest()
        self._facts.write()
        return False

    def _item_of(self, entry: OrderedEntry) -> ImportedItem | None:
        """The next item of the log, if it is the entry's. An erased item is recognized by its line
        ids; an entry without ids matches any erased item."""
        at = self._next_with_key()
        if at < len(self._items) and is_key_of(self._items[at].key, entry):
            self._at = at + 1
            return self._items[at]
        ids = set(filter(None, entry.ids))
        for erased in range(self._at, at):
            if not ids or not ids.isdisjoint(self._items[erased].ids):
                self._at = erased + 1
                return self._items[erased]
        return None

    def _next_with_key(self) -> int:
        """The position of the next item that was not erased."""
        at = self._at
        while at < len(self._items) and not self._items[at].key:
            at += 1
        return at

    def _is_erased(self, entry: Entry) -> bool:
        return not self._log.erased_ids.isdisjoint(entry.ids)

    def _refuse_unless_named(self, entry: Entry) -> None:
        """ChangedFile if the entry may be something that was erased."""
        if self._log.has_erasures and not entry.has_line_ids:
            raise ChangedFile(entry.line)

    def _revert_rest(self) -> None:
        """Reverts all remaining items: the file diverges from the log here."""
        self._at = self._next_with_key()
        left = self._items[self._at :]
        if not left:
            return
        del self._items[self._at :]
        self._batch.write()
        head = self._batch.head
        self._revert(left)
        self._batch.write()
        self.tally.take_back(len(left), head)
        self._facts.write_again()

    def _revert(self, left: Sequence[ImportedItem]) -> int:
        """Reverts items and the summaries of them; returns the number of reverts."""
        seqs = [seq for item in (*left, *self._loose_continuations()) for seq in item.seqs]
        summaries = [Revert(batch=batch) for batch in self._summaries_of(min(seqs))]
        reverts = [*summaries, *(Revert(seq=seq) for seq in seqs)]
        self._batch.take_off(reverts, self._source)
        return len(reverts)

    def _loose_continuations(self) -> list[ImportedItem]:
        """Removes and returns the continuations of messages not found in the file so far."""
        loose: list[ImportedItem] = []
        for key, items in self._log.continuations.items():
            for item in list(items):
                is_seen = key in self._seen
                if item.ids:
                    is_seen = not self._seen_ids.isdisjoint(item.ids)
                if not is_seen:
                    items.remove(item)
                    loose.append(item)
        self._continued_ids -= {id for item in loose for id in item.ids}
        return loose

    def _summaries_of(self, first: int) -> Iterator[str]:
        """The applied batches with a summary of messages from this seq on."""
        applied = {batch for _, batch in self.context._open.state.undoable}
        for event in self.context.log.events(after=first):
            body = decode(event) if event.kind == "edit" and event.by != self._source else None
            if isinstance(body, Summarize) and body.span.last >= first and body.batch in applied:
                applied.remove(body.batch)
                yield body.batch

    def _rewind(self, entry: RewindEntry) -> None:
        """Reverts the messages that the file itself took back."""
        if entry.key in self._seen or self._is_known(entry):
            return
        self._batch.write()
        head = self._batch.head
        first = min((self._seen[key] for key in entry.keys if key in self._seen), default=0)
        items = imported_log(self.context, self._source, after=first - 1).items if first else []
        left = [item for item in items if item.key in entry.keys]
        count = self._revert(left) if left else 0
        data = {"line": entry.line, TAKEN: count}
        self._batch.note(REWOUND, data, self._source, Stamp(entry.at_ms, entry.key))
        self._batch.write()
        if left:
            self.tally.take_back(len(left), head)

    # --- other entries ---

    def _record(self, entry: Entry, usage: Usage) -> None:
        """Writes the usage of a response, once. It was billed for a page whose system prompt and
        tools may not be in the file, so it does not calibrate our token counts."""
        before = self._log.billed.get(usage.response)
        if before is None and (not self._is_new or self._batch.is_billed(usage)):
            return
        whole = most(usage, before) if before else usage
        if before is not None and (self._log.lacks_facts or not is_more(whole, before)):
            return
        if self._is_frozen:
            raise ChangedFile(entry.line)
        self._facts.write()  # the price depends on the model
        billed = self._batch.usage(replace(whole, estimated=True), entry.at_ms, before)
        if usage.response:
            self._log.billed[usage.response] = billed

    def _take_note(self, entry: NoteEntry) -> None:
        if entry.kind == LEFT_BRANCH:
            self._left.add(entry.message)
            self._seen_ids.update(entry.ids)
        has_id = any(entry.ids)
        is_known = entry.key in self._log.notes or self._is_erased(entry)
        if not is_known and not has_id and self._erased_notes:
            is_known = True  # it may be an erased note
            self._erased_notes -= self._is_frozen
        if is_known:
            self._facts.pass_over()
            return
        is_message = entry.kind == LEFT_BRANCH
        if not has_id and (self._is_frozen or (is_message and self._log.has_erasures)):
            raise ChangedFile(entry.line)
        self._facts.write()
        stamp = Stamp(entry.at_ms, entry.key)
        self._batch.note(entry.kind, entry.data, self._source, stamp, _ids_of(entry))

    def _take_summary(self, entry: SummaryEntry) -> None:
        """Replaces the page with the summary, or writes it as a message where that is invalid."""
        if entry.key in self._seen or self._is_known(entry):
            return
        self._batch.write()
        ids = _ids_of(entry)
        note = Note(kind=ADOPTED, data={"line": entry.line}, key=entry.key, ids=ids)
        try:
            self._batch.adopt(entry.text, note, self._source, entry.at_ms)
        except Invalid:
            message = {"role": "user", "content": entry.text or "(an empty summary)"}
            self._batch.message(message, Stamp(entry.at_ms, entry.key), ids=ids)
        self.tally.count(entry.key, self._batch.written)

    def _report(self, entry: Entry, error: Invalid) -> None:
        self.unread.append(UnreadLine(line=entry.line, reason=f"{error.message}; {error.hint}"))


def _ids_of(entry: Entry) -> tuple[str, ...]:
    """The line ids under which an entry is written."""
    return tuple(dict.fromkeys(filter(None, entry.ids)))
