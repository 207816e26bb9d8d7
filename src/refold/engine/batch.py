"""Many things that go into a log together: one write, one transaction, one look at the model.

Drafts are made as if those before them were in the log already. Nothing is written before `write`;
then all of it is, or nothing: if somebody else wrote to the log meanwhile, `Overtaken` says so, and
what was to be written is to be made again from what the log says now. So this is for an import,
which knows by its keys what a log has. Neighbours: `recorder` parses and drafts, `log.open_log`
appends, `edges.importers` fills batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from refold.core.laws import CONTINUES
from refold.core.model import Event, Message, Note, Revert, Span, Usage
from refold.engine.context import Context
from refold.log.draft import Draft, Run
from refold.log.notes import Stamp
from refold.stores.protocol import Overtaken
from refold.tokens.models import beyond

HELD_BYTES_MAX = 16 << 20  # of what was written, until the page is let go


class Batch:
    """What is to be appended to one log. `is_full` says that it is time to write."""

    def __init__(self, context: Context) -> None:
        self._log, self._model = context._open, context._model
        self._recorder, self._compactor = context._recorder, context._compactor
        self._held = 0
        self.written = 0  # events
        self._is_single = bool(context.config.checkpoint_every)
        self._forget()

    def _forget(self) -> None:
        self._run = Run(is_single=self._is_single)
        self._ahead: list[Message] = []
        self._responses: set[str] = set()
        self._head = 0

    @property
    def head(self) -> int:
        """The head of the log, without what was only taken."""
        return self._log.sums.head

    @property
    def metadata(self) -> dict[str, Any]:
        """What the log says of the conversation, with what is still to be written."""
        return self._log.known.metadata or {}

    @property
    def is_full(self) -> bool:
        return self._run.is_full

    def message(
        self, message: Any, stamp: Stamp, *, ids: tuple[str, ...] = (), continues: bool = False
    ) -> bool:
        """Takes a message in any provider's shape, or the rest of the reply that was said before;
        `ids` are those of its lines. False if there is nothing in it."""
        parsed = self._recorder.parse(message, self._ahead)
        parsed = [replace(one, key=stamp.key, ids=ids) for one in parsed]
        if continues:
            parsed = [replace(one, metadata={**one.metadata, CONTINUES: True}) for one in parsed]
        before = len(self._ahead)
        drafts = self._recorder.drafts_after(self._ahead, parsed, None, stamp)
        self._take(drafts, self._ahead[before:])
        return bool(drafts)

    def note(self, kind: str, data: Any, by: str, stamp: Stamp, ids: tuple[str, ...] = ()) -> None:
        """Takes something that is no message; `data` is plain JSON."""
        note = Note(kind=kind, data=data, key=stamp.key, ids=ids)
        self._take([self._log.draft(note, by=by, at_ms=stamp.at_ms)])

    def adopt(self, text: str, note: Note, by: str, at_ms: int | None) -> None:
        """Lets a text stand for the page as it is, and notes it, in one write. Overtaken, and
        nothing written, if the log has grown; Invalid if the text cannot stand for it."""
        self.write()
        head, draft = self.head, self._log.draft(note, by=by, at_ms=at_ms)
        with self._log.reading() as state:
            slots = state.slots
            span = Span(slots[0].seq, slots[-1].last) if slots else Span(0, 0)
        if not self._compactor.take_over(span, text, by, [draft], head).batch:
            raise self._overtaken()
        self.written += 2

    def usage(self, usage: Usage, at_ms: int | None, before: Usage | None = None) -> Usage:
        """Takes what a response was billed, for a page that was not ours: no size follows from it.
        If it was billed `before`, what comes to that. Gives what it was billed now, with cost."""
        if before is None and self.is_billed(usage):
            return usage
        whole = self._model.received(usage, upto=0, replied=False)
        billed = whole if before is None else beyond(whole, before)
        self._take([self._log.draft(billed, by="model", at_ms=at_ms)])
        self._responses.add(usage.response)
        return whole

    def is_billed(self, usage: Usage) -> bool:
        """Whether the response was billed before."""
        id = usage.response
        return bool(id) and (id in self._responses or id in self._log.sums.responses)

    def take_off(self, reverts: Iterable[Revert], by: str) -> None:
        """Takes what switches other events off."""
        for revert in reverts:
            self._take([self._log.draft(revert, by=by)])

    def _take(self, drafts: list[Draft], said: Sequence[Message] = ()) -> None:
        if not self._run.drafts:
            self._head = self._log.sums.head
        if not self._run.take(drafts):
            self.write()
            self._ahead += said
            self._take(drafts)

    def write(self) -> list[Event]:
        """Appends what was taken. Overtaken, and nothing written, if the log has grown since."""
        drafts = self._run.drafts
        if not drafts:
            return []
        with self._log.guard:
            self._log.pending = self._at_their_time(self._log.pending)
            is_next = self._log.sums.head == self._head
            events = self._log.append(drafts, fresh=lambda _: False) if is_next else []
            if not events:
                self._log.pending = []  # what was to be told is made again as well
        if not events:
            raise self._overtaken()
        self.written += len(events)
        self._held += self._run.size_bytes
        if self._held > HELD_BYTES_MAX:
            self._log.log.let_go()
            self._held = 0
        self._forget()
        return events

    def _overtaken(self) -> Overtaken:
        return Overtaken(f"{self._log.id}: somebody else wrote to it meanwhile", hint="begin again")

    def _at_their_time(self, pending: list[Draft]) -> list[Draft]:
        """What is to be said before this, at the time of what it is said of: a conversation begins
        when its session did."""
        first = next((draft.at_ms for draft in self._run.drafts if draft.at_ms is not None), None)
        return [replace(draft, at_ms=first) for draft in pending]
