"""A URL names a store, and opening one costs nothing until it is written to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import refold
from refold.errors import Invalid, NotFound
from refold.stores import open_store
from refold.stores.contract.kit import grown
from tests.stores.disks import needs_strace, run
from tests.stores.syncs import APPENDER


def test_memory_alone_gives_a_fresh_store_each_time() -> None:
    here, there = open_store("memory:"), open_store("memory:")
    grown(here, "log", 1)
    assert there.conversations() == [] and here.url == "memory:"


@pytest.mark.parametrize("form", ["sqlite:{}", "{}"])
def test_a_path_names_the_same_store_with_and_without_its_scheme(form: str, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = open_store(form.format(path))
    grown(store, "log", 2)
    store.close()
    assert open_store(f"sqlite:{path}").conversation("log").head == 2
    assert store.url == f"sqlite:{path}"


def test_a_relative_path_stays_where_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:here/x.db")
    monkeypatch.chdir("/")
    grown(store, "log", 1)
    store.close()
    assert (tmp_path / "here" / "x.db").exists()


@pytest.mark.parametrize(
    "url", ["", "mysql://host/db", "nowhere", "sqlite:", "memory:x", "x.json", "sqlite:a\0.db"]
)
def test_what_is_no_store_is_refused_with_a_hint(url: str) -> None:
    with pytest.raises(Invalid) as refusal:
        open_store(url)
    assert "sqlite:" in refusal.value.hint or "memory:" in refusal.value.hint


def test_opening_a_memory_store_does_not_load_sqlite() -> None:
    code = "import sys; from refold.stores import open_store; open_store('memory:'); print('apsw' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        == "False\n"
    )


@pytest.mark.parametrize("place", ["sqlite:{}/a/x.db", "files:{}/a/s"])
def test_reading_a_store_that_is_not_there_creates_nothing(place: str, tmp_path: Path) -> None:
    store = open_store(place.format(tmp_path))
    assert store.conversations() == [] and store.bookmark("log") is None
    for refused in (
        lambda: store.read("log"),
        lambda: store.keep_bookmark("log", b""),
        lambda: store.fork("log", 1, "new"),
        lambda: store.delete("log"),
        lambda: store.erase("log", 1),
    ):
        with pytest.raises(NotFound):
            refused()
    store.append("log", [], expect=0)
    store.flush()
    store.close()
    assert list(tmp_path.iterdir()) == []


@needs_strace
@pytest.mark.parametrize("place", ["sqlite:{}/x/x.db", "files:{}/x"])
def test_a_flush_is_one_sync_and_none_when_nothing_was_appended(place: str, tmp_path: Path) -> None:
    command = [
        "strace",
        "-f",
        "-e",
        "trace=fsync,fdatasync,write",
        "-o",
        tmp_path / "trace",
        sys.executable,
        "-c",
    ]
    run(*command, APPENDER, place.format(tmp_path))
    trace = (tmp_path / "trace").read_text()
    between = [part.count("sync(") for part in trace.split('"acked')][1:-1]
    assert between == [1] * 5, trace


@pytest.mark.parametrize(
    "name", ["sqlite:.refold/refold.db", "files:.refold/tree", "sqlite:own/a.db"]
)
def test_git_leaves_the_folder_of_a_project_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with refold.open("c", store=name) as context:
        context.append({"role": "user", "content": "hi"})
    ignoring = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob(".gitignore")]
    assert ignoring == ([".refold/.gitignore"] if ".refold" in name else [])
    if ignoring:
        assert (tmp_path / ".refold/.gitignore").read_text() == "*\n"
