"""pydantic-ai's real agents with the capability: what is sent, what the history keeps, and whose
objects are sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import RequestUsage, UsageLimits

import refold
from refold.dialects import dialect
from refold.edges.adapters.pydantic_ai import RefoldCapability, wire_of
from tests.real.answers import FIRST_RUN, SECOND_RUN, said_in
from tests.real.guides import run_guide
from tests.real.long_run import QUESTIONS, WINDOW, check_long_run, long_run, weigh

LIMITS = UsageLimits(request_limit=200)
IMAGE = BinaryContent(b"\x89PNG", media_type="image/png")


@pytest.fixture(autouse=True)
def event_loop() -> Iterator[None]:
    """The event loop that `run_sync` uses and does not close."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


class Scripted:
    """A model that reads so many files, and keeps what it was sent."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.sent: list[list[ModelMessage]] = []

    def __call__(self, messages: list[ModelMessage], info: object) -> ModelResponse:
        self.sent.append(list(messages))
        number = len(self.sent)
        usage = RequestUsage(input_tokens=900, output_tokens=20)
        if number > self.count:
            return ModelResponse([TextPart("Done.")], usage=usage)
        call = ToolCallPart("read", {"path": f"file{number}.py"}, f"call_{number}")
        return ModelResponse([ThinkingPart("hm"), TextPart("Reading."), call], usage=usage)


def agent_of(model: Scripted, capability: RefoldCapability) -> Agent:
    agent = Agent(FunctionModel(model), system_prompt="You fix tests.", capabilities=[capability])

    @agent.tool_plain(retries=3)
    def read(path: str) -> str:
        """Reads a file."""
        if path == "file2.py":
            raise ModelRetry("no such file")
        return f"a line of {path} that says something\n" * 300

    return agent


def test_a_long_run_is_folded_and_the_history_keeps_all(tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    capability, model = RefoldCapability(store=place, window=16_000), Scripted(30)
    prompt = ["Fix the login test", IMAGE]
    result = agent_of(model, capability).run_sync(
        prompt, usage_limits=LIMITS, conversation_id="c 1"
    )
    capability.close()
    assert result.output == "Done."
    assert len(result.all_messages()) == 62
    assert len(model.sent[-1]) < 30
    for sent in model.sent:
        assert (
            dialect("anthropic").check(
                {"model": "m", "max_tokens": 1, "messages": [wire_of(one) for one in sent]}
            )
            == []
        )
        parts = [part for one in sent if isinstance(one, ModelRequest) for part in one.parts]
        assert [part.content for part in parts if isinstance(part, SystemPromptPart)] == [
            "You fix tests."
        ]
    [about] = refold.conversations.list(place)
    assert about.names == ("pydantic-ai/c 1",)
    with refold.open(about.id, store=place, read_only=True) as context:
        assert context.search("file1.py")
        assert context.view.totals.input


MODELS = {
    "anthropic": lambda url: AnthropicModel(
        "claude-opus-5-5", provider=AnthropicProvider(api_key="none", base_url=url)
    ),
    "openai_chat": lambda url: OpenAIChatModel(
        "gpt-5", provider=OpenAIProvider(api_key="none", base_url=f"{url}/v1")
    ),
    "openai_responses": lambda url: OpenAIResponsesModel(
        "gpt-5", provider=OpenAIProvider(api_key="none", base_url=f"{url}/v1")
    ),
}


@pytest.mark.parametrize("api", MODELS)
def test_a_long_run_is_never_refused(api, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    capability = RefoldCapability(store=place, window=WINDOW)
    settings = {"anthropic_thinking": {"type": "adaptive"}} if api == "anthropic" else {}

    async def run(url: str) -> None:
        model = MODELS[api](url)
        agent = Agent(model, instructions="You weigh.", tools=[weigh], capabilities=[capability])
        history: list[ModelMessage] = []
        async with model.client:
            for question in QUESTIONS:
                result = await agent.run(
                    question,
                    message_history=history,
                    conversation_id="harbour",
                    model_settings=settings,
                )
                history = result.all_messages()

    with long_run(api) as upstream:
        asyncio.run(run(upstream.url))
    capability.close()
    check_long_run(upstream, place)


@pytest.mark.parametrize("window", [16_000, 200_000])
def test_unfolded_messages_are_the_very_objects_of_the_history(window):
    model = Scripted(30)
    result = agent_of(model, RefoldCapability(store="memory:", window=window)).run_sync(
        "Fix", usage_limits=LIMITS
    )
    history = {id(one) for one in result.all_messages()}
    results = [
        one
        for one in model.sent[-1]
        if isinstance(one, ModelRequest)
        and any(isinstance(part, ToolReturnPart) for part in one.parts)
    ]
    assert results
    assert all(id(one) in history for one in results)


def test_a_second_run_goes_on_in_the_same_conversation(tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    capability, model = RefoldCapability(store=place), Scripted(0)
    agent = agent_of(model, capability)
    first = agent.run_sync("Why?", conversation_id="c")
    agent.run_sync("Are you sure?", message_history=first.all_messages())
    capability.close()
    assert len(refold.conversations.list(place)) == 1
    said = [part.content for one in model.sent[-1] for part in one.parts]
    assert said == ["You fix tests.", "Why?", "Done.", "Are you sure?"]


class Answering:
    """A model that answers in turn, streamed if it is asked to."""

    def __init__(self) -> None:
        call = ToolCallPart("read", {"path": "a.py"}, "c1")
        self.answers = [
            [call],
            [TextPart("The clock.")],
            [ToolCallPart("read", {"path": "a.py"}, "c2")],
            [TextPart("Yes.")],
        ]

    def __call__(self, messages: list[ModelMessage], info: object) -> ModelResponse:
        usage = RequestUsage(input_tokens=900, output_tokens=20)
        return ModelResponse(self.answers.pop(0), usage=usage)

    async def stream(self, messages: list[ModelMessage], info: object):
        for part in self.answers.pop(0):
            if isinstance(part, TextPart):
                for piece in part.content:
                    yield piece
            else:
                args = json.dumps(part.args)
                yield {0: DeltaToolCall(part.tool_name, args, tool_call_id=part.tool_call_id)}


@pytest.mark.parametrize("streams", [False, True])
def test_an_answer_is_in_the_log_when_it_comes_and_once(streams, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    capability, model = RefoldCapability(store=place), Answering()
    agent = Agent(FunctionModel(model, stream_function=model.stream), capabilities=[capability])

    @agent.tool_plain
    def read(path: str) -> str:
        return f"the lines of {path}"

    async def run(text: str, history: list[ModelMessage]) -> list[ModelMessage]:
        given = {"message_history": history, "conversation_id": "c"}
        if not streams:
            return (await agent.run(text, **given)).all_messages()
        async with agent.run_stream(text, **given) as result:
            await result.get_output()
            return result.all_messages()

    history = asyncio.run(run("Why?", []))
    assert said_in(place) == FIRST_RUN
    asyncio.run(run("Sure?", history))
    assert said_in(place) == FIRST_RUN + SECOND_RUN
    capability.close()


class SummarizingCompaction(AbstractCapability):
    """Named like one of `pydantic-ai-harness`."""


class ClearToolResults(AbstractCapability):
    """Another one of its names."""


@pytest.mark.parametrize("manages", [False, True])
def test_that_another_capability_shortens_as_well_is_said_once(manages, caplog):
    capability, model = RefoldCapability(store="memory:"), Scripted(3)
    others = [ClearToolResults(), SummarizingCompaction()] if manages else []
    agent = Agent(FunctionModel(model), capabilities=[capability, *others])

    @agent.tool_plain
    def read(path: str) -> str:
        return f"the lines of {path}"

    agent.run_sync("Fix it")
    for name in ("ClearToolResults", "SummarizingCompaction"):
        assert caplog.text.count(f"both {name} and refold shorten") == manages
    capability.close()


def test_the_guide_runs_as_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_guide("pydantic-ai.md")
    out = capsys.readouterr().out
    assert "The clock is mocked." in out
    assert "2 messages in the conversation" in out
