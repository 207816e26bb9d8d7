"""What a `Context` can be asked about its past: originals, outputs, hits, reasons, the log itself.
Nothing here writes to the log.

`Context` is built on this. What only some callers need (outputs, tools for the model, the index) is
made when it is first asked for. Neighbours: `unfolding`, `outputs`, `toolbox`, `searching`,
`tracing`, `transfer` do the work.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from refold.core.model import Artifact, Event, Totals
from refold.errors import Invalid
from refold.log.undo import restoring

if TYPE_CHECKING:
    from refold.artifacts.intake import Desk
    from refold.artifacts.outputs import Outputs
    from refold.config import Config
    from refold.core.budget import Budget
    from refold.engine.toolbox import Toolbox
    from refold.log.log import Log
    from refold.log.notices import Guard, Notices
    from refold.log.points import Difference, Point, Restored
    from refold.log.trace import Trace
    from refold.log.unfold import Unfolded
    from refold.search.embedders import Embedder
    from refold.search.hits import Hit
    from refold.search.searcher import Searcher
    from refold.stores.protocol import Store
    from refold.tokens.models import Model


class Past:
    """The reading side of a conversation that is held open."""

    conversation: str
    config: Config
    _store: Store
    _log: Log
    _guard: Guard
    _notices: Notices
    _desk: Desk
    _budget: Budget
    _model: Model
    _embedder: Embedder | bool | None
    _closed = False

    # --- originals ---

    def why(self, seq: int) -> list[Trace]:
        """Every event that hid, changed, pinned or brought back a message, or changed the file
        it shows, oldest first, with its time and reason."""
        from refold.log.trace import traced

        with self._guard:
            self._catch_up()
            return traced(self._log, seq, self.config)

    def unfold(
        self, handle: str | int, *, level: str = "full", lines: tuple[int, int] | None = None
    ) -> Unfolded:
        """The originals behind a handle: `#41`, `#41-58`, `art-…`. Levels of a summary: line,
        paragraph, full."""
        from refold.log.unfold import unfolded

        with self._guard:
            self._catch_up()
            return unfolded(
                self._log, self.outputs.named(str(handle)), str(handle), level=level, lines=lines
            )

    def events(self, *, after: int = 0, limit: int = 1_000) -> list[Event]:
        """The log itself, a page at a time."""
        with self._guard:
            self._check_open()
            if self._log.state.head == 0:
                return []
            return self._store.read(self.conversation, after=after, limit=limit)

    def export(self, path: str, *, secrets: bool | None = None) -> None:
        """Writes the conversation to a file, by its ending: `.json`, whole, to be imported
        again; `.md`, to be read, without secrets. `secrets=True` leaves them in, `False` takes
        them out of `.json`, too, which is another log then."""
        from refold.conversations.transfer import export_file
        from refold.redaction import is_redacted, takes_emails

        redact = self.config.redact
        shown = True if secrets is None and not is_redacted(redact, "exports") else secrets
        with self._guard:
            self._check_open()
            export_file(
                self._store,
                self.conversation,
                path,
                force=True,
                secrets=shown,
                emails=takes_emails(redact),
            )

    # --- points to go back to ---

    def points(self, *, every: int = 10, keep: int = 5, hours: float = 24.0) -> list[Point]:
        """Where `restore` can go, newest first: checkpoints by name, every so many messages, and
        before each compaction, undo and restore. Those without a name are listed for so many
        hours, the newest `keep` for ever; any other seq can be restored as well."""
        from refold.log.points import points_of

        with self._guard:
            self._catch_up()
            events = self._log.read() if self._log.state.head else ()
            return points_of(events, self._log.clock(), every=every, keep=keep, hours=hours)

    def diff(self, first: int | str, last: int | str | None = None) -> Difference:
        """What the page at one point (a seq or a checkpoint) shows otherwise than at another;
        `last` is the head."""
        from refold.log.points import difference

        with self._guard:
            self._catch_up()
            start = restoring(self._log.state, first).seq
            end = self._log.state.head if last is None else restoring(self._log.state, last).seq
            return difference(self._log, start, end, self.config)

    def plan_restore(self, to: int | str) -> Restored:
        """What `restore` would switch off. Changes nothing."""
        from refold.log.points import restored

        with self._guard:
            self._catch_up()
            return restored(self._log, restoring(self._log.state, to).seq, self.config)

    @cached_property
    def _inherited(self) -> Totals:
        """What had been billed to the parent where this conversation left it; nothing unless it
        is a fork."""
        from refold.engine.stats import inherited_totals

        with self._guard:
            self._catch_up()
            left = (
                self._store.conversation(self.conversation).parent_seq
                if self._log.state.head
                else 0
            )
            return inherited_totals(self._log.read(0, left))

    # --- outputs ---

    @cached_property
    def outputs(self) -> Outputs:
        """The large outputs: list, select, grep, clean."""
        from refold.artifacts.outputs import Outputs

        return Outputs(self._log, self._guard, self._catch_up)

    def artifacts(self, *, task: str | None = None, query: str | None = None) -> list[Artifact]:
        """The artifacts of the conversation, in order; contents are not read. `outputs.list`
        tells more of each."""
        return [output.artifact for output in self.outputs.list(task=task, query=query)]

    # --- search ---

    def search(
        self, query: str, *, limit: int = 10, everywhere: bool = False, **filters: Any
    ) -> list[Hit]:
        """The places that answer a query best, on the page or off it: `.seq`, `.snippet`,
        `.score`. `"…"` makes a phrase. Filters: newest, role, tool, kind, since, until;
        `everywhere` looks in all conversations."""
        self._check_open()
        if not everywhere and not self._log.state.head:
            return []
        filters["conversation"] = None if everywhere else self.conversation
        try:
            return self._searcher.search(query, limit=limit, **filters)
        finally:
            self._notices.tell()

    @cached_property
    def _searcher(self) -> Searcher:
        from refold.search.searcher import Searcher

        # No lock is taken to note what it says: it speaks while it holds its own.
        return Searcher(
            self._store,
            embedder=self._embedder,
            tell=lambda name, reason: self._notices.add(name, reason=reason),
        )

    # --- tools for the model ---

    def tools(self, dialect: str | None = None) -> list[dict[str, Any]]:
        """Definitions of the tools by which the model reaches what its page no longer shows: add
        them to your own."""
        return self._toolbox.tools(dialect or self._dialect_name())

    def call(self, name: str, arguments: Any = None) -> str:
        """Runs one of `tools`. Whatever happens, the answer is a text for the model, and small
        enough for its page."""
        return self._toolbox.call(name, arguments)

    @cached_property
    def _toolbox(self) -> Toolbox:
        from refold.engine.toolbox import Toolbox

        return Toolbox(
            self.outputs,
            counter=self._desk.counter,
            search=lambda query, limit: self.search(query, limit=limit),
            tokens_max=lambda: min(self._desk.result_tokens_max, self._budget.window // 8),
        )

    # --- inside ---

    def _dialect_name(self) -> str:
        """The configured dialect, else the model's, else that of the last reply."""
        if named := self.config.dialect or self._model.dialect:
            return named
        slots = reversed(self._log.state.slots)
        return next(
            (
                s.message.dialect
                for s in slots
                if s.message.role == "assistant" and s.message.dialect
            ),
            "openai_chat",
        )

    def _catch_up(self) -> None:
        self._check_open()
        self._log.catch_up()

    def _check_open(self) -> None:
        if self._closed:
            raise Invalid(
                f"the context {self.conversation!r} is closed",
                hint="open it again with refold.open",
            )
