"""The one place that prints. Whatever comes from content passes `visible` here: a stored text can
neither steer the terminal nor forge a line of ours, and is never read as markup.

Colour only on a terminal that wants it, rich only for its tables and bars, ASCII only where the
locale is not UTF-8; `--json` is one object in ASCII, which no terminal obeys. Neighbours: `app`
makes the screen, the commands print on it.
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from click.exceptions import Exit

from refold.errors import OUTCOMES, RefoldError

SCHEMA_VERSION = 1
CELL_MAX = 60
STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
UTF8 = ("utf-8", "utf8")
COERCED = ("C.UTF-8", "C.utf8")

Part = str | tuple[str, str]  # a text, or a style and a text


class Screen:
    """Where a command prints, and how much the terminal can show."""

    def __init__(
        self, *, json_output: bool = False, no_color: bool = False, out: TextIO | None = None
    ) -> None:
        self.out = out or sys.stdout
        self.json_output, self.no_color = json_output, no_color
        self.is_utf8 = is_utf8(self.out, os.environ)
        self.is_terminal = self.out.isatty()
        self.has_colour = self.is_terminal and not no_color and wants_colour(os.environ)

    def line(self, *parts: Part) -> None:
        """Prints parts of one line, or of several if a text has newlines."""
        self.out.write("".join(self._shown(part) for part in parts) + "\n")

    def text(self, text: str) -> None:
        """Prints a text without ending the line."""
        self.out.write(self._escaped(text))

    def block(self, text: str) -> None:
        """Prints a text of others, set in, so that none of its lines can pass for one of ours."""
        for line in text.split("\n"):
            self.line("  ", line) if line else self.line()

    def fields(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Prints `Name: value` lines."""
        for name, value in pairs:
            self.line(("bold", f"{name}:"), f" {one_line(value, 2_000)}")

    def table(self, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Prints rows under their heads: by rich on a terminal, else as plain aligned text. A
        head that starts with `>` has its column set to the right."""
        cells = [[one_line(cell, CELL_MAX) for cell in row] for row in rows]
        if self.has_colour and self.is_utf8:
            self._rich_table(heads, cells)
        else:
            self._plain_table(heads, [[self._escaped(cell) for cell in row] for row in cells])

    @contextmanager
    def progress(self, doing: str) -> Iterator[Callable[[str, int, int], None] | None]:
        """What shows progress on standard error while the block runs: `show(what, done, total)`.
        None where nobody watches."""
        watched = Screen(no_color=self.no_color, out=sys.stderr)
        if self.json_output or not (watched.has_colour and watched.is_utf8):
            yield None
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        described = TextColumn("{task.description}", markup=False)
        console = Console(file=sys.stderr, markup=False, emoji=False, highlight=False)
        columns = (described, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(doing, total=None)
            yield lambda what, done, total: bar.update(
                task, description=what, completed=done, total=total
            )

    def emit(self, value: Mapping[str, Any]) -> None:
        """Prints one JSON object."""
        whole = {"schema_version": SCHEMA_VERSION, **value}
        self.out.write(json.dumps(whole, indent=2 if self.is_terminal else None) + "\n")

    def emit_each(
        self, value: Mapping[str, Any], name: str, items: Iterable[Mapping[str, Any]]
    ) -> None:
        """Prints one JSON object whose list `name` is written as it comes, never held whole."""
        self.out.write(
            json.dumps({"schema_version": SCHEMA_VERSION, **value})[:-1]
            + f", {json.dumps(name)}: ["
        )
        try:
            for index, item in enumerate(items):
                self.out.write((",\n" if index else "\n") + json.dumps(item))
        except RefoldError as error:
            # What stands on the screen already must become one object all the same.
            self.out.write(f'\n], "error": {json.dumps(as_fields(error))}}}\n')
            raise Exit(OUTCOMES[error.code][1]) from error
        self.out.write("\n]}\n")

    def _shown(self, part: Part) -> str:
        style, text = part if isinstance(part, tuple) else ("", part)
        text = self._escaped(text)
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if style and self.has_colour else text

    def _escaped(self, text: str) -> str:
        from refold.display import visible

        text = visible(text)
        return text if self.is_utf8 else text.encode("ascii", "backslashreplace").decode()

    def _plain_table(self, heads: Sequence[str], rows: list[list[str]]) -> None:
        lines = [[head.removeprefix(">") for head in heads], *rows]
        widths = [max(width(line[at]) for line in lines) for at in range(len(heads))]
        for line in lines:
            cells = [
                _padded(cell, size, head)
                for cell, size, head in zip(line, widths, heads, strict=True)
            ]
            self.out.write("  ".join(cells).rstrip() + "\n")

    def _rich_table(self, heads: Sequence[str], rows: list[list[str]]) -> None:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for head in heads:
            table.add_column(
                head.removeprefix(">"), justify="right" if head.startswith(">") else "left"
            )
        for row in rows:
            # A Text is shown as it is; a plain str would be read as markup.
            table.add_row(*(Text(self._escaped(cell)) for cell in row))
        Console(file=self.out, markup=False, emoji=False, highlight=False).print(table)


def as_fields(error: RefoldError) -> dict[str, str]:
    """An error as JSON says it."""
    return {"code": error.code, "message": str(error), "hint": error.hint}


def one_line(text: str, most: int) -> str:
    """A text as a part of one line: line ends and tabs are shown, and a long text is cut."""
    shown = text.replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def number(count: int, name: str) -> str:
    """`1 event`, `2,000 events`."""
    return f"{count:,} {name}" + ("" if count == 1 else "s")


def width(text: str) -> int:
    """The columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF")
        for sign in text
    )


def _padded(cell: str, size: int, head: str) -> str:
    room = " " * (size - width(cell))
    return room + cell if head.startswith(">") else cell + room


def wants_colour(environ: Mapping[str, str]) -> bool:
    """Whether the terminal and its user want colours."""
    return not environ.get("NO_COLOR") and environ.get("TERM", "") not in ("", "dumb")


def is_utf8(out: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether more than ASCII may be printed.

    Python makes its streams UTF-8 in the C locale, and says so in LC_CTYPE itself; what the user
    set is what counts.
    """
    if (getattr(out, "encoding", None) or "").lower() not in UTF8:
        return False
    if environ.get("PYTHONIOENCODING") or environ.get("PYTHONUTF8") == "1":
        return True
    named = environ.get("LC_CTYPE", "")
    typed = "" if named in COERCED else named
    chosen = environ.get("LC_ALL") or typed or environ.get("LANG") or ""
    return chosen.lower().replace("-", "").partition("@")[0].endswith("utf8")
