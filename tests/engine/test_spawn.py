"""Sub-agents: a conversation of their own, told only what was handed over (G-65)."""

from __future__ import annotations

import pytest

import refold
from refold import dialects
from refold.errors import Conflict, NotFound

SECRET = "the words that only the first agent read"


def parent(url: str) -> refold.Context:
    context = refold.open("lead", store=url, model="gpt-4o", system="You lead.")
    context.append({"role": "user", "content": "Fix the login test. Never touch billing.py."})
    function = {"name": "bash", "arguments": '{"command": "pytest tests/test_login.py"}'}
    context.append(
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        }
    )
    context.append_result("c1", f"{SECRET}\nFAILED tests/test_login.py::test_expiry\nexit code 1")
    return context


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path):
    return "memory:" if request.param == "memory" else f"sqlite:{tmp_path}/refold.db"


def texts(context) -> str:
    return str(context.request("openai_chat")["messages"])


def test_a_child_is_told_the_ledger_the_task_and_no_message(url):
    with parent(url) as lead, lead.spawn("scout", task="Find out why test_expiry fails") as scout:
        page = texts(scout)
        assert "handed over from the conversation lead" in page and "Never touch billing.py" in page
        assert "pytest tests/test_login.py" in page and "Find out why test_expiry fails" in page
        assert SECRET not in page and "You lead." not in page
        assert scout.view.request == scout.view.slots[-1].seq
        assert dialects.dialect("openai_chat").check(scout.request("openai_chat")) == []


def test_what_was_compacted_is_handed_over_as_well(url):
    with parent(url) as lead:
        lead.adopt((1, lead.view.head), "They talked.", by="host")
        lead.append({"role": "user", "content": "Go on."})
        with lead.spawn("scout", task="Find out why") as scout:
            assert "Never touch billing.py" in texts(scout)


def test_artifacts_come_only_when_named_and_can_be_unfolded(url):
    with parent(url) as lead:
        kept = lead.artifacts.put("line one\nline two\n", name="report.txt")
        other = lead.artifacts.put("not for the scout", name="private.txt")
        with lead.spawn(
            "scout", task="read it", summary="short words", artifacts=[kept.id]
        ) as scout:
            assert [artifact.id for artifact in scout.artifacts.list()] == [kept.id]
            assert scout.unfold(kept.id).text == "line one\nline two\n"
            assert "short words" in texts(scout) and "Never touch" not in texts(scout)
            with pytest.raises(NotFound):
                scout.unfold(other.id)
        with pytest.raises(NotFound, match="hand over"):
            lead.spawn("third", task="x", artifacts=["art-nothing"])


def test_what_the_child_does_stays_with_the_child(url):
    with parent(url) as lead:
        before = texts(lead)
        with lead.spawn("scout", task="look") as scout:
            scout.append({"role": "assistant", "content": "I looked"})
        assert texts(lead) == before
        with pytest.raises(Conflict):
            lead.spawn("scout", task="again")
