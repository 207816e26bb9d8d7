"""What the engine has to say: notices, told to listeners with no lock held (`Guard`).

Listeners are independent: one that raises is reported as a `listener-failed` notice and stops
nothing. One that is a coroutine function is run to its end at once, or, where a loop runs in this
thread, as a task of that loop. A warning is given once, and armed again after a compaction or when
the page has shrunk by five points.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from refold.core.budget import Budget

REARM_POINTS = 5.0
WAITING_MAX = 100


class Notice(Struct, frozen=True, kw_only=True):
    """`name` is one of: context-warning, context-critical, auto-compacting, compaction-complete,
    compaction-failed, compaction-skipped, budget-unreachable, unknown-model, overflow-recovered,
    hook-failed, listener-failed, counter-missing, setting-unused, output-kept, cleanup-failed,
    storage-recovered, index-rebuilt, index-in-memory, index-behind, embedder-failed,
    embedder-changed."""

    name: str
    percent: float = 0.0
    tokens: int = 0
    max: int = 0
    strategy: str = ""
    before: int = 0
    after: int = 0
    reason: str = ""
    receipt: Any = None
    details: dict[str, Any] = field(default_factory=dict)


Listener = Callable[[Notice], Awaitable[None] | None]


class Guard:
    """A lock for threads that may be taken again by its holder. When the holder lets go of it
    for good, `after` is called: that is how listeners are told with no lock held."""

    def __init__(self, after: Callable[[], None]) -> None:
        self._lock, self._depth, self._after = threading.RLock(), 0, after

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        outermost = self._depth == 0
        self._lock.release()
        if outermost:
            self._after()


class Notices:
    """The listeners, and what is still to be told."""

    def __init__(self, redact: Callable[[str], str] = str) -> None:
        self._redact = redact
        self._listeners: list[tuple[str, Listener]] = []
        self._waiting: deque[Notice] = deque(maxlen=WAITING_MAX)
        self._said: set[str] = set()
        self._running: set[Any] = set()
        self._guard = threading.Lock()

    def on(self, name: str, listener: Listener) -> Callable[[], None]:
        entry = (name, listener)
        with self._guard:
            self._listeners = [*self._listeners, entry]

        def off() -> None:
            with self._guard:
                self._listeners = [other for other in self._listeners if other is not entry]

        return off

    def add(self, name: str, **fields: Any) -> None:
        """Puts a notice in the queue, without the secrets that an error may have quoted; `tell`
        delivers it."""
        notice = Notice(name=name, **fields)
        self._waiting.append(replace(notice, reason=self._redact(notice.reason)))

    def once(self, key: str, name: str, **fields: Any) -> None:
        """The same, but only the first time until `rearm`."""
        if key not in self._said:
            self._said.add(key)
            self.add(name, **fields)

    def rearm(self) -> None:
        """Lets what a compaction may have mended be said again."""
        self._said &= {"unreachable"}

    def watch(self, current: int, budget: Budget) -> None:
        """The warning, and the critical level."""
        if current < budget.warn_at and not self._said:
            return
        percent = budget.percent(current)
        for name, at in (
            ("context-warning", budget.warn_at),
            ("context-critical", budget.critical_at),
        ):
            if current >= at:
                self.once(name, name, percent=percent, tokens=current, max=budget.window)
            elif percent < budget.percent(at) - REARM_POINTS:
                self._said.discard(name)

    def tell(self) -> None:
        """Delivers what is waiting. Call it with no lock held. What is said before anybody
        listens waits: an opening has something to say, too."""
        while self._waiting and self._listeners:
            try:
                notice = self._waiting.popleft()
            except IndexError:
                return
            for name, listener in self._listeners:
                if name in (notice.name, "*"):
                    self._call(listener, notice)

    def _call(self, listener: Listener, notice: Notice) -> None:
        try:
            answer = listener(notice)
        except Exception as error:  # noqa: BLE001 - a listener is the caller's code and may raise anything
            self._failed(notice, error)
        else:
            if answer is not None and hasattr(answer, "__await__"):
                self._run(self._awaited(answer, notice))

    def _run(self, told: Coroutine[Any, Any, None]) -> None:
        import asyncio

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(told)
            return
        # A loop holds its tasks weakly: without us, one that waits may vanish.
        task = loop.create_task(told)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _awaited(self, answer: Awaitable[None], notice: Notice) -> None:
        try:
            await answer
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(notice, error)

    def _failed(self, notice: Notice, error: Exception) -> None:
        if notice.name != "listener-failed":
            self.add(
                "listener-failed",
                reason=f"{type(error).__name__}: {error}",
                details={"notice": notice.name},
            )
