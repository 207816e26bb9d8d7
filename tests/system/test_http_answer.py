"""Whatever a server answers, a call ends by its deadline with an error of refold, and little of the
answer is ever held. Every kind of caller is played against every kind of hostile answer."""

from __future__ import annotations

import ast
import contextlib
import itertools
import os
import socket
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.edges.endpoints import chat, embedder, writer
from refold.edges.endpoints.chat import ChatEndpoint
from refold.edges.endpoints.model_names import NamedModel
from refold.errors import RefoldError, Unavailable
from refold.log import stored_logs
from refold.stores import event_lines, version_of
from refold.stores.contract import kit
from refold.stores.hybrid.conversation_sync import all_conversations
from refold.stores.remote import client
from refold.stores.remote.store import RemoteStore
from refold.system.http_answer import (
    PACE_BYTES_S,
    PIECE_BYTES,
    Patience,
    Unanswered,
    Unpacker,
    asked,
    client_for,
)
from refold.writer.asker import Request

WAIT_S = 0.08
SLACK_S = 10.0  # for a busy machine; without a deadline the calls last for ever
HELD_BYTES_MAX = 64 * 1024 * 1024
DIGEST = "0" * 64
MEGABYTE = b" " * 1_000_000
Send = Callable[[bytes], None]


def packed(megabytes: int, encoding: int = 31) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, encoding)
    return b"".join([*(packer.compress(MEGABYTE) for _ in range(megabytes)), packer.flush()])


BOMB = packed(300)


def head(status: str = "200 OK", *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", "connection: close", *headers, "", ""]).encode()


def body(text: bytes, *headers: str) -> Callable[[Send], None]:
    return lambda send: send(head("200 OK", f"content-length: {len(text)}", *headers) + text)


def endless(*begin: bytes, then: bytes = MEGABYTE, pause_s: float = 0.0) -> Callable[[Send], None]:
    def answer(send: Send) -> None:
        for part in itertools.chain(begin, itertools.repeat(then)):
            send(part)
            time.sleep(pause_s)

    return answer


DRIP_S = 0.02
HOSTILE: dict[str, Callable[[Send], None]] = {
    "endless": endless(head()),
    "endless in chunks of a byte": endless(
        head("200 OK", "transfer-encoding: chunked"), then=b"1\r\n \r\n" * 10_000
    ),
    "drip": endless(head(), then=b" ", pause_s=DRIP_S),
    "drip of an error": endless(head("400 Bad Request"), then=b" ", pause_s=DRIP_S),
    "drip of headers": endless(b"HTTP/1.1 200 OK\r\nx: ", then=b"x", pause_s=DRIP_S),
    "provisional for ever": endless(then=b"HTTP/1.1 102 Processing\r\n\r\n", pause_s=DRIP_S),
    "headers for ever": endless(b"HTTP/1.1 200 OK\r\n", then=b"x: y\r\n" * 1_000),
    "nothing": endless(then=b"", pause_s=DRIP_S),
    "bomb": body(BOMB, "content-encoding: gzip"),
    "bomb in a bomb": body(packed(0) + BOMB, "content-encoding: gzip, gzip"),
    "bomb of deflate": body(packed(300, 15), "content-encoding: deflate"),
    "unknown encoding": body(BOMB, "content-encoding: br"),
    "damaged gzip": body(b"no gzip at all", "content-encoding: gzip"),
    "bomb of an error": lambda send: send(
        head("500 No", f"content-length: {len(BOMB)}", "content-encoding: gzip") + BOMB
    ),
    "status 999": lambda send: send(head("999 What", "content-length: 2") + b"{}"),
    "status 600": lambda send: send(head("600 What", "content-length: 2") + b"{}"),
    "status 101": lambda send: send(head("101 Other", "upgrade: x") + b"{}"),
    "redirect": lambda send: send(head("307 There", "location: /", "content-length: 0")),
    "cut off": lambda send: send(head("200 OK", "content-length: 9000") + b'{"data": ['),
    "negative length": lambda send: send(head("200 OK", "content-length: -5") + b"{}"),
    "no HTTP": lambda send: send(os.urandom(4_000)),
    "a page": body(b"<html>Welcome</html>"),
    "deep": body(b'{"x":' + b"[" * 1_000_000),
    "many values": body(b'{"x":[' + b"{}," * 2_000_000 + b"{}]}"),
    "no text": body(b'{"error":"\xff\xfe"}'),
    "not a number": body(b'{"data":[{"embedding":[NaN]}]}'),
    "huge numbers": body(b'{"data":[{"embedding":[1e300]}],"conversations":[{"id":"a","head":1e300}]}'),
    "wrong types": body(b'{"data":[{"index":[],"embedding":["x"]}],"conversations":5,"choices":{}}'),
}  # fmt: skip


class Evil:
    """A server that answers every call in the same way, until it is closed."""

    def __init__(self, answer: Callable[[Send], None]) -> None:
        self._answer, self._listening = answer, socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.calls = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            came = b""
            while b"\r\n\r\n" not in came:
                came += connection.recv(65_536) or b"\r\n\r\n"
            self.calls += 1
            connection.settimeout(SLACK_S)
            self._answer(connection.sendall)
            connection.shutdown(socket.SHUT_WR)
            # Read what still comes, so that the answer is not reset.
            while self._listening.fileno() >= 0 and connection.recv(65_536):
                pass

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@contextlib.contextmanager
def evil(answer: Callable[[Send], None]) -> Iterator[Evil]:
    server = Evil(answer)
    try:
        yield server
    finally:
        server.close()


def far(url: str, wait_s: float = WAIT_S) -> RemoteStore:
    store = RemoteStore(f"{url}/acme", deadline_s=wait_s)
    store.client._token = "rft_x"
    return store


GIVEN: dict[str, Any] = {"timeout_s": WAIT_S, "deadline_s": WAIT_S, "tries": 1}


def streamed(url: str) -> object:
    model = NamedModel(spec="x", kind="openai", url=url, name="m")
    chat = ChatEndpoint(model, idle_s=WAIT_S)
    found = list(chat.stream({"model": "m", "messages": []}))
    if not found:
        raise RefoldError("nothing in the stream")
    return found


def heard(url: str) -> object:
    hints = list(far(url).listen())
    if not hints:
        raise RefoldError("the feed has ended")
    return hints


CALLERS: dict[str, Callable[[str], object]] = {
    "writer": lambda url: writer.endpoint(url, "m", **GIVEN)(Request(prompt="x", max_tokens=9)),
    "embedder": lambda url: embedder.endpoint(url, "m", **GIVEN)(["x"]),
    "chat": streamed,
    "list": lambda url: far(url).conversations(),
    "head": lambda url: far(url).head("a"),
    "read": lambda url: far(url).read("a"),
    "salvage": lambda url: far(url).salvage("a"),
    "put": lambda url: far(url).put([b"x"]),
    "get": lambda url: list(far(url).get(DIGEST)),
    "feed": heard,
}
# A feed lasts as long as something comes.
LASTING = {("feed", "drip"), ("feed", "drip of an error")}
PRODUCT = [one for one in itertools.product(CALLERS, HOSTILE) if one not in LASTING]


@pytest.mark.parametrize(("caller", "hostile"), PRODUCT)
def test_a_hostile_answer_ends_in_time_with_an_error_and_little_is_held(
    caller: str, hostile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "READ_S", WAIT_S)
    monkeypatch.setattr("refold.stores.remote.client.CONTENT_BYTES_MAX", 20_000_000)
    monkeypatch.setattr("refold.edges.endpoints.chat.REPLY_S", WAIT_S)
    monkeypatch.setattr("refold.edges.endpoints.chat.REPLY_S_MAX", WAIT_S)
    with evil(HOSTILE[hostile]) as server:
        begun = time.monotonic()
        tracemalloc.start()
        try:
            with pytest.raises(RefoldError) as caught:
                CALLERS[caller](server.url)
            held = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert time.monotonic() - begun < SLACK_S
    assert held < HELD_BYTES_MAX
    assert len(str(caught.value)) < 2_000


# --- what decodes, and is still not believed ---


CHAIN = "0" * 32
ONE = {"id": "a", "head": 0, "chain": CHAIN}
PAGES: dict[str, list[dict[str, Any]]] = {
    "a chain that is not hex": [{**ONE, "chain": "zz"}],
    "a chain with a newline": [{**ONE, "chain": CHAIN[:-1] + "\n"}],
    "a short chain": [{**ONE, "chain": "00"}],
    "a head below zero": [{**ONE, "head": -1}],
    "a head of no store": [{**ONE, "head": 1 << 41}],
    "a time of no clock": [{**ONE, "at_ms": 10**30}],
    "a name that leads outside": [{**ONE, "id": "../a"}],
    "a parent that leads outside": [{**ONE, "parent": "../a"}],
    "the same twice": [ONE, ONE],
    "descending": [{**ONE, "id": "b"}, ONE],
    "more than asked": [{**ONE, "id": f"c{number:04}"} for number in range(101)],
}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_no_store_gives_is_refused(page: str) -> None:
    answer = body(msgspec.json.encode({"conversations": PAGES[page]}))
    with evil(answer) as server, pytest.raises(Unavailable, match="cannot be understood"):
        far(server.url, SLACK_S).conversations()


def test_a_list_whose_first_page_comes_for_ever_ends_at_the_second() -> None:
    page = [{**ONE, "id": f"c{number:04}"} for number in range(200)]
    with evil(body(msgspec.json.encode({"conversations": page}))) as server:
        store = far(server.url, SLACK_S)
        assert len(store.conversations(limit=200)) == 200
        with pytest.raises(Unavailable, match="do not ascend"):
            list(all_conversations(store))
        assert server.calls == 3


@pytest.mark.parametrize("size", [200, 1_000])
@pytest.mark.parametrize("walk", ["conversations", "newest", "sync", "version", "pages"])
def test_a_list_that_ascends_for_ever_ends_with_an_error(
    walk: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server has always one more page, which begins after the last id of the page before."""
    monkeypatch.setattr("refold.stores.remote.store.LISTED_MAX", 40 * size)

    class More(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = dict(parse_qsl(urlsplit(self.path).query))
            first = int(query["after"][1:] or 0) + 1 if query.get("after") else 1
            most = min(size, int(query["limit"]))
            page = [{**ONE, "id": f"c{number:012}"} for number in range(first, first + most)]
            content = msgspec.json.encode({"conversations": page})
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), More) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            store = far(f"http://127.0.0.1:{server.server_port}", SLACK_S)
            walks: dict[str, Callable[[], object]] = {
                "conversations": lambda: list(stored_logs.conversations(store)),
                "newest": lambda: list(stored_logs.newest_first(store)),
                "sync": lambda: list(all_conversations(store)),
                "version": lambda: version_of(store),
                "pages": lambda: by_hand(store),
            }
            with pytest.raises(Unavailable, match="does not end"):
                walks[walk]()
            # A new list begins from the start.
            assert len(store.conversations(limit=size)) == size
        finally:
            server.shutdown()


def by_hand(store: RemoteStore) -> int:
    """A caller's own walk, beside which other lists begin and never go on."""
    after = ""
    while page := store.conversations(after=after, limit=50):
        after = page[-1].id
        store.conversations(limit=3)
    return len(after)


EVENTS = kit.sealed(None, [b"{}"] * 12)


@given(seqs=st.lists(st.integers(1, 12), min_size=1, max_size=6), after=st.integers(0, 8))
@settings(max_examples=25, deadline=None)
def test_events_are_taken_only_in_order_and_within_what_was_asked(
    seqs: list[int], after: int
) -> None:
    last, limit = after + 4, 3
    events = [EVENTS[seq - 1] for seq in seqs]
    is_lawful = seqs == sorted(set(seqs)) and len(seqs) == limit and after < seqs[0]
    with evil(body(event_lines.batch_of(events))) as server:
        store = far(server.url, SLACK_S)
        if is_lawful and seqs[-1] <= last:
            assert store.read("a", after=after, last=last, limit=limit) == events
        else:  # or the same page again, after it
            with pytest.raises(RefoldError):
                store.read("a", after=after, last=last, limit=limit)


@given(st.floats(0.05, 100_000.0))
@settings(deadline=None)
def test_a_reply_that_says_almost_nothing_ends_and_so_does_every_other(bytes_s: float) -> None:
    """By a clock of its own: a provider sends so many bytes a second, for ever."""
    now_s, step_s = 0.0, max(1.0, 1.0 / bytes_s)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("refold.system.http_answer.time.monotonic", lambda: now_s)
        patience = Patience(
            chat.REPLY_S,
            idle_s=chat.IDLE_S,
            pace_bytes_s=chat.REPLY_PACE_BYTES_S,
            wait_s_max=chat.REPLY_S_MAX,
        )
        while patience.left() > 0 and now_s < 2 * chat.REPLY_S_MAX:
            now_s += step_s
            patience.moved(round(bytes_s * step_s))
    assert now_s <= chat.REPLY_S_MAX + step_s
    if bytes_s <= chat.REPLY_PACE_BYTES_S / 4:
        assert now_s <= 2 * chat.REPLY_S + step_s
    if bytes_s >= 2 * chat.REPLY_PACE_BYTES_S:
        assert now_s >= chat.REPLY_S_MAX


FRAMES = st.tuples(st.integers(0, 100_000), st.integers(0, 5_000), st.floats(0.0, 40.0))


@given(
    frames=st.lists(FRAMES, min_size=1, max_size=20),
    deadline_s=st.sampled_from([0.0, 0.5, 30.0, 1e6]),
    wait_s=st.floats(0.0, 30.0),
    is_content=st.booleans(),
)
@settings(deadline=None)
def test_no_call_outlives_its_longest_time_whatever_comes(
    frames: list[tuple[int, int, float]], deadline_s: float, wait_s: float, is_content: bool
) -> None:
    """By a clock of its own: a server sends these frames for ever, each after its time, and however
    much of it is content."""
    longest_s = client.CONTENT_S_MAX if is_content else client.ANSWER_S_MAX
    now_s, most_s = 0.0, 0.5 + max(pause_s for *_, pause_s in frames)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("refold.system.http_answer.time.monotonic", lambda: now_s)
        patience = far("http://127.0.0.1", deadline_s).client._patience(wait_s, longest_s)
        for content, _, pause_s in itertools.cycle(frames):
            if patience.left() <= 0:
                break
            now_s += max(0.5, min(pause_s, patience.left()))
            patience.moved(content)
            assert now_s <= max(longest_s, client.READ_S) + most_s


@given(extension=st.integers(3, 2_000), size=st.integers(1, 2))
@settings(deadline=None, max_examples=10)
def test_frames_count_against_the_size_of_an_answer(extension: int, size: int) -> None:
    frame = f"{size};{'x' * extension}\r\n{' ' * size}\r\n".encode()
    begin = head("200 OK", "transfer-encoding: chunked")
    with (
        evil(endless(begin, then=frame * 2_000)) as server,
        client_for("127.0.0.1") as http,
        pytest.raises(Unavailable, match="an answer of more than") as caught,
    ):
        patience = Patience(SLACK_S, idle_s=SLACK_S)
        asked(http, "GET", server.url, patience, place="it", headers={}).whole(100_000)
    assert not isinstance(caught.value, Unanswered)


def test_another_conversation_than_the_one_asked_for_is_refused() -> None:
    with evil(body(msgspec.json.encode(ONE))) as server:
        assert far(server.url, SLACK_S).head("a") == 0
        with pytest.raises(Unavailable, match="another conversation"):
            far(server.url, SLACK_S).head("b")


def test_a_line_of_the_feed_is_held_up_to_a_limit() -> None:
    with evil(endless(head())) as server:
        store = far(server.url, SLACK_S)
        with pytest.raises(Unavailable, match="a line of more than"):
            list(store.listen())


# --- what is lawful, however large or slow ---


def test_a_store_that_is_never_asked_twice_waits_as_long_for_its_only_answer() -> None:
    """The far store of a sync: the sync itself tries again."""
    answer = body(msgspec.json.encode({"conversations": []}))

    def late(send: Send) -> None:
        time.sleep(0.4)
        answer(send)

    with evil(late) as server:
        assert far(server.url, 0.0).conversations() == []
        assert server.calls == 1


def test_a_large_answer_may_take_longer_than_a_small_one() -> None:
    """Its bytes add to its time: only what is slower than the pace is given up."""
    whole = os.urandom(PACE_BYTES_S // 4)
    answer = Patience(WAIT_S, idle_s=10.0, pace_bytes_s=PACE_BYTES_S, wait_s_max=60.0)
    slow = Patience(WAIT_S, idle_s=10.0)

    def slowly(send: Send) -> None:
        send(head("200 OK", f"content-length: {len(whole)}"))
        for at in range(0, len(whole), len(whole) // 8):
            send(whole[at : at + len(whole) // 8])
            time.sleep(WAIT_S / 4)

    with evil(slowly) as server, client_for("127.0.0.1") as http:
        given: dict[str, Any] = {"place": "it", "headers": {}}
        assert asked(http, "GET", server.url, answer, **given).whole(1 << 20) == whole
        with pytest.raises(Unanswered):
            asked(http, "GET", server.url, slow, **given).whole(1 << 20)


@given(
    text=st.binary(max_size=5_000),
    sizes=st.lists(st.integers(1, 900), min_size=1),
    times=st.integers(1, 300),
)
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity", ""])
def test_a_body_unpacks_to_what_was_packed_in_small_pieces(
    encoding: str, text: bytes, sizes: list[int], times: int
) -> None:
    whole = text * times
    packer = zlib.compressobj(9, zlib.DEFLATED, 31 if encoding == "gzip" else 15)
    is_packed = encoding in ("gzip", "deflate")
    came = packer.compress(whole) + packer.flush() if is_packed else whole
    unpacker, found, at = Unpacker(encoding), [], 0
    for size in itertools.cycle(sizes):
        found += unpacker.pieces(came[at : at + size])
        if (at := at + size) >= len(came):
            break
    assert b"".join(found) == whole
    assert max(map(len, found), default=0) <= PIECE_BYTES


# --- nobody else reads ---


SOURCE = Path(refold.__file__).parent
READERS = {"system/http_answer.py", "edges/proxy/upstream.py"}
# The first asks only whether its own process listens. The second hears answers of the user's SDK,
# which has read them.
OTHERS = {"edges/proxy/supervisor.py": "http.client", "edges/adapters/anthropic.py": "httpx2"}
MODULES = {"httpx", "httpx2", "httpcore", "requests", "aiohttp", "http.client", "urllib.request"}  # fmt: skip


def imported(path: Path) -> Iterator[str]:
    """The modules for HTTP that a file imports at run time."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typed = [
        one
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for one in node.body
    ]
    for node in ast.walk(tree):
        if node in typed:
            continue
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in MODULES)
        elif (
            isinstance(node, ast.ImportFrom)
            and node.module in MODULES
            and "getproxies" not in {one.name for one in node.names}
        ):
            yield node.module


def test_http_answers_are_read_in_one_place() -> None:
    found = {
        str(path.relative_to(SOURCE)): names
        for path in SOURCE.rglob("*.py")
        if "http" in path.read_text(encoding="utf-8") and (names := set(imported(path)))
    }
    assert found.keys() == READERS | OTHERS.keys()
    assert all(found[path] == {name} for path, name in OTHERS.items())
    # The reader itself never asks httpx for a body: it counts the raw chunks.
    reads = {"content", "text", "json", "read", "aread", "iter_bytes", "aiter_bytes", "iter_raw"}
    for path in READERS:
        tree = ast.parse((SOURCE / path).read_text(encoding="utf-8"))
        asked_for = [
            f"{path}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and node.attr in reads
            and "response" in ast.unparse(node.value)
        ]
        assert asked_for == []
