"""`index.json` only saves time: it is never needed, and never believed against the folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from refold.stores.contract.kit import grown
from refold.stores.files import FilesStore
from refold.stores.files.conversation_folder import OpenFolders


@pytest.mark.parametrize(
    "damage",
    [None, b"", b"{", b'{"v":1,"conversations":[{"id":7}]}', b'{"v":9,"conversations":[]}'],
)
def test_the_list_does_not_depend_on_the_index(damage: bytes | None, tmp_path: Path) -> None:
    """M-15: the index is made again where it is missing, old or damaged."""
    store = FilesStore(str(tmp_path))
    for id in ("a", "b", "c"):
        grown(store, id, 2)
    expected = store.conversations()
    store.close()
    index = tmp_path / "index.json"
    index.unlink() if damage is None else index.write_bytes(damage)
    again = FilesStore(str(tmp_path))
    assert again.conversations() == expected
    grown(again, "d", 1)
    again.close()
    assert [entry["id"] for entry in json.loads(index.read_bytes())["conversations"]] == [
        "a",
        "b",
        "c",
        "d",
    ]


def test_an_index_entry_that_still_holds_spares_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FilesStore(str(tmp_path))
    events = {id: grown(store, id, 2) for id in ("a", "b")}
    store.close()
    other = FilesStore(str(tmp_path))
    grown(other, "b", 1, before=events["b"][-1])
    opened: list[str] = []
    reader = FilesStore(str(tmp_path))
    find = OpenFolders.find
    monkeypatch.setattr(
        OpenFolders, "find", lambda self, id: (opened.append(id), find(self, id))[1]
    )
    assert [found.head for found in reader.conversations()] == [2, 3] and opened == ["b"]
    other.close()
