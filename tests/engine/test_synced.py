"""A context on a synced store: it goes on whatever a sync does to the log beneath it."""

from __future__ import annotations

from pathlib import Path

import pytest

import refold
from refold.stores import open_store


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
