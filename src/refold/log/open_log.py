"""An open log: its lock, its notices, and the only way to write to it.

Every part of a `Context` receives this and plain values, never the `Context`. `reading` gives the
current fold, with the events of other writers; `write` appends bodies computed from it. Metadata
set by `update` waits in `pending` for the next write, so that opening a conversation writes
nothing. `settled` is called after every change, with the lock held; listeners are called after it
is released. When a history forks, the log continues in another conversation (`move`). Neighbours:
`log` (the store and the fold, without a lock), `notices`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from msgspec.structs import replace

from refold.config import Config, config_for
from refold.core.fold import Fold, merged
from refold.core.model import Body, Event, Meta, View
from refold.errors import Denied, Invalid, NotFound
from refold.log.draft import Draft
from refold.log.log import Fresh, Log, check_expected
from refold.log.notices import Notice, NoticeName, Notices, SyncNews
from refold.log.stored_logs import open_id_checked
from refold.log.undo import checkpointing, restoring
from refold.redaction import redactor
from refold.stores import is_read_only, synced_of
from refold.stores.protocol import Store
from refold.tokens.counter import Count, counter_for, forgiving
from refold.tokens.models import model_info

Moment = Literal["append", "turn"]


class Guard:
    """A reentrant lock. Notices are delivered once its holder has released it for good, so that
    listeners are called with no lock held."""

    def __init__(self, notices: Notices) -> None:
        self._lock, self._depth, self._notices = threading.RLock(), 0, notices

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        is_released = self._depth == 0
        self._lock.release()
        if is_released and self._notices.waiting:
            self._notices.tell()


class OpenLog:
    """One conversation's log, shared by threads."""

    def __init__(
        self,
        store: Store,
        conversation: str,
        config: Config,
        *,
        counter: Count | str | None = None,
        model: str | None = None,
    ) -> None:
        self.id = open_id_checked(conversation)
        self.store, self.configured = store, config
        self.is_read_only = is_read_only(store)
        synced = synced_of(store)
        self._sync_news = SyncNews(synced) if synced is not None else None
        self.notices = Notices(redactor(config.redact, "logs"))
        self.guard = Guard(self.notices)
        self.log = Log(store, conversation)
        self.redacts = self.log.redacts
        self.counter_given = counter
        self._miscount_reported = False
        self.count_for(model or self.state.meta.model)
        self._openings = self.log.openings
        self.pending: list[Draft] = []
        self.opening: list[Draft] = []  # pending drafts of the opening alone
        self.settled: Callable[[], None] = lambda: None
        self.moved: list[Callable[[], None]] = []
        self.closed = False
        self._recovered_reported = 0
        self._report_recovered()
        if ended_at := self.log.ended_at:
            what = f"the log ends at event {self.state.head}, but it had {ended_at}"
            self.notify("storage-recovered", f"{what}: later events are lost")
        self._report_sync()

    @property
    def state(self) -> Fold:
        """The fold at the last head read."""
        if self.log.hollow:
            self.log.restore_blocks()
        return self.log.state

    @property
    def sums(self) -> Fold:
        """Like `state`, but only for sizes, names and the head: its messages may lack their
        blocks."""
        return self.log.state

    @property
    def metadata(self) -> Meta:
        """The metadata of the conversation, pending changes included."""
        meta = self.sums.meta
        for draft in self.pending:
            if isinstance(draft.body, Meta):
                meta = merged(meta, self.sums.resolved(draft.body))
        return meta

    def view(self) -> View:
        """The page, with pending metadata included."""
        view = self.state.view()
        if not self.pending:
            return view
        system_tokens, tools_tokens = view.system_tokens, view.tools_tokens
        for draft in self.pending:
            if not isinstance(draft.body, Meta):
                continue
            if draft.body.system is not None or draft.body.system_seq is not None:
                system_tokens = draft.tokens
            if draft.body.tools is not None or draft.body.tools_seq is not None:
                tools_tokens = draft.tokens
        meta = self.metadata
        return replace(
            view,
            title=meta.title or "",
            tags=meta.tags or (),
            metadata=meta.metadata or {},
            names=meta.names or (),
            model=meta.model or "",
            system=meta.system,
            tools=meta.tools,
            system_tokens=system_tokens,
            tools_tokens=tools_tokens,
        )

    def view_at(self, to: int | str) -> View:
        """The page as it was at a seq, a checkpoint or a handle."""
        with self.reading() as state:
            return self.log.past.at(restoring(state, to).seq).view()

    # --- reading ---

    @contextmanager
    def reading(self) -> Iterator[Fold]:
        """The fold with the events of all writers, while the lock is held."""
        with self.guard:
            self.catch_up()
            yield self.state

    @contextmanager
    def deciding(self, expect: int | None) -> Iterator[Fold]:
        """Like `reading`, for an act that was decided at the head `expect` (None: at any head).
        Raises Conflict if the log has moved on, even if that happens just before the act's first
        append."""
        with self.reading() as state:
            if expect is None:
                yield state
                return
            self.check_expected(expect)
            self.log.expect = expect
            try:
                yield state
            finally:
                self.log.expect = None

    def check_expected(self, expect: int | None) -> None:
        """Raises Conflict if the log is not at this head."""
        check_expected(self.id, self.sums.head, expect)

    def catch_up(self) -> None:
        """Reads the events of other writers, and calls `settled` if there were any."""
        self.check_open()
        grew = self.log.catch_up()
        self._follow()
        self._report_recovered()
        self._report_sync()
        if grew:
            self.settled()

    def count_for(self, model: str | None) -> None:
        """Switches to the counter of another model, unless the caller gave one, and to the settings
        for it."""
        self.counter = forgiving(counter_for(self.counter_given, model), self._report_miscount)
        names = (model or "", model_info(model).name)
        self.config = config_for(self.configured, names)

    def _report_miscount(self, reason: str) -> None:
        """Reports a failed counter, only once."""
        if not self._miscount_reported:
            self._miscount_reported = True
            self.notify("counter-failed", f"{reason}; tokens are estimated instead")

    def check_open(self) -> None:
        if self.closed:
            raise Invalid(
                f"the context {self.id!r} is closed", hint="open it again with refold.open"
            )

    def check_writable(self) -> None:
        """Raises Denied if the conversation is open for reading only."""
        self.check_open()
        if self.is_read_only:
            what = f"the context {self.id!r} is open for reading only"
            raise Denied(what, hint="open it without read_only=True to write")

    # --- writing ---

    def draft(
        self, body: Body, tokens: int = 0, by: str = "user", at_ms: int | None = None
    ) -> Draft:
        """The body as a draft, ready to append."""
        if isinstance(by, str) and not by.isascii():
            # A tool's name is data and may contain anything.
            by = by.encode("utf-8", "replace").decode()
        counter = self.counter.name if tokens else ""
        return Draft(body=body, by=by, tokens=tokens, counter=counter, at_ms=at_ms)

    def append(
        self, drafts: Sequence[Draft], *, fresh: Fresh | None = None, at_ms: int | None = None
    ) -> list[Event]:
        """Appends pending drafts and these, all or nothing, with their own time, else `at_ms` or
        now. Writes nothing if they no longer fit, according to `fresh`."""
        self.check_writable()
        pending, self.pending = self.pending, []
        try:
            events = self.log.append([*pending, *drafts], fresh=fresh, at_ms=at_ms)
        except BaseException:
            self.pending = pending
            raise
        finally:
            self._follow()
        if not events:
            self.pending = pending
            return []
        if every := self.config.checkpoint_every:
            messages = sum(event.kind == "message" for event in events)
            checkpoint = checkpointing(self.sums, messages, every)
            if checkpoint is not None:
                self.log.append([self.draft(checkpoint)])
        self.sync("append")
        self.settle()
        return events[len(pending) :]

    def write(
        self, bodies: Callable[[Fold], Sequence[Body]], expect: int | None = None
    ) -> list[Event]:
        """Appends bodies computed from the current log, which must be at the head `expect`."""
        with self.deciding(expect) as state:
            drafts = [self.draft(body) for body in bodies(state)]
            return self.append(drafts) if drafts else []

    def write_pending(self) -> None:
        """Writes pending drafts, unless the log is still empty: they do not begin a log on their
        own."""
        if self.pending and self.sums.head and not self.is_read_only:
            self.append([])

    def move(self, conversation: str) -> None:
        """Switches to another conversation of the store, after writing pending drafts here. Calls
        `moved`, so that state kept for this one is dropped."""
        with self.guard:
            self.check_writable()
            self.write_pending()
            self.log.keep_bookmark()
            self.log.open(open_id_checked(conversation))
            self.pending = []
            self._switch_conversation()
            self.settle()

    def _follow(self) -> None:
        """Switches conversations with the log, if a sync has replaced it."""
        if self.log.openings == self._openings:
            return
        before = self.id
        self._switch_conversation()
        if self.id != before:
            reason = f"{before!r} also grew elsewhere: this log continues as {self.id!r}"
            self.notify("sync-forked", reason, conversation=before, fork=self.id)

    def _switch_conversation(self) -> None:
        self.id, self._openings = self.log.conversation, self.log.openings
        for forget in self.moved:
            forget()
        self.count_for(self.state.meta.model)

    # --- after a change ---

    def settle(self) -> None:
        """Calls `settled`, and reports torn tails and a failed bookmark."""
        self._report_recovered()
        self._report_bookmark()
        self.settled()

    def _report_recovered(self) -> None:
        """Reports torn tails that the store has moved aside."""
        recovered = self.store.recovered
        if len(recovered) == self._recovered_reported:
            return
        for tail in recovered[self._recovered_reported :]:
            if tail.conversation == self.id:
                size = f"{tail.size_bytes:,} bytes that are not a whole event"
                self.notify("storage-recovered", f"{size} were moved to {tail.file}")
        self._recovered_reported = len(recovered)

    def _report_bookmark(self) -> None:
        """Reports once why the next open must read the whole log."""
        fault, self.log.bookmark_fault = self.log.bookmark_fault, ""
        if fault:
            self.notify(
                "bookmark-failed", f"all events are safe, but no bookmark was stored: {fault}"
            )

    def _report_sync(self) -> None:
        """Reports a new sync state of this conversation."""
        if self._sync_news is not None:
            notice = self._sync_news.notice(self.id)
            if notice is not None:
                self.notices.add(notice)

    def notify(self, name: NoticeName, reason: str, **details: Any) -> None:
        """Queues a notice with a reason and details only."""
        self.notices.add(Notice(name=name, reason=reason, details=details))

    def sync(self, moment: Moment) -> None:
        """Flushes the store, if the configured durability requires it at this moment."""
        if self.config.durability in (moment, "append"):
            self.store.flush()

    # --- closing ---

    def close(self, finish: Callable[[], None]) -> None:
        """Stores the bookmark and flushes, after `finish`. Closing twice is fine, and so is closing
        a conversation deleted meanwhile."""
        try:
            if self.sums.head:
                # A reader must not decide metadata for later writers.
                if self.pending is not self.opening:
                    self.write_pending()
                finish()
                if not self.is_read_only:
                    self.log.keep_bookmark()
                self._report_bookmark()
            self.store.flush()
        except NotFound:
            if self.store.head(self.id) is not None:
                raise
        finally:
            self.closed = True
