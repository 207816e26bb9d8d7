"""The reader of HTTP answers. A server may be hostile or broken, so an answer is bounded before it
is held: its bytes as they arrive and as they unpack, and its time as a whole.

The time of an answer counts from the first byte sent to the last one read, at the socket, because a
timeout for each read never ends an answer that comes one byte at a time. It grows with the bytes
moved if the call may be large, up to a maximum. A stream that is meant to last has a limit on
silence instead. Redirects and cookies are refused, and only encodings that can be unpacked here are
requested. Neighbours: `stores.remote.client` and `edges.endpoints.client` call servers; the proxy,
which is asynchronous, shares `Unpacker` and `status_checked`.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from http.cookiejar import DefaultCookiePolicy
from math import inf
from typing import TYPE_CHECKING, Any

from refold.checked import quoted
from refold.display import cut
from refold.errors import Denied, Unavailable

if TYPE_CHECKING:
    import ssl

    import httpx

CONNECT_S = 15.0
SAID_CHARS = 300  # of an error that may quote what the server sent
PIECE_BYTES = 64 * 1024
PACE_BYTES_S = 64 * 1024  # the slowest transfer that is accepted
FRAMED = 2  # bytes on the wire for a byte of content, at most
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_PLAIN = ("", "identity")
_thread = threading.local()  # `patience`, for the call under way


class Unanswered(Unavailable):
    """The connection failed, or the answer did not come in time: another try may succeed."""


class Patience:
    """The time that one call may still take: `wait_s` in all, and `idle_s` without content. Only
    time on the network counts. Every byte of content in either direction adds its share of a second
    at `pace_bytes_s`, up to `wait_s_max` in all, and not beyond `wait_s` without one. `wire_bytes`
    is the number of bytes read, with the frames around the content."""

    def __init__(
        self, wait_s: float, *, idle_s: float, pace_bytes_s: float = inf, wait_s_max: float = 0.0
    ) -> None:
        self.wait_s, self.idle_s, self._pace_bytes_s = wait_s, idle_s, pace_bytes_s
        self._wait_s_max = wait_s_max
        self.renew()

    def renew(self) -> None:
        """Starts again, for the next chunk of a request."""
        self.wire_bytes = 0
        now = time.monotonic()
        self._ends_at, self._idle_at = now + self.wait_s, now + self.idle_s
        self._latest = now + max(self.wait_s, self._wait_s_max)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Limits the network of this thread."""
        before, self._idle_at = getattr(_thread, "patience", None), time.monotonic() + self.idle_s
        _thread.patience = self
        try:
            yield
        finally:
            _thread.patience = before

    def paused(self, since: float) -> None:
        """Does not count the time since then."""
        paused_s = time.monotonic() - since
        self._ends_at, self._latest = self._ends_at + paused_s, self._latest + paused_s

    def moved(self, size: int) -> None:
        """Counts bytes of content. The frames around them do not extend the time."""
        self._idle_at = time.monotonic() + self.idle_s
        self._ends_at = min(self._ends_at + size / self._pace_bytes_s, self._latest)

    def left(self) -> float:
        return min(self._ends_at, self._idle_at) - time.monotonic()


class _Stream:
    """A network stream that never waits longer than the call of its thread may."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        import httpcore

        patience: Patience | None = getattr(_thread, "patience", None)
        left = inf if patience is None else patience.left()
        if left <= 0:
            raise httpcore.ReadTimeout("the answer did not end in time")
        read: bytes = self._stream.read(max_bytes, _least(timeout, left))
        if patience is not None:
            patience.wire_bytes += len(read)
        return read

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        import httpcore

        patience: Patience | None = getattr(_thread, "patience", None)
        if patience is None:
            self._stream.write(buffer, timeout)
            return
        # Piece by piece: one write waits its whole time for each part that the server takes.
        for at in range(0, len(buffer), PIECE_BYTES):
            if (left := patience.left()) <= 0:
                raise httpcore.WriteTimeout("the request was not read in time")
            piece = buffer[at : at + PIECE_BYTES]
            self._stream.write(piece, _least(timeout, left))
            patience.moved(len(piece))

    def start_tls(self, *given: Any, **named: Any) -> _Stream:
        return _Stream(self._stream.start_tls(*given, **named))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _least(timeout: float | None, left: float) -> float | None:
    if timeout is None:
        return None if left == inf else left
    return min(timeout, left)


class _Network:
    """A network whose streams are limited, because httpx has no other place for the time of a
    call."""

    def __init__(self, network: Any) -> None:
        self._network = network

    def connect_tcp(self, *given: Any, **named: Any) -> _Stream:
        return _Stream(self._network.connect_tcp(*given, **named))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)


def client_for(host: str | None, *, connections: int = 1) -> httpx.Client:
    """A client for calls of one host, which are made by `asked`."""
    import httpx

    made = httpx.Client(
        follow_redirects=False,
        verify=_trusted(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
        # A proxy of the environment is not for this machine.
        trust_env=host not in LOOPBACK,
        limits=httpx.Limits(max_connections=connections, max_keepalive_connections=8),
    )
    made.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    for transport in (made._transport, *made._mounts.values()):
        if transport is not None:
            pool: Any = transport._pool  # type: ignore[attr-defined]
            pool._network_backend = _Network(pool._network_backend)
    return made


@lru_cache(maxsize=4)
def _trusted(file: str | None, folder: str | None) -> ssl.SSLContext:
    """The authorities that these variables name, also without `trust_env`; reading them is slow."""
    import httpx

    return httpx.create_ssl_context()


def asked(
    client: httpx.Client,
    method: str,
    url: str,
    patience: Patience,
    *,
    place: str,
    headers: Mapping[str, str],
    connect_s: float = CONNECT_S,
    **given: Any,
) -> Answer:
    """The answer of a server, with its body unread. `place` names the server in errors; `given` are
    httpx's `params`, `content` and `json`."""
    import httpx

    patience.renew()
    content = given.get("content")
    if content is not None and not isinstance(content, bytes):
        given["content"] = _produced(content, patience)
    request = client.build_request(
        method,
        url,
        headers={**headers, "Accept-Encoding": "gzip"},
        timeout=httpx.Timeout(patience.idle_s, connect=min(connect_s, patience.idle_s)),
        **given,
    )
    with _translated(place, patience), patience.running():
        answer = Answer(client.send(request, stream=True), patience, place)
    try:
        status_checked(answer.status, place)
    except Unavailable:
        answer.close()
        raise
    return answer


def _produced(content: Iterable[bytes], patience: Patience) -> Iterator[bytes]:
    """The chunks of a request, each with its own time: a slow caller is not a slow server."""
    for chunk in content:
        patience.renew()
        yield bytes(chunk)


class Answer:
    """One answer: its status and headers, and its body, to be read once."""

    def __init__(self, response: httpx.Response, patience: Patience, place: str) -> None:
        self._response, self._patience, self._place = response, patience, place
        self.status, self.headers = response.status_code, response.headers

    def whole(self, size_max: int) -> bytes:
        """The complete body, unpacked."""
        held = io.BytesIO()
        for piece in self.pieces(size_max):
            held.write(piece)
        return held.getvalue()

    def pieces(self, size_max: float) -> Iterator[bytes]:
        """The body as it comes, unpacked. Unavailable above `size_max`, packed or unpacked, and if
        the frames around it take as much again."""
        packed = unpacked = 0
        with contextlib.closing(self), _translated(self._place, self._patience):
            unpacker = Unpacker(self.headers.get("content-encoding", ""))
            chunks = iter(self._response.stream)  # type: ignore[arg-type]
            while True:
                with self._patience.running():
                    chunk = next(chunks, None)
                if chunk is None:
                    return
                packed += len(chunk)
                self._patience.moved(len(chunk))
                paused_at = time.monotonic()
                for piece in unpacker.pieces(chunk):
                    unpacked += len(piece)
                    on_wire = self._patience.wire_bytes / FRAMED
                    if max(packed, unpacked, on_wire) > size_max:
                        what = f"{self._place} sent an answer of more than {size_max:,} bytes"
                        raise Unavailable(what, hint="check the address")
                    yield piece
                self._patience.paused(paused_at)

    def close(self) -> None:
        """Closes the answer, even if it is unread."""
        self._response.close()

    def end(self) -> None:
        """Ends the answer, from any thread, even while another thread reads it."""
        stream = self._response.extensions.get("network_stream")
        plain = stream.get_extra_info("socket") if stream is not None else None
        if plain is not None:
            with contextlib.suppress(OSError):
                plain.shutdown(socket.SHUT_RDWR)


def lines(pieces: Iterable[bytes], size_max: int, place: str) -> Iterator[bytes]:
    """The lines of a body, and the rest after the last line. A line may come in thousands of
    pieces, and nothing is searched twice."""
    rest = bytearray()
    for piece in pieces:
        ended, newline, begun = piece.rpartition(b"\n")
        if newline:
            yield from bytes(rest + ended).split(b"\n")
            rest.clear()
        rest += begun
        if len(rest) > size_max:
            what = f"{place} sent a line of more than {size_max:,} bytes"
            raise Unavailable(what, hint="check the address")
    if rest:
        yield bytes(rest)


def status_checked(status: int, place: str) -> None:
    """Raises Unavailable for a status that cannot be final."""
    if not 200 <= status <= 599:
        what = f"{place} answered with the invalid status {status}"
        raise Unavailable(what, hint="check the address")


class Unpacker:
    """Unpacks one body. Raises zlib.error for an encoding that is unknown, and for damage."""

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        if name not in (*_WINDOWS, *_PLAIN):
            raise zlib.error(f"it has the unknown encoding {quoted(encoding, 40)}")
        self._unpacked = zlib.decompressobj(_WINDOWS[name]) if name in _WINDOWS else None

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """The next bytes, in pieces: a small chunk may unpack to a thousand times its size."""
        unpacked, piece = self._unpacked, b""
        if unpacked is None:
            yield chunk
            return
        while not unpacked.eof and (chunk or len(piece) == PIECE_BYTES):
            piece = unpacked.decompress(chunk, PIECE_BYTES)
            chunk = unpacked.unconsumed_tail
            if piece:
                yield piece


@contextlib.contextmanager
def _translated(place: str, patience: Patience) -> Iterator[None]:
    import httpx

    try:
        yield
    except httpx.TimeoutException as error:
        reason = f"{place}: no answer within {min(patience.wait_s, patience.idle_s):.3g} s"
        raise Unanswered(reason, retry_after_s=1.0, hint="try again") from error
    except httpx.HTTPError as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            message = f"the certificate of {place} is not trusted: {error}"
            hint = "set SSL_CERT_FILE to a file with your team's certificate authority"
            raise Denied(message, hint=hint) from error
        said = cut(str(error), SAID_CHARS) or type(error).__name__
        reason = f"{place}: the connection failed or ended early ({said})"
        raise Unanswered(reason, retry_after_s=1.0, hint="try again") from error
    except zlib.error as error:
        message = f"{place} sent an answer that cannot be unpacked: {error}"
        raise Unavailable(message, hint="check the address") from error
