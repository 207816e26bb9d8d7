"""An empty folder to run in, without settings or keys from outside."""

from __future__ import annotations

import os

import pytest

from refold.settings.sources import KEY_DOMAINS
from tests.edges.cli.conftest import alone as _alone

alone = _alone
ENDINGS = ("_BASE_URL", "_MODEL", "_HOST")


@pytest.fixture(autouse=True)
def keyless(
    alone: None, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # A chat remembers its model there, and its tools look at the folder.
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
    for name in list(os.environ):
        if name in KEY_DOMAINS or name.endswith(ENDINGS):
            monkeypatch.delenv(name)
