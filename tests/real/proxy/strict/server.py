"""The upstream over HTTP, on loopback: routes, bodies, and how answers fail.

`with serving(...) as upstream:` gives `url` and `requests`, everything that came, in order, with
what was refused and why. One thread a connection; keep-alive as the providers do.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.real.proxy.strict import (
    anthropic_service,
    chat_service,
    gemini_service,
    responses_service,
)
from tests.real.proxy.strict.replies import Call, Reply, whole
from tests.real.proxy.strict.script import Script
from tests.real.proxy.strict.settings import Settings
from tests.real.proxy.strict.wire import Json, Refusal

Service = Callable[[Call, Settings], Reply]
ErrorBody = Callable[[Refusal], Json]

ROUTES: dict[str, tuple[Service, ErrorBody]] = {
    "/v1/messages": (anthropic_service.create, anthropic_service.error_body),
    "/v1/messages/count_tokens": (anthropic_service.count, anthropic_service.error_body),
    "/v1/chat/completions": (chat_service.create, chat_service.error_body),
    "/v1/responses": (responses_service.create, chat_service.error_body),
    "/v1/responses/compact": (responses_service.compact, chat_service.error_body),
    "/v1/responses/input_tokens": (responses_service.count, chat_service.error_body),
}
_BODY_BYTES_MAX = 64 * 1024 * 1024
_STOP_S_MAX = 60.0


@dataclass(frozen=True)
class Seen:
    """One request that came, its raw body with it, and why it was refused, if it was."""

    path: str
    headers: dict[str, str]
    raw: bytes
    refused: Refusal | None = None

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


@dataclass
class Upstream:
    settings: Settings
    url: str = ""
    requests: list[Seen] = field(default_factory=list)

    @property
    def script(self) -> Script:
        return self.settings.script

    @property
    def refusals(self) -> list[str]:
        """Why requests were refused, without failures of the script."""
        return [one.refused.message for one in self.requests if one.refused is not None]


class HungUp(Exception):
    """The script ends the connection without an answer."""


def route_of(path: str) -> tuple[Service, ErrorBody] | None:
    plain = path.partition("?")[0]
    if "/models/" in plain and ":" in plain:
        return gemini_service.create, gemini_service.error_body
    return ROUTES.get(plain)


def answered(path: str, headers: dict[str, str], raw: bytes, upstream: Upstream) -> Reply:
    """The reply to one POST; a refusal is a reply as well, in the provider's own shape."""
    route = route_of(path)
    if route is None:
        refused = Refusal(f"no such route: {path}", status=404)
        upstream.requests.append(Seen(path, headers, raw, refused))
        return _error(refused, anthropic_service.error_body)
    service, error_body = route
    try:
        reply = service(Call(path, headers, _body_in(raw)), upstream.settings)
    except Refusal as refused:
        told = None if refused.is_scripted else refused
        upstream.requests.append(Seen(path, headers, raw, told))
        if refused.status == 0:
            raise HungUp from refused
        return _error(refused, error_body)
    upstream.requests.append(Seen(path, headers, raw))
    return reply


def _body_in(raw: bytes) -> Json:
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise Refusal("The request body is not valid JSON") from error
    if not isinstance(body, dict):
        raise Refusal("The request body is not an object")
    return body


def _error(refused: Refusal, error_body: ErrorBody) -> Reply:
    body, after = whole(error_body(refused)), refused.retry_after_s
    headers = {"retry-after": str(after)} if after is not None else {}
    return Reply(body.pieces, body.answer, status=refused.status, headers=headers)


def _handler(upstream: Upstream) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            if size > _BODY_BYTES_MAX:
                self.close_connection = True
                return
            raw = self.rfile.read(size)
            if len(raw) < size:
                # Whoever sent it died meanwhile: a server that only got half has no request.
                self.close_connection = True
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                reply = answered(self.path, headers, raw, upstream)
            except HungUp:
                self.close_connection = True
                return
            with contextlib.suppress(ConnectionError):
                self._send(reply)

        def do_GET(self) -> None:
            models = [{"id": "claude-opus-5-5", "type": "model", "max_input_tokens": 200_000}]
            is_known = self.path.partition("?")[0] == "/v1/models"
            reply = whole({"data": models, "has_more": False} if is_known else {})
            self._send(reply if is_known else Reply(reply.pieces, reply.answer, status=404))

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def _send(self, reply: Reply) -> None:
            time.sleep(reply.answer.slow_s)
            self.send_response(reply.status)
            self.send_header("content-type", reply.content_type)
            self.send_header("request-id", "req_strict")
            for name, value in reply.headers.items():
                self.send_header(name, value)
            is_stream = reply.content_type.startswith("text/event-stream")
            if is_stream:
                self.send_header("transfer-encoding", "chunked")
            else:
                self.send_header("content-length", str(len(reply.pieces[0])))
            self.end_headers()
            self._send_pieces(reply, chunked=is_stream)

        def _send_pieces(self, reply: Reply, *, chunked: bool) -> None:
            left = reply.answer.cut_at
            for piece in reply.pieces:
                cut = piece if left is None else piece[:left]
                if cut:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(cut), cut) if chunked else cut)
                    self.wfile.flush()
                if left is not None:
                    left -= len(cut)
                    if left <= 0:
                        self.close_connection = True
                        return
                time.sleep(reply.answer.piece_s)
            if chunked:
                self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing is printed."""

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextmanager
def serving(*plays: Any, port: int = 0, **chosen: Any) -> Iterator[Upstream]:
    """An upstream that answers these plays in order, and with the settings chosen."""
    upstream = Upstream(Settings(**chosen))
    upstream.script.add(*plays)
    server = _Server(("127.0.0.1", port), _handler(upstream))
    upstream.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield upstream
    finally:
        server.shutdown()
        server.server_close()
        thread.join(_STOP_S_MAX)
