"""A store with a file for the tests of search."""

from __future__ import annotations

import pytest

from refold.stores import open_store


@pytest.fixture
def place(tmp_path) -> str:
    return f"sqlite:{tmp_path / 'refold.db'}"


@pytest.fixture
def store(place):
    opened = open_store(place)
    yield opened
    opened.close()
