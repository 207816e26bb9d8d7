"""What became of the calls of one agent: kept, or not and why; said over a pipe, one line a call.

The pipe outlives a proxy that is killed, and what was said before is not lost with it. Saying never
waits: a line that nobody reads is dropped. Neighbours: `app` says, `supervisor` counts and the
command `run` tells the person.
"""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress

from refold.errors import Corrupt, Denied, RefoldError, Unavailable

KEPT = ""
REASON_CHARS = 300
Told = Callable[[str], None]


class Tally:
    """Counts what is said on a pipe. `why` is the newest reason why something was not kept."""

    def __init__(self, descriptor: int) -> None:
        self.kept = self.unkept = 0
        self.why = ""
        self._thread = threading.Thread(target=self._count, args=(descriptor,), daemon=True)
        self._thread.start()

    def _count(self, descriptor: int) -> None:
        with open(descriptor, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self._take(line.strip())

    def _take(self, reason: str) -> None:
        if reason == KEPT:
            self.kept += 1
        else:
            self.unkept += 1
            self.lose(reason)

    def lose(self, reason: str) -> None:
        """Something is not kept from now on, and nobody counts it."""
        self.why = reason

    def finish(self, wait_s: float) -> None:
        """Waits for what was said before everybody who says something has ended."""
        self._thread.join(wait_s)


def teller(descriptor: int | None) -> Told:
    """What says on a pipe what became of a call: KEPT, or the reason why not."""
    if descriptor is None:
        return lambda _: None
    os.set_blocking(descriptor, False)

    def tell(reason: str) -> None:
        line = " ".join(reason.split())[:REASON_CHARS] + "\n"
        with suppress(OSError):
            os.write(descriptor, line.encode("utf-8", "replace"))

    return tell


def reason_of(error: Exception) -> str:
    """Why a call was not kept, without a word of what it said: of errors that quote what they were
    given, only the kind."""
    if isinstance(error, TimeoutError):
        return "the log took too long"
    if isinstance(error, Unavailable | Denied | Corrupt):
        return error.message
    return error.code if isinstance(error, RefoldError) else type(error).__name__


def place_of(error: Exception) -> str:
    """What failed and where, without a word of what was being read."""
    places = [
        f"{one.filename.rpartition('/')[2]}:{one.lineno}"
        for one in traceback.extract_tb(error.__traceback__)
    ]
    code = error.code if isinstance(error, RefoldError) else ""
    return " ".join([type(error).__name__, code, *places])
