"""`refold show --follow` on a terminal that changes its size: one picture stands there, whole, whatever the
size is and was."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import refold
from tests.real.terminal.screens import CHAT, Terminal

SIZES = [(80, 30), (40, 30), (120, 30), (25, 12), (80, 8), (60, 24), (100, 6), (80, 30)]
WORDS = "some words about the login form that go on for longer than any line of a terminal is"


def said(context: refold.Context, n: int) -> None:
    role = "assistant" if n % 2 else "user"
    context.append({"role": role, "content": f"step-{n} {WORDS}"})
    context.flush()


def is_whole(screen: str, columns: int, rows: int, head: int) -> bool:
    """Whether exactly one picture stands there: its heading with the newest place, its meter, its
    last line, and nothing of an earlier one."""
    lines = [line for line in screen.splitlines() if line.strip()]
    return (
        len(lines) <= rows
        and all(len(line) <= columns for line in lines)
        and sum(line.startswith("talk at #") for line in lines) == 1
        and lines[0].startswith(f"talk at #{head}")
        and sum(line.startswith("Window ") for line in lines) == 1
        and sum(line.startswith("Ctrl-C ends it") for line in lines) == 1
        and lines[-1].startswith("Ctrl-C ends it")
    )


@pytest.mark.parametrize("has_words", [False, True])
def test_one_picture_stands_there_at_every_size(folder: Path, has_words: bool) -> None:
    store = f"sqlite:{folder / 'talk.db'}"
    program = (*CHAT[:-1], "show", "talk", "--follow", "--store", store)
    with refold.open("talk", store=store, window=24_000) as context:
        for n in range(20):
            said(context, n)
        words = ("sh", "-c", f"echo before it; exec {shlex.join(program)}")
        with Terminal(folder, *words, columns=80, rows=30) as watching:
            watching.wait("step-19")
            for place, (columns, rows) in enumerate(SIZES):
                watching.resize(columns, rows)
                if has_words:
                    said(context, 20 + place)
                head = context.view.head
                watching.until(
                    lambda screen, c=columns, r=rows, h=head: is_whole(screen, c, r, h)  # type: ignore[misc]
                )
            watching.key("C-c")
            assert watching.ended() == 130
            # What stood there before is there again, with the last picture below it.
            screen = watching.all()
            assert screen.startswith("before it") and screen.count("talk at #") == 1
