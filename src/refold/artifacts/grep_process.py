"""The lines of a stream that match a pattern, one block at a time: memory stays flat however long
the stream is.

A line longer than `LINE_CHARS_MAX` is searched in overlapping pieces. This file is also a program:
Python's `re` can neither be interrupted nor bounded, so a foreign pattern runs in a process that
can be killed. It needs nothing but the standard library, and starts without site packages.
Neighbour: `grep` starts and feeds it.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

CHUNK_BYTES = 256 * 1024
LINE_CHARS_MAX = 1 << 20
OVERLAP_CHARS = 1 << 12
EXCERPT_CHARS = 300
MEMORY_BYTES_MAX = 1 << 29

Hit = tuple[int, str]  # the number of a line, counted from 1, and its text around the match
Search = Callable[[str], "re.Match[str] | None"]


def blocks(chunks: Iterable[bytes]) -> Iterator[Hit]:
    """Runs of whole lines, each with the number of its first line."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    number, rest = 1, ""
    for chunk in chunks:
        rest += decoder.decode(chunk)
        end = rest.rfind("\n")
        if end >= 0:
            yield number, rest[:end]
            number += rest.count("\n", 0, end) + 1
            rest = rest[end + 1 :]
        elif len(rest) > LINE_CHARS_MAX:
            yield number, rest
            rest = rest[-OVERLAP_CHARS:]
    rest += decoder.decode(b"", True)
    if rest:
        yield number, rest


def literal_hits(chunks: Iterable[bytes], text: str, *, ignore_case: bool = False) -> Iterator[Hit]:
    """Every line that contains the text, found at the speed of a plain search."""
    pattern = re.compile(re.escape(text), re.IGNORECASE if ignore_case else 0)
    seen = 0
    for number, block in blocks(chunks):
        at = 0
        for found in pattern.finditer(block):
            number += block.count("\n", at, found.start())
            at = found.start()
            if number != seen:
                seen = number
                yield number, _excerpt(block, found.start(), found.end())


def pattern_hits(chunks: Iterable[bytes], search: Search) -> Iterator[Hit]:
    """Every line in which `search` finds something. Lines are searched one by one, as in grep."""
    seen = 0
    for first, block in blocks(chunks):
        for number, line in enumerate(block.split("\n"), first):
            found = search(line.removesuffix("\r"))
            if found is not None and number != seen:
                seen = number
                yield number, _excerpt(line, found.start(), found.end())


def _excerpt(text: str, first: int, last: int) -> str:
    """The line around a match, cut on both sides if it is long."""
    start = text.rfind("\n", 0, first) + 1
    stop = text.find("\n", last)
    stop = len(text) if stop < 0 else stop
    room = max(0, EXCERPT_CHARS - (last - first)) // 2
    left = max(start, first - room)
    right = min(stop, max(last + room, first + 1), first + 2 * EXCERPT_CHARS)
    before = "…" if left > start else ""
    after = "…" if right < stop else ""
    return before + text[left:right].removesuffix("\r") + after


# --- the program ---


def main() -> None:
    """Reads a line with the request, then the content; writes a line for each hit, and one at the
    end."""
    request = json.loads(sys.stdin.buffer.readline())
    _limit_memory_and_time(request["cpu_s"])
    flags = re.IGNORECASE if request["ignore_case"] else 0
    try:
        search = re.compile(request["pattern"], flags).search
        for hit in islice(pattern_hits(_stdin(), search), request["most"]):
            _write(hit)
        _write("end")
    except (re.error, OverflowError, RecursionError, MemoryError, ValueError) as error:
        _write({"error": str(error) or type(error).__name__})


def _stdin() -> Iterator[bytes]:
    while chunk := sys.stdin.buffer.read(CHUNK_BYTES):
        yield chunk


def _write(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _limit_memory_and_time(cpu_s: int) -> None:
    """Limits memory, and processor time in case the parent process dies first."""
    try:
        import resource
    except ImportError:  # a system without such limits
        return
    for what, most in ((resource.RLIMIT_AS, MEMORY_BYTES_MAX), (resource.RLIMIT_CPU, cpu_s)):
        hard = resource.getrlimit(what)[1]
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(what, (most, hard))


if __name__ == "__main__":
    main()
