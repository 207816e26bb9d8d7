"""LiteLLM's real SDK with the callback, against an upstream as strict as the providers."""

from __future__ import annotations

import asyncio
import gc
import json

import litellm
import pytest
from litellm.integrations.compression_interception.handler import CompressionInterceptionLogger
from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER

import refold
from refold.edges.adapters.litellm import RefoldCallback
from tests.real.answers import FIRST_RUN, SECOND_RUN, said_in
from tests.real.guides import run_guide
from tests.real.long_run import QUESTIONS, WINDOW, check_long_run, long_run, weigh
from tests.real.proxy.strict.server import serving
from tests.waiting import LONG_S

TURNS = 30

# LiteLLM warns of itself.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(autouse=True)
def collected():
    yield
    gc.collect()


PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "read", "parameters": PARAMETERS}}
LONG = "the lines of a file\n" * 300


@pytest.fixture
def callback(tmp_path):
    made = RefoldCallback(store=f"sqlite:{tmp_path}/a.db", window=16_000)
    litellm.callbacks = [made]
    yield made
    litellm.logging_callback_manager._reset_all_callbacks()
    made.close()


async def told() -> None:
    """LiteLLM tells of success and of the end of a stream some time after it: first it puts down
    that it will, then it does."""
    await asyncio.sleep(0.5)
    await asyncio.wait_for(GLOBAL_LOGGING_WORKER.flush(), LONG_S)


def called(n: int) -> dict[str, object]:
    arguments = json.dumps({"path": f"file{n}.py"})
    function = {"name": "read", "arguments": arguments}
    return {
        "role": "assistant",
        "tool_calls": [{"id": f"c{n}", "type": "function", "function": function}],
    }


async def loop(url: str, first: str, count: int, **named: str) -> list[dict[str, object]]:
    """A loop as people write it: the whole list at every call."""
    messages: list[dict[str, object]] = [{"role": "user", "content": first}]
    for _ in range(count + 1):
        answer = await litellm.acompletion(
            model="openai/gpt-4o",
            messages=messages,
            tools=[TOOL],
            api_base=f"{url}/v1",
            api_key="none",
            **named,
        )
        said = answer.choices[0].message
        messages.append(said.model_dump(exclude_none=True))
        for call in said.tool_calls or ():
            messages.append({"role": "tool", "tool_call_id": call.id, "content": LONG})
    await told()
    return messages


def test_a_long_run_is_never_refused(tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    callback = RefoldCallback(store=place, window=WINDOW)
    litellm.callbacks = [callback]

    async def run(url: str) -> None:
        messages: list[dict[str, object]] = []
        function = {"name": "weigh", "parameters": {"type": "object"}}
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            while messages[-1]["role"] != "assistant":
                answer = await litellm.acompletion(
                    model="openai/gpt-5",
                    messages=messages,
                    tools=[{"type": "function", "function": function}],
                    api_base=f"{url}/v1",
                    api_key="none",
                    litellm_session_id="harbour",
                )
                said = answer.choices[0].message
                messages.append(said.model_dump(exclude_none=True))
                for call in said.tool_calls or ():
                    report = weigh(**json.loads(call.function.arguments))
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": report})
        await told()

    with long_run("openai_chat") as upstream:
        asyncio.run(run(upstream.url))
    litellm.logging_callback_manager._reset_all_callbacks()
    callback.close()
    check_long_run(upstream, place)


@pytest.mark.parametrize("named", [{}, {"litellm_session_id": "s1"}])
def test_a_long_loop_is_folded_and_the_list_stays_whole(callback, tmp_path, named):
    plays = [*(called(n) for n in range(TURNS)), {"role": "assistant", "content": "Done."}]
    with serving(*plays) as upstream:
        messages = asyncio.run(loop(upstream.url, "Fix the login test", TURNS, **named))
    assert messages[-1]["content"] == "Done."
    assert len(messages) == 2 * (TURNS + 1)
    assert upstream.refusals == []
    assert len(upstream.requests[-1].body["messages"]) < TURNS
    [about] = refold.conversations.list(f"sqlite:{tmp_path}/a.db")
    if named:
        assert about.names == ("litellm/s1",)
    with refold.open(about.id, store=f"sqlite:{tmp_path}/a.db", read_only=True) as context:
        assert context.search("file1.py")
        assert context.view.totals.input


def test_loops_at_once_are_told_apart_by_what_they_say(callback, tmp_path):
    tasks = ["Fix the login test", "Write the docs", "Read the logs"]

    async def main(url: str) -> None:
        await asyncio.gather(*(loop(url, task, 6) for task in tasks))

    with serving(*(called(n) for n in range(40))) as upstream:
        asyncio.run(main(upstream.url))
    assert upstream.refusals == []
    place = f"sqlite:{tmp_path}/a.db"
    found = refold.conversations.list(place)
    assert len(found) == 3
    for about in found:
        with refold.open(about.id, store=place, read_only=True) as context:
            said = [slot.message.blocks[0].text for slot in context.view.slots[:1]]
            assert said[0] in tasks


def test_a_list_that_cannot_be_read_is_the_providers_to_refuse(callback):
    with serving() as upstream, pytest.raises(litellm.BadRequestError):
        asyncio.run(
            litellm.acompletion(
                model="openai/gpt-4o",
                messages=[{"role": "nobody", "content": [{"x": 1}]}],
                api_base=f"{upstream.url}/v1",
                api_key="none",
            )
        )
    assert len(upstream.requests) == 1


SAYS = {"role": "assistant", "content": "The clock."}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("repeats", ["object", "dump", "by hand"])
def test_an_answer_is_in_the_log_when_it_comes_and_once(callback, tmp_path, streams, repeats):
    place = f"sqlite:{tmp_path}/a.db"

    async def asked(url: str, messages: list[object]) -> list[object]:
        given = {"api_base": f"{url}/v1", "api_key": "none", "stream": streams, "tools": [TOOL]}
        if streams:
            given["stream_options"] = {"include_usage": True}
        answer = await litellm.acompletion(model="openai/gpt-4o", messages=messages, **given)
        if streams:
            answer = litellm.stream_chunk_builder([chunk async for chunk in answer])
            await told()
        said = answer.choices[0].message
        if repeats == "by hand" and not said.tool_calls:
            return [*messages, {"role": "assistant", "content": said.content}]
        return [*messages, said if repeats == "object" else said.model_dump(exclude_none=True)]

    async def main(url: str) -> None:
        result = {"role": "tool", "content": "the lines"}
        messages = await asked(url, [{"role": "user", "content": "Why?"}])
        messages = await asked(url, [*messages, {**result, "tool_call_id": "c0"}])
        assert said_in(place) == FIRST_RUN
        messages = await asked(url, [*messages, {"role": "user", "content": "Sure?"}])
        await asked(url, [*messages, {**result, "tool_call_id": "c1"}])
        assert said_in(place) == FIRST_RUN + SECOND_RUN

    plays = [called(0), SAYS, called(1), {**SAYS, "content": "Yes."}]
    with serving(*plays) as upstream:
        asyncio.run(main(upstream.url))
    assert upstream.refusals == []
    [about] = refold.conversations.list(place)
    with refold.open(about.id, store=place, read_only=True) as context:
        assert context.view.totals.input


def test_an_answer_of_anthropics_route_is_in_the_log_when_it_comes(callback, tmp_path):
    """Not streamed: for that, this route wants the packages of LiteLLM's proxy."""
    place = f"sqlite:{tmp_path}/a.db"

    async def main(url: str) -> None:
        await litellm.anthropic_messages(
            model="anthropic/claude-sonnet-5-5",
            messages=[{"role": "user", "content": "Why?"}],
            max_tokens=100,
            api_base=url,
            api_key="none",
        )

    with serving([{"type": "text", "text": "The clock."}]) as upstream:
        asyncio.run(main(upstream.url))
    assert said_in(place) == [FIRST_RUN[0], FIRST_RUN[-1]]


@pytest.mark.parametrize("streams", [False, True])
def test_an_answer_of_the_responses_api_is_in_the_log_when_it_comes(callback, tmp_path, streams):
    place = f"sqlite:{tmp_path}/a.db"

    async def main(url: str) -> None:
        response = await litellm.aresponses(
            model="openai/gpt-4o",
            input=[{"role": "user", "content": "Why?"}],
            api_base=f"{url}/v1",
            api_key="none",
            stream=streams,
        )
        if streams:
            [chunk async for chunk in response]
        await told()

    content = [{"type": "output_text", "text": "The clock.", "annotations": []}]
    item = {"type": "message", "role": "assistant", "content": content}
    with serving([item]) as upstream:
        asyncio.run(main(upstream.url))
    assert said_in(place) == [FIRST_RUN[0], FIRST_RUN[-1]]


@pytest.mark.parametrize("manages", [False, True])
def test_that_litellm_shortens_as_well_is_said_once(callback, caplog, manages):
    if manages:
        litellm.callbacks.append(CompressionInterceptionLogger())

    async def main(url: str) -> None:
        given = {"context_management": {"edits": []}} if manages else {}
        for _ in range(2):
            await litellm.anthropic_messages(
                model="anthropic/claude-sonnet-5-5",
                messages=[{"role": "user", "content": "Why?"}],
                max_tokens=100,
                api_base=url,
                api_key="none",
                **given,
            )

    with serving(*[[{"type": "text", "text": "The clock."}]] * 2) as upstream:
        asyncio.run(main(upstream.url))
    for name in ("CompressionInterceptionLogger", "`context_management` of the call"):
        assert caplog.text.count(f"both {name} and refold shorten") == manages


def test_the_guide_runs_as_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with serving({"role": "assistant", "content": "Because of the clock."}) as upstream:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{upstream.url}/v1")
        run_guide("litellm.md")
        litellm.logging_callback_manager._reset_all_callbacks()
    assert "Because of the clock." in capsys.readouterr().out
