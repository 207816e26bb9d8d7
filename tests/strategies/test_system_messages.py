"""What a host says as the system inside the list stays whole through compactions, within a bound."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold

WINDOW = 24_000
FILLER = "the log of a run that nobody needs to read again, line after line\n" * 40


def talk(context: refold.Context, rules: dict[int, str], turns: int = 60) -> None:
    """A loop with system messages before some of its turns."""
    for turn in range(turns):
        if turn in rules:
            context.append({"role": "system", "content": rules[turn]})
        context.append({"role": "user", "content": f"step {turn}\n{FILLER}"})
        context.append({"role": "assistant", "content": f"done {turn}"})
        context.request()


def shown(context: refold.Context) -> list[str]:
    slots = context.view.slots
    said = [slot for slot in slots if slot.message.role == "system" and not slot.standin]
    return [slot.message.blocks[0].text for slot in said]


@settings(deadline=None, max_examples=15)
@given(
    st.dictionaries(st.integers(1, 40), st.integers(10, 300), min_size=1, max_size=3),
    st.sampled_from(["claude-sonnet-5-5", "gpt-5", "gemini-2.5-pro"]),
)
def test_system_messages_in_the_middle_stay_whole(places, model):
    rules = {turn: f"Rule {turn}: " + "never touch prod. " * size for turn, size in places.items()}
    small = {turn: text for turn, text in rules.items() if len(text) < 4_000}
    with refold.open("a", store="memory:", model=model, window=WINDOW) as context:
        talk(context, small)
        assert context.log.batches()
        assert shown(context) == [small[turn] for turn in sorted(small)]


@pytest.mark.parametrize("size", [40, 400])
def test_where_they_are_too_many_the_first_and_the_newest_stay(size):
    rules = {turn: f"Note {turn}. " + "Mind the clock. " * size for turn in range(1, 50)}
    with refold.open("a", store="memory:", model="gpt-5", window=WINDOW) as context:
        talk(context, rules)
        stands = shown(context)
        assert context.stats().current <= context.budget.input_max
        assert stands[0].startswith("Note 1.")
        if size == 40:
            assert stands[-1].startswith("Note 49.")
