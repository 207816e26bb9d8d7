"""A batch: many things in one append, drafted as if those before them were in the log."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import refold
from refold.core.model import Usage
from refold.engine import bulk_write as batches
from refold.engine.bulk_write import Batch
from refold.engine.context import Context
from refold.log import log as logs
from refold.log.notes import Stamp
from refold.stores import open_store
from refold.stores.protocol import Overtaken
from tests.engine.test_extend import gemini, turn

BILLED = Usage(input=10, output=5, response="r", estimated=True)


def responses(at: int) -> list[dict[str, Any]]:
    """An answer that follows its reasoning is marked so: it shows only in what came before."""
    thought = {"type": "reasoning", "id": f"r{at}", "summary": [], "encrypted_content": "x"}
    said = {"type": "output_text", "text": f"answer {at}"}
    return [thought, {"type": "message", "role": "assistant", "content": [said]}]


def anthropic(at: int) -> list[dict[str, Any]]:
    """A large result without the name of its tool: only its call says it."""
    call = {"type": "tool_use", "id": f"t{at}", "name": "Read", "input": {"path": "a.py"}}
    result = {"type": "tool_result", "tool_use_id": f"t{at}", "content": "a b\n" * 80_000}
    return [
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]


KINDS = [turn, gemini, responses, anthropic]
MODELS = ["gpt-4o", "claude-sonnet-4-5", "nobody-knows"]
lists = st.lists(st.sampled_from(KINDS), max_size=6)


def messages_of(kinds: list[Any]) -> list[dict[str, Any]]:
    return [message for at, kind in enumerate(kinds) for message in kind(at)]


def opened(model: str) -> Context:
    return Context(open_store("memory:"), "one", model=model)


def said(context: Context) -> list[tuple[Any, ...]]:
    """What the log says, without what is another one each time."""
    return [(e.kind, e.by, e.at_ms, e.tokens, e.counter, e.body) for e in context.log.events()]


@settings(max_examples=60, deadline=None)
@given(lists, st.sampled_from(MODELS), st.integers(1, 9), st.sampled_from([1, 500, 4 << 20]))
def test_a_batch_writes_what_single_appends_write(
    kinds: list[Any], model: str, size: int, most: int
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("refold.log.draft.RUN_BYTES_MAX", most)
        check_batch(kinds, model, size)


def check_batch(kinds: list[Any], model: str, size: int) -> None:
    whole, single = opened(model), opened(model)
    batch = Batch(whole)
    for at, message in enumerate(messages_of(kinds)):
        batch.message(message, Stamp(1_000 + at, f"k{at}"))
        single.append(message, at=1_000 + at, key=f"k{at}")
        batch.note("n", {"at": at}, "guest", Stamp(1_000 + at, f"n{at}"))
        single.note("n", {"at": at}, by="guest", at=1_000 + at, key=f"n{at}")
        batch.usage(replace(BILLED, response=f"r{at // 2}"), 1_000 + at)
        single.record(usage=replace(BILLED, response=f"r{at // 2}"), upto=0, at=1_000 + at)
        if at % size == 0:
            batch.write()
    batch.write()
    # What names the model is dated by the clock.
    assert [one for one in said(whole) if one[0] != "meta"] == [
        one for one in said(single) if one[0] != "meta"
    ]
    assert whole.view.slots == single.view.slots


@settings(max_examples=40, deadline=None)
@given(lists.filter(bool), st.integers(2, 5), st.sampled_from(MODELS))
def test_a_page_that_was_let_go_is_read_again_whole(kinds: list[Any], kept: int, model: str):
    context, other = opened(model), opened(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "HELD_BYTES_MAX", 0)
        patch.setattr(logs, "KEPT_SLOTS", kept)
        batch = Batch(context)
        for at, message in enumerate(messages_of(kinds)):
            batch.message(message, Stamp(at, f"k{at}"))
            batch.write()
            other.append(message, at=at, key=f"k{at}")
    sums, view = context._open.sums, other.view
    assert (sums.head, sums.tokens, sums.counts) == (view.head, view.tokens, view.counts)
    assert context.view.slots == other.view.slots
    assert context.request() == other.request()


def test_a_call_that_waits_for_its_result_is_not_let_go(monkeypatch):
    monkeypatch.setattr(batches, "HELD_BYTES_MAX", 0)
    monkeypatch.setattr(logs, "KEPT_SLOTS", 1)
    context = opened("claude-sonnet-4-5")
    batch = Batch(context)
    call, result = anthropic(1)
    waiting = [{"role": "user", "content": f"wait {at}"} for at in range(3)]
    for at, message in enumerate([call, *waiting, result]):
        batch.message(message, Stamp(at, f"k{at}"))
        batch.write()
    assert context._open.log.hollow
    artifacts = [event.by for event in context.log.events() if event.kind == "artifact"]
    assert artifacts == ["tool:Read"]


def test_who_was_overtaken_is_told_and_writes_none_of_it():
    store = open_store("memory:")
    ours, theirs = Context(store, "one"), Context(store, "one")
    batch = Batch(ours)
    batch.message({"role": "user", "content": "ours"}, Stamp(1, "a"))
    theirs.append({"role": "user", "content": "theirs"})
    with pytest.raises(Overtaken, match="another writer has appended"):
        batch.write()
    assert [slot.message.blocks[0].text for slot in ours.view.slots] == ["theirs"]


def test_an_append_of_the_same_context_overtakes_as_well():
    context = opened("gpt-4o")
    batch = Batch(context)
    batch.message({"role": "user", "content": "batch"}, Stamp(1, "a"))
    context.append({"role": "user", "content": "single"}, key="a")
    with pytest.raises(Overtaken):
        batch.write()
    assert len(context.view.slots) == 1


def test_what_is_no_message_is_refused_and_the_rest_is_written():
    context = opened("gpt-4o")
    batch = Batch(context)
    batch.message({"role": "user", "content": "first"}, Stamp(1, "a"))
    with pytest.raises(refold.Invalid):
        batch.message({"role": "tool", "content": "no call"}, Stamp(2, "b"))
    batch.message({"role": "user", "content": "second"}, Stamp(3, "c"))
    batch.write()
    assert [event.at_ms for event in context.log.events() if event.kind == "message"] == [1, 3]


def test_checkpoints_stand_where_single_appends_set_them():
    config = refold.Config(checkpoint_every=2)
    context = Context(open_store("memory:"), "one", config=config)
    batch = Batch(context)
    for at in range(5):
        batch.message({"role": "user", "content": str(at)}, Stamp(at, f"k{at}"))
        if batch.is_full:
            batch.write()
    assert list(context.view.checkpoints) == ["message-2", "message-4"]
