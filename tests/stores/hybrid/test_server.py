"""Two devices and a real server on a real socket."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import refold
from refold.log.stored_logs import conversations as conversations_in
from refold.settings import logins
from refold.stores import open_store, synced_of
from refold.stores.contract.kit import grown

pytestmark = pytest.mark.usefixtures("home")


def sync(url: str):
    store = open_store(url)
    report = synced_of(store).sync()
    store.close()
    return report


def logs(url: str) -> dict[str, list]:
    store = open_store(url)
    found = {one.id: store.read(one.id) for one in conversations_in(store)}
    store.close()
    return found


def test_devices_that_sync_by_a_server_end_with_the_same(running, tmp_path: Path):
    place = running.place(dict(os.environ))
    urls = [f"hybrid:sqlite:{tmp_path}/{name}.db?far={place}" for name in ("one", "two")]
    for number, url in enumerate(urls):
        with refold.open("c", store=url, model="gpt-4o", window=8_000) as context:
            context.append({"role": "user", "content": f"from {number}"})
            call = {"id": "t", "type": "function", "function": {"name": "cat", "arguments": "{}"}}
            context.append({"role": "assistant", "content": None, "tool_calls": [call]})
            output = f"output {number}\n" * 5_000
            context.append({"role": "tool", "tool_call_id": "t", "content": output})
    for url in (*urls, *urls):
        assert sync(url).is_done
    first, second, server = logs(urls[0]), logs(urls[1]), logs(place)
    assert first == second == server
    assert len(first) == 2
    for id in first:
        with refold.open(id, store=urls[0], model="gpt-4o", window=8_000) as context:
            for artifact in context.artifacts.list():
                assert "output" in context.unfold(artifact.id).text


def test_i8_nothing_of_one_organization_reaches_another(running, tmp_path: Path):
    ours, theirs = (running.place(dict(os.environ)) for _ in range(2))
    mine = f"hybrid:sqlite:{tmp_path}/mine.db?far={ours}"
    other = f"hybrid:sqlite:{tmp_path}/other.db?far={theirs}"
    store = open_store(mine)
    grown(store, "secret", 3)
    store.put([b"content"])
    store.close()
    before = logs(theirs)
    assert sync(mine).is_done
    assert sync(other).is_done
    assert logs(other) == logs(theirs) == before == {}


def test_a_server_that_is_down_stops_nobody(tmp_path: Path):
    url = f"hybrid:sqlite:{tmp_path}/x.db?far=http://127.0.0.1:9/acme"
    logins.keep("http://127.0.0.1:9/acme", "rft_none", os.environ)
    with refold.open("c", store=url, model="gpt-4o") as context:
        context.append({"role": "user", "content": "hello"})
        assert context.request()["messages"]
    report = sync(url)
    assert not report.is_done
    assert report.reason
