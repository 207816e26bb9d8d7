"""A tiny HTTP server on loopback that plays a script, for the tests of writers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Play:
    """One answer: its status, body and headers; `delay_s` before it, or until the server ends,
    `cut` bytes missing at its end."""

    def __init__(
        self,
        body: Any = b"",
        status: int = 200,
        *,
        delay_s: float = 0.0,
        cut: int = 0,
        **headers: str,
    ) -> None:
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status, self.delay_s, self.cut, self.headers = status, delay_s, cut, headers


class Server:
    """`url` to post to; `seen` holds every request: path, headers, body. The last play is
    repeated."""

    def __init__(self, plays: list[Play]) -> None:
        self.plays, self.seen, self.url = plays, [], ""
        self.at_once = self.most_at_once = 0
        self.ended = threading.Event()

    def next(self) -> Play:
        return self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
            length = int(self.headers.get("content-length", "0"))
            body = json.loads(self.rfile.read(length)) if length else None
            server.seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            play = server.next()
            server.ended.wait(play.delay_s)
            server.at_once -= 1
            self._answer(play)

        do_GET = do_POST

        def _answer(self, play: Play) -> None:
            self.send_response(play.status)
            for name, value in play.headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("content-length", str(len(play.body)))
            self.end_headers()
            try:
                self.wfile.write(play.body[: len(play.body) - play.cut])
            except OSError:
                return  # the client did not wait

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    return Handler


@contextmanager
def serving(*plays: Play) -> Iterator[Server]:
    server = Server(list(plays))
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    http.daemon_threads = True
    thread = threading.Thread(
        target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_port}"
    try:
        yield server
    finally:
        server.ended.set()
        http.shutdown()
        http.server_close()
        thread.join()


def chat(text: str | None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """An answer in the form of OpenAI's chat completions."""
    choice = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": text, **message},
    }
    usage = {"prompt_tokens": 9, "completion_tokens": 3}
    return {"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}
