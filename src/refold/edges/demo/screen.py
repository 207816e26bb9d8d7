"""How the story looks: two columns that move on a terminal, one line after the other in a pipe.

`Lines` prints what happens as it happens. `Live` keeps two panels on the terminal, each with a
meter and its newest events, and waits between turns so that a person can follow. Both end with the
same tables. Everything shown is a `Text` without control characters, never markup: what files and
commands contain cannot reach the terminal.
"""

from __future__ import annotations

import textwrap
import time
from typing import Protocol

from msgspec import Struct
from rich.console import Console, Group, RenderableType
from rich.live import Live as RichLive
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from refold.edges.commands.command import Screen as CommandScreen
from refold.edges.demo import tables
from refold.edges.demo.report import Answer, Report, Told
from refold.edges.demo.signs import Signs, clean, signs_for

WIDTH_MAX = 132
ROWS_MAX = 40
FRAME_ROWS = 8  # what a frame needs besides its header and its events
TITLES = ("sliding window", "refold")

Size = tuple[int, float]  # tokens on the page, dollars so far


class Screen(Protocol):
    """What the story is told to."""

    def begin(self, window: int, model: str) -> None: ...
    def action(self, tool: str, text: str, message: int) -> None: ...
    def meters(self, left: Size, right: Size) -> None: ...
    def left(self, told: Told) -> None: ...
    def right(self, told: Told) -> None: ...
    def end_stream(self) -> None: ...
    def answers(self, answers: list[Answer]) -> None: ...
    def proof(self, told: Told) -> None: ...
    def closing(self, report: Report) -> None: ...


class Pace:
    """Waits, unless nobody watches. Work that took its time already is not waited for again."""

    def __init__(self, *, on: bool) -> None:
        self.on, self.due = on, time.monotonic()

    def wait(self, seconds: float) -> None:
        if self.on:
            self.due += seconds
            time.sleep(max(0.0, self.due - time.monotonic()))


class DemoConsole(Console):
    """A console that lets its caller answer for a closed pipe; rich would end the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console_on(screen: CommandScreen | None) -> Console:
    """A console that prints where the screen does, or nowhere if nobody reads it."""
    console = DemoConsole(
        file=screen.out if screen else None,
        no_color=True if screen and screen.no_color else None,
        quiet=screen is None or screen.json_output,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.width = min(console.width, WIDTH_MAX)
    return console


def stage_on(console: Console, *, fast: bool) -> Lines:
    """What the story is told to: columns that move where somebody watches, else lines."""
    signs = signs_for(console.encoding)
    is_watched = console.is_terminal and not console.is_dumb_terminal and not console.quiet
    return Live(console, signs, Pace(on=not fast)) if is_watched else Lines(console, signs)


def header(window: int, model: str) -> Text:
    """What is being shown, in two lines."""
    title = Text("refold demo", style="bold")
    title.append(
        f"  one scripted agent, real tools, a window of {window:,} tokens\n", style="default"
    )
    title.append(
        f"the same stream to both sides, priced as {model}, measured in this run", style="dim"
    )
    return title


# --- one line after the other ---


class Lines:
    """Prints every event in a line of its own, with the side's name before it."""

    def __init__(self, console: Console, signs: Signs) -> None:
        self.console, self.signs = console, signs

    def begin(self, window: int, model: str) -> None:
        self.console.print(header(window, model), "", sep="\n")

    def action(self, tool: str, text: str, message: int) -> None:
        """Nothing: a line for every call would bury the story."""

    def meters(self, left: Size, right: Size) -> None:
        """Nothing: a meter only means something where it moves."""

    def left(self, told: Told) -> None:
        self._print(TITLES[0], told)

    def right(self, told: Told) -> None:
        self._print(TITLES[1], told)

    def _print(self, title: str, told: Told) -> None:
        label = f"{title:>{len(TITLES[0])}} {self.signs.rule} "
        for line in event_lines(told, self.signs, self.console.width - len(label)):
            self.console.print(Text(label, style="dim").append_text(line))

    def stop(self) -> None:
        """Gives the terminal back, also when the story broke off."""

    def end_stream(self) -> None:
        self.console.print()

    def answers(self, answers: list[Answer]) -> None:
        self.console.print(tables.answers(answers, self.signs, self.console.width))

    def proof(self, told: Told) -> None:
        self.console.print(*event_lines(told, self.signs, self.console.width), sep="\n")

    def closing(self, report: Report) -> None:
        self.console.print("", tables.closing(report), tables.notes(report), sep="\n")


def event_lines(told: Told, signs: Signs, width: int) -> list[Text]:
    """An event as lines no wider than that: a sign, what happened, and dimmer what more there is
    to say."""
    sign, style = signs.of(told.kind)
    out: list[Text] = []
    for at, line in enumerate(told.lines):
        opening = f"{sign} " if at == 0 else "  "
        wrapped = textwrap.wrap(
            clean(signs.spelled(line)),
            max(20, width),
            initial_indent=opening,
            subsequent_indent="  ",
        )
        out += [Text(part, style=style if at == 0 else "dim", no_wrap=True) for part in wrapped]
    return out


# --- two columns that move ---


class Column(Struct):
    """One side of the frame."""

    title: str
    border: str
    size: Size = (0, 0.0)
    events: list[Told] = []


class Live(Lines):
    """Two panels on a terminal."""

    def __init__(self, console: Console, signs: Signs, pace: Pace) -> None:
        super().__init__(console, signs)
        self.pace = pace
        self.columns = (Column(TITLES[0], "yellow"), Column(TITLES[1], "green"))
        self.head, self.foot, self.window, self.receipts = Text(), Text(), 1, 0
        self.live = RichLive(
            console=console, auto_refresh=False, transient=False, vertical_overflow="crop"
        )

    def begin(self, window: int, model: str) -> None:
        self.head, self.window = header(window, model), window
        self.live.start()
        self._show(1.5)

    def stop(self) -> None:
        self.live.stop()

    def action(self, tool: str, text: str, message: int) -> None:
        self.foot = Text(f"{self.signs.arrow} {tool} ", style="bold")
        self.foot.append(clean(self.signs.spelled(text)), style="default").append(
            f"  message {message}", style="dim"
        )
        self._show(0.1)

    def meters(self, left: Size, right: Size) -> None:
        self.columns[0].size, self.columns[1].size = left, right

    def left(self, told: Told) -> None:
        self.columns[0].events.append(told)
        self._show(1.2 if told.kind == "refuse" else 0.25)

    def right(self, told: Told) -> None:
        self.columns[1].events.append(told)
        self.receipts += told.kind == "fold"
        first = told.kind == "stub" or (told.kind == "fold" and self.receipts == 1)
        self._show(2.0 if first else 0.35)

    def end_stream(self) -> None:
        self.foot = Text("The session is over. Six questions are asked.\n", style="dim")
        self._show(0.5)
        self.stop()

    def answers(self, answers: list[Answer]) -> None:
        """The rows one by one; the last frame is the whole table."""
        with RichLive(
            console=self.console, auto_refresh=False, vertical_overflow="visible"
        ) as live:
            for count in range(len(answers) + 1):
                live.update(
                    tables.answers(answers, self.signs, self.console.width, shown=count),
                    refresh=True,
                )
                self.pace.wait(0.6)

    def proof(self, told: Told) -> None:
        super().proof(told)
        self.pace.wait(0.8)

    # --- the frame ---

    def _show(self, wait_s: float) -> None:
        self.live.update(self._frame(), refresh=True)
        self.pace.wait(wait_s)

    def _frame(self) -> RenderableType:
        width = min(self.console.width, WIDTH_MAX)
        rows = max(
            4,
            min(self.console.height, ROWS_MAX)
            - FRAME_ROWS
            - len(self.head.wrap(self.console, width)),
        )
        grid = Table.grid(expand=False)
        panels = [self._panel(column, width // 2, rows) for column in self.columns]
        grid.add_row(*panels)
        foot = self.foot.copy()
        foot.truncate(width - 1, overflow=self.signs.overflow)
        return Group(self.head, Text(), grid, foot)

    def _panel(self, column: Column, width: int, rows: int) -> Panel:
        inner = width - 4
        lines = [
            line for told in column.events[-rows:] for line in event_lines(told, self.signs, inner)
        ][-rows:]
        lines += [Text()] * (rows - len(lines))
        body = Group(*meter(column.size, self.window, self.signs, inner), Text(), *lines)
        return Panel(
            body, title=column.title, title_align="left", border_style=column.border, width=width
        )


def meter(size: Size, window: int, signs: Signs, width: int) -> list[Text]:
    """How full the page is, as a bar that changes its colour at the thresholds, and in figures."""
    tokens, dollars = size
    share = tokens / window
    style = "red" if share >= 0.9 else "yellow" if share >= 0.8 else "green"
    label = f" {share:4.0%}" if share < 10 else " >999%"
    room = width - len(label)
    filled = min(room, round(room * share))
    bar = Text(signs.full * filled, style=style).append(signs.empty * (room - filled), style="dim")
    cost = f"${dollars:.2f}"
    figures = f"{tokens:,} of {window:,} tokens"
    if len(figures) + len(cost) >= width:
        figures = f"{tokens:,}"
    return [
        bar.append(label, style=f"bold {style}"),
        Text(f"{figures}{cost:>{max(1, width - len(figures))}}"),
    ]
