"""The demo: a scripted agent sends the same stream to a sliding window and to refold, live.

On a terminal it takes about 35 seconds; in a pipe, with `fast` or as JSON it does not wait. It
works in a temporary folder, which is removed at the end. Neighbour: `edges.demo` is the demo
itself, and loads rich, so this module is imported only to play it.
"""

from __future__ import annotations

import time
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from refold.edges.commands.command import command
from refold.edges.commands.session import Session
from refold.edges.demo.report import Report
from refold.edges.demo.screen import console_on, stage_on
from refold.edges.demo.script import scratch_folder
from refold.edges.demo.story import Story

WINDOW = 24_000


@command("demo", on="nothing")
def play(
    session: Session,
    *,
    window: Annotated[int, Meta(description="The window of the simulated model, in tokens.", ge=1)]
    | None = None,
    fast: Annotated[bool, Meta(description="Do not wait between the steps.")] = False,
) -> Report:
    """Plays the story on the session's screen, animated if somebody watches."""
    started = time.monotonic()
    stage = stage_on(console_on(session.screen), fast=fast)
    with scratch_folder() as folder:
        story = Story(folder, stage, window=window or WINDOW)
        try:
            report = story.play()
        finally:
            story.folded.context.close()
            stage.stop()
    return replace(report, seconds=round(time.monotonic() - started, 2))
