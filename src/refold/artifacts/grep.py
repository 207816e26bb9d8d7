"""Lines of a content that match, within limits of time, memory and number, whatever the pattern is.

A plain text is looked for here, block by block. A regular expression is anybody's and may take for
ever, so it runs in a process of its own (`matching`), which is killed when its time is over; what
it found until then is kept. Neighbours: `outputs` brings the contents.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from math import ceil
from tempfile import TemporaryFile
from typing import IO, Any

from msgspec import Struct

from refold.artifacts import grep_process as matching
from refold.errors import Invalid, RefoldError, Unavailable

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
        return _by_child(chunks, request, wait_s)
    clock = _Clock(wait_s)
    hits = list(
        islice(matching.literal_hits(clock.through(chunks), pattern, ignore_case=ignore_case), most)
    )
    return Grepped(
        lines=_lines(hits), ended=_ended(len(hits), most, wait_s if clock.is_over else 0.0)
    )


def check(pattern: str, *, regex: bool, most: int, wait_s: float) -> None:
    """Refuses what cannot be looked for."""
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


def _lines(hits: Iterable[matching.Hit]) -> tuple[Line, ...]:
    return tuple(Line(number, text) for number, text in hits)


def _ended(found: int, most: int, stopped_s: float) -> str:
    if found >= most:
        return f"stopped at {most:,} lines"
    return f"stopped after {stopped_s:.1f} s" if stopped_s else ""


# --- a regular expression ---


def _by_child(chunks: Iterable[bytes], request: dict[str, Any], wait_s: float) -> Grepped:
    start = time.monotonic()
    with TemporaryFile() as answer:
        # The answer goes to a file and not through a pipe: neither side ever waits for the other to
        # read.
        child = _started(answer)
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
        return _answered(answer.read(), request["most"], time.monotonic() - start)


def _started(answer: IO[bytes]) -> subprocess.Popen[bytes]:
    # Nothing of our environment is the child's business, but Windows starts no process without its
    # own variable.
    environ = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", matching.__file__],
            stdin=subprocess.PIPE,
            stdout=answer,
            stderr=subprocess.DEVNULL,
            env=environ,
        )
    except OSError as error:
        reason = f"a regular expression needs a process of its own: {error.strerror or error}"
        raise Unavailable(reason, hint="look for a plain text instead") from error


def _feed(child: subprocess.Popen[bytes], request: dict[str, Any], chunks: Iterable[bytes]) -> None:
    """Gives the child the request and the content, until it has enough or is killed."""
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


def _answered(answer: bytes, most: int, took_s: float) -> Grepped:
    # A child that was killed may have left half a line, and did not say that it came to the end.
    said = [json.loads(line) for line in answer.split(b"\n")[:-1]]
    hits = [(one[0], one[1]) for one in said if isinstance(one, list)]
    if said and isinstance(said[-1], dict):
        raise _refused(said[-1]["error"])
    return Grepped(
        lines=_lines(hits), ended=_ended(len(hits), most, 0.0 if said[-1:] == ["end"] else took_s)
    )


def _refused(reason: str) -> RefoldError:
    return Invalid(
        f"the regular expression cannot be used: {reason}", hint="mend it, or look for a plain text"
    )
