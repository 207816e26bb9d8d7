"""Folding: what is swapped, what stays as it came, and that the front never changes unnoticed."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.edges.proxy.body import MARK
from refold.edges.proxy.savings import NOTE
from tests.edges.proxy.kit import (
    MODEL,
    TOOLS,
    Provider,
    Running,
    answer,
    call,
    loop,
    result,
    user,
    with_proxy,
)

WINDOW = 20_000
LARGE = {"offload_tokens": 7_500}
OVERFLOW = json.dumps(
    {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "prompt is too long: 208310 tokens > 200000 maximum",
        },
    }
).encode()


def bodies_of(turns: range, provider: Provider, **given: Any) -> list[Any]:
    """What went upstream while a tool loop grew."""

    async def work(running: Running) -> None:
        for number in turns:
            answered = await running.messages(loop(number), system="Be brief.", **given)
            assert answered.status_code == 200

    with_proxy(work, folds=True, window=WINDOW, provider=provider)
    return [json.loads(body) for body in provider.bodies]


def raw_messages(body: bytes) -> bytes:
    """The list of messages as it stands in a body that the proxy wrote, which has it last."""
    return body[body.index(b'"messages":[') + 12 : -2]


def test_the_clients_own_bytes_go_upstream_until_an_edit_is_on_the_page() -> None:
    async def work(running: Running) -> list[bytes]:
        sent = []
        for number in range(1, 6):
            body = b'{"model" : "%s", "messages": %s }' % (
                MODEL.encode(),
                json.dumps(loop(number)).encode(),
            )
            sent.append(body)
            await running.client.post("/v1/messages", content=body)
        return sent

    provider = Provider()
    assert with_proxy(work, folds=True, provider=provider) == provider.bodies


def test_after_an_edit_only_the_list_is_swapped() -> None:
    provider = Provider()
    extra = {"metadata": {"user_id": "u"}, "thinking": {"type": "enabled"}, "x_new": [1.0, 2]}
    sent = bodies_of(range(1, 60, 2), provider, **extra)
    assert len(sent[-1]["messages"]) < 60
    for body in sent:
        rest = {key: value for key, value in body.items() if key != "messages"}
        expected = {"model": MODEL, "max_tokens": 100, "tools": TOOLS, "system": "Be brief."}
        assert rest == {**expected, **extra}
    assert b'"x_new":[1.0,2]' in provider.bodies[-1]


def test_the_front_of_a_folded_page_is_equal_to_the_byte_until_the_next_compaction() -> None:
    provider = Provider()
    bodies_of(range(1, 90), provider)
    lists = [raw_messages(body) for body in provider.bodies]
    breaks = sum(not now.startswith(before) for before, now in pairwise(lists))
    assert 1 <= breaks <= 6
    assert max(map(len, lists)) < 20_000 * 5


def test_a_large_result_is_shrunk_before_it_is_sent_for_the_first_time() -> None:
    large = "".join(f"line {number} of a long output\n" for number in range(4_000))

    async def work(running: Running) -> None:
        messages = loop(1)
        await running.messages(messages)
        for number in (7, 8):
            messages = [*messages, call(number, path="big.log"), result(number, large)]
            await running.messages(messages)

    provider = Provider()
    with_proxy(work, folds=True, window=60_000, provider=provider, config=LARGE)
    lists = [raw_messages(body) for body in provider.bodies[1:]]
    assert all(len(one) < 30_000 for one in lists)
    assert lists[1].startswith(lists[0])
    assert "art-" in str(provider.last["messages"][4])


def test_what_was_sent_large_by_others_stays_as_it_was_sent() -> None:
    large = "".join(f"line {number} of a long output\n" for number in range(4_000))

    async def work(running: Running) -> None:
        messages = [*loop(1), call(7, path="big.log"), result(7, large)]
        await running.messages([*messages, answer("I see."), user("And now?")])

    provider = Provider()
    with_proxy(work, folds=True, window=150_000, provider=provider, config=LARGE)
    assert large in provider.bodies[0].decode().encode().decode("unicode_escape")


# --- cache marks ---


def marked(messages: list[Any], *places: int) -> list[Any]:
    """The list with a cache mark on the last block of these messages."""
    copied = json.loads(json.dumps(messages))
    for place in places:
        content = copied[place]["content"]
        if isinstance(content, str):
            content = copied[place]["content"] = [{"type": "text", "text": content}]
        content[-1][MARK] = {"type": "ephemeral", "ttl": "1h"}
    return copied


def marks_in(body: Any) -> list[int]:
    """Counted from the end, the messages that carry a mark."""
    messages = body["messages"]
    return [at - len(messages) for at, one in enumerate(messages) if MARK in json.dumps(one)]


def test_the_clients_cache_marks_stay_where_it_sets_them_and_never_add_up() -> None:
    async def work(running: Running) -> None:
        for number in range(1, 60):
            await running.messages(marked(loop(number), -1, -3 if number > 1 else -1))

    provider = Provider()
    with_proxy(work, folds=True, window=WINDOW, provider=provider)
    folded = [body for body in map(json.loads, provider.bodies) if len(body["messages"]) > 4]
    assert all(marks_in(body) == [-3, -1] for body in folded)


def test_thinking_is_never_marked() -> None:
    thought = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "", "signature": "s"}],
    }

    async def work(running: Running) -> None:
        await running.messages(loop(58))
        await running.messages([*loop(59), thought, *marked([user("x")], 0)])

    provider = Provider()
    with_proxy(work, folds=True, window=WINDOW, provider=provider)
    for message in provider.last["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else []:
            assert block["type"] != "thinking" or MARK not in block


# --- thinking ---


def thinking_loop(turns: int, chars: int = 2_000) -> list[Any]:
    """The same loop, with signed thinking before each call."""
    messages = loop(turns, chars)
    for number in range(turns):
        block = {"type": "thinking", "thinking": f"hm {number}", "signature": f"sig{number}"}
        messages[1 + 2 * number]["content"].insert(0, block)
    return messages


def signatures(body: Any) -> list[str]:
    return [
        block["signature"]
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "thinking"
    ]


class Binding(Provider):
    """Knows under which front each thinking was thought, and counts what comes under another."""

    def __init__(self) -> None:
        super().__init__()
        self.thought_under: dict[str, Any] = {}
        self.misplaced: list[str] = []
        self.turn = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await super().__call__(scope, receive, send)
        body = self.last
        for at, message in enumerate(body["messages"]):
            for block in message["content"] if isinstance(message["content"], list) else []:
                if block["type"] == "thinking":
                    front = _unmarked(body["messages"][:at])
                    if self.thought_under.get(block["signature"]) != front:
                        self.misplaced.append(block["signature"])
        self.thought_under[f"sig{self.turn}"] = _unmarked(body["messages"])


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unmarked(one) for key, one in value.items() if key != MARK}
    return [_unmarked(one) for one in value] if isinstance(value, list) else value


def reminded(messages: list[Any]) -> list[Any]:
    """The list with a system message inside after every fifth result, and two user messages in a
    row: shapes that no other provider has."""
    out: list[Any] = []
    for at, message in enumerate(messages):
        out.append(message)
        if at % 10 == 4:
            out.append({"role": "system", "content": f"Reminder {at}."})
        if at % 10 == 8:
            out.append(user(f"Also look at {at}."))
    return out


@pytest.mark.parametrize("shape", [list, reminded])
@pytest.mark.parametrize("chars", [2_000, 9_000])
def test_thinking_is_never_sent_under_another_front_than_it_was_thought_under(
    shape: Any, chars: int
) -> None:
    async def work(running: Running) -> None:
        for number in range(60):
            provider.turn = number
            await running.messages(shape(thinking_loop(number, chars)))

    provider = Binding()
    with_proxy(work, folds=True, window=WINDOW, provider=provider)
    assert provider.misplaced == []
    assert signatures(provider.last), "not all thinking is dropped"


@settings(max_examples=15, deadline=None)
@given(
    direct=st.lists(st.booleans(), min_size=30, max_size=45),
    restarts=st.sets(st.integers(0, 44), max_size=3),
)
def test_an_agent_that_calls_past_the_proxy_for_a_while_has_its_thinking_left_out(
    direct: list[bool], restarts: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    provider = Binding()
    store = f"sqlite:{tmp_path_factory.mktemp('proxy')}/x.db"
    turns = list(enumerate(direct))
    while turns:
        cut = next((at for at, (n, _) in enumerate(turns) if at and n in restarts), len(turns))
        part, turns = turns[:cut], turns[cut:]

        async def work(running: Running, part: list[tuple[int, bool]] = part) -> None:
            for number, is_direct in part:
                provider.turn = number
                messages = thinking_loop(number)
                if is_direct:
                    provider.thought_under[f"sig{number}"] = _unmarked(messages)
                else:
                    await running.messages(messages)

        with_proxy(work, folds=True, window=12_000, provider=provider, store=store)
    assert provider.misplaced == []


STREAMED = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 9_000, "output_tokens": 1}}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]


def copied_at_the_end(running: Running, store: Path, copy: Path) -> None:
    """Has the store copied once the client has the end of an answer: what a proxy leaves behind
    that is killed there."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.body" and not message["more_body"]:
                shutil.copytree(store, copy, dirs_exist_ok=True)
            await send(message)

        await running.proxy(scope, receive, sending)

    running.client = httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8743"
    )


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_proxy_that_is_killed_right_after_an_answer_drops_no_thinking(
    is_stream: bool, tmp_path: Path
) -> None:
    store, copy = tmp_path / "store", tmp_path / "copy"
    store.mkdir()
    provider = Binding()

    async def until_killed(running: Running) -> None:
        copied_at_the_end(running, store, copy)
        for number in range(30):
            provider.turn = number
            if is_stream:
                said = "".join(f"data: {json.dumps(one)}\n\n" for one in STREAMED)
                headers = {"content-type": "text/event-stream"}
                provider.answers.append((200, headers, said.encode()))
            await running.messages(thinking_loop(number))

    async def afterwards(running: Running) -> list[str]:
        provider.turn = 30
        await running.messages(thinking_loop(30))
        [id] = running.kept()
        with refold.open(id, store=running.book.store, read_only=True) as context:
            return [event.kind for event in context.log.events()]

    with_proxy(
        until_killed, folds=True, window=WINDOW, provider=provider, store=f"sqlite:{store}/x.db"
    )
    before = signatures(provider.last)
    kinds = with_proxy(
        afterwards, folds=True, window=WINDOW, provider=provider, store=f"sqlite:{copy}/x.db"
    )
    assert provider.misplaced == [] and "restore" not in kinds
    assert before and signatures(provider.last) == [*before, "sig29"]


def item_loop(turns: int) -> list[Any]:
    """A loop over OpenAI's responses: reasoning, a message and a call, each with its id."""
    items: list[Any] = [{"role": "user", "content": "Find out why the login fails."}]
    for number in range(turns):
        text = {"type": "output_text", "text": f"I look at {number}.", "annotations": []}
        items += [
            {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "x"},
            {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [text]},
            {
                "type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}",
                "name": "read", "arguments": "{}",
            },
            {
                "type": "function_call_output", "call_id": f"call_{number}",
                "output": f"line {number} of the file\n" * 80,
            },
        ]  # fmt: skip
    return items


def test_an_item_of_openai_never_goes_without_the_reasoning_that_it_names() -> None:
    async def work(running: Running) -> None:
        for number in range(1, 60):
            body = {"model": "gpt-5.5", "store": False, "input": item_loop(number)}
            await running.client.post("/openai/v1/responses", json=body)
            await running.settled()

    provider = Provider()
    with_proxy(work, folds=True, window=WINDOW, provider=provider)
    assert len(provider.last["input"]) < 120
    for body in map(json.loads, provider.bodies):
        ids = {one.get("id") for one in body["input"]}
        for number in range(60):
            assert f"msg_{number}" not in ids or f"rs_{number}" in ids


# --- the edges ---


def test_an_overflow_is_recovered_once() -> None:
    async def work(running: Running) -> int:
        await running.messages(loop(30))
        running.provider.answers.append((400, {"content-type": "application/json"}, OVERFLOW))
        return (await running.messages(loop(31))).status_code

    provider = Provider()
    assert with_proxy(work, folds=True, provider=provider) == 200
    assert len(provider.bodies) == 3
    assert len(provider.bodies[2]) < 0.8 * len(provider.bodies[1])


def test_an_overflow_that_stays_is_passed_on_as_it_is() -> None:
    async def work(running: Running) -> Any:
        await running.messages(loop(30))
        running.provider.answers += [(400, {"x-request-id": "r"}, OVERFLOW)] * 2
        return await running.messages(loop(31))

    answered = with_proxy(work, folds=True)
    assert (answered.status_code, answered.content) == (400, OVERFLOW)
    assert answered.headers["x-request-id"] == "r"


def test_observing_recovers_nothing() -> None:
    async def work(running: Running) -> Any:
        running.provider.answers.append((400, {}, OVERFLOW))
        return await running.messages(loop(31))

    provider = Provider()
    answered = with_proxy(work, provider=provider)
    assert (answered.status_code, answered.content) == (400, OVERFLOW)
    assert len(provider.bodies) == 1


def test_a_conversation_that_was_folded_goes_on_folded_without_the_option(tmp_path: Any) -> None:
    async def work(running: Running) -> None:
        for number in (40, 41):
            await running.messages(loop(number))

    provider, store = Provider(), f"sqlite:{tmp_path}/x.db"
    with_proxy(work, folds=True, window=WINDOW, provider=provider, store=store)

    async def again(running: Running) -> None:
        await running.messages(loop(42))

    with_proxy(again, window=WINDOW, provider=provider, store=store)
    assert len(provider.last["messages"]) < 60
    lists = [raw_messages(body) for body in provider.bodies]
    assert lists[2].startswith(lists[1])


def test_what_is_only_about_a_conversation_gets_its_page_and_is_not_kept() -> None:
    async def work(running: Running) -> tuple[int, int]:
        for number in (40, 41):
            await running.messages(loop(number))
        before = running.view(running.kept()[0]).head
        await running.messages([*loop(41), answer("a"), user("Summarize this.")], tools=[])
        body = {"model": MODEL, "tools": TOOLS, "messages": [*loop(41), answer("a"), user("b")]}
        await running.client.post("/v1/messages/count_tokens", json=body)
        return before, running.view(running.kept()[0]).head

    provider = Provider()
    before, after = with_proxy(work, folds=True, window=WINDOW, provider=provider)
    assert before == after
    lists = [raw_messages(body) for body in provider.bodies]
    assert lists[2].startswith(lists[1]) and lists[3].startswith(lists[1])


NATIVE = [
    ({"context_management": {"edits": [{"type": "compact_20260112"}]}}, True),
    ({"context_management": [{"type": "compaction", "compact_threshold": 9}]}, True),
    ({"compaction": {"type": "summarize"}}, True),
    ({"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}}, False),
    ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, False),
    ({"context_management": None}, False),
]


@pytest.mark.parametrize(("fields", "is_native"), NATIVE)
def test_only_a_request_for_the_providers_own_compaction_is_not_folded(
    fields: dict[str, Any], is_native: bool
) -> None:
    async def work(running: Running) -> None:
        for number in (59, 60):
            await running.messages(loop(number), **fields)

    provider = Provider()
    with_proxy(work, folds=True, window=WINDOW, provider=provider)
    assert (provider.last["messages"] == loop(60)) is is_native


def test_a_compaction_is_undone_like_any_other() -> None:
    async def work(running: Running) -> tuple[int, int]:
        for number in (30, 40):
            await running.messages(loop(number))
        [id] = running.kept()
        with refold.open(id, store=running.book.store) as context:
            folded = len(context.view.slots)
            assert context.undo()
            return folded, len(context.view.slots)

    folded, whole = with_proxy(work, folds=True, window=WINDOW)
    assert folded < 60 and whole >= folded


def test_the_lines_of_folded_calls_say_what_was_saved() -> None:
    async def work(running: Running) -> list[dict[str, Any]]:
        for number in range(30, 50):
            await running.messages(loop(number))
        with refold.open(running.kept()[0], store=running.book.store, read_only=True) as context:
            return [note.data for note in context.log.notes(NOTE)]

    lines = with_proxy(work, folds=True, window=WINDOW)
    assert lines[-1]["folded"] and lines[-1]["saved"] > 0
    assert lines[-1]["text"].startswith(f"in {lines[-1]['input']:,}, sent ")
    assert lines[-1]["input"] == lines[-1]["sent"] + lines[-1]["saved"]
    # This provider has no cache, and the other way is reckoned with one.
    assert all(isinstance(line["saved_cost"], float) for line in lines)


# --- roles ---


@pytest.mark.parametrize("turns", [60, 90])
def test_a_list_that_takes_turns_is_folded_to_one_that_does(turns: int) -> None:
    async def work(running: Running) -> None:
        for number in range(turns - 10, turns):
            await running.messages(loop(number))
            contents = [{"role": "user", "parts": [{"text": "Look."}]}]
            for at in range(number):
                text = f"line {at} of the file\n" * 90
                contents += [
                    {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]},
                    {"role": "user", "parts": [{"functionResponse": {
                        "name": "read", "response": {"output": text}}}]},
                ]  # fmt: skip
            path = "/gemini/v1beta/models/gemini-3-pro:generateContent"
            await running.client.post(path, json={"contents": contents})

    provider = Provider()
    with_proxy(work, folds=True, window=WINDOW, provider=provider)
    for body in map(json.loads, provider.bodies[-2:]):
        wires = body.get("messages") or body["contents"]
        roles = [one["role"] for one in wires]
        assert len(roles) < 2 * turns - 1, "it was folded"
        assert all(one != other for one, other in pairwise(roles))


def test_what_the_client_says_as_system_stays_so_behind_the_user() -> None:
    async def work(running: Running) -> None:
        for number in range(30, 50):
            await running.messages(reminded(loop(number)))

    provider = Provider()
    with_proxy(work, folds=True, window=WINDOW, provider=provider)
    wires = provider.last["messages"]
    places = [at for at, one in enumerate(wires) if one["role"] == "system"]
    assert places and all(wires[at - 1]["role"] == "user" for at in places)
    for at, one in enumerate(wires):
        if "Reminder" in str(one["content"])[:20] and at and wires[at - 1]["role"] == "user":
            assert one["role"] == "system"


@pytest.mark.parametrize("is_last", [True, False])
def test_a_page_that_was_cleared_before_an_answer_came_back_begins_with_the_user(
    is_last: bool,
) -> None:
    """The answer is the first on the page then: what is put in before it has its seq."""

    async def work(running: Running) -> None:
        await running.messages(loop(5))
        with refold.open(running.kept()[0], store=running.book.store) as context:
            context.clear()
        more = [answer("Done."), user("And now?")] if is_last else loop(6)[-2:]
        await running.messages([*loop(5), *more])

    provider = Provider()
    with_proxy(work, folds=True, provider=provider)
    first, *rest = provider.last["messages"]
    assert first["role"] == "user" and "goes on" in str(first["content"])
    assert [one["role"] for one in rest] == ["assistant", "user"]


def test_a_result_that_was_put_in_is_not_taken_for_the_call_that_lacks_it() -> None:
    half = {"role": "assistant", "content": [*call(90)["content"], *call(91)["content"]]}

    async def work(running: Running) -> None:
        await running.messages(loop(30))
        more = [half, result(91, "it"), answer("Half."), user("Go on.")]
        await running.messages([*loop(30), *more])

    provider = Provider()
    with_proxy(work, folds=True, window=WINDOW, provider=provider)
    wires = provider.last["messages"]
    assert len(wires) < 61, "it was folded"
    assert [one["role"] for one in wires[-5:]] == ["user", "assistant", "user", "assistant", "user"]
    ids = [one["tool_use_id"] for one in wires[-3]["content"]]
    assert ids == ["toolu_90", "toolu_91"]
