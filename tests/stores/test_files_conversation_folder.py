"""A conversation's metadata: made again from its log, and never ahead of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from refold.errors import Corrupt, Unavailable
from refold.stores.contract.kit import TEXT, grown, sealed, titled
from refold.stores.files import FilesStore
from refold.stores.files import log as files_log
from tests.stores.trees import metadata_of


@pytest.mark.parametrize("damage", [None, b"", b"[1", b'{"id":"log","parent_chain":"no hex"}'])
def test_metadata_that_is_lost_is_made_again_from_the_log(
    damage: bytes | None, tmp_path: Path
) -> None:
    """M-14, M-16: of a conversation that is no fork, the log knows everything."""
    store = FilesStore(str(tmp_path))
    first = titled(None, "the title")
    store.append("log", [first, *sealed(first, [TEXT])], expect=0)
    expected = store.conversation("log")
    store.fork("log", 1, "fork")
    store.close()
    for id in ("log", "fork"):
        path = tmp_path / "conversations" / id / "metadata.json"
        path.unlink() if damage is None else path.write_bytes(damage)
    again = FilesStore(str(tmp_path))
    assert again.conversation("log") == expected
    grown(again, "log", 1, before=again.read("log")[-1])
    again.close()


def test_a_fork_without_its_metadata_is_reported_not_guessed(tmp_path: Path) -> None:
    store = FilesStore(str(tmp_path))
    trunk = grown(store, "trunk", 3)
    store.fork("trunk", 2, "fork")
    grown(store, "fork", 1, before=trunk[1])
    (tmp_path / "conversations" / "fork" / "metadata.json").write_bytes(b"")
    again = FilesStore(str(tmp_path))
    with pytest.raises(Corrupt, match=r"metadata\.json"):
        again.read("fork")
    assert again.read("trunk") == trunk
    assert [(found.id, found.head) for found in again.conversations()] == [
        ("fork", 0),
        ("trunk", 3),
    ]


def test_a_title_whose_event_was_never_written_does_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M-16: killed between metadata and append, in either order of looking at it afterwards."""
    store = FilesStore(str(tmp_path))
    first = titled(None, "one")
    store.append("log", [first], expect=0)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    second = titled(first, "two")
    with monkeypatch.context() as patch:
        patch.setattr(files_log.LogFile, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            store.append("log", [second], expect=1)
    assert metadata_of(tmp_path)["title"] == "two"
    for reader in (store, FilesStore(str(tmp_path))):
        assert reader.conversation("log").title == reader.conversations()[0].title == "one"
    other = FilesStore(str(tmp_path))
    other.append("log", sealed(first, [TEXT]), expect=1)
    assert other.conversation("log").title == store.conversation("log").title == "one"
    assert "two" not in json.dumps(metadata_of(tmp_path))
    later = titled(other.read("log")[-1], "three")
    other.append("log", [later], expect=2)
    other.fork("log", 2, "fork")
    assert other.conversation("fork").title == "one"


def test_a_fork_below_an_interrupted_title_has_the_title_of_its_own_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FilesStore(str(tmp_path))
    [first] = grown(store, "log", 1)
    second = titled(first, "one")
    store.append("log", [second], expect=1)

    def full(*_: object) -> None:
        raise OSError(28, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(files_log.LogFile, "append", full)
        with pytest.raises(Unavailable):
            store.append("log", [titled(second, "two")], expect=2)
    grown(store, "log", 1, before=second)
    store.fork("log", 1, "early")
    store.fork("log", 2, "late")
    assert {found.id: found.title for found in store.conversations()} == {
        "early": "",
        "late": "one",
        "log": "one",
    }
