"""`refold proxy report`: what the calls that came through a proxy took, and what was saved."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.display import cut, one_line
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.proxy.report import Sum, added, sums
from refold.tokens.models import dollars

TITLE_CHARS = 30
LIMIT = Meta(description="Show at most this many conversations, the newest.", ge=1)


class ReportArguments(Arguments, frozen=True, kw_only=True):
    limit: Annotated[int, LIMIT] = 20


class Reported(Result, frozen=True, kw_only=True):
    """The newest conversations, and what all of them come to."""

    conversations: tuple[Sum, ...]
    total: Sum


def run(session: Session, arguments: ReportArguments) -> Reported:
    found = list(sums(session.store))
    return Reported(conversations=tuple(found[: arguments.limit]), total=added("all", found))


def show(reported: Reported, screen: Screen) -> None:
    if not reported.total.calls:
        screen.line(f"No call has come through a proxy yet: {screen.call('proxy')}")
        return
    heads = (
        "conversation",
        "title",
        "calls",
        "folded",
        "in",
        "sent",
        "cached",
        "saved",
        "cost",
        "saved $",
    )
    screen.table(heads, map(_row, (*reported.conversations, reported.total)))
    screen.line("Left out: titles, probes, first calls without tools, requests over 16 MiB.")
    if not reported.total.folded:
        screen.line("Nothing was folded: saved is what --fold would have saved.")


def _row(one: Sum) -> tuple[str, ...]:
    counts = (one.calls, one.folded, one.input, one.sent, one.cached, one.saved)
    money = (dollars(one.cost), dollars(one.saved_cost))
    return (
        one.conversation,
        cut(one_line(one.title), TITLE_CHARS),
        *(f"{count:,}" for count in counts),
        *money,
    )


COMMAND = Command(
    name="proxy report",
    on="store",
    reads=True,
    arguments=ReportArguments,
    run=run,
    show=show,
)
