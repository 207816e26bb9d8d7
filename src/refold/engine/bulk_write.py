"""Messages, notes and usage reports for one log, written in one transaction.

Each draft is created as if the earlier ones were already in the log. `write` writes all of them or
none. If another writer appends first, `write` raises `Overtaken`, and the caller rebuilds the batch
from the new log. Meant for imports, which recognize stored messages by their keys. Neighbours:
`recorder` parses and drafts, `log.open_log` appends, `edges.importers` fills batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from refold.core.laws import CONTINUES
from refold.core.model import Event, Message, Note, Revert, Span, Usage
from refold.engine.context import Context
from refold.log.draft import RUN_EVENTS_MAX, Draft, Run
from refold.log.notes import Stamp
from refold.stores.protocol import Overtaken
from refold.tokens.models import beyond

REVERTS_MAX = 100_000  # in one append
HELD_BYTES_MAX = 16 << 20  # written before message blocks on the page are freed


class Batch:
    """Pending additions to one log; the caller writes them once `is_full`."""

    def __init__(self, context: Context) -> None:
        self._log, self._model = context._open, context._model
        self._recorder, self._compactor = context._recorder, context._compactor
        self._held = 0
        self.written = 0  # events
        self._is_single = bool(context.config.checkpoint_every)
        self._reset()

    def _reset(self) -> None:
        self._run = Run(is_single=self._is_single)
        self._pending_messages: list[Message] = []
        self._responses: set[str] = set()
        self._head = 0

    @property
    def head(self) -> int:
        """The head of the log, without pending additions."""
        return self._log.sums.head

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the conversation, pending changes included."""
        return self._log.metadata.metadata or {}

    @property
    def is_full(self) -> bool:
        return self._run.is_full

    def message(
        self, message: Any, stamp: Stamp, *, ids: tuple[str, ...] = (), continues: bool = False
    ) -> bool:
        """Adds a message in any provider's format, or more of the reply before if it `continues`.
        `ids` are the ids of the message's lines in the file. False if the message is empty."""
        parsed = self._recorder.parse(message, self._pending_messages)
        parsed = [replace(one, key=stamp.key, ids=ids) for one in parsed]
        if continues:
            parsed = [replace(one, metadata={**one.metadata, CONTINUES: True}) for one in parsed]
        before = len(self._pending_messages)
        drafts = self._recorder.drafts_after(self._pending_messages, parsed, None, stamp)
        self._add(drafts, self._pending_messages[before:])
        return bool(drafts)

    def note(self, kind: str, data: Any, by: str, stamp: Stamp, ids: tuple[str, ...] = ()) -> None:
        """Adds a note; `data` is plain JSON."""
        note = Note(kind=kind, data=data, key=stamp.key, ids=ids)
        self._add([self._log.draft(note, by=by, at_ms=stamp.at_ms)])

    def adopt(self, text: str, note: Note, by: str, at_ms: int | None) -> None:
        """Replaces the current page with a summary and adds a note, in one write. Raises Overtaken,
        and writes nothing, if the log has grown; raises Invalid if the text cannot replace the
        page."""
        self.write()
        head, draft = self.head, self._log.draft(note, by=by, at_ms=at_ms)
        with self._log.reading() as state:
            slots = state.slots
            span = Span(slots[0].seq, slots[-1].last) if slots else Span(0, 0)
        if not self._compactor.take_over(span, text, by, [draft], head).batch:
            raise self._overtaken()
        self.written += 2

    def usage(self, usage: Usage, at_ms: int | None, before: Usage | None = None) -> Usage:
        """Adds the usage of a response to a page that refold did not render, so no size is learned
        from it. If part of the usage was billed `before`, adds only the difference. Returns the
        usage with its cost."""
        if before is None and self.is_billed(usage):
            return usage
        priced = self._model.received(usage, upto=0, replied=False)
        billed = priced if before is None else beyond(priced, before)
        self._add([self._log.draft(billed, by="model", at_ms=at_ms)])
        self._responses.add(usage.response)
        return priced

    def is_billed(self, usage: Usage) -> bool:
        """Whether the response is already billed."""
        id = usage.response
        return bool(id) and (id in self._responses or id in self._log.sums.responses)

    def take_off(self, reverts: Iterable[Revert], by: str) -> None:
        """Adds reverts of other events. Every append with reverts folds the whole log again, so one
        append takes up to `REVERTS_MAX`."""
        for revert in reverts:
            self._add([self._log.draft(revert, by=by)], events_max=REVERTS_MAX)

    def _add(
        self,
        drafts: list[Draft],
        messages: Sequence[Message] = (),
        *,
        events_max: int = RUN_EVENTS_MAX,
    ) -> None:
        """Adds drafts; writes the pending ones first if there is no room."""
        if not self._run.drafts:
            self._head = self._log.sums.head
        if not self._run.take(drafts, events_max):
            self.write()
            self._pending_messages += messages
            self._add(drafts)

    def write(self) -> list[Event]:
        """Appends everything pending. Raises Overtaken, and writes nothing, if the log has grown
        since the first draft."""
        drafts = self._run.drafts
        if not drafts:
            return []
        with self._log.guard:
            # Pending metadata gets the time of the first message, so that the conversation begins
            # when its session began.
            first = next((draft.at_ms for draft in drafts if draft.at_ms is not None), None)
            self._log.pending = [replace(draft, at_ms=first) for draft in self._log.pending]
            is_next = self._log.sums.head == self._head
            events = self._log.append(drafts, fresh=lambda _: False) if is_next else []
            if not events:
                self._log.pending = []  # the caller drafts these again, too
        if not events:
            raise self._overtaken()
        self.written += len(events)
        self._held += self._run.size_bytes
        if self._held > HELD_BYTES_MAX:
            self._log.log.drop_blocks()
            self._held = 0
        self._reset()
        return events

    def _overtaken(self) -> Overtaken:
        return Overtaken(
            f"{self._log.id}: another writer has appended to it", hint="run the import again"
        )
