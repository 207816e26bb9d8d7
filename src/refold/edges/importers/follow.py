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

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, assert_never

from msgspec.structs import replace

from refold.core.codec import decode
from refold.core.model import Revert, Summarize, Usage
from refold.edges.importers.entry import (
    LEFT_BRANCH,
    About,
    Billed,
    Entry,
    Noted,
    Rewound,
    Said,
    Summed,
    Unread,
)
from refold.edges.importers.known import (
    ADOPTED,
    REWOUND,
    UNREAD,
    Known,
    Place,
    events_of,
    is_touched,
    known,
)
from refold.edges.importers.lines import digest
from refold.edges.importers.parts import (
    MORE,
    ROOM_CHARS,
    continuing,
    cut,
    is_of,
    parts_in,
    written,
)
from refold.edges.importers.tell import Teller
from refold.engine.batch import Batch
from refold.engine.context import Context
from refold.errors import Invalid
from refold.log.keys import KEY_CHARS_MAX, Stamp
from refold.tokens.billed import is_more, most

SomeEntry = TypeVar("SomeEntry", bound=Entry)
Placed = Said | Summed | Rewound  # what has a place in the order of the file


class Follower:
    """Writes the entries of one session to one conversation, which has `held` of them. `unread`
    tells what it could not take."""

    def __init__(self, context: Context, by: str, held: Known) -> None:
        self.context, self._by = context, by
        self.unread: list[Unread] = []
        self._batch = Batch(context)
        self._teller = Teller(context, self._batch, held, self.unread)
        self._places, self._notes, self._erased_notes = held.places, held.notes, held.erased_notes
        self._was_erased = held.was_erased
        self._more, self._billed = held.more, held.billed
        self._again: set[str] = set()  # what is written once more, since a message grew
        self._grown_at = 0  # the seq at which the log was before that
        self._at = 0  # how many of the places the file has had so far
        self._seen: dict[str, int] = {}  # what the file has had, and a seq that it is not before
        self._is_new = False  # whether the message that was read last is
        self._left: set[str] = set()
        self.messages = self.new = self.restored = 0
        self.left_at = 0  # the seq at which the log was before something was taken off

    @property
    def missing(self) -> int:
        """How many messages of the log the file no longer has at its end."""
        return sum(1 for place in self._places[self._at :] if place.key)

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
        if self._again:  # the file no longer has it
            self.restored += len(self._again)
            self.left_at = self.left_at or self._grown_at
        self._teller.pass_over()
        self._batch.write()

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
        elif said.parts:
            self._go_on(said)
        if said.usage is not None:
            self._record(said.usage, said.at_ms)

    def _write(self, said: Said, key: str, *, continues: bool = False) -> None:
        self._count(said)
        stamp = Stamp(said.at_ms, key)
        try:
            is_said = self._batch.message(said.message, stamp, continues=continues)
        except Invalid as error:
            self._tell_of(said, error)
            is_said = False
        if not is_said:
            self._keep(said, stamp)

    def _count(self, entry: Placed) -> None:
        self.new += entry.key not in self._again
        self._again.discard(entry.key)

    def _go_on(self, said: Said) -> None:
        """Writes what the file has more of a message than the log."""
        held = self._held_parts(said)
        if held >= said.parts:
            return
        self._batch.write()
        self._teller.tell()
        grown = self._places[self._at - 1 :]
        if is_touched(self.context, self._by, grown):
            self._again.add(said.key)
            self._write(cut(said, held, said.parts), continuing(said), continues=True)
            return
        del self._places[self._at - 1 :]
        self._at -= 1
        self._grown_at = self._batch.head
        self._again |= {place.key for place in grown[1:]} | {said.key}
        self._batch.take_off([Revert(seq=seq) for place in grown for seq in place.seqs], self._by)
        self._write(said, written(said))

    def _held_parts(self, said: Said) -> int:
        """How many parts of a message the log has, or had before they were erased."""
        place = self._places[self._at - 1]
        held = parts_in(place.key) if place.key else self._erased_parts(said, 0, place)
        for more in self._more.get(said.key, ()):
            held = max(held, parts_in(more.key))
        for place in self._places[self._at :]:
            held = held if place.key else self._erased_parts(said, held, place)
        return held

    def _erased_parts(self, said: Said, first: int, erased: Place) -> int:
        """Up to which part the log had a message, if those from `first` on are what was erased at
        this place; `first` if they are not."""
        if said.at_ms in (None, erased.at_ms):
            for last in range(first + 1, said.parts + 1):
                if self._has_size(cut(said, first, last), erased):
                    return last
        return first

    def _is_known(self, entry: Placed) -> bool:
        """Whether the log has an entry. Where the log went another way, that is taken off."""
        self.messages += not isinstance(entry, Rewound)
        place = self._place_of(entry)
        if place is not None:
            self._seen[entry.key] = place.seqs[0]
            self._teller.pass_over()
            return True
        if self._at < len(self._places):
            self._leave()
        self._teller.tell()
        self._seen[entry.key] = self._batch.head + 1
        return False

    def _place_of(self, entry: Placed) -> Place | None:
        """The place that an entry has, if the log went the same way. Of one that was erased,
        nothing is left but its time and its size: it is not brought back."""
        at = self._at
        if at == len(self._places):
            return None
        while at < len(self._places) and not self._places[at].key:
            at += 1
        erased = self._places[self._at : at]
        if at < len(self._places) and is_of(self._places[at].key, entry):
            self._at = at + 1
            return self._places[at]
        for number, place in enumerate(erased, start=self._at + 1):
            if self._was(entry, place):
                self._at = number
                return place
        self._at = at
        return None

    def _was(self, entry: Placed, erased: Place) -> bool:
        """Whether what was erased may be the entry, or the beginning of it."""
        if isinstance(entry, Said) and entry.parts:
            return self._erased_parts(entry, 0, erased) > 0
        return entry.at_ms in (None, erased.at_ms) and self._has_size(entry, erased)

    def _has_size(self, entry: Placed, erased: Place) -> bool:
        """Whether what was erased may be what the entry says, by its size. One that is too large
        for a page has the size of what stands for it."""
        if not isinstance(entry, Said):
            return False
        if erased.counter != self._batch.counter:
            return True
        counted = self._batch.count(entry.message)
        return counted == erased.tokens or counted > self._batch.whole_tokens_max

    def _leave(self) -> None:
        """Takes off what the file no longer has."""
        left = self._places[self._at :]
        del self._places[self._at :]
        self._batch.write()
        self._take_off(left)
        self._batch.write()
        self._teller.tell_again()

    def _take_off(self, left: Sequence[Place]) -> None:
        self.left_at = self._batch.head
        self.restored += len(left)
        more = [one for key, ones in self._more.items() if key not in self._seen for one in ones]
        seqs = [seq for place in (*left, *more) for seq in place.seqs]
        told = [Revert(batch=batch) for batch in self._summaries_of(min(seqs))]
        self._batch.take_off([*told, *(Revert(seq=seq) for seq in seqs)], self._by)

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
        first = min((self._seen[key] for key in rewound.keys if key in self._seen), default=0)
        places = known(self.context, self._by, after=first - 1).places if first else []
        if left := [place for place in places if place.key in rewound.keys]:
            self._take_off(left)
        self._batch.note(REWOUND, {"line": rewound.line}, self._by, _stamp(rewound))
        self._batch.write()

    def _record(self, usage: Usage, at_ms: int | None) -> None:
        """Adds what the other program was billed, once. Its page was another one, with a system
        prompt and tools that the file may not have: no size of ours follows from it."""
        before = self._billed.get(usage.response)
        if before is None and (not self._is_new or self._batch.is_billed(usage)):
            return
        whole = most(usage, before) if before else usage
        if before is not None and (self._was_erased or not is_more(whole, before)):
            return
        self._teller.tell()  # its model has a price
        billed = self._batch.usage(replace(whole, estimated=True), at_ms, before)
        if usage.response:
            self._billed[usage.response] = billed

    def _tell_of(self, entry: Entry, error: Invalid) -> None:
        self.unread.append(Unread(line=entry.line, reason=f"{error.message}; {error.hint}"))

    def _keep(self, said: Said, stamp: Stamp) -> None:
        """A message that is none, as a note in its place; a place without content, if that cannot
        be one either. What is in the file has a place in the log, so that it is known again."""
        try:
            self._batch.note(UNREAD, said.message, self._by, stamp)
        except Invalid as error:
            self._batch.note(UNREAD, None, self._by, stamp)
            self.unread.append(Unread(line=said.line, reason=f"not kept: {error.message}"))

    # --- what is no message ---

    def _note(self, noted: Noted) -> None:
        if noted.kind == LEFT_BRANCH:
            self._left.add(noted.message)
        if noted.key in self._notes or self._is_erased(noted):
            self._teller.pass_over()
            return
        self._teller.tell()
        self._batch.note(noted.kind, noted.data, self._by, _stamp(noted))

    def _is_erased(self, noted: Noted) -> bool:
        """Whether it was erased from the log, as far as its time tells: then it is not brought
        back. One without a time may be any that was."""
        erased = self._erased_notes
        at_ms = next(iter(erased), None) if noted.at_ms is None else noted.at_ms
        if at_ms is None or at_ms not in erased:
            return False
        erased -= Counter([at_ms])
        return True

    def _sum(self, summed: Summed) -> None:
        """Lets the text stand for the page as it is; where it cannot, it is a message."""
        if summed.key in self._seen or self._is_known(summed):
            return
        self._count(summed)
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


def named(entry: SomeEntry) -> SomeEntry:
    """An entry under a key that a log can have."""
    is_short = len(entry.key) <= KEY_CHARS_MAX - ROOM_CHARS
    if is_short and entry.key.isprintable() and not entry.key.startswith(MORE):
        return entry
    return replace(entry, key=digest(entry.key.encode("utf-8", "replace")))
