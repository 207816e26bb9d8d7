"""Stores for the tests of the command line, and the ways to run it: in this process, as a
program, on a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

import refold
from refold.edges.cli.app import commands
from refold.stores import open_store

PROGRAM = (sys.executable, "-c", "from refold.edges.cli import main; main()")
WAIT_S = 120

# One of each kind that a terminal or a library could obey: CSI, OSC 52 and 8, DCS, C1, CR and
# backspace, bidi, markup.
HOSTILE = (
    "\x1b[31mred\x1b[2J", "\x1b]52;c;ZXZpbA==\x07", "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "\x1bP+q\x1b\\",
    "\x9b31m \x85", "over\rwritten\x08\x08", "\u202egnp.exe\u2066\u2069\u200f", "[/nope] [bold red]x[/]", "nul\x00nul",
    "del\x7f", "long " * 4_000, "\x1b", "\u2028line\u2029", "\U000e0041tag", "%s {0} {x!r}", "wide 漢字 🙂 é",
)  # fmt: skip


def seeded(url: str, id: str = "fix-login") -> None:
    """A conversation that an agent might have had: calls, a large output, usage."""
    config = {"offload_tokens": 200, "ladder": ("hide",)}
    with refold.open(
        id, store=url, model="claude-sonnet-4-5", system="Be brief", config=config
    ) as context:
        context.update(title="Fix the login test")
        for turn in range(5):
            context.append({"role": "user", "content": f"question {turn} about login.py"})
            call = {
                "type": "tool_use",
                "id": f"t{turn}",
                "name": "run",
                "input": {"command": "cat login.py"},
            }
            context.append({"role": "assistant", "content": [call]})
            context.append_result(f"t{turn}", "def login():\n" * (1_000 if turn == 1 else 5))
        context.record(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "claude-sonnet-4-5",
                "content": [{"type": "text", "text": "done"}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 900, "output_tokens": 9},
            }
        )


def hostile(url: str) -> None:
    """A conversation all of whose texts are attacks on a terminal: title, content, names, ids,
    arguments."""
    store = open_store(url)
    context = refold.Context(store, "hostile", config=refold.Config(offload_tokens=2_000))
    context.update(
        title=" ".join(text[:40] for text in HOSTILE), system="\x1b[5msystem", tags=("\x1b[7mtag",)
    )
    for number, text in enumerate(HOSTILE):
        context.append({"role": "user", "content": text})
        call = {"id": f"t{number}{text[:20]}", "type": "function"}
        call["function"] = {"name": f"tool{text[:20]}", "arguments": text[:300]}  # type: ignore[assignment]
        context.append(
            {"role": "assistant", "content": None, "tool_calls": [call]}, by=f"by {text[:20]}"
        )
        context.append_result(call["id"], text, name=f"tool{text[:20]}")
    context.artifacts.put("\n".join(HOSTILE), name=HOSTILE[0], type="file")
    context.compact("hide", target=context.view.tokens // 2)
    context.close()
    store.close()


def run(*args: str, **given: Any) -> Result:
    """The command line in this process."""
    return CliRunner().invoke(commands, list(args), **given)


def as_json(*args: str) -> Any:
    result = run(*args, "--json")
    assert result.stderr == "", result.stderr
    return json.loads(result.stdout)


def program(*args: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """The command line as a program, with an environment of its own."""
    clean = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **environ}
    return subprocess.run(
        (*PROGRAM, *args), env=clean, capture_output=True, timeout=WAIT_S, check=False
    )


def on_terminal(
    *args: str, cwd: Path | None = None, typed: str = "", when: str = "", **environ: str
) -> tuple[int, str]:
    """What the program writes to a terminal where this is typed, at once or `when` a question is
    shown, and its exit status."""
    ours, theirs = pty.openpty()
    clean = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "COLUMNS": "100",
        **environ,
    }
    process = subprocess.Popen(
        (*PROGRAM, *args), stdin=theirs, stdout=theirs, stderr=theirs, env=clean, cwd=cwd
    )
    os.close(theirs)
    pieces, deadline = [], time.monotonic() + WAIT_S
    if not when:
        os.write(ours, typed.encode())
    try:
        while time.monotonic() < deadline and select.select([ours], [], [], WAIT_S)[0]:
            piece = os.read(ours, 65_536)
            if not piece:
                break
            pieces.append(piece)
            if when and when.encode() in b"".join(pieces):
                os.write(ours, typed.encode())
                when = ""
    except OSError:
        # The other end of a terminal is gone: that is how its end is told on Linux.
        process.wait(WAIT_S)
    finally:
        os.close(ours)
    return process.wait(WAIT_S), b"".join(pieces).decode()
