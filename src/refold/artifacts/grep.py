"""Searches a stream of bytes for matching lines, with limits on time, memory and matches.

Literal text is searched for here, block by block. A regular expression may never finish, so it runs
in a subprocess (`grep_process`), which is killed at the time limit; the lines found by then are
returned. Neighbour: `artifacts` reads the bytes.
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
    """The matching lines, in order. `ended` is the reason why the search stopped early, so that
    there may be more; it is empty if everything was searched."""

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
    """Returns at most `most` lines that contain the pattern, or match it as a regular
    expression."""
    check(pattern, regex=regex, most=most, wait_s=wait_s)
    if regex:
        request = {
            "pattern": pattern,
            "ignore_case": ignore_case,
            "most": most,
            "cpu_s": ceil(wait_s) + 1,
        }
        return _search_in_subprocess(chunks, request, wait_s)
    deadline = _Deadline(wait_s)
    hits = grep_process.literal_hits(deadline.limit(chunks), pattern, ignore_case=ignore_case)
    return _result(list(islice(hits, most)), most, wait_s if deadline.has_passed else 0.0)


def check(pattern: str, *, regex: bool, most: int, wait_s: float) -> None:
    """Raises Invalid if an argument of a search cannot be used."""
    if not isinstance(pattern, str) or not pattern:
        raise Invalid("an empty pattern matches everything", hint="pass the text to search for")
    if len(pattern) > PATTERN_CHARS_MAX:
        raise Invalid(
            f"the pattern is too long, with {len(pattern):,} characters",
            hint=f"use at most {PATTERN_CHARS_MAX:,}",
        )
    if not regex and "\n" in pattern:
        raise Invalid(
            "the pattern has more than one line",
            hint="each line is searched separately: search for one line of the pattern",
        )
    if not 1 <= most <= LINES_MAX:
        reason = f"the limit of {most} lines is out of range"
        raise Invalid(reason, hint=f"choose a number from 1 to {LINES_MAX:,}")
    if not 0 < wait_s <= WAIT_S_MAX:
        reason = f"the time limit of {wait_s} s is out of range"
        raise Invalid(reason, hint=f"choose a time above 0 and up to {WAIT_S_MAX:.0f} s")


class _Deadline:
    """Ends a stream of chunks once a time limit has passed."""

    def __init__(self, wait_s: float) -> None:
        self.ends_at, self.has_passed = time.monotonic() + wait_s, False

    def limit(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            if time.monotonic() > self.ends_at:
                self.has_passed = True
                return
            yield chunk


def _result(hits: Sequence[grep_process.Hit], most: int, stopped_after_s: float) -> Grepped:
    """The result of a search. `stopped_after_s` is 0 unless the search reached its time limit."""
    reason = f"stopped after {stopped_after_s:.1f} s" if stopped_after_s else ""
    if len(hits) >= most:
        reason = f"stopped at {most:,} lines"
    return Grepped(lines=tuple(Line(number, text) for number, text in hits), ended=reason)


# --- regular expressions ---


def _search_in_subprocess(
    chunks: Iterable[bytes], request: dict[str, Any], wait_s: float
) -> Grepped:
    start = time.monotonic()
    with TemporaryFile() as output:
        # The output goes to a file: with two pipes, parent and child could wait for each other.
        child = _start(output)
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
        output.seek(0)
        # A killed child may have left an incomplete last line, and no end marker.
        values = [json.loads(line) for line in output.read().split(b"\n")[:-1]]
    elapsed_s = time.monotonic() - start
    last = values[-1] if values else None
    if isinstance(last, dict):
        raise Invalid(
            f"the regular expression cannot be used: {last['error']}",
            hint="correct it, or search for plain text",
        )
    hits = [(value[0], value[1]) for value in values if isinstance(value, list)]
    return _result(hits, request["most"], 0.0 if last == "end" else elapsed_s)


def _start(output: IO[bytes]) -> subprocess.Popen[bytes]:
    # The child inherits nothing from our environment except the one variable required on Windows.
    environment = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
    try:
        return own_python.start(
            *("-I", "-S", grep_process.__file__),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.DEVNULL,
            environ=environment,
        )
    except OSError as error:
        cause = error.strerror or error
        reason = f"the subprocess that searches for regular expressions did not start: {cause}"
        raise Unavailable(reason, hint="search for plain text instead") from error


def _feed(child: subprocess.Popen[bytes], request: dict[str, Any], chunks: Iterable[bytes]) -> None:
    """Writes the request and the chunks to the child, until it has found enough or is killed."""
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
