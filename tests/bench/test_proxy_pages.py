"""The proxy beside the library: the same messages go through both, and come back as they went."""

from __future__ import annotations

from typing import Any

import msgspec
from bench.proxied import Passage, Proxied
from bench.proxy_pages import POLICIES, calls_of, fronts
from bench.replay import replay
from bench.sessions import Message, text_of
from bench.talks import ItemsTalk, MessagesTalk, spoken
from hypothesis import given
from hypothesis import strategies as st

TEXTS = st.text(min_size=1, max_size=20)


def session(turns: int, chars: int = 400) -> list[Message]:
    messages: list[Message] = [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "Find out why login_form.py fails."},
    ]
    for number in range(turns):
        call = {"id": f"c{number}", "name": "read", "arguments": {"path": f"src/part_{number}.py"}}
        text = f"def function_{number}(): return value_{number} of the form\n" * (chars // 40)
        messages += [
            {"role": "assistant", "content": "", "reasoning": "Hm.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": text},
        ]
    return [*messages, {"role": "assistant", "content": f"It is function_{turns // 2}."}]


@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_messages_come_back_as_they_went(texts: list[str]) -> None:
    messages: list[Message] = [{"role": "user", "content": text} for text in texts]
    messages += session(3)[2:]
    talk = MessagesTalk()
    for message in messages:
        talk.take(message)
    back = [said for wire in talk.wires for said in spoken(wire)]
    assert list(map(text_of, back)) == list(map(text_of, messages))
    assert [one["role"] for one in back] == [one["role"] for one in messages]


def test_there_is_one_call_before_each_answer_and_it_has_the_whole_list() -> None:
    for make in (MessagesTalk, ItemsTalk):
        talk = make(thinks=True)
        bodies = [msgspec.json.decode(body) for body in calls_of(session(4), talk)]
        assert len(bodies) == 5
        sizes = [len(body[talk.key]) for body in bodies]
        assert sizes == sorted(set(sizes))


def test_a_short_session_is_sent_as_it_came() -> None:
    talk = MessagesTalk()
    passage = Passage(talk.path, 60_000)
    for body in calls_of(session(4), talk):
        assert passage.sent(body) == body
        passage.answered(len(body) // 4)


def test_the_proxy_is_measured_like_the_library() -> None:
    scores = replay(session(60), 4_000, POLICIES)
    library, proxy = scores["library"], scores["proxy"]
    assert library.bill.prompts == proxy.bill.prompts
    assert library.recall.needed == proxy.recall.needed > 0
    assert not proxy.bill.faults
    assert proxy.cost < 1


def test_what_the_provider_counts_over_the_budget_is_made_to_fit_and_the_request_stays() -> None:
    """Where its count is far from ours, as of runs of spaces."""
    messages = session(30)
    picture = "".join(f" src/part_{n}.py {' ' * 90} | {n} {'+-' * 20}\n" for n in range(60))
    for number in (20, 40, 50):
        messages[number + 1] = {**messages[number + 1], "content": picture[: 120 * number]}
    score = replay(messages, 4_000, POLICIES)["proxy"]
    assert not score.bill.faults


def test_a_prompt_of_the_proxy_says_what_its_system_prompt_says() -> None:
    proxied = Proxied()
    proxied.start(60_000)
    for message in session(2)[:4]:
        proxied.observe(message)
    assert [one["role"] for one in proxied.prompt()] == ["system", "user", "assistant", "tool"]


def test_a_front_is_the_same_as_a_text_or_as_a_marked_list() -> None:
    marked: dict[str, Any] = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    before = [{"role": "user", "content": [marked]}]
    after = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert fronts([before, after]) == [1.0]
    assert fronts([before, [{"role": "user", "content": "b"}]]) == [0.0]
