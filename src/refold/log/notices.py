"""What an open log has to say: notices, and the listeners who are told.

A notice waits in a queue until nobody holds the lock (`open_log.Guard` sees to that), so a listener
may call the context back. Listeners are independent: one that raises is reported as a
`listener-failed` notice and stops nothing. A coroutine function is run to its end at once or, where
a loop runs in this thread, as a task of that loop. A warning is given once, and again after a
compaction or after the page has shrunk by five points.

How syncs leave an open log, told when it changes.

A sync happens in another thread, process or command; it leaves a record, whose mark is looked at
whenever the log is read. What is told is a change of state, never each sync: a log that is synced
again and again is so once. An opening tells only of what waits. Neighbours: `open_log` asks, the
record is that of a synced store.
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
    "artifact-kept",
    "auto-compacting",
    "bookmark-failed",
    "budget-unreachable",
    "cleanup-failed",
    "compaction-complete",
    "compaction-failed",
    "compaction-skipped",
    "context-critical",
    "context-warning",
    "counter-failed",
    "counter-missing",
    "embedder-changed",
    "embedder-failed",
    "hook-failed",
    "index-behind",
    "index-in-memory",
    "index-rebuilt",
    "listener-failed",
    "memory-extracted",
    "memory-failed",
    "overflow-recovered",
    "result-unasked",
    "setting-unused",
    "storage-recovered",
    "sync-blocked",
    "sync-forked",
    "sync-held",
    "sync-pending",
    "sync-synced",
    "unknown-model",
    "usage-ignored",
]
NAMES: tuple[str, ...] = get_args(NoticeName)

# Keys of what no compaction remedies.
LASTING = ("unreachable", "unknown-model")


class Notice(Struct, frozen=True, kw_only=True):
    """Something a caller may want to know. Fields that do not apply to its name are empty."""

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
    """The hint for a name that no notice has: of one word, all that begin like it."""
    alike = [known for known in NAMES if known.startswith(name[:ALIKE_CHARS])]
    if "-" in name or len(name) < ALIKE_CHARS or not alike:
        return suggestion(name, NAMES)
    return f"did you mean {' or '.join(alike)}?"


class Notices:
    """The listeners, and what has not been told yet."""

    def __init__(self, redact: Callable[[str], str] = str) -> None:
        self._redact = redact
        self._listeners: list[tuple[str, Listener]] = []
        self.waiting: deque[Notice] = deque(maxlen=WAITING_MAX)
        self._told_once: set[str] = set()
        self._tasks: set[Any] = set()
        self._lock = threading.Lock()

    def on(self, name: str, listener: Listener) -> Callable[[], None]:
        """Calls the listener with every notice of that name; gives the function that stops it.
        Invalid for a name that no notice has."""
        if name not in NAMES and name != EVERY_NAME:
            raise Invalid(f"there is no notice {name!r}", hint=_similar_notices(str(name)))
        if not callable(listener):
            raise Invalid(
                f"{shown(listener)} cannot be called", hint="give a function of one notice"
            )
        entry = (name, listener)
        with self._lock:
            self._listeners = [*self._listeners, entry]

        def off() -> None:
            with self._lock:
                self._listeners = [other for other in self._listeners if other is not entry]

        return off

    def add(self, notice: Notice) -> None:
        """Queues a notice, without the secrets that an error may have quoted."""
        if notice.reason:
            notice = replace(notice, reason=self._redact(notice.reason))
        self.waiting.append(notice)

    def add_once(self, key: str, notice: Notice) -> None:
        """The same, but only the first time until `rearm`."""
        if key not in self._told_once:
            self._told_once.add(key)
            self.add(notice)

    def rearm(self) -> None:
        """Allows what a compaction may have remedied to be said again."""
        self._told_once = {key for key in self._told_once if key.startswith(LASTING)}

    def watch(self, current: int, budget: Budget, *, can_help: bool = False) -> None:
        """Warns when the page is getting full, and again when it is nearly full and no compaction
        can still help."""
        if current < budget.warn_at and not self._told_once:
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
            self._told_once.discard(name)

    def tell(self) -> None:
        """Delivers what is waiting; call it with no lock held. What is said before anybody
        listens waits for the first listener, so that an opening can be heard."""
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
        # A loop holds its tasks weakly: without a reference here, one that waits may vanish.
        task = loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, answer: Awaitable[None], notice: Notice) -> None:
        try:
            await answer
        except Exception as error:  # noqa: BLE001 - as above
            self._report(notice, error)

    def _report(self, notice: Notice, error: Exception) -> None:
        """Says that a listener failed, unless it failed at being told just that."""
        if notice.name == "listener-failed":
            return
        reason = failure(error)
        self.add(Notice(name="listener-failed", reason=reason, details={"notice": notice.name}))


_NAMES: dict[SyncState, NoticeName] = {
    "pending": "sync-pending",
    "synced": "sync-synced",
    "forked": "sync-forked",
    "blocked": "sync-blocked",
    "held": "sync-held",
}


class SyncNews:
    """What syncs did to one log."""

    def __init__(self, synced: SyncedStore) -> None:
        self._synced = synced
        self._seen: tuple[object, str] | None = None
        self._told: SyncState | None = None

    def notice(self, conversation: str) -> Notice | None:
        """What is to be said of the newest sync; None if nothing is."""
        seen = self._synced.sync_mark(), conversation
        if seen == self._seen:
            return None
        is_first, self._seen = self._seen is None, seen
        stood = self._synced.stood(conversation)
        if stood is None or stood.state == self._told:
            return None
        self._told = stood.state
        return None if is_first and stood.state not in WAITING else _said(stood)


def _said(stood: Synced) -> Notice:
    details = {"conversation": stood.conversation, "pending": stood.pending, "fork": stood.fork}
    return Notice(
        name=_NAMES[stood.state],
        reason=_reason(stood),
        details={name: value for name, value in details.items() if value},
    )


def _reason(stood: Synced) -> str:
    id, reason = repr(stood.conversation), stood.reason
    match stood.state:
        case "pending":
            return f"{stood.pending:,} events of {id} wait to be sent: {reason}"
        case "synced":
            return f"{id} is the same here and in the far store"
        case "forked":
            return f"{id} grew elsewhere too: what was said here is {stood.fork!r}"
        case "blocked" | "held":
            return f"{id} is not sent: {reason}"
