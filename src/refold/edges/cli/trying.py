"""`refold demo`: the main job, live. The demo itself is a room of its own; here is only its
command."""

from __future__ import annotations

import os

import click

from refold.edges.cli.options import command
from refold.edges.cli.screen import Screen


@command(
    "demo",
    click.option(
        "--window",
        type=click.IntRange(min=1),
        help="The window of the model that is played, in tokens.",
    ),
    click.option("--fast", is_flag=True, help="Do not wait between the steps."),
)
def demo_(screen: Screen, window: int | None, fast: bool) -> None:
    """Plays an agent session with and without refold."""
    from refold.edges.cli import demo

    if screen.no_color:
        os.environ["NO_COLOR"] = "1"
    status = demo.run(json_output=screen.json_output, window=window, fast=fast)
    raise click.exceptions.Exit(status)
