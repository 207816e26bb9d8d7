"""Replies over HTTP as they stream, against scripted servers on loopback: the three formats, keys,
and everything that goes wrong on the way."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.edges.endpoints.chat import CALLS_MAX, ChatEndpoint, pieces
from refold.edges.endpoints.client import Refused, objects
from refold.edges.endpoints.model_names import PROVIDERS, NamedModel, model_named
from refold.errors import Denied, Invalid, RefoldError, Unavailable
from tests.servers import Play, Server, serving
from tests.waiting import LONG_S

KEY = "sk-test-" + "0123456789abcdefXYZ"
USAGE = {"prompt_tokens": 40, "completion_tokens": 2}
OVERFLOW = (
    "This model's maximum context length is 4096 tokens. However, your messages resulted in "
    "9000 tokens. Please reduce the length of the messages."
)
CALL = {"name": "read", "arguments": '{"path": "a.py"}'}

# One reply in each provider's chunks: "hel", "lo", then a call.
CHUNKS: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "hel"}}]},
        {"choices": [{"index": 0, "delta": {"content": "lo"}}]},
        {
            "choices": [
                {
                    "index": 0,
                    "delta": {
                        "tool_calls": [
                            {"index": 0, "id": "c1", "type": "function", "function": CALL}
                        ]
                    },
                }
            ]
        },
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": USAGE},
    ],
    "anthropic": [
        {
            "type": "message_start",
            "message": {"id": "m", "role": "assistant", "usage": {"input_tokens": 40}},
        },
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": "hel"},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "lo"},
        },
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "c1", "name": "read", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": CALL["arguments"]},
        },
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 2},
        },
        {"type": "message_stop"},
    ],
    "gemini": [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "hel"}]}}]},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "lo"}]}}]},
        {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [{"functionCall": {"name": "read", "args": {"path": "a.py"}}}],
                    },
                    "finishReason": "STOP",
                }
            ],
            "usageMetadata": {"promptTokenCount": 40, "candidatesTokenCount": 2},
        },
    ],
}
PATHS = {
    "openai": "/chat/completions",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
}
TOOL = {
    "type": "function",
    "function": {"name": "read", "parameters": {"type": "object", "properties": {}}},
}


def events(*chunks: dict[str, Any], end: str = "data: [DONE]\n\n") -> bytes:
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + end.encode()


def endpoint_at(server: Server, kind: str = "openai", **given: Any) -> ChatEndpoint:
    named = NamedModel(spec="x", kind=kind, url=server.url, name="m", **given)  # type: ignore[arg-type]
    return ChatEndpoint(named, idle_s=2.0)


def opened(**given: Any) -> refold.Context:
    context = refold.open("talk", store="memory:", system="be brief", tools=[TOOL], **given)
    context.append({"role": "user", "content": "hi"})
    return context


def talked(context: refold.Context, endpoint: ChatEndpoint) -> list[dict[str, Any]]:
    return list(context.stream(endpoint.stream(context.request(**endpoint.call))))


# --- the three formats ---


@pytest.mark.parametrize("kind", CHUNKS)
def test_a_reply_streams_and_is_recorded_with_its_call_and_its_usage(kind: str) -> None:
    context = opened(window=100_000)
    with serving(Play(events(*CHUNKS[kind]))) as server:
        chunks = talked(context, endpoint_at(server, kind))
    said = [piece for chunk in chunks for piece in pieces(chunk)]
    assert "".join(piece.text for piece in said if piece.kind == "text") == "hello"
    assert [piece.text for piece in said if piece.kind == "call"] == ["read"]
    [call] = refold.tool_calls(chunks)
    assert (call.name, call.arguments) == ("read", {"path": "a.py"})
    assert context.stats().billed.input == 40
    [(path, _, body)] = server.seen
    assert path == PATHS[kind]
    assert body.get("stream", True) is True
    assert (
        "hi" in json.dumps(body) and "be brief" in json.dumps(body) and "read" in json.dumps(body)
    )
    context.append_result(call.id, "text of a.py")
    assert context.request(endpoint_at(server, kind).call["dialect"])


def test_gemini_is_sent_what_its_rest_interface_takes() -> None:
    context = opened(window=100_000)
    with serving(Play(events(*CHUNKS["gemini"]))) as server:
        talked(context, endpoint_at(server, "gemini"))
    body = server.seen[0][2]
    assert body.keys() == {"contents", "systemInstruction", "tools"}


@pytest.mark.parametrize("kind", CHUNKS)
def test_the_length_of_a_reply_can_be_bounded(kind: str) -> None:
    context = opened(window=100_000)
    with serving(Play(events(*CHUNKS[kind]))) as server:
        named = NamedModel(spec="x", kind=kind, url=server.url, name="m")  # type: ignore[arg-type]
        talked(context, ChatEndpoint(named, reply_tokens_max=77))
    body = server.seen[0][2]
    assert body.get("max_tokens") == 77 or body["generationConfig"] == {"maxOutputTokens": 77}


def test_a_model_of_another_provider_behind_a_gateway_is_named_in_the_call() -> None:
    context = opened(model="anthropic/claude-haiku-4-5")
    with serving(Play(events(*CHUNKS["openai"]))) as server:
        endpoint = endpoint_at(server)
        assert context.request(**endpoint.call)["model"] == "m"
        talked(context, endpoint)


# --- what goes wrong ---


def test_a_stream_that_is_cut_off_is_recorded_as_such() -> None:
    context = opened(window=100_000)
    with serving(Play(events(*CHUNKS["openai"][:2], end=""), cut=0)) as server:
        talked(context, endpoint_at(server))
    assert context.view.slots[-1].message.metadata.get("cut_off") is True
    assert context.request("openai_chat")


def calling(kind: str, count: int, pieces_each: int, named_by: str) -> list[dict[str, Any]]:
    """The chunks of a reply with so many calls, each in several pieces where a provider has them."""
    chunks: list[dict[str, Any]] = []
    for number in range(count):
        if kind == "gemini":
            part = {"functionCall": {"name": "" if named_by == "id" else "read", "args": {}}}
            chunks.append({"candidates": [{"content": {"role": "model", "parts": [part]}}]})
            continue
        for piece in range(pieces_each):
            if kind == "openai":
                call: dict[str, Any] = {"function": {**CALL, "arguments": "x"}}
                call["index"] = number if named_by != "id" else 0
                if named_by != "index" and (piece == 0 or named_by == "id"):
                    call["id"] = f"c{number}"
                chunks.append({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
            elif piece == 0:
                block = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {}}
                begun = {"type": "content_block_start", "index": number, "content_block": block}
                chunks.append(begun)
            else:
                delta = {"type": "input_json_delta", "partial_json": "x"}
                chunks.append({"type": "content_block_delta", "index": number, "delta": delta})
    return chunks


@settings(max_examples=8)
@given(
    kind=st.sampled_from(["openai", "anthropic", "gemini"]),
    named_by=st.sampled_from(["id", "index", "both"]),
    pieces_each=st.integers(1, 3),
    more=st.integers(0, 50),
)
def test_the_calls_of_a_reply_are_bounded_and_not_its_pieces(
    kind: str, named_by: str, pieces_each: int, more: int
) -> None:
    chunks = calling(kind, CALLS_MAX + more, pieces_each, named_by)
    asked: dict[str, Any] = {"messages": [], "contents": []}
    with serving(Play(events(*chunks))) as server:
        reply = endpoint_at(server, kind).stream(asked)
        if not more:
            assert list(reply) == chunks
            return
        with pytest.raises(Unavailable, match="more than 1,000 tool calls"):
            list(reply)


def test_a_connection_that_breaks_keeps_what_came_and_says_so() -> None:
    context = opened(window=100_000)
    body = events(*CHUNKS["openai"][:2], end="")
    with serving(Play(body + b" " * 50, cut=40)) as server, pytest.raises(Unavailable) as caught:
        talked(context, endpoint_at(server))
    assert "ended early" in caught.value.message
    assert context.view.slots[-1].message.role == "assistant"


def test_a_refused_key_is_denied_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with serving(Play({"error": f"bad key {KEY}"}, 401)) as server:
        endpoint = endpoint_at(server, key_env="MY_KEY")
        with pytest.raises(Denied) as caught:
            talked(opened(), endpoint)
    assert KEY not in str(caught.value) and "MY_KEY" in str(caught.value)
    assert server.seen[0][1]["authorization"] == f"Bearer {KEY}"


def test_too_many_requests_say_when_to_come_back() -> None:
    slow = Play({"error": "slow down"}, 429, retry_after="7")
    with serving(slow) as server, pytest.raises(Unavailable) as caught:
        talked(opened(), endpoint_at(server))
    assert caught.value.retry_after_s == 7.0


@pytest.mark.parametrize(
    "play",
    [
        Play({"error": {"message": OVERFLOW, "code": "context_length_exceeded"}}, 400),
        Play(events({"error": {"message": OVERFLOW}})),
        Play(b"error: " + json.dumps({"error": {"message": OVERFLOW}}).encode() + b"\n\n"),
    ],
)
def test_a_page_that_is_too_long_for_the_provider_can_be_recovered(play: Play) -> None:
    context = opened(window=100_000)
    for n in range(40):
        context.append({"role": "assistant" if n % 2 else "user", "content": f"{n} " * 200})
    with serving(play, Play(events(*CHUNKS["openai"]))) as server:
        endpoint = endpoint_at(server)
        with pytest.raises(Refused) as caught:
            talked(context, endpoint)
        assert context.recover(caught.value)
        assert context.budget.window == 4096
        assert talked(context, endpoint)


@pytest.mark.parametrize(
    "body", [b"data: [1]\n\n", b"data: {\n\n", b"data: \xff\n\n", b"data: " + b"[" * 9000 + b"\n\n"]
)
def test_a_stream_of_something_else_is_unavailable(body: bytes) -> None:
    with serving(Play(body)) as server, pytest.raises(Unavailable):
        talked(opened(), endpoint_at(server))


def test_a_server_that_says_nothing_is_not_waited_for() -> None:
    with serving(Play(b"", delay_s=LONG_S)) as server:
        named = NamedModel(spec="x", kind="openai", url=server.url, name="m")
        with pytest.raises(Unavailable) as caught:
            talked(opened(), ChatEndpoint(named, idle_s=0.1))
    assert "no answer within" in caught.value.message


# --- server-sent events ---


@given(st.lists(st.dictionaries(st.text(), st.text(), max_size=3), max_size=5), st.data())
def test_events_are_the_same_wherever_the_bytes_are_cut(
    values: list[dict[str, str]], data: st.DataObject
) -> None:
    whole = events(*values)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    bounds = [0, *cuts, len(whole)]
    chunks = [whole[first:last] for first, last in pairwise(bounds)]
    assert list(objects(chunks)) == values


def test_events_may_have_names_comments_carriage_returns_and_several_lines() -> None:
    text = b': hi\r\nevent: message\r\ndata: {"a":\r\ndata: 1}\r\n\r\nid: 7\r\n\r\ndata: {"b": 2}'
    assert list(objects([text])) == [{"a": 1}, {"b": 2}]


def test_what_says_nothing_gives_no_pieces() -> None:
    odd: list[dict[str, Any]] = [
        {},
        {"choices": None},
        {"choices": [{"delta": 3}]},
        {"choices": [{"delta": {"content": None, "tool_calls": [{"function": None}, 4]}}]},
        {"candidates": [{"content": []}]},
        {"candidates": [{"content": {"parts": [{"functionCall": 1}]}}]},
        {"type": "content_block_delta", "delta": "x"},
        {"type": "content_block_start", "content_block": {"type": "tool_use", "name": 7}},
    ]
    assert [list(pieces(chunk)) for chunk in odd] == [[]] * len(odd)


# --- names ---


def test_every_provider_has_its_address_and_its_key() -> None:
    environ = {"OPENAI_API_KEY": "k", "OPENROUTER_API_KEY": "k", "GOOGLE_API_KEY": "k"}
    found = {name: model_named(f"{name}:m", environ) for name in PROVIDERS}
    assert {name: (one.kind, one.url, one.key_env) for name, one in found.items()} == {
        "openai": ("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        "anthropic": ("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
        "gemini": ("gemini", "https://generativelanguage.googleapis.com", "GOOGLE_API_KEY"),
        "openrouter": ("openai", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        "ollama": ("openai", "http://127.0.0.1:11434/v1", ""),
        "llamacpp": ("openai", "http://127.0.0.1:8080/v1", ""),
        "vllm": ("openai", "http://127.0.0.1:8000/v1", ""),
    }


@pytest.mark.parametrize(
    ("spec", "environ", "url", "key_env"),
    [
        ("openai:m", {"OPENAI_BASE_URL": "http://localhost:1/v1/"}, "http://localhost:1/v1", ""),
        (
            "openai:m",
            {"OPENAI_BASE_URL": "http://localhost:1/v1", "OPENAI_API_KEY": "k"},
            "http://localhost:1/v1",
            "OPENAI_API_KEY",
        ),
        ("ollama:m", {"OLLAMA_HOST": "0.0.0.0:99"}, "http://127.0.0.1:99/v1", ""),
        ("ollama:m", {"OLLAMA_HOST": "https://box/v1"}, "https://box/v1", ""),
        ("http://localhost:9/v1#m", {"OPENAI_API_KEY": "k"}, "http://localhost:9/v1", ""),
        ("https://evil.invalid/v1#m", {"OPENAI_API_KEY": "k"}, "https://evil.invalid/v1", ""),
        ("https://notopenai.com/v1#m", {"OPENAI_API_KEY": "k"}, "https://notopenai.com/v1", ""),
        (
            "https://api.groq.com/openai/v1#m",
            {"GROQ_API_KEY": "k", "OPENAI_API_KEY": "k"},
            "https://api.groq.com/openai/v1",
            "GROQ_API_KEY",
        ),
    ],
)
def test_a_key_goes_to_the_host_it_belongs_to(
    spec: str, environ: dict[str, str], url: str, key_env: str
) -> None:
    named = model_named(spec, environ)
    assert (named.url, named.key_env, named.name) == (url, key_env, "m")


def test_a_url_at_a_providers_own_host_speaks_its_format() -> None:
    assert model_named("https://api.anthropic.com#m", {}).kind == "anthropic"
    assert model_named("anthropic", {"ANTHROPIC_MODEL": "claude-x"}).name == "claude-x"


@pytest.mark.parametrize(
    "spec", ["", ":", "opnai:m", "openai:", "openai", "http://x", "ftp://x#m", "https://u:p@x#m"]
)
def test_what_names_no_model_is_refused_with_the_form(spec: str) -> None:
    with pytest.raises(Invalid) as caught:
        model_named(spec, {})
    assert caught.value.hint


@given(st.text(max_size=60))
def test_any_text_is_a_model_or_a_clear_refusal(spec: str) -> None:
    try:
        model_named(spec, {})
    except RefoldError as error:
        assert error.hint
