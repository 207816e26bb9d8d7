"""Our own tools inside the proxy: from the first call on or never, bounded, and never in the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from refold.edges.proxy import savings
from refold.edges.proxy.own_tools import tools
from refold.edges.proxy.upstream import Answer, Limits, Refused, Upstream
from tests.edges.proxy.kit import (
    MODEL,
    TOOLS,
    Message,
    Provider,
    Running,
    call,
    result,
    user,
    with_proxy,
)
from tests.real.proxy.strict.anthropic_stream import events_of

JSON = {"content-type": "application/json"}
OWN = {"refold_search", "refold_unfold", "refold_grep", "refold_artifacts"}


def reply(*content: Message, **fields: Any) -> tuple[int, dict[str, str], bytes]:
    calls = any(one["type"] == "tool_use" for one in content)
    said = {
        "id": "msg", "type": "message", "role": "assistant", "model": MODEL, "content": content,
        "stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5}, **fields,
    }  # fmt: skip
    return 200, JSON, json.dumps(said).encode()


def text(said: str) -> Message:
    return {"type": "text", "text": said}


def own(id: str, name: str = "refold_search", **given: Any) -> Message:
    return {"type": "tool_use", "id": id, "name": name, "input": given or {"query": "login"}}


def theirs(id: str) -> Message:
    return {"type": "tool_use", "id": id, "name": "read", "input": {"path": "a.py"}}


def failure(status: int, message: str = "no") -> tuple[int, dict[str, str], bytes]:
    error = {"type": "error", "error": {"type": "api_error", "message": message}}
    return status, JSON, json.dumps(error).encode()


def names(body: Any) -> set[str]:
    return {one["name"] for one in body["tools"]}


def played(*answers: Any) -> Provider:
    provider = Provider()
    provider.answers = list(answers)
    return provider


BEGIN = [user("Find out why the login fails.")]


# --- when they are there ---


def test_without_the_option_nothing_is_added() -> None:
    async def work(running: Running) -> None:
        await running.messages(BEGIN)

    provider = Provider()
    with_proxy(work, folds=True, provider=provider)
    assert names(provider.last) == {"read"}


def test_a_conversation_has_them_from_its_first_call_on_also_without_the_option_later(
    tmp_path: Path,
) -> None:
    store, provider = f"sqlite:{tmp_path}/a.db", played(reply(theirs("t1")))
    later = [*BEGIN, {"role": "assistant", "content": [theirs("t1")]}, result(1, "x")]
    later[-1]["content"][0]["tool_use_id"] = "t1"

    async def first(running: Running) -> None:
        await running.messages(BEGIN)

    async def second(running: Running) -> None:
        await running.messages(later)

    with_proxy(first, tools=True, store=store, provider=provider)
    with_proxy(second, folds=True, store=store, provider=provider)
    assert [names(json.loads(body)) for body in provider.bodies] == [OWN | {"read"}] * 2
    before, now = (json.loads(body)["tools"] for body in provider.bodies)
    assert before == now and before[0] == TOOLS[0]


def test_they_stay_as_the_conversation_began_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, provider = f"sqlite:{tmp_path}/a.db", played(reply(text("It is a.py.")))

    async def first(running: Running) -> None:
        await running.messages(BEGIN)

    async def second(running: Running) -> None:
        said = {"role": "assistant", "content": [text("It is a.py.")]}
        await running.messages([*BEGIN, said, user("Go on.")])

    with_proxy(first, tools=True, store=store, provider=provider)
    monkeypatch.setattr(tools, "definitions", lambda _: '{"name":"refold_search","new":1}')
    with_proxy(second, tools=True, store=store, provider=provider)
    before, now = (json.loads(body)["tools"] for body in provider.bodies)
    assert before == now


def test_a_conversation_that_began_without_them_goes_on_without_them(tmp_path: Path) -> None:
    store, provider = f"sqlite:{tmp_path}/a.db", Provider()
    talk = [*BEGIN, call(1, path="a"), result(1, "x")]

    async def work(running: Running) -> None:
        await running.messages(talk)

    with_proxy(work, tools=True, store=store, provider=provider)
    assert names(provider.last) == {"read"}


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [*TOOLS, {"name": "refold_unfold", "input_schema": {"type": "object"}}]},
        {"tools": []},
        {"n": 2},
    ],
)
def test_nothing_is_added_where_it_could_be_mistaken(fields: dict[str, Any]) -> None:
    async def work(running: Running) -> None:
        await running.messages(BEGIN, **fields)

    provider = Provider()
    with_proxy(work, tools=True, provider=provider)
    assert provider.last["tools"] == fields.get("tools", TOOLS)


GEMINI = "/gemini/v1beta/models/gemini-3-pro:generateContent"
WORDS = {"role": "user", "parts": [{"text": "Find out why the login fails."}]}


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"googleSearch": {}}]},
        {"tools": [{"functionDeclarations": [{"name": "refold_grep"}]}]},
        {
            "tools": [{"functionDeclarations": [{"name": "read"}]}],
            "generationConfig": {"candidateCount": 2},
        },
    ],
)
def test_gemini_has_none_where_they_cannot_be_added(fields: Any) -> None:
    body = {"contents": [WORDS], **fields}

    async def work(running: Running) -> None:
        await running.client.post(GEMINI, json=body)

    provider = Provider()
    with_proxy(work, tools=True, provider=provider)
    assert provider.last == body


def gemini_reply(*parts: Message) -> tuple[int, dict[str, str], bytes]:
    content = {"role": "model", "parts": list(parts)}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5}
    said = {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}
    return 200, JSON, json.dumps(said).encode()


@pytest.mark.parametrize("key", ["functionDeclarations", "function_declarations"])
@pytest.mark.parametrize("is_list", [False, True])
def test_gemini_calls_of_ours_are_answered_inside(key: str, is_list: bool) -> None:
    """Also in a stream that is a list, and beside tools of the provider's own."""
    theirs = [{"googleSearch": {}}, {key: [{"name": "read"}], "note": [1.0]}]
    search_call = {"name": "refold_search", "args": {"query": "login"}}
    own_call = {"functionCall": search_call, "thoughtSignature": "ZGVm"}
    read = {"functionCall": {"name": "read", "args": {}}, "thoughtSignature": "YWJj"}
    answers = [gemini_reply({"text": "I look."}, own_call), gemini_reply({"text": "So."}, read)]
    if is_list:
        answers = [(status, kind, b"[" + said + b"]") for status, kind, said in answers]

    async def work(running: Running) -> Any:
        answered = await running.client.post(GEMINI, json={"contents": [WORDS], "tools": theirs})
        [whole] = answered.json() if is_list else [answered.json()]
        said = whole["candidates"][0]["content"]
        given = {"functionResponse": {"name": "read", "response": {"output": "x"}}}
        more = [WORDS, said, {"role": "user", "parts": [given]}]
        await running.client.post(GEMINI, json={"contents": more, "tools": theirs})
        return whole

    provider = played(*answers, gemini_reply({"text": "Done."}))
    whole = with_proxy(work, tools=True, provider=provider)
    assert whole["candidates"][0]["content"]["parts"] == [{"text": "I look.\n\nSo."}, read]
    assert whole["usageMetadata"] == {"promptTokenCount": 20, "candidatesTokenCount": 10}
    first, second, third = map(json.loads, provider.bodies)
    assert first["tools"] == second["tools"] == third["tools"]
    search, functions = first["tools"]
    assert search == theirs[0] and functions["note"] == [1.0]
    assert {one["name"] for one in functions[key]} == OWN | {"read"}
    result_part = second["contents"][-1]["parts"][0]["functionResponse"]
    assert result_part["name"] == "refold_search" and "id" not in result_part
    assert third["contents"][: len(second["contents"])] == second["contents"]
    assert third["contents"][3]["parts"] == [{"text": "So."}, read]


# --- what the client sees, and what the log has ---


def test_the_client_sees_one_answer_and_the_provider_what_was_said() -> None:
    provider = played(
        reply(text("I look."), own("o1"), own("o2", "refold_artifacts", limit=3)),
        reply(text("Found."), theirs("t1")),
    )

    async def work(running: Running) -> Any:
        got = (await running.messages(BEGIN)).json()
        said = {"role": "assistant", "content": got["content"]}
        given = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}
        await running.messages([*BEGIN, said, {"role": "user", "content": [given]}])
        [id] = running.kept()
        return got, running.view(id)

    got, view = with_proxy(work, tools=True, provider=provider)
    assert got["content"] == [text("I look."), text("Found."), theirs("t1")]
    assert got["stop_reason"] == "tool_use"
    assert got["usage"] == {"input_tokens": 20, "output_tokens": 10}
    first, second, third = (json.loads(body)["messages"] for body in provider.bodies)
    assert second[: len(first)] == first and third[: len(second)] == second
    assert [one["tool_use_id"] for one in second[-1]["content"]] == ["o1", "o2"]
    assert third[len(second)]["content"] == [text("Found."), theirs("t1")]
    assert len(view.slots) >= 5


def test_calls_beside_the_clients_are_answered_with_them() -> None:
    provider = played(reply(own("o1"), theirs("t1"), text("Both.")))

    async def work(running: Running) -> Any:
        got = (await running.messages(BEGIN)).json()
        said = {"role": "assistant", "content": got["content"]}
        given = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}
        await running.messages([*BEGIN, said, {"role": "user", "content": [given]}])
        return got

    got = with_proxy(work, tools=True, provider=provider)
    assert got["content"] == [theirs("t1"), text("Both.")]
    assert len(provider.bodies) == 2
    *_, calls, results = provider.last["messages"]
    assert calls["content"] == [own("o1"), theirs("t1"), text("Both.")]
    assert sorted(one["tool_use_id"] for one in results["content"]) == ["o1", "t1"]


def test_after_so_many_rounds_they_say_that_it_is_enough() -> None:
    provider = played(*(reply(own(f"o{number}")) for number in range(9)))

    async def work(running: Running) -> Any:
        got = (await running.messages(BEGIN)).json()
        await running.messages([*BEGIN, {"role": "assistant", "content": "…"}, user("Go on.")])
        return got

    got = with_proxy(work, tools=True, provider=provider, limits=Limits(rounds=3))
    assert got["content"] == [text(tools.SILENT)] and got["stop_reason"] == "end_turn"
    bodies = [json.loads(body)["messages"] for body in provider.bodies]
    assert len(bodies) == 5
    assert bodies[3][-1]["content"][0]["content"] == tools.ENOUGH


# --- when something fails ---


@pytest.mark.parametrize("status", [401, 429, 500, 529])
def test_an_error_of_a_later_round_is_the_clients(status: int) -> None:
    provider = played(reply(own("o1")), failure(status))

    async def work(running: Running) -> Any:
        return await running.messages(BEGIN)

    got = with_proxy(work, tools=True, provider=provider)
    assert got.status_code == status
    assert got.json()["error"]["type"] == "api_error"


def streamed(answer: tuple[int, dict[str, str], bytes]) -> tuple[int, dict[str, str], bytes]:
    """The same answer as a stream."""
    status, _, body = answer
    events = [json.dumps(one) for one in events_of(json.loads(body))]
    raw = "".join(f"event: {json.loads(one)['type']}\ndata: {one}\n\n" for one in events)
    return status, {"content-type": "text/event-stream"}, raw.encode()


def events_in(raw: str) -> list[Any]:
    return [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: ")]


@pytest.mark.parametrize("is_away", [False, True])
def test_an_error_in_a_stream_that_has_begun_is_an_event_of_it(
    is_away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = played(streamed(reply(text("I look."), own("o1"))), failure(529))
    send = Upstream.send

    async def away(upstream: Upstream, *given: Any) -> Answer:
        if is_away and provider.bodies:
            raise Refused("upstream", "gone")
        return await send(upstream, *given)

    async def work(running: Running) -> httpx.Response:
        return await running.messages(BEGIN, stream=True)

    monkeypatch.setattr(Upstream, "send", away)
    got = with_proxy(work, tools=True, provider=provider)
    assert got.status_code == 200
    *begun, error = events_in(got.text)
    assert [one["type"] for one in begun].count("message_start") == 1
    assert "message_stop" not in [one["type"] for one in begun]
    expected = "refold_upstream" if is_away else "api_error"
    assert (error["type"], error["error"]["type"]) == ("error", expected)


def test_a_count_has_what_was_said_inside() -> None:
    provider = played(reply(own("o1")), reply(text("Found.")))

    async def work(running: Running) -> None:
        await running.messages(BEGIN)
        first = {"role": "assistant", "content": [text("Found.")]}
        talk = [*BEGIN, first, user("Go on.")]
        await running.messages(talk)
        body = {"model": MODEL, "tools": TOOLS, "messages": [*talk, user("And?")]}
        await running.client.post("/anthropic/v1/messages/count_tokens", json=body)

    with_proxy(work, tools=True, provider=provider)
    assert names(provider.last) == OWN | {"read"}
    said = json.dumps(provider.last["messages"])
    assert "o1" in said and "And?" in said


def test_a_list_with_something_inside_is_not_the_clients_for_a_compaction_of_the_providers() -> (
    None
):
    provider = played(reply(own("o1")), reply(text("Found.")))
    edits = {"edits": [{"type": "compact_20260112"}]}

    async def work(running: Running) -> None:
        await running.messages(BEGIN)
        first = {"role": "assistant", "content": [text("Found.")]}
        await running.messages([*BEGIN, first, user("Go on.")], context_management=edits)

    with_proxy(work, tools=True, provider=provider)
    assert "o1" in json.dumps(provider.last["messages"])
    assert provider.last["context_management"] == edits


def test_a_request_of_ours_that_is_not_taken_goes_up_once_more_with_less_in_it() -> None:
    provider = played(reply(own("o1")), failure(400, "too long"), reply(text("Well.")))

    async def work(running: Running) -> Any:
        return (await running.messages(BEGIN)).json()

    got = with_proxy(work, tools=True, provider=provider)
    assert got["content"] == [text("Well.")]
    assert provider.last["messages"][-1]["content"][0]["content"] == tools.FAILED


def test_a_tool_that_cannot_answer_says_so_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> list[str]:
        raise RuntimeError("broken")

    monkeypatch.setattr(tools, "answers_of_nothing", broken)
    provider = played(reply(own("o1")), reply(text("Well.")))

    async def work(running: Running) -> Any:
        return (await running.messages(BEGIN)).json()

    assert with_proxy(work, tools=True, provider=provider)["content"] == [text("Well.")]
    assert provider.last["messages"][-1]["content"][0]["content"] == tools.FAILED


def test_wrong_arguments_are_the_models_to_mend() -> None:
    wish = {"type": "tool_use", "id": "o1", "name": "refold_unfold", "input": {"x": [1]}}
    provider = played(reply(wish), reply(text("Well.")))

    async def work(running: Running) -> Any:
        return (await running.messages(BEGIN)).json()

    assert with_proxy(work, tools=True, provider=provider)["content"] == [text("Well.")]
    given = provider.last["messages"][-1]["content"][0]["content"]
    assert given.startswith("Error: the arguments are wrong")


def test_a_call_that_is_cut_off_is_left_out() -> None:
    provider = played(reply(text("I"), own("o1"), stop_reason="max_tokens"))

    async def work(running: Running) -> Any:
        return (await running.messages(BEGIN)).json()

    got = with_proxy(work, tools=True, provider=provider)
    assert (got["content"], got["stop_reason"]) == ([text("I")], "max_tokens")
    assert len(provider.bodies) == 1


@pytest.mark.parametrize("body", [b"not JSON", b"[]", b'{"content": 7, "stop_reason": "tool_use"}'])
def test_an_answer_that_nobody_can_read_goes_on_as_it_came(body: bytes) -> None:
    provider = played((200, JSON, body))

    async def work(running: Running) -> Any:
        return await running.messages(BEGIN)

    assert with_proxy(work, tools=True, provider=provider).content == body


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s2"}


def test_an_answer_that_is_too_long_to_be_looked_at_goes_on_as_it_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(savings, "COPY_BYTES_MAX", 100)
    provider = played(reply(text("long " * 100), own("o1")))

    async def work(running: Running) -> Any:
        return await running.messages(BEGIN)

    body = provider.answers[0][2]
    assert with_proxy(work, tools=True, provider=provider).content == body
    assert len(provider.bodies) == 1


def test_an_answer_in_other_words_takes_what_was_said_inside_with_it() -> None:
    first, found = text("What do you mean?"), reply(THOUGHT, text("Found."))
    provider = played(reply(first), reply(own("o1")), found, reply(text("Next.")))
    talk = [*BEGIN, {"role": "assistant", "content": [first]}, user("The page.")]

    async def work(running: Running) -> None:
        await running.messages(BEGIN)
        await running.messages(talk)
        other = {"role": "assistant", "content": [THOUGHT, text("Something else.")]}
        await running.messages([*talk, other, user("Go on.")])

    with_proxy(work, tools=True, provider=provider)
    said = json.dumps(provider.last["messages"])
    assert "Something else." in said
    assert "o1" not in said and "thinking" not in said


@pytest.mark.parametrize("before", [[], [text("What do you mean?")]])
def test_an_answer_that_comes_back_without_its_thinking_keeps_what_was_said_inside(
    before: list[Message],
) -> None:
    found = (reply(own("o1")), reply(THOUGHT, text("Found.")), reply(text("Next.")))
    provider = played(*map(reply, before), *found)

    async def work(running: Running) -> None:
        talk = list(BEGIN)
        for one in before:
            await running.messages(talk)
            talk += [{"role": "assistant", "content": [one]}, user("The page.")]
        await running.messages(talk)
        bare = {"role": "assistant", "content": [text("Found.")]}
        await running.messages([*talk, bare, user("Go on.")])

    with_proxy(work, tools=True, provider=provider)
    said = json.dumps(provider.last["messages"])
    assert "o1" in said and "Found." in said and "thinking" not in said
    assert names(provider.last) == OWN | {"read"}


class Cut(Provider):
    """Ends in the middle of its answer."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"100")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})
        raise httpx.RemoteProtocolError("peer closed connection")


def test_an_answer_that_is_cut_off_before_the_client_has_any_of_it_is_an_error_it_can_read() -> (
    None
):
    async def work(running: Running) -> httpx.Response:
        return await running.messages(BEGIN)

    answered = with_proxy(work, tools=True, provider=Cut())
    assert answered.status_code == 502
    assert answered.json()["error"]["type"] == "refold_upstream"
