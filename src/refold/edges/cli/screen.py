"""The one place that prints. All content passes through `visible` here: stored text can neither
control the terminal nor pass for a line of refold, and is never read as markup.

Color only on a terminal that supports it, pictures on any terminal, rich only for tables and
progress bars, ASCII only if the locale is not UTF-8; long lines are wrapped between words. `--json`
prints one object in ASCII, without control sequences. Neighbours: `app` makes the screen, the
commands show their results on it (`commands.command.Screen`).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TextIO

import click
from click.exceptions import Exit
from msgspec import UNSET
from msgspec.structs import astuple, fields

from refold.display import one_line, visible
from refold.edges.cli.options import Place, in_chat, in_shell
from refold.edges.commands.command import Part, Progress, Result, builtins_of, short_line
from refold.edges.displays.phrases import chosen
from refold.edges.displays.wrap import Styled, broken, lines_of, width
from refold.errors import OUTCOMES, Invalid, RefoldError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

SCHEMA_VERSION = 1
CELL_MAX = 60
ID_HEADS = frozenset({"ID", "BATCH", "ENTRY", "CONVERSATION"})
FLEXIBLE_MIN, COLUMN_GAP = 16, 2
STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "bright_cyan": "96",
}
MORE = "More? Enter continues, q quits:"
UTF8 = ("utf-8", "utf8")
COERCED = ("C.UTF-8", "C.utf8")


class _PagingEnded(Exception):
    """The reader ended the output."""


class Screen:
    """The output of a command, and the capabilities of the terminal. A chat makes its screen with
    `is_shell=False`."""

    def __init__(
        self,
        *,
        json_output: bool = False,
        no_color: bool = False,
        out: TextIO | None = None,
        is_shell: bool = True,
    ) -> None:
        self.out = out or sys.stdout
        self.is_shell = is_shell
        self.places: tuple[Place, ...] = ()  # place options of this call
        self.json_output, self.no_color = json_output, no_color
        self.is_utf8 = is_utf8(self.out, os.environ)
        self.is_terminal = self.out.isatty()
        can_move = self.is_terminal and not is_dumb(os.environ)
        self.draws = can_move and self.is_utf8
        self._rows_left: int | None = None  # free rows of the current page; None if not paged
        self.has_color = can_move and not no_color and not os.environ.get("NO_COLOR")

    @property
    def columns(self) -> int:
        """The current width of the terminal; 80 without one."""
        return shutil.get_terminal_size().columns

    @property
    def rows(self) -> int:
        """The current height of the terminal; 24 without one."""
        return shutil.get_terminal_size().lines

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Switches to a separate screen; the previous one comes back at the end, at any size."""
        self.out.write("\x1b[?1049h")
        try:
            yield
        finally:
            self.out.write("\x1b[?1049l")
            self.out.flush()

    def wipe(self) -> None:
        """Clears the separate screen."""
        self.out.write("\x1b[H\x1b[J")

    def call(self, name: str, conversation: str = "", *words: str) -> str:
        """A command as it is typed here: `refold undo ID` in a shell, with the places of this
        call; `/undo` in a chat, which has its conversation. Each word is one value."""
        if not self.is_shell:
            return in_chat(name, words)
        return in_shell(name, (conversation, *words) if conversation else words, self.places)

    def line(self, *parts: Part, hang: int | None = None) -> None:
        """Prints the parts of a line, or of several lines if a part has newlines. A wrapped line
        continues at the column `hang`, by default below its beginning."""
        for line in lines_of(parts):
            text = self._wrapped(line, hang) + "\n"
            if self._rows_left is not None:
                self._count(text.count("\n"))
            self.out.write(text)

    @contextmanager
    def paged(self) -> Iterator[None]:
        """Pauses at every full screen, if there is a person to continue or end the output."""
        if not (self.draws and self.can_ask):
            yield
            return
        self._rows_left = self._page_rows
        try:
            yield
        except _PagingEnded:
            pass
        finally:
            self._rows_left = None

    @property
    def _page_rows(self) -> int:
        """The rows of a page, above the question."""
        return max(2, self.rows - 1)

    def _count(self, rows: int) -> None:
        """Counts printed rows, and asks at the end of a page."""
        left = (self._rows_left or 0) - rows
        if left < 0:
            self.out.flush()
            if self._typed(MORE).strip().lower() in ("q", "quit", "n", "no"):
                raise _PagingEnded
            # Erase the question.
            self.out.write("\x1b[1F\x1b[J")
            left = self._page_rows - rows
        self._rows_left = max(0, left)

    def text(self, text: Part) -> None:
        """Prints the text without ending the line."""
        style, content = text if isinstance(text, tuple) else ("", text)
        self.out.write(self._styled(style, self.escaped(content)))

    def block(self, text: str) -> None:
        """Prints foreign text, indented, so that no line of it can pass for one of refold."""
        for line in text.split("\n"):
            self.line(f"  {line}" if line else "")

    def document(self, chunks: Iterable[bytes]) -> None:
        """Prints a document as it is, or escaped on a terminal."""
        for chunk in chunks:
            if self.is_terminal:
                self.text(chunk.decode("utf-8", "replace"))
            else:
                self.out.buffer.write(chunk)

    def note(self, text: str) -> None:
        """Prints a remark on standard error."""
        Screen(out=sys.stderr).line(f"refold: {text}")

    def confirm(self, question: str, reason: str) -> None:
        """Asks on a terminal; elsewhere raises Invalid with the reason, because only --yes can
        confirm."""
        if not self.can_ask:
            raise Invalid(reason, hint="confirm it with --yes")
        if not self.ask(question):
            raise click.Abort

    def ask(self, question: str) -> bool:
        """The answer of the person at the terminal; no if there is no one to ask."""
        return self.can_ask and chosen(self._typed, self.escaped(one_line(question))) == "yes"

    def secret(self, question: str) -> str | None:
        """Text typed at the terminal without echo; None if there is no one to ask."""
        if not self.can_ask:
            return None
        typed: str = click.prompt(self.escaped(question), hide_input=True, err=True)
        return typed

    def _typed(self, question: str) -> str:
        """The answer to a question, asked on standard error."""
        shown = "".join(text for _, text in broken([("", question)], self.columns))
        answer: str = click.prompt(
            shown, default="", show_default=False, prompt_suffix=" ", err=True
        )
        return answer

    @property
    def can_ask(self) -> bool:
        """Whether a person at the terminal can answer."""
        return not self.json_output and sys.stdin.isatty()

    def fields(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Prints `Name: value` lines."""
        for name, value in pairs:
            self.line(("bold", f"{name}:"), f" {short_line(value, 2_000)}")

    def table(self, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Prints rows under their heads: with rich on a terminal, otherwise as plain aligned text.
        A head that starts with `>` aligns its column to the right. Ids are never cut, because
        people copy them: other columns shrink, and on a narrow terminal every row takes a few
        lines."""
        cells = [[self._cell(*one) for one in zip(heads, row, strict=True)] for row in rows]
        if not self.draws:
            self._print_plain_table(heads, cells)
        elif self._has_room(heads, cells):
            self._print_rich_table(heads, cells)
        else:
            self._print_records(heads, cells)

    def _cell(self, head: str, text: str) -> str:
        # What a memory says is whole in a pipe.
        is_uncut = head in ID_HEADS or (head == "CONTENT" and not self.draws)
        return self.escaped(text if is_uncut else short_line(text, CELL_MAX))

    def _has_room(self, heads: Sequence[str], rows: list[list[str]]) -> bool:
        """Whether the columns that are never cut fit, with some room for every other column."""
        widths = _column_widths([[*heads], *rows])
        needed = (
            size if is_whole(head) else min(size, FLEXIBLE_MIN)
            for head, size in zip(heads, widths, strict=True)
        )
        return sum(needed) + COLUMN_GAP * len(heads) <= self.columns

    def _print_records(self, heads: Sequence[str], rows: list[list[str]]) -> None:
        """Prints the first cell of every row, and the others below it with their heads."""
        for first, *others in rows:
            self.line(("bold", first))
            named = [
                f"{head.removeprefix('>').lower()} {cell}"
                for head, cell in zip(heads[1:], others, strict=True)
                if cell
            ]
            self.line(f"  {', '.join(named)}")

    @contextmanager
    def progress(self, doing: str) -> Iterator[Progress | None]:
        """A function that shows progress on standard error: `show(what, done, total)`. None if no
        one is watching."""
        errors = Screen(no_color=self.no_color, out=sys.stderr)
        if self.json_output or not errors.draws:
            yield None
            return
        with errors._progress_bar() as bar:
            task = bar.add_task("", total=None)

            def show(what: str, done: int, total: int | None) -> None:
                text = errors.escaped(one_line(what))
                bar.update(task, description=text, completed=done, total=total)

            show(doing, 0, None)
            yield show

    def emit(self, value: Result | Mapping[str, Any]) -> None:
        """Prints one JSON object. An iterator is written item by item."""
        if isinstance(value, Result) and any(isinstance(part, Iterator) for part in astuple(value)):
            self._emit_parts(value)
            return
        fields = {"schema_version": SCHEMA_VERSION, **builtins_of(value)}
        self.out.write(json.dumps(fields, indent=2 if self.is_terminal else None) + "\n")

    def _emit_parts(self, value: Result) -> None:
        self.out.write(f'{{"schema_version": {SCHEMA_VERSION}')
        for field in fields(value):
            part = getattr(value, field.name)
            if part is UNSET:
                continue
            self.out.write(f", {json.dumps(field.encode_name)}: ")
            if isinstance(part, Iterator):
                self._emit_each(part)
            else:
                self.out.write(json.dumps(builtins_of(part)))
        self.out.write("}\n")

    def _emit_each(self, items: Iterator[object]) -> None:
        """Prints a JSON list item by item."""
        self.out.write("[")
        separator = "\n"
        try:
            for item in items:
                self.out.write(separator + json.dumps(builtins_of(item)))
                separator = ",\n"
        except RefoldError as error:
            # The output must stay one valid object.
            reason = {"code": error.code, "message": error.message, "hint": error.hint}
            self.out.write(f'\n], "error": {json.dumps(reason)}}}\n')
            raise Exit(OUTCOMES[error.code][1]) from error
        self.out.write("\n]")

    def _wrapped(self, line: Sequence[Styled], hang: int | None) -> str:
        """A line ready to print: escaped, styled, and wrapped on a terminal."""
        parts: Iterable[Styled] = [(style, self.escaped(text)) for style, text in line]
        if self.is_terminal:
            parts = broken([*parts], self.columns, hang)
        return "".join(self._styled(style, text) for style, text in parts)

    def _styled(self, style: str, text: str) -> str:
        if not style or not text or not self.has_color:
            return text
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m"

    def escaped(self, text: str) -> str:
        """The text without control sequences, and without characters this screen cannot show."""
        text = visible(text)
        return text if self.is_utf8 else text.encode("ascii", "backslashreplace").decode()

    def _print_plain_table(self, heads: Sequence[str], rows: list[list[str]]) -> None:
        lines = [[head.removeprefix(">") for head in heads], *rows]
        widths = _column_widths(lines)
        for line in lines:
            cells = map(_padded, line, widths, heads)
            self.out.write("  ".join(cells).rstrip() + "\n")

    def _print_rich_table(self, heads: Sequence[str], rows: list[list[str]]) -> None:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        # One space of the cell and one of the box: the gap that `_has_room` assumes.
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
        for head in heads:
            side: Literal["left", "right"] = "right" if head.startswith(">") else "left"
            table.add_column(head.removeprefix(">"), justify=side, no_wrap=is_whole(head))
        for row in rows:
            # A Text is shown as it is; a plain str would be read as markup.
            table.add_row(*map(Text, row))
        self._console().print(table)

    def _console(self) -> Console:
        """This screen as a rich console that never interprets markup."""
        from rich.console import Console

        return Console(
            file=self.out,
            markup=False,
            emoji=False,
            highlight=False,
            color_system="auto" if self.has_color else None,
        )

    def _progress_bar(self) -> Bar:
        """A bar that disappears at the end."""
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        description = TextColumn("{task.description}", markup=False)
        columns = (description, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        return Progress(*columns, console=self._console(), transient=True)


def _column_widths(lines: list[list[str]]) -> list[int]:
    """The width of the widest cell of each column."""
    columns = zip(*lines, strict=True)
    return [max(map(width, column)) for column in columns]


def is_whole(head: str) -> bool:
    """Whether the cells below this head are never cut: ids and numbers."""
    return head in ID_HEADS or head.startswith(">")


def _padded(cell: str, size: int, head: str) -> str:
    """A cell as wide as its column."""
    space = " " * (size - width(cell))
    return space + cell if head.startswith(">") else cell + space


def is_dumb(environ: Mapping[str, str]) -> bool:
    """Whether the terminal can only print lines."""
    return environ.get("TERM", "") in ("", "dumb")


def is_utf8(out: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether non-ASCII characters may be printed.

    In the C locale Python switches its streams to UTF-8 and sets LC_CTYPE itself; only the user's
    own setting counts.
    """
    if (getattr(out, "encoding", None) or "").lower() not in UTF8:
        return False
    if environ.get("PYTHONIOENCODING") or environ.get("PYTHONUTF8") == "1":
        return True
    named = environ.get("LC_CTYPE", "")
    typed = "" if named in COERCED else named
    chosen = environ.get("LC_ALL") or typed or environ.get("LANG") or ""
    return chosen.lower().replace("-", "").partition("@")[0].endswith("utf8")
