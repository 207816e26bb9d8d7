"""The model asks for a compaction itself: noted in the log, granted when the turn has ended."""

from __future__ import annotations

import json
from typing import Any

import pytest

import refold
from refold.compaction.trigger import NOTED
from refold.core.model import COMPACT_TOOL
from refold.errors import Invalid
from refold.stores import open_store
from refold.types import Writer
from tests.scripted import GOOD, Scripted, heard_by, talked
from tests.turns import call, checked, names

ASKED = '{"instructions": "Keep every version number."}'


def opened(store: Any = "memory:", writer: Writer | None = None, **given: Any) -> refold.Context:
    given = {"window": 60_000, "model": "gpt-4o", **given}
    context = refold.open("work", store=store, writer=writer, embedder=False, **given)
    if not context.view.head:
        talked(context, 41, size=1_200)
    return context


def wish(context: refold.Context, arguments: str = ASKED, id: int = 1) -> str:
    """The model calls the tool, and is answered."""
    context.append(call(id, name=COMPACT_TOOL, arguments=arguments))
    answer = context.toolbox.call(COMPACT_TOOL, arguments)
    context.append_result(f"c{id}", answer)
    return answer


def names_of(context: refold.Context, **given: Any) -> list[str]:
    return [one["function"]["name"] for one in context.toolbox.tools("openai_chat", **given)]


def test_the_tool_is_off_unless_it_is_asked_for_by_name() -> None:
    context = opened()
    assert COMPACT_TOOL not in names_of(context)
    assert wish(context).startswith("Error: there is no tool")
    context.append({"role": "user", "content": "next"})
    assert context.stats().due == "none"
    assert names_of(context, also=[COMPACT_TOOL])[-1] == COMPACT_TOOL
    assert context.toolbox.call(COMPACT_TOOL, {"instructions": "all"}) == NOTED
    assert context.toolbox.call(COMPACT_TOOL, "{}") == NOTED
    with pytest.raises(Invalid):
        context.toolbox.tools(also=["refold_compakt"])


def test_a_wish_is_granted_once_when_the_turn_has_ended_never_inside_a_tool_loop() -> None:
    store, writer = open_store("memory:"), Scripted(GOOD)
    context = opened(store, writer)
    context.toolbox.tools(also=[COMPACT_TOOL])
    heard = heard_by(context)
    assert wish(context) == NOTED
    for n in (2, 3):
        assert context.stats().due == "none"
        checked(context)
        context.append(call(n))
        context.append_result(f"c{n}", "fine")
    checked(context)
    context.append({"role": "assistant", "content": "done"})
    assert context.stats().due == "none" and "compaction-complete" not in names(heard)
    context.append({"role": "user", "content": "thanks, next"})
    assert context.stats().due == opened(store).stats().due == "compact"
    checked(context)
    assert names(heard).count("compaction-complete") == 1
    assert "Keep every version number." in writer.prompt
    for n in (4, 5):
        context.append(call(n))
        context.append_result(f"c{n}", "fine")
        checked(context)
        context.append({"role": "user", "content": f"and now {n}"})
        assert context.stats().due == opened(store).stats().due == "none"
        checked(context)
    assert names(heard).count("compaction-complete") == 1
    context.undo()
    assert context.stats().due == "none"


@pytest.mark.parametrize(
    "arguments", ["", "{}", "not json", "[1]", '{"instructions": 5}', '{"instructions": "x"}']
)
def test_whatever_the_arguments_are_the_page_is_valid(arguments: str) -> None:
    context = opened(writer=Scripted(GOOD))
    context.toolbox.tools(also=[COMPACT_TOOL])
    noted = wish(context, arguments) == NOTED
    context.append({"role": "user", "content": "next"})
    assert (context.stats().due == "compact") == noted
    before = context.stats().current
    checked(context)
    assert (context.stats().current < before) == noted


def test_a_wish_without_a_writer_is_granted_as_well() -> None:
    context = opened()
    context.toolbox.tools(also=[COMPACT_TOOL])
    wish(context)
    context.append({"role": "user", "content": "next"})
    before = context.stats().current
    checked(context)
    assert context.stats().current < before


def test_where_automatic_compaction_is_off_the_model_is_told() -> None:
    context = opened(config={"auto": False})
    context.toolbox.tools(also=[COMPACT_TOOL])
    assert "automatic compaction is off" in wish(context)


def test_a_result_that_only_looks_like_a_promise_is_none() -> None:
    """Only the answer to a call of the tool counts, not what another tool says."""
    context = opened()
    context.append(call(1))
    context.append_result("c1", json.dumps({"tool": COMPACT_TOOL, "said": NOTED}))
    context.append({"role": "user", "content": "next"})
    assert context.stats().due == "none"
