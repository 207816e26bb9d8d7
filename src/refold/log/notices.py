"""Notices of an open log, and their listeners.

A notice waits in a queue until the lock is free (`open_log.Guard`), so a listener may call the
context. Listeners are independent: a listener that raises is reported as `listener-failed`, and the
others are still called. A coroutine function runs to its end at once or, inside a running loop, as
its task. A warning comes once, and again after a compaction or after the page has shrunk by five
points. A sync in another thread or process leaves a record in its store: `SyncNews` reports changes
of its state, never every sync.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from refold.checked import shown
from refold.core.budget import Budget
from refold.core.plan import Receipt
from refold.display import failure, suggestion
from refold.errors import Invalid
from refold.stores.protocol import WAITING, Synced, SyncedStore, SyncState

REARM_POINTS = 5.0
WAITING_MAX = 100
EVERY_NAME = "*"
ALIKE_CHARS = 6

NoticeName = Literal[
    "artifact-kept", "auto-compacting", "bookmark-failed", "budget-unreachable", "cleanup-failed",
    "compaction-complete", "compaction-failed", "compaction-skipped", "context-critical",
    "context-warning", "counter-failed", "counter-missing", "embedder-changed", "embedder-failed",
    "hook-failed", "index-behind", "index-in-memory", "index-rebuilt", "listener-failed",
    "memory-extracted", "memory-failed", "memory-first-used", "overflow-recovered",
    "result-unasked", "setting-unused", "storage-recovered", "sync-blocked", "sync-forked",
    "sync-held", "sync-pending", "sync-synced", "unknown-model", "usage-ignored",
]  # fmt: skip
NAMES: tuple[str, ...] = get_args(NoticeName)

# Keys of notices that a compaction does not rearm.
LASTING = ("unreachable", "unknown-model")


class Notice(Struct, frozen=True, kw_only=True):
    """A message to listeners. Fields that do not apply to its name are empty."""

    name: NoticeName
    percent: float = 0.0
    tokens: int = 0
    max: int = 0
    strategy: str = ""
    before: int = 0
    after: int = 0
    reason: str = ""
    receipt: Receipt | None = None
    details: dict[str, Any] = field(default_factory=dict)


Listener = Callable[[Notice], Awaitable[None] | None]


def _similar_notices(name: str) -> str:
    """The hint for an unknown name: for one word, all notices that begin like it."""
    similar = [known for known in NAMES if known.startswith(name[:ALIKE_CHARS])]
    if "-" in name or len(name) < ALIKE_CHARS or not similar:
        return suggestion(name, NAMES)
    return f"did you mean {' or '.join(similar)}?"


class Notices:
    """The listeners, and the queue of undelivered notices."""

    def __init__(self, redact: Callable[[str], str] = str) -> None:
        self._redact = redact
        self._listeners: list[tuple[str, Listener]] = []
        self.waiting: deque[Notice] = deque(maxlen=WAITING_MAX)
        self.added_once: set[str] = set()
        self._tasks: set[Any] = set()
        self._lock = threading.Lock()

    def on(self, name: str, listener: Listener) -> Callable[[], None]:
        """Calls the listener with every notice of that name; returns a function that stops it.
        Raises Invalid for an unknown name."""
        if name not in NAMES and name != EVERY_NAME:
            raise Invalid(f"there is no notice {name!r}", hint=_similar_notices(str(name)))
        if not callable(listener):
            raise Invalid(
                f"{shown(listener)} cannot be called", hint="pass a function of one notice"
            )
        entry = (name, listener)
        with self._lock:
            self._listeners = [*self._listeners, entry]

        def off() -> None:
            with self._lock:
                self._listeners = [other for other in self._listeners if other is not entry]

        return off

    def add(self, notice: Notice) -> None:
        """Queues a notice after redaction: an error or the name of a tool may have a secret in
        it."""
        details = {
            name: self._redact(value) if isinstance(value, str) else value
            for name, value in notice.details.items()
        }
        self.waiting.append(replace(notice, reason=self._redact(notice.reason), details=details))

    def add_once(self, key: str, notice: Notice) -> None:
        """Like `add`, but only once per key until `rearm`."""
        if key not in self.added_once:
            self.added_once.add(key)
            self.add(notice)

    def rearm(self) -> None:
        """Allows notices to repeat after a compaction, which may have solved their cause."""
        self.added_once = {key for key in self.added_once if key.startswith(LASTING)}

    def watch(self, current: int, budget: Budget, *, can_help: bool = False) -> None:
        """Warns when the page is getting full, and again when it is nearly full and no compaction
        can help."""
        if current < budget.warn_at and not self.added_once:
            return
        self._watch_level("context-warning", current, budget.warn_at, budget)
        if not can_help or current < budget.critical_at:
            self._watch_level("context-critical", current, budget.critical_at, budget)

    def _watch_level(self, name: NoticeName, current: int, level: int, budget: Budget) -> None:
        percent = budget.percent(current)
        if current >= level:
            notice = Notice(name=name, percent=percent, tokens=current, max=budget.window)
            self.add_once(name, notice)
        elif percent < budget.percent(level) - REARM_POINTS:
            self.added_once.discard(name)

    def tell(self) -> None:
        """Delivers the queue; call it with no lock held. Without a listener, notices wait for the
        first one, so that those of the opening are not lost."""
        while self.waiting and self._listeners:
            try:
                notice = self.waiting.popleft()
            except IndexError:
                return  # another thread was faster
            for name, listener in self._listeners:
                if name in (notice.name, EVERY_NAME):
                    self._call(listener, notice)

    def _call(self, listener: Listener, notice: Notice) -> None:
        try:
            answer = listener(notice)
        except Exception as error:  # noqa: BLE001 - a listener is the caller's code
            self._report(notice, error)
        else:
            if answer is not None and hasattr(answer, "__await__"):
                self._run(self._finish(answer, notice))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        import asyncio

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(work)
            return
        # A loop holds only weak references to its tasks: without one here, a waiting task may
        # vanish.
        task = loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, answer: Awaitable[None], notice: Notice) -> None:
        try:
            await answer
        except Exception as error:  # noqa: BLE001 - as above
            self._report(notice, error)

    def _report(self, notice: Notice, error: Exception) -> None:
        """Reports that a listener failed, unless it failed while handling such a report."""
        if notice.name == "listener-failed":
            return
        reason = failure(error)
        self.add(Notice(name="listener-failed", reason=reason, details={"notice": notice.name}))


_SYNC_NOTICES: dict[SyncState, NoticeName] = {
    "pending": "sync-pending",
    "synced": "sync-synced",
    "forked": "sync-forked",
    "blocked": "sync-blocked",
    "held": "sync-held",
}


class SyncNews:
    """Reports changes in the sync state of one log."""

    def __init__(self, synced: SyncedStore) -> None:
        self._synced = synced
        self._mark: tuple[object, str] | None = None
        self._state: SyncState | None = None

    def notice(self, conversation: str) -> Notice | None:
        """The notice of a new sync state; None if it is unchanged. The first one only if events are
        waiting."""
        mark = self._synced.sync_mark(), conversation
        if mark == self._mark:
            return None
        is_first, self._mark = self._mark is None, mark
        synced = self._synced.last_sync(conversation)
        if synced is None or synced.state == self._state:
            return None
        self._state = synced.state
        if is_first and synced.state not in WAITING:
            return None
        details = {
            "conversation": synced.conversation,
            "pending": synced.pending,
            "fork": synced.fork,
        }
        return Notice(
            name=_SYNC_NOTICES[synced.state],
            reason=_sync_reason(synced),
            details={name: value for name, value in details.items() if value},
        )


def _sync_reason(synced: Synced) -> str:
    id, reason = repr(synced.conversation), synced.reason
    match synced.state:
        case "pending":
            return f"{synced.pending:,} events of {id} wait to be sent: {reason}"
        case "synced":
            return f"{id} is the same here and in the far store"
        case "forked":
            return f"{id} also grew elsewhere: the events written here are in {synced.fork!r}"
        case "blocked" | "held":
            return f"{id} is not sent: {reason}"
