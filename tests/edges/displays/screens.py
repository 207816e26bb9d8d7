"""The screens of `docs/guides/terminal.md`, made from one fixed conversation.

`python -m tests.edges.displays.screens` writes them into the guide; a test compares them. What
differs from run to run (batches) is left open.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import refold
from refold.edges.cli.options import parse
from refold.edges.cli.screen import Screen
from refold.edges.commands.follow import follow
from refold.edges.commands.session import Session
from refold.edges.statusline import conversation_line

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "terminal.md"
START = datetime(2026, 11, 17, 9, 30, tzinfo=UTC)
COLUMNS, ROWS = 80, 24
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_BLOCK = re.compile(r"(<!-- screen: (\S+) -->\n```text\n)(.*?)(```\n)", re.DOTALL)
FILES = ("app/login.py", "app/session.py", "tests/test_login.py", "app/routes.py", "README.md")
TOOLS = [
    {
        "name": "read",
        "description": "Read a file of the project.",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
    },
    {
        "name": "run",
        "description": "Run a command and give what it prints.",
        "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
]


class Picture(Screen):
    """A terminal with colors of a fixed width, whose text is kept."""

    def __init__(self, columns: int = COLUMNS, *, colors: bool = True) -> None:
        self.kept = io.StringIO()
        super().__init__(out=self.kept, is_shell=True)
        self.has_color = self.is_utf8 = self.is_terminal = self.draws = colors
        self._columns = columns

    @property
    def columns(self) -> int:
        return self._columns

    @property
    def rows(self) -> int:
        return ROWS

    @contextmanager
    def apart(self) -> Iterator[None]:
        yield
        self.wipe()

    def wipe(self) -> None:
        self.kept.truncate(0)
        self.kept.seek(0)

    @property
    def plain(self) -> str:
        return _ESCAPE.sub("", self.kept.getvalue())


def conversation(url: str) -> None:
    """An agent that fixes a login, in a small window, until it was compacted once."""
    with refold.open(
        "fix-login",
        store=url,
        model="claude-sonnet-4-5",
        window=16_000,
        system="You are a careful engineer who works in a Flask project. " * 8,
        tools=TOOLS,
    ) as context:
        context.update(title="Fix the login redirect")
        sent = 0
        for turn in range(34):
            sent = _turn(context, turn, sent)
            if turn == 0:
                context.pin(context.view.request)


def _turn(context: refold.Context, turn: int, sent: int) -> int:
    at, file = START + timedelta(minutes=2 * turn), FILES[turn % len(FILES)]
    wish = f"Step {turn + 1}: see why {file} loses the session after the redirect."
    context.append({"role": "user", "content": wish}, at=at)
    context.request()
    size = context.stats().current
    call = {"type": "tool_use", "id": f"call{turn}", "name": "read", "input": {"path": file}}
    text = {"type": "text", "text": f"I read {file} first."}
    cached = min(sent, size) if sent <= size else 0
    context.record(_reply(f"{turn}a", [text, call], size - cached, cached), at=at)
    lines = 8 + 9 * (turn % 4)
    code = f"def view{turn}(request):\n    session['user'] = request.form['user']\n"
    context.append_result(f"call{turn}", code * lines, at=at)
    said = f"{file}: the cookie is not sent, because SameSite is strict. Changed it to lax."
    whole = context.stats().current
    context.record(
        _reply(f"{turn}b", [{"type": "text", "text": said}], whole - size, size),
        at=at + timedelta(minutes=1),
    )
    return context.stats().current


def _reply(id: str, content: list[dict[str, object]], fresh: int, cached: int) -> dict[str, object]:
    usage = {"input_tokens": max(0, fresh), "output_tokens": 40, "cache_read_input_tokens": cached}
    stop = "tool_use" if len(content) > 1 else "end_turn"
    return {
        "id": f"msg_{id}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": content,
        "stop_reason": stop,
        "usage": usage,
    }


def shown(url: str, line: str, *, colors: bool = True, columns: int = COLUMNS) -> str:
    """What a command shows, given as a line of a chat."""
    command, arguments, _ = parse(line)
    screen = Picture(columns, colors=colors)
    with Session(store_url=url, conversation="fix-login", screen=screen) as session:
        command.show(command.run(session, arguments), screen)
    return screen.plain


def watched(url: str) -> str:
    screen = Picture()
    with Session(store_url=url, conversation="fix-login", screen=screen) as session:
        follow(session, last=6, seconds=0.0).show(screen)
    return screen.plain


def screens() -> dict[str, str]:
    """Every screen of the guide, by its name."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:{folder}/refold.db"
        conversation(url)
        made: dict[str, Callable[[], str]] = {
            "context": lambda: shown(url, "/context"),
            "narrow": lambda: shown(url, "/context", columns=40),
            "plain": lambda: shown(url, "/context", colors=False),
            "status": lambda: shown(url, "/context status", colors=False),
            "box": lambda: shown(url, "/context status --format box", colors=False),
            "cost": lambda: shown(url, "/stats --cost", colors=False),
            "statusline": lambda: conversation_line("fix-login", url, short=False, color=False),
            "watch": lambda: watched(url),
            "plan": lambda: shown(url, "/compact --dry-run"),
            "compact": lambda: shown(url, "/compact"),
            "page": lambda: shown(url, "/show --page --format plain"),
        }
        texts = {name: make() for name, make in made.items()}
    texts["page"] = _beginning(texts["page"], 30)
    texts["status"] = re.sub(r"Oldest: .*", "Oldest: 2 hours ago", texts["status"])
    return {name: _settled(text) for name, text in texts.items()}


def _beginning(text: str, count: int) -> str:
    """The first lines, and how it ends."""
    lines = text.splitlines()
    return "\n".join([*lines[:count], "  ...", *lines[-2:]])


def _settled(text: str) -> str:
    text = re.sub(r"\b[0-9a-f]{16}\b", "8c1f0e5a9b7d4e21", text)
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines()) + "\n"


def blocks() -> dict[str, str]:
    """The screens that stand in the guide."""
    return {name: text for _, name, text, _ in _BLOCK.findall(GUIDE.read_text("utf-8"))}


def write() -> None:
    made = screens()
    text = GUIDE.read_text("utf-8")
    text = _BLOCK.sub(lambda found: f"{found[1]}{made[found[2]]}{found[4]}", text)
    GUIDE.write_text(text, "utf-8")


if __name__ == "__main__":
    write()
