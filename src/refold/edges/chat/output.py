"""The output of a chat: streamed replies, tool calls, warnings and compactions.

On a terminal everything is printed in order; in a pipe the replies are the output, and the rest
goes to standard error. Everything passes the screen, so no text from a model or a tool can steer
the terminal, even if an escape sequence arrives in pieces. Neighbours: `edges.cli.screen` prints,
`loop` reports events.
"""

from __future__ import annotations

from refold.core.model import ToolCall
from refold.display import cut, number, one_line
from refold.edges.chat.tools import Used
from refold.edges.cli.screen import Screen
from refold.edges.commands.command import Part
from refold.edges.commands.undo import show_diff
from refold.edges.displays.phrases import argument_text, told
from refold.edges.displays.wrap import Flow, fitted, width
from refold.edges.endpoints.chat import Piece
from refold.engine.stats import Stats
from refold.errors import RefoldError
from refold.log.notices import Notice
from refold.redaction import redacted
from refold.tokens.models import dollars

ARGUMENT_CHARS, RESULT_LINES = 200, 6
INDENT = " " * 4
STYLES = {
    "context-warning": "yellow",
    "context-critical": "yellow",
    "compaction-complete": "green",
    "overflow-recovered": "yellow",
    "unknown-model": "yellow",
}
# Characters that belong to the one before them: printed apart, they would be shown as escapes.
_JOINED = "\ufe0e\ufe0f"


class Shown:
    """The printer of one chat."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self._last = ""  # last character of the reply being printed
        self._is_open = False
        self._flow, self._style = Flow(), ""

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is printed: the caller wants one JSON object at the end."""
        return self.screen.json_output

    # --- a reply ---

    def piece(self, piece: Piece) -> None:
        """Prints a piece of a reply."""
        if self.is_quiet or piece.kind == "call":
            return
        text = piece.text
        if text[0] in _JOINED and self._last:
            text = text[1:]
        style = "dim" if piece.kind == "thinking" else ""
        if style != self._style:
            # Thinking and the reply are separate texts.
            self.end()
            self._style = style
        if text:
            self._last, self._is_open = text[-1], text[-1] != "\n"
            if self.screen.is_terminal:
                # Only whole words are printed: the next line may be needed for the rest.
                text = self._flow.feed(self.screen.escaped(text), self.screen.columns)
            self._print(text)

    def _print(self, text: str) -> None:
        if text:
            self.screen.text((self._style, text))
            self.screen.out.flush()

    def end(self) -> None:
        """Ends the line of a reply, if one is open."""
        self._print(self._flow.end())
        if self._is_open:
            self.screen.line()
        self._last, self._is_open = "", False
        self.screen.out.flush()

    # --- beside the reply ---

    def aside(self, *parts: Part) -> None:
        """Prints a line that is not part of the reply."""
        if self.is_quiet:
            return
        self.end()
        if self.screen.is_terminal:
            self.screen.line(*parts)
        else:
            self.screen.note("".join(part if isinstance(part, str) else part[1] for part in parts))
        self.screen.out.flush()

    def error(self, error: RefoldError) -> None:
        """Prints an error with its hint, even in a quiet chat."""
        text = redacted(str(error))
        if self.is_quiet:
            self.screen.note(text)
        else:
            self.aside(("red", text))

    def call(self, call: ToolCall) -> None:
        """Prints the name and the arguments of a tool call."""
        text = cut(one_line(argument_text(call)), ARGUMENT_CHARS)
        self.aside(("cyan", f"* {call.name}"), f" {text}")

    def result(self, used: Used) -> None:
        """Prints the beginning of a tool's result."""
        lines = used.text.splitlines()
        room = max(20, self.screen.columns - len(INDENT))
        safe = map(self.screen.escaped, lines[:RESULT_LINES])
        shown = [fitted(line.expandtabs(4), room, "…") for line in safe]
        for line in shown:
            self.aside(("red" if used.is_error else "dim", INDENT + line))
        if len(lines) > len(shown):
            left = number(len(lines) - len(shown), "more line")
            self.aside(("dim", f"{INDENT}... {left}"))

    def details(self, text: str) -> None:
        """Prints what a tool is about to do: a difference, or a command."""
        self.end()
        if self.screen.is_terminal and not self.is_quiet:
            show_diff(text, self.screen)
            self.screen.out.flush()

    def notice(self, notice: Notice) -> None:
        style = STYLES.get(notice.name, "dim")
        for line in notice_lines(notice):
            self.aside((style, line))

    def status(self, text: str) -> None:
        """Prints the status line, on a terminal."""
        if self.screen.is_terminal:
            self.aside(("dim", text))


def status_text(stats: Stats, columns: int = 80) -> str:
    """`9,120 / 24,000 tokens (38.0%) | $0.0123 | 41 messages | 2 summaries | chat-…`; a narrow
    screen leaves out the last parts."""
    parts = [f"{stats.current:,} / {stats.window:,} tokens ({stats.percent:.1f}%)"]
    if stats.cost:
        parts.append(dollars(stats.cost))
    parts.append(number(stats.messages, "message"))
    if stats.summaries:
        parts.append(f"{stats.summaries:,} {'summary' if stats.summaries == 1 else 'summaries'}")
    parts.append(stats.conversation)
    while len(parts) > 1 and width(" | ".join(parts)) > columns:
        parts.pop()
    return " | ".join(parts)


def notice_lines(notice: Notice) -> list[str]:
    """The lines of a notice; none for an unimportant one."""
    sizes = f"{notice.before:,} -> {notice.after:,} tokens"
    match notice.name:
        case "context-warning" | "context-critical" | "auto-compacting" | "compaction-failed":
            return told(notice)
        case "compaction-complete":
            return [*told(notice), f"{sizes}; /undo takes it back, /history says more"]
        case "overflow-recovered":
            return [f"The provider refused the page as too long; it was shortened: {sizes}"]
        case "unknown-model":
            return [f"{notice.reason}; start with --window N if it is another"]
        case "artifact-kept":
            handle, size = notice.details.get("handle"), notice.details.get("bytes", 0)
            return [f"{INDENT}kept whole as {handle} ({number(size, 'byte')})"]
        case _:
            return [f"{notice.name}: {notice.reason}"] if notice.reason else []
