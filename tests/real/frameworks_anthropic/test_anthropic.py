"""Anthropic's real client with the middleware, against a scripted server."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest
from anthropic import Anthropic, AsyncAnthropic, BadRequestError
from hypothesis import given, settings
from hypothesis import strategies as some

import refold
from refold.dialects import dialect
from refold.edges.adapters.anthropic import RefoldMiddleware
from tests.real.answers import FIRST_RUN, SECOND_RUN, said_in
from tests.real.guides import run_guide
from tests.real.long_run import QUESTIONS, WINDOW, check_long_run, long_run, weigh
from tests.real.proxy.strict.script import Answer
from tests.real.proxy.strict.server import serving as strictly_serving
from tests.servers import Play, serving

MODEL = "claude-sonnet-5-5"
TOOL = {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}


def answer(number: int, count: int) -> Play:
    """A call of a tool, or the end."""
    call = {
        "type": "tool_use",
        "id": f"t{number}",
        "name": "read",
        "input": {"path": f"file{number}.py"},
    }
    content = [{"type": "text", "text": "Done."}] if number == count else [call]
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": MODEL}
    message |= {"content": content, "stop_sequence": None}
    message |= {"stop_reason": "end_turn" if number == count else "tool_use"}
    message |= {"usage": {"input_tokens": 900, "output_tokens": 20}}
    return Play(message, content_type="application/json")


def results(response: object) -> list[dict[str, object]]:
    text = "a line that says something\n" * 300
    calls = [block for block in response.content if block.type == "tool_use"]
    return [{"type": "tool_result", "tool_use_id": one.id, "content": text} for one in calls]


def looped(create) -> list[dict[str, object]]:
    """A loop as people write it: the whole list at every call."""
    messages = [{"role": "user", "content": "Fix the login test"}]
    while True:
        response = create(
            model=MODEL, max_tokens=100, system="You fix tests.", tools=[TOOL], messages=messages
        )
        messages.append({"role": "assistant", "content": response.content})
        if response.stop_reason == "end_turn":
            return messages
        messages.append({"role": "user", "content": results(response)})


@pytest.mark.parametrize("is_async", [False, True])
def test_a_long_loop_is_folded_and_the_list_stays_whole(is_async, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    middleware = RefoldMiddleware("fix", store=place, window=16_000)
    with serving(*[answer(number, 30) for number in range(31)]) as server:
        given = {"api_key": "none", "base_url": server.url, "middleware": [middleware]}
        if is_async:
            client = AsyncAnthropic(**given)
            with asyncio.Runner() as runner:
                messages = looped(lambda **call: runner.run(client.messages.create(**call)))
        else:
            messages = looped(Anthropic(**given).messages.create)
        sent = [body for _, _, body in server.seen]
    middleware.close()
    assert len(messages) == 62
    assert len(sent[-1]["messages"]) < 30
    assert all(body["system"] == "You fix tests." and body["tools"] == [TOOL] for body in sent)
    assert [dialect("anthropic").check(body) for body in sent] == [[]] * 31
    [about] = refold.conversations.list(place)
    assert about.names == ("anthropic/fix",)
    with refold.open(about.id, store=place, read_only=True) as context:
        assert context.search("file1.py")
        assert context.view.totals.input


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-4-8"])
def test_a_long_run_is_never_refused(model, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    middleware = RefoldMiddleware("harbour", store=place, window=WINDOW)
    thinking = {"type": "enabled", "budget_tokens": 1_024}
    messages: list[dict[str, object]] = []
    tools = [{**TOOL, "name": "weigh"}]
    with long_run("anthropic") as upstream, client_at(upstream.url, middleware) as client:
        for question in QUESTIONS:
            said: list[dict[str, object]] = [{"type": "text", "text": question}]
            while said:
                messages.append({"role": "user", "content": said})
                response = client.messages.create(
                    model=model, max_tokens=2_000, messages=messages, tools=tools, thinking=thinking
                )
                messages.append({"role": "assistant", "content": response.content})
                said = [
                    {"type": "tool_result", "tool_use_id": one.id, "content": weigh(**one.input)}
                    for one in response.content
                    if one.type == "tool_use"
                ]
    middleware.close()
    check_long_run(upstream, place)


def test_an_error_of_the_server_is_the_sdks_own():
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
    with serving(Play(error, 400, content_type="application/json")) as server:
        middleware = RefoldMiddleware(store="memory:")
        client = Anthropic(
            api_key="none", base_url=server.url, middleware=[middleware], max_retries=0
        )
        with pytest.raises(BadRequestError):
            looped(client.messages.create)


# --- answers, whole and streamed ---

CALL = {"type": "tool_use", "name": "read", "input": {"path": "a.py"}}
TEXT = {"type": "text", "text": "The clock."}
RUNS = [[{**CALL, "id": "t1"}], [TEXT], [{**CALL, "id": "t2"}], [{**TEXT, "text": "Yes."}]]
ASKED = {"model": MODEL, "max_tokens": 100, "tools": [TOOL]}


def client_at(url: str, *middleware: RefoldMiddleware) -> Anthropic:
    return Anthropic(api_key="none", base_url=url, middleware=list(middleware), max_retries=0)


def async_client_at(url: str, *middleware: RefoldMiddleware) -> AsyncAnthropic:
    return AsyncAnthropic(api_key="none", base_url=url, middleware=list(middleware), max_retries=0)


def answered(client: Anthropic, way: str, messages: list[object]) -> object:
    """The message that a call gives, by one of the ways that the SDK has."""
    call = {**ASKED, "messages": messages}
    match way:
        case "create":
            return client.messages.create(**call)
        case "raw":
            return client.messages.with_raw_response.create(**call).parse()
        case "stream":
            with client.messages.stream(**call) as stream:
                return stream.get_final_message()
        case _:
            with client.beta.messages.stream(**call) as stream:
                return stream.get_final_message()


async def answered_async(client: AsyncAnthropic, way: str, messages: list[object]) -> object:
    call = {**ASKED, "messages": messages}
    match way:
        case "create":
            return await client.messages.create(**call)
        case "raw":
            return await (await client.messages.with_raw_response.create(**call)).parse()
        case "stream":
            async with client.messages.stream(**call) as stream:
                return await stream.get_final_message()
        case _:
            async with client.beta.messages.stream(**call) as stream:
                return await stream.get_final_message()


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("repeats", ["objects", "dumps"])
@pytest.mark.parametrize("way", ["create", "raw", "stream", "beta"])
def test_an_answer_is_in_the_log_when_it_comes_and_once(way, repeats, is_async, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    middleware = RefoldMiddleware(store=place)

    async def ask(client: object, messages: list[object]) -> list[object]:
        if is_async:
            message = await answered_async(client, way, messages)
        else:
            message = answered(client, way, messages)
        content = message.content
        if repeats == "dumps":
            content = [block.model_dump(exclude_none=True) for block in content]
        return [*messages, {"role": "assistant", "content": content}]

    async def main(url: str) -> None:
        if is_async:
            async with async_client_at(url, middleware) as client:
                await run(client)
        else:
            with client_at(url, middleware) as client:
                await run(client)

    async def run(client: object) -> None:
        result = {"type": "tool_result", "content": "the lines"}
        messages: list[object] = []
        for text, id, run in (("Why?", "t1", FIRST_RUN), ("Sure?", "t2", FIRST_RUN + SECOND_RUN)):
            messages = await ask(client, [*messages, {"role": "user", "content": text}])
            given = {"role": "user", "content": [{**result, "tool_use_id": id}]}
            messages = await ask(client, [*messages, given])
            assert said_in(place) == run

    with strictly_serving(*RUNS) as upstream:
        asyncio.run(main(upstream.url))
    middleware.close()
    assert upstream.refusals == []
    [about] = refold.conversations.list(place)
    with refold.open(about.id, store=place, read_only=True) as context:
        assert context.view.totals.calls == 4
        assert context.view.totals.input
        assert context.view.totals.output


def events(text: str) -> bytes:
    """A stream of Anthropic's, as it goes over the wire."""
    message = {"id": "m", "type": "message", "role": "assistant", "model": MODEL, "content": []}
    message |= {"stop_reason": None, "usage": {"input_tokens": 900, "output_tokens": 1}}
    block = {"type": "text", "text": ""}
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    said = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": t}}
            for t in text
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 70}},
        {"type": "message_stop"},
    ]
    lines = (f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in said)
    return "".join(lines).encode()


@settings(deadline=None, max_examples=20)
@given(
    text=some.text(min_size=1, max_size=20),
    chunk=some.integers(1, 200),
    packed=some.booleans(),
    is_async=some.booleans(),
)
def test_a_stream_is_byte_for_byte_the_same(text, chunk, packed, is_async):
    body = events(text)
    packing = {"content_encoding": "gzip"} if packed else {}
    play = Play(
        gzip.compress(body) if packed else body, content_type="text/event-stream", **packing
    )
    call = {**ASKED, "messages": [{"role": "user", "content": "Why?"}], "stream": True}

    async def read_async(url: str) -> bytes:
        async with (
            async_client_at(url, middleware) as client,
            client.messages.with_streaming_response.create(**call) as response,
        ):
            return b"".join([piece async for piece in response.iter_bytes(chunk)])

    def read(url: str) -> bytes:
        with (
            client_at(url, middleware) as client,
            client.messages.with_streaming_response.create(**call) as response,
        ):
            return b"".join(response.iter_bytes(chunk))

    middleware = RefoldMiddleware(store="memory:")
    with serving(play) as server:
        got = asyncio.run(read_async(server.url)) if is_async else read(server.url)
    assert got == body
    with middleware._guest.sessions.session("anthropic/agent") as context:
        assert context.view.totals.output == 70
        assert context.view.slots[-1].message.blocks[0].text == text
    middleware.close()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_stream_that_is_abandoned_is_billed_and_not_taken_for_an_answer(is_async, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    middleware = RefoldMiddleware(store=place)
    messages = [{"role": "user", "content": "Why?"}]
    call = {**ASKED, "messages": messages, "stream": True}

    async def leave_async(url: str) -> None:
        async with (
            async_client_at(url, middleware) as client,
            await client.messages.create(**call) as stream,
        ):
            await anext(aiter(stream))

    def leave(url: str) -> None:
        with client_at(url, middleware) as client, client.messages.create(**call) as stream:
            next(iter(stream))

    plays = [Answer([{**TEXT, "text": "word " * 5_000}], piece_s=0.01), [TEXT]]
    with strictly_serving(*plays) as upstream:
        asyncio.run(leave_async(upstream.url)) if is_async else leave(upstream.url)
        [about] = refold.conversations.list(place)
        with refold.open(about.id, store=place, read_only=True) as context:
            assert context.view.totals.input
        assert said_in(place) == FIRST_RUN[:1]
        with client_at(upstream.url, middleware) as client:
            answered(client, "stream", messages)
    assert said_in(place) == [FIRST_RUN[0], FIRST_RUN[-1]]
    middleware.close()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_stream_that_is_cut_off_fails_as_without_refold(is_async):
    call = {**ASKED, "messages": [{"role": "user", "content": "Why?"}], "stream": True}

    async def read_async(url: str, *middleware: RefoldMiddleware) -> None:
        async with async_client_at(url, *middleware) as client:
            async for _ in await client.messages.create(**call):
                pass

    def read(url: str, *middleware: RefoldMiddleware) -> None:
        with client_at(url, *middleware) as client:
            list(client.messages.create(**call))

    raised = []
    play = Play(events("words"), cut=40, content_type="text/event-stream")
    for middleware in ([], [RefoldMiddleware(store="memory:")]):
        with serving(play) as server, pytest.raises(Exception) as caught:
            if is_async:
                asyncio.run(read_async(server.url, *middleware))
            else:
                read(server.url, *middleware)
        raised.append(caught.type)
    assert raised[0] is raised[1]


def test_a_store_that_fails_when_the_answer_comes_costs_the_caller_nothing(
    tmp_path, monkeypatch, caplog
):
    middleware = RefoldMiddleware(store=f"sqlite:{tmp_path}/a.db")

    def fail(*_: object, **__: object) -> None:
        raise refold.Unavailable("the disk is full")

    monkeypatch.setattr(refold.Context, "record", fail)
    with strictly_serving([TEXT], [TEXT]) as upstream:
        for way in ("create", "stream"):
            messages = [{"role": "user", "content": "Why?"}]
            with client_at(upstream.url, middleware) as client:
                assert answered(client, way, messages).content[0].text == "The clock."
    assert "the disk is full" in caplog.text
    middleware.close()


@pytest.mark.parametrize("way", ["create", "stream"])
def test_a_long_loop_that_thinks_is_folded_and_never_refused(way, tmp_path):
    """What a model thought is bound to what it read: a page that changes under it is refused."""
    place = f"sqlite:{tmp_path}/a.db"
    thought = {"type": "thinking", "thinking": "Which file next?"}
    plays = [[thought, {**CALL, "id": f"t{n}", "input": {"path": f"f{n}.py"}}] for n in range(25)]
    thinking = {"type": "enabled", "budget_tokens": 1_024}
    call = {"model": MODEL, "max_tokens": 2_000, "tools": [TOOL], "thinking": thinking}
    middleware = RefoldMiddleware(store=place, window=16_000)
    messages: list[object] = [{"role": "user", "content": "Fix the login test"}]
    with (
        strictly_serving(*plays, [TEXT]) as upstream,
        client_at(upstream.url, middleware) as client,
    ):
        for _ in range(26):
            if way == "create":
                response = client.messages.create(**call, messages=messages)
            else:
                with client.messages.stream(**call, messages=messages) as stream:
                    response = stream.get_final_message()
            messages.append({"role": "assistant", "content": response.content})
            messages.append({"role": "user", "content": results(response)})
    middleware.close()
    assert upstream.refusals == []
    assert len(upstream.requests[-1].body["messages"]) < 30
    assert said_in(place)[-1] == "assistant: The clock."
    assert len(said_in(place)) == 52


@pytest.mark.parametrize("manages", [False, True])
def test_that_the_provider_shortens_as_well_is_said_once(manages, caplog):
    edits = {"edits": [{"type": "clear_tool_uses_20250919"}]}
    call = {**ASKED, "messages": [{"role": "user", "content": "Why?"}]}
    if manages:
        call |= {"context_management": edits, "betas": ["context-management-2025-06-27"]}
    middleware = RefoldMiddleware(store="memory:")
    with serving(answer(0, 0)) as server, client_at(server.url, middleware) as client:
        for _ in range(3):
            client.beta.messages.create(**call)
    assert caplog.text.count("turn one of them off") == manages
    middleware.close()


def test_the_guide_runs_as_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with serving(answer(0, 0)) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        run_guide("anthropic.md")
    out = capsys.readouterr().out
    assert "Done." in out
    assert "2 messages in the conversation" in out
