"""A writer over HTTP, against scripted servers on loopback: formats, keys, tries, and everything
that goes wrong."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest

from refold.edges.endpoints import client
from refold.edges.endpoints.writer import endpoint
from refold.errors import Denied, Invalid, RefoldError, Unavailable
from refold.writer.asker import Request
from tests.servers import Play, chat, serving
from tests.waiting import LONG_S

ASK = Request(prompt="the history", system="be brief", max_tokens=77, wait_s=50)
KEY = "sk-test-" + "0123456789abcdefXYZ"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(client, "BACKOFF_S", 0.01)


def answered(*plays, **given):
    with serving(*plays) as server:
        return endpoint(server.url, "m", **given)(ASK), server


def failed(*plays, error=Unavailable, request=ASK, **given):
    with serving(*plays) as server, pytest.raises(error) as caught:
        endpoint(server.url, "m", **given)(request)
    return caught.value, server


# --- formats ---


def test_openai_chat_completions():
    """Y-48: no tools in the request, own instruction text."""
    answer, server = answered(Play(chat("hello", reasoning_content="hm")))
    [(path, headers, body)] = server.seen
    assert (answer.text, answer.finished, answer.reasoning) == ("hello", "stop", "hm")
    assert (answer.usage.input, answer.usage.output) == (9, 3)
    assert path == "/chat/completions"
    assert "authorization" not in headers
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["max_tokens"] == 77
    assert not {"tools", "functions", "tool_choice"} & body.keys()


def test_anthropic_messages():
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hello"}]
    reply = {
        "content": content,
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 5, "output_tokens": 2},
    }
    answer, server = answered(Play(reply), kind="anthropic")
    [(path, headers, body)] = server.seen
    assert (answer.text, answer.finished, answer.reasoning, answer.usage.input) == (
        "hello",
        "stop",
        "hm",
        5,
    )
    assert path == "/v1/messages"
    assert headers["anthropic-version"]
    assert body["system"] == "be brief"
    assert "tools" not in body


def test_gemini_generate_content():
    parts = [{"text": "hm", "thought": True}, {"text": "hello"}]
    candidate = {"content": {"parts": parts}, "finishReason": "STOP"}
    reply = {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 4}}
    answer, server = answered(Play(reply), kind="gemini")
    [(path, _, body)] = server.seen
    assert (answer.text, answer.finished, answer.reasoning, answer.usage.input) == (
        "hello",
        "stop",
        "hm",
        4,
    )
    assert path == "/v1beta/models/m:generateContent"
    assert body["generationConfig"]["maxOutputTokens"] == 77
    assert "tools" not in body


@pytest.mark.parametrize(
    ("reply", "kind", "finished"),
    [
        (chat("a", "length"), "openai", "length"),
        (chat("a", "content_filter"), "openai", "refusal"),
        (chat(None, refusal="no"), "openai", "refusal"),
        (chat(None, "tool_calls", tool_calls=[{"id": "1"}]), "openai", "tool"),
        ({"content": [], "stop_reason": "max_tokens"}, "anthropic", "length"),
        ({"content": [{"type": "tool_use"}], "stop_reason": "tool_use"}, "anthropic", "tool"),
        ({"promptFeedback": {"blockReason": "SAFETY"}}, "gemini", "refusal"),
        ({"candidates": [{"finishReason": "MAX_TOKENS"}]}, "gemini", "length"),
        (
            {
                "candidates": [
                    {"content": {"parts": [{"functionCall": {}}]}, "finishReason": "STOP"}
                ]
            },
            "gemini",
            "tool",
        ),
    ],
)
def test_how_an_answer_ended_is_told_in_one_set_of_words(reply, kind, finished):
    """Y-49, P20"""
    assert answered(Play(reply), kind=kind)[0].finished == finished


# --- keys ---


@pytest.mark.parametrize(
    ("kind", "header"),
    [("openai", "authorization"), ("anthropic", "x-api-key"), ("gemini", "x-goog-api-key")],
)
def test_the_key_comes_from_the_environment_and_goes_into_a_header_only(kind, header, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    with serving(Play({})) as server, pytest.raises(Unavailable):
        endpoint(server.url, "m", kind=kind, key_env="MY_KEY")(ASK)
    path, headers, body = server.seen[0]
    assert headers[header].endswith(KEY)
    assert KEY not in path
    assert KEY not in str(body)


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500])
def test_no_error_and_no_log_shows_the_key(status, monkeypatch, caplog):
    """A provider echoes the key it was given, whole or as `Incorrect API key provided`."""
    monkeypatch.setenv("MY_KEY", KEY)
    with caplog.at_level(logging.DEBUG):
        error, _ = failed(
            Play(f"bad key {KEY}".encode(), status), error=RefoldError, key_env="MY_KEY", tries=1
        )
    assert KEY not in f"{error} {error!r} {error.hint} {caplog.text}"
    monkeypatch.setenv("MY_KEY", f"{KEY}\nx")
    error, server = failed(Play(chat("x")), error=Denied, key_env="MY_KEY")
    assert KEY not in str(error)
    assert server.seen == []


def test_a_key_is_not_sent_where_it_does_not_belong(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    _, server = answered(Play(chat("x")))
    assert "authorization" not in server.seen[0][1]
    with pytest.raises(Denied, match="in the clear"):
        endpoint("http://models.example.com/v1", "m", key_env="OPENAI_API_KEY")(ASK)
    assert KEY not in repr(endpoint("https://api.openai.com/v1", "m"))


def test_a_named_key_must_be_there(monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(Denied, match="MY_KEY"):
        endpoint("http://127.0.0.1:1", "m", key_env="MY_KEY")(ASK)


@pytest.mark.parametrize(
    "url",
    ["ftp://x", "nonsense", "http://[", "https://u:secret@host/v1", "https://host/v1?key=secret"],
)
def test_an_address_without_a_host_or_with_a_secret_is_refused(url):
    with pytest.raises(Invalid) as caught:
        endpoint(url, "m")
    assert "secret" not in str(caught.value)


def test_window_and_output_follow_what_is_known_of_the_model():
    """Y-53: the cap of a summary is lowered by the model's own; a window that is given wins."""
    known, unknown = (
        endpoint("http://localhost", "gpt-4o"),
        endpoint("http://localhost", "nobody-knows-it"),
    )
    assert (known.window, unknown.window) == (128_000, 32_000)
    assert endpoint("http://localhost", "gpt-4o", window=9_000).window == 9_000
    for model, most in (("gpt-3.5-turbo", 4_096), ("nobody-knows-it", 9_999)):
        with serving(Play(chat("fine"))) as server:
            endpoint(server.url, model)(Request(prompt="x", max_tokens=9_999))
        assert server.seen[0][2]["max_tokens"] == most


def test_an_unknown_kind_is_refused():
    with pytest.raises(Invalid, match="kind"):
        endpoint("http://127.0.0.1", "m", kind="telepathy")  # type: ignore[arg-type]


# --- tries ---


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
def test_a_busy_server_is_asked_again(status):
    """Y-55, P19"""
    answer, server = answered(Play(b"busy", status), Play(b"busy", status), Play(chat("at last")))
    assert answer.text == "at last"
    assert len(server.seen) == 3


def test_tries_are_counted():
    """P19"""
    error, server = failed(Play(b"busy", 500), tries=2)
    assert len(server.seen) == 2
    assert "500" in str(error)


@pytest.mark.parametrize(
    ("status", "kind"), [(400, Invalid), (404, Invalid), (401, Denied), (403, Denied)]
)
def test_what_will_not_change_is_not_tried_again(status, kind):
    _, server = failed(Play(b"no", status), error=kind)
    assert len(server.seen) == 1


def test_retry_after_is_honoured():
    """Y-55"""
    started = time.monotonic()
    answered(Play(b"", 429, retry_after="0.3"), Play(chat("x")))
    assert time.monotonic() - started >= 0.3
    assert client.retry_after_s("7", 0.3) == 7.0  # not the pause that we would make ourselves


def test_retry_after_is_capped_and_never_waited_for_beyond_the_deadline():
    """P19"""
    started = time.monotonic()
    error, server = failed(Play(b"", 429, retry_after="86400"), deadline_s=50.0)
    assert error.retry_after_s == client.RETRY_AFTER_MAX_S
    assert time.monotonic() - started < 50
    assert len(server.seen) == 1
    assert client.retry_after_s("Wed, 21 Oct 2099 07:28:00 GMT", 1.0) == client.RETRY_AFTER_MAX_S
    assert client.retry_after_s("soon", 1.0) == 1.0
    assert client.retry_after_s("nan", 1.0) == 1.0
    assert client.retry_after_s("-5", 1.0) == 0.0


def test_a_time_out_is_bounded_and_tried_again():
    """Y-49, P19"""
    # More tries than it takes, for a machine that does not answer within 0.3 s.
    late = Play(chat("late"), delay_s=LONG_S)
    answer, _ = answered(late, Play(chat("in time")), timeout_s=0.3, tries=30)
    assert answer.text == "in time"
    error, _ = failed(late, timeout_s=0.2, tries=2)
    assert "no answer" in str(error)


def test_the_caller_s_patience_bounds_all_tries():
    """P19"""
    started = time.monotonic()
    failed(Play(chat("late"), delay_s=LONG_S), request=Request(prompt="x", wait_s=0.3))
    assert time.monotonic() - started < 30


def test_redirects_are_not_followed():
    with serving(Play(chat("stolen"))) as other:
        error, _ = failed(Play(b"", 307, location=other.url), error=Invalid)
        assert other.seen == []
    assert "redirect" in str(error)


@pytest.mark.parametrize(
    "body",
    [
        b"<html><body>502</body></html>",
        b"",
        b"\xff\xfe",
        b"[1]",
        b'"text"',
        b"{",
        b"{}",
        b"[" * 100_000,
        b'{"choices": []}',
        b'{"choices": [7]}',
        b'{"choices": [{"message": "x"}]}',
        b"data: {}\n\ndata: [DONE]\n\n",
    ],
)
def test_garbage_is_a_clear_failure(body):
    """Y-49, P19"""
    error, server = failed(Play(body))
    assert len(str(error)) < 300
    assert len(server.seen) == 1


def test_an_answer_that_ends_early_is_a_failure_and_tried_again():
    """Y-49, P19"""
    whole = Play(chat("whole"))
    answer, _ = answered(Play(chat("cut"), cut=20), whole)
    assert answer.text == "whole"
    error, server = failed(Play(chat("cut"), cut=20), tries=2)
    assert "ended early" in str(error)
    assert len(server.seen) == 2


def test_an_answer_without_end_is_cut_off(monkeypatch):
    monkeypatch.setattr(client, "BODY_BYTES_MAX", 1_000)
    error, _ = failed(Play(b"x" * 5_000))
    assert "1,000" in str(error)


def test_a_server_that_is_not_there_is_a_clear_failure():
    with serving(Play()) as server:
        url = server.url
    with pytest.raises(Unavailable, match="connection failed"):
        endpoint(url, "m", tries=2)(ASK)


def test_one_call_is_in_flight_at_a_time():
    """Y-55"""
    with serving(Play(chat("x"), delay_s=0.1)) as server:
        ask = endpoint(server.url, "m")
        threads = [threading.Thread(target=ask, args=(ASK,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(server.seen) == 3
    assert server.most_at_once == 1


def test_calls_per_hour_are_bounded():
    """Y-55"""
    with serving(Play(chat("x"))) as server:
        ask = endpoint(server.url, "m", calls_per_hour=2)
        ask(ASK)
        ask(ASK)
        with pytest.raises(Unavailable, match="this hour"):
            ask(ASK)
    assert len(server.seen) == 2


NO_LIMITS = (0, -1, float("nan"), float("inf"), "3", [])
LIMITS = [
    (name, value) for name in ("timeout_s", "deadline_s", "tries", "window") for value in NO_LIMITS
]


@pytest.mark.parametrize(
    ("name", "value"), [*LIMITS, ("timeout_s", True), ("deadline_s", None), ("tries", 10**40)]
)
def test_a_limit_that_limits_nothing_is_refused(name: str, value: Any) -> None:
    with pytest.raises(Invalid, match=name):
        endpoint("http://localhost:1/v1", "m", **{name: value})


@pytest.mark.parametrize("url", [None, 7, b"http://x", "", "http://", "http://[", "http://x:y/"])
def test_what_is_no_address_is_refused(url: Any) -> None:
    with pytest.raises(Invalid, match=r"address|^url is "):
        endpoint(url, "m")


def test_a_misspelt_kind_is_refused_with_the_nearest() -> None:
    with pytest.raises(Invalid) as caught:
        endpoint("http://localhost:1/v1", "m", kind="antropic")  # type: ignore[arg-type]
    assert caught.value.hint == "did you mean anthropic?"
