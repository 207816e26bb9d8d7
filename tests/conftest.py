"""Property tests look at the same examples every time, so that a red run can be repeated; `make soak` searches anew."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None, max_examples=2_000)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("search" if config.option.markexpr == "soak" else "steady")
