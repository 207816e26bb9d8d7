"""The text of a gist keeps to its room."""

from __future__ import annotations

from refold.strategies.gist.draft import without_last


def test_the_least_needed_lines_go_first_when_the_room_was_misjudged() -> None:
    kept = {(1, 0): [(0, 10)], (1, 1): [(0, 10)], (2, 0): [(0, 10)]}
    assert without_last(kept, 12) == {(1, 0): [(0, 10)]}
    assert without_last(kept, 0) == kept
