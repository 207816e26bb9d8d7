"""Validity, always: whatever is done to a conversation, every page is lawful, fits, and every
provider would take it.

Every strategy, preset and ladder (`stories.ARRANGEMENTS`) is run in stories that go on after a
compaction: append, compact again, undo, restore, another model, a refusal. 500 stories in `make
test`, 10,000 in `make soak`, there also over recorded sessions if `REFOLD_DATA` names a folder of
them. Dialects and strategies come from their registries, so that a new one is in it by itself.
(Issue 3, point 5; X-16, Y-41, Y-43, Y-50, Y-57, Y-84, C-81, M-77.)
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold import dialects
from refold.core.laws import broken
from refold.core.model import Event, Message
from refold.errors import OverBudget
from refold.stores import open_store
from refold.strategies.registry import BUILT_IN
from tests.stories import ARRANGEMENTS, Story
from tests.strategies.talks import unlawful

STORIES, STORIES_IN_SOAK = 500, 10_000
DATA = os.environ.get("REFOLD_DATA", "")
every_arrangement = pytest.mark.parametrize("name", ARRANGEMENTS)


def per_arrangement(stories: int) -> int:
    return -(-stories // len(ARRANGEMENTS))


def tell(name: str, seed: int, steps: int, parts: Iterator[Message] | None = None) -> int:
    """One story; an error says how to tell it again."""
    try:
        return Story(seed, ARRANGEMENTS[name], parts).told(steps)
    except Exception as error:
        error.add_note(f"Story({seed}, ARRANGEMENTS[{name!r}]).told({steps})")
        raise


def test_every_strategy_is_in_an_arrangement() -> None:
    assert set(BUILT_IN) <= {name for names, _ in ARRANGEMENTS.values() for name in names}


@every_arrangement
def test_every_page_of_five_hundred_stories_is_lawful_and_valid(name: str) -> None:
    stories = per_arrangement(STORIES)
    made = sum(tell(name, seed, 2) for seed in range(stories))
    assert made > 4 * stories * len(dialects.DIALECTS), (
        "most steps end with a request in every dialect"
    )


@pytest.mark.soak
@every_arrangement
def test_every_page_of_ten_thousand_stories_is_lawful_and_valid(name: str) -> None:
    first = SystemRandom().randrange(10**9)
    for seed in range(first, first + per_arrangement(STORIES_IN_SOAK)):
        tell(name, seed, 6)


# --- recorded sessions ---


def recorded(path: Path) -> Iterator[Message]:
    """The messages of a recorded session: one JSON object per line, in the common shape of chat
    completions."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = (json.loads(line) for line in file)
        for row in rows:
            if row.get("role") in ("user", "assistant", "tool"):
                yield from dialects.parse(row, "openai_chat")


@pytest.mark.soak
@pytest.mark.skipif(
    not DATA, reason="REFOLD_DATA names no folder of recorded sessions (*.jsonl.gz)"
)
@every_arrangement
def test_every_page_of_recorded_sessions_is_lawful_and_valid(name: str) -> None:
    paths = sorted(Path(DATA).rglob("*.jsonl.gz"))
    assert paths, f"there is no *.jsonl.gz in {DATA}"
    at = sorted(ARRANGEMENTS).index(name)
    for number, path in enumerate(paths[at :: len(ARRANGEMENTS)]):
        tell(name, number, 40, recorded(path))


@given(unlawful, st.sampled_from(sorted(ARRANGEMENTS)), st.sampled_from([1_500, 8_000]))
def test_a_log_that_breaks_every_rule_still_gives_valid_pages(
    log: list[Event], name: str, window: int
) -> None:
    """M-77: laws that the log itself broke may stay broken, but none is added, and no request is
    refused."""
    store = open_store("memory:")
    if log:
        store.append("work", log, expect=0)
    context = refold.Context(store, "work", window=window)
    context.append(
        {"role": "user", "content": "go on"}
    )  # a page with nothing on it is no request anywhere
    before = set(broken(context.view))
    strategies, settings = ARRANGEMENTS[name]
    rest = {key: value for key, value in settings.items() if key != "task"}
    context.compact(*strategies, target=0, task=settings.get("task", ""), **rest)
    assert set(broken(context.view)) <= before
    for dialect in dialects.DIALECTS:
        try:
            assert dialects.dialect(dialect).check(context.request(dialect)) == []
        except OverBudget:
            assert context.stats().current > context.budget.input_max
