"""The real Claude Code, which `claude-agent-sdk` brings, started by `refold run` against the strict
upstream: a long tool loop with thinking, folded, and nothing refused."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.real.proxy.process import COMMAND, told_by
from tests.real.proxy.strict.script import Answer, Script
from tests.real.proxy.strict.server import serving

STEPS = 40
SEQ = re.compile(r"seq (\d+) \d+")
QUIET = {
    "ANTHROPIC_API_KEY": "none",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "IS_SANDBOX": "1",
}


def program() -> Path:
    found = importlib.util.find_spec("claude_agent_sdk")
    assert found is not None and found.origin is not None, "claude-agent-sdk is not installed"
    return Path(found.origin).parent / "_bundled" / "claude"


def answer_to(request: dict[str, Any]) -> Answer:
    """A command at every step, each with its thinking; then the end."""
    if not request.get("tools"):
        return Answer([{"type": "text", "text": "A title"}])
    # By its commands, and not by the ids of results: a loop that was cut by a fold is said as text.
    begun = SEQ.findall(json.dumps(request["messages"]))
    step = max((int(first) // 1_000 for first in begun), default=-1) + 1
    if step == STEPS:
        return Answer([{"type": "text", "text": "All done."}])
    # Some results are stubs from the first, others are folded later.
    lines = 900 if step % 3 else 2_500
    command = {"command": f"seq {step * 1_000} {step * 1_000 + lines}", "description": "counts"}
    use = {"type": "tool_use", "id": f"toolu_{step:04d}", "name": "Bash", "input": command}
    return Answer([{"type": "thinking", "thinking": f"Step {step}."}, use])


LOOKUP = {"type": "tool_use", "name": "refold_search", "input": {"query": "1000"}}


def looked_up_first(request: dict[str, Any]) -> Answer:
    """The same by a model that looks something up before every fourth command, at the last one
    beside it."""
    answer = answer_to(request)
    step = int(answer.said[-1].get("id", "0")[-4:])
    own = f"own_{step:04d}"
    if not request.get("tools") or step % 4 or own in json.dumps(request["messages"]):
        return answer
    call = {**LOOKUP, "id": own}
    if step == STEPS - 4:
        return Answer([*answer.said[:-1], call, answer.said[-1]])
    return Answer([{"type": "thinking", "thinking": f"Before step {step}."}, call])


def test_claude_code_notices_nothing_of_tools_that_are_answered_inside(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path}/claude.db"
    asked = ["-p", "count", "--model", "claude-opus-5-5", "--allowedTools", "Bash(seq:*)"]
    with serving(script=Script(choose=looked_up_first), window=400_000) as upstream:
        environ = {**os.environ, **QUIET, "HOME": str(tmp_path), "ANTHROPIC_BASE_URL": upstream.url}
        options = ["--tools", "--window", "50000", "--store", store]
        done = subprocess.run(
            [*COMMAND, "run", *options, str(program()), *asked, "--output-format", "stream-json",
             "--verbose"],
            env=environ,
            cwd=tmp_path,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
            text=True,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "All done." in done.stdout
    assert "refold_search" not in done.stdout
    assert upstream.refusals == []
    calls = [one for one in upstream.requests if one.body.get("tools")]
    assert all("refold_search" in str(one.body["tools"]) for one in calls)
    assert told_by(store, "proxy", "--report")["total"]["calls"] == len(calls)


@pytest.mark.parametrize("options", [(), ("--fold", "--window", "50000"), ("--fold",)])
def test_claude_code_works_behind_the_proxy(options: tuple[str, ...], tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path}/claude.db"
    asked = ["-p", "count", "--model", "claude-opus-5-5", "--allowedTools", "Bash(seq:*)"]
    with serving(script=Script(choose=answer_to), window=400_000) as upstream:
        environ = {**os.environ, **QUIET, "HOME": str(tmp_path), "ANTHROPIC_BASE_URL": upstream.url}
        done = subprocess.run(
            [*COMMAND, "run", *options, "--store", store, str(program()), *asked],
            env=environ,
            cwd=tmp_path,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
            text=True,
        )
    assert (done.returncode, done.stdout) == (0, "All done.\n"), done.stderr
    assert upstream.refusals == []
    calls = [one for one in upstream.requests if one.body.get("tools")]
    assert len(calls) == STEPS + 1
    total = told_by(store, "proxy", "--report")["total"]
    assert total["calls"] == STEPS + 1
    if "--window" in options:
        assert total["folded"] > 0 and total["sent"] < 0.7 * total["input"]
