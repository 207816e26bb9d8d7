"""A thread that syncs by itself: soon after a change, and every so often as a safety net.

It is made only where a store was opened with `sync_s`, and begins with the first append. Closing
syncs once more what waits, within a limit. A process that forks leaves the thread to its parent.
Neighbours: `store` wakes it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable

from refold.errors import RefoldError

SOON_S = 0.3  # changes that come within this time go in one sync
CLOSE_S = 5.0


class Worker:
    """Calls `work` after a change, and at the latest after `every_s`."""

    def __init__(self, work: Callable[[], object], every_s: float) -> None:
        self._work, self._every_s = work, every_s
        self._changed, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._pid = 0

    def wake(self) -> None:
        """Says that something changed."""
        self._changed.set()
        if self._thread is None or self._pid != os.getpid():
            self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._changed, self._ended = threading.Event(), threading.Event()
        self._changed.set()
        self._thread = threading.Thread(target=self._run, name="refold-sync", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            if self._changed.wait(self._every_s):
                self._ended.wait(SOON_S)
            is_last = self._ended.is_set()
            self._changed.clear()
            # What failed stands in the record, and the next round tries it again.
            with contextlib.suppress(RefoldError):
                self._work()

    def close(self) -> None:
        """Syncs what waits, and ends; a far store that does not answer is not waited for."""
        thread, self._thread = self._thread, None
        if thread is not None and self._pid == os.getpid():
            self._ended.set()
            self._changed.set()
            thread.join(CLOSE_S)
