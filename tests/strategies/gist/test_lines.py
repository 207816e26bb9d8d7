"""How a gist reads and chooses (design, section 5): names in text, messages as lines, lines by
worth and price."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.model import Applied, Message, Slot, Text, ToolCall
from refold.strategies.gist.choice import choose_lines
from refold.strategies.gist.draft import without_last
from refold.strategies.gist.lines import (
    Passage,
    Shown,
    count_words,
    cut,
    merged,
    passage,
    tells,
    windows,
)
from refold.strategies.gist.names import Needs, names_of
from refold.strategies.gist.passages import Reader, flat, kept_lines
from refold.strategies.gist.queue import Queue
from tests.strategies.talks import brief_of, log_of, said, state_of

# --- names ---


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("see src/auth/login.py:41 and README.md", ("src/auth/login.py", "README.md")),
        ("cd /testbed && go test ./terminal/...", ("testbed", "terminal")),
        ("call parse_args() of ArgParser, not argParse", ("parse_args", "ArgParser", "argParse")),
        ("run 40221 of job9x failed at commit 3fa9c1d", ("40221", "job9x", "3fa9c1d")),
        ("The quick Brown fox jumps over LAZY dogs", ()),
        ("parse_args parse_args", ("parse_args",)),
        ("", ()),
    ],
)
def test_names_are_the_specific_things_on_a_line(line: str, names: tuple[str, ...]) -> None:
    assert names_of(line) == names


@given(st.text(max_size=400))
def test_every_name_stands_on_its_line(line: str) -> None:
    assert all(name in line and 4 <= len(name) <= 120 for name in names_of(line))


def test_what_the_agent_names_itself_is_needed_more_than_what_it_saw() -> None:
    needs = Needs()
    for role, name in [
        ("tool", "seen_once"),
        ("assistant", "own_name"),
        ("tool", "other"),
        ("assistant", "own_name"),
    ]:
        needs.observe(role, [(name,)])
    odds = needs.odds(["seen_once", "own_name", "never"])
    assert odds["own_name"] > odds["seen_once"] > odds["never"] == 0.0


def test_what_a_gist_noted_counts_for_the_next() -> None:
    first, second = Needs(), Needs()
    for _ in range(5):
        first.observe("assistant", [("own_name",)])
    second.recall(first.now, first.noted(["own_name", "never"]))
    assert second.odds(["own_name"]) == first.odds(["own_name"])


NAMES = st.sampled_from(["own_name", "load_user", "a.py"])
MESSAGES = st.tuples(
    st.sampled_from(["user", "assistant", "tool"]), st.lists(st.tuples(NAMES, NAMES), max_size=4)
)


@given(st.lists(MESSAGES, max_size=8), st.sets(NAMES))
def test_what_is_known_of_some_names_is_what_is_known_of_all_without_the_others(
    messages: list[tuple[str, list[tuple[str, ...]]]], only: set[str]
) -> None:
    every, some = Needs(), Needs(only)
    for role, names in messages:
        every.observe(role, names)
        some.observe(role, names)
    noted = {"own_name": [1, 9, 9, 1, 1, 0], "a.py": [0, 1, 1, 1, 5, 1]}
    every.recall(9, noted)
    some.recall(9, noted)
    assert (some.now, some.noted(sorted(every.rows))) == (every.now, every.noted(sorted(only)))


DENSITIES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=12)


@given(DENSITIES, DENSITIES)
def test_a_queue_gives_the_densest_first_and_among_equals_the_lower_number(
    densities: list[float], again: list[float]
) -> None:
    queue = Queue(densities, floor=0.25)
    for index, density in enumerate(again):
        queue.push(density, index)
    expected = sorted(
        [(-d, i) for i, d in enumerate(densities) if d >= 0.25]
        + [(-d, i) for i, d in enumerate(again)]
    )
    while expected:
        density, index = expected.pop(0)
        assert not queue.is_ahead_of(-density)
        assert queue.pop() == index
        assert all(
            queue.is_ahead_of(limit) == (bool(expected) and -expected[0][0] > limit)
            for limit in (0.0, 0.5)
        )
    assert not queue


# --- lines ---


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


def test_a_long_line_is_kept_in_pieces_around_its_names() -> None:
    line = f"{'word ' * 60}alpha_one{' word' * 60}"
    ((start, end), names), *rest = windows(line, ["alpha_one"]).items()
    assert not rest and names == ["alpha_one"] and "alpha_one" in line[start:end]
    shown = cut(line, [(start, end)])
    assert shown.startswith("… ") and shown.endswith(" …") and len(shown) < 200


def test_pieces_that_touch_become_one() -> None:
    assert merged([(0, 10), (50, 60)], 9, 20) == [(0, 20), (50, 60)]


def test_the_least_needed_lines_go_first_when_the_room_was_misjudged() -> None:
    kept = {(1, 0): [(0, 10)], (1, 1): [(0, 10)], (2, 0): [(0, 10)]}
    assert without_last(kept, 12) == {(1, 0): [(0, 10)]}
    assert without_last(kept, 0) == kept


# --- messages ---


def test_a_call_is_read_as_its_name_and_a_line_per_argument() -> None:
    call = ToolCall("c", "edit", '{"path": "a.py", "old": "x\\ny"}')
    assert (
        flat(Message(role="assistant", blocks=(Text("Now."), call)))
        == "Now.\nedit\npath: a.py\nold: x\ny"
    )


def test_broken_arguments_are_read_as_they_came() -> None:
    assert (
        flat(Message(role="assistant", blocks=(ToolCall("c", "edit", '{"path": '),)))
        == 'edit\n{"path": '
    )


def test_a_gist_gives_its_lines_back_under_their_own_messages() -> None:
    ledger = "[Earlier steps #3-9, shortened]\nFiles changed:\n- #4 modified a.py"
    text = f"{ledger}\n#4 agent\nNow a.py.\n#5 tool\nx = 1\ny = 2"
    found = [(one.seq, one.role, one.lines) for one in kept_lines(text, before=10)]
    assert found == [(4, "assistant", ["Now a.py."]), (5, "tool", ["x = 1", "y = 2"])]
    assert [one.seq for one in kept_lines(text, before=5)] == [4]


def test_gists_that_stay_are_read_once_and_forgotten_when_they_go() -> None:
    texts = ["[Earlier]\n#4 agent\nWe must call load_user first.", "[Earlier]\n#9 tool\nload_user"]
    brief = brief_of(log_of([said("user", "go")]))
    gists = [Slot(3 + at, 3 + at, said("user", text), 40) for at, text in enumerate(texts)]
    both = Reader(brief).shown_by_gists(gists)
    assert both.told() == {"load_user": 1.0}
    first = brief.scratch["gists"][texts[0]]
    assert Reader(brief).shown_by_gists(gists[:1]).lines == {"We must call load_user first."}
    assert brief.scratch["gists"] == {texts[0]: first}
    assert first is not both


def test_a_message_that_the_page_shows_cut_is_folded_from_all_its_lines() -> None:
    log = log_of([said("user", "go"), said("assistant", "first\nsecond\nthird")])
    whole = state_of(log).view().slots[1]
    shown = Slot(
        whole.seq,
        whole.last,
        said("assistant", "first"),
        5,
        edits=(Applied(seq=3, block=0, tokens=-3),),
    )
    reader = Reader(brief_of(log))
    assert [one.lines for one in reader.read(shown)] == [["first", "second", "third"]]
    assert reader.shown(shown) == Passage(2, "assistant", ["first"], [()])
