"""Helpers for testing a program that uses refold: a writer with prepared answers, a fixed clock,
and the contract of stores.

    with refold.testing.fixed_clock(1_700_000_000_000) as clock:
        context = refold.open("test", store="memory:", writer=ScriptedWriter("Goal: …"))
        clock.advance(hours=2)

A `memory:` store needs no files. `CLAUSES` are the clauses of the store contract; `stores.contract`
explains how to run them on your own store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from refold.log import log
from refold.stores.contract import CLAUSES, Clause, Make, Place, name
from refold.writer.asker import Answer, Request

__all__ = ["CLAUSES", "Clause", "Clock", "Make", "Place", "ScriptedWriter", "fixed_clock", "name"]


HOUR_MS = 3_600_000


class Clock:
    """A clock in milliseconds that only a test moves."""

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms

    def __call__(self) -> int:
        return self.at_ms

    def advance(self, *, ms: int = 0, hours: float = 0.0) -> None:
        """Moves the time forward."""
        self.at_ms += ms + round(hours * HOUR_MS)


@contextmanager
def fixed_clock(at_ms: int) -> Iterator[Clock]:
    """Sets a fixed clock for conversations opened in this block, which they keep afterwards."""
    clock, before = Clock(at_ms), log.now_ms
    log.now_ms = clock
    try:
        yield clock
    finally:
        log.now_ms = before


Scripted = Answer | str | BaseException | Callable[[Request], Answer | str]


class ScriptedWriter:
    """Returns its answers in order, then repeats the last one. An exception among them is raised; a
    function is called with the request. `requests` are the requests so far."""

    def __init__(self, *answers: Scripted, window: int = 32_000) -> None:
        self.answers: list[Scripted] = list(answers) or ["Goal: none.\nDone: nothing."]
        self.window = window
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Answer | str:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, Answer | str) else answer(request)

    @property
    def prompt(self) -> str:
        """The newest prompt."""
        return self.requests[-1].prompt
