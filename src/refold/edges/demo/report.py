"""The figures of a run for `--json`, the tables at the end, and the symbols of the display.

Every number is counted by a bill, a search or a hash of this run. Terminals without Unicode get
ASCII symbols; `clean` removes control characters of files and commands. Neighbours: `story` plays,
`screen` shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct
from rich import box
from rich.table import Table
from rich.text import Text

from refold.display import number
from refold.edges.commands.command import Result, Screen
from refold.edges.demo.questions import Found, Question
from refold.edges.demo.sides import SUMMARY_TOKENS

if TYPE_CHECKING:
    from refold.edges.demo.proofs import Returned, Searched, Undone
    from refold.edges.demo.sides import Folded, Messages
    from refold.edges.demo.story import Story


class Note(Struct, frozen=True):
    """An event in lines: the first is its title, the others are details."""

    kind: str
    lines: list[str]


class Answer(Struct, frozen=True, kw_only=True):
    """A question, and the location of its answer on each side."""

    question: Question
    everything: Found
    summarized: Found
    window: Found
    folded: Found


class SideReport(Struct, frozen=True, kw_only=True):
    """The figures of one way of sending."""

    messages: int
    requests: int
    requests_invalid: int
    requests_over_budget: int
    tokens_max_request: int
    tokens_sent: int
    tokens_from_cache: int
    cost_dollars: float
    cached: bool
    answers: int
    answers_visible: int

    @property
    def requests_valid(self) -> int:
        return self.requests - self.requests_invalid - self.requests_over_budget

    @property
    def share_from_cache(self) -> float:
        return self.tokens_from_cache / self.tokens_sent


class Report(Result, frozen=True, kw_only=True):
    """The whole run."""

    model: str
    window: int
    messages: int
    tokens_seen: int
    tokens_sent: int
    tokens_max_request: int
    compactions: int
    requests: int
    requests_invalid: int
    requests_over_budget: int
    answers: int
    answers_visible: int
    answers_window: int
    questions: list[dict[str, Any]]
    sides: dict[str, SideReport]
    undo: dict[str, Any]
    unfold: dict[str, Any]
    search: dict[str, Any]
    prices: dict[str, float]
    summaries: int
    summaries_dollars: float
    seconds: float = 0.0

    @property
    def outcome(self) -> str:
        """An error if refold broke a promise."""
        fits = not self.requests_invalid and not self.requests_over_budget
        return "ok" if fits and self.undo["equal"] and self.unfold["equal"] else "error"

    def show(self, screen: Screen) -> None:
        from refold.edges.demo.screen import Lines, console_on

        console = console_on(screen)
        Lines(console, symbols_for(console.encoding)).closing(self)


def report_of(
    story: Story, answers: list[Answer], undone: Undone, returned: Returned, searched: Searched
) -> Report:
    """The figures of a finished story."""
    sides = {
        "everything": _side(story, story.everything, [answer.everything for answer in answers]),
        "window": _side(story, story.window, [answer.window for answer in answers]),
        "summaries": _side(story, story.summarized, [answer.summarized for answer in answers]),
        "refold": _side(story, story.folded, [answer.folded for answer in answers]),
    }
    folded = sides["refold"]
    return Report(
        model=story.model.name,
        window=story.window_tokens,
        messages=folded.messages,
        compactions=story.compactions,
        tokens_seen=story.tokens_seen,
        tokens_sent=folded.tokens_sent,
        tokens_max_request=folded.tokens_max_request,
        requests=folded.requests,
        requests_invalid=folded.requests_invalid,
        requests_over_budget=folded.requests_over_budget,
        answers=folded.answers,
        answers_visible=folded.answers_visible,
        answers_window=sides["window"].answers,
        questions=[_row(answer) for answer in answers],
        sides=sides,
        undo={**msgspec.to_builtins(undone), "equal": undone.holds},
        unfold={**msgspec.to_builtins(returned), "equal": returned.holds},
        search={**msgspec.to_builtins(searched), "holds": searched.holds},
        prices=msgspec.to_builtins(story.model.prices) if story.model.prices else {},
        summaries=story.summarized.summaries,
        summaries_dollars=round(story.summarized.summaries_dollars, 6),
    )


def _side(story: Story, side: Messages | Folded, found: list[Found]) -> SideReport:
    bill = side.bill
    return SideReport(
        messages=len(story.seen),
        requests=bill.requests,
        requests_invalid=bill.invalid,
        requests_over_budget=bill.over_budget,
        tokens_max_request=bill.tokens_max,
        tokens_sent=bill.tokens_sent,
        tokens_from_cache=bill.tokens_read if bill.cost == bill.cost_cached else 0,
        cost_dollars=round(bill.cost, 6),
        cached=bill.cost == bill.cost_cached,
        answers=sum(one.found for one in found),
        answers_visible=sum(one.place == "page" for one in found),
    )


def _row(answer: Answer) -> dict[str, Any]:
    return {
        "question": answer.question.text,
        "answer": answer.question.answer,
        "window": msgspec.to_builtins(answer.window),
        "summaries": msgspec.to_builtins(answer.summarized),
        "refold": msgspec.to_builtins(answer.folded),
    }


WAYS = (
    ("everything", "all in a big window"),
    ("window", "sliding window"),
    ("summaries", "summaries by a model*"),
    ("refold", "refold"),
)


def answers(found: list[Answer], symbols: Symbols, width: int, shown: int | None = None) -> Table:
    """The questions, and the location of each answer; the last row counts them once all are
    shown."""
    rows = found if shown is None else found[:shown]
    table = _titled("Six questions about the session")
    table.show_footer = len(rows) == len(found)
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
    """A question, with its answer dimmer."""
    question = answer.question
    spelled = clean(symbols.spelled(question.answer))
    return Text(question.text).append(f"\n{spelled}", style="dim")


def place_of(found: Found, symbols: Symbols) -> Text:
    """The location of an answer, in a few words."""
    if found.place == "page":
        return Text(f"{symbols.yes} page #{found.seq}", style="green")
    if found.place == "gone":
        return Text(f"{symbols.no} gone", style="red")
    text = Text(f"{symbols.yes} unfold {found.handle}", style="green")
    if found.seq:
        text.append(f"\n  #{found.seq}, in {found.tokens:,} tokens", style="dim")
    return text


def closing(report: Report) -> Table:
    """All ways of sending side by side."""
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
    """The basis of the figures."""
    prices = report.prices.items()
    listed = ", ".join(f"{name.replace('_', ' ')} ${price:g}" for name, price in prices)
    unfolds = report.answers - report.answers_visible
    lines = [
        f"{report.model}, list prices per million tokens: {listed}.",
        "The cached part equals the start of the previous request; where caching does not pay, "
        "none is billed.",
        f"refold saw {report.tokens_seen:,} tokens and compacted {report.compactions} times. "
        f"Of its answers {report.answers_visible} are on the page, "
        f"{unfolds} are one unfold away.",
        f"* {number(report.summaries, 'call')} for summaries are "
        f"${report.summaries_dollars:.2f} of its cost. "
        f"Offline, a script replaces the model: it keeps the user's and the agent's words, "
        f"{SUMMARY_TOKENS:,} tokens of them; a real model may keep more or less.",
        f"{report.seconds:.1f} seconds.",
        "On your own sessions: refold import --scan, then refold replay SESSION.",
    ]
    return Text("\n".join(lines), style="dim")


_STYLES = {
    "warn": "yellow", "drop": "red", "refuse": "bold red", "fold": "bold green",
    "stub": "bold green",
    "right": "bold green", "wrong": "bold red",
}  # fmt: skip


class Symbols(Struct, frozen=True, kw_only=True):
    """One symbol per kind of event, and the characters of meters."""

    full: str = "█"
    empty: str = "░"
    arrow: str = "▸"
    rule: str = "│"
    yes: str = "✓"
    no: str = "✗"
    warn: str = "!"
    drop: str = "✗"
    refuse: str = "✗"
    fold: str = "◆"
    stub: str = "◆"
    unicode: bool = True

    def of(self, kind: str) -> tuple[str, str]:
        """The symbol and the style of an event."""
        symbol = {"right": self.yes, "wrong": self.no}.get(kind) or getattr(self, kind)
        return str(symbol), _STYLES[kind]

    def spelled(self, text: str) -> str:
        """The text in characters that this terminal can show."""
        if self.unicode:
            return text
        return text.replace("→", "->").replace("…", "...").encode("ascii", "replace").decode()

    @property
    def overflow(self) -> Literal["ellipsis", "crop"]:
        """The end of a line that is too long."""
        return "ellipsis" if self.unicode else "crop"


ASCII = Symbols(
    full="#",
    empty="-",
    arrow=">",
    rule="|",
    yes="+",
    no="x",
    drop="x",
    refuse="x",
    fold="*",
    stub="*",
    unicode=False,
)


def symbols_for(encoding: str) -> Symbols:
    """The symbols that an encoding can show."""
    return Symbols() if encoding.lower().startswith("utf") else ASCII


def clean(text: str) -> str:
    """The text on one line and without control characters."""
    return "".join(character if character.isprintable() else " " for character in text)
