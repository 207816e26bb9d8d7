"""The Claude Agent SDK keeps its sessions in refold: its own conformance suite, and the real CLI
that the package brings, against a scripted server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    get_session_messages_from_store,
    list_sessions_from_store,
    query,
)
from claude_agent_sdk.testing import run_session_store_conformance

import refold
from refold.edges.adapters.claude_agent import RefoldSessionStore
from tests.real.answers import said_in
from tests.real.frameworks_claude_agent.scripted import streamed
from tests.real.guides import run_guide
from tests.servers import serving

KEY = {"project_key": "-home-me/app", "session_id": "s 1"}
QUIET = {
    "ANTHROPIC_API_KEY": "none",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}


def entry(uuid: str, role: str, content: object, **more: object) -> dict[str, object]:
    message = {"role": role, "content": content}
    return {
        "type": role,
        "uuid": uuid,
        "timestamp": "2026-05-01T10:11:12.000Z",
        "message": message,
        **more,
    }


@pytest.mark.parametrize("scheme", ["memory:", "sqlite:{}/a.db", "files:{}/a"])
def test_the_sdks_own_conformance_suite_passes(scheme, tmp_path):
    """All 14 contracts, each with a fresh store."""
    made = iter(range(1_000))

    def fresh():
        folder = tmp_path / str(next(made))
        return RefoldSessionStore(scheme.format(folder))

    asyncio.run(run_session_store_conformance(fresh))


def test_entries_come_back_equal_whatever_json_they_hold(tmp_path):
    entries = [
        {"type": "x", "half": "\ud83d", "number": 10**40, "deep": [{"a": None}] * 3, "real": 1e300},
        entry("u1", "user", "hello"),
        {"type": "user", "uuid": "u2", "message": {"role": "nobody", "content": 7}},
        {"type": "assistant", "uuid": "u3", "message": "not a message"},
    ]
    store = RefoldSessionStore(f"sqlite:{tmp_path}/a.db")
    asyncio.run(store.append(KEY, entries))
    store.close()
    again = RefoldSessionStore(f"sqlite:{tmp_path}/a.db")
    assert asyncio.run(again.load(KEY)) == entries


def test_a_batch_that_is_tried_again_is_not_kept_twice():
    store = RefoldSessionStore("memory:")
    batch = [
        entry("u1", "user", "hello"),
        entry("u2", "assistant", [{"type": "text", "text": "hi"}]),
    ]
    for _ in range(3):
        asyncio.run(store.append(KEY, batch))
    assert asyncio.run(store.load(KEY)) == batch


def test_a_session_is_a_conversation_like_any_other(tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    store = RefoldSessionStore(place)
    said = [
        entry("u1", "user", "Why does the login test fail?"),
        entry("u2", "assistant", "The clock."),
    ]
    asyncio.run(store.append(KEY, said))
    store.close()
    [about] = refold.conversations.list(place)
    assert about.names == ("claude-code/-home-me%2Fapp/s%201",)
    with refold.open(about.id, store=place, read_only=True) as context:
        assert [hit.seq for hit in context.search("login")]
        assert [slot.message.role for slot in context.view.slots] == ["user", "assistant"]


def test_a_compaction_of_the_host_is_one_that_can_be_undone(tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    store = RefoldSessionStore(place)
    said = [entry("u1", "user", "Why?"), entry("u2", "assistant", "The clock.")]
    summary = entry("u3", "user", "It was the clock.", isCompactSummary=True)
    asyncio.run(store.append(KEY, [*said, summary, entry("u4", "user", "Mend it.")]))
    store.close()
    [about] = refold.conversations.list(place)
    with refold.open(about.id, store=place) as context:
        assert len(context.view.slots) == 2
        context.undo()
        assert len(context.view.slots) == 3


# --- the real CLI ---


async def asked(prompt: str, options: ClaudeAgentOptions) -> ResultMessage:
    results = [
        one async for one in query(prompt=prompt, options=options) if isinstance(one, ResultMessage)
    ]
    return results[-1]


def options_for(store: RefoldSessionStore, url: str, home: Path, work: Path, **more: object):
    home.mkdir(exist_ok=True)
    environment = {
        **QUIET,
        "ANTHROPIC_BASE_URL": url,
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home),
    }
    return ClaudeAgentOptions(session_store=store, env=environment, cwd=work, max_turns=1, **more)


def test_the_real_cli_goes_on_with_a_session_that_only_refold_has(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    place = f"sqlite:{tmp_path}/a.db"
    store = RefoldSessionStore(place)
    with serving(streamed("The clock is mocked.")) as server:
        first = asyncio.run(
            asked("Why does it fail?", options_for(store, server.url, tmp_path / "one", work))
        )
        assert first.result == "The clock is mocked."
        assert said_in(place)[-1] == "assistant: The clock is mocked."
        resumed = options_for(store, server.url, tmp_path / "two", work, resume=first.session_id)
        asyncio.run(asked("Are you sure?", resumed))
        sent = json.dumps(server.seen[-1][2]["messages"])
    assert said_in(place).count("assistant: The clock is mocked.") == 2  # it says so twice
    assert all(
        text in sent for text in ("Why does it fail?", "The clock is mocked.", "Are you sure?")
    )
    [session] = asyncio.run(list_sessions_from_store(store, directory=str(work)))
    assert session.first_prompt == "Why does it fail?"
    messages = asyncio.run(
        get_session_messages_from_store(store, first.session_id, directory=str(work))
    )
    assert [one.type for one in messages] == ["user", "assistant", "user", "assistant"]


def test_the_guide_runs_as_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with serving(streamed("The clock is mocked.")) as server:
        for name, value in {
            **QUIET,
            "ANTHROPIC_BASE_URL": server.url,
            "HOME": str(tmp_path),
        }.items():
            monkeypatch.setenv(name, value)
        run_guide("claude-agent-sdk.md")
    assert "login test" in capsys.readouterr().out
