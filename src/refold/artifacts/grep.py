"""Lines of a content that match, within limits of time, memory and number, whatever the pattern is.

A plain text is looked for here, block by block. A regular expression is anybody's and may take
forever, so it runs in a process of its own (`grep_process`), which is killed when its time is over;
what it found until then is kept. Neighbours: `artifacts` brings the contents.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
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

PATTERN_CHARS_MAX = 1_000
LINES_MAX = 1_000
WAIT_S, WAIT_S_MAX = 5.0, 60.0


class Line(Struct, frozen=True):
    """One line that matches: its number, counted from 1, and what it says around the match."""

    number: int
    text: str


class Grepped(Struct, frozen=True, kw_only=True):
    """The lines that were found, in order. `ended` says why there may be more; empty if all was
    looked at."""

    lines: tuple[Line, ...] = ()
    ended: str = ""


def grepped(
    chunks: Iterable[bytes],
    pattern: str,
    *,
    regex: bool = False,
    ignore_case: bool = False,
    most: int = 50,
    wait_s: float = WAIT_S,
) -> Grepped:
    """The lines of a content that hold a text, or that a regular expression matches."""
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
    found = list(islice(hits, most))
    return _grepped(found, most, wait_s if clock.is_over else 0.0)


def check(pattern: str, *, regex: bool, most: int, wait_s: float) -> None:
    """Raises Invalid for what cannot be looked for."""
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
    """What was found; `stopped_s` is the time after which the search was stopped, 0 if it was
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
        return _answer_of(answer.read(), request["most"], time.monotonic() - start)


def _start(answer: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", grep_process.__file__]
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=answer,
            stderr=subprocess.DEVNULL,
            env=_child_environment(),
        )
    except OSError as error:
        reason = f"a regular expression needs a process of its own: {error.strerror or error}"
        raise Unavailable(reason, hint="look for a plain text instead") from error


def _child_environment() -> dict[str, str]:
    """Nothing of our environment is the child's business, but Windows starts no process without
    this variable."""
    return {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}


def _feed(child: subprocess.Popen[bytes], request: dict[str, Any], chunks: Iterable[bytes]) -> None:
    """Gives the child the request and the content, until it has enough or is killed."""
    assert child.stdin is not None
    try:
        _write(child.stdin, request, chunks)
    except BrokenPipeError:
        return
    finally:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()


def _write(file: IO[bytes], request: dict[str, Any], chunks: Iterable[bytes]) -> None:
    file.write(json.dumps(request).encode() + b"\n")
    for chunk in chunks:
        file.write(chunk)
    file.flush()


def _answer_of(answer: bytes, most: int, took_s: float) -> Grepped:
    # A child that was killed may have left half a line, and did not say that it came to the end.
    values = [json.loads(line) for line in answer.split(b"\n")[:-1]]
    last = values[-1] if values else None
    if isinstance(last, dict):
        raise Invalid(
            f"the regular expression cannot be used: {last['error']}",
            hint="fix it, or look for a plain text",
        )
    hits = [(value[0], value[1]) for value in values if isinstance(value, list)]
    return _grepped(hits, most, 0.0 if last == "end" else took_s)
