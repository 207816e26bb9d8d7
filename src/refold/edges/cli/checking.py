"""`refold verify`: walks the store and says what is wrong, and where. Exit status 5 if anything
is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from refold.edges.cli.options import command, opened_store, store_option
from refold.edges.cli.screen import Screen, number, one_line

if TYPE_CHECKING:
    from refold.conversations.log_check import Problem
    from refold.conversations.verifier import Verification


@command("verify", click.argument("conversation", metavar="[ID]", required=False), store_option)
def verify_(screen: Screen, conversation: str | None, store: str | None) -> None:
    """Says what is not as it was written.

    Walks every event, artifact, bookmark and page of the store, or of one conversation. An artifact
    that a text names and that is not there is a remark, no damage.
    """
    from refold.conversations.verifier import verify
    from refold.errors import OUTCOMES, Corrupt

    with opened_store(store) as there:
        report = verify(there, conversation)
        if screen.json_output:
            screen.emit(_as_json(report, there.url))
        else:
            _print(screen, report)
    if report.problems:
        raise click.exceptions.Exit(OUTCOMES[Corrupt.code][1])


def _as_json(report: Verification, url: str) -> dict[str, Any]:
    return {
        "store": url,
        "ok": not report.problems,
        "conversations": report.conversations,
        "events": report.events,
        "artifacts": report.artifacts,
        "problems": [*map(_fields, report.problems)],
        "remarks": [*map(_fields, report.remarks)],
    }


def _fields(problem: Problem) -> dict[str, Any]:
    return {name: getattr(problem, name) for name in problem.__struct_fields__}


def _print(screen: Screen, report: Verification) -> None:
    for problem in report.problems:
        screen.line(
            ("red", _place(problem)),
            f": {one_line(problem.what, 500)}",
            ("dim", f" [{problem.file}]"),
        )
    for remark in report.remarks:
        screen.line(("yellow", _place(remark)), f": {one_line(remark.what, 500)}")
    walked = [
        number(getattr(report, f"{name}s"), name) for name in ("conversation", "event", "artifact")
    ]
    found = len(report.problems)
    verdict = (
        ("red", f"{number(found, 'problem')}.") if found else ("green", "all is as it was written.")
    )
    screen.line(f"{', '.join(walked)} walked: ", verdict)


def _place(problem: Problem) -> str:
    where = problem.conversation or "the store"
    return f"{where} #{problem.seq}, {problem.part}" if problem.seq else f"{where}, {problem.part}"
