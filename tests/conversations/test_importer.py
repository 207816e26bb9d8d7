"""An export comes back byte for byte, or not at all."""

from __future__ import annotations

import io
import os
import tracemalloc
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from hypothesis import given, settings

import refold
from refold.conversations.importer import checked_pieces, import_document, read_document
from refold.core.model import Artifact
from refold.errors import Conflict, Corrupt, Invalid, NotFound, RefoldError
from refold.stores.in_memory import MemoryStore
from refold.stores.sqlite import SqliteStore
from tests.conversations.exports import document, log, store_of, talk, talk_of
from tests.core.logs import bodies, sealed, user


@settings(max_examples=150, deadline=None)
@given(bodies())
def test_any_log_survives_the_round_trip(parts: list) -> None:  # type: ignore[type-arg]
    events = sealed([part for part in parts if not isinstance(part, Artifact)] or [user()])
    fresh = MemoryStore()
    import_document(fresh, document(store_of(events)), id="copy")
    assert log(fresh, "copy") == events


def test_the_bytes_of_an_unusual_body_survive() -> None:
    odd = b'{"b":1.0, "a":[1e2, "\\u00e9/\\/"],"a":null}'
    events = sealed([user(), ("future-kind", odd)])
    fresh = MemoryStore()
    import_document(fresh, document(store_of(events)))
    assert log(fresh)[1].body == odd


def test_an_erased_event_stays_erased() -> None:
    store = talk()
    store.erase("talk", 5)
    fresh = MemoryStore()
    import_document(fresh, document(store))
    assert log(fresh) == log(store) and log(fresh)[4].erased


def refused(damaged: bytes) -> RefoldError:
    fresh = MemoryStore()
    with pytest.raises((Invalid, Corrupt)) as caught:
        import_document(fresh, damaged)
    assert fresh.conversations() == [] and not fresh.contents
    return caught.value


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b"null",
        b"[" * 1_000_000,
        b'{"a":' * 100_000,
        b"\xff\xfe",
        b'{"format":1}',
        b'{"format":"other","version":1}',
        b'{"format":"refold-export"}',
        b'{"format":"refold-export","version":"1"}',
        b'{"format":"refold-export","version":1,"conversation":{"id":"a","head":0,"chain":""},"events":[],'
        b'"artifacts":[],"digest":""}',
        b'{"format":"refold-export","version":1,"events":[' + b'{"body":' * 100_000,
    ],
)
def test_what_is_no_export_is_refused(damaged: bytes) -> None:
    refused(damaged)


def test_a_newer_version_is_refused_naming_both() -> None:
    error = refused(document(talk()).replace(b'"version":1', b'"version":999', 1))
    assert "999" in str(error) and "reads 1" in str(error) and "upgrade" in error.hint


def test_a_cut_export_is_refused_wherever_it_was_cut() -> None:
    exported = document(talk()).rstrip()
    for at in range(0, len(exported), max(1, len(exported) // 150)):
        refused(exported[:at])


def test_a_changed_byte_is_found_or_changes_nothing() -> None:
    store = talk()
    exported = document(store)
    at_event = exported.index(b'"events":[')
    for at in [
        *range(0, at_event + 3_000, 7),
        *range(0, len(exported), max(1, len(exported) // 150)),
    ]:
        changed = exported[:at] + bytes([exported[at] ^ 1]) + exported[at + 1 :]
        fresh = MemoryStore()
        try:
            about = import_document(fresh, changed)
        except RefoldError:
            assert fresh.conversations() == []
        else:
            assert about.id == "talk" and log(fresh) == log(store)


def test_a_dropped_event_is_found() -> None:
    lines = document(talk()).split(b"\n")
    refused(b"\n".join(lines[:3] + lines[4:]))


def test_a_body_that_is_nested_too_deeply_is_refused() -> None:
    deep = b'{"a":' * 80 + b"1" + b"}" * 80
    error = refused(document(store_of(sealed([user(), ("future-kind", deep)]))))
    assert "nested" in str(error)


def test_the_same_export_twice_is_a_conflict_and_writes_nothing() -> None:
    store = talk()
    exported = document(store)
    with pytest.raises(Conflict, match="already holds this log"):
        import_document(store, exported)
    with refold.open("talk", store=store) as context:
        context.append({"role": "user", "content": "and it goes on"})
    with pytest.raises(Conflict, match="already holds this log"):
        import_document(store, exported)
    assert import_document(store, exported, id="second").id == "second"
    with pytest.raises(Conflict, match="already"):
        import_document(store, exported, id="second")


def test_another_log_under_the_same_id_gets_a_number() -> None:
    store = store_of(sealed([user("something else")]))
    assert import_document(store, document(talk())).id == "talk-2"
    with pytest.raises(Conflict, match="talk-2"):
        import_document(store, document(talk_of(store)))


@pytest.mark.parametrize("id", ["../../x", "", "a/b", "CON", "x" * 65])
def test_a_hostile_id_is_refused(id: str) -> None:
    fresh = MemoryStore()
    with pytest.raises(Invalid):
        import_document(fresh, document(talk()), id=id)
    assert fresh.conversations() == []


def test_only_regular_files_that_look_like_an_export_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "nested.json").write_bytes(b"[" * 1_000_000)
    for name in ("pipe", "nested.json", "."):
        with pytest.raises(Invalid):
            read_document(str(tmp_path / name))
    with pytest.raises(Invalid):
        read_document("/dev/zero")
    with pytest.raises(NotFound):
        read_document(str(tmp_path / "nothing"))
    (tmp_path / "short.json").write_bytes(b"[" * 10_000)
    with pytest.raises(Invalid):
        read_document(str(tmp_path / "short.json"))


def test_a_store_on_disk_takes_an_import_with_its_artifacts(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "refold.db"), durable=False)
    source = talk()
    import_document(store, document(source))
    assert store.read("talk", limit=1_000) == log(source)
    artifact = refold.open("talk", store=source).artifacts.list()[0].artifact
    assert b"".join(store.get(artifact.digest)) == b"".join(source.get(artifact.digest))
    assert (store.location(artifact.digest) or "").endswith(".txt")
    store.close()


class Endless(io.RawIOBase):
    """A document that goes on for as long as anybody reads; counts what was read of it."""

    def __init__(self, start: bytes, more: bytes) -> None:
        self.start, self.more, self.read_bytes = start, more, 0

    def read(self, size: int = -1) -> bytes:
        part = (self.start + self.more * (size // len(self.more) + 1))[:size]
        self.start = b""
        self.read_bytes += len(part)
        return part


@pytest.mark.parametrize("more", [b"[", b'{"a":', b'{"\\"":[', b"1,"])
def test_a_nested_document_is_not_read_to_its_end(more: bytes) -> None:
    """X-52: it is refused while it comes, so 100 MB of it take no memory."""
    start = b'{"format": "refold-export", "version": 1, "events": [{"body": ["' + b'a\\"' + b'", '
    stream = Endless(start, more)
    with pytest.raises(Corrupt, match=r"nested more than 64|more than 16,777,216 bytes"):
        for _ in checked_pieces(cast(BinaryIO, stream), "an endless file"):
            pass
    assert stream.read_bytes < 20_000_000


def test_a_file_is_looked_through_before_it_is_read(tmp_path: Path) -> None:
    """X-52: 100 MB on one line take a few MB."""
    place = tmp_path / "deep.json"
    with open(place, "wb") as file:
        file.write(b'{"format": "refold-export", "events": [{"body": ')
        for _ in range(100):
            file.write(b"[" * 1_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(Corrupt, match="nested more than 64 levels deep"):
            read_document(str(place))
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def nested(levels: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize("levels", range(56, 80))
def test_what_is_kept_however_deep_comes_back_from_its_export(levels: int) -> None:
    store = MemoryStore()
    context = refold.Context(store, "deep", embedder=False)
    context.append({"role": "user", "content": "one"})
    for give in (
        lambda: context.update(metadata=nested(levels)),
        lambda: context.update(tools=[nested(levels)]),
        lambda: context.append(refold.Message(role="user", metadata=nested(levels))),
        lambda: context.append({"role": "user", "content": "two", "unknown": nested(levels)}),
    ):
        try:
            give()
        except Invalid:
            assert levels > 60
    context.close()
    exported = document(store, "deep")
    assert b"".join(checked_pieces(io.BytesIO(exported), "the export")) == exported
    fresh = MemoryStore()
    import_document(fresh, exported)
    assert log(fresh, "deep") == log(store, "deep")
