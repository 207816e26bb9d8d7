"""`refold context status`: how full the window is, and what fills it; as a box or as one line if
that is asked for."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.displays.box import usage_box
from refold.edges.displays.parts import page_parts
from refold.edges.displays.phrases import advice, header
from refold.edges.displays.usage import usage_lines

BOX = Meta(description="As a box: messages on the page and in all.")
HEADER = Meta(description="As one line: messages on the page and in all, and how full it is.")


class StatusArguments(Arguments, frozen=True, kw_only=True):
    box: Annotated[bool, BOX] = False
    header: Annotated[bool, HEADER] = False


class Status(Result, frozen=True, kw_only=True):
    """The size of the next request, and its parts, which sum to it."""

    conversation: str
    model: str
    current: int
    window: int
    percent: float
    level: str
    messages: int
    active: int
    summaries: int
    oldest_age_ms: int
    parts: dict[str, int]
    form: Literal["usage", "box", "header"]


def run(session: Session, arguments: StatusArguments) -> Status:
    with session.context() as context:
        stats = context.stats()
        parts = page_parts(context.view, context.budget)
    return Status(
        conversation=stats.conversation,
        model=stats.model,
        current=stats.current,
        window=stats.window,
        percent=stats.percent,
        level=stats.level,
        messages=stats.messages,
        active=stats.active,
        summaries=stats.summaries,
        oldest_age_ms=stats.oldest_age_ms,
        parts=parts,
        form="box" if arguments.box else "header" if arguments.header else "usage",
    )


def show(status: Status, screen: Screen) -> None:
    for line in _lines(status, screen.columns):
        screen.line(line)
    if status.form == "box":
        percent = 1_000 * status.current // status.window / 10  # cut, as in the other forms
        full = f"of the window, {percent:.1f}% is used"
        screen.line(("dim", f"Usage counts messages on the page of all messages; {full}."))
    if status.level != "ok" and status.form != "header":
        compact = screen.call("compact", status.conversation)
        screen.line(("yellow", advice(status.current, status.window, compact)))


def _lines(status: Status, columns: int) -> list[str]:
    match status.form:
        case "box":
            return usage_box(status.active, status.messages, status.summaries, columns)
        case "header":
            return [header(status.active, status.messages, int(status.percent))]
    return usage_lines(
        current=status.current,
        window=status.window,
        messages=status.messages,
        oldest_age_ms=status.oldest_age_ms,
        parts=status.parts,
    )


COMMAND = Command(
    name="context status",
    reads=True,
    arguments=StatusArguments,
    run=run,
    show=show,
)
