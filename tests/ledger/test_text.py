"""The ledger as lines of a page."""

from __future__ import annotations

import pytest

from refold.core.model import Fact
from refold.ledger.ledger import ledger_lines
from tests.ledger.messages import many


def test_lines_are_grouped_in_one_order_and_carry_their_seq() -> None:
    facts = [
        Fact(kind="file", text="b.py", seq=9, state="modified"),
        Fact(kind="file", text="a.py", seq=4, state="read"),
        Fact(kind="command", text="make\n all", seq=5, state="exit 2"),
        Fact(kind="request", text="old\nwish", seq=1),
        Fact(kind="request", text="new\nwish", seq=8),
        Fact(kind="todo", text="ship", seq=6, state="open"),
        Fact(kind="constraint", text="Never push.", seq=1, state="user"),
        Fact(kind="error", text="make → boom", seq=5, state="open"),
    ]
    expected = [
        "User requests:",
        "- #1 old wish",
        "- #8 new\nwish",
        "Constraints:",
        "- #1 Never push. (user)",
        "Open to-dos:",
        "- #6 ship",
        "Files changed:",
        "- #9 modified b.py",
        "Open errors:",
        "- #5 make → boom",
        "Commands:",
        "- #5 make all (exit 2)",
        "Files read:",
        "- #4 read a.py",
    ]
    assert ledger_lines(facts) == ledger_lines(facts[::-1]) == expected


def test_older_requests_are_cut_and_say_where_they_are_whole() -> None:
    facts = [
        Fact(kind="request", text="x" * 1_500, seq=3),
        Fact(kind="request", text="y" * 1_500, seq=9),
    ]
    _, older, newest = ledger_lines(facts)
    assert len(older) < 450 and "whole at #3" in older
    assert newest == "- #9 " + "y" * 1_500


@pytest.mark.parametrize("room", [0, 100, 500, 2_000])
def test_lines_keep_within_their_room_and_count_what_is_missing(room: int) -> None:
    lines = ledger_lines(many(), room)
    assert len("\n".join(lines)) <= max(room, 60)
    assert lines[-1].endswith("more facts are not shown)")
    if room >= 500:
        assert {"- #1 do it", "- #1 modified m", "- #1 t", "- #1 never (user)"} <= set(lines)
