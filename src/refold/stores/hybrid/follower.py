"""A thread that listens to the far store, so that what others write arrives soon.

What it hears is a hint: what is here already wakes nobody, and what is missed is found by the sync
that happens every so often. A far store that cannot be listened to now is asked again after a pause
that grows. Closing ends the listening at once. Neighbours: `worker` makes it and syncs.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable

from refold.errors import RefoldError
from refold.stores.protocol import Listening, NewHeads

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
