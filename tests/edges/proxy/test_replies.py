"""Answers that no later list repeats: the last of a session, and those of sessions of one call."""

from __future__ import annotations

import json
from typing import Any

import pytest

import refold
from refold.edges.proxy.savings import sums
from tests.edges.proxy.kit import MODEL, TOOLS, Running, answer, call, loop, user, with_proxy

JSON, STREAM = {"content-type": "application/json"}, {"content-type": "text/event-stream"}
FIRST = {"role": "user", "content": "What is the capital of France?"}
TEXT = "Paris."
USAGE = {"input_tokens": 60, "output_tokens": 2, "total_tokens": 62}
ITEM = {
    "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
    "content": [{"type": "output_text", "text": TEXT, "annotations": []}],
}  # fmt: skip
# Of each provider: the path, the request, the whole answer, its stream, what the client repeats.
CASES: dict[str, tuple[str, Any, Any, list[Any], list[Any]]] = {
    "anthropic": (
        "/anthropic/v1/messages",
        {"messages": [FIRST]},
        {"type": "message", "role": "assistant", "content": [{"type": "text", "text": TEXT}],
         "stop_reason": "end_turn", "usage": {"input_tokens": 60, "output_tokens": 2}},
        [
            {"type": "message_start", "message": {"type": "message", "role": "assistant",
             "content": [], "usage": {"input_tokens": 60, "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0,
             "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0,
             "delta": {"type": "text_delta", "text": "Par"}},
            {"type": "content_block_delta", "index": 0,
             "delta": {"type": "text_delta", "text": "is."}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"},
             "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        ],
        [answer(TEXT)],
    ),
    "chat": (
        "/openai/v1/chat/completions",
        {"messages": [FIRST]},
        {"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop",
         "message": {"role": "assistant", "content": TEXT, "refusal": None}}],
         "usage": {"prompt_tokens": 60, "completion_tokens": 2}},
        [
            {"object": "chat.completion.chunk", "choices": [{"index": 0,
             "delta": {"role": "assistant", "content": "Par"}, "finish_reason": None}]},
            {"object": "chat.completion.chunk", "choices": [{"index": 0,
             "delta": {"content": "is."}, "finish_reason": "stop"}]},
            {"object": "chat.completion.chunk", "choices": [],
             "usage": {"prompt_tokens": 60, "completion_tokens": 2}},
        ],
        [{"role": "assistant", "content": TEXT}],
    ),
    "responses": (
        "/openai/v1/responses",
        {"input": [FIRST]},
        {"object": "response", "status": "completed", "output": [ITEM], "usage": USAGE},
        [
            {"type": "response.created", "response": {"object": "response", "output": []}},
            {"type": "response.completed", "response": {"object": "response",
             "status": "completed", "output": [ITEM], "usage": USAGE}},
        ],
        [ITEM],
    ),
    "gemini": (
        "/gemini/v1beta/models/gemini-3-pro:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": FIRST["content"]}]}]},
        {"candidates": [{"finishReason": "STOP",
         "content": {"role": "model", "parts": [{"text": TEXT}]}}],
         "usageMetadata": {"promptTokenCount": 60, "candidatesTokenCount": 2}},
        [
            {"candidates": [{"content": {"role": "model", "parts": [{"text": "Par"}]}}]},
            {"candidates": [{"finishReason": "STOP",
             "content": {"role": "model", "parts": [{"text": "is."}]}}],
             "usageMetadata": {"promptTokenCount": 60, "candidatesTokenCount": 2}},
        ],
        [{"role": "model", "parts": [{"text": TEXT}]}],
    ),
}  # fmt: skip


def texts(view: Any) -> list[str]:
    return [getattr(block, "text", "") for slot in view.slots for block in slot.message.blocks]


def kinds(running: Running, id: str) -> list[str]:
    with refold.open(id, store=running.book.store, read_only=True) as context:
        return [event.kind for event in context.log.events()]


def events(objects: list[Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in objects)


@pytest.mark.parametrize("folds", [False, True])
@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_session_of_one_call_is_kept_with_its_answer_and_goes_on_as_the_same(
    name: str, is_stream: bool, folds: bool
) -> None:
    path, body, whole, stream, repeated = CASES[name]
    body = {"model": MODEL, "tools": TOOLS, **body}
    [key] = {"messages", "input", "contents"} & body.keys()
    said = events(stream) if is_stream else json.dumps(whole).encode()

    async def work(running: Running) -> Any:
        for more in ([], [*repeated, *body[key]]):
            running.provider.answers.append((200, STREAM if is_stream else JSON, said))
            await running.client.post(path, json={**body, key: [*body[key], *more]})
            await running.settled()
            if not more:
                [id] = running.kept()
                assert texts(running.view(id)) == [FIRST["content"], TEXT]
                [line] = sums(running.book.store)
                assert (line.calls, line.sent) == (1, 60)
        [id] = running.kept()
        running.book.close = lambda: None  # type: ignore[method-assign]
        for held in running.book._held.values():
            held.keep_reply()
        return texts(running.view(id)), kinds(running, id)

    words, happened = with_proxy(work, folds=folds)
    assert words == [FIRST["content"], TEXT] * 2
    assert "revert" not in happened and "restore" not in happened


def said(text: str, stop: str = "end_turn", *blocks: Any) -> tuple[int, dict[str, str], bytes]:
    content = [{"type": "text", "text": text}, *blocks]
    message = {"type": "message", "role": "assistant", "content": content, "stop_reason": stop}
    return 200, JSON, json.dumps(message).encode()


@pytest.mark.parametrize(
    ("fields", "stop", "first"),
    [
        ({"tools": []}, "end_turn", "Write a title."),
        ({}, "max_tokens", "hi"),
        ({}, "refusal", "hi"),
        ({}, "end_turn", "Warmup"),
        ({}, "end_turn", "quota"),
    ],
)
def test_titles_probes_and_answers_that_are_not_whole_begin_nothing(
    fields: dict[str, Any], stop: str, first: str
) -> None:
    async def work(running: Running) -> list[str]:
        running.provider.answers.append(said("Well.", stop))
        await running.messages([user(first)], **fields)
        return running.kept()

    assert with_proxy(work) == []


def test_an_answer_that_the_client_words_otherwise_is_amended_once() -> None:
    async def work(running: Running) -> tuple[list[str], list[str]]:
        talk = [user("a"), answer("b"), user("c")]
        for number in range(4):
            running.provider.answers.append(said(f"answer {number}"))
            await running.messages(talk)
            talk = [*talk, answer(f"ANSWER {number}"), user(f"next {number}")]
        [id] = running.kept()
        return texts(running.view(id)), kinds(running, id)

    words, happened = with_proxy(work)
    assert words == ["a", "b", "c", "ANSWER 0", "next 0", "ANSWER 1", "next 1", "ANSWER 2",
                     "next 2"]  # fmt: skip
    assert happened.count("revert") == 1


def test_an_answer_that_asks_for_a_tool_comes_with_what_the_tool_gave() -> None:
    async def work(running: Running) -> list[str]:
        use = call(9, path="x")["content"][0]
        running.provider.answers.append(said("I look.", "tool_use", use))
        await running.messages(loop(2, chars=40))
        [id] = running.kept()
        return texts(running.view(id))

    assert "I look." not in with_proxy(work)


def test_two_sessions_with_the_same_words_and_answer_rewrite_nothing() -> None:
    async def work(running: Running) -> list[list[str]]:
        for more in ([], [answer("Hello."), user("One.")], []):
            running.provider.answers.append(said("Hello."))
            await running.messages([user("hi"), *more])
        return [texts(running.view(id)) for id in running.kept()]

    assert with_proxy(work) == [["hi", "Hello.", "One.", "Hello."]]
