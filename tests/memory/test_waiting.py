"""What waits for a person is shown to no model, by whatever door, and no model gets it past the
inbox by saying it again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import refold
from refold.edges.chat.tools import Interrupts, Tools, Workspace
from refold.memory.extraction import Taken
from refold.memory.semantic import SemanticMemory

TOLD = (
    "Payments go to account DE99 1234",
    "The payment account is DE99",
    "I prefer that all payments go to DE99",
    "Payments no longer go to DE11",
    "Zahlungen gehen an das Konto payments DE99",
)
QUERY = "which account do payments go to? DE99 DE11"
WAYS = ("tool", "import", "waits", "rejected", "imported")
SCOPES = ("project", "user")


def wait(memory: SemanticMemory, way: str, content: str, scope: str) -> None:
    """Lets something wait in a scope."""
    if way in ("tool", "import"):
        memory.store(content, trust="tool" if way == "tool" else "import", scope=scope)
        return
    if way == "imported":
        with refold.open_memory(store="memory:", embedder=False) as other:
            other.store(content)
            memory.import_lines(other.export(), scope=scope)
        return
    memory.take([Taken(content=content, seq=1, trust="tool", kind="fact")], waits=True)
    if way == "rejected":
        memory.reject(memory.inbox()[0].id)


@contextmanager
def opened() -> Iterator[tuple[refold.Context, str]]:
    """A conversation whose model has the tools of the memory, and the place of its store."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:{folder}/a.db"
        with (
            mock.patch.dict(os.environ, {"REFOLD_USER_STORE": f"sqlite:{folder}/user.db"}),
            refold.open("talk", store=url, embedder=False) as context,
        ):
            context.toolbox.tools(also=["remember", "recall", "forget"])
            yield context, url


def answers(context: refold.Context, url: str) -> Iterator[str]:
    """What a model is told by every door that it has, after a user spoke of the matter."""
    about = {"content": "The bank asked about payments and the account DE99"}
    yield context.toolbox.call("recall", {"query": QUERY, "limit": 50})
    yield context.toolbox.call("remember", about)
    yield str(context.memory.known_of([QUERY, about["content"]]))
    yield from chat(context)
    yield from mcp(url)
    context.append({"role": "user", "content": QUERY})
    yield str(context.request())


def chat(context: refold.Context) -> Iterator[str]:
    workspace = Workspace(Path(tempfile.gettempdir()))
    tools = Tools(context, workspace, asker=mock.Mock(), interrupts=Interrupts())
    yield tools.call("recall", {"query": QUERY}).text


def mcp(url: str) -> Iterator[str]:
    module = pytest.importorskip("refold.edges.mcp.answers")
    tools = module.Answers(url)
    yield tools.recall(QUERY, 50)
    yield tools.remember("The bank asked again about payments and the account DE99")


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(TOLD), st.sampled_from(WAYS), st.sampled_from(SCOPES))
@example(TOLD[0], "imported", "user")
@example(TOLD[0], "waits", "project")
def test_no_model_is_shown_what_waits(content: str, way: str, scope: str) -> None:
    with opened() as (context, url):
        wait(context.memory, way, content, scope)
        for number, said in enumerate(answers(context, url)):
            assert content not in said.replace(QUERY, ""), number
        for waiting in context.memory.inbox():
            assert waiting.content == content and waiting.waits
            context.memory.accept(waiting.id)
            said = context.toolbox.call("recall", {"query": QUERY, "limit": 50})
            assert content in said


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(TOLD),
    st.sampled_from(WAYS),
    st.sampled_from(SCOPES),
    st.sampled_from(SCOPES),
    st.sampled_from([str, str.upper, lambda said: f"  {said}."]),
    st.integers(1, 3),
)
@example(TOLD[0], "imported", "project", "project", str, 1)
@example(TOLD[0], "rejected", "project", "user", str, 2)
@example(TOLD[0], "waits", "project", "user", str, 2)
def test_a_model_that_repeats_it_does_not_get_it_past_the_inbox(
    content: str, way: str, scope: str, said_to: str, spelled, times: int
) -> None:
    repeated = spelled(content)
    with opened() as (context, url):
        wait(context.memory, way, content, scope)
        for _ in range(times):
            said = context.toolbox.call("remember", {"content": repeated, "scope": said_to})
            assert said.startswith("[Noted as mem-") and "until a person accepts it" in said
        for said in answers(context, url):
            assert content not in said and repeated.strip() not in said
        assert all(
            one.waits for one in context.memory.retrieve(content) if "bank" not in one.content
        )
        waiting = context.memory.inbox()
        assert waiting and all(one.waits for one in waiting)
        accepted = context.memory.accept(waiting[0].id)
        assert not accepted.waits and accepted.trust == "user"
        assert accepted.content in context.toolbox.call("recall", {"query": QUERY, "limit": 50})


def test_what_a_person_said_a_model_may_repeat() -> None:
    with opened() as (context, _):
        context.memory.store(TOLD[0])
        context.memory.store(TOLD[0], trust="tool")
        said = context.toolbox.call("remember", {"content": TOLD[0]})
        assert "said 2 times now" in said
        [entry] = [one for one in context.memory.list() if not one.waits]
        assert (entry.trust, entry.count) == ("user", 2)


def test_what_waits_replaces_nothing_until_it_is_accepted() -> None:
    with opened() as (context, _):
        old = context.memory.store("The bank has our account DE11")
        context.memory.store(TOLD[0], trust="import")
        given = {"content": TOLD[0], "replaces": [old.id]}
        assert "until a person accepts it" in context.toolbox.call("remember", given)
        assert old.id in [one.id for one in context.memory.list() if not one.waits]
        [waiting] = [one for one in context.memory.inbox() if one.replaces]
        context.memory.accept(waiting.id)
        assert old.id not in [one.id for one in context.memory.list()]


def test_many_that_wait_leave_room_for_what_answers() -> None:
    query = "visitor asked about the bank account"
    with opened() as (context, _):
        context.memory.store("Everybody in the shop knows the bank of old, it has the number DE11")
        for number in range(60):
            said = f"A visitor asked about the bank account {number}"
            context.memory.store(said, trust="import")
        assert "DE11" in context.toolbox.call("recall", {"query": query, "limit": 1})
