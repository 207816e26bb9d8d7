"""Calls that two programs could read in two ways are refused, and everything that is logged is one
JSON object a line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import sys
import threading
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core import codec
from refold.edges.server import readiness, route
from refold.edges.server.access import HeadersTooLarge, Orgs, TargetTooLong, headers_of
from refold.edges.server.content_routes import ConversationBody
from refold.edges.server.route import Call, query_of
from refold.edges.server.serve import OneLine
from refold.errors import Denied, Invalid, RefoldError, Unavailable
from refold.stores import batch_of
from refold.stores.checks import too_new
from refold.stores.contract.kit import sealed
from refold.stores.encrypted.encrypted_event import encrypted
from refold.stores.encrypted.keys import Key
from tests.edges.server.kit import BASE, Served, served
from tests.edges.server.running import Running
from tests.waiting import LONG_S, until


@pytest.mark.parametrize("code", ["%2F", "%2f"])
def test_a_slash_that_is_written_as_a_code_leads_nowhere(tmp_path, code: str):
    async def work(it: Served):
        for path in (f"/api/v1/orgs/acme{code}context/conversations", f"{BASE}{code}conversations"):
            assert (await it.call("GET", path)).status_code == 404

    served(tmp_path, work)


def test_a_body_with_two_lengths_is_refused(tmp_path):
    async def work(it: Served):
        headers = {"Transfer-Encoding": "chunked", "Content-Length": "2"}
        answer = await it.call("POST", "conversations", content=b"{}", headers=headers)
        assert answer.status_code == 400 and "twice" in answer.json()["message"]

    served(tmp_path, work)


TWO = b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"
FAULTS = [
    *(b"".join(lines) for lines in (TWO, TWO[::-1])),
    *(b"Content-Length: %s\r\n" % text for text in (b"-1", b"+5", b"0x5", b"5 5", b"5, 6", b"", b"9" * 40)),
    b"Content-Length: 5\r\nContent-Length: 6\r\n",
    b"Content-Length : 5\r\n",
    b"Content-Length\r\n",
    *(b"Transfer-Encoding: %s\r\n" % text for text in (b"gzip", b"gzip, chunked", b"chunked, chunked", b"x")),
    TWO[1] * 2,
    *(TWO[1] + b"\r\n%s\r\n" % size for size in (b"x", b"-1", b"0x1", b"1_0", b"", b"f" * 40)),
    TWO[1] + b"\r\n1\r\nabc\r\n",
    *(b"%s: a\r\n%s: a\r\n" % (name, name) for name in (b"Authorization", b"Origin", b"Accept", b"Host")),
    b"Name: a\0b\r\n",
    b"Name: a\rb\r\n",
    b": no name\r\n",
    b"A: b\r\n" * 101,
    b"A: %s\r\n" % (b"b" * 33_000),
    b"A: %s\r\n" % (b"b" * 300_000),
]  # fmt: skip


@pytest.fixture(scope="module")
def wire(tmp_path_factory):
    running = Running(tmp_path_factory.mktemp("wire"))
    yield running.port
    running.stop()


@given(
    method=st.sampled_from([b"POST", b"PUT", b"DELETE", b"GET"]),
    path=st.sampled_from([b"/ready", f"{BASE}/conversations/c/events".encode(), b"/no", b"*"]),
    fault=st.sampled_from(FAULTS),
    cut=st.integers(0, 400),
)
def test_a_refused_frame_ends_its_connection(wire: int, method, path, fault, cut) -> None:
    """What follows may be part of the body, for a proxy in front that counts in another way."""
    head = b"%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n" % (method, path, fault)
    sent = head + b"0\r\n\r\n" + b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    answer = b""
    # A connection that is closed with unread bytes is reset, perhaps before its answer is read.
    with (
        socket.create_connection(("127.0.0.1", wire), timeout=LONG_S) as connection,
        contextlib.suppress(ConnectionError),
    ):
        connection.sendall(sent[:cut])
        connection.sendall(sent[cut:])
        while more := connection.recv(65_536):
            answer += more
    assert answer.count(b"HTTP/1.1 ") <= 1, (fault, answer)
    assert not answer.startswith(b"HTTP/1.1 2"), answer


@pytest.mark.parametrize("rest", [b"zz\r\n", b"1\r\nabc\r\n", b"-1\r\n\r\n"])
def test_a_broken_rest_of_an_answered_call_gets_no_second_answer(wire: int, rest: bytes) -> None:
    head = b"POST /no HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", wire), timeout=LONG_S) as connection:
        connection.sendall(head)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 404")
        connection.sendall(rest)
        with contextlib.suppress(ConnectionError):
            assert connection.recv(65_536) == b""


@given(count=st.integers(0, 130), size=st.integers(0, 400), target=st.integers(0, 140_000))
def test_headers_and_urls_are_bounded(count: int, size: int, target: int) -> None:
    scope = {
        "headers": [(b"x-%d" % at, b"v" * size) for at in range(count)],
        "raw_path": b"/",
        "query_string": b"q" * target,
    }
    total = sum(len(name) + len(value) for name, value in scope["headers"])
    if count > 100 or total > 32 * 1024:
        with pytest.raises(HeadersTooLarge):
            headers_of(scope)
    elif target + 1 > 128 * 1024:
        with pytest.raises(TargetTooLong):
            headers_of(scope)
    else:
        assert headers_of(scope) == {}


def test_a_method_that_a_path_does_not_have_is_answered_with_those_it_has(tmp_path) -> None:
    async def work(it: Served):
        names = {"org": "acme", "id": "c", "digest": "0" * 64, "entry": "e"}
        paths: dict[str, set[str]] = {}
        for one in it.server.routes:
            paths.setdefault(one.path.format(**names), set()).add(one.method)
        for path, there in paths.items():
            for method in {"GET", "POST", "PUT", "DELETE", "PATCH", "TRACE", "OPTIONS"} - there:
                answer = await it.call(method, path)
                assert answer.status_code == 405, (method, path)
                assert {*answer.headers["allow"].split(", ")} >= there

    served(tmp_path, work)


@given(at=st.integers(0, 40), wrong=st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8"]))
def test_a_body_that_is_not_utf_8_is_invalid(at: int, wrong: bytes) -> None:
    text = b'{"id": "%s", "title": "%s"}' % (b"i" * 20, b"t" * 20)
    body = text[:at] + wrong + text[at:]
    call = Call(orgs=cast("Orgs", None), path={}, query={}, body=body)
    with pytest.raises(Invalid):
        call.parsed_body(ConversationBody)


@pytest.mark.parametrize(
    "query", [b"q=%ff", b"q=%ed%a0%80", b"%c3=1", b"q=\xff", b"a", b"a=1&&b=2"]
)
def test_a_query_that_is_not_text_is_refused(query: bytes):
    with pytest.raises(Invalid):
        query_of(query)


@given(pairs=st.dictionaries(st.text(min_size=1), st.text()))
def test_every_text_can_be_asked_for(pairs: dict[str, str]):
    from urllib.parse import urlencode

    try:
        raw = urlencode(pairs).encode()
    except UnicodeEncodeError:
        return  # a surrogate, which is no text
    assert query_of(raw) == pairs


def test_too_many_events_are_told_how_many_fit(tmp_path):
    async def work(it: Served):
        path = "conversations/c/events?expect=0"
        answer = await it.call("POST", path, content=b"{}\n" * 10_001)
        assert answer.status_code == 400 and "10,000" in answer.json()["hint"]

    served(tmp_path, work)


@given(message=st.text(), name=st.sampled_from(["uvicorn.error", "uvicorn", "asyncio"]))
def test_what_others_log_is_one_object_a_line_without_the_text_of_an_exception(
    message: str, name: str
):
    try:
        raise ValueError("the user wrote: hunter2")
    except ValueError:
        raised = sys.exc_info()
    given = message.replace("%", "%%")
    record = logging.LogRecord(name, logging.ERROR, "f.py", 1, given, (), raised)
    line = OneLine().format(record)
    assert "\n" not in line and "hunter2" not in line
    assert json.loads(line)["error"] == "ValueError"


PLACE = "postgresql://refold@db.internal/refold"
AWAY = [
    Unavailable(f"{PLACE}: connection to server at 10.0.0.7 failed", retry_after_s=2.0),
    Unavailable(f"{PLACE}: it took too long"),
    Denied(f"{PLACE}: password authentication failed for user refold"),
    too_new(PLACE, 9, 2),
]


@pytest.mark.parametrize("error", AWAY, ids=lambda error: type(error).__name__)
def test_callers_are_not_told_where_the_store_is_but_to_try_again(
    tmp_path, monkeypatch, caplog, error: RefoldError
):
    """So a server of the previous version, met by a newer database, sends its callers on."""

    def fail(*_: object, **__: object) -> None:
        raise error

    async def work(it: Served):
        store = it.server.orgs.store("acme")
        for method in ("conversations", "conversation", "append"):
            monkeypatch.setattr(store, method, fail)
        calls = [
            await it.call("GET", "conversations"),
            await it.call("GET", "conversations/c"),
            await it.call("GET", "feed", params={"wait": 0}),
            await it.call("POST", "conversations/c/events?expect=0", content=batch()),
        ]
        for answer in calls:
            assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
            assert "internal" not in answer.text and "10.0.0.7" not in answer.text

    served(tmp_path, work)
    told = [json.loads(line) for line in caplog.messages]
    away = [one for one in told if one["event"] == "store"]
    assert len(away) >= 4 and all(one["at"] > 0 for one in told)
    assert {one["reason"] for one in away} == {error.message}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "conversations/c/messages", None),
        (
            "POST",
            "conversations/c/messages",
            {"key": "k", "message": {"role": "user", "content": "hi"}},
        ),
        ("POST", "conversations/c/artifacts", {"name": "log.txt", "content": "a word"}),
        ("POST", "conversations", {"id": "c", "title": "a word"}),
        ("GET", "memory", None),
        ("POST", "memory", {"content": "a word", "scope": "project"}),
    ],
)
def test_what_is_encrypted_is_refused_for_good(tmp_path, method: str, path: str, body):
    key = Key(b"k" * 32)

    async def work(it: Served):
        store = it.server.orgs.store("acme")
        for id in ("c", "memory.project"):
            [event] = sealed(None, [b'{"kind":"n","data":1}'], kind="note")
            store.append(id, [encrypted(event, codec.ZERO, key, id)], expect=0)
        answer = await it.call(method, path, json=body)
        assert answer.status_code == 403 and answer.json()["error"] == "denied", answer.text
        assert "retry-after" not in answer.headers
        assert key.id in answer.text and str(tmp_path) not in answer.text

    served(tmp_path, work)


def test_the_log_says_why_without_a_secret_or_a_path(tmp_path, monkeypatch, caplog):
    """A file may have the name of a conversation, so of the system's refusals it has the words."""
    refusal = Unavailable("/orgs/acme/secret-project.jsonl: no room")
    refusal.__cause__ = OSError(28, "No space left on device", "secret-project")
    secret = Unavailable("sk-ant-api03-" + "a" * 90 + " was refused")

    async def work(it: Served):
        store = it.server.orgs.store("acme")
        for error in (refusal, secret):

            def fail(*_: object, error: RefoldError = error, **__: object) -> None:
                raise error

            monkeypatch.setattr(store, "conversations", fail)
            assert (await it.call("GET", "conversations")).status_code == 503

    served(tmp_path, work)
    assert "No space left on device" in caplog.text and "was refused" in caplog.text
    assert "secret-project" not in caplog.text and "aaaa" not in caplog.text


def test_readiness_does_not_wait_for_a_store_that_does_not_answer(tmp_path, monkeypatch):
    """However many ask, one thread does."""
    monkeypatch.setattr(readiness, "ANSWER_S", 0.05)
    came, asked = threading.Event(), []

    async def work(it: Served):
        own = it.server.orgs.own
        answers = own.bookmark

        def hang(id: str) -> object:
            asked.append(id)
            came.wait(LONG_S)
            return answers(id)

        monkeypatch.setattr(own, "bookmark", hang)
        for number in range(10):
            answer = await it.client.get("/ready")
            assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
            if number == 0:
                await asyncio.to_thread(until, lambda: asked)
        assert len(asked) == 1
        came.set()
        monkeypatch.setattr(readiness, "ANSWER_S", LONG_S)
        assert (await it.client.get("/ready")).status_code == 200

    served(tmp_path, work)


@given(count=st.integers(0, 400), depth=st.integers(0, 30), is_object=st.booleans())
def test_the_values_of_a_body_are_bounded_at_all_depths(count, depth, is_object) -> None:
    values: Any = {str(at): at for at in range(count)} if is_object else [0] * count
    for _ in range(depth):
        values = {"in": values} if is_object else [values]
    body = json.dumps({"id": "c", "metadata": {"in": values}}).encode()
    call = Call(orgs=cast("Orgs", None), path={}, query={}, body=body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(route, "VALUES_MAX", 200)
        total = 6 + depth + count  # 5 fields of the body, and 1 of the metadata
        if total > 200:
            with pytest.raises(Invalid, match="200 values"):
                call.parsed_body(ConversationBody)
        else:
            assert call.parsed_body(ConversationBody).metadata == {"in": values}


def batch() -> bytes:
    return batch_of(sealed(None, [b'{"kind":"n","data":1}'], kind="note"))
