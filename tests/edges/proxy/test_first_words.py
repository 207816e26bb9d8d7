"""First words that the provider refuses as too long are made shorter once, and kept so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.edges.proxy.kit import MODEL, TOOLS, Provider, Running, with_proxy
from tests.edges.proxy.test_replies import CASES, JSON, texts

WINDOW = 40_000
STATED = "prompt is too long: 58500 tokens > 40000 maximum"
UNSTATED = "Your input exceeds the context window of this model."
DECLARED = [{"functionDeclarations": [{"name": "read", "parameters": {"type": "object"}}]}]


def refusal(words: str) -> tuple[int, dict[str, str], bytes]:
    said = {"error": {"type": "invalid_request_error", "message": words}}
    return 400, JSON, json.dumps(said).encode()


def long_words(count: int) -> str:
    numbers = " ".join(f"word{number * 7919 % 999}" for number in range(count))
    return f"Look at the following. {numbers} That was all: which is odd?"


def first_message(name: str, text: str) -> Any:
    if name == "gemini":
        return {"role": "user", "parts": [{"text": text}]}
    return {"role": "user", "content": text}


def said_in(body: bytes, key: str) -> list[Any]:
    return json.loads(body)[key]


def run(name: str, words: str, count: int, *, answers: int = 1, **given: Any) -> Any:
    """Two turns of a conversation whose first words are refused; the statuses, what was sent, and
    what is kept after each turn."""
    path, body, whole, _, repeated = CASES[name]
    [key] = {"messages", "input", "contents"} & body.keys()
    first = first_message(name, long_words(count))
    fields = {"model": MODEL, "tools": DECLARED if name == "gemini" else TOOLS}
    provider, statuses, kept = Provider(), [], []

    async def work(running: Running) -> None:
        provider.answers += [refusal(words)] * answers
        for more in ([], [*repeated, first_message(name, "Go on.")]):
            provider.answers.append((200, JSON, json.dumps(whole).encode()))
            answered = await running.client.post(path, json={**fields, key: [first, *more]})
            await running.settled()
            statuses.append(answered.status_code)
            kept.append([texts(running.view(id)) for id in running.kept()])
            if answers > 1:
                break

    with_proxy(work, window=WINDOW, provider=provider, **given)
    return statuses, [said_in(one, key) for one in provider.bodies], kept


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize("words", [STATED, UNSTATED])
@pytest.mark.parametrize("name", CASES)
def test_they_are_cut_with_a_note_and_the_next_call_begins_with_what_was_sent(
    name: str, words: str, tools: bool
) -> None:
    statuses, sent, kept = run(name, words, 9_000, folds=True, tools=tools)
    assert statuses == [200, 200]
    whole, cut, second = sent
    assert len(json.dumps(cut)) < 0.7 * len(json.dumps(whole))
    assert "tokens are cut here" in json.dumps(cut)
    assert "which is odd?" in json.dumps(cut)
    assert second[: len(cut)] == cut
    assert [len(conversations) for conversations in kept] == [1, 1]
    assert len(kept[0][0]) == 2 and "tokens are cut here" in kept[0][0][0]


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(sorted(CASES)), st.integers(2_000, 30_000), st.floats(1.05, 3.5))
def test_words_of_any_size_are_sent_within_what_the_refusal_says(
    name: str, count: int, more: float
) -> None:
    limit = 10_000
    stated = f"prompt is too long: {int(limit * more)} tokens > {limit} maximum"
    statuses, [whole, cut, _], kept = run(name, stated, count, folds=True)
    assert statuses == [200, 200]
    assert len(json.dumps(cut)) <= 1.02 * len(json.dumps(whole)) / more
    assert len(kept[1]) == 1


@pytest.mark.parametrize("name", CASES)
def test_words_that_stay_too_long_are_refused_and_nothing_is_kept_of_them(name: str) -> None:
    statuses, sent, kept = run(name, STATED, 9_000, answers=2, folds=True)
    assert (statuses, len(sent), kept) == ([400], 2, [[]])


@pytest.mark.parametrize("name", CASES)
def test_without_folding_the_refusal_is_passed_on(name: str) -> None:
    statuses, sent, kept = run(name, STATED, 9_000, answers=2)
    assert (statuses, len(sent), kept) == ([400], 1, [[]])


@pytest.mark.parametrize("name", CASES)
def test_another_refusal_of_first_words_is_passed_on(name: str) -> None:
    statuses, sent, kept = run(name, "tools.0: unknown field", 90, answers=2, folds=True)
    assert (statuses, len(sent), kept) == ([400], 1, [[]])


def test_what_they_were_billed_is_that_of_what_was_sent() -> None:
    async def work(running: Running) -> Any:
        running.provider.answers.append(refusal(STATED))
        said = {**CASES["anthropic"][2], "usage": {"input_tokens": 9_000, "output_tokens": 2}}
        running.provider.answers.append((200, JSON, json.dumps(said).encode()))
        await running.messages([first_message("anthropic", long_words(9_000))])
        [id] = running.kept()
        return running.view(id)

    view = with_proxy(work, folds=True, window=WINDOW)
    assert view.anchor.page == view.tokens - view.slots[-1].tokens
