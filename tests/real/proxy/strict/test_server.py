"""The upstream over HTTP: streams, failures, and what it remembers of requests."""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.error
import urllib.request

import pytest

from tests.real.proxy.strict.script import Answer, Failure, answers_in
from tests.real.proxy.strict.server import serving
from tests.real.proxy.strict.talks import HEADERS, MODEL, call, text, thought

ASK = {"role": "user", "content": "go on"}
BODY = {"model": MODEL, "max_tokens": 100, "messages": [ASK]}


def post(upstream, body=BODY, path="/v1/messages", **headers):
    """Status, headers and raw body of one request."""
    data = json.dumps(body).encode()
    sent = {**HEADERS, "content-type": "application/json", **headers}
    request = urllib.request.Request(upstream.url + path, data, sent)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def events(raw):
    lines = raw.decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def test_a_stream_holds_what_the_whole_message_would():
    content = [thought("Hm."), text("Done."), call("a", path="x")]
    with serving(content, content) as upstream:
        whole = json.loads(post(upstream)[2])
        _, headers, raw = post(upstream, {**BODY, "stream": True})
    assert headers["content-type"].startswith("text/event-stream")
    deltas = [one["delta"] for one in events(raw) if one["type"] == "content_block_delta"]
    assert "".join(one.get("thinking", "") for one in deltas) == "Hm."
    assert "".join(one.get("partial_json", "") for one in deltas) == '{"path": "x"}'
    signatures = [one["signature"] for one in deltas if "signature" in one]
    assert signatures == [whole["content"][0]["signature"]]
    assert whole["stop_reason"] == "tool_use"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"model": "gpt-5", "messages": [ASK], "stream": True}),
        ("/v1/responses", {"model": "gpt-5", "input": "go on", "stream": True}),
        ("/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse&key=k",
         {"contents": [{"role": "user", "parts": [{"text": "go on"}]}]}),
    ],
)  # fmt: skip
def test_the_others_stream_too(path, body):
    with serving() as upstream:
        status, headers, raw = post(upstream, body, path, authorization="Bearer key")
    assert status == 200
    assert headers["content-type"].startswith("text/event-stream")
    said = json.dumps(events(raw)).replace('", "', "")
    assert "Done." in said or ("Do" in said and "ne." in said)


def test_failures_take_the_place_of_one_answer():
    with serving(
        Failure(429, retry_after_s=7), Failure(500), Failure(529), [text("ok")]
    ) as upstream:
        answers = [post(upstream) for _ in range(4)]
    assert [status for status, *_ in answers] == [429, 500, 529, 200]
    assert answers[0][1]["retry-after"] == "7"
    kinds = [json.loads(raw)["error"]["type"] for _, _, raw in answers[:3]]
    assert kinds == ["rate_limit_error", "api_error", "overloaded_error"]
    assert upstream.refusals == []


def test_an_overflow_can_be_said_whatever_the_size():
    with serving(Failure(400, says_tokens=(209_000, 200_000))) as upstream:
        status, _, raw = post(upstream)
    assert status == 400
    assert "209000 tokens > 200000 maximum" in json.loads(raw)["error"]["message"]


def test_a_stream_can_be_cut_and_a_connection_hung_up():
    with serving(Answer([text("long " * 200)], cut_at=300), Failure(0)) as upstream:
        with pytest.raises(http.client.IncompleteRead) as cut:
            post(upstream, {**BODY, "stream": True})
        assert len(cut.value.partial) <= 300
        with pytest.raises(
            (http.client.RemoteDisconnected, ConnectionError, urllib.error.URLError)
        ):
            post(upstream)


def test_slow_answers_do_not_hold_up_others():
    with serving() as upstream:
        upstream.script.add(Answer([text("late")], slow_s=3.0), queue="slow")
        slow = threading.Thread(target=post, args=(upstream,), kwargs={"x-script": "slow"})
        slow.start()
        time.sleep(0.05)
        post(upstream)
        assert slow.is_alive()
        slow.join(60)


def test_queues_are_named_by_a_header():
    with serving() as upstream:
        upstream.script.add([text("for a")], queue="a")
        upstream.script.add([text("for b")], queue="b")
        said = [json.loads(post(upstream, **{"x-script": name})[2]) for name in "bac"]
    assert [one["content"][0]["text"] for one in said] == ["for b", "for a", "Done."]


def test_requests_are_remembered_with_why_they_were_refused():
    with serving() as upstream:
        post(upstream)
        post(upstream, {**BODY, "messages": []})
        status = post(upstream, path="/v1/other")[0]
        raw = json.dumps(BODY).encode()
    assert upstream.requests[0].raw == raw
    assert status == 404
    assert upstream.refusals == [
        "messages: at least one message is required",
        "no such route: /v1/other",
    ]


def test_what_is_not_json_is_refused():
    with serving() as upstream:
        request = urllib.request.Request(upstream.url + "/v1/messages", b"{", HEADERS)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        refused.value.close()
    assert refused.value.code == 400


def test_a_recorded_session_gives_its_turns():
    messages = [ASK, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": [text("b")]},
                ASK, {"role": "assistant", "content": [text("c")]}]  # fmt: skip
    assert answers_in(messages) == [[text("a"), text("b")], [text("c")]]


def test_half_a_request_is_no_request():
    """The one who sent it was killed: what came is neither judged nor remembered."""
    with serving() as upstream:
        address = upstream.url.removeprefix("http://")
        connection = http.client.HTTPConnection(address, timeout=60)
        connection.putrequest("POST", "/v1/messages")
        for name, value in {**HEADERS, "content-length": "1000"}.items():
            connection.putheader(name, value)
        connection.endheaders(b'{"model": "claude')
        connection.close()
        assert post(upstream)[0] == 200
        assert len(upstream.requests) == 1
        assert upstream.refusals == []
