"""Property tests look at the same examples every time, so that a red run can be repeated; `make
soak` searches anew."""

from __future__ import annotations

import pytest
from hypothesis import settings

# The clauses of the contract assert, and live in the package: this has to be said before anything
# imports them.
pytest.register_assert_rewrite("refold.stores.contract")

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None, max_examples=2_000)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("search" if config.option.markexpr == "soak" else "steady")
