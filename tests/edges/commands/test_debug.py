"""`refold stats --debug`: one JSON object of history, impact and ranges, without a word of what was said."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.core.model import Span
from refold.edges.chat.scripted import Scripted
from refold.edges.chat.slash import obey
from refold.edges.commands.command import builtins_of
from refold.edges.commands.session import Session
from refold.edges.commands.why import dump
from refold.stores import open_store
from refold.stores.protocol import Store
from tests.edges.chat.rooms import chat_in, seen
from tests.edges.cli.rooms import run

pytestmark = pytest.mark.usefixtures("alone")
SECRET = "sk-ant-api03-" + "Zq8" * 20


def filled(context: refold.Context, turns: int = 12) -> None:
    for n in range(turns):
        role = "assistant" if n % 2 else "user"
        context.append({"role": role, "content": f"words-of-nobody {n} {SECRET} " * 20})


def dumped(context: refold.Context, store: Store) -> dict[str, Any]:
    with Session.holding(context, store) as session:
        found: dict[str, Any] = json.loads(json.dumps(builtins_of(dump(session))))
    return found


def test_a_dump_is_json_through_both_doors(tmp_path: Any) -> None:
    """C-71"""
    url = f"sqlite:{tmp_path / 'x.db'}"
    with refold.open("talk", store=url) as context:
        filled(context)
        context.compact("hide", preset="half")
    plain = run("stats", "--debug", "talk", "--store", url)
    named = run("stats", "--debug", "talk", "--json", "--store", url)
    assert json.loads(plain.stdout).items() <= json.loads(named.stdout).items()
    assert plain.exit_code == 0 and json.loads(plain.stdout)["conversation"] == "talk"
    chat = chat_in(tmp_path, Scripted(0))
    chat.answer("count to 3")
    before = len(seen(chat))
    obey(chat, "/stats --debug")
    assert json.loads(seen(chat)[before:])["history"] == []


def test_history_impact_and_ranges_say_what_was_done_and_would_be() -> None:
    """C-71"""
    store = open_store("memory:")
    with refold.open("talk", store=store) as context:
        filled(context)
        whole = dumped(context, store)
        assert whole["history"] == [] and whole["impact"]["saved"] == 0.0
        assert whole["ranges"]["next"]["half"] == ["#3-6"]
        receipt = context.compact("hide", preset="half")
        hidden = dumped(context, store)
        assert hidden["ranges"]["hidden"] == ["#3-6"]
        [edit] = hidden["history"]
        assert (edit["action"], edit["handle"], edit["live"]) == ("hidden", "#3-6", True)
        assert edit["batch"] == receipt.batch == hidden["impact"]["batches"][0]["id"]
        assert 0.3 < hidden["impact"]["saved"] < 0.34
        context.undo()
        undone = dumped(context, store)
        assert undone["page"] == whole["page"] and undone["impact"]["saved"] == 0.0
        assert [one["live"] for one in undone["history"]] == [False, True]


def test_no_word_of_the_conversation_is_in_it() -> None:
    store = open_store("memory:")
    with refold.open("talk", store=store) as context:
        context.update(title="words-of-nobody", system="words-of-nobody")
        filled(context)
        context.hide(3, 4)
        context.compact("summarize", keep=2)
        text = json.dumps(dumped(context, store))
    assert "words-of-nobody" not in text and SECRET not in text and SECRET[20:40] not in text


@settings(deadline=None, max_examples=25)
@given(
    turns=st.integers(0, 14),
    steps=st.lists(st.sampled_from(["half", "lastTwo", "condense", "undo", "pin"]), max_size=4),
)
def test_whatever_was_done_the_dump_agrees_with_the_page(turns: int, steps: list[str]) -> None:
    store = open_store("memory:")
    with refold.open("talk", store=store) as context:
        context.update(title="begun")
        filled(context, turns)
        context.flush()
        for step in steps:
            if step == "undo":
                if any(batch.live for batch in context.log.batches()):
                    context.undo()
            elif step == "pin":
                if context.view.slots:
                    context.pin(context.view.slots[-1].seq)
            else:
                context.compact("hide", preset=step)
        found = dumped(context, store)
        assert [one["handle"] for one in found["page"]] == [
            str(slot.span) for slot in context.view.slots
        ]
        live = {one["seq"] for one in found["history"] if one["live"]}
        applied = {seq for one in found["page"] for seq in one["edits"]}
        assert applied <= live
        there = {str(Span(seq, seq)) for seq in range(1, found["head"] + 1)}
        assert {one["handle"] for one in found["page"] if not one["edits"]} <= there


@pytest.mark.parametrize(
    "words",
    [
        ("stats", "nobody", "--debug"),
        ("stats", "--debug", "nobody"),
        ("--debug", "stats", "nobody"),
    ],
)
def test_an_error_of_a_dump_is_one_line(words: tuple[str, ...]) -> None:
    for store in ((), ("--store", "memory:")):
        done = run(*store, *words)
        assert done.exit_code == 3 and done.stderr.count("refold: ") == 1
        assert "Traceback" not in done.stderr
