"""A conversation follows a session of another program's file: what is new in the file is appended,
and where the file went another way, the conversation goes back to the fork and takes that.

The keys of the file's messages are compared with the keys in the log, one after the other.
Importing again changes nothing, a session that went on is continued, one that was rewound is
followed by a restore. An undo of that would bring the branch that was left back beside the new
one; where the log stood before it, there is the old branch alone (`left_at`). A message that
cannot be taken is told with its line, and kept as a note where it can be. Neighbours: `entry` is
what comes in, `importer` has one of these per session.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from msgspec.structs import replace

from refold.core.model import Event, Usage
from refold.core.switches import CONTROLS, switches
from refold.edges.importers.entry import (
    LEFT_BRANCH,
    About,
    Billed,
    Entry,
    Noted,
    Said,
    Summed,
    Unread,
)
from refold.edges.importers.lines import digest
from refold.engine.batch import Batch
from refold.engine.context import Context
from refold.errors import Invalid
from refold.log.keys import KEY_CHARS_MAX, Name, Stamp, name_of

ADOPTED = "adopted-compaction"  # the note that says which summary of the file was taken over
UNREAD = "unread"  # the note in the place of a message that is none
NOT_AGAIN = -1  # the seq of what stands twice in the file
_PAGE_EVENTS = 500


class Follower:
    """Writes the entries of one session to one conversation. `unread` tells what it could not
    take."""

    def __init__(self, context: Context, by: str) -> None:
        self.context, self._by = context, by
        self._batch = Batch(context)
        self._places, self._notes = known_keys(context)
        self._at = 0  # how many of the places the file has had so far
        self._seen: set[str] = set()
        self._told = About()  # what the file said of the session last
        self._passed: set[str] = set()  # the keys of the notes that the file has had so far
        self._is_new = False  # whether the message that was read last is
        self.messages = self.new = self.restored = 0
        self.left = 0  # messages of branches that the session left
        self.left_at = 0  # the seq at which the log was before it was taken back
        self.unread: list[Unread] = []

    @property
    def missing(self) -> int:
        """How many messages of the log the file no longer has at its end."""
        return len(self._places) - self._at

    def take(self, entry: Entry) -> None:
        """Writes what the entry says, unless the log has it."""
        if (key := key_of(entry)) != entry.key:
            entry = replace(entry, key=key)
        try:
            self._take(entry)
        except Invalid as error:
            self.unread.append(Unread(line=entry.line, reason=f"{error.message}; {error.hint}"))
            if isinstance(entry, Said):
                self._keep(entry)
        if self._batch.is_full:
            self._batch.write()

    def finish(self) -> None:
        """Writes what still waits."""
        self._batch.write()

    def _take(self, entry: Entry) -> None:
        match entry:
            case About():
                self._tell(entry)
            case Said():
                self._say(entry)
            case Billed():
                self._bill(entry)
            case Noted():
                self._note(entry)
            case Summed():
                self._sum(entry)
            case Unread():
                self.unread.append(entry)
            case _:
                assert_never(entry)  # type: ignore[arg-type]

    def _tell(self, about: About) -> None:
        if about == replace(self._told, line=about.line, at_ms=about.at_ms):
            return
        self._told = about
        self._batch.write()  # what came before it was said by another model
        self.context.update(
            model=about.model,
            title=about.title,
            system=about.system,
            tools=about.tools,
            metadata=about.metadata and {**self.context.view.metadata, **about.metadata},
        )

    # --- messages ---

    def _say(self, said: Said) -> None:
        seq = self._known(said)
        if seq == NOT_AGAIN:
            return
        # Of the last message that the log has, the usage may not have been written.
        self._is_new = seq == 0 or self._at == len(self._places)
        if seq == 0:
            self.new += 1
            if not self._batch.message(said.message, _stamp(said)):
                self._keep(said)
        if said.usage is not None:
            self._record(said.usage, said.at_ms)

    def _known(self, entry: Said | Summed) -> int:
        """The seq of what the log has of an entry; 0 if it is to be written. Where the log went
        another way, it is taken back to there."""
        if entry.key in self._seen:
            return NOT_AGAIN
        self._seen.add(entry.key)
        self.messages += 1
        if self._at == len(self._places):
            return 0
        key, seq = self._places[self._at]
        if key == entry.key:
            self._at += 1
            return seq
        self._go_back(seq - 1)
        return 0

    def _go_back(self, seq: int) -> None:
        """Takes the log back to a seq. Notes that the file had before this place stay."""
        self._batch.write()
        self._told = About()
        after = [note for note in self.context.log.notes() if note.seq > seq]
        self.left_at = self.context.view.head
        self.context.restore(seq)
        self.restored += len(self._places) - self._at
        del self._places[self._at :]
        self._notes -= {note.key for note in after}
        for note in after:
            if note.key in self._passed:
                self._batch.note(note.kind, note.data, note.by, Stamp(note.at_ms, note.key))

    def _bill(self, billed: Billed) -> None:
        self._record(billed.usage, billed.at_ms)

    def _record(self, usage: Usage, at_ms: int | None) -> None:
        """Adds what the other program was billed, once. Its page was another one, with a system
        prompt and tools that the file may not have: no size of ours follows from it."""
        if self._is_new:
            self._batch.usage(replace(usage, estimated=True), at_ms)

    def _keep(self, said: Said) -> None:
        """A message that is none, as a note in its place; a place without content, if that cannot
        be one either. What is in the file has a place in the log, so that it is known again."""
        try:
            self._batch.note(UNREAD, said.message, self._by, _stamp(said))
        except Invalid as error:
            self._batch.note(UNREAD, None, self._by, _stamp(said))
            self.unread.append(Unread(line=said.line, reason=f"not kept: {error.message}"))

    # --- what is no message ---

    def _note(self, noted: Noted) -> None:
        self._passed.add(noted.key)
        self.left += noted.kind == LEFT_BRANCH
        if noted.key not in self._notes:
            self._batch.note(noted.kind, noted.data, self._by, _stamp(noted))

    def _sum(self, summed: Summed) -> None:
        """Lets the text stand for the page as it is; where it cannot, it is a message."""
        if self._known(summed):
            return
        self.new += 1
        self._batch.write()
        slots = self.context.view.slots
        try:
            span = (slots[0].seq, slots[-1].last) if slots else (0, 0)
            self.context.adopt(span, summed.text, by=self._by)
        except Invalid:
            message = {"role": "user", "content": summed.text or "(an empty summary)"}
            self._batch.message(message, _stamp(summed))
            return
        self._batch.note(ADOPTED, {"line": summed.line}, self._by, _stamp(summed))


def _stamp(entry: Entry) -> Stamp:
    return Stamp(entry.at_ms, entry.key)


def key_of(entry: Entry) -> str:
    """The key of an entry, as a log can have it."""
    if len(entry.key) <= KEY_CHARS_MAX and entry.key.isprintable():
        return entry.key
    return digest(entry.key.encode("utf-8", "replace"))


def known_keys(context: Context) -> tuple[list[tuple[str, int]], set[str]]:
    """The keys of the messages and adopted summaries that stand in the log, in their order, with
    their seqs; and the keys of its notes."""
    controls: list[Event] = []
    named: list[tuple[int, Name]] = []
    for event in events_of(context):
        if event.kind in CONTROLS:
            controls.append(event)
        elif (name := name_of(event)).key:
            named.append((event.seq, name))
    off = switches(controls).off
    places: dict[str, int] = {}  # a message may be several events: the first counts
    notes: set[str] = set()
    for seq, name in named:
        if seq in off:
            continue
        if name.kind and name.kind not in (ADOPTED, UNREAD):
            notes.add(name.key)
        else:
            places.setdefault(name.key, seq)
    return list(places.items()), notes


def events_of(context: Context) -> Iterator[Event]:
    """The events of the log, read page by page."""
    after = 0
    while page := context.log.events(after=after, limit=_PAGE_EVENTS):
        yield from page
        after = page[-1].seq
