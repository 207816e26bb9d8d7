"""`refold stats`: the numbers of one conversation."""

from __future__ import annotations

import pytest

from tests.edges.cli.rooms import as_json, run

pytestmark = pytest.mark.usefixtures("alone")


def test_stats_says_the_numbers(url: str) -> None:
    text = run("stats", "fix-login").stdout
    assert (
        "Messages: 16 (5 user, 6 assistant, 5 tool)" in text
        and "Artifacts: 1 (1 command output)" in text
    )
    assert "/ 200,000 (" in text and "Cost: $0.00" in text
    stats = as_json("stats", "fix-login", "--window", "40000")
    assert stats["window"] == 40_000 and sum(stats["breakdown"].values()) == stats["current"]
    assert stats["billed"]["calls"] == 1
