"""A log that is held open: its one lock, its notices, and the only way to write to it.

Every part of a `Context` is given this and values, never the `Context`. `reading` gives the fold as
it is now, with what other writers appended; `write` appends what follows from it. What `update` set
waits in `pending` until something is written, so that opening a conversation writes nothing.
`settled` is called after every change, with the lock held; listeners are told after it is released.
Where a history forks, the log goes on in another conversation (`move`).
Neighbours: `log` (the store and the fold, without a lock), `notices`.
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
from refold.log.log import Fresh, Log
from refold.log.notices import Notice, NoticeName, Notices, SyncNews
from refold.log.trace import open_id_checked
from refold.log.undo import checkpointing
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
    """One conversation's log, for threads that share it."""

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
        self.store, self._configured = store, config
        self.is_read_only = is_read_only(store)
        synced = synced_of(store)
        self._sync_news = SyncNews(synced) if synced is not None else None
        self.notices = Notices(redactor(config.redact, "logs"))
        self.guard = Guard(self.notices)
        self.log = Log(store, conversation)
        self.redacts = self.log.redacts
        self._counter_given = counter
        self._miscount_told = False
        self.count_for(model or self.state.meta.model)
        self._openings = self.log.openings
        self.pending: list[Draft] = []
        self.opening: list[Draft] = []  # what is pending because the opening said it, and only that
        self.settled: Callable[[], None] = _do_nothing
        self.moved: list[Callable[[], None]] = []
        self.closed = False
        self._recovered_told = 0
        self._report_recovered()
        self._report_shorter()
        self._report_sync()

    @property
    def state(self) -> Fold:
        """The fold at the head, as far as it has been read."""
        if self.log.hollow:
            self.log.fill()
        return self.log.state

    @property
    def sums(self) -> Fold:
        """The same for questions about sizes, names and the head: its messages may have been let
        go."""
        return self.log.state

    @property
    def known(self) -> Meta:
        """What the log says of the conversation once everything pending is written."""
        known = self.sums.meta
        for draft in self.pending:
            if isinstance(draft.body, Meta):
                known = merged(known, self.sums.spelt_out(draft.body))
        return known

    def view(self) -> View:
        """The page, named as the log will name it once everything pending is written."""
        view = self.state.view()
        if not self.pending:
            return view
        known = self.known
        sized = self._pending_tokens(view)
        return replace(
            view,
            title=known.title or "",
            tags=known.tags or (),
            metadata=known.metadata or {},
            names=known.names or (),
            model=known.model or "",
            system=known.system,
            tools=known.tools,
            system_tokens=sized[0],
            tools_tokens=sized[1],
        )

    def _pending_tokens(self, view: View) -> tuple[int, int]:
        """The sizes of the system prompt and of the tools, once what is pending is written."""
        system, tools = view.system_tokens, view.tools_tokens
        for draft in self.pending:
            if not isinstance(draft.body, Meta):
                continue
            if draft.body.system is not None or draft.body.system_seq is not None:
                system = draft.tokens
            if draft.body.tools is not None or draft.body.tools_seq is not None:
                tools = draft.tokens
        return system, tools

    # --- reading ---

    @contextmanager
    def reading(self) -> Iterator[Fold]:
        """The fold with everything that other writers appended, while the lock is held."""
        with self.guard:
            self.catch_up()
            yield self.state

    def catch_up(self) -> None:
        """Reads what other writers appended, and lets those who follow the log look at it."""
        self.check_open()
        grew = self.log.catch_up()
        self._follow()
        self._report_recovered()
        self._report_sync()
        if grew:
            self.settled()

    def count_for(self, model: str | None) -> None:
        """Counts for another model from here on, unless the caller brought a counter, and takes
        the settings that are for it."""
        self.counter = forgiving(counter_for(self._counter_given, model), self._report_miscount)
        names = (model or "", model_info(model).name)
        self.config = config_for(self._configured, names)

    def _report_miscount(self, reason: str) -> None:
        """Said once, however many models and texts there are."""
        if not self._miscount_told:
            self._miscount_told = True
            self.notify("counter-failed", f"{reason}; the estimate counts in its place")

    def check_open(self) -> None:
        if self.closed:
            raise Invalid(
                f"the context {self.id!r} is closed", hint="open it again with refold.open"
            )

    def check_writable(self) -> None:
        """Denied, before anything is done for it, if the conversation is only read."""
        self.check_open()
        if self.is_read_only:
            said = f"the context {self.id!r} is open for reading only"
            raise Denied(said, hint="open it without read_only=True to write")

    # --- writing ---

    def draft(
        self, body: Body, tokens: int = 0, by: str = "user", at_ms: int | None = None
    ) -> Draft:
        """A body that is ready to be appended."""
        if isinstance(by, str) and not by.isascii():
            # A tool's name is data and may hold anything.
            by = by.encode("utf-8", "replace").decode()
        counter = self.counter.name if tokens else ""
        return Draft(body=body, by=by, tokens=tokens, counter=counter, at_ms=at_ms)

    def append(
        self, drafts: Sequence[Draft], *, fresh: Fresh | None = None, at_ms: int | None = None
    ) -> list[Event]:
        """Writes the drafts on top of the log, after what is pending; all or nothing, dated as
        they say, else `at_ms` or now. Nothing is written if `fresh` says that they no longer
        fit."""
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
        if self.config.checkpoint_every:
            self._append_checkpoint(sum(event.kind == "message" for event in events))
        self.sync("append")
        self.settle()
        return events[len(pending) :]

    def write(self, bodies: Callable[[Fold], Sequence[Body]]) -> list[Event]:
        """Appends what follows from the log as it is now."""
        with self.reading() as state:
            drafts = [self.draft(body) for body in bodies(state)]
            return self.append(drafts) if drafts else []

    def write_pending(self) -> None:
        """Writes what is pending; a conversation that has nothing else yet is not begun by
        that."""
        if self.pending and self.sums.head and not self.is_read_only:
            self.append([])

    def _append_checkpoint(self, messages: int) -> None:
        checkpoint = checkpointing(self.sums, messages, self.config.checkpoint_every)
        if checkpoint is not None:
            self.log.append([self.draft(checkpoint)])

    def move(self, conversation: str) -> None:
        """Goes on in another conversation of the store. Whoever keeps something of this one is in
        `moved` and forgets it; what is pending is written here first."""
        with self.guard:
            self.check_writable()
            self.write_pending()
            self.log.keep_bookmark()
            self.log.open(open_id_checked(conversation))
            self.pending = []
            self._go_on()
            self.settle()

    def _follow(self) -> None:
        """Goes on where the log went on, if a sync has put another in its place."""
        if self.log.openings == self._openings:
            return
        before = self.id
        self._go_on()
        if self.id != before:
            said = f"{before!r} grew elsewhere too: what was said here continues as {self.id!r}"
            self.notify("sync-forked", said, conversation=before, fork=self.id)

    def _go_on(self) -> None:
        self.id, self._openings = self.log.conversation, self.log.openings
        for forget in self.moved:
            forget()
        self.count_for(self.state.meta.model)

    # --- after a change ---

    def settle(self) -> None:
        """Lets those who follow the log look at it, and reports torn tails, and a bookmark that
        could not be kept."""
        self._report_recovered()
        self._report_bookmark()
        self.settled()

    def _report_recovered(self) -> None:
        """Says which torn tails the store has moved aside."""
        recovered = self.store.recovered
        if len(recovered) == self._recovered_told:
            return
        for one in recovered[self._recovered_told :]:
            if one.conversation == self.id:
                size = f"{one.size_bytes:,} bytes that are not a whole event"
                self.notify("storage-recovered", f"{size} were moved to {one.file}")
        self._recovered_told = len(recovered)

    def _report_shorter(self) -> None:
        """Says that the log once had more events than it has now."""
        if ended_at := self.log.ended_at:
            what = f"the log ends at event {self.state.head}, but it had {ended_at}"
            self.notify("storage-recovered", f"{what}: what came after is lost")

    def _report_bookmark(self) -> None:
        """Says once why the next open will have to read the whole log."""
        fault, self.log.bookmark_fault = self.log.bookmark_fault, ""
        if fault:
            self.notify("bookmark-failed", f"what was written is kept, but not a bookmark: {fault}")

    def _report_sync(self) -> None:
        """Says how a sync left this conversation, if it stands otherwise than before."""
        if self._sync_news is not None:
            notice = self._sync_news.notice(self.id)
            if notice is not None:
                self.notices.add(notice)

    def notify(self, name: NoticeName, reason: str, **details: Any) -> None:
        """Queues a plain notice."""
        self.notices.add(Notice(name=name, reason=reason, details=details))

    def sync(self, moment: Moment) -> None:
        """Syncs, if the configured durability asks for it at this moment."""
        if self.config.durability in (moment, "append"):
            self.store.flush()

    # --- the end ---

    def close(self, finish: Callable[[], None]) -> None:
        """Keeps the bookmark and syncs, after `finish`. Closing twice is fine, and so is closing
        a conversation that was deleted meanwhile."""
        try:
            if self.sums.head:
                # Who opened it and only read has decided nothing for those who go on.
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


def _do_nothing() -> None:
    """Nobody follows the log."""
