"""What holds for dedup on any page, and how long it takes (C-24, C-27, C-90, C-91)."""

from __future__ import annotations

import cProfile
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core.laws import broken
from refold.core.model import Body, Message, Pin, Replace, Span, Text
from refold.core.shortened import text_of
from refold.strategies.dedup import dedup
from refold.strategies.ladder import climb
from refold.strategies.registry import rungs
from tests.strategies.talks import log_of, state_of
from tests.strategies.test_dedup import LONG, asks, brief_of, calls, gives, mention, reads

_paths = st.sampled_from(["a", "./a", "b", "a$&\\1"])
_text = st.sampled_from(
    [
        "",
        "short",
        LONG,
        LONG * 2,
        "Error: x " + LONG,
        LONG + mention("a"),
        f'<file_content path="a">{LONG}',
    ]
)
_range = st.sampled_from([{}, {"offset": 1, "limit": 10}, {"offset": 5, "limit": 3}, {"tail": 4}])


@st.composite
def _step(draw: st.DrawFn) -> list[Body]:
    id, path, text = f"c{draw(st.integers(0, 9**9))}", draw(_paths), draw(_text)
    match draw(st.integers(0, 6)):
        case 0:
            return reads(id, path, text, error=draw(st.booleans()), **draw(_range))
        case 1:
            return [asks(mention(path, text) + draw(_text) + mention(draw(_paths), text))]
        case 2:
            header = Text(f"[read_file for '{path}'] Result:")
            return [Message(role="user", blocks=(header, Text(text), Text(mention(path, text))))]
        case 3:
            return [calls(id, "Bash", command=f"sed -n 1,9p '{path}'"), gives(id, text)]
        case 4:
            return [
                calls(id, "Write", file_path=path, content=text),
                gives(id, "saved " + mention(path, text)),
            ]
        case 5:
            return [calls(id, "Edit", file_path=path), gives(id, text)]
        case _:
            return [calls(id, "run_tests"), gives(id, text)]


@settings(deadline=None)
@given(st.lists(_step(), max_size=8), st.data())
def test_dedup_is_idempotent_lawful_and_never_grows_the_page(
    steps: list[list[Body]], data: st.DataObject
) -> None:
    parts: list[Body] = [asks(), *(part for step in steps for part in step)]
    for seq in data.draw(st.lists(st.integers(1, len(parts)), max_size=2)):
        cut = Replace(batch="b", seq=seq, block=0, keep=(Span(1, 3),))
        parts.append(Pin(seq=seq) if data.draw(st.booleans()) else cut)
    log = log_of([*parts, asks("last")])
    state = state_of(log)
    before = state.view()
    after = climb(state, brief_of(log, target=-1), rungs(["dedup"])).state
    view = after.view()
    assert state.view() == before
    assert view.tokens <= before.tokens
    assert set(broken(view)) <= set(broken(before))
    assert sum(len(text_of(b)) for s in view.slots for b in s.message.blocks) <= sum(
        len(text_of(b)) for s in before.slots for b in s.message.blocks
    )
    again = climb(after, brief_of(log, target=-1, view=view), rungs(["dedup"]))
    assert again.proposals == ()


def _other_files(i: int) -> list[Body]:
    return reads(f"c{i}", f"f{i // 2}", f"{i} " + LONG[:200])


def _one_file(i: int) -> list[Body]:
    return reads(f"c{i}", "f", f"{i} " + LONG[:200])


def _ranges(i: int) -> list[Body]:
    return reads(f"c{i}", f"f{i % 50}", f"{i} " + LONG[:200], offset=i, limit=5)


def _edits(i: int) -> list[Body]:
    edit = calls(f"e{i}", "Edit", file_path="f", old_string=f"{i} line", new_string=f"{i + 1} line")
    return [edit, gives(f"e{i}", "updated"), *_one_file(i)]


def _failures(i: int) -> list[Body]:
    return [*_one_file(i), *reads(f"x{i}", "f", "Timeout")]


@pytest.mark.parametrize("step", [_other_files, _one_file, _ranges, _edits, _failures])
def test_the_work_is_linear_in_messages(step: Callable[[int], list[Body]]) -> None:
    """C-90: twice the messages are twice the function calls."""
    once, twice = (_work(step, count) for count in (150, 300))
    assert twice <= 2.2 * once


def _work(step: Callable[[int], list[Body]], count: int) -> int:
    """How many functions are called to look for copies, and then to try the edits."""
    log = log_of([asks(), *(part for i in range(count) for part in step(i)), asks("last")])
    state, brief = state_of(log), brief_of(log, target=-1)
    with cProfile.Profile() as profile:
        climb(state, brief, rungs(["dedup"]))
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.soak
def test_an_unchanged_page_is_not_looked_through_again() -> None:
    """C-91: the second run over 10,000 messages takes less than 10 ms."""
    parts = [part for i in range(5_000) for part in reads(f"c{i}", f"f{i}", f"{i} text")]
    brief = brief_of(log_of([asks(), *parts]))
    assert dedup(brief) == []
    started = time.process_time()
    assert dedup(brief) == []
    assert time.process_time() - started < 0.01
