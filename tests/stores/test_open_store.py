"""A URL names a store, and opening one costs nothing until it is written to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from refold.errors import Invalid
from refold.stores import open_store
from refold.stores.contract.kit import grown


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


def test_a_relative_path_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:here/x.db")
    monkeypatch.chdir("/")
    grown(store, "log", 1)
    store.close()
    assert (tmp_path / "here" / "x.db").exists()


@pytest.mark.parametrize("url", ["", "mysql://host/db", "nowhere", "sqlite:", "memory:x", "x.json", "sqlite:a\0.db", 7])
def test_what_is_no_store_is_refused_with_a_hint(url: str) -> None:
    with pytest.raises(Invalid) as refusal:
        open_store(url)
    assert "sqlite:" in refusal.value.hint or "memory:" in refusal.value.hint


def test_opening_a_memory_store_does_not_load_sqlite() -> None:
    code = "import sys; from refold.stores import open_store; open_store('memory:'); print('apsw' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
