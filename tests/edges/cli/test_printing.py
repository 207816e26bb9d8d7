"""Foreign text on a terminal: every command, on a store, a folder and a server full of names that
steer one; and the few places of the source that print."""

from __future__ import annotations

import ast
import http.server
import logging
import os
import pty
import re
import sys
import threading
import tty
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

import refold
from refold.edges.cli.app import outcome
from refold.edges.commands import COMMANDS
from refold.edges.server.connection import log_to_stderr
from tests.edges.cli.rooms import HOSTILE, hostile

SOURCE = Path(refold.__file__).parent
NAME = "a\x1b]0;PWNED\x07b\x1b[2Jc\x9b31m\x85d\u2028e\u202ef\r\u2066g\nFORGED.json"
# What refold itself sends: colors, the cursor around a progress bar, erased lines, the end of one.
OWN = re.compile(r"\x1b\[[\d;]*m|\x1b\[\?25[lh]|\x1b\[2K|\x1b\[\d+[AF]|\x1b\[J|\r\n?")
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture
def server() -> Iterator[str]:
    """A server whose every answer is an error with a hostile text."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f'{{"error": {{"code": "denied", "message": {ascii(NAME)!s}}}}}'.encode()
            body = body.replace(b"'", b'"').replace(b"\\x", b"\\u00")
            self.send_response(403, "no\x1b[2J")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_DELETE = do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            """Keeps the test's own output quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


def printed(monkeypatch: pytest.MonkeyPatch, *args: str) -> str:
    """Everything that a command sends to a terminal where `n` is the answer to every question."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    os.write(ours, b"n\r" * 20)
    pieces: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(ours, 65_536):
                pieces.append(piece)
        except OSError:
            return  # the terminal's other side is closed

    reading = threading.Thread(target=read)
    reading.start()
    with (
        open(theirs, "w", encoding="utf-8", closefd=False) as out,
        open(theirs, encoding="utf-8", closefd=False, newline="\r") as typed,
        monkeypatch.context() as patched,
    ):
        patched.setattr(sys, "stdin", typed)
        patched.setattr(sys, "stdout", out)
        patched.setattr(sys, "stderr", out)
        outcome(list(args))
        out.flush()
    os.close(theirs)
    reading.join()
    os.close(ours)
    return b"".join(pieces).decode("utf-8", "replace")


def lines(url: str, far: str) -> Iterator[tuple[str, ...]]:
    """Every command that ends by itself, with hostile names in each of its places."""
    named = {"fork": ("hostile", NAME), "pin": ("hostile", "4", NAME), "import": (NAME,)}
    starts = ("ui", "run", "proxy", "mcp", "chat", "serve", "demo", "help", "sync key new", "allow")
    for name in COMMANDS:
        if name in starts:
            continue
        words = name.split()
        for given in ((), ("hostile",), (NAME,), ("hostile", NAME), named.get(name, ())):
            yield (*words, *given, "--store", url)
        yield (*words, "hostile", "--store", f"{far}/?{NAME[:9]}")
        yield (*words, f"--{NAME}")
    for view in ("--list", "--events", "--view", "--request", "--summary", "--why"):
        yield ("show", "hostile", view, "--store", url)
    yield ("import", ".", "--store", url)
    yield ("import", f"./{NAME}", "--store", url)
    yield ("import", "whole.json", "--store", url)
    yield ("help", NAME)
    yield ("run", f"./{NAME}")
    yield ("serve", "--store", f"sqlite:{NAME}", "--host", NAME)
    yield ("proxy", "--upstream", f"{far}/{NAME}", "--host", NAME)
    yield ("chat", "--model", NAME, "--store", url)
    yield ("sync", "--far", f"{far}/{NAME}", "--store", url)
    yield ("login", far, "--token", NAME)
    yield (NAME,)


def test_no_command_lets_foreign_text_steer_a_terminal(
    alone: None, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")
    url = f"sqlite:{tmp_path / 'hostile.db'}"
    hostile(url)
    with refold.open("hostile", store=url, model=f"gpt-{NAME}") as context:
        context.checkpoint(NAME)
        for text in (NAME, *HOSTILE[:6]):
            context.memory.store(f"remember {text}", tags=(f"tag{text[:20]}",))
    for name in (NAME, f"bad-{NAME}"):
        Path(name).write_text('[{"role": "user", "content": "hello"}]' if name == NAME else "no")
    (tmp_path / NAME[:30]).mkdir()
    exported = [{"role": "user", "content": NAME}, {"role": "assistant", "content": NAME}]
    Path("whole.json").write_text(repr(exported).replace("'", '"').replace("\\x", "\\u00"))
    seen = 0
    for words in lines(url, server):
        text = printed(monkeypatch, *words)
        left = OWN.sub("", text)
        found = STEERING.search(left)
        assert not found, (words, left[max(0, found.start() - 80) :][:160])
        if words[0] == "import":  # the file's name has no line of its own
            assert not re.search(r"^FORGED", left, re.MULTILINE), (words, left)
        seen += "\\x1b" in text
    assert seen > 100


def test_a_record_of_a_server_cannot_steer_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    log_to_stderr(logging.Formatter("%(message)s"), {"refold.test": "INFO"})
    logging.getLogger("refold.test").info("a call to %s", NAME)
    assert "\\x1b]0;PWNED" in out.getvalue()
    assert not STEERING.search(out.getvalue().rstrip("\n"))


def test_foreign_names_that_steer_a_terminal_are_not_completed(tmp_path: Path) -> None:
    from refold.edges.chat.prompt import Names, words_for

    for name in ("app.py", "app\x1b[2J.py", "app\u202e.py"):
        (tmp_path / name).touch()
    assert words_for("see @a", Names(tmp_path)) == ["@app.py"]


# Calls that print or ask, and the streams behind them.
PRINTS = re.compile(
    r"(?:(?:[\w.]*\.)?(?:print|print_exc|add_task|Console|StreamHandler)|input|prompt|_typed"
    r"|click\.\w*(?:echo|prompt|confirm|pager)\w*|[\w.]*\bout\.write)\("
    r"|sys\.(?:__)?std(?:out|err)(?:__)?\b"
)
PLACES = {
    # The one that prints: `escaped` is on each of its ways out.
    "edges/cli/screen.py",
    "edges/cli/app.py",  # click's help, and a screen on standard error
    "edges/cli/__init__.py",  # the version; `completing` escapes each line
    "edges/commands/statusline.py",  # `statusline.joined`
    "edges/commands/session.py",  # asks which terminal it is
    "edges/chat/input.py",  # escapes the question
    "edges/chat/prompt.py",  # escapes the question and the toolbar
    "edges/chat/terminal.py",  # asks whether it is a terminal
    "edges/hooks/__init__.py",  # JSON for the agent
    "edges/mcp/server.py",  # `prompt` is a decorator of the protocol
    "edges/server/connection.py",  # `_VisibleLines`
    "edges/statusline.py",  # `joined` and `harmless`
    "artifacts/grep_process.py",  # JSON for the parent process
    "stores/contract/concurrency.py",  # a word for the parent process
}


def test_only_known_places_print() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        used = [f"{ast.unparse(node.func)}(" for node in nodes if isinstance(node, ast.Call)]
        used += [ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)]
        if any(map(PRINTS.match, used)):
            found.add(path.relative_to(SOURCE).as_posix())
    assert found == PLACES


def test_the_screen_escapes_what_a_progress_bar_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both its first text and each later one."""
    from refold.edges.cli.screen import Screen

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("LANG", "C.UTF-8")

    class Terminal(StringIO):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    with Screen().progress(f"{NAME}\nrefold: done") as show:
        assert show is not None
        show(NAME, 1, 2)
    left = OWN.sub("", out.getvalue())
    assert "PWNED" in left and not STEERING.search(left.replace("\n", ""))
