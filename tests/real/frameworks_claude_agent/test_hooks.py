"""The real Claude Code, which `claude-agent-sdk` brings, with refold in its hooks, against a server
that refuses what the provider refuses."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

import refold
from tests.real.frameworks_claude_agent.test_claude_agent import QUIET
from tests.real.proxy.strict.script import Answer, Script
from tests.real.proxy.strict.server import Upstream, serving
from tests.real.proxy.strict.talks import text, thought
from tests.real.proxy.strict.wire import Json

MODEL = "claude-opus-5-5"
REFOLD = str(Path(sys.executable).parent / "refold")
COMMAND = "seq 1 6000"
OUTPUT = "\n".join(map(str, range(1, 6_001)))
WAIT_S = 180.0


class Room:
    """A project with the hooks installed, and a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.work, self.home = folder / "work", folder / "home"
        self.work.mkdir()
        self.home.mkdir()
        self.state = folder / "state"
        self.environment = {
            **QUIET,
            "HOME": str(self.home),
            "CLAUDE_CONFIG_DIR": str(self.home),
            "XDG_STATE_HOME": str(self.state),
        }
        done = self.refold("install", "claude-code", "--hooks", "--yes")
        assert done.returncode == 0, done.stderr

    def refold(self, *args: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **self.environment}
        return subprocess.run(
            [REFOLD, *args],
            cwd=self.work,
            env=environment,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )

    def ask(self, prompt: str, upstream: Upstream, **more: Any) -> ResultMessage:
        options = ClaudeAgentOptions(
            env={**self.environment, "ANTHROPIC_BASE_URL": upstream.url},
            cwd=self.work,
            max_turns=4,
            model=MODEL,
            allowed_tools=["Bash"],
            setting_sources=["user", "project", "local"],
            **more,
        )

        async def asked() -> ResultMessage:
            found = [one async for one in query(prompt=prompt, options=options)]
            return [one for one in found if isinstance(one, ResultMessage)][-1]

        return asyncio.run(asked())

    @property
    def errors(self) -> str:
        log = self.state / "refold" / "hooks" / "errors.log"
        return log.read_text() if log.exists() else ""

    def conversation(self, session: str) -> refold.Context:
        place = f"sqlite:{self.work}/.refold/refold.db"
        return refold.open(f"claude-code-{session}", store=place, read_only=True)

    def waited_for(self, session: str, count: int) -> refold.Context:
        """The conversation, once it has so many messages."""
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            try:
                context = self.conversation(session)
            except refold.RefoldError:
                time.sleep(0.2)
                continue
            if len(context.view.slots) >= count:
                return context
            context.close()
            time.sleep(0.2)
        raise AssertionError(f"the session was never written: {self.errors}")


def run_once(request: Json) -> Answer:
    """Runs the command, then says that it is done; a summary where one is asked for."""
    said = json.dumps(request["messages"])
    if "create a detailed summary" in said[-8_000:].lower():
        return Answer([text("<summary>They counted.</summary>")])
    if request.get("tools") and "Count" in said and '"tool_use"' not in said:
        given = {"command": COMMAND, "description": "Count"}
        use = {"type": "tool_use", "id": "toolu_01", "name": "Bash", "input": given}
        return Answer([thought("I count."), use])
    return Answer([thought("That was it."), text("Counted.")])


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_a_large_output_reaches_the_model_as_a_stub_and_the_log_whole(room):
    with serving(script=Script(choose=run_once)) as upstream:
        done = room.ask("Count, please.", upstream)
        assert done.result == "Counted."
        sent = upstream.requests[-1].body["messages"]
    assert upstream.refusals == []
    [result] = [
        block
        for message in sent
        for block in message["content"]
        if isinstance(block, dict) and block.get("type") == "tool_result"
    ]
    stub = result["content"]
    assert "Large output of Bash: seq 1 6000: 6,000 lines" in stub and len(stub) < 2_500
    handle = stub.split("artifact://")[1][:16]
    with room.waited_for(done.session_id, 4) as context:
        assert str(context.artifacts.value(handle)).strip() == OUTPUT
        assert [hit.seq for hit in context.search("Count")]
    shown = room.refold("artifact", "show", f"claude-code-{done.session_id}", handle)
    assert shown.stdout.strip() == OUTPUT
    assert room.errors == ""


def test_after_a_compaction_the_model_reads_what_the_log_knows(room):
    with serving(script=Script(choose=run_once)) as upstream:
        first = room.ask("Count, please. Never count backwards.", upstream)
        room.waited_for(first.session_id, 4).close()
        room.ask("/compact", upstream, resume=first.session_id)
        room.ask("And again?", upstream, resume=first.session_id)
        sent = json.dumps(upstream.requests[-1].body["messages"])
    # Its own: Claude Code keeps an answer behind its summary, and sends it again without thinking.
    assert all("bound to a different conversation" in one for one in upstream.refusals)
    assert len(upstream.refusals) <= 1
    assert "This session was compacted. refold kept all of it" in sent
    assert "Never count backwards." in sent
    with room.waited_for(first.session_id, 2) as context:
        assert any(slot.edits for slot in context.view.slots)
    assert room.errors == ""


def test_a_broken_refold_never_stops_the_agent(room):
    """The state of hooks cannot be written: the output comes as it is."""
    (room.state).write_text("in the way")
    with serving(script=Script(choose=run_once)) as upstream:
        done = room.ask("Count, please.", upstream)
        assert done.result == "Counted."
        sent = json.dumps(upstream.requests[-1].body["messages"])
    assert "5999" in sent and "artifact://" not in sent
    assert upstream.refusals == []
