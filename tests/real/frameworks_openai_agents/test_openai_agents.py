"""The OpenAI Agents SDK keeps its sessions in refold, and sends what refold folds: the real runner
against a scripted server."""

from __future__ import annotations

import asyncio
import json

import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from agents.memory import Session, SessionSettings
from hypothesis import given, settings
from hypothesis import strategies as some
from openai import AsyncOpenAI

import refold
from refold.dialects import dialect
from refold.edges.adapters.openai_agents import RefoldSession
from tests.real.answers import FIRST_RUN, SECOND_RUN, said_in
from tests.real.guides import run_guide
from tests.real.long_run import QUESTIONS, WINDOW, check_long_run, long_run, weigh
from tests.servers import Play, serving

set_tracing_disabled(True)


def answer(*output: dict[str, object]) -> Play:
    """A response of the API with these items."""
    usage = {"input_tokens": 50, "output_tokens": 5, "total_tokens": 55}
    usage |= {"input_tokens_details": {"cached_tokens": 0}}
    usage |= {"output_tokens_details": {"reasoning_tokens": 0}}
    response = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5"}
    response |= {"output": list(output), "usage": usage, "status": "completed", "tools": []}
    response |= {"parallel_tool_calls": True, "tool_choice": "auto"}
    return Play(response, content_type="application/json")


def said(text: str, id: str = "msg_1") -> dict[str, object]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "type": "message",
        "id": id,
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


def called(number: int) -> dict[str, object]:
    arguments = json.dumps({"path": f"file{number}.py"})
    call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
    return {**call, "name": "read", "arguments": arguments, "status": "completed"}


@function_tool
def read(path: str) -> str:
    """Reads a file."""
    return f"a line of {path} that says something\n" * 300


def agent_at(url: str) -> Agent:
    client = AsyncOpenAI(api_key="none", base_url=url)
    model = OpenAIResponsesModel("gpt-5", client)
    return Agent(name="fixer", instructions="You fix tests.", tools=[read], model=model)


# --- the session ---


def test_it_is_a_session():
    assert isinstance(RefoldSession("a", store="memory:"), Session)


ITEMS = some.one_of(
    some.text().map(lambda text: {"role": "user", "content": text}),
    some.text().map(said),
    some.integers(0, 9).map(called),
    some.dictionaries(some.text(), some.text() | some.none() | some.booleans(), max_size=3),
)
STEPS = some.lists(
    some.one_of(
        some.tuples(some.just("add"), some.lists(ITEMS, max_size=3)),
        some.tuples(some.sampled_from(["pop", "clear"]), some.none()),
        some.tuples(some.just("get"), some.none() | some.integers(0, 5)),
    ),
    max_size=12,
)


async def taken(session: Session, steps: list[tuple[str, object]]) -> list[object]:
    """What a session answers to these steps."""
    answers: list[object] = []
    for step, given_ in steps:
        match step:
            case "add":
                answers.append(await session.add_items(given_))
            case "pop":
                answers.append(await session.pop_item())
            case "clear":
                answers.append(await session.clear_session())
            case _:
                answers.append(await session.get_items(given_))
    answers.append(await session.get_items())
    return answers


@settings(deadline=None, max_examples=60)
@given(STEPS)
def test_it_answers_as_the_sdks_own_session_does(steps):
    own, ours = SQLiteSession("a"), RefoldSession("a", store="memory:")
    assert asyncio.run(taken(ours, steps)) == asyncio.run(taken(own, steps))
    own.close()
    ours.close()


def test_two_processes_see_what_the_other_added_and_took_off(tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    one, other = RefoldSession("a", store=place), RefoldSession("a", store=place)
    items = [{"role": "user", "content": text} for text in "abcd"]

    async def steps() -> None:
        await one.add_items(items[:2])
        assert await other.get_items() == items[:2]
        await other.add_items(items[2:])
        assert await one.pop_item() == items[3]
        assert await other.get_items() == items[:3]
        (await one.get_items())[0]["content"] = "changed by its caller"
        assert await one.get_items() == items[:3]
        [about] = refold.conversations.list(place)
        with refold.open(about.id, store=place) as context:
            context.restore(1)
        assert await one.get_items() == await other.get_items() != items[:3]

    asyncio.run(steps())
    one.close()
    other.close()


def test_a_limit_is_kept_and_a_restart_changes_nothing(tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    session = RefoldSession("a b/ü", store=place, session_settings=SessionSettings(limit=2))
    items = [{"role": "user", "content": text} for text in "abc"]
    asyncio.run(session.add_items(items))
    assert asyncio.run(session.get_items()) == items[1:]
    session.close()
    again = RefoldSession("a b/ü", store=place)
    assert asyncio.run(again.get_items()) == items
    assert asyncio.run(again.pop_item()) == items[2]


# --- the runner ---


@pytest.mark.parametrize("turns", [3, 25])
def test_a_run_is_folded_when_it_has_to_be_and_the_session_keeps_all(turns, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    session = RefoldSession("fix", store=place, model="gpt-5", window=16_000)
    config = RunConfig(call_model_input_filter=session.fold)
    plays = [answer(called(number)) for number in range(turns)]
    with serving(*plays, answer(said("Done."))) as server:
        running = Runner.run(
            agent_at(server.url),
            "Fix the login test",
            session=session,
            run_config=config,
            max_turns=40,
        )
        result = asyncio.run(running)
        inputs = [body["input"] for _, _, body in server.seen]
    assert result.final_output == "Done."
    assert len(asyncio.run(session.get_items())) == 2 * turns + 2
    session.close()
    assert all(dialect("openai_responses").check({"input": one}) == [] for one in inputs)
    assert (len(inputs[-1]) < 2 * turns + 1) == (turns == 25)
    assert "Fix the login test" in json.dumps(inputs[-1])
    [about] = [one for one in refold.conversations.list(place) if one.names]
    assert about.names == ("openai-agents/fix",)
    with refold.open(about.id, store=place, read_only=True) as context:
        assert context.search("file1.py")


@pytest.mark.parametrize("has_hooks", [False, True])
def test_a_long_run_is_never_refused(has_hooks, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    session = RefoldSession("harbour", store=place, model="gpt-5", window=WINDOW)
    config = RunConfig(call_model_input_filter=session.fold)
    tools = [function_tool(weigh)]

    async def run(url: str) -> None:
        hooks = session.hooks if has_hooks else None
        async with AsyncOpenAI(api_key="none", base_url=f"{url}/v1") as client:
            model = OpenAIResponsesModel("gpt-5", client)
            agent = Agent(name="harbour", instructions="You weigh.", tools=tools, model=model)
            for question in QUESTIONS:
                await Runner.run(agent, question, session=session, run_config=config, hooks=hooks)

    with long_run("openai_responses") as upstream:
        asyncio.run(run(upstream.url))
    session.close()
    check_long_run(upstream, place)


def test_the_next_run_goes_on_where_the_last_one_ended(tmp_path):
    session = RefoldSession("fix", store=f"sqlite:{tmp_path}/a.db", model="gpt-5")
    config = RunConfig(call_model_input_filter=session.fold)
    with serving(answer(said("The clock.")), answer(said("Yes.", "msg_2"))) as server:
        for text in ("Why?", "Are you sure?"):
            asyncio.run(Runner.run(agent_at(server.url), text, session=session, run_config=config))
        sent = json.dumps(server.seen[-1][2]["input"])
    assert all(text in sent for text in ("Why?", "The clock.", "Are you sure?"))
    assert len(refold.conversations.list(f"sqlite:{tmp_path}/a.db")) == 1


@pytest.mark.parametrize("has_session", [False, True])
def test_an_answer_is_in_the_log_when_it_comes_and_once(has_session, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    session = RefoldSession("fix", store=place, model="gpt-5")
    plays = [called(1), said("The clock."), called(2), said("Yes.", "msg_2")]
    given = {
        "run_config": RunConfig(call_model_input_filter=session.fold),
        "hooks": session.hooks,
        "session": session if has_session else None,
    }
    with serving(*map(answer, plays)) as server:
        agent = agent_at(server.url)
        first = asyncio.run(Runner.run(agent, "Why?", **given))
        assert said_in(place) == FIRST_RUN
        question = {"role": "user", "content": "Sure?"}
        again = "Sure?" if has_session else [*first.to_input_list(), question]
        asyncio.run(Runner.run(agent, again, **given))
    assert said_in(place) == FIRST_RUN + SECOND_RUN
    session.close()
    [about] = refold.conversations.list(place)
    with refold.open(about.id, store=place, read_only=True) as context:
        assert context.view.totals.input == 200


def test_an_answer_that_is_streamed_is_in_the_log_when_it_comes(tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    session = RefoldSession("fix", store=place, model="gpt-5")
    config = RunConfig(call_model_input_filter=session.fold)
    item = said("The clock.")
    response = json.loads(answer(item).body)
    events = [
        {"type": "response.created", "sequence_number": 0, "response": {**response, "output": []}},
        {
            "type": "response.output_item.done",
            "sequence_number": 1,
            "output_index": 0,
            "item": item,
        },
        {"type": "response.completed", "sequence_number": 2, "response": response},
    ]
    body = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
    play = Play(body.encode(), content_type="text/event-stream")

    async def main(url: str) -> None:
        streaming = Runner.run_streamed(
            agent_at(url), "Why?", session=session, run_config=config, hooks=session.hooks
        )
        async for _ in streaming.stream_events():
            pass

    with serving(play) as server:
        asyncio.run(main(server.url))
    assert said_in(place) == [FIRST_RUN[0], FIRST_RUN[-1]]
    session.close()


@pytest.mark.parametrize("manages", [False, True])
def test_that_the_provider_compacts_as_well_is_said_once(manages, caplog):
    session = RefoldSession("fix", store="memory:", model="gpt-5")
    config = RunConfig(call_model_input_filter=session.fold)
    managed = [{"type": "compaction", "compact_threshold": 9_000}]
    items = [{"type": "compaction", "encrypted_content": "x"}, {"role": "user", "content": "Why?"}]
    with serving(answer(called(1)), answer(said("The clock."))) as server:
        agent = agent_at(server.url)
        if manages:
            agent.model_settings = ModelSettings(context_management=managed)
        asyncio.run(Runner.run(agent, items if manages else "Why?", run_config=config))
    assert caplog.text.count("both `context_management` of the model settings and") == manages
    assert caplog.text.count("both a compaction by the provider in the input and") == manages
    session.close()


def test_the_guide_runs_as_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with serving(answer(said("The clock is mocked."))) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        run_guide("openai-agents.md")
    out = capsys.readouterr().out
    assert "The clock is mocked." in out
    assert "2 messages in the conversation" in out
