"""Answers that are kept before their framework repeats them: once each, whatever comes between."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import refold
from refold.edges.adapters import guest as guests
from refold.edges.adapters.guest import Guest, Sent, Waiting, definitions


def user(text):
    return {"role": "user", "content": text}


def answer(text):
    return {"role": "assistant", "content": text}


def same(message):
    return message


def fold(guest, messages, name="s"):
    return guest.fold(name, messages, same, same)


def take(guest, sent, answers, usage=None):
    guest.take(sent, lambda: (answers, usage))


def said(guest, name="s"):
    with guest.sessions.session(name) as context:
        return [slot.message.blocks[0].text for slot in context.view.slots]


def kinds(guest, name="s"):
    with guest.sessions.session(name) as context:
        return [event.kind for event in context.log.events()]


@pytest.fixture
def guest():
    made = Guest("openai_chat", "memory:", {"window": 100_000, "model": "gpt-4o"})
    yield made
    made.close()


def test_an_answer_is_kept_and_its_repetition_known(guest):
    sent = fold(guest, [user("a")])
    take(guest, sent, [answer("b")], {"prompt_tokens": 9, "completion_tokens": 2})
    assert said(guest) == ["a", "b"]
    fold(guest, [user("a"), answer("b"), user("c")])
    assert said(guest) == ["a", "b", "c"]
    assert "revert" not in kinds(guest)


def test_an_answer_that_is_repeated_in_other_words_is_amended(guest):
    take(guest, fold(guest, [user("a")]), [answer("b")])
    fold(guest, [user("a"), answer("B!"), user("c")])
    assert said(guest) == ["a", "B!", "c"]


def test_an_answer_that_comes_after_the_list_went_on_takes_nothing_back(guest):
    sent = fold(guest, [user("a")])
    fold(guest, [user("a"), answer("b"), user("c")])
    take(guest, sent, [answer("b")], {"prompt_tokens": 9, "completion_tokens": 2})
    assert said(guest) == ["a", "b", "c"]
    assert "revert" not in kinds(guest)


def test_an_answer_that_is_told_twice_is_kept_once(guest):
    sent = fold(guest, [user("a")])
    for _ in range(3):
        take(guest, sent, [answer("b")])
    assert said(guest) == ["a", "b"]


def test_an_answer_that_is_dropped_and_asked_for_again_is_taken_back(guest):
    take(guest, fold(guest, [user("a")]), [answer("b")])
    take(guest, fold(guest, [user("a")]), [answer("c")])
    assert said(guest) == ["a", "c"]


def test_answers_of_two_lists_in_one_session_are_kept_in_their_branches(guest):
    """A sub-agent that is asked while the answer of the other is still to come."""
    long = [user("a"), answer("b"), user("c"), answer("d"), user("e")]
    first = fold(guest, long)
    second = fold(guest, [user("x")])
    take(guest, first, [answer("f")])
    take(guest, second, [answer("y")])
    assert said(guest) == ["x", "y"]
    fold(guest, [*long, answer("f"), user("g")])
    assert said(guest) == ["a", "b", "c", "d", "e", "f", "g"]
    assert "revert" not in kinds(guest)


def test_a_store_that_fails_costs_the_agent_nothing(guest, monkeypatch, caplog):
    messages = [user("a")]
    sent = fold(guest, messages)

    def fail(*_, **__):
        raise refold.Unavailable("the server is away")

    for method in ("mirror", "record"):
        monkeypatch.setattr(refold.Context, method, fail)
    take(guest, sent, [answer("b")], {"prompt_tokens": 9, "completion_tokens": 2})
    shown = fold(guest, [*messages, answer("b")])
    assert shown.shown == [*messages, answer("b")]
    assert not shown.conversation
    take(guest, shown, [answer("c")])
    assert caplog.text.count("the server is away") == 2


@pytest.mark.parametrize(
    "error", [AttributeError("role"), KeyError("content"), TypeError("int"), IndexError(0)]
)
def test_an_answer_or_a_list_of_another_make_costs_the_agent_nothing(guest, error, caplog):
    def unreadable(*_):
        raise error

    guest.take(fold(guest, [user("a")]), unreadable)
    assert said(guest) == ["a"]
    assert guest.fold("s", [user("b")], unreadable, same).shown == [user("b")]
    assert len(caplog.records) == 2


def test_a_tool_that_cannot_be_read_is_left_out_of_the_count():
    assert definitions(["read", 7, "write"], str.upper) == ["READ", "WRITE"]
    assert definitions([7], str.upper) is None


def test_settings_that_are_wrong_are_said_at_once():
    with pytest.raises(refold.Invalid):
        fold(Guest("openai_chat", "memory:", {"window": -1}), [user("a")])


def test_calls_that_are_never_answered_are_forgotten_at_some_time(monkeypatch):
    monkeypatch.setattr(guests, "WAITING_MAX", 3)
    waiting = Waiting()
    sent = [Sent(shown=[number]) for number in range(5)]
    for number, one in enumerate(sent):
        waiting.add(str(number), one)
    assert [waiting.pop(str(number)) for number in range(5)] == [None, None, *sent[2:]]
    assert waiting.pop("4") is None


STEPS = some.lists(
    some.tuples(
        some.integers(0, 2),  # whose list it is
        some.sampled_from(["kept", "late", "lost"]),
        some.text(alphabet="xyz", min_size=1, max_size=3),
    ),
    max_size=20,
)


@settings(deadline=None, max_examples=60)
@given(STEPS)
def test_whatever_comes_between_every_list_is_there_once_and_in_its_order(steps):
    """Three agents share a session; their answers are told at once, after the next call, or
    never."""
    guest = Guest("openai_chat", "memory:", {"window": 100_000, "model": "gpt-4o"})
    lists = [[user(f"I am {number}")] for number in range(3)]
    late = []
    for who, told, text in steps:
        messages = lists[who]
        sent = fold(guest, messages)
        for waiting in late:
            take(guest, *waiting)
        late = []
        if told == "kept":
            take(guest, sent, [answer(text)])
        elif told == "late":
            late.append((sent, [answer(text)]))
        lists[who] = [*messages, answer(text), user(f"{len(messages)}")]
    for messages in lists:
        fold(guest, messages)
        assert said(guest) == [one["content"] for one in messages]
    guest.close()
