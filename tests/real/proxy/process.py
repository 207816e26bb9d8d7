"""A proxy as a process of its own, and what it says of itself."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

START_S, STOP_S = 120.0, 120.0
COMMAND = [sys.executable, "-c", "from refold.edges.cli import main; main()"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """`refold proxy` with these options; it can be killed and started again on the same port."""

    def __init__(self, folder: Path, upstream: str, *options: str) -> None:
        self.port, self.folder = free_port(), folder
        self.store = f"sqlite:{folder}/proxy.db"
        self._command = [
            *COMMAND, "proxy", "--port", str(self.port), "--store", self.store,
            "--anthropic", upstream, "--openai", upstream, "--gemini", upstream, *options,
        ]  # fmt: skip
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        log = (self.folder / "proxy.log").open("ab")
        self.process = subprocess.Popen(self._command, stderr=log, stdout=log, cwd=self.folder)
        log.close()
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            try:
                if httpx.get(f"{self.url}/refold/ready", timeout=5).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.1)
        raise AssertionError(f"the proxy did not start: {self.log()}")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_S)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(STOP_S)

    def log(self) -> str:
        return (self.folder / "proxy.log").read_text(encoding="utf-8")

    def refold(self, *words: str) -> Any:
        """What a command says about the store, as JSON."""
        return told_by(self.store, *words)


def told_by(store: str, *words: str) -> Any:
    """What a command says about a store, as JSON."""
    done = subprocess.run(
        [*COMMAND, *words, "--store", store, "--json"],
        capture_output=True,
        timeout=START_S,
        check=True,
    )
    return json.loads(done.stdout)


@contextmanager
def proxied(folder: Path, upstream: str, *options: str) -> Iterator[Process]:
    process = Process(folder, upstream, *options)
    try:
        yield process
    finally:
        process.stop()
