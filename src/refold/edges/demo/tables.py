"""The tables at the end: six questions, and what each way of sending came to."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from refold.display import number
from refold.edges.demo.questions import Found
from refold.edges.demo.report import Answer, Report, SideReport
from refold.edges.demo.summarized import SUMMARY_TOKENS
from refold.edges.demo.symbols import Symbols, clean

WAYS = (
    ("everything", "all in a big window"),
    ("window", "sliding window"),
    ("summaries", "summaries by a model*"),
    ("refold", "refold"),
)


def answers(those: list[Answer], symbols: Symbols, width: int, shown: int | None = None) -> Table:
    """What was asked, and where each side has the answer; the last row counts them when all are
    shown."""
    rows = those if shown is None else those[:shown]
    table = _titled("Six questions about the session")
    table.show_footer = len(rows) == len(those)
    left = sum(answer.window.found for answer in rows)
    right = sum(answer.folded.found for answer in rows)
    # Fixed widths: the table must not jump while its rows appear.
    rest = max(20, width - 48)
    table.add_column(
        "asked at the end", Text("found"), width=rest, no_wrap=True, overflow=symbols.overflow
    )
    table.add_column("sliding window", Text(f"{left} of {len(rows)}", style="bold red"), width=14)
    table.add_column("refold", Text(f"{right} of {len(rows)}", style="bold green"), width=26)
    for answer in rows:
        window, folded = place_of(answer.window, symbols), place_of(answer.folded, symbols)
        table.add_row(_asked(answer, symbols), window, folded)
    return table


def _titled(title: str) -> Table:
    """An empty table under a title."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title)
    table.title_justify, table.title_style = "left", "bold"
    return table


def _asked(answer: Answer, symbols: Symbols) -> Text:
    """A question, and dimmer its answer."""
    question = answer.question
    spelled = clean(symbols.spelled(question.answer))
    return Text(question.text).append(f"\n{spelled}", style="dim")


def place_of(found: Found, symbols: Symbols) -> Text:
    """Where an answer is, in a few words."""
    if found.place == "page":
        return Text(f"{symbols.yes} page #{found.seq}", style="green")
    if found.place == "gone":
        return Text(f"{symbols.no} gone", style="red")
    text = Text(f"{symbols.yes} unfold {found.handle}", style="green")
    if found.seq:
        text.append(f"\n  #{found.seq}, in {found.tokens:,} tokens", style="dim")
    return text


def closing(report: Report) -> Table:
    """The ways side by side."""
    table = _titled("What the session came to")
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
        ("of them from the cache", [f"{side.share_from_cache:.0%}" for side in sides]),
        ("cost", [f"${side.cost_dollars:.2f}" for side in sides]),
        ("answers found", [f"{side.answers} of {questions}" for side in sides]),
    ]


def notes(report: Report) -> Text:
    """What the figures rest on."""
    prices = report.prices.items()
    listed = ", ".join(f"{name.replace('_', ' ')} ${price:g}" for name, price in prices)
    unfolds = report.answers - report.answers_visible
    lines = [
        f"{report.model}, list prices per million tokens: {listed}.",
        "Cached is what equals the previous request from its start; where caching does not pay, "
        "none is billed.",
        f"refold saw {report.tokens_seen:,} tokens and compacted {report.compactions} times. "
        f"Of its answers {report.answers_visible} stand on the page, "
        f"{unfolds} are one unfold away.",
        f"* {number(report.summaries, 'call')} for summaries are "
        f"${report.summaries_dollars:.2f} of its cost. "
        f"Offline, a script stands for the model: it keeps the user's and the agent's words, "
        f"{SUMMARY_TOKENS:,} tokens of them; what a model would keep only a model can show.",
        f"{report.seconds:.1f} seconds.",
        "On your own sessions: refold import --scan, then refold replay SESSION.",
    ]
    return Text("\n".join(lines), style="dim")
