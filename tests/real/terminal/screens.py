"""A real terminal, run by tmux: what is typed, what stands on the screen.

Each terminal has a tmux server of its own, on a socket of its own, which ends with it. Nothing
sleeps for a fixed time: one waits for what is to stand there.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

WAIT_S = 180.0
PAUSE_S = 0.05
CHAT = (sys.executable, "-c", "from refold.edges.cli import main; main()", "chat")
KEPT_OUT = re.compile(
    r"(REFOLD_|LC_|COLUMNS|TMUX|OPENAI_|ANTHROPIC_|GEMINI_|.*_proxy$|.*_PROXY$|NO_COLOR)"
)
# A line that waits for input, with nothing typed, above it anything, below it at most the numbers.
PROMPT = re.compile(r"^>\s*(\n\s*)*([\d,]+ / [\d,]+ tokens.*)?\s*\Z", re.MULTILINE)
QUESTION = re.compile(r"(\[y\]es, \[n\]o.*:|q ends:)\s*(\n\s*)*\Z")


class Terminal:
    """One program on one terminal."""

    def __init__(
        self,
        folder: Path,
        *command: str,
        columns: int = 100,
        rows: int = 40,
        environ: dict[str, str] | None = None,
    ) -> None:
        self._tmux = ["tmux", "-L", f"refold-{uuid.uuid4().hex[:12]}", "-f", os.devnull]
        outer = {name: value for name, value in os.environ.items() if not KEPT_OUT.match(name)}
        given = {"LANG": "C.UTF-8", "XDG_DATA_HOME": str(folder.parent / "data"), **(environ or {})}
        if "PYTHONPATH" in os.environ:
            given["PYTHONPATH"] = os.environ["PYTHONPATH"]
        words = ["env", *(f"{name}={value}" for name, value in given.items()), *command]
        self._run(
            "new-session", "-d", "-x", str(columns), "-y", str(rows), "-s", "t", "-c", str(folder),
            # The screen stays when the program ends.
            f"{shlex.join(words)}; echo ENDED $?; sleep 3600",
            environ=outer,
        )  # fmt: skip
        self._run("set-option", "-g", "history-limit", "20000")

    def _run(self, *words: str, environ: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            [*self._tmux, *words], capture_output=True, text=True, timeout=WAIT_S, env=environ
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._run("kill-server")

    def pid(self) -> int:
        """The process of the program."""
        shell = self._run("display-message", "-p", "-t", "t", "#{pane_pid}").strip()
        return _children(int(shell))[0]

    def runs(self, *command: str) -> bool:
        """Whether the program runs a command now, in a shell."""
        below = [pid for child in _children(self.pid()) for pid in (child, *_children(child))]
        return any(_words(pid) == [*command] for pid in below)

    # --- what is typed ---

    def type(self, text: str) -> None:
        """Types a text, key by key, without sending it."""
        self._run("send-keys", "-t", "t", "-l", "--", text)

    def key(self, *names: str) -> None:
        self._run("send-keys", "-t", "t", *names)

    def say(self, text: str) -> str:
        """Types a line, sends it, and gives what stands on the screen once the next one is asked
        for, from the line on."""
        self.type(text)
        # Before that, the empty line still stands there, as if it had been answered.
        self.until(lambda _: f"> {text}" in self._newest())
        self.key("Enter")
        self.until(lambda screen: bool(PROMPT.search(screen) or QUESTION.search(screen)))
        return self.all().rpartition(f"> {text}")[2]

    def resize(self, columns: int, rows: int) -> None:
        self._run("resize-window", "-t", "t", "-x", str(columns), "-y", str(rows))

    # --- what stands there ---

    def screen(self) -> str:
        return self._run("capture-pane", "-p", "-t", "t").rstrip()

    def all(self) -> str:
        """Everything that was printed, lines that were wrapped in one piece."""
        return self._run("capture-pane", "-p", "-J", "-S", "-", "-t", "t").rstrip()

    def _newest(self) -> str:
        """The last lines with something on them, those that were wrapped in one piece."""
        lines = [line for line in self.all().splitlines() if line.strip()]
        return "\n".join(lines[-2:])

    def colored(self) -> str:
        return self._run("capture-pane", "-p", "-e", "-t", "t").rstrip()

    def wait(self, text: str) -> str:
        """Waits until the text stands on the screen."""
        return self.until(lambda screen: text in screen)

    def came(self, text: str) -> None:
        """Waits until the text was printed, also where it has left the screen since."""
        self.until(lambda _: text in self.all())

    def prompt(self) -> str:
        """Waits until a line is asked for."""
        return self.until(lambda screen: PROMPT.search(screen) is not None)

    def ended(self) -> int:
        """Waits for the end of the program; gives its exit status."""
        screen = self.wait("ENDED ")
        return int(screen.rpartition("ENDED ")[2].split()[0])

    def until(self, is_there: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            screen = self.screen()
            if is_there(screen):
                return screen
            time.sleep(PAUSE_S)
        raise AssertionError(f"it did not come:\n{self.screen()}")


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, task.read_text().split())
    return found


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    except OSError:
        return []


def chat(folder: Path, *args: str, **given: Any) -> Terminal:
    """A chat with the scripted agent, at its first prompt."""
    model = () if "--model" in args or "--resume" in args else ("--model", "scripted")
    terminal = Terminal(folder, *CHAT, *model, *args, **given)
    terminal.prompt()
    return terminal
