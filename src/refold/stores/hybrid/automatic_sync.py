"""Threads for automatic syncs: soon after a change on either side, and regularly as a safety net.

The worker exists only in a store opened with `sync_s`, and starts when a conversation is opened or
appended to. Changed conversations are synced alone; all are synced at the start, every `sync_s`
seconds, and sooner after an incomplete sync. Closing syncs the pending changes once more, within a
limit. A forked child starts its own threads.

The follower listens to the far store, so that changes elsewhere arrive soon. A change is a hint:
one that is here already starts no sync, and a missed one is found by the regular sync. A far store
that cannot be listened to is tried again after a growing pause. Neighbour: `store` wakes the
worker.
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

SOON_S = 0.3  # changes within this time share one sync
AGAIN_S = 5.0
CLOSE_S = 5.0
ALL = ""  # instead of an id: all conversations


class Worker:
    """Calls `work` with changed conversations, and at least every `every_s` for all; it returns
    whether both sides are the same. `listen` opens a stream of far changes, if there is one."""

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
        self.follower: Follower | None = None
        process_fork.watch(self)

    def begin(self) -> None:
        """Starts the automatic sync."""
        if self._thread is None:
            self._start()

    def wake(self, conversation: str) -> None:
        """Registers a changed conversation."""
        self._changed.append(conversation)
        if not self._woken.is_set():  # checking is cheaper than setting
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
                self.follower = Follower(self._listen, self._note_heads)

    def _note_heads(self, hint: NewHeads) -> None:
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
            changed = list(
                dict.fromkeys(self._changed.popleft() for _ in range(len(self._changed)))
            )
            if is_last and is_done and not any(changed):
                return
            is_all = is_due or not is_done or ALL in changed
            is_done = False
            # A failure is in the record, and the next round tries again.
            with contextlib.suppress(RefoldError):
                is_done = self._work(() if is_all else changed)
            pause_s = AGAIN_S if is_done else min(self._every_s, 2 * pause_s)
            if is_last:
                return

    def before_fork(self) -> None:
        """Nothing: the parent keeps its threads."""

    def after_fork(self, *, in_child: bool) -> None:
        """Lets the child start its own threads."""
        if in_child:
            self._woken, self._ended = threading.Event(), threading.Event()
            self._beginning = threading.Lock()
            self._thread = self.follower = None

    def close(self) -> None:
        """Syncs pending changes and ends, without waiting for a far store that does not answer."""
        with self._beginning:
            thread, self._thread = self._thread, None
            self._ended.set()
        if thread is None:
            return
        deadline = time.monotonic() + CLOSE_S
        if self.follower is not None:
            self.follower.end()
        self._woken.set()
        thread.join(CLOSE_S)
        if self.follower is not None:
            self.follower.join(max(0.0, deadline - time.monotonic()))


PAUSE_S, PAUSE_S_MAX = 1.0, 60.0
Listen = Callable[[str], Listening]


class Follower:
    """Passes every change in the far store to `receive`, until it is ended."""

    def __init__(self, listen: Listen, receive: Callable[[NewHeads], None]) -> None:
        self._listen, self._receive = listen, receive
        self.hints: Listening | None = None
        self._cursor = ""
        self._heard = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="refold-feed", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        pause_s = PAUSE_S
        while not self._ended.is_set():
            self._heard = False
            # The sync records why the far store does not answer.
            with contextlib.suppress(RefoldError):
                self._follow()
            pause_s = PAUSE_S if self._heard else min(PAUSE_S_MAX, 2 * pause_s)
            self._ended.wait(pause_s * random.uniform(0.5, 1.0))

    def _follow(self) -> None:
        hints = self.hints = self._listen(self._cursor)
        if self._ended.is_set():
            hints.end()
        for hint in hints:
            self._heard, self._cursor = True, hints.cursor
            self._receive(hint)

    def end(self) -> None:
        """Stops listening."""
        self._ended.set()
        if self.hints is not None:
            self.hints.end()

    def join(self, wait_s: float) -> None:
        """Waits for the end of the thread."""
        self._thread.join(wait_s)
