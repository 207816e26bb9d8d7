"""`refold copy`: conversations from one store to another. A bar on a terminal, nothing of the
kind in a pipe."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from refold.edges.cli.options import command, opened_store
from refold.edges.cli.screen import Screen, number, one_line

if TYPE_CHECKING:
    from refold.conversations.copier import Copied, CopyListener

SAID = {
    "copied": "copied",
    "continued": "brought up to date",
    "same": "there already",
    "ahead": "there, and went on",
}


@command(
    "copy",
    click.argument("source", metavar="FROM"),
    click.argument("target", metavar="TO"),
    click.argument("names", metavar="[ID]...", nargs=-1),
)
def copy_(screen: Screen, source: str, target: str, names: tuple[str, ...]) -> None:
    """Copies conversations to another store.

    FROM and TO are stores, such as files:DIR or sqlite:PATH. Every event keeps its bytes, every
    fork its parent, and all is read again at the end. A copy that was interrupted goes on; a log
    that differs there is left as it is.
    """
    from refold.conversations.copier import copy
    from refold.errors import OUTCOMES, Corrupt

    with (
        opened_store(source) as here,
        opened_store(target) as there,
        screen.progress("comparing") as show,
    ):
        results = copy(here, there, names, progress=show and _teller(show))
        urls = {"from": here.url, "to": there.url}
    if screen.json_output:
        screen.emit({**urls, "conversations": [_as_json(one) for one in results]})
    else:
        _print(screen, results, urls)
    if any(one.problems for one in results):
        raise click.exceptions.Exit(OUTCOMES[Corrupt.code][1])


def _teller(show: Callable[[str, int, int], None]) -> CopyListener:
    return lambda at: show(at.conversation, at.done, at.total)


def _as_json(one: Copied) -> dict[str, Any]:
    return {
        **{name: getattr(one, name) for name in one.__struct_fields__},
        "problems": list(one.problems),
    }


def _print(screen: Screen, results: list[Copied], urls: dict[str, str]) -> None:
    if not results:
        screen.line(f"There are no conversations in {urls['from']}.")
        return
    rows = [
        (one.id, f"{one.head:,}", f"{one.events:,}", f"{one.artifacts:,}", SAID[one.state])
        for one in results
    ]
    screen.table(("ID", ">EVENTS", ">WRITTEN", ">ARTIFACTS", "STATE"), rows)
    for one in results:
        for problem in one.problems:
            screen.line(("red", one.id), f": {one_line(problem, 500)}")
    events, artifacts = sum(one.events for one in results), sum(one.artifacts for one in results)
    wrote = f"{number(events, 'event')} and {number(artifacts, 'artifact')} written"
    screen.line(f"{number(len(results), 'conversation')} in {urls['to']}: {wrote}, all read again.")
