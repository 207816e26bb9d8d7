"""Agents of Microsoft's real framework with the middleware, against an upstream as strict as the
provider."""

from __future__ import annotations

import asyncio
import gc
import json

import pytest
from agent_framework import Agent, Content, Message, SlidingWindowStrategy, tool
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from hypothesis import given
from hypothesis import strategies as some

import refold
from refold.edges.adapters.agent_framework import RefoldMiddleware, apart, from_wire, to_wire
from tests.real.answers import FIRST_RUN, SECOND_RUN, said_in
from tests.real.guides import run_guide
from tests.real.long_run import QUESTIONS, WINDOW, check_long_run, long_run, weigh
from tests.real.proxy.strict.server import serving

TURNS = 30

# The framework leaves the connections of its client to the collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def collected():
    yield
    gc.collect()


@tool(approval_mode="never_require")
def read(path: str) -> str:
    """Reads a file."""
    return f"the lines of {path}\n" * 300


def called(n: int, count: int = 1) -> dict[str, object]:
    """A call of the tool, or several at once."""
    calls = []
    for part in range(count):
        arguments = json.dumps({"path": f"file{n}-{part}.py"})
        function = {"name": "read", "arguments": arguments}
        calls.append({"id": f"c{n}-{part}", "type": "function", "function": function})
    return {"role": "assistant", "tool_calls": calls}


def said(text: str) -> dict[str, object]:
    return {"role": "assistant", "content": text}


def agent_at(url: str, *middleware: RefoldMiddleware, **given: object) -> Agent:
    client = OpenAIChatCompletionClient(model="gpt-4o", api_key="none", base_url=f"{url}/v1")
    client.function_invocation_configuration["max_iterations"] = 100
    tools, own = [read], list(middleware)
    return Agent(client=client, instructions="You fix tests.", tools=tools, middleware=own, **given)


async def run(agent: Agent, text: str, session: object, streams: bool) -> str:
    if not streams:
        return (await agent.run(text, session=session)).text
    stream = agent.run(text, session=session, stream=True)
    async for _ in stream:
        pass
    return (await stream.get_final_response()).text


CLIENTS = {"openai_chat": OpenAIChatCompletionClient, "openai_responses": OpenAIChatClient}


@pytest.mark.parametrize("api", CLIENTS)
def test_a_long_run_is_never_refused(api, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    middleware = RefoldMiddleware(store=place, window=WINDOW)

    async def main(url: str) -> None:
        client = CLIENTS[api](model="gpt-5", api_key="none", base_url=f"{url}/v1")
        tools = [tool(approval_mode="never_require")(weigh)]
        options = {"store": False} if api == "openai_responses" else {}
        agent = Agent(client=client, tools=tools, middleware=[middleware], default_options=options)
        session = agent.create_session(session_id="harbour")
        for question in QUESTIONS:
            await run(agent, question, session, streams=False)

    with long_run(api) as upstream:
        asyncio.run(main(upstream.url))
    middleware.close()
    check_long_run(upstream, place)


@pytest.mark.parametrize("calls", [1, 2])
def test_a_long_run_is_folded_and_the_session_keeps_all(calls, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    middleware = RefoldMiddleware(store=place, window=16_000)

    async def main(url: str) -> tuple[str, int]:
        agent = agent_at(url, middleware)
        session = agent.create_session(session_id="s 1")
        answer = await run(agent, "Fix the login test", session, streams=False)
        return answer, len(session.state["in_memory"]["messages"])

    with serving(*(called(n, calls) for n in range(TURNS)), said("Done.")) as upstream:
        answer, kept = asyncio.run(main(upstream.url))
    middleware.close()
    assert answer == "Done."
    assert upstream.refusals == []
    assert len(upstream.requests) == TURNS + 1
    assert kept >= 2 * TURNS + 2
    assert len(upstream.requests[-1].body["messages"]) < TURNS
    [about] = refold.conversations.list(place)
    assert about.names == ("agent-framework/s 1",)
    with refold.open(about.id, store=place, read_only=True) as context:
        assert context.search("file1-0.py")
        assert context.view.totals.input


def test_what_fits_goes_out_as_it_came(tmp_path):
    sent = []
    for middleware in ([], [RefoldMiddleware(store=f"sqlite:{tmp_path}/a.db")]):
        with serving(called(0, 2), called(1), said("Done.")) as upstream:
            agent = agent_at(upstream.url, *middleware)
            asyncio.run(run(agent, "Fix it", None, streams=False))
        sent.append([one.body for one in upstream.requests])
    assert sent[0] == sent[1]


@pytest.mark.parametrize("streams", [False, True])
def test_an_answer_is_in_the_log_when_it_comes_and_once(streams, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    middleware = RefoldMiddleware(store=place)

    async def main(url: str) -> None:
        agent = agent_at(url, middleware)
        session = agent.create_session(session_id="s")
        await run(agent, "Why?", session, streams)
        assert said_in(place) == FIRST_RUN
        await run(agent, "Sure?", session, streams)
        assert said_in(place) == FIRST_RUN + SECOND_RUN

    with serving(called(0), said("The clock."), called(1), said("Yes.")) as upstream:
        asyncio.run(main(upstream.url))
    middleware.close()
    assert upstream.refusals == []


@pytest.mark.parametrize("manages", [False, True])
def test_that_the_agent_compacts_as_well_is_said_once(manages, caplog):
    middleware = RefoldMiddleware(store="memory:")
    given = {"compaction_strategy": SlidingWindowStrategy(keep_last_groups=9)} if manages else {}
    with serving(called(0), called(1), said("Done.")) as upstream:
        agent = agent_at(upstream.url, middleware, **given)
        asyncio.run(run(agent, "Fix it", None, streams=False))
    assert caplog.text.count("both SlidingWindowStrategy and refold shorten") == manages
    middleware.close()


# --- messages ---

TEXTS = some.text(max_size=20)
CONTENTS = some.one_of(
    TEXTS.map(Content.from_text),
    some.builds(
        lambda id, path: Content.from_function_call(id, "read", arguments={"path": path}),
        some.text(min_size=1, max_size=5),
        TEXTS,
    ),
    some.just(Content.from_uri("https://example.com/a.png", media_type="image/png")),
    some.builds(lambda text: Content.from_text_reasoning(text=text, protected_data="x"), TEXTS),
    some.builds(lambda data: Content.from_data(data, "image/png"), some.binary(max_size=9)),
)


@given(some.lists(CONTENTS, min_size=1, max_size=4), some.sampled_from(["user", "assistant"]))
def test_every_content_comes_back(contents, role):
    back = from_wire(to_wire(Message(role, contents)))
    assert back.role == role
    assert [one.to_dict() for one in back.contents] == [one.to_dict() for one in contents]


@given(some.text(min_size=1, max_size=5), TEXTS, some.booleans())
def test_a_result_comes_back_and_what_stands_beside_it_apart(id, text, failed):
    result = Content.from_function_result(id, result=text, exception="no" if failed else None)
    back = from_wire(to_wire(Message("tool", [result])))
    assert (back.role, back.contents[0].result) == ("tool", text)
    assert bool(back.contents[0].exception) == failed
    mixed = Message("tool", [result, Content.from_text("and?")])
    assert [one.role for one in apart([mixed])] == ["tool", "user"]


def test_the_guide_runs_as_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with serving(said("Because of the clock.")) as upstream:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{upstream.url}/v1")
        run_guide("agent-framework.md")
    out = capsys.readouterr().out
    assert "Because of the clock." in out
    assert "2 messages in the conversation" in out
