"""Tables that can be read in a terminal and stand in a Markdown file as they are."""

from __future__ import annotations

from collections.abc import Iterable


class Table:
    """A title, a head, rows, and notes below. `at_most` and `at_least` add a row that is judged."""

    def __init__(self, title: str, head: list[str]) -> None:
        self.title, self.head = title, head
        self.rows: list[list[str]] = []
        self.notes: list[str] = []

    def add(self, *cells: object) -> None:
        self.rows.append([cell_of(cell) for cell in cells])

    def note(self, text: str) -> None:
        self.notes.append(text)

    def at_most(self, what: str, value: float, goal: float) -> None:
        self.add(what, value, f"≤ {cell_of(goal)}", verdict(value <= goal))

    def at_least(self, what: str, value: float, goal: float) -> None:
        self.add(what, value, f"≥ {cell_of(goal)}", verdict(value >= goal))

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.head, *self.rows)]
        lines = [
            _line(self.head, widths),
            "|" + "|".join("-" * (width + 2) for width in widths) + "|",
        ]
        lines += [_line(row, widths) for row in self.rows]
        return "\n".join(
            [f"### {self.title}", "", *lines, *(["", *self.notes] if self.notes else [])]
        )


def _line(cells: list[str], widths: list[int]) -> str:
    first, *others = (
        cell.ljust(width) if at == 0 else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(cells, widths))
    )
    return "| " + " | ".join([first, *others]) + " |"


def cell_of(value: object) -> str:
    """A number with three decimals where they say something, text as it is."""
    if isinstance(value, bool) or not isinstance(value, float):
        return (
            f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
        )
    size = abs(value)
    if size >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 100 else f"{value:.2f}" if size >= 10 else f"{value:.3f}"


def verdict(met: bool) -> str:
    return "yes" if met else "NO"


def text_of_tables(tables: Iterable[Table]) -> str:
    return "\n\n".join(map(str, tables))
