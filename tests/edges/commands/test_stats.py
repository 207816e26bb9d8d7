"""`refold stats`: the numbers of one conversation."""

from __future__ import annotations

import re

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


def test_percent_is_cut_and_never_rounded_up_to_the_warning(url: str) -> None:
    current = as_json("stats", "fix-login")["current"]
    for window in range(current + 1, current + 600, 7):
        text = run("stats", "fix-login", "--window", str(window)).stdout
        [percent] = re.findall(r"^Tokens: .*\((\d+\.\d)%\)", text, re.MULTILINE)
        assert 0 <= 100 * current / window - float(percent) < 0.1
