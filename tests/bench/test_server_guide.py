"""What docs/guides/team-server.md says a server costs is no better than what bench/RESULTS.md
measured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "team-server.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8")
SECTION = RESULTS.partition("\n## server\n")[2].partition("\n## ")[0]
ROUNDED = 1.05


def measured(title: str, first: str, column: int) -> float:
    """A figure of a table, by its row and its column."""
    table = SECTION.partition(f"### {title}")[2].partition("###")[0]
    [row] = [line for line in table.splitlines() if line.startswith(f"| {first} ")]
    return float(row.strip("| ").split("|")[column].strip().replace(",", ""))


@pytest.mark.parametrize(
    "line, title",
    [("SQLite", "Durable appends on SQLite\n"), ("PostgreSQL, the server", "Durable appends on PostgreSQL, 8 connections\n")],
)  # fmt: skip
def test_the_events_of_a_core_were_measured(line: str, title: str) -> None:
    [row] = re.findall(rf"\| {line}.* events .*", GUIDE)
    said = [float(text.replace(",", "")) for text in re.findall(r"([\d,]+) events", row)]
    assert len(said) == 2
    for number, batch in zip(said, ("1", "20"), strict=True):
        assert number <= ROUNDED * measured(title, batch, 2), (line, batch)


def test_the_share_of_a_core_follows_from_them() -> None:
    """1,000 agents make 200 appends a second."""
    for said, title in (
        (re.search(r"(\d+) % of a core on SQLite", GUIDE), "Durable appends on SQLite\n"),
        (re.search(r"(\d+) % on PostgreSQL", GUIDE), "Durable appends on PostgreSQL, 8 connections\n"),
    ):  # fmt: skip
        assert said and float(said[1]) * ROUNDED >= 100 * 200 / measured(title, "1", 2)


def test_the_memory_was_measured() -> None:
    title = "The change feed: streams that hear nothing"
    for pattern, column in ((r"about (\d+) MB of memory", 1), (r"take\s+(\d+) MB together", 2)):
        said = re.search(pattern, GUIDE)
        assert said and float(said[1]) * ROUNDED >= measured(title, "500", column)
