"""Ctrl-C while the agent works: it stops what is waited for, never a write to the log.

Only inside `waiting` does the signal raise KeyboardInterrupt; anywhere else it is remembered, and
the next `waiting` raises it. So a reply that is stopped is still recorded as far as it came.
Neighbour: `loop` waits for models, tools and answers in here.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, TypeVar

T = TypeVar("T")
_END = object()


class Interrupts:
    """Whether the person asked to stop. Used in a `with` block around the work."""

    def __init__(self) -> None:
        self.asked = False
        self._is_waiting = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        self.asked = False
        # Only the main thread can be interrupted, and only there can it be said what happens then.
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._take)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        if self._is_waiting:
            raise KeyboardInterrupt

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A block that may be interrupted at any point."""
        self._is_waiting = True
        try:
            if self.asked:
                raise KeyboardInterrupt
            yield
        finally:
            self._is_waiting = False

    def each(self, values: Iterable[T]) -> Iterator[T]:
        """The values, each waited for."""
        found = iter(values)
        while True:
            with self.waiting():
                value = next(found, _END)
            if value is _END:
                return
            yield value  # type: ignore[misc]
