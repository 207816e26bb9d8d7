"""The forecast of an observed run against what the fold then does."""

from __future__ import annotations

import random

import pytest
from bench.forecast import MONEY_OFF_MAX, TOKENS_OFF_MAX, compared, played
from bench.sessions import Message
from bench.talks import ItemsTalk, MessagesTalk, Talk


def session(seed: int) -> list[Message]:
    """A made-up session: an agent that reads files of every size, and thinks in between."""
    chance = random.Random(seed)
    messages: list[Message] = [{"role": "user", "content": f"Mend the login, attempt {seed}."}]
    for number in range(45):
        id, path = f"c{number}", f"src/part_{chance.randrange(30)}.py"
        call = {"id": id, "name": "Read", "arguments": {"path": path}}
        thought = "I wonder about the port. " * chance.randrange(20)
        said: Message = {"role": "assistant", "content": "", "reasoning": thought}
        messages.append({**said, "tool_calls": [call]})
        lines = [f"{path}:{at}: value {chance.random()}" for at in range(chance.randrange(400))]
        messages.append({"role": "tool", "tool_call_id": id, "content": "\n".join(lines)})
    return [*messages, {"role": "assistant", "content": "Done."}]


@pytest.mark.parametrize(("make", "window"), [(MessagesTalk, 40_000), (ItemsTalk, 60_000)])
def test_the_forecast_of_an_observed_run_is_what_the_fold_then_does(
    make: type[Talk], window: int
) -> None:
    messages = session(window)
    observed = played(messages, make, folds=False, window=window)
    folded = played(messages, make, folds=True, window=window)
    off, _ = compared(observed, folded)
    assert observed.sum.folded == 0 < folded.sum.folded and observed.forecast.compactions > 0
    assert folded.sum.sent < 0.9 * observed.sum.sent
    assert abs(off["tokens"]) < TOKENS_OFF_MAX and abs(off["money"]) < MONEY_OFF_MAX
