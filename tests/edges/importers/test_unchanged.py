"""A file that was not written to since is not read again; everything else is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from refold.config import Config
from refold.edges.importers import importer, lines
from refold.edges.importers.importer import import_file
from refold.engine.context import Context
from refold.stores import open_store, own_paths
from refold.stores.protocol import Store
from tests.edges.importers import transcripts
from tests.edges.importers.test_importing import CLAUDE, texts
from tests.edges.importers.transcripts import user, write

STORES = ("sqlite:{}/a.db", "files:{}/a")


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return open_store(request.param.format(tmp_path / "there"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return settled(write(tmp_path / "a.jsonl", transcripts.parallel()))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were read."""
    read: list[Path] = []
    usual = importer._imported

    def noticing(store: Store, config: Config, path: Path, **given: object) -> object:
        read.append(path)
        return usual(store, config, path, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(importer, "_imported", noticing)
    monkeypatch.setattr(lines, "SETTLED_NS", 0)
    return read


def settled(path: Path, seconds: int = 0) -> Path:
    """The file, written to so many seconds after its first time."""
    os.utime(path, ns=(10**18, 10**18 + seconds * 10**9))
    return path


def test_an_unchanged_file_is_not_read_again_and_says_the_same(
    store: Store, file: Path, reads: list[Path]
) -> None:
    first = import_file(store, Config(), file)
    again = import_file(store, Config(), file)
    assert len(reads) == 1
    [one], [other] = first.sessions, again.sessions
    assert (one.messages, one.head, one.title) == (other.messages, other.head, other.title)
    assert (one.new, other.new) == (5, 0)
    with Context(store, CLAUDE) as context:
        context.restore(2)
        context.update(title="Mine")
    again = import_file(store, Config(), file)
    assert len(reads) == 1 and again.sessions[0].title == "Mine"


CHANGES: dict[str, Callable[[Path], object]] = {
    "grown": lambda file: write(file, [*transcripts.parallel(), user("u9", "a4", "More.")]),
    "of the same size": lambda file: file.write_bytes(file.read_bytes().replace(b"List", b"Show")),
    "of the same size and time": lambda file: (
        file.write_bytes(file.read_bytes().replace(b"List", b"Show")),
        settled(file),
    ),
    "another file": lambda file: (
        write(file.with_name("b"), transcripts.parallel()),
        settled(file.with_name("b")),
        file.with_name("b").replace(file),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_was_written_to_is_read(
    change: str, store: Store, file: Path, reads: list[Path]
) -> None:
    import_file(store, Config(), file)
    CHANGES[change](file)
    import_file(store, Config(), file)
    assert len(reads) == 2


def test_a_file_that_was_just_written_is_read_again(
    store: Store, tmp_path: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "SETTLED_NS", 2_000_000_000)
    file = write(tmp_path / "a.jsonl", transcripts.parallel())
    for _ in range(2):
        import_file(store, Config(), file)
    assert len(reads) == 2


def test_a_conversation_that_is_gone_or_another_is_imported_again(
    store: Store, file: Path, reads: list[Path]
) -> None:
    import_file(store, Config(), file)
    store.delete(CLAUDE)
    assert import_file(store, Config(), file).sessions[0].new == 5
    import_file(store, Config(), file)
    assert len(reads) == 2
    store.delete(CLAUDE)
    with Context(store, CLAUDE) as context:
        for number in range(20):
            context.append({"role": "user", "content": f"{number}"})
    assert import_file(store, Config(), file).sessions[0].new == 5


def test_what_is_kept_may_be_damaged_or_lost(store: Store, file: Path, reads: list[Path]) -> None:
    import_file(store, Config(), file)
    folder = Path(store.derived_path("imports") or "")
    [kept] = folder.iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600 and b"Listing folders" not in kept.read_bytes()
    for content in (b"", b"{", b"[]", b'{"version":1}', b"x" * 100_000):
        kept.write_bytes(content)
        assert import_file(store, Config(), file).sessions[0].new == 0
    kept.unlink()
    folder.rmdir()
    folder.write_bytes(b"no folder")
    assert import_file(store, Config(), file).sessions[0].new == 0
    assert len(reads) == 7
    assert texts(store, CLAUDE)[-1] == "one.py and two.py."


def test_another_id_and_another_store_are_another_import(
    store: Store, file: Path, reads: list[Path], tmp_path: Path
) -> None:
    import_file(store, Config(), file)
    import_file(store, Config(), file, id="other")
    import_file(open_store(f"files:{tmp_path}/elsewhere"), Config(), file)
    import_file(open_store("memory:"), Config(), file)
    assert len(reads) == 4


def test_what_is_kept_belongs_to_the_store(store: Store, file: Path, reads: list[Path]) -> None:
    """No model may write there by the tools of a chat."""
    import_file(store, Config(), file)
    [kept] = Path(store.derived_path("imports") or "").iterdir()
    assert str(kept) in own_paths(store)
