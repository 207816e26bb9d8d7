"""The real Claude Code behind the real proxy, which folds, against a server that refuses what the
provider refuses: a long tool loop in a small window is never refused, and never stops."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from tests.real.frameworks_claude_agent.test_claude_agent import QUIET
from tests.real.proxy.process import Process
from tests.real.proxy.strict.script import Answer, Script
from tests.real.proxy.strict.server import Upstream, serving
from tests.real.proxy.strict.talks import text, thought
from tests.real.proxy.strict.wire import Json

MODEL = "claude-opus-5-5"
ROUNDS, WINDOW = 14, 30_000


class Steps:
    """Runs a command in every answer, so many times, and then says that it is done."""

    def __init__(self, rounds: int, lines: int) -> None:
        self.left, self.lines = rounds, lines

    def __call__(self, request: Json) -> Answer:
        if not request.get("tools"):
            return Answer([text("A title")])
        if not self.left:
            return Answer([thought("Enough."), text("All done.")])
        self.left -= 1
        command = f"seq {self.left}000 {self.left}{self.lines:03} | sed 's/$/ some words of it/'"
        given = {"command": command, "description": "Run it"}
        use = {"type": "tool_use", "id": f"toolu_{self.left:03}", "name": "Bash", "input": given}
        return Answer([thought(f"{self.left} to go. " + "Hm. " * 20), use])


def asked(prompt: str, url: str, folder: Path, **more: object) -> ResultMessage:
    """What Claude Code answers with this base URL, in a home of its own."""
    home, work = folder / "home", folder / "work"
    home.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    environment = {**QUIET, "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home)}
    options = ClaudeAgentOptions(
        env={**environment, "ANTHROPIC_BASE_URL": url},
        cwd=work,
        max_turns=ROUNDS + 5,
        model=MODEL,
        allowed_tools=["Bash"],
        **more,
    )

    async def last() -> ResultMessage:
        found = [one async for one in query(prompt=prompt, options=options)]
        return [one for one in found if isinstance(one, ResultMessage)][-1]

    return asyncio.run(last())


def sizes_of(upstream: Upstream) -> list[int]:
    return [len(one.body["messages"]) for one in upstream.requests if one.body.get("tools")]


@pytest.mark.parametrize("lines", [200, 900], ids=["compacted", "large outputs"])
def test_a_long_loop_is_folded_and_never_refused(lines, tmp_path, monkeypatch):
    if lines == 900:
        monkeypatch.setenv("REFOLD_OFFLOAD_TOKENS", "4000")  # results are stubs from the first
    with serving(script=Script(choose=Steps(ROUNDS, lines))) as upstream:
        proxy = Process(tmp_path, upstream.url, "--fold", "--window", str(WINDOW))
        try:
            first = asked("Run everything.", proxy.url, tmp_path)
            again = asked("And again?", proxy.url, tmp_path, resume=first.session_id)
        finally:
            proxy.kill()
    assert (first.result, again.result) == ("All done.", "All done.")
    assert upstream.refusals == []
    newest = upstream.requests[-1].body["messages"]
    if lines == 200:
        assert max(sizes_of(upstream)) < 2 * ROUNDS
    else:
        assert json.dumps(newest).count("artifact://") >= ROUNDS
