"""`refold statusline`: one line for the bottom of a program, a shell prompt or tmux.

What Claude Code gives on standard input is read by the standard library alone, because such a line
is asked for many times a minute; a conversation of ours is opened for reading, and nothing is
written. It never fails: whoever shows a status line has no place for an error, so then the line is
empty; only a person who names a conversation at a terminal is told why. Neighbours: `edges/cli`
comes here before it imports anything else.
"""

from __future__ import annotations

import os
import sys

WAIT_S = 2.0
INPUT_BYTES_MAX = 4_000_000
OPTIONS = ("--short", "--color")


def main(args: list[str]) -> bool:
    """Prints the line that these arguments ask for; False if they are not understood here."""
    asked = _asked(args)
    if asked is None:
        return False
    print(line(asked["name"], asked["store"], short="--short" in args, color="--color" in args))
    return True


def _asked(args: list[str]) -> dict[str, str] | None:
    """The conversation and the store that are named; None for anything but the plain form."""
    found = {"name": "", "store": ""}
    rest = [arg for arg in args if arg not in OPTIONS]
    while rest:
        word = rest.pop(0)
        if word == "--store" and rest:
            found["store"] = rest.pop(0)
        elif word.startswith("-") or found["name"]:
            return None
        else:
            found["name"] = word
    return found


def line(name: str = "", store: str = "", *, short: bool = False, color: bool = False) -> str:
    """The line: of the conversation that is named, of what stands on standard input, or of the
    newest conversation of this project."""
    try:
        given = b"" if name or store else given_input()
        if given.strip():
            from refold.edges.statusline.claude import claude_line

            return claude_line(given, short=short, color=color)
        from refold.edges.statusline.conversation import conversation_line

        return conversation_line(name or "@1", store, short=short, color=color)
    except Exception as error:
        if name or store:
            _explain(error)
        return ""


def _explain(error: Exception) -> None:
    """Tells a person who named something at a terminal why the line is empty."""
    if sys.stderr is not None and sys.stderr.isatty():
        from refold.edges.displays.wrap import harmless

        print(f"refold: {harmless(str(error))}", file=sys.stderr)


def given_input(size_max: int = INPUT_BYTES_MAX, wait_s: float = WAIT_S) -> bytes:
    """What stands on standard input: nothing on a terminal, and nothing if nobody writes there."""
    try:
        if sys.stdin is None or sys.stdin.isatty():
            return b""
        return _read(sys.stdin.fileno(), size_max, wait_s)
    except (OSError, ValueError):
        return b""


def _read(fd: int, size_max: int, wait_s: float) -> bytes:
    """Everything up to the end, within a bound of time and size."""
    import select
    import time

    pieces: list[bytes] = []
    size, deadline = 0, time.monotonic() + wait_s
    while size < size_max:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            break
        piece = os.read(fd, 65_536)
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)
