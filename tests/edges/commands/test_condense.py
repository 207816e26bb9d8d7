"""`refold condense` in a shell: look, accept, or answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.edges.commands.compact import FEEDBACK_TEXT, condensed
from refold.edges.commands.session import Session
from refold.errors import OUTCOMES, Invalid
from refold.log.handles import body_text
from refold.stores import open_store
from tests.edges.cli.rooms import run

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:{tmp_path / 'x.db'}"
    with refold.open("talk", store=url) as context:
        for n in range(5):
            context.append({"role": "user", "content": f"question {n} " + "words " * 30})
            context.append({"role": "assistant", "content": f"answer {n} " + "words " * 30})
    return url


def page(url: str) -> list[str]:
    with refold.open("talk", store=url) as context:
        return [body_text(slot.message) for slot in context.view.slots]


def test_without_an_answer_it_shows_what_would_stay_and_go(url: str) -> None:
    before = page(url)
    done = run("condense", "talk", "--store", url)
    assert "The summary that would stay:" in done.stdout and "answer 4" in done.stdout
    assert "Accept it with: refold condense talk --accept --store" in done.stdout
    assert page(url) == before


def test_accepted_the_first_pair_and_the_summary_stay(url: str) -> None:
    before = page(url)
    done = json.loads(run("condense", "talk", "--accept", "--json", "--store", url).stdout)
    assert done["done"]["batch"] and done["planned"] is None
    after = page(url)
    assert after[:2] == before[:2] and after[-2:] == before[-2:] and len(after) == 5


def test_an_answer_is_in_the_log_for_the_model_and_nothing_leaves(url: str) -> None:
    """C-53"""
    before = page(url)
    done = run("condense", "talk", "the", "port", "is", "8443", "--store", url)
    assert "Nothing left the page." in done.stdout
    assert page(url) == [*before, FEEDBACK_TEXT + "the port is 8443"]


def test_both_at_once_is_refused(url: str) -> None:
    before = page(url)
    done = run("condense", "talk", "wrong", "--accept", "--store", url)
    assert done.exit_code == OUTCOMES["invalid"][1] and page(url) == before


def test_what_was_answered_is_not_accepted_before_the_model_wrote_again(url: str) -> None:
    run("condense", "talk", "the port is 8443", "--store", url)
    before = page(url)
    done = run("condense", "talk", "--accept", "--store", url)
    assert done.exit_code == OUTCOMES["invalid"][1] and "no summary to accept" in done.stderr
    looked = run("condense", "talk", "--store", url).stdout
    assert "There is no summary to accept" in looked and "--accept" not in looked
    assert page(url) == before


def test_a_call_of_a_tool_is_no_summary(url: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    with refold.open("talk", store=url) as context:
        context.append({"role": "assistant", "content": "I look.", "tool_calls": [call]})
    assert run("condense", "talk", "--accept", "--store", url).exit_code == OUTCOMES["invalid"][1]


def test_a_person_who_set_no_target_is_told_of_none(url: str) -> None:
    shown = run("condense", "talk", "--store", url).stdout
    shown += run("condense", "talk", "--accept", "--store", url).stdout
    assert "hidden" in shown and "target" not in shown and "truncation" not in shown
    assert "lastTwo" not in shown


@given(roles=st.lists(st.sampled_from(["user", "assistant"]), max_size=14))
def test_any_page_keeps_its_first_pair_and_its_end(roles: list[str]) -> None:
    """C-53: whatever was said, the summary stays if the assistant said something last, and a
    second look finds nothing more to do."""
    store = open_store("memory:")
    with refold.open("talk", store=store) as context:
        for n, role in enumerate(roles):
            context.append({"role": role, "content": f"{role} says {n}"})
        before = [slot.seq for slot in context.view.slots]
        with Session.holding(context, store) as session:
            if not roles or roles[-1] != "assistant":
                with pytest.raises(Invalid, match="no summary to accept"):
                    condensed(session, "", accept=True)
                assert [slot.seq for slot in context.view.slots] == before
                return
            done = condensed(session, "", accept=True)
        after = {slot.seq for slot in context.view.slots if not slot.standin}
        assert before[-1] in after and done.summary == f"assistant says {len(roles) - 1}"
        if roles[:2] == ["user", "assistant"]:
            assert {*before[:2]} <= after
        if done.done is not None and done.done.batch:
            context.undo()
        assert [slot.seq for slot in context.view.slots] == before
