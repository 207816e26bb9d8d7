"""The real Codex, where it is installed (`npm install @openai/codex`), started by `refold run`
against the strict upstream. It asks for a websocket first, is refused, and goes on over HTTP."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.real.proxy.process import COMMAND, told_by
from tests.real.proxy.strict.script import Answer, Script
from tests.real.proxy.strict.server import serving

PROGRAM = os.environ.get("REFOLD_CODEX") or shutil.which("codex")
ABSENT = "codex is not installed: REFOLD_CODEX names the program"
STEPS = 20


def answer_to(request: dict[str, Any]) -> Answer:
    """A command at every step, each with its reasoning; then the end."""
    items = [one for one in request["input"] if one.get("type") == "function_call_output"]
    done = [one["call_id"] for one in items if one["call_id"].startswith("call_")]
    step = max((int(id[-4:]) for id in done), default=-1) + 1
    if step == STEPS:
        part = {"type": "output_text", "text": "All done.", "annotations": []}
        return Answer([{"type": "message", "role": "assistant", "content": [part]}])
    names = [tool.get("name") for tool in request["tools"]]
    counting = f"seq {step * 1_000} {step * 1_000 + 900}"
    given: dict[str, Any] = {"cmd": counting}
    if "exec_command" not in names:
        given = {"command": counting.split()}
    call = {
        "type": "function_call",
        "call_id": f"call_{step:04d}",
        "name": "exec_command" if "exec_command" in names else "shell",
        "arguments": json.dumps(given),
    }
    return Answer([{"type": "reasoning", "summary": []}, call])


@pytest.mark.skipif(PROGRAM is None, reason=ABSENT)
@pytest.mark.parametrize("options", [(), ("--fold", "--window", "30000")])
def test_codex_works_behind_the_proxy(options: tuple[str, ...], tmp_path: Path) -> None:
    assert PROGRAM is not None
    store = f"sqlite:{tmp_path}/codex.db"
    (tmp_path / "config.toml").write_text('model = "gpt-5.5"\n')
    asked = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "count"]
    with serving(script=Script(choose=answer_to), window=400_000) as upstream:
        own = {"CODEX_API_KEY": "none", "CODEX_HOME": str(tmp_path), "HOME": str(tmp_path)}
        done = subprocess.run(
            [*COMMAND, "run", *options, "--store", store, PROGRAM, *asked],
            env={**os.environ, **own, "OPENAI_BASE_URL": f"{upstream.url}/v1"},
            cwd=tmp_path,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=180,
            text=True,
        )
    assert done.returncode == 0 and "All done." in done.stdout, done.stderr
    assert upstream.refusals == []
    assert len(upstream.requests) == STEPS + 1
    total = told_by(store, "proxy", "--report")["total"]
    assert total["calls"] == STEPS
    if options:
        assert total["folded"] > 0 and total["sent"] < 0.8 * total["input"]


def looked_up_first(request: dict[str, Any]) -> Answer:
    """The same by a model that looks something up before every fourth command, at the last one
    beside it."""
    answer = answer_to(request)
    step = int(answer.said[-1].get("call_id", "0")[-4:])
    own = f"own_{step:04d}"
    if step % 4 or own in json.dumps(request["input"]) or not request.get("tools"):
        return answer
    arguments = json.dumps({"query": "1000"})
    call = {"call_id": own, "name": "refold_search", "arguments": arguments}
    call = {"type": "function_call", **call}
    if step == STEPS - 4:
        return Answer([*answer.said[:-1], call, answer.said[-1]])
    return Answer([{"type": "reasoning", "summary": []}, call])


@pytest.mark.skipif(PROGRAM is None, reason=ABSENT)
def test_codex_notices_nothing_of_tools_that_are_answered_inside(tmp_path: Path) -> None:
    assert PROGRAM is not None
    store = f"sqlite:{tmp_path}/codex.db"
    (tmp_path / "config.toml").write_text('model = "gpt-5.5"\n')
    asked = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    options = ["--tools", "--window", "30000", "--store", store]
    with serving(script=Script(choose=looked_up_first), window=400_000) as upstream:
        own = {"CODEX_API_KEY": "none", "CODEX_HOME": str(tmp_path), "HOME": str(tmp_path)}
        done = subprocess.run(
            [*COMMAND, "run", *options, PROGRAM, *asked, "count up"],
            env={**os.environ, **own, "OPENAI_BASE_URL": f"{upstream.url}/v1"},
            cwd=tmp_path,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=180,
            text=True,
        )
    assert done.returncode == 0 and "All done." in done.stdout, done.stderr
    assert "refold_search" not in done.stdout + done.stderr
    assert upstream.refusals == []
    rounds = [one for one in upstream.requests if "own_" in one.raw.decode()]
    assert rounds and all("refold_search" in str(one.body["tools"]) for one in rounds)
