"""Whoever watches hears of every fork of the process, once before it and once on either side."""

from __future__ import annotations

import gc
import os
import sys

import pytest

from refold.system import process_fork

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


class Watcher:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def before_fork(self) -> None:
        self.heard.append("before")

    def after_fork(self, *, in_child: bool) -> None:
        self.heard.append("child" if in_child else "parent")


def forked(watcher: Watcher) -> list[str]:
    """What a watcher had heard in the child."""
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(there, " ".join(watcher.heard).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(there)
    with os.fdopen(here) as heard:
        return heard.read().split()


def test_a_watcher_hears_once_before_and_once_on_either_side() -> None:
    watcher = Watcher()
    process_fork.watch(watcher)
    assert forked(watcher) == ["before", "child"]
    assert watcher.heard == ["before", "parent"]
    assert forked(watcher) == ["before", "parent", "before", "child"]


def test_whoever_uses_another_lets_go_before_it_and_goes_on_after_it() -> None:
    """A thread that holds the lock of the outer one waits for that of the inner one: the other way
    round, the fork and the thread would wait for each other."""
    told: list[str] = []

    class Named(Watcher):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def before_fork(self) -> None:
            told.append(f"before {self.name}")

        def after_fork(self, *, in_child: bool) -> None:
            told.append(f"after {self.name}")

    watchers = [Named(str(number)) for number in range(9)]
    for watcher in watchers:
        process_fork.watch(watcher)
    forked(watchers[0])
    before = [f"before {number}" for number in reversed(range(9))]
    assert told == [*before, *(f"after {number}" for number in range(9))]


def test_a_watcher_that_nobody_uses_is_forgotten() -> None:
    watchers = len(process_fork._WATCHED)
    process_fork.watch(Watcher())
    gc.collect()
    assert len(process_fork._WATCHED) <= watchers


def test_one_that_fails_does_not_keep_the_others_from_hearing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Failing(Watcher):
        def before_fork(self) -> None:
            super().before_fork()
            raise KeyError("on purpose")

    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: said.append(error.exc_value))
    watchers = [Watcher(), Failing(), Watcher()]
    for watcher in watchers:
        process_fork.watch(watcher)
    assert forked(watchers[1]) == ["before", "child"]
    assert [watcher.heard for watcher in watchers] == [["before", "parent"]] * 3
    assert [type(error) for error in said] == [KeyError]
