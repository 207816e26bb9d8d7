"""What a conversation's events name lies in its own folder as well, without a second copy."""

from __future__ import annotations

import json
import os
from pathlib import Path

from refold.core import codec
from refold.core.model import Artifact
from refold.stores.contract.kit import sealed
from refold.stores.files import FilesStore
from tests.stores.trees import artifact_event

LATER_MS = 1 << 42


def test_the_same_content_is_kept_once_and_goes_with_its_last_name(tmp_path: Path) -> None:
    """M-20, M-21: three events, one content; erasing and dropping leave neither bytes nor what
    was said of them."""
    store = FilesStore(str(tmp_path))
    first = artifact_event(store, b"secret content", name="first-name")
    second = artifact_event(store, b"secret content", first, name="second-name")
    store.append("log", [first, second], expect=0)
    store.append("other", [artifact_event(store, b"secret content")], expect=0)
    assert len(os.listdir(tmp_path / "conversations" / "other" / "artifacts")) == 2
    digest = json.loads(first.body)["digest"]
    assert os.stat(str(store.location(digest))).st_nlink == 3
    store.erase("log", 2)
    [meta] = (tmp_path / "conversations" / "log" / "artifacts").glob("*.meta.json")
    assert json.loads(meta.read_bytes())["name"] == "first-name"
    store.erase("log", 1)
    assert os.listdir(tmp_path / "conversations" / "log" / "artifacts") == []
    assert b"".join(store.get(digest)) == b"secret content"
    assert store.drop(digest, before_ms=LATER_MS)
    store.close()
    assert not any(
        b"secret content" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    )


def test_an_artifact_event_that_names_nothing_is_kept_as_it_is(tmp_path: Path) -> None:
    store = FilesStore(str(tmp_path))
    events = sealed(
        None, [b'{"id":', codec.encode(Artifact(id="art-x", digest="../../x"))], kind="artifact"
    )
    store.append("log", events, expect=0)
    store.erase("log", 1)
    assert [event.erased for event in store.read("log")] == [True, False]
    assert not (tmp_path / "conversations" / "log" / "artifacts").exists()
    store.close()
