"""Thinking that a provider does not take back goes up once more without it, where refold acts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.edges.proxy.observer import Observer
from refold.edges.proxy.page import is_refused, without_thinking
from tests.edges.proxy.kit import Message, Provider, Running, user, with_proxy

MESSAGE = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a "
    "different conversation."
)
REFUSED = json.dumps({"error": {"type": "invalid_request_error", "message": MESSAGE}}).encode()
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
SAID = {"type": "text", "text": "It fails."}
TALK: list[Message] = [
    user("Why does it fail?"),
    {"role": "assistant", "content": [THOUGHT, SAID]},
    user("Go on."),
]


def refusing() -> Provider:
    provider = Provider()
    provider.answers = [(400, {"content-type": "application/json"}, REFUSED)]
    return provider


async def asks(running: Running) -> Any:
    return await running.messages(TALK)


def test_where_refold_only_observes_the_error_is_the_clients() -> None:
    provider = refusing()
    assert with_proxy(asks, provider=provider).status_code == 400
    assert len(provider.bodies) == 1


def test_where_refold_folds_it_goes_up_without_it_from_then_on() -> None:
    async def work(running: Running) -> int:
        first = (await asks(running)).status_code
        more = [*TALK, {"role": "assistant", "content": [SAID]}, user("And now?")]
        await running.messages(more)
        return first

    provider = refusing()
    assert with_proxy(work, folds=True, provider=provider) == 200
    first, *later = provider.bodies
    assert b'"thinking"' in first
    assert len(later) == 2 and not any(b'"thinking"' in body for body in later)


def test_where_refold_failed_the_clients_own_list_goes_up_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(Observer, "take", broken)
    provider = refusing()
    assert with_proxy(asks, folds=True, provider=provider).status_code == 200
    first, second = map(json.loads, provider.bodies)
    assert first["messages"] == TALK
    assert second == {**first, "messages": [TALK[0], {**TALK[1], "content": [SAID]}, TALK[2]]}


@pytest.mark.parametrize(
    ("status", "answer", "says_so"),
    [
        (400, MESSAGE, True),
        (400, "messages.3.content.0: Invalid `signature` in `redacted_thinking` block", True),
        (400, "prompt is too long: 208310 tokens > 200000 maximum", False),
        (400, "thinking: extra inputs are not permitted", False),
        (529, MESSAGE, False),
    ],
)
def test_only_what_says_so_is_taken_for_it(status: int, answer: str, says_so: bool) -> None:
    assert is_refused(status, answer.encode()) == says_so


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"messages": 7}', b'{"input": []}'])
def test_what_has_no_messages_is_left_alone(body: bytes) -> None:
    assert without_thinking(body) is None


kinds = st.sampled_from(["thinking", "redacted_thinking", "text", "tool_use"])


@given(st.lists(st.lists(kinds.map(lambda kind: {"type": kind, "x": 1}), max_size=4), max_size=6))
def test_nothing_but_thinking_is_left_out(contents: list[list[Message]]) -> None:
    messages = [{"role": "assistant", "content": one} for one in contents]
    made = without_thinking(json.dumps({"a": [1.0], "messages": messages}).encode())
    has_some = any("thinking" in one["type"] for content in contents for one in content)
    assert (made is not None) == has_some
    if made is not None:
        kept = [[one for one in content if "thinking" not in one["type"]] for content in contents]
        got = json.loads(made)
        assert got["a"] == [1.0]
        for before, content, now in zip(contents, kept, got["messages"], strict=True):
            assert now["content"] == (content or (before and now["content"]))
