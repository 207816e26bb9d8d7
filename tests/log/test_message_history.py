"""Why a message is hidden, shortened or stale: every edit can be traced."""

from __future__ import annotations

from typing import Any

import pytest

import refold
from refold.core.model import Replace
from refold.log.draft import Draft
from refold.log.log import Log
from refold.stores import open_store
from tests.turns import worked

TEXT = "def login():\n    return 'broken'\n" * 40


def used(context: refold.Context, id: str, name: str, output: str = "ok", **arguments: Any) -> int:
    """One tool use; the seq of its result."""
    context.append(
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": id, "name": name, "input": arguments}],
        }
    )
    return context.append_result(id, output)[-1].seq


def opened(**config: Any) -> refold.Context:
    context = refold.open("stale", store="memory:", config=config)
    context.append({"role": "user", "content": "Fix a.py"})
    return context


def test_a_read_that_a_later_edit_made_stale_is_kept_and_says_so() -> None:
    """C-20: read a (3), patch a without its text (5): 3 is kept, and `why` tells what made it
    stale."""
    context = opened()
    read = used(context, "c1", "read_file", TEXT, path="a.py")
    other = used(context, "c2", "read_file", TEXT.upper(), path="b.py")
    assert context.log.why(read) == []
    change = used(context, "c3", "edit", path="./a.py", old_string="broken", new_string="fixed") - 1
    used(context, "c4", "edit", path="a.py", old_string="def", new_string="async def")
    assert not context.plan("dedup", target=0).proposals
    [trace] = context.log.why(read)
    assert (trace.action, trace.seq, trace.handle, trace.live) == (
        "made stale",
        change,
        f"#{change}",
        True,
    )
    assert (
        trace.reason == "a.py was changed after this was read"
        and trace.by == "model"
        and trace.at_ms > 0
    )
    assert "edit" in context.unfold(trace.handle).text
    assert context.log.why(other) == []
    used(context, "c5", "read_file", TEXT.replace("broken", "fixed"), path="a.py")
    context.compact("dedup", target=0)
    assert [trace.action for trace in context.log.why(read)] == ["shortened"], (
        "the old text is not shown any more"
    )


def test_an_edit_that_failed_or_was_taken_back_makes_nothing_stale() -> None:
    """C-20."""
    context = opened()
    read = used(context, "c1", "read_file", TEXT, path="a.py")
    before = context.view.head
    used(context, "c2", "edit", "Error: no such text", path="a.py", old_string="x", new_string="y")
    assert context.log.why(read) == []
    used(context, "c3", "edit", path="a.py", old_string="x", new_string="y")
    assert [trace.action for trace in context.log.why(read)] == ["made stale"]
    context.restore(before)
    assert "made stale" not in [trace.action for trace in context.log.why(read)]


def test_a_change_that_is_no_longer_on_the_page_is_known_from_the_ledger() -> None:
    """C-20."""
    context = opened()
    read = used(context, "c1", "read_file", TEXT, path="a.py")
    context.pin(read)
    change = used(context, "c2", "edit", path="a.py", old_string="broken", new_string="fixed") - 1
    for number in range(12):
        used(
            context,
            f"n{number}",
            "bash",
            f"step {number} of the build\n" * 40,
            command=f"make step-{number}",
        )
    context.compact("summarize", keep=2)
    assert change not in {slot.seq for slot in context.view.slots if not slot.standin}
    assert (trace := context.log.why(read)[-1]).action == "made stale" and trace.seq == change


def test_a_result_that_was_moved_out_says_so_first() -> None:
    """X-36: the artifact that has it whole, then what was done to its stub."""
    context = opened(offload_tokens=200)
    large = used(context, "c1", "bash", TEXT * 20, command="make")
    [moved] = context.log.why(large)
    artifact = context.artifacts.list()[0].id
    assert (moved.action, moved.handle, moved.seq, moved.live) == (
        f"kept as artifact {artifact}",
        artifact,
        large,
        True,
    )
    assert context.unfold(moved.handle).text == TEXT * 20
    context.pin(large)
    assert [trace.action for trace in context.log.why(large)] == [
        f"kept as artifact {artifact}",
        "pinned",
    ]


def test_a_replace_of_a_block_that_is_not_there_does_not_hold() -> None:
    """X-36: block 9 of 1."""
    store = open_store("memory:")
    context = refold.open("stale", store=store)
    read = used(context, "c1", "bash", TEXT, command="make")
    for block in (9, 0):
        body = Replace(batch=f"b{block}", seq=read, block=block, text="[cleared]", reason="clear")
        Log(store, "stale").append([Draft(body=body, by="clear")])
    assert [(trace.block, trace.live) for trace in context.log.why(read)] == [(9, False), (0, True)]


def test_every_hidden_or_changed_message_can_be_traced():
    """X-36: to the operation, the time and the reason."""
    context = worked()
    assert context.recover("maximum context length is 20000 tokens")
    shown = {slot.seq for slot in context.view.slots if not slot.edits}
    for seq in range(2, 123):
        chain = context.log.why(seq)
        assert bool([trace for trace in chain if trace.live]) == (seq not in shown), seq
        for trace in chain:
            assert trace.at_ms > 0 and trace.action and trace.by and trace.reason and trace.batch
            assert context.unfold(trace.handle).text


def test_the_chain_tells_of_undo_pins_and_restores():
    """X-36."""
    context = worked(20)  # the window is #1, and the messages begin at #2
    context.compact("hide", target=2_000)
    assert [trace.action for trace in context.log.why(5)] == ["hidden"]
    context.pin(5)
    assert [trace.live for trace in context.log.why(5)] == [False, True]
    assert any(slot.seq == 5 for slot in context.view.slots)
    context.pin(5, on=False)
    assert context.log.why(5)[0].live
    context.undo()
    hidden, *_, reverted = context.log.why(5)
    assert (hidden.live, reverted.live) == (False, True)
    assert reverted.action.startswith("reverted batch")
    context.pin(5)
    assert context.log.why(5)[-1].action == "pinned"
    context.restore(1)
    assert context.log.why(5)[-1].action == "restored to #1"
    with pytest.raises(refold.NotFound):
        context.log.why(10_000)
    with pytest.raises(refold.NotFound):
        context.log.why(0)
