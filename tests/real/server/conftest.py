"""One server with two workers for the tests that leave it as it is, and a home without logins."""

from __future__ import annotations

import pytest

from tests.real.server.process import running


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder / "data"))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield folder


@pytest.fixture(scope="session")
def team(tmp_path_factory):
    with running(tmp_path_factory.mktemp("server")) as started:
        yield started
