"""A conversation follows a session of another program's file: what is new in the file is appended,
and where the file went another way, what it no longer says is taken off, message by message.

The keys of the file's messages are compared with those in the log, one after the other (`known`):
importing again changes nothing, whatever a user did to the page meanwhile; a session that went on
is continued, one that was rewound is followed. What the user did stays, but for a summary that
tells of what was taken off. The branch that was left is there alone where the log stood before
(`left_at`). A message that cannot be taken is told with its line, and kept as a note where it can
be. Neighbours: `entry` is what comes in, `tell` says what the session is about, `importer` has one
of these per session.
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
    About,
    Billed,
    Entry,
    Noted,
    Rewound,
    Said,
    Summed,
    Tally,
    Trace,
    Unread,
    ids_of,
    stand_in,
)
from refold.edges.importers.erased import Erased, Growth, spoken
from refold.edges.importers.imported_log import (
    TAKEN,
    ImportedItem,
    Known,
    Teller,
    continuing,
    events_of,
    is_of,
    is_touched,
    known,
    named,
    written,
)
from refold.engine.batch import Batch
from refold.engine.context import Context
from refold.errors import Invalid
from refold.log.notes import Stamp
from refold.tokens.models import is_more, most

Placed = Said | Summed | Rewound  # what has a place in the order of the file


class Follower:
    """Writes the entries of one session to one conversation, which has `held` of them. `unread`
    tells what it could not take."""

    def __init__(self, context: Context, by: str, held: Known, tally: Tally) -> None:
        self.context, self._by, self.tally = context, by, tally
        self.unread: list[Unread] = []
        self._batch = Batch(context)
        self._teller = Teller(context, self._batch, held, self.unread)
        self._places, self._notes = held.places, held.notes
        self._was_erased = held.was_erased
        self._billed = held.billed
        self._erased = Erased(self._batch, held)
        self._growth = Growth(held.more, self._erased)
        self._passed: list[tuple[Placed, list[Trace]]] = []  # may be erased, since the last place
        self._left_out = 0  # of those, without a stand-in
        self._at = 0  # how many of the places the file has had so far
        self._seen: dict[str, int] = {}  # what the file has had, and a seq that it is not before
        self._found: ImportedItem | None = None  # the place of what was read last
        self._is_new = False  # whether the message that was read last is
        self._left: set[str] = set()
        self._is_back = False  # whether the file was ever not where the log is
        self.messages = 0

    @property
    def missing(self) -> int:
        """How many messages of the log the file no longer has at its end."""
        return sum(1 for place in self._places[self._at :] if place.key)

    @property
    def erased(self) -> int:
        """How many messages were left out, since they may be what was erased in another place."""
        return self.tally.erased + self._left_out

    @property
    def left(self) -> int:
        """How many messages there are in branches that the session left."""
        return len(self._left)

    def describe(self, metadata: dict[str, Any]) -> None:
        """Says in the log what the conversation follows."""
        self.context.update(metadata={**self._batch.metadata, **metadata})

    def take(self, entry: Entry) -> None:
        """Writes what the entry says, unless the log has it."""
        entry = named(entry)
        try:
            self._take(entry)
        except Invalid as error:
            self._tell_of(entry, error)
        if self._batch.is_full:
            self._batch.write()

    def finish(self) -> None:
        """Writes what still waits."""
        if self._passed and self._keyed_at() < len(self._places):
            self._turn()
        self._pass()
        self._teller.pass_over()
        self._batch.write()
        self.tally.end()

    def close(self) -> None:
        """Lets the conversation go, in the middle or at the end."""
        self.tally.stop(self._batch.written)
        self.context.close()

    def _take(self, entry: Entry) -> None:
        match entry:
            case Said():
                self._say(entry)
            case About():
                self._teller.hear(entry)
            case Billed():
                self._record(entry.usage, entry.at_ms)
            case Noted():
                self._note(entry)
            case Summed():
                self._sum(entry)
            case Rewound():
                self._rewind(entry)
            case Unread():
                self.unread.append(entry)
            case _:
                assert_never(entry)  # type: ignore[arg-type]

    # --- messages ---

    def _say(self, said: Said) -> None:
        if said.key in self._seen:
            return  # it stands twice in the file
        is_known = self._is_known(said)
        # Of the last message that the log has, the usage may not have been written.
        may_lack = self._at == len(self._places) and not self._was_erased
        self._is_new = not is_known or may_lack
        if not is_known:
            self._write(said, written(said))
        elif said.parts and self._found is not None:
            self._go_on(said, self._found)
        if said.usage is not None:
            self._record(said.usage, said.at_ms)

    def _write(self, said: Said, key: str, *, continues: bool = False) -> None:
        stamp, is_said = Stamp(said.at_ms, key), False
        said = self._erased.gone.rest(said)
        ids = ids_of(said)
        try:
            for message in self._erased.without(said):
                is_said |= self._batch.message(message, stamp, ids=ids, continues=continues)
        except Invalid as error:
            self._tell_of(said, error)
        if not is_said:
            self._keep(said, stamp, ids)
        self.tally.count(said.key, self._batch.written)

    def _go_on(self, said: Said, place: ImportedItem) -> None:
        """Writes what the file has more of a message than the log."""
        rest = self._growth.rest(said, place, self._places[self._at :])
        if rest is None:
            return
        self._batch.write()
        self._tell()
        grown = self._places[self._at - 1 :]
        if is_touched(self.context, self._by, grown):
            self.tally.again.add(said.key)
            self._continue(said, rest)
            return
        del self._places[self._at - 1 :]
        self._at -= 1
        self.tally.grown_at = self._batch.head
        self.tally.again |= {place.key for place in grown[1:]} | {said.key}
        self._batch.take_off([Revert(seq=seq) for place in grown for seq in place.seqs], self._by)
        self._write(said, written(said))

    def _continue(self, said: Said, rest: Said) -> None:
        self._write(rest, continuing(said), continues=True)
        self._growth.take(rest)

    def _is_known(self, entry: Placed) -> bool:
        """Whether the log has an entry, or had it before it was erased. Where the log went another
        way, that is taken off."""
        self.messages += not isinstance(entry, Rewound)
        self._found = place = self._place_of(entry)
        self._erased.gone.see(entry)
        if place is not None:
            self._seen[entry.key] = place.seqs[0]
            self._left_out += self._erased.gone.is_guess(entry, place.trace)
            self._teller.pass_over()
            return True
        self._seen[entry.key] = self._batch.head + 1
        if self._is_erased_elsewhere(entry):
            return True
        self._turn()
        self._tell()
        return False

    def _tell(self) -> None:
        self._teller.tell(is_unsure=self._is_back)

    def _place_of(self, entry: Placed) -> ImportedItem | None:
        """The place that an entry has, if the log went the same way. What was erased is not brought
        back."""
        at = self._keyed_at()
        if at < len(self._places) and is_of(self._places[at].key, entry):
            return self._find(at)
        for erased in range(self._at, at):
            trace = self._places[erased].trace
            if trace and self._erased.is_it(entry, trace):
                self._is_back |= erased > self._at
                return self._find(erased)
        self._is_back |= self._at < len(self._places)
        return None

    def _keyed_at(self) -> int:
        """The next place that was not erased."""
        at = self._at
        while at < len(self._places) and not self._places[at].key:
            at += 1
        return at

    def _find(self, at: int) -> ImportedItem:
        """The place where the file is."""
        place = self._places[at]
        self._at = at + 1
        self._pass()
        if place.trace:
            self._erased.see(place.trace)
        else:
            self._erased.pass_over(place.key)
        return place

    def _is_erased_elsewhere(self, entry: Placed) -> bool:
        """Whether the entry may be something that was erased in another place. What comes next in
        the file says whether the log went the same way all the same."""
        traces = self._erased.of(entry, is_back=self._is_back)
        if not traces:
            return False
        self._passed.append((entry, traces))
        if self._at == len(self._places):
            self._tell()
            self._stand_in()
        elif self._growth.rest_of(entry) is not None:
            self._turn()  # it has something that is new
        return True

    def _pass(self) -> None:
        """The log goes on behind what may be erased, or nothing follows it in the file."""
        self._left_out += len(self._passed)
        self._passed.clear()

    def _stand_in(self) -> None:
        """Writes what stands for those that may be erased, in their places."""
        passed, self._passed = self._passed, []
        for entry, traces in passed:
            shown = [trace for trace in traces if trace.kind in (ADOPTED, "message")]
            self._left_out += not shown
            for trace in shown:
                self._stand_in_for(entry, trace)
            if isinstance(entry, Said) and (rest := self._growth.rest_of(entry)) is not None:
                self._continue(entry, rest)

    def _stand_in_for(self, entry: Placed, trace: Trace) -> None:
        if trace.kind == ADOPTED:
            note = _adopted(entry)
            self._batch.note(ADOPTED, note.data, self._by, _stamp(entry), note.ids)
        else:
            self._batch.stand_in(stand_in(trace), trace.tokens, trace.counter, trace.at_ms)
            place = ImportedItem("", [self._batch.head + 1], trace)
            self._places.append(place)
            self._at = len(self._places)
            self._found = None if trace.ids else place
        self.tally.leave_out(self._batch.written)

    def _turn(self) -> None:
        """The file says something else than the log from here on."""
        self._at = self._keyed_at()
        if self._at < len(self._places):
            self._leave()
        self._stand_in()

    def _leave(self) -> None:
        """Takes off what the file no longer has."""
        left = self._places[self._at :]
        del self._places[self._at :]
        self._batch.write()
        head = self._batch.head
        self._take_off(left)
        self._batch.write()
        self.tally.take_back(len(left), head)
        self._teller.tell_again()

    def _take_off(self, left: Sequence[ImportedItem]) -> int:
        """Takes places off, with the summaries that tell of them; gives how many events do it."""
        more = self._growth.leave(self._seen)
        seqs = [seq for place in (*left, *more) for seq in place.seqs]
        told = [Revert(batch=batch) for batch in self._summaries_of(min(seqs))]
        reverts = [*told, *(Revert(seq=seq) for seq in seqs)]
        self._batch.take_off(reverts, self._by)
        return len(reverts)

    def _summaries_of(self, first: int) -> Iterator[str]:
        """The batches that stand and whose summaries tell of messages from this seq on."""
        standing = {batch for _, batch in self.context._open.state.undoable}
        for event in events_of(self.context, first):
            body = decode(event) if event.kind == "edit" and event.by != self._by else None
            if isinstance(body, Summarize) and body.span.last >= first and body.batch in standing:
                standing.remove(body.batch)
                yield body.batch

    def _rewind(self, rewound: Rewound) -> None:
        """Takes off what the file itself took back."""
        if rewound.key in self._seen or self._is_known(rewound):
            return
        self._batch.write()
        head = self._batch.head
        first = min((self._seen[key] for key in rewound.keys if key in self._seen), default=0)
        places = known(self.context, self._by, after=first - 1).places if first else []
        left = [place for place in places if place.key in rewound.keys]
        taken = self._take_off(left) if left else 0
        told = {"line": rewound.line, TAKEN: taken}
        self._batch.note(REWOUND, told, self._by, _stamp(rewound))
        self._batch.write()
        if left:
            self.tally.take_back(len(left), head)

    def _record(self, usage: Usage, at_ms: int | None) -> None:
        """Adds what the other program was billed, once. Its page was another one, with a system
        prompt and tools that the file may not have: no size of ours follows from it."""
        before = self._billed.get(usage.response)
        if before is None and (not self._is_new or self._batch.is_billed(usage)):
            return
        whole = most(usage, before) if before else usage
        if before is not None and (self._was_erased or not is_more(whole, before)):
            return
        self._tell()  # its model has a price
        billed = self._batch.usage(replace(whole, estimated=True), at_ms, before)
        if usage.response:
            self._billed[usage.response] = billed

    def _tell_of(self, entry: Entry, error: Invalid) -> None:
        self.unread.append(Unread(line=entry.line, reason=f"{error.message}; {error.hint}"))

    def _keep(self, said: Said, stamp: Stamp, ids: tuple[str, ...]) -> None:
        """A message that is none, as a note in its place; a place without content, if that cannot
        be one either. What is in the file has a place in the log, so that it is known again."""
        try:
            self._batch.note(UNREAD, said.message, self._by, stamp, ids)
        except Invalid as error:
            self._batch.note(UNREAD, None, self._by, stamp, ids)
            self.unread.append(Unread(line=said.line, reason=f"not kept: {error.message}"))

    # --- what is no message ---

    def _note(self, noted: Noted) -> None:
        if noted.kind == LEFT_BRANCH:
            self._left.add(noted.message)
            self._erased.gone.see(noted)
        is_behind = self._at == len(self._places) and not self._is_back
        if noted.key in self._notes or self._erased.was_note(noted, is_behind=is_behind):
            self._teller.pass_over()
            return
        if self._erased.may_be(noted):
            self._left_out += 1
            return
        self._tell()
        ids = tuple(filter(None, noted.ids))
        self._batch.note(noted.kind, noted.data, self._by, _stamp(noted), ids)

    def _sum(self, summed: Summed) -> None:
        """Lets the text stand for the page as it is; where it cannot, it is a message."""
        if summed.key in self._seen or self._is_known(summed):
            return
        self._batch.write()
        note = _adopted(summed)
        try:
            self._batch.adopt(summed.text, note, self._by, summed.at_ms)
        except Invalid:
            self._batch.message(spoken(summed), _stamp(summed), ids=note.ids)
        self.tally.count(summed.key, self._batch.written)


def _adopted(entry: Entry) -> Note:
    ids = tuple(filter(None, entry.ids))
    return Note(kind=ADOPTED, data={"line": entry.line}, key=entry.key, ids=ids)


def _stamp(entry: Entry) -> Stamp:
    return Stamp(entry.at_ms, entry.key)
