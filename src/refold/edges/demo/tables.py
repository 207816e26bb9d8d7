"""The tables at the end: six questions, and what each way of sending came to."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from refold.edges.demo.questions import Found
from refold.edges.demo.report import Answer, Report, SideReport
from refold.edges.demo.signs import Signs, clean

WAYS = (("everything", "all in a big window"), ("window", "sliding window"), ("refold", "refold"))


def answers(those: list[Answer], signs: Signs, width: int, shown: int | None = None) -> Table:
    """What was asked, and where each side has the answer; the last row counts them when all are
    shown."""
    rows = those if shown is None else those[:shown]
    done = len(rows) == len(those)
    table = Table(
        box=box.SIMPLE_HEAD,
        show_footer=done,
        pad_edge=False,
        title="Six questions about the session",
    )
    table.title_justify, table.title_style = "left", "bold"
    left, right = (
        [getattr(answer, side).found for answer in rows] for side in ("window", "folded")
    )
    # Fixed widths: the table must not jump while its rows appear.
    rest = max(20, width - 48)
    table.add_column(
        "asked at the end", Text("found"), width=rest, no_wrap=True, overflow=signs.overflow
    )
    table.add_column(
        "sliding window", Text(f"{sum(left)} of {len(rows)}", style="bold red"), width=14
    )
    table.add_column("refold", Text(f"{sum(right)} of {len(rows)}", style="bold green"), width=26)
    for answer in rows:
        asked = Text(answer.question.text).append(
            f"\n{clean(signs.spelled(answer.question.answer))}", style="dim"
        )
        table.add_row(asked, where(answer.window, signs), where(answer.folded, signs))
    return table


def where(found: Found, signs: Signs) -> Text:
    """Where an answer is, in a few words."""
    if found.place == "page":
        return Text(f"{signs.yes} page #{found.seq}", style="green")
    if found.place == "unfold":
        text = Text(f"{signs.yes} unfold {found.handle}", style="green")
        return text.append(
            f"\n  #{found.seq}, in {found.tokens:,} tokens" if found.seq else "", style="dim"
        )
    return Text(f"{signs.no} gone", style="red")


def closing(report: Report) -> Table:
    """The three ways side by side."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="What the session came to")
    table.title_justify, table.title_style = "left", "bold"
    table.add_column("")
    for key, name in WAYS:
        table.add_column(name, justify="right", style="bold green" if key == "refold" else "")
    sides = [report.sides[key] for key, _ in WAYS]
    for label, cells in figures(sides, len(report.questions)):
        table.add_row(label, *cells)
    return table


def figures(sides: list[SideReport], questions: int) -> list[tuple[str, list[str]]]:
    """The rows of the closing table."""
    return [
        ("messages", [f"{side.messages:,}" for side in sides]),
        ("requests valid", [f"{side.requests_valid} of {side.requests}" for side in sides]),
        ("largest request", [f"{side.tokens_max_request:,}" for side in sides]),
        ("tokens sent", [f"{side.tokens_sent:,}" for side in sides]),
        (
            "of them from the cache",
            [f"{side.tokens_from_cache / side.tokens_sent:.0%}" for side in sides],
        ),
        ("cost", [f"${side.cost_dollars:.2f}" for side in sides]),
        ("answers found", [f"{side.answers} of {questions}" for side in sides]),
    ]


def notes(report: Report) -> Text:
    """What the figures rest on."""
    prices = report.prices
    listed = ", ".join(f"{name.replace('_', ' ')} ${prices[name]:g}" for name in prices)
    lines = [
        f"{report.model}, list prices per million tokens: {listed}.",
        "Cached is what equals the previous request from its start; where caching does not pay, none is billed.",
        f"refold saw {report.tokens_seen:,} tokens and compacted {report.compactions} times. Of its answers "
        f"{report.answers_visible} stand on the page, {report.answers - report.answers_visible} are one unfold away.",
        f"{report.seconds:.1f} seconds.",
    ]
    return Text("\n".join(lines), style="dim")
