"""The matching lines of a content, within limits of time, memory and number, for any pattern.

A plain text is searched here, block by block. A regular expression may take forever, so it runs in
a process of its own (`grep_process`), which is killed after the time limit; lines found until then
are kept. Neighbour: `artifacts` provides the contents.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import ceil
from tempfile import TemporaryFile
from typing import IO, Any

from msgspec import Struct

from refold.artifacts import grep_process
from refold.errors import Invalid, Unavailable
from refold.system import own_python

PATTERN_CHARS_MAX = 1_000
LINES_MAX = 1_000
WAIT_S, WAIT_S_MAX = 5.0, 60.0


class Line(Struct, frozen=True):
    """One matching line: its number, counted from 1, and its text around the match."""

    number: int
    text: str


class Grepped(Struct, frozen=True, kw_only=True):
    """The matching lines, in order. `ended` says why there may be more; empty if everything was
    searched."""

    lines: tuple[Line, ...] = ()
    ended: str = ""


def matching_lines(
    chunks: Iterable[bytes],
    pattern: str,
    *,
    regex: bool = False,
    ignore_case: bool = False,
    most: int = 50,
    wait_s: float = WAIT_S,
) -> Grepped:
    """The lines of a content with a text in them, or that a regular expression matches."""
    check(pattern, regex=regex, most=most, wait_s=wait_s)
    if regex:
        request = {
            "pattern": pattern,
            "ignore_case": ignore_case,
            "most": most,
            "cpu_s": ceil(wait_s) + 1,
        }
        return _in_process(chunks, request, wait_s)
    clock = _Clock(wait_s)
    hits = grep_process.literal_hits(clock.through(chunks), pattern, ignore_case=ignore_case)
    return _grepped(list(islice(hits, most)), most, wait_s if clock.is_over else 0.0)


def check(pattern: str, *, regex: bool, most: int, wait_s: float) -> None:
    """Raises Invalid for an unusable search."""
    if not isinstance(pattern, str) or not pattern:
        raise Invalid("an empty pattern matches everything", hint="say what to look for")
    if len(pattern) > PATTERN_CHARS_MAX:
        raise Invalid(
            f"a pattern of {len(pattern):,} characters", hint=f"use at most {PATTERN_CHARS_MAX:,}"
        )
    if not regex and "\n" in pattern:
        raise Invalid(
            "the pattern has more than one line",
            hint="lines are looked at one by one: look for one of them",
        )
    if not 1 <= most <= LINES_MAX:
        raise Invalid(f"{most} lines at most", hint=f"choose a number from 1 to {LINES_MAX:,}")
    if not 0 < wait_s <= WAIT_S_MAX:
        raise Invalid(
            f"a wait of {wait_s} s", hint=f"choose a time above 0 and up to {WAIT_S_MAX:.0f} s"
        )


class _Clock:
    """Lets chunks through until the time is over."""

    def __init__(self, wait_s: float) -> None:
        self.deadline, self.is_over = time.monotonic() + wait_s, False

    def through(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            if time.monotonic() > self.deadline:
                self.is_over = True
                return
            yield chunk


def _grepped(hits: Sequence[grep_process.Hit], most: int, stopped_s: float) -> Grepped:
    """The result of a search; `stopped_s` is the time after which it was stopped, 0 if it was
    not."""
    ended = f"stopped after {stopped_s:.1f} s" if stopped_s else ""
    if len(hits) >= most:
        ended = f"stopped at {most:,} lines"
    return Grepped(lines=tuple(Line(number, text) for number, text in hits), ended=ended)


# --- a regular expression ---


def _in_process(chunks: Iterable[bytes], request: dict[str, Any], wait_s: float) -> Grepped:
    start = time.monotonic()
    with TemporaryFile() as answer:
        # The answer goes to a file and not through a pipe: neither side ever waits for the other to
        # read.
        child = _start(answer)
        timer = threading.Timer(wait_s, child.kill)
        timer.daemon = True
        timer.start()
        try:
            _feed(child, request, chunks)
            child.wait()
        finally:
            timer.cancel()
            child.kill()
            child.wait()
        answer.seek(0)
        # A killed child may have left an incomplete line, and no end mark.
        values = [json.loads(line) for line in answer.read().split(b"\n")[:-1]]
    took_s = time.monotonic() - start
    last = values[-1] if values else None
    if isinstance(last, dict):
        raise Invalid(
            f"the regular expression cannot be used: {last['error']}",
            hint="fix it, or look for a plain text",
        )
    hits = [(value[0], value[1]) for value in values if isinstance(value, list)]
    return _grepped(hits, request["most"], 0.0 if last == "end" else took_s)


def _start(answer: IO[bytes]) -> subprocess.Popen[bytes]:
    # The child gets nothing of our environment, except for a variable that Windows needs.
    environment = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
    try:
        return own_python.start(
            *("-I", "-S", grep_process.__file__),
            stdin=subprocess.PIPE,
            stdout=answer,
            stderr=subprocess.DEVNULL,
            environ=environment,
        )
    except OSError as error:
        reason = f"a regular expression needs a process of its own: {error.strerror or error}"
        raise Unavailable(reason, hint="look for a plain text instead") from error


def _feed(child: subprocess.Popen[bytes], request: dict[str, Any], chunks: Iterable[bytes]) -> None:
    """Writes the request and the content to the child, until it has enough or is killed."""
    assert child.stdin is not None
    try:
        child.stdin.write(json.dumps(request).encode() + b"\n")
        for chunk in chunks:
            child.stdin.write(chunk)
        child.stdin.flush()
    except BrokenPipeError:
        return
    finally:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
