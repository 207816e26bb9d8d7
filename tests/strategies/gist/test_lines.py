"""What a line tells of a name, and lines in pieces."""

from __future__ import annotations

import pytest

from refold.strategies.gist.passages import count_words, cut, merged, tells, windows


@pytest.mark.parametrize(
    ("text", "name", "telling"),
    [
        ("own_name", "own_name", False),
        ("own_name: 4, own_name", "own_name", False),
        ("own_name opens the door", "own_name", True),
        ("one own_name two own_name three", "own_name", True),
    ],
)
def test_a_line_tells_of_a_name_by_three_other_words(text: str, name: str, telling: bool) -> None:
    assert tells(text, count_words(text), name) is telling


def test_a_long_line_is_kept_in_pieces_around_its_names() -> None:
    line = f"{'word ' * 60}alpha_one{' word' * 60}"
    ((start, end), names), *rest = windows(line, ["alpha_one"]).items()
    assert not rest and names == ["alpha_one"] and "alpha_one" in line[start:end]
    shown = cut(line, [(start, end)])
    assert shown.startswith("… ") and shown.endswith(" …") and len(shown) < 200


def test_pieces_that_touch_become_one() -> None:
    assert merged([(0, 10), (50, 60)], 9, 20) == [(0, 20), (50, 60)]
