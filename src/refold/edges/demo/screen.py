"""The display of the story: two moving columns on a terminal, plain lines in a pipe.

`Lines` prints what happens as it happens. `Live` keeps two panels on the terminal, each with a
meter and its newest events, and waits between turns so that a person can follow. Both end with the
same tables. Everything shown is a `Text` without control characters, never markup, so no content of
files or commands can control the terminal.
"""

from __future__ import annotations

import textwrap
import time

from msgspec import Struct
from rich.console import Console, Group, RenderableType
from rich.live import Live as RichLive
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from refold.edges.commands.command import Screen as CommandScreen
from refold.edges.demo import report as tables
from refold.edges.demo.report import Answer, Note, Report, Symbols, clean, symbols_for

WIDTH_MAX = 132
ROWS_MAX = 40
FRAME_ROWS = 8  # rows of a frame besides its header and its events
TITLES = ("sliding window", "refold")

Size = tuple[int, float]  # tokens on the page, dollars so far


class Pace:
    """Waits between turns, if `on`. Time spent on work counts as waiting."""

    def __init__(self, *, on: bool) -> None:
        self.on, self.due = on, time.monotonic()

    def wait(self, seconds: float) -> None:
        if self.on:
            self.due += seconds
            time.sleep(max(0.0, self.due - time.monotonic()))


class DemoConsole(Console):
    """A console that raises on a closed pipe; rich would end the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console_on(screen: CommandScreen | None) -> Console:
    """A console with the output of the screen; silent without one, or for JSON."""
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
    """The display of the story: moving columns on a terminal, else lines."""
    symbols = symbols_for(console.encoding)
    is_watched = console.is_terminal and not console.is_dumb_terminal and not console.quiet
    return Live(console, symbols, Pace(on=not fast)) if is_watched else Lines(console, symbols)


def header(window: int, model: str) -> Text:
    """The title, in two lines."""
    title = Text("refold demo", style="bold")
    title.append(
        f"  one scripted agent, real tools, a window of {window:,} tokens\n", style="default"
    )
    title.append(
        f"the same stream to both sides, priced as {clean(model)}, measured in this run",
        style="dim",
    )
    return title


# --- one line after the other ---


class Lines:
    """Prints every event in a line of its own, with the side's name before it."""

    def __init__(self, console: Console, symbols: Symbols) -> None:
        self.console, self.symbols = console, symbols

    def begin(self, window: int, model: str) -> None:
        self.console.print(header(window, model), "", sep="\n")

    def action(self, tool: str, text: str, message: int) -> None:
        """Does nothing: a line for every call would bury the story."""

    def meters(self, left: Size, right: Size) -> None:
        """Does nothing: a meter is only useful if it moves."""

    def left(self, note: Note) -> None:
        self._print(TITLES[0], note)

    def right(self, note: Note) -> None:
        self._print(TITLES[1], note)

    def _print(self, title: str, note: Note) -> None:
        label = f"{title:>{len(TITLES[0])}} {self.symbols.rule} "
        width = self.console.width - len(label)
        for line in event_lines(note, self.symbols, width):
            self.console.print(Text(label, style="dim").append_text(line))

    def stop(self) -> None:
        """Restores the terminal, also after an error."""

    def end_stream(self) -> None:
        self.console.print()

    def answers(self, answers: list[Answer]) -> None:
        self.console.print(tables.answers(answers, self.symbols, self.console.width))

    def proof(self, note: Note) -> None:
        self.console.print(*event_lines(note, self.symbols, self.console.width), sep="\n")

    def closing(self, report: Report) -> None:
        self.console.print("", tables.closing(report), tables.notes(report), sep="\n")


def event_lines(note: Note, symbols: Symbols, width: int) -> list[Text]:
    """An event as lines of at most this width: a symbol and the first line, then dimmer details."""
    symbol, style = symbols.of(note.kind)
    first, *rest = note.lines
    lines = _wrapped(first, f"{symbol} ", style, symbols, width)
    for line in rest:
        lines += _wrapped(line, "  ", "dim", symbols, width)
    return lines


def _wrapped(line: str, opening: str, style: str, symbols: Symbols, width: int) -> list[Text]:
    """A line, wrapped into rows."""
    rows = textwrap.wrap(
        clean(symbols.spelled(line)),
        max(20, width),
        initial_indent=opening,
        subsequent_indent="  ",
    )
    return [Text(row, style=style, no_wrap=True) for row in rows]


# --- two columns that move ---


class Column(Struct):
    """One side of the frame."""

    title: str
    border: str
    size: Size = (0, 0.0)
    events: list[Note] = []


class Live(Lines):
    """Two panels on a terminal."""

    def __init__(self, console: Console, symbols: Symbols, pace: Pace) -> None:
        super().__init__(console, symbols)
        self.pace = pace
        self.columns = (Column(TITLES[0], "yellow"), Column(TITLES[1], "green"))
        self.head, self.foot = Text(), Text()
        self.window, self.receipts = 1, 0
        self.live = RichLive(console=console, auto_refresh=False, vertical_overflow="crop")

    def begin(self, window: int, model: str) -> None:
        self.head, self.window = header(window, model), window
        self.live.start()
        self._show(1.5)

    def stop(self) -> None:
        self.live.stop()

    def action(self, tool: str, text: str, message: int) -> None:
        foot = Text(f"{self.symbols.arrow} {tool} ", style="bold")
        foot.append(clean(self.symbols.spelled(text)), style="default")
        foot.append(f"  message {message}", style="dim")
        self.foot = foot
        self._show(0.1)

    def meters(self, left: Size, right: Size) -> None:
        self.columns[0].size, self.columns[1].size = left, right

    def left(self, note: Note) -> None:
        self.columns[0].events.append(note)
        self._show(1.2 if note.kind == "refuse" else 0.25)

    def right(self, note: Note) -> None:
        self.columns[1].events.append(note)
        if note.kind == "fold":
            self.receipts += 1
        is_first = note.kind == "stub" or (note.kind == "fold" and self.receipts == 1)
        self._show(2.0 if is_first else 0.35)

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
                table = tables.answers(answers, self.symbols, self.console.width, shown=count)
                live.update(table, refresh=True)
                self.pace.wait(0.6)

    def proof(self, note: Note) -> None:
        super().proof(note)
        self.pace.wait(0.8)

    # --- the frame ---

    def _show(self, wait_s: float) -> None:
        self.live.update(self._frame(), refresh=True)
        self.pace.wait(wait_s)

    def _frame(self) -> RenderableType:
        width = min(self.console.width, WIDTH_MAX)
        rows = self._event_rows(width)
        grid = Table.grid(expand=False)
        grid.add_row(*(self._panel(column, width // 2, rows) for column in self.columns))
        foot = self.foot.copy()
        foot.truncate(width - 1, overflow=self.symbols.overflow)
        return Group(self.head, Text(), grid, foot)

    def _event_rows(self, width: int) -> int:
        """The number of rows for events in a panel."""
        head_rows = len(self.head.wrap(self.console, width))
        height = min(self.console.height, ROWS_MAX)
        return max(4, height - FRAME_ROWS - head_rows)

    def _panel(self, column: Column, width: int, rows: int) -> Panel:
        """One side: its meter and its newest events."""
        inner = width - 4
        lines: list[Text] = []
        for note in column.events[-rows:]:
            lines += event_lines(note, self.symbols, inner)
        lines = lines[-rows:]
        lines += [Text()] * (rows - len(lines))
        body = Group(*meter(column.size, self.window, self.symbols, inner), Text(), *lines)
        return Panel(
            body, title=column.title, title_align="left", border_style=column.border, width=width
        )


def meter(size: Size, window: int, symbols: Symbols, width: int) -> list[Text]:
    """The fill level of the page: a bar that changes color at the thresholds, and figures."""
    tokens, dollars = size
    cost = f"${dollars:.2f}"
    figures = f"{tokens:,} of {window:,} tokens"
    if len(figures) + len(cost) >= width:
        figures = f"{tokens:,}"
    space = max(1, width - len(figures))
    return [_bar(tokens / window, symbols, width), Text(f"{figures}{cost:>{space}}")]


def _bar(share: float, symbols: Symbols, width: int) -> Text:
    """A bar filled to a share, and the share in percent."""
    style = _bar_style(share)
    label = f" {share:4.0%}" if share < 10 else " >999%"
    space = width - len(label)
    filled = min(space, round(space * share))
    bar = Text(symbols.full * filled, style=style)
    bar.append(symbols.empty * (space - filled), style="dim")
    return bar.append(label, style=f"bold {style}")


def _bar_style(share: float) -> str:
    if share >= 0.9:
        return "red"
    return "yellow" if share >= 0.8 else "green"
