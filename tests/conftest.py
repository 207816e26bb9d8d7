"""Property tests look at the same examples every time, so that a red run can be repeated; `make
soak` searches for new ones. A test that asks for a store gets one of each kind that it names."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal import constants_ast
from hypothesis.internal.conjecture import providers

# The clauses of the contract assert, and live in the package: this has to be said before anything
# imports them.
pytest.register_assert_rewrite("refold.stores.contract")

from refold.stores import open_store  # noqa: E402
from refold.stores.protocol import Store  # noqa: E402

# How long a machine takes is no fault of what is tested on it.
ANY_TIME = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", ANY_TIME, derandomize=True)
settings.register_profile("search", ANY_TIME, max_examples=2_000)


# What a person has set for refold, for a terminal or for a language is nothing to the tests.
OF_THE_USER = re.compile(
    r"LC_.*|LANGUAGE|LINES|(NO|FORCE)_COLOR|PYTHONIOENCODING|(CLAUDE|CODEX|CLINE)_.*"
    r"|REFOLD_(STORE|TOKEN|(SERVER|WRITER|CHAT|PROXY|MCP)_.*)"
)


def pytest_configure(config: pytest.Config) -> None:
    for name in filter(OF_THE_USER.fullmatch, list(os.environ)):
        del os.environ[name]
    os.environ.update(LANG="C.UTF-8", COLUMNS="80")
    # Nothing that a collection of tests makes is garbage.
    gc.disable()
    if config.option.markexpr == "soak":
        settings.load_profile("search")
        return
    settings.load_profile("steady")
    # Some examples would be constants out of those modules of ours that are loaded by then, and so
    # depend on the tests that ran before.
    providers._get_local_constants = constants_ast.Constants


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def no_memories_of_this_user(tmp_path: Path) -> Iterator[None]:
    """The user's own store is a new one in every test, whatever the test itself takes back."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("REFOLD_USER_STORE", f"sqlite:{tmp_path}/user/refold.db")
        yield


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new store. Tests of other kinds have a fixture `url` of their own."""
    return "memory:" if request.param == "memory" else f"sqlite:{tmp_path}/refold.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """A new store, open."""
    store = open_store(url)
    yield store
    store.close()
