"""The tables of the measures, and the file they are kept in."""

from __future__ import annotations

from bench.__main__ import merged
from bench.tables import Table


def test_sections_that_were_not_run_keep_their_text() -> None:
    former = "# Results\n\n## turns\n\nold turns\n\n## probes\n\nold probes\n"
    text = merged(former, {"turns": "## turns\n\nnew turns\n"})
    assert "new turns" in text
    assert "old turns" not in text
    assert "old probes" in text
    assert merged(text, {}) == text


def test_a_judged_row_says_whether_the_goal_is_met() -> None:
    table = Table("t", ["what", "refold", "goal", "met"])
    table.at_most("a", 1.0, 2.0)
    table.at_least("b", 1.0, 2.0)
    assert [row[-1] for row in table.rows] == ["yes", "NO"]
