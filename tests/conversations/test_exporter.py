"""An export is one file: whole, for the owner alone, or not at all."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

import refold
from refold.conversations.exporter import chunks_of, export_file, json_chunks
from refold.conversations.importer import import_document, read_document
from refold.core.model import Event
from refold.errors import Conflict, Corrupt, Invalid, NotFound, RefoldError
from refold.stores.in_memory import MemoryStore
from tests.conversations.exports import document, log, store_of, talk
from tests.core.logs import sealed, user


def test_an_export_is_json_and_imports_to_the_same_bytes_and_the_same_page() -> None:
    store, fresh = talk(), MemoryStore()
    exported = document(store)
    assert json.loads(exported)["format"] == "refold-export"
    about = import_document(fresh, exported)
    assert about.id == "talk" and about.title == "A talk"
    assert log(fresh) == log(store)
    before, after = refold.open("talk", store=store), refold.open("talk", store=fresh)
    assert after.view == before.view and after.request() == before.request()
    for artifact in (one.artifact for one in before.artifacts.list()):
        assert after.unfold(artifact.id).content == before.unfold(artifact.id).content


def test_a_fork_is_exported_whole() -> None:
    store = talk()
    store.fork("talk", 7, "branch")
    fresh = MemoryStore()
    import_document(fresh, document(store, "branch"))
    assert log(fresh, "branch") == log(store)[:7]


def test_the_export_is_written_as_it_is_read() -> None:
    """No chunk grows with the log or with an artifact."""
    store = store_of(sealed([user("x" * 1_000)] * 2_000))
    with refold.open("talk", store=store) as context:
        context.artifacts.put("y" * 3_000_000, name="large")
    assert max(map(len, json_chunks(store, "talk"))) < 400_000


def test_a_damaged_log_is_not_exported() -> None:
    events = sealed([user("one"), user("two")])
    store = store_of(events)
    store.logs["talk"].events[1] = refold_replace(
        events[1], body=events[1].body.replace(b"two", b"tow")
    )
    with pytest.raises(Corrupt, match="event 2"):
        document(store)


def refold_replace(event: Event, **fields: object) -> Event:
    import msgspec

    return msgspec.structs.replace(event, **fields)


def test_a_file_is_written_whole_for_the_owner_alone(tmp_path: Path) -> None:
    path, before = tmp_path / "talk.json", os.umask(0)
    try:
        size = export_file(talk(), "talk", str(path))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.stat().st_size == size
    assert os.listdir(tmp_path) == ["talk.json"]
    assert import_document(MemoryStore(), read_document(str(path))).id == "talk"


def test_an_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "talk.md"
    path.write_text("mine")
    with pytest.raises(Conflict, match="already exists"):
        export_file(talk(), "talk", str(path))
    assert path.read_text() == "mine"
    export_file(talk(), "talk", str(path), force=True)
    assert path.read_text().startswith("# A talk")


def test_a_failed_export_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        export_file(MemoryStore(), "nobody", str(tmp_path / "a.json"))
    with pytest.raises(Invalid, match="not end in a known format"):
        export_file(talk(), "talk", str(tmp_path / "a.pdf"))
    with pytest.raises(Invalid, match="no format"):
        chunks_of(talk(), "talk", "pdf")
    with pytest.raises(RefoldError):
        export_file(talk(), "talk", str(tmp_path / "missing" / "a.json"))
    assert os.listdir(tmp_path) == []
