"""`refold demo`: the main job, live. A scripted agent, the same stream to a sliding window and to
refold.

On a terminal it takes about 35 seconds; in a pipe, with `fast` or as JSON it does not wait.
Everything it needs lives in a temporary folder that is removed at the end. Neighbour: `edges.demo`
is the demo itself.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
from rich.console import Console

from refold.edges.cli.screen import Screen
from refold.edges.demo.report import Report
from refold.edges.demo.screen import WIDTH_MAX, Lines, Live, Pace
from refold.edges.demo.signs import signs_for
from refold.edges.demo.story import Story
from refold.edges.demo.workshop import scratch_folder

WINDOW = 24_000


class DemoConsole(Console):
    """A console that lets the command line answer for a closed pipe; rich would end the process
    itself."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def run(
    *, json_output: bool = False, window: int | None = None, fast: bool = False, keep: bool = False
) -> int:
    """Plays the demo and gives the exit status: 0 if every promise held in this run."""
    console = DemoConsole(highlight=False, markup=False, emoji=False, quiet=json_output)
    console.width = min(console.width, WIDTH_MAX)
    with scratch_folder(keep=keep) as folder:
        report = play(folder, console, window=window or WINDOW, fast=fast)
        if json_output:
            Screen(json_output=True).emit(msgspec.to_builtins(report))
        elif keep:
            console.print(f"kept: {folder}")
    return 0 if held(report) else 1


def play(folder: Path, console: Console, *, window: int, fast: bool) -> Report:
    """The story on the console, moving where somebody watches."""
    started = time.monotonic()
    signs = signs_for(console.encoding)
    watched = console.is_terminal and not console.is_dumb_terminal and not console.quiet
    screen = Live(console, signs, Pace(on=not fast)) if watched else Lines(console, signs)
    story = Story(folder, screen, window=window)
    try:
        report = story.play()
    finally:
        story.folded.context.close()
        screen.stop()
    report = msgspec.structs.replace(report, seconds=round(time.monotonic() - started, 2))
    screen.closing(report)
    return report


def held(report: Report) -> bool:
    """Whether refold kept what it promises."""
    fits = not report.requests_invalid and not report.requests_over_budget
    return fits and bool(report.undo["equal"] and report.unfold["equal"])
