"""Strands' real agent with the manager, against an upstream as strict as the provider."""

from __future__ import annotations

import asyncio
import gc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strands import Agent, tool
from strands.models.anthropic import AnthropicModel
from strands.types.exceptions import ContextWindowOverflowException

import refold
from refold.dialects import dialect
from refold.edges.adapters.strands import RefoldConversationManager, from_wire, to_wire
from tests.real.answers import FIRST_RUN, SECOND_RUN, said_in
from tests.real.guides import run_guide
from tests.real.long_run import QUESTIONS, WINDOW, check_long_run, long_run, weigh
from tests.real.proxy.strict.script import Failure
from tests.real.proxy.strict.server import serving

MODEL = "claude-sonnet-5-5"
TURNS = 30

# Strands leaves the connections of its client to the collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def collected():
    yield
    gc.collect()


@tool
def read(path: str) -> str:
    """Reads a file."""
    return f"the lines of {path}\n" * 300


def turns(count: int, thinks: bool) -> list[list[dict[str, object]]]:
    """Calls of a tool, and the end."""
    thought = [{"type": "thinking", "thinking": "Which file next?"}] if thinks else []
    calls = [
        {"type": "tool_use", "id": f"t{n}", "name": "read", "input": {"path": f"file{n}.py"}}
        for n in range(count)
    ]
    return [*([*thought, call] for call in calls), [{"type": "text", "text": "Done."}]]


def model_at(url: str, thinks: bool = False) -> AnthropicModel:
    given = {"api_key": "none", "base_url": url, "max_retries": 0}
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1_024}} if thinks else {}
    return AnthropicModel(
        client_args=given, model_id=MODEL, max_tokens=2_000, params=thinking or None
    )


def agent_at(url: str, manager: RefoldConversationManager, thinks: bool = False) -> Agent:
    return Agent(
        model=model_at(url, thinks),
        tools=[read],
        system_prompt="You fix tests.",
        conversation_manager=manager,
        callback_handler=None,
        retry_strategy=None,
    )


def test_a_long_run_is_never_refused(tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    manager = RefoldConversationManager("harbour", store=place, window=WINDOW)

    async def run(url: str) -> None:
        agent = Agent(
            model=model_at(url, thinks=True),
            tools=[tool(weigh)],
            conversation_manager=manager,
            callback_handler=None,
            retry_strategy=None,
        )
        for question in QUESTIONS:
            await agent.invoke_async(question)

    with long_run("anthropic") as upstream:
        asyncio.run(run(upstream.url))
    manager.close()
    check_long_run(upstream, place)


@pytest.mark.parametrize("thinks", [False, True])
def test_a_long_run_is_folded_and_the_agent_keeps_all(thinks, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    manager = RefoldConversationManager("fix", store=place, window=16_000)
    with serving(*turns(TURNS, thinks)) as upstream:
        agent = agent_at(upstream.url, manager, thinks)
        answer = agent("Fix the login test")
    manager.close()
    assert "Done." in str(answer)
    assert upstream.refusals == []
    assert not any(dialect("anthropic").check(one.body) for one in upstream.requests)
    assert len(upstream.requests) == TURNS + 1
    assert len(agent.messages) == 2 * (TURNS + 1)
    assert len(upstream.requests[-1].body["messages"]) < TURNS
    for one in upstream.requests:
        roles = [message["role"] for message in one.body["messages"]]
        assert all(role != before for before, role in pairwise(roles))
    [about] = refold.conversations.list(place)
    assert about.names == ("strands/fix",)
    with refold.open(about.id, store=place, read_only=True) as context:
        assert context.search("file1.py")
        assert context.view.totals.input


def test_a_second_process_goes_on_with_the_same_conversation(tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    with serving(*turns(4, False), *turns(0, False)) as upstream:
        first = RefoldConversationManager("fix", store=place)
        agent = agent_at(upstream.url, first)
        agent("Fix the login test")
        first.close()
        again = RefoldConversationManager("fix", store=place)
        other = agent_at(upstream.url, again)
        other.messages.extend(agent.messages)
        other("And now?")
        again.close()
    assert len(refold.conversations.list(place)) == 1


def test_a_page_that_is_refused_as_too_long_is_folded_further(tmp_path):
    manager = RefoldConversationManager("fix", store=f"sqlite:{tmp_path}/a.db")
    calls = turns(12, False)
    with serving(*calls[:10], Failure(400, says_tokens=(30_000, 20_000)), *calls[10:]) as upstream:
        agent = agent_at(upstream.url, manager)
        assert "Done." in str(agent("Fix the login test"))
    manager.close()
    sizes = [len(one.raw) for one in upstream.requests]
    assert sizes[11] < sizes[10]
    assert len(agent.messages) == 26


def test_what_cannot_be_made_smaller_is_the_frameworks_own_error(tmp_path):
    manager = RefoldConversationManager("fix", store=f"sqlite:{tmp_path}/a.db")
    refused = Failure(400, says_tokens=(30_000, 20_000))
    with serving(*[refused] * 20) as upstream:
        agent = agent_at(upstream.url, manager)
        with pytest.raises(ContextWindowOverflowException):
            agent("Fix the login test")
    manager.close()
    assert [message["role"] for message in agent.messages] == ["user"]


def test_the_list_is_whole_again_whatever_ends_a_call(tmp_path):
    manager = RefoldConversationManager("fix", store=f"sqlite:{tmp_path}/a.db", window=16_000)
    with serving(*turns(TURNS, False)[:-1], Failure(500)) as upstream:
        agent = agent_at(upstream.url, manager)
        with pytest.raises(Exception, match="script says so"):
            agent("Fix the login test")
    manager.close()
    assert len(agent.messages) == 2 * TURNS + 1


# --- messages ---

TEXTS = st.text(max_size=20)
NAMES = st.sampled_from(["read", "write"])
BYTES = st.binary(max_size=20)
IMAGES = st.builds(
    lambda data: {"image": {"format": "png", "source": {"bytes": data}}}, BYTES.filter(bool)
)
PLAIN = st.builds(lambda text: {"text": text}, TEXTS)
RESULTS = st.builds(
    lambda id, status, content: {
        "toolResult": {"toolUseId": id, "status": status, "content": content}
    },
    NAMES,
    st.sampled_from(["success", "error"]),
    st.lists(PLAIN | IMAGES, min_size=1, max_size=3),
)
CALLS = st.builds(
    lambda id, name, text: {"toolUse": {"toolUseId": id, "name": name, "input": {"a": text}}},
    NAMES,
    NAMES,
    TEXTS,
)
THOUGHTS = st.builds(
    lambda text, seal: {"reasoningContent": {"reasoningText": {"text": text, "signature": seal}}},
    TEXTS,
    TEXTS,
)
HIDDEN = st.builds(lambda data: {"reasoningContent": {"redactedContent": data}}, BYTES)
OTHERS = st.builds(
    lambda data, name: {"document": {"format": "pdf", "name": name, "source": {"bytes": data}}},
    BYTES,
    TEXTS,
) | st.builds(lambda text: {"guardContent": {"text": {"text": text}}}, TEXTS)
SIGNED = st.builds(
    lambda call, seal: {"toolUse": {**call["toolUse"], "reasoningSignature": seal}}, CALLS, TEXTS
)
BLOCKS = PLAIN | RESULTS | CALLS | THOUGHTS | HIDDEN | IMAGES | OTHERS | SIGNED


@given(st.sampled_from(["user", "assistant"]), st.lists(BLOCKS, max_size=5))
def test_messages_come_back_as_they_went(role, blocks):
    message = {"role": role, "content": blocks}
    assert from_wire(to_wire(message)) == message


def test_an_answer_is_in_the_log_when_it_comes_and_once(tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    manager = RefoldConversationManager("fix", store=place)
    call = {"type": "tool_use", "name": "read", "input": {"path": "a.py"}}
    plays = [
        [{**call, "id": "t1"}],
        [{"type": "text", "text": "The clock."}],
        [{**call, "id": "t2"}],
        [{"type": "text", "text": "Yes."}],
    ]

    async def main(url: str) -> None:
        agent = agent_at(url, manager)
        await agent.invoke_async("Why?")
        assert said_in(place) == FIRST_RUN
        await agent.invoke_async("Sure?")
        assert said_in(place) == FIRST_RUN + SECOND_RUN

    with serving(*plays) as upstream:
        asyncio.run(main(upstream.url))
    manager.close()


def test_that_strands_ignores_the_manager_beside_its_own_is_said_by_strands(tmp_path):
    manager = RefoldConversationManager("fix", store=f"sqlite:{tmp_path}/a.db")
    with pytest.warns(UserWarning, match="ignoring co-provided conversation_manager"):
        Agent(
            model=model_at("http://127.0.0.1:9"),
            conversation_manager=manager,
            context_manager="auto",
            callback_handler=None,
        )
    manager.close()


def test_the_guide_runs_as_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with serving([{"type": "text", "text": "Because of the clock."}]) as up:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", up.url)
        run_guide("strands.md")
    out = capsys.readouterr().out
    assert "Because of the clock." in out
    assert "2 messages in the conversation" in out
