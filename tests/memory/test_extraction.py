"""Facts of messages that leave the page are remembered, or wait for a person."""

from __future__ import annotations

import pytest

import refold
from refold.core.model import Message, Text, ToolResult
from refold.memory.extraction import taken_from


def talk(url: str, extract: str) -> refold.Context:
    context = refold.open(
        "talk", store=url, window=24_000, embedder=False, config={"memory_extract": extract}
    )
    context.append({"role": "user", "content": "Help me"})
    context.append({"role": "assistant", "content": "With what?"})
    context.append({"role": "user", "content": "We use Postgres 16. Never push to main. Go on?"})
    for number in range(14):
        context.append({"role": "assistant", "content": f"step {number} " + "word " * 300})
        context.append({"role": "user", "content": f"and {number} " + "more " * 100})
    context.compact(target=5_000)
    return context


def contents(entries) -> set[str]:
    return {entry.content for entry in entries}


def test_what_leaves_the_page_is_remembered_with_its_source(tmp_path):
    with talk(f"sqlite:{tmp_path}/a.db", "keep") as context:
        found = {entry.content: entry for entry in context.memory.list()}
        assert {"We use Postgres 16.", "Never push to main."} <= found.keys()
        entry = found["We use Postgres 16."]
        assert (entry.source, entry.trust) == (("talk", 4), "user")


def test_what_was_forgotten_does_not_come_back(tmp_path):
    with talk(f"sqlite:{tmp_path}/a.db", "keep") as context:
        [entry] = context.memory.retrieve("postgres")
        context.memory.forget(entry.id)
        taken = taken_from([(1, Message(role="user", blocks=(Text("we use postgres 16"),)))])
        assert len(taken) == 1
        assert context.memory.take(taken, waits=False) == 0
        assert context.memory.retrieve("postgres") == []


def test_a_person_accepts_changes_or_rejects(tmp_path):
    with talk(f"sqlite:{tmp_path}/a.db", "ask") as context:
        memory = context.memory
        assert memory.list() == [] and memory.retrieve("postgres") == []
        waiting = {entry.content: entry.id for entry in memory.inbox()}
        accepted = memory.accept(waiting["We use Postgres 16."], "We use Postgres 16 only")
        assert accepted.trust == "user" and contents(memory.list()) == {"We use Postgres 16 only"}
        memory.reject(waiting["Never push to main."])
        assert not contents(memory.inbox()) & waiting.keys() - {"We use Postgres 16."}
        with pytest.raises(refold.NotFound):
            memory.accept(waiting["Never push to main."])
        taken = taken_from([(9, Message(role="user", blocks=(Text("Never push to main."),)))])
        assert memory.take(taken, waits=True) == 0


def test_tools_and_secrets_give_nothing():
    said = ToolResult("t1", content=(Text("The port is 6432. Never push to main."),))
    secret = "The key is ghp_" + "a1B2" * 9
    messages = [
        (1, Message(role="tool", blocks=(said,))),
        (2, Message(role="user", blocks=(said,))),
        (3, Message(role="user", blocks=(Text(secret),))),
        (4, Message(role="user", blocks=(Text("The port is 1?"),), metadata={})),
        (5, Message(role="user", blocks=(Text("The port is 1"),), metadata={"$memories": []})),
    ]
    assert taken_from(messages) == []
