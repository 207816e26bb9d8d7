"""What the arguments of a tool call mean."""

from __future__ import annotations

from typing import Any

import pytest

from refold.ledger.arguments import lines_are_known, lines_of, paths_of


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"offset": "10", "limit": 5}, (10, 14)),
        ({"view_range": "3-9"}, (3, 9)),
        ({"start_line": 4}, (4, 0)),
        ({"tail": -5}, (-5, 0)),
        ({"offset": "--5"}, (1, 0)),
        ({"offset": "5-"}, (1, 0)),
        ({"limit": float("nan")}, (1, 0)),
    ],
)
def test_lines_are_read_where_they_can_be(
    arguments: dict[str, Any], lines: tuple[int, int]
) -> None:
    assert lines_of(arguments) == lines


def test_a_number_that_is_not_understood_may_choose_lines() -> None:
    assert lines_are_known({"path": "a", "offset": "5"})
    assert not lines_are_known({"path": "a", "offset": "--5"})
    assert not lines_are_known({"path": "a", "page": 2})


def test_paths_are_found_in_lists_of_objects_up_to_a_depth() -> None:
    assert paths_of({"files": [{"path": "a"}, {"file": {"path": "b"}}, "c"]}) == ["a", "b", "c"]
    assert paths_of({"files": [[[["deep"]]]]}) == []
    assert paths_of({"files": "a"}) == []
    assert paths_of({"where": "a"}, "where") == ["a"]
