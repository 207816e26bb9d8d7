"""A context on a synced store: it goes on whatever a sync does to the log beneath it."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.stores import open_store
from tests.turns import checked


def device(root: Path, name: str, kind: str = "sqlite") -> str:
    near = {"sqlite": f"sqlite:{root}/{name}.db", "files": f"files:{root}/{name}"}[kind]
    return f"hybrid:{near}?far=files:{root}/team"


def sync(url: str):
    store = open_store(url)
    try:
        return store.sync()
    finally:
        store.close()


def texts(context) -> list[str]:
    return [message["content"] for message in context.request()["messages"]]


@pytest.fixture(params=["sqlite", "files"])
def devices(request, tmp_path):
    return [device(tmp_path, name, request.param) for name in ("one", "two")]


def said(context, text: str) -> None:
    context.append({"role": "user", "content": text})
    context.append({"role": "assistant", "content": f"re: {text}"})


def test_a_conversation_begun_on_one_device_goes_on_on_another(devices):
    one, two = devices
    with refold.open("c", store=one, model="gpt-4o") as context:
        said(context, "first")
    sync(one)
    with refold.open("c", store=two, model="gpt-4o") as context:
        said(context, "second")
        page = context.request()
    sync(two)
    sync(one)
    with refold.open("c", store=one, model="gpt-4o") as context:
        assert context.request() == page


def test_i6_and_i10_an_open_context_follows_its_fork(devices):
    one, two = devices
    with refold.open("c", store=one, model="gpt-4o") as context:
        said(context, "shared")
    sync(one)
    notices = []
    with (
        refold.open("c", store=one, model="gpt-4o") as mine,
        refold.open("c", store=two, model="gpt-4o") as theirs,
    ):
        mine.on("*", notices.append)
        said(theirs, "theirs")
        said(mine, "mine")
        sync(two)
        report = sync(one)
        assert [one.state for one in report.synced] == ["forked"]
        said(mine, "and more")
        assert mine.id == report.synced[0].fork
        assert texts(mine)[-4:] == ["mine", "re: mine", "and more", "re: and more"]
        assert texts(theirs)[-2:] == ["theirs", "re: theirs"]
        assert "sync-forked" in [notice.name for notice in notices]
    sync(one)
    sync(two)
    with refold.open(report.synced[0].fork, store=two, model="gpt-4o") as fork:
        assert texts(fork)[-2:] == ["and more", "re: and more"]
    with refold.open("c", store=one, model="gpt-4o") as main:
        assert texts(main)[-2:] == ["theirs", "re: theirs"]


def test_m_46_a_decision_made_here_stands_on_top_of_what_others_said(devices):
    one, two = devices
    with refold.open("c", store=one, model="gpt-4o") as context:
        for number in range(4):
            said(context, f"old {number}")
    sync(one)
    with (
        refold.open("c", store=one, model="gpt-4o") as mine,
        refold.open("c", store=two, model="gpt-4o") as theirs,
    ):
        said(theirs, "new")
        mine.hide(2, 4)
        mine.update(title="Renamed")
        mine.note("progress", {"step": 1})
        sync(two)
        assert [one.state for one in sync(one).synced] == ["synced"]
        assert texts(mine)[-1] == "re: new"
        assert "old 0" not in texts(mine)
        assert mine.id == "c"
        sync(two)
        assert texts(theirs) == texts(mine)


# --- both sides go on, in any way ---


def _tool(context, number: int, *, answered: bool) -> None:
    call = {"id": f"t{number}", "type": "function", "function": {"name": "cat", "arguments": "{}"}}
    context.append({"role": "assistant", "content": None, "tool_calls": [call]})
    if answered:
        context.append_result(f"t{number}", f"output {number}")


def _undo(context) -> None:
    if context.view.undoable:
        context.undo()


def _restore(context) -> None:
    points = context.log.points()
    if points:
        context.restore(points[0].seq)


ACTS = {
    "talk": lambda context, number: said(context, f"words {number}"),
    "ask": lambda context, number: context.append({"role": "user", "content": f"ask {number}"}),
    "tool": lambda context, number: _tool(context, number, answered=True),
    "open call": lambda context, number: _tool(context, number, answered=False),
    "hide": lambda context, number: context.hide(2, 3),
    "pin": lambda context, number: context.pin(2),
    "clear": lambda context, number: context.clear(),
    "compact": lambda context, number: context.compact("hide", target=40),
    "undo": lambda context, number: _undo(context),
    "checkpoint": lambda context, number: context.checkpoint(f"point {number}"),
    "restore": lambda context, number: _restore(context),
    "title": lambda context, number: context.update(title=f"title {number}"),
}
LIFE = st.lists(st.sampled_from(sorted(ACTS)), max_size=6)


def live(url: str, acts: list[str], first: int) -> None:
    with refold.open("c", store=url, model="gpt-4o") as context:
        for number, act in enumerate(acts, first):
            # What cannot be done to this page is refused, and that is fine.
            with contextlib.suppress(refold.RefoldError):
                ACTS[act](context, number)


def pages(url: str) -> dict[str, list]:
    """The page of every conversation of a device, which every provider would take."""
    found = {}
    for about in refold.conversations.list(url):
        with refold.open(about.id, store=url, model="gpt-4o") as context:
            # An empty page, as after `clear`, is asked for nothing.
            names = ("openai_chat", "anthropic") if context.view.slots else ()
            found[about.id] = [checked(context, name) for name in names]
    return found


@given(before=LIFE, mine=LIFE, theirs=LIFE)
@settings(max_examples=30, deadline=None)
def test_i10_every_conversation_of_every_device_renders_to_a_valid_request(before, mine, theirs):
    with tempfile.TemporaryDirectory() as folder:
        one, two = (device(Path(folder), name) for name in ("one", "two"))
        live(one, ["talk", "talk", *before], 0)
        sync(one), sync(two)
        live(one, mine, 100)
        live(two, theirs, 200)
        for url in (one, two, one, two):
            assert sync(url).is_done
        assert pages(one) == pages(two)


def test_a_memory_of_two_devices_becomes_one(devices):
    one, two = devices
    for url, words in ((one, "the build needs Python 3.11"), (two, "deploys happen on Fridays")):
        memory = refold.open_memory("project", store=url)
        memory.store(words)
        memory.close()
    sync(one), sync(two), sync(one)
    for url in devices:
        memory = refold.open_memory("project", store=url)
        found = sorted(entry.content for entry in memory.list())
        memory.close()
        assert found == ["deploys happen on Fridays", "the build needs Python 3.11"]
