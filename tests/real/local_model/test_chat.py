"""A whole conversation of `refold chat` with a real model behind a real OpenAI-compatible server:
replies that stream, a compaction, undo, and a second process. What so small a model says is not
judged, only that it came, was kept, and that the provider took every request.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import refold
from refold import dialects
from refold.edges.endpoints.chat import ChatEndpoint, pieces
from refold.edges.endpoints.model_names import model_named
from tests.real.local_model.server import serving

WAIT_S = 600
WINDOW = 1_200
TOPIC = "The engine has four valves, and valve {n} was measured at {n}7 degrees this morning. " * 6


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as address:
        yield f"{address}/v1"


def chat(folder: Path, *args: str, text: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "from refold.edges.cli import main; main()", "chat", *args]
    environ = {**os.environ, "XDG_DATA_HOME": str(folder / "data"), "LANG": "C.UTF-8"}
    done = subprocess.run(
        program, input=text, capture_output=True, text=True, cwd=folder, env=environ, timeout=WAIT_S
    )
    assert done.returncode == 0, done.stderr
    return done


def test_a_real_server_streams_in_chunks_and_says_what_it_counted(url: str) -> None:
    endpoint = ChatEndpoint(model_named(f"{url}#smollm2", {}))
    context = refold.open("talk", store="memory:", model="smollm2", window=4_096)
    context.append({"role": "user", "content": "Count from one to five."})
    request = context.request(**endpoint.call, max_tokens=24)
    chunks = list(context.stream(endpoint.stream(request)))
    said = [piece.text for chunk in chunks for piece in pieces(chunk) if piece.kind == "text"]
    assert len(said) > 3, "it came in pieces"
    reply = context.view.slots[-1].message
    assert reply.role == "assistant" and reply.blocks[0].text == "".join(said)  # type: ignore[union-attr]
    assert context.stats().billed.input > 0 and context.stats().billed.output > 0


def test_a_whole_conversation_with_a_compaction(url: str, tmp_path: Path) -> None:
    asked = [f"{TOPIC.format(n=n)}Say only: noted." for n in range(1, 7)]
    model = (
        "--model",
        f"{url}#smollm2",
        "--window",
        str(WINDOW),
        "--no-tools",
        "--reply-max",
        "12",
    )
    # How long its replies are differs from run to run: whether all of it still fits, too.
    lines = [*asked, "/undo --yes", "/stats --json"]
    done = chat(tmp_path, *model, text="\n".join(lines) + "\n")
    assert "Auto-compacting (" in done.stderr and "Undone" in done.stdout
    stats = json.loads(done.stdout[done.stdout.index('{"schema_version') :])
    assert stats["by_role"]["assistant"] == len(asked), "every request was answered"
    assert stats["current"] <= WINDOW
    again = chat(
        tmp_path, "--resume", "--no-tools", "--reply-max", "8", text="Say hello.\n/stats --json\n"
    )
    later = json.loads(again.stdout[again.stdout.index('{"schema_version') :])
    assert later["by_role"]["assistant"] == len(asked) + 1
    with refold.open(
        later["conversation"], store=f"sqlite:{tmp_path}/.refold/refold.db"
    ) as context:
        assert dialects.dialect("openai_chat").check(context.request("openai_chat")) == []
