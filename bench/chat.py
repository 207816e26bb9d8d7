"""What a chat costs on a terminal: `python -m bench.chat`, in an environment with prompt_toolkit
and tmux.

CPU up to the first prompt, against `import prompt_toolkit`; CPU while a reply streams at 200 tokens
a second, as a share of one core. Both are of the chat's own process, so a busy machine changes
them little.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
RUNS = 3
TOKENS, PER_SECOND = 1_000, 200


class Streaming(BaseHTTPRequestHandler):
    """A reply of so many tokens, at an even pace."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()
        began = time.monotonic()
        for n in range(TOKENS):
            self._send({"delta": {"content": f" word{n}"}, "index": 0})
            time.sleep(max(0.0, began + n / PER_SECOND - time.monotonic()))
        self._send({"delta": {}, "index": 0, "finish_reason": "stop"})
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, choice: dict[str, object]) -> None:
        chunk = {"object": "chat.completion.chunk", "choices": [choice]}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def serving() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Streaming)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


def import_s() -> float:
    """CPU seconds of `import prompt_toolkit`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import prompt_toolkit"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def used_s(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    from tests.real.terminal.screens import chat

    with tempfile.TemporaryDirectory() as folder, serving() as url:
        home = Path(folder) / "work"
        home.mkdir()
        ratios = []
        for _ in range(RUNS):
            with chat(home) as terminal:
                ratios.append(used_s(terminal.pid()) / import_s())
        print(f"first prompt: {min(ratios):.2f} x the CPU of import prompt_toolkit (goal 3)")
        with chat(home, "--model", f"{url}#m", "--no-tools") as terminal:
            terminal.type("go")
            terminal.key("Enter")
            terminal.wait("word9 ")
            pid, began = terminal.pid(), time.monotonic()
            before = used_s(pid)
            terminal.wait("word900 ")
            share = (used_s(pid) - before) / (time.monotonic() - began)
            terminal.prompt()
        print(f"{PER_SECOND} tokens/s streamed: {share:.1%} of a core (goal 10 %)")


if __name__ == "__main__":
    main()
