"""Sub-agents: a conversation of their own, told only what was handed over (G-65)."""

from __future__ import annotations

import pytest

import refold
from refold import dialects
from refold.errors import Conflict, Invalid, NotFound

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
        lead.compact(span=(1, lead.view.head), summary="They talked.", author="host")
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


def tools_of(context):
    context.toolbox.tools("openai_chat", also=["remember", "recall"])
    return context.toolbox.call


def reached(context, words: str) -> str:
    """All that an agent can get hold of by itself: its page, its tools, its artifacts."""
    tool = tools_of(context)
    given = [texts(context), str(context.artifacts.list())]
    given += [str(tool("refold_search", {"query": words})), str(tool("recall", {"query": words}))]
    for handle in ("#1", "#2", "#3", "#4", "#1-9"):
        given.append(str(tool("refold_unfold", {"handle": handle})))
    return "\n".join(given)


def test_no_agent_of_a_network_reaches_the_words_of_another(url):
    with parent(url) as lead:
        kept = lead.artifacts.put("for the scout alone", name="report.txt")
        with (
            lead.spawn("scout", task="look", summary="", artifacts=[kept.id]) as scout,
            lead.spawn("judge", task="weigh", summary="") as judge,
        ):
            scout.append({"role": "assistant", "content": "a zebra in the log"})
            judge.append({"role": "assistant", "content": "a quagga on trial"})
            for agent, own, others in (
                (scout, "zebra", ("quagga", "the first agent read", "billing")),
                (judge, "quagga", ("zebra", "the first agent read", "for the scout alone")),
                (lead, "the first agent read", ("zebra", "quagga")),
            ):
                assert own in reached(agent, own)
                for word in others:
                    found = reached(agent, word)
                    assert found.count(word) == 0, (agent.id, word)


def test_a_network_shares_by_scopes_of_memory(url):
    with parent(url) as lead:
        lead.memory.store("The staging host is called heron")
        with lead.spawn("scout", task="look", summary="", memory="agent.scout") as scout:
            tools_of(scout)("remember", {"content": "The port of the scout is 7001"})
            assert scout.memory.scope == "agent.scout"
            assert "heron" in str(tools_of(scout)("recall", {"query": "staging host"}))
            assert "7001" in str(tools_of(scout)("recall", {"query": "port of the scout"}))
        with lead.spawn("judge", task="weigh", summary="") as judge:
            assert "7001" not in reached(judge, "port of the scout")
        assert "7001" not in reached(lead, "port of the scout")
        [handed] = lead.memory.retrieve("port of the scout", scope="agent.scout")
        assert "7001" in handed.content


def test_an_agent_opened_again_remembers_in_its_own_memory(tmp_path):
    url = f"sqlite:{tmp_path}/refold.db"
    with parent(url) as lead:
        lead.spawn("scout", task="look", memory="agent.scout").close()
    with refold.open("scout", store=url) as scout:
        assert scout.memory.scope == "agent.scout"


@pytest.mark.parametrize("scope", ["user", "project", "agent.", "scout", "agent./x", "agent.a b"])
def test_only_an_agents_scope_is_one(url, scope):
    with parent(url) as lead:
        with pytest.raises(Invalid):
            lead.spawn("scout", task="look", memory=scope)
        assert "scout" not in [about.id for about in refold.conversations.list(lead._open.store)]


@pytest.mark.parametrize("value", ["user", 7, None, ["agent.x"], {"a": 1}, "agent."])
def test_metadata_from_elsewhere_choose_no_other_memory(value):
    with refold.open("x", store="memory:") as context:
        context.update(metadata={"memory": value})
        assert context.memory.scope == "project"
