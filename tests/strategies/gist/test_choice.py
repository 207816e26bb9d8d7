"""Lines are chosen by worth and price."""

from __future__ import annotations

from refold.strategies.gist.choice import choose_lines
from refold.strategies.gist.lines import (
    Shown,
    passage,
)


def choice(
    lines: list[str], room: float, shown: Shown | None = None, floor: float = 0.0
) -> list[int]:
    """The numbers of the lines that are kept, the most needed first; every name is needed alike."""
    given = passage(7, "tool", "\n".join(lines))
    need = {name: 0.5 for names in given.names for name in names}
    kept = choose_lines([given], need, shown or Shown(), room=room, floor=floor, per_char=0.25)
    return [at for _, at in kept]


def test_the_line_that_tells_most_names_goes_first_and_a_told_name_is_worth_little() -> None:
    lines = [
        "alpha_one and beta_two meet here today",
        "alpha_one alone stands here today",
        "gamma_three is another story here",
    ]
    assert choice(lines, room=24) == [0, 2]


def test_what_the_page_shows_already_is_not_kept_again() -> None:
    shown = Shown()
    shown.add(passage(1, "user", "alpha_one stands on the page already"))
    assert choice(
        ["alpha_one stands on the page already", "beta_two is still to be told here"], 100, shown
    ) == [1]


def test_the_first_request_and_then_the_newest_have_their_share_of_the_room() -> None:
    span = [passage(seq, "user", f"Request number {seq} is for the shop.") for seq in (1, 2, 3, 4)]
    kept = choose_lines(
        span, {}, Shown(), room=40, floor=0.0, per_char=0.25, requests={1, 3, 4}, request_share=0.5
    )
    assert list(kept) == [(1, 0), (4, 0)]


def test_a_line_below_the_floor_is_left_out_whatever_the_room() -> None:
    assert choice(["alpha_one stands here for everyone to see"], room=1_000, floor=1.0) == []
