"""An empty folder to run in, in a UTF-8 locale, without settings from outside; and a store in
it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.edges.cli.rooms import seeded


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("REFOLD_", "LC_")) or name == "NO_COLOR":
            monkeypatch.delenv(name)
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def url(alone: None, tmp_path: Path) -> str:
    """The store of this project, with one conversation."""
    place = f"sqlite:{tmp_path / '.refold' / 'refold.db'}"
    seeded(place)
    return place
