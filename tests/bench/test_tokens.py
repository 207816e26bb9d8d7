"""The measure of the counters, in small: it runs, and the goal after calibration is met for
every kind of text."""

from __future__ import annotations

import pytest
from bench import token_packages, tokens
from bench.token_texts import texts

from refold.tokens import exact
from refold.tokens.counter import counter_for


def test_the_calibrated_error_is_within_the_goal_for_every_kind_of_text() -> None:
    """Issue 4, G-90: code, JSON, English, Chinese; at most 5 % after five reported usages."""
    table = tokens.errors(
        texts(None, True), counter_for("estimate", "gpt-4o"), counter_for("exact", "gpt-4o")
    )
    assert [(row[0], row[-1]) for row in table.rows] == [
        (kind, "yes") for kind in ("code", "JSON", "English", "Chinese")
    ]


def test_the_packages_are_compared_with_our_counts() -> None:
    """Issue 4: the one we use agrees with itself; those that are not installed are named."""
    rows = {
        row[0]: row for row in token_packages.table(["hello world", "it's 12,345 signs\n"]).rows
    }
    assert set(rows) == set(token_packages.PACKAGES)
    assert rows["splintr-rs"][4] == "0"


def test_without_the_extra_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figure is better than one of the estimate against itself."""
    monkeypatch.setattr(exact, "PACKAGE", "no_such_package_at_all")
    assert str(tokens.run(None, quick=True)).startswith("Skipped")
