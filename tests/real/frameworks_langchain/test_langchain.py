"""LangChain's real agents with the middleware: what is sent, what the state keeps, and whose
objects are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
)
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import convert_to_openai_messages
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

import refold
from refold.dialects import dialect
from refold.edges.adapters.langchain import RefoldMiddleware
from tests.real.answers import FIRST_RUN, SECOND_RUN, said_in
from tests.real.guides import run_guide
from tests.real.long_run import QUESTIONS, WINDOW, check_long_run, long_run, weigh

USAGE = {"input_tokens": 900, "output_tokens": 20, "total_tokens": 920}


class Scripted(GenericFakeChatModel):
    """Answers with the messages in turn, and keeps what it was sent."""

    sent: list[list[BaseMessage]]

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, messages, *arguments, **given):
        self.sent.append(list(messages))
        return super()._generate(messages, *arguments, **given)


@tool
def read(path: str) -> str:
    """Reads a file."""
    return f"a line of {path} that says something\n" * 300


def calls(count: int, content: object = "Reading.") -> Iterator[AIMessage]:
    for number in range(count):
        call = {"name": "read", "args": {"path": f"file{number}.py"}, "id": f"call_{number}"}
        yield AIMessage(content, tool_calls=[call], usage_metadata=USAGE)
    yield AIMessage("Done.")


def ran(
    model: Scripted, middleware: RefoldMiddleware, *, is_async: bool = False
) -> list[BaseMessage]:
    agent = create_agent(model, [read], middleware=[middleware], system_prompt="You fix tests.")
    given = {"messages": [HumanMessage("Fix the login test")]}
    config = {"recursion_limit": 500, "configurable": {"thread_id": "t 1"}}
    done = asyncio.run(agent.ainvoke(given, config)) if is_async else agent.invoke(given, config)
    return done["messages"]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "content",
    [
        "Reading.",
        "",
        [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "x"}],
    ],
)
def test_a_long_run_is_folded_and_the_state_keeps_all(content, is_async, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    middleware = RefoldMiddleware(store=place, window=16_000)
    model = Scripted(messages=calls(30, content), sent=[])
    state = ran(model, middleware, is_async=is_async)
    middleware.close()
    assert [type(one) for one in state] == [HumanMessage, *[AIMessage, ToolMessage] * 30, AIMessage]
    last = model.sent[-1]
    assert isinstance(last[0], SystemMessage)
    assert len(last) < 30
    faults = [
        fault
        for sent in model.sent
        for fault in dialect("openai_chat").check({"messages": convert_to_openai_messages(sent)})
    ]
    assert [fault for fault in faults if "type 'thinking'" not in fault] == []
    [about] = refold.conversations.list(place)
    assert about.names == ("langchain/t 1",)
    with refold.open(about.id, store=place, read_only=True) as context:
        assert context.search("file1.py")
        assert context.view.totals.input


@pytest.mark.parametrize("api", ["openai_chat", "openai_responses"])
def test_a_long_run_is_never_refused(api, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    middleware = RefoldMiddleware(store=place, window=WINDOW)
    config = {"recursion_limit": 60, "configurable": {"thread_id": "harbour"}}
    with long_run(api) as upstream:
        model = ChatOpenAI(
            model="gpt-5",
            api_key="none",
            base_url=f"{upstream.url}/v1",
            use_responses_api=api == "openai_responses",
        )
        saver = InMemorySaver()
        agent = create_agent(model, [tool(weigh)], middleware=[middleware], checkpointer=saver)
        for question in QUESTIONS:
            agent.invoke({"messages": [HumanMessage(question)]}, config)
    middleware.close()
    check_long_run(upstream, place)


@pytest.mark.parametrize("output_version", ["v0", "v1"])
@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-opus-4-1"])
def test_a_long_run_with_signed_thinking_is_never_refused(model, output_version, tmp_path):
    """The newer model binds its thinking to the page before it."""
    place = f"sqlite:{tmp_path}/a.db"
    middleware = RefoldMiddleware(store=place, window=WINDOW)
    config = {"recursion_limit": 60, "configurable": {"thread_id": "harbour"}}
    is_bound = model == "claude-opus-5-5"
    by_budget = {"type": "enabled", "budget_tokens": 1_024}
    with long_run("anthropic") as upstream:
        chat = ChatAnthropic(
            model=model,
            api_key="none",
            base_url=upstream.url,
            max_tokens=2_000,
            thinking={"type": "adaptive"} if is_bound else by_budget,
            output_version=output_version,
        )
        saver = InMemorySaver()
        agent = create_agent(chat, [tool(weigh)], middleware=[middleware], checkpointer=saver)
        for question in QUESTIONS:
            agent.invoke({"messages": [HumanMessage(question)]}, config)
    middleware.close()
    check_long_run(upstream, place)
    assert b'"signature"' in upstream.requests[-1].raw


def test_nothing_is_touched_before_it_has_to_be():
    model = Scripted(messages=calls(3), sent=[])
    state = ran(model, RefoldMiddleware(store="memory:", window=200_000))
    for sent in model.sent:
        assert all(any(one is own for own in state) for one in sent[1:])


def test_unfolded_messages_are_the_very_objects_of_the_state():
    model = Scripted(messages=calls(30), sent=[])
    state = ran(model, RefoldMiddleware(store="memory:", window=16_000))
    assert any(
        any(one is own for own in state) for one in model.sent[-1] if isinstance(one, ToolMessage)
    )


def test_thinking_under_a_page_that_changed_is_not_sent():
    thinking = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "x"},
    ]
    model = Scripted(messages=calls(30, thinking), sent=[])
    ran(model, RefoldMiddleware(store="memory:", model="claude-sonnet-5-5", window=16_000))
    folded = next(
        sent for sent in model.sent if len(sent) < len(model.sent[model.sent.index(sent) - 1])
    )
    assert "thinking" not in str([one.content for one in folded])


def test_threads_are_conversations_of_their_own_and_go_on(tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    middleware = RefoldMiddleware(store=place)
    model = Scripted(messages=iter([AIMessage(str(number)) for number in range(4)]), sent=[])
    agent = create_agent(model, [], middleware=[middleware], checkpointer=InMemorySaver())
    for text in ("one", "two"):
        for thread in ("a", "b"):
            given = {"messages": [HumanMessage(f"{text} {thread}")]}
            agent.invoke(given, {"configurable": {"thread_id": thread}})
    middleware.close()
    there = refold.conversations.list(place)
    assert sorted(one.names for one in there) == [("langchain/a",), ("langchain/b",)]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("streams", [False, True])
def test_an_answer_is_in_the_log_when_it_comes_and_once(is_async, streams, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    call = {"name": "read", "args": {"path": "a.py"}}
    answers = [
        AIMessage("", tool_calls=[{**call, "id": "c1"}], usage_metadata=USAGE),
        AIMessage("The clock.", usage_metadata=USAGE),
        AIMessage("", tool_calls=[{**call, "id": "c2"}], usage_metadata=USAGE),
        AIMessage("Yes.", usage_metadata=USAGE),
    ]
    middleware = RefoldMiddleware(store=place)
    model = Scripted(messages=iter(answers), sent=[])
    agent = create_agent(model, [read], middleware=[middleware], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}

    async def run(text: str) -> None:
        given = {"messages": [HumanMessage(text)]}
        if is_async and streams:
            async for _ in agent.astream(given, config, stream_mode="values"):
                pass
        elif is_async:
            await agent.ainvoke(given, config)
        elif streams:
            list(agent.stream(given, config, stream_mode="values"))
        else:
            agent.invoke(given, config)

    asyncio.run(run("Why?"))
    assert said_in(place) == FIRST_RUN
    asyncio.run(run("Sure?"))
    assert said_in(place) == FIRST_RUN + SECOND_RUN
    middleware.close()


@pytest.mark.parametrize("manages", [False, True])
def test_that_another_middleware_shortens_as_well_is_said_once(manages, caplog):
    summaries = GenericFakeChatModel(messages=iter([AIMessage("It reads files.")] * 20))
    others = [
        SummarizationMiddleware(summaries, trigger=("messages", 6), keep=("messages", 2)),
        ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=0)]),
    ]
    middleware = RefoldMiddleware(store="memory:")
    model = Scripted(messages=calls(8), sent=[])
    chain = [*others, middleware] if manages else [middleware]
    create_agent(model, [read], middleware=chain).invoke({"messages": [HumanMessage("Fix it")]})
    for name in ("SummarizationMiddleware", "ContextEditingMiddleware"):
        assert caplog.text.count(f"both {name} and refold shorten") == manages
    middleware.close()


def test_a_tool_of_the_provider_that_langchain_cannot_describe_is_sent():
    middleware = RefoldMiddleware(store="memory:")
    model = Scripted(messages=calls(0), sent=[])
    agent = create_agent(model, [{"google_search": {}}], middleware=[middleware])
    done = agent.invoke({"messages": [HumanMessage("Fix it")]})
    assert done["messages"][-1].content == "Done."
    middleware.close()


def test_the_guide_runs_as_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_guide("langchain.md")
    out = capsys.readouterr().out
    assert "The clock is mocked." in out
    assert "2 messages in the conversation" in out
