"""`refold demo`: the main job, live. A scripted agent, the same stream to a sliding window and to
refold.

On a terminal it takes about 35 seconds; in a pipe, with `fast` or as JSON it does not wait.
Everything it needs is in a temporary folder that is removed at the end. Neighbour: `edges.demo` is
the demo itself.
"""

from __future__ import annotations

import time
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from refold.edges.commands.command import Arguments, Command, Screen
from refold.edges.commands.session import Session
from refold.edges.demo.report import Report, symbols_for
from refold.edges.demo.screen import Lines, console_on, stage_on
from refold.edges.demo.script import scratch_folder
from refold.edges.demo.story import Story

WINDOW = 24_000
WINDOW_HELP = Meta(description="The window of the simulated model, in tokens.", ge=1)
FAST = Meta(description="Do not wait between the steps.")


class DemoArguments(Arguments, frozen=True, kw_only=True):
    window: Annotated[int, WINDOW_HELP] | None = None
    fast: Annotated[bool, FAST] = False


def run(session: Session, arguments: DemoArguments) -> Report:
    """Plays the story on the session's screen, moving where somebody watches."""
    started = time.monotonic()
    stage = stage_on(console_on(session.screen), fast=arguments.fast)
    with scratch_folder() as folder:
        story = Story(folder, stage, window=arguments.window or WINDOW)
        try:
            report = story.play()
        finally:
            story.folded.context.close()
            stage.stop()
    return replace(report, seconds=round(time.monotonic() - started, 2))


def show(report: Report, screen: Screen) -> None:
    console = console_on(screen)
    Lines(console, symbols_for(console.encoding)).closing(report)


DEMO = Command(
    name="demo",
    on="nothing",
    arguments=DemoArguments,
    run=run,
    show=show,
)
