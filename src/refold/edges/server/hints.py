"""Hints to and from the other processes that serve the same place.

What changed here is told in one message for a tenth of a second, after it is written: no append
waits for it. What others tell is heard in a thread, on one connection for the process. Where that
is lost, the heads are looked at each second until it is back; where it cannot be had, for good.
Neighbours: `listening` has those
who wait, a store says how its users tell each other.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial

from refold.edges.server.feed import InThread
from refold.edges.server.log_lines import warn
from refold.errors import Invalid, RefoldError
from refold.stores.protocol import Hint, Hints

TOGETHER_S = 0.1
WAITING_MAX = 10_000
STEP_S = 1.0  # how long a stop may have to wait for the thread
PAUSE_S, PAUSE_S_MAX = 1.0, 30.0


class Exchange:
    """Tells what changed in this process, and hears what changed in others. Without `hints` it
    does neither."""

    def __init__(
        self, hints: Hints | None, in_thread: InThread, hear: Callable[[Hint], None]
    ) -> None:
        self._hints, self._in_thread, self._hear = hints, in_thread, hear
        self._waiting: dict[tuple[str, str], Hint] = {}
        self._sending: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self.is_hearing = False

    @property
    def is_there(self) -> bool:
        """Whether there is anybody to tell."""
        return self._hints is not None

    def start(self) -> None:
        if self._hints is not None:
            listen = partial(self._listen, self._hints, asyncio.get_running_loop())
            self._thread = threading.Thread(target=listen, name="hints", daemon=True)
            self._thread.start()

    async def stop(self) -> None:
        """Tells what waits, and ends the thread."""
        self._ending.set()
        if self._sending is not None:
            await asyncio.gather(self._sending, return_exceptions=True)
        if self._thread is not None:
            await self._in_thread(partial(self._thread.join, 2 * STEP_S))

    # --- telling ---

    def tell(self, hint: Hint) -> None:
        """Called in the loop's thread. More than can wait are dropped: they are hints."""
        if self._hints is None or len(self._waiting) >= WAITING_MAX:
            return
        self._waiting[hint.org, hint.conversation] = hint
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send(self._hints))

    async def _send(self, hints: Hints) -> None:
        while self._waiting:
            await asyncio.sleep(TOGETHER_S)
            waiting, self._waiting = list(self._waiting.values()), {}
            try:
                await self._in_thread(partial(hints.tell, waiting))
            except RefoldError as error:
                warn("hints", error, doing="telling")

    # --- hearing, in a thread ---

    def _listen(self, hints: Hints, loop: asyncio.AbstractEventLoop) -> None:
        pause_s = 0.0
        while not self._ending.wait(pause_s):
            try:
                self._listen_until_lost(hints, loop)
            except Invalid as error:
                warn("hints", error, doing="hearing")
                return
            except RefoldError as error:
                warn("hints", error, doing="hearing")
            pause_s = PAUSE_S if self.is_hearing else min(2 * pause_s + PAUSE_S, PAUSE_S_MAX)
            self.is_hearing = False

    def _listen_until_lost(self, hints: Hints, loop: asyncio.AbstractEventLoop) -> None:
        with hints.hearing() as ear:
            self.is_hearing = True
            while not self._ending.is_set():
                for hint in ear.heard(STEP_S):
                    # A stop does not wait long, and ends the loop.
                    if not self._ending.is_set():
                        loop.call_soon_threadsafe(self._hear, hint)
