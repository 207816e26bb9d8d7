"""`refold verify`: what is wrong, and where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from refold.edges.cli.screen import Screen
from refold.edges.commands import load
from refold.edges.commands.command import Progress
from refold.edges.commands.session import Session
from tests.edges.cli.rooms import as_json, run

pytestmark = pytest.mark.usefixtures("alone")


def test_verify_says_what_is_wrong_and_where(url: str, tmp_path: Path) -> None:
    assert (
        "1 conversation, 21 events, 1 artifact checked: everything is as it was written."
        in run("verify").stdout
    )
    assert as_json("verify", "fix-login")["ok"] is True
    [file] = (tmp_path / ".refold" / "artifacts").glob("art-*")
    file.write_bytes(b"changed")
    result = run("verify")
    assert result.exit_code == 5 and str(file) in result.stdout and "fix-login #" in result.stdout
    report = json.loads(run("verify", "--json").stdout)
    assert report["ok"] is False and report["problems"][0]["part"] == "artifact"


@pytest.mark.parametrize("scope", ["project", "agent.writer"])
@pytest.mark.parametrize("key", ["", "&key={}/a.key"], ids=["plain", "encrypted"])
def test_memories_are_read_too_here_and_far(scope: str, key: str, tmp_path: Path) -> None:
    assert run("sync", "key", "new", f"{tmp_path}/a.key").exit_code == 0
    far = tmp_path / "far"
    store = ("--store", f"hybrid:files:{tmp_path}/near?far=files:{far}{key.format(tmp_path)}")
    assert run("memory", "add", "the port is 4711", "--scope", scope, *store).exit_code == 0
    assert run("sync", *store).exit_code == 0
    for command in (("verify",), ("sync", "--verify")):
        checked = run(*command, *store)
        assert checked.exit_code == 0
        assert "0 conversations, 1 memory log, 1 event" in checked.stdout
    for command, folder in ((("verify",), tmp_path / "near"), (("sync", "--verify"), far)):
        log = folder / "conversations" / f"memory.{scope}" / "messages.jsonl"
        kept = log.read_bytes()
        changed = kept.replace(b'"chain":"', b'"chain":"AAAA')
        log.write_bytes(changed.replace(b'"counter":"1.', b'"counter":"2.'))
        damaged = run(*command, *store)
        assert damaged.exit_code == 5 and f"memory.{scope}" in damaged.stdout
        log.write_bytes(kept)


@pytest.mark.parametrize("name", ["verify", "export"])
def test_long_reading_tells_how_far_it_is(name: str, url: str, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []

    class Watching(Screen):
        @contextmanager
        def progress(self, doing: str) -> Iterator[Progress | None]:
            yield lambda what, done, total: told.append((what, done, total))

    command = load(name)
    given = {} if name == "verify" else {"file": str(tmp_path / "a.json")}
    with Session(store_url=url, conversation="fix-login", screen=Watching()) as session:
        command.run(session, command.arguments(**given))
        head = session.store.conversation("fix-login").head
    assert told and told[-1][1:] == (head, head) and "fix-login" in told[-1][0]
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
