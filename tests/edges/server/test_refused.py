"""Calls that two programs could read in two ways are refused, and everything that is logged is one
JSON object a line."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core import codec
from refold.edges.server import readiness
from refold.edges.server.route import query_of
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


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("path", ["/health", f"{BASE}conversations", "/nothing"])
def test_what_follows_a_body_with_two_lengths_is_no_call(
    path: str, order: tuple[int, int], tmp_path
) -> None:
    """A proxy in front that counts by Content-Length takes both for one call."""
    running = Running(tmp_path)
    try:
        inner = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        body = b"0\r\n\r\n" + inner
        lengths = [b"Content-Length: %d" % len(body), b"Transfer-Encoding: chunked"]
        head = [
            f"POST {path} HTTP/1.1".encode(),
            b"Host: 127.0.0.1",
            *(lengths[at] for at in order),
        ]
        with socket.create_connection(("127.0.0.1", running.port), timeout=LONG_S) as connection:
            connection.sendall(b"\r\n".join([*head, b"", b""]) + body)
            answer = connection.makefile("rb").read()
        assert answer.count(b"HTTP/1.1 ") == 1 and answer.startswith(b"HTTP/1.1 400"), answer
    finally:
        running.stop()


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


def batch() -> bytes:
    return batch_of(sealed(None, [b'{"kind":"n","data":1}'], kind="note"))
