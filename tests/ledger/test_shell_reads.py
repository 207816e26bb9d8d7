"""Commands that show a file, and which lines."""

from __future__ import annotations

import pytest

from refold.ledger.shell import reading_of


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ("head -n 5 a", [(1, 5)]),
        ("tail -3 a", [(-3, 0)]),
        ("tail -n +7 a", [(7, 0)]),
        ("sed -n '2,4p' a", [(2, 4)]),
        ("sed -n '2,$p' a", [(2, 0)]),
        ("cat a | head -n 2", [(1, 2)]),
        ("head -n 0 a", []),
        ("head -n ² a", []),
        ("head -n " + "9" * 5_000 + " a", []),
        ("tail -n", []),
    ],
)
def test_the_lines_that_are_shown(command: str, lines: list[tuple[int, int]]) -> None:
    assert [(effect.first, effect.last) for effect in reading_of(command).effects] == lines


@pytest.mark.parametrize("count", ["+-5", "+", "-", "", "++5"])
def test_no_count_of_lines_raises(count: str) -> None:
    reading_of(f"tail -n '{count}' a")
