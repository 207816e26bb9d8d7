"""Links, pipes and stopped processes inside a store: nothing is written elsewhere, nothing waits for
ever, and what can be made again denies nothing."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
from contextlib import closing
from pathlib import Path

import pytest

import refold
from refold.core.codec import EVENT_BYTES_MAX, ZERO, seal
from refold.core.ids import uuid7
from refold.errors import Denied, Invalid, RefoldError, Unavailable
from refold.log.log import Log
from refold.stores import open_store
from refold.stores.in_memory import MemoryStore
from refold.system import disk
from tests.toolruns import long, ran

PLACES = {
    "sqlite": ("artifacts",),
    "files": ("artifacts", "conversations", "conversations/talk/artifacts"),
}
CASES = [(scheme, place) for scheme, places in PLACES.items() for place in places]


def url_of(scheme: str, folder: Path) -> str:
    return f"sqlite:{folder}/refold.db" if scheme == "sqlite" else f"files:{folder}"


def talk(url: str) -> refold.Context:
    config = refold.Config(offload_tokens=50)
    context = refold.Context(open_store(url), "talk", config=config, window=24_000, embedder=False)
    context.append({"role": "user", "content": "run it"})
    return context


@pytest.mark.parametrize(("scheme", "place"), CASES)
def test_no_link_inside_a_store_is_followed(scheme: str, place: str, tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "store"
    elsewhere.mkdir()
    (elsewhere / "art-mine.txt").write_text("mine")
    url = url_of(scheme, folder)
    if "talk" in place:
        talk(url).close()
    link = folder / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(elsewhere)
    with pytest.raises(Denied, match="is a link"):
        ran(talk(url), long("secret"))
    assert os.listdir(elsewhere) == ["art-mine.txt"]


@pytest.mark.parametrize("scheme", PLACES)
def test_a_stopped_holder_of_the_folder_is_not_waited_for(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = talk(url_of(scheme, tmp_path))
    ran(context, long("first"))
    monkeypatch.setattr(disk.lock, "__kwdefaults__", {"wait_s": 0.05})
    with disk.closing(disk.open_folder(str(tmp_path / "artifacts"))) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="busy"):
            ran(context, long("second"))
    ran(context, long("third"))


def test_a_pipe_in_the_place_of_the_metadata_does_not_hang(tmp_path: Path) -> None:
    context = talk(f"files:{tmp_path}")
    metadata = tmp_path / "conversations/talk/metadata.json"
    metadata.unlink()
    os.mkfifo(metadata)
    context.append({"role": "user", "content": "more"})
    context.close()


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff", b'{"v":1,"conversations":3}'])
def test_a_derived_file_that_cannot_be_read_denies_nothing(content: bytes, tmp_path: Path) -> None:
    url = f"files:{tmp_path}"
    talk(url).close()
    (tmp_path / "index.json").write_bytes(content)
    (tmp_path / "conversations/talk/metadata.json").write_bytes(content)
    bookmark = tmp_path / "conversations/talk/bookmark"
    bookmark.unlink(missing_ok=True)
    bookmark.mkdir()
    assert [about.id for about in refold.conversations.list(url)] == ["talk"]
    assert len(talk(url).view.slots) == 2


def _append(url: str, id: str) -> str:
    try:
        context = refold.Context(open_store(url), id, embedder=False)
        context.append({"role": "user", "content": "x"})
    except RefoldError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("scheme", PLACES)
def test_a_store_can_be_made_by_many_at_once(scheme: str, tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        for number in range(15):
            url = url_of(scheme, tmp_path / str(number))
            assert pool.starmap(_append, [(url, f"c{at}") for at in range(4)]) == [""] * 4


@pytest.mark.parametrize("at_ms", [-(10**15), -1, 0, 1 << 48, 1 << 70])
def test_a_clock_that_is_wrong_refuses_nothing(at_ms: int) -> None:
    context = refold.Context(MemoryStore(), "talk", embedder=False)
    context._open.log.clock = lambda: at_ms
    context.append({"role": "user", "content": "one"})
    assert Log(context._open.store, "talk").state.head == 1


STRANGE = ("link", "dangling link", "pipe", "folder")


def put_strange(path: Path, kind: str, target: Path) -> None:
    """Something else in the place of a file."""
    path.unlink(missing_ok=True)
    match kind:
        case "link":
            target.write_bytes(b"")
            path.symlink_to(target)
        case "dangling link":
            path.symlink_to(target)
        case "pipe":
            os.mkfifo(path)
        case _:
            path.mkdir()


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_nothing_strange_beside_a_database_is_followed(
    suffix: str, kind: str, tmp_path: Path
) -> None:
    url = f"sqlite:{tmp_path}/refold.db"
    with refold.open("talk", store=url) as context:
        context.append({"role": "user", "content": "run it"})
    put_strange(Path(f"{tmp_path}/refold.db{suffix}"), kind, tmp_path / "elsewhere")
    with pytest.raises((Denied, Invalid), match=r"is a link|is not a file"):
        talk(url)
    elsewhere = tmp_path / "elsewhere"
    assert not elsewhere.exists() or elsewhere.read_bytes() == b""


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_not_a_file_is_not_a_database(kind: str, tmp_path: Path) -> None:
    put_strange(tmp_path / "refold.db", kind, tmp_path / "elsewhere")
    with pytest.raises(Invalid, match="is not a file"):
        talk(f"sqlite:{tmp_path}/refold.db")


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("suffix", ["", "-wal", "-journal"])
@pytest.mark.parametrize("scheme", PLACES)
def test_nothing_strange_in_the_place_of_an_index_is_followed(
    scheme: str, suffix: str, kind: str, tmp_path: Path
) -> None:
    url = url_of(scheme, tmp_path)
    context = talk(url)
    path = open_store(url).derived_path("index.db")
    put_strange(Path(f"{path}{suffix}"), kind, tmp_path / "elsewhere")
    assert [hit.seq for hit in context.search("run")] == [context.view.slots[0].seq]
    elsewhere = tmp_path / "elsewhere"
    assert not elsewhere.exists() or elsewhere.read_bytes() == b""


@pytest.mark.parametrize("scheme", ["memory", "sqlite", "files"])
def test_an_event_over_the_limit_is_refused(scheme: str, tmp_path: Path) -> None:
    url = "memory:" if scheme == "memory" else url_of(scheme, tmp_path)
    with closing(open_store(url)) as store:
        for size, is_refused in ((EVENT_BYTES_MAX + 1, True), (EVENT_BYTES_MAX, False)):
            event = seal(
                ZERO, 1, id=uuid7(1, bytes(10)), at_ms=1, by="x", kind="new",
                body=b'"' + b"a" * (size - 2) + b'"', salt=b"s",
            )  # fmt: skip
            if is_refused:
                with pytest.raises(Invalid, match="over the limit"):
                    store.append("one", [event], expect=0)
            else:
                store.append("one", [event], expect=0)
        assert store.head("one") == 1
