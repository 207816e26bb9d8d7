"""A running `refold ui`, and calls to it byte by byte."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import refold

TIMEOUT_S = 20.0
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
BAD = "</script><img src=x onerror=alert(1)>\x1b[2J\u202egnp.exe"


class Running:
    """One server. `call` sends what it is told, and knows nothing of HTTP's manners."""

    def __init__(self, store: Path, **environ: str) -> None:
        self.store = store
        url = f"sqlite:{store}"
        command = [sys.executable, "-m", "refold", "ui", "--no-open", "--store", url]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environ},
        )
        self.address = self._printed()
        self.port = int(self.address.split(":")[2].split("/")[0])
        self.host = f"127.0.0.1:{self.port}"
        self.cookie = ""

    def _printed(self) -> str:
        assert self.process.stdout is not None
        found = re.search(r"http://\S+", self.process.stdout.readline())
        assert found is not None
        return found[0]

    @property
    def key(self) -> str:
        return self.address.split("#key=")[1]

    def raw(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        """The status, headers and body of the answer to some bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S) as connection:
            connection.sendall(data)
            answer = b""
            while chunk := connection.recv(65_536):
                answer += chunk
        head, _, body = answer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        pairs = (line.split(": ", 1) for line in lines[1:])
        headers = {name.lower(): value for name, value in pairs}
        return int(lines[0].split()[1]), headers, body

    def call(
        self, target: str, *headers: str, method: str = "GET", body: bytes = b"", host: bool = True
    ) -> tuple[int, dict[str, str], bytes]:
        lines = [f"{method} {target} HTTP/1.1", "Connection: close", *headers]
        if host:
            lines.append(f"Host: {self.host}")
        if body:
            lines.append(f"Content-Length: {len(body)}")
        return self.raw("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def enter(self, key: str, *headers: str) -> tuple[int, dict[str, str], bytes]:
        own = headers or (f"Origin: http://{self.host}", "Content-Type: application/json")
        return self.call("/enter", *own, method="POST", body=json.dumps({"key": key}).encode())

    def ask(self, target: str) -> Any:
        """The value of an admitted call."""
        status, _, body = self.call(target, f"Cookie: {self.cookie}")
        assert status == 200, body
        return json.loads(body)

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=TIMEOUT_S)


def write_session(store: Path, id: str = "talk", turns: int = 40) -> None:
    """A session with compactions, a secret, and content that wants to break a page."""
    with refold.open(id, store=f"sqlite:{store}") as context:
        context.update(title=f"{BAD} login", model="claude-sonnet-4-5", window=6_000)
        context.append({"role": "user", "content": "Find out why the login fails."})
        for turn in range(turns):
            call = {"id": f"c{turn}", "name": "read_file", "arguments": {"path": f"a{turn}.py"}}
            context.append(
                {"role": "assistant", "content": f"I read a{turn}.", "tool_calls": [call]}
            )
            lines = "\n".join(f"def f{turn}_{line}(): return {line}" for line in range(30))
            bad = f"{BAD} token={SECRET}\n" if turn == 3 else ""
            context.append({"role": "tool", "tool_call_id": f"c{turn}", "content": bad + lines})
            context.request()
        context.append({"role": "user", "content": "And the logout?"})


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that nobody has entered yet, but for one browser with a cookie."""
    store = tmp_path_factory.mktemp("ui") / "refold.db"
    write_session(store)
    server = Running(store)
    status, headers, _ = server.enter(server.key)
    assert status == 200
    server.cookie = headers["set-cookie"].split(";")[0]
    yield server
    server.stop()
