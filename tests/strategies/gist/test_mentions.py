"""The list of names beside the lines of a tight gist: the most needed ones, none twice, no secret,
and none where there is room for lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import refold
from refold.core.model import Body, Summarize
from refold.strategies.gist import gist
from refold.strategies.gist.draft import (
    MARK,
    SHARE_MOST,
    further_names,
    list_share,
    names_line,
    without_secrets,
)
from refold.strategies.gist.names import Needs
from refold.strategies.gist.passages import flat, passage
from refold.strategies.ladder import Climb, climb
from tests.strategies.talks import brief_of, log_of, said, state_of, used

names_used = st.lists(
    st.from_regex(r"[a-z]{2,6}_[a-z]{2,6}(/[a-z]{2,6}\.py)?", fullmatch=True),
    unique=True,
    max_size=30,
)


def needs_of(*said: tuple[str, list[str]]) -> Needs:
    needs = Needs()
    for role, names in said:
        needs.observe(role, [(name,) for name in names])
    return needs


@given(st.floats(1, 1e6), st.floats(0, 1e7))
def test_the_list_has_a_part_of_the_room_only_where_little_of_the_text_can_stay(
    room: float, text: float
) -> None:
    share = list_share(room, text)
    assert 0 <= share <= SHARE_MOST
    assert share == 0 or room < 0.06 * text


@given(names_used, st.integers(0, 600), st.text(max_size=200))
def test_a_list_fits_and_says_nothing_twice(names: list[str], chars: int, page: str) -> None:
    listed = further_names(needs_of(("assistant", names)), page, chars)
    assert not listed or len(names_line(listed)) <= chars
    assert not any(name in page for name in listed)
    assert not [(a, b) for a in listed for b in listed if a is not b and a in b]


def test_the_most_used_name_comes_first_and_what_one_output_had_once_does_not_come() -> None:
    needs = needs_of(("tool", ["seen_once"]), ("tool", ["seen_again"]), ("tool", ["seen_again"]))
    for _ in range(4):
        needs.observe("assistant", [("used_often",)])
    assert further_names(needs, "", 200) == ["used_often", "seen_again"]


@pytest.mark.parametrize("name", ["src/a.py-12", "src/a.py:12", "a/src/b.py", "b/src/b.py", "1234"])
def test_places_sides_of_a_diff_and_numbers_in_outputs_are_not_listed(name: str) -> None:
    held = ("tool", [name, "src/b.py"])
    assert further_names(needs_of(held, held), "", 200) == ["src/b.py"]


def test_a_name_that_a_line_gives_away_as_a_secret_is_not_listed() -> None:
    lines = passage(1, "tool", "password: hunter_2x9\nuser: jane_doe")

    def redact(text: str) -> str:
        return text.replace("password: hunter_2x9", "password: [secret]")

    assert without_secrets(["hunter_2x9", "jane_doe"], [lines], redact) == ["jane_doe"]


def test_a_path_is_listed_as_it_was_written() -> None:
    lines = passage(1, "tool", "open /srv/app/a.py\nsee src/b.py, x/etc/c.py, (/etc/c.py)")
    names = ["srv/app/a.py", "src/b.py", "etc/c.py", "x/etc/c.py"]
    line = names_line(names, [lines, passage(2, "tool", "/etc/c.py")])
    assert line == MARK + "/srv/app/a.py, src/b.py, /etc/c.py, x/etc/c.py"


def test_a_target_far_below_the_page_is_for_what_was_said_and_not_for_the_newest_results() -> None:
    context = refold.open("far", store="memory:", window=200_000)
    context.append({"role": "user", "content": "Fix the login of every shop."})
    for n in range(60):
        given = {"name": "read_file", "arguments": f'{{"path": "/srv/app/shop_{n}.py"}}'}
        call = {"id": f"c{n}", "type": "function", "function": given}
        rows = [f"def handler_{n}_{i}(request):  # answers the login route" for i in range(40)]
        context.append({"role": "assistant", "content": f"Now shop_{n}.", "tool_calls": [call]})
        context.append({"role": "tool", "tool_call_id": f"c{n}", "content": "\n".join(rows)})
    assert context.compact(target=2_000).tokens_after <= 2_000
    messages = context.request(dialect="openai_chat")["messages"]
    text = "\n".join(str(message["content"]) for message in messages)
    assert f"{MARK}/srv/app/shop_" in text
    assert "are hidden" not in text


# --- on the page ---


def steps(count: int) -> list[Body]:
    parts: list[Body] = [said("user", "Fix the login of every shop, please.")]
    for n in range(count):
        rows = [f"def handler_{n}_{i}(request):  # answers the login route" for i in range(30)]
        parts += used(f"c{n}", "\n".join(rows), text=f"Now handler_{n}_3.", path=f"src/shop_{n}.py")
    return parts


def folded(count: int, target: int) -> Climb:
    log = log_of(steps(count))
    brief = brief_of(log, target, window=4_000)
    state = state_of(log)
    return climb(state, replace(brief, full=target * 2, is_asked=True), [("gist", gist)])


def listed_on(done: Climb) -> list[str]:
    lines = [line for slot in done.state.view().slots for line in flat(slot.message).splitlines()]
    return [
        name for line in lines if line.startswith(MARK) for name in line[len(MARK) :].split(", ")
    ]


def test_a_tight_gist_names_what_it_could_not_quote_and_remembers_it() -> None:
    done = folded(60, 700)
    assert done.state.tokens <= 700
    names = listed_on(done)
    assert len(names) > 5
    [edit] = [one.edit for one in done.proposals if isinstance(one.edit, Summarize)]
    assert edit.gist is not None
    assert set(names) <= set(edit.gist.names)


def test_a_gist_with_room_lists_nothing() -> None:
    assert listed_on(folded(12, 2_000)) == []
