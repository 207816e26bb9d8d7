"""A command that the model wants to run: in a process group of its own, with a time-out, its output
bounded.

It runs in the folder, without input, and without the keys of providers in its environment: what it
prints becomes part of the conversation. When its time is over, or the person stops it, the whole
group is killed. Neighbour: `tools` asks the person before it calls this.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from refold.edges.chat.interrupts import Interrupts
from refold.settings.writer import KEY_DOMAINS

WAIT_S, WAIT_S_MAX = 120, 1_800
OUTPUT_BYTES_MAX = 4 * 1024 * 1024
POLL_S = 0.02
STOPPED = "stopped by the user"


class Ran(Struct, frozen=True, kw_only=True):
    """What a command printed, and how it ended."""

    output: str
    status: int
    ended: str = ""

    @property
    def text(self) -> str:
        """For the model: the output, then how it ended."""
        how = self.ended or f"exit status {self.status}"
        return f"{self.output}\n[{how}]" if self.output else f"[no output, {how}]"


def run(command: str, folder: Path, *, wait_s: float, interrupts: Interrupts) -> Ran:
    """Runs a command line of the shell. One that the person stopped is ended, and what it printed
    until then is its output; `interrupts` knows that the rest is to stop as well."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=folder,
            env=environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            with interrupts.waiting():
                ended = _waited(process, wait_s, output.fileno())
        except KeyboardInterrupt:
            ended = STOPPED
        finally:
            _kill(process)
        return Ran(output=_text(output.fileno()), status=process.returncode, ended=ended)


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command: without the keys of providers."""
    return {name: value for name, value in environ.items() if name not in KEY_DOMAINS}


def _waited(process: subprocess.Popen[bytes], wait_s: float, output: int) -> str:
    """Waits for the end; says why it did not wait longer."""
    deadline = time.monotonic() + wait_s
    while process.poll() is None:
        if time.monotonic() > deadline:
            return f"stopped: not done after {wait_s:g} s"
        if os.fstat(output).st_size > OUTPUT_BYTES_MAX:
            return f"stopped: more than {OUTPUT_BYTES_MAX:,} bytes of output"
        with suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)
    return ""


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends the whole group, also what the command left behind in it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _text(output: int) -> str:
    found = os.pread(output, OUTPUT_BYTES_MAX, 0)
    return found.decode("utf-8", "replace").rstrip("\n")
