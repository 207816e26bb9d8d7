"""A thread that syncs by itself: soon after a change here or there, and every so often as a safety
net.

It is made only where a store was opened with `sync_s`, and begins when a conversation is opened or
appended to. What changed is synced alone; everything is at the beginning, every `sync_s` seconds,
and after a sync that did not reach its end, which is tried again sooner. Closing syncs once more
what waits, within a limit. A process that forks leaves its threads to its parent.
Neighbours: `store` wakes it, `follower` listens to the far store.

A thread that listens to the far store, so that what others write arrives soon.

What it hears is a hint: what is here already wakes nobody, and what is missed is found by the sync
that happens every so often. A far store that cannot be listened to now is asked again after a pause
that grows. Closing ends the listening at once. Neighbours: `worker` makes it and syncs.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from refold.errors import RefoldError
from refold.stores.protocol import Listening, NewHeads
from refold.system import process_fork

SOON_S = 0.3  # changes that come within this time go in one sync
AGAIN_S = 5.0
CLOSE_S = 5.0
ALL = ""  # in the place of a conversation: compare everything


class Worker:
    """Calls `work` for what changed, and at the latest after `every_s` for everything. It says
    whether both sides are the same. `listen` hears of far changes, where the far store tells."""

    def __init__(
        self,
        work: Callable[[Sequence[str]], bool],
        every_s: float,
        *,
        listen: Listen | None = None,
        is_news: Callable[[str, int], bool] = lambda conversation, head: True,
    ) -> None:
        self._work, self._every_s = work, every_s
        self._listen, self._is_news = listen, is_news
        self._woken, self._ended = threading.Event(), threading.Event()
        self._beginning = threading.Lock()  # two threads may both be the first
        self._changed: deque[str] = deque()
        self._thread: threading.Thread | None = None
        self._follower: Follower | None = None
        process_fork.watch(self)

    def begin(self) -> None:
        """Syncs from here on."""
        if self._thread is None:
            self._start()

    def wake(self, conversation: str) -> None:
        """Says that a conversation changed."""
        self._changed.append(conversation)
        if not self._woken.is_set():  # setting costs more than looking
            self._woken.set()
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._beginning:
            if self._thread is not None or self._ended.is_set():
                return
            self._changed.append(ALL)
            self._woken.set()
            self._thread = threading.Thread(target=self._run, name="refold-sync", daemon=True)
            self._thread.start()
            if self._listen is not None:
                self._follower = Follower(self._listen, self._heard)

    def _heard(self, hint: NewHeads) -> None:
        news = [id for id, head in hint.heads.items() if self._is_news(id, head)]
        if news or hint.is_all:
            self._changed.extend([ALL] if hint.is_all else news)
            self._woken.set()

    def _run(self) -> None:
        is_done, pause_s = True, AGAIN_S
        while True:
            wait_s = self._every_s if is_done else min(self._every_s, pause_s)
            is_due = not self._woken.wait(wait_s)
            if not is_due:
                self._ended.wait(SOON_S)
            is_last = self._ended.is_set()
            self._woken.clear()
            changed = self._taken()
            if is_last and is_done and not any(changed):
                return
            is_all = is_due or not is_done or ALL in changed
            is_done = self._synced(() if is_all else changed)
            pause_s = AGAIN_S if is_done else min(self._every_s, 2 * pause_s)
            if is_last:
                return

    def _taken(self) -> list[str]:
        """What changed, each once, in the order in which it did."""
        taken: dict[str, None] = {}
        while self._changed:
            taken[self._changed.popleft()] = None
        return [*taken]

    def _synced(self, ids: Sequence[str]) -> bool:
        # What failed stands in the record, and the next round tries it again.
        with contextlib.suppress(RefoldError):
            return self._work(ids)
        return False

    def before_fork(self) -> None:
        """Nothing: the parent goes on with its threads."""

    def after_fork(self, *, in_child: bool) -> None:
        """Leaves the threads to the parent; the child begins its own."""
        if in_child:
            self._woken, self._ended = threading.Event(), threading.Event()
            self._beginning = threading.Lock()
            self._thread = self._follower = None

    def close(self) -> None:
        """Syncs what waits, and ends; a far store that does not answer is not waited for."""
        with self._beginning:
            thread, self._thread = self._thread, None
            self._ended.set()
        if thread is None:
            return
        deadline = time.monotonic() + CLOSE_S
        if self._follower is not None:
            self._follower.end()
        self._woken.set()
        thread.join(CLOSE_S)
        if self._follower is not None:
            self._follower.join(max(0.0, deadline - time.monotonic()))


PAUSE_S, PAUSE_S_MAX = 1.0, 60.0
Listen = Callable[[str], Listening]


class Follower:
    """Gives every hint of the far store to `told`, until it is ended."""

    def __init__(self, listen: Listen, told: Callable[[NewHeads], None]) -> None:
        self._listen, self._told = listen, told
        self._hints: Listening | None = None
        self._cursor = ""
        self._heard = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="refold-feed", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        pause_s = PAUSE_S
        while not self._ended.is_set():
            self._heard = False
            # Why the far store does not answer stands in the record: the sync says it.
            with contextlib.suppress(RefoldError):
                self._follow()
            pause_s = PAUSE_S if self._heard else min(PAUSE_S_MAX, 2 * pause_s)
            self._ended.wait(pause_s * random.uniform(0.5, 1.0))

    def _follow(self) -> None:
        hints = self._hints = self._listen(self._cursor)
        if self._ended.is_set():
            hints.end()
        for hint in hints:
            self._heard, self._cursor = True, hints.cursor
            self._told(hint)

    def end(self) -> None:
        """Listens no more."""
        self._ended.set()
        if self._hints is not None:
            self._hints.end()

    def join(self, wait_s: float) -> None:
        """Waits so long for the end."""
        self._thread.join(wait_s)
