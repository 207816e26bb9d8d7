"""`refold sync --verify` names what the far store had and has no more, and what sends it again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import refold
from refold.stores import open_store
from tests.edges.cli.rooms import run

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture(params=["plain", "encrypted"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A synced store with two conversations, both in the far folder."""
    url = f"hybrid:sqlite:{tmp_path}/a.db?far=files:{tmp_path}/team"
    if request.param == "encrypted":
        run("sync", "key", "new", f"{tmp_path}/acme.key")
        url += f"&key={tmp_path}/acme.key"
    for text in ("hello", "more"):
        for id in ("talk", "other"):
            with refold.open(id, store=url, model="gpt-4o") as context:
                context.append({"role": "user", "content": text})
        assert run("sync", "--store", url).exit_code == 0
    assert run("sync", "--verify", "--store", url).exit_code == 0
    return url


def lose(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "team" / "conversations" / "talk"
    if what == "all":
        shutil.rmtree(tmp_path / "team")
    elif what == "conversation":
        shutil.rmtree(folder)
    else:
        log = folder / "messages.jsonl"
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))


@pytest.mark.parametrize("names", [(), ("talk",)], ids=["all", "named"])
@pytest.mark.parametrize(("what", "count"), [("conversation", 3), ("end", 1)])
def test_what_is_lost_there_is_named_and_sent_again(
    store: str, tmp_path: Path, what: str, count: int, names: tuple[str, ...]
) -> None:
    lose(tmp_path, what)
    events = f"{count} event{'s' if count > 1 else ''}"
    told = run("sync", "--verify", *names, "--store", store)
    said = " ".join(told.output.split())
    assert told.exit_code == 5 and f"talk, log: the far store has lost {events} that it had" in said
    assert "1 conversation can be sent again from this device: refold sync" in said
    assert "--new-far" not in said and "refold delete" not in said
    status = run("sync", "--status", "--store", store).output
    assert f"pending  talk: {events} to send, the far store has lost {events}" in status
    assert "synced   other" in status
    mended = run("sync", "--verify", *names, "--repair", "--store", store)
    assert mended.exit_code == 0 and "talk sent again" in mended.output, mended.output
    assert "synced   talk" in run("sync", "--status", "--store", store).output
    assert open_store(f"files:{tmp_path}/team").conversation("talk").head == 3


def test_a_far_store_that_lost_everything_is_filled_when_it_is_said(
    store: str, tmp_path: Path
) -> None:
    lose(tmp_path, "all")
    for arguments in ((), ("--repair",)):
        told = run("sync", "--verify", *arguments, "--store", store)
        said = " ".join(told.output.split())
        assert told.exit_code == 5 and "2 problems" in said
        assert "Is it mounted?" in said and "refold sync --new-far" in said
    found = json.loads(run("sync", "--verify", "--store", store, "--json").output)
    assert found["lost"] == {"other": 3, "talk": 3} and found["is_all_lost"]
    assert "synced" not in run("sync", "--status", "--store", store).output
    assert run("sync", "--new-far", "--store", store).exit_code == 0
    assert run("sync", "--verify", "--store", store).exit_code == 0
    assert run("sync", "--verify", "nobody", "--store", store).exit_code == 3
