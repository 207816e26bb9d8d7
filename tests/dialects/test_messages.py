"""The page as messages with the slots they came from, settled and as the log has them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import refold
from refold import dialects
from refold.core.laws import NO_RESULT
from refold.core.model import Message, Opaque, Text, Thinking
from refold.core.shortened import text_of
from refold.errors import Invalid
from tests.dialects.test_whatever_came import CALLS as REQUESTS
from tests.dialects.test_whatever_came import steps, take

CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for id in ("a", "b")
    ],
}


def opened(*messages: Any) -> refold.Context:
    context = refold.open("x", store="memory:", model="gpt-4o", embedder=False)
    for message in messages:
        context.append(message)
    return context


@pytest.mark.parametrize("name", dialects.DIALECTS)
def test_an_open_call_waits_on_an_unsettled_page(name: str) -> None:
    context = opened({"role": "user", "content": "q"}, CALLS)
    head = context.view.head
    assert NO_RESULT not in str(context.page(name, settle=False))
    assert NO_RESULT in str(context.page(name))
    assert context.view.head == head, "nothing is written"


def test_an_answer_that_opens_the_page_stands_alone() -> None:
    context = opened({"role": "assistant", "content": "hello"})
    [shown] = context.page(settle=False)
    assert shown.message == {"role": "assistant", "content": "hello"}
    assert shown.seqs == (context.view.slots[0].seq,)


def test_results_that_are_said_in_one_message_name_both_slots() -> None:
    results = [{"role": "tool", "tool_call_id": id, "content": id} for id in ("a", "b")]
    context = opened({"role": "user", "content": "q"}, CALLS, *results)
    first, call, one, two = (slot.seq for slot in context.view.slots)
    assert [shown.seqs for shown in context.page("anthropic")] == [(first,), (call,), (one, two)]
    assert [shown.seqs for shown in context.page("openai_chat")] == [
        (first,), (call,), (one,), (two,),
    ]  # fmt: skip


KEYS = {"anthropic": "messages", "openai_chat": "messages", "openai_responses": "input"}
COMPACTED = st.just(("compact", None))


@settings(deadline=None, max_examples=150)
@example([("append", {"role": "model", "parts": [{"text": "x"}]})] * 2, ("gemini", {}), False)
@given(
    st.lists(steps() | COMPACTED, min_size=1, max_size=8),
    st.sampled_from(REQUESTS),
    st.booleans(),
)
def test_a_page_has_the_very_messages_of_the_request(
    taken: list[tuple[str, Any]], call: tuple[str, dict[str, Any]], alternates: bool
) -> None:
    (name, options), dialect = call, dialects.dialect(call[0])
    config = {"alternate_roles": alternates, "cache": False}
    context = refold.open("x", store="memory:", config=config, embedder=False)
    for kind, value in taken:
        try:
            if kind == "compact":
                context.compact(target=1)
            else:
                take(context, (kind, copy.deepcopy(value)))
            request = context.request(name, **options)
        except refold.RefoldError:
            continue
        sent = request[KEYS.get(name, "contents")]
        page = [one.message for one in context.page(name)]
        assert page[len(page) - len(sent) :] == sent
        assert all(one["role"] == "system" for one in page[: len(page) - len(sent)])
        assert dialect.check(request) == []


def is_unsaid(message: Message) -> bool:
    """Whether this is an answer with no word and no call that another provider could be sent."""
    own = (Thinking, Opaque, Text)
    return message.role == "assistant" and all(
        isinstance(block, own) and (isinstance(block, Thinking) or not text_of(block))
        for block in message.blocks
    )


@settings(deadline=None, max_examples=60)
@example([("append", {"role": "assistant", "content": ""})], "openai_responses")
@example([("append", {"type": "reasoning", "content": None, "summary": []})], "openai_chat")
@given(st.lists(steps(), min_size=1, max_size=6), st.sampled_from(sorted(dialects.DIALECTS)))
def test_every_message_names_its_slots_and_every_slot_has_its_message(
    taken: list[tuple[str, Any]], name: str
) -> None:
    context = opened()
    for step in taken:
        try:
            take(context, copy.deepcopy(step))
        except Invalid as error:
            assert error.hint
    on_page = {slot.seq for slot in context.view.slots}
    for settle in (True, False):
        shown = context.page(name, settle=settle)
        assert all(one.seqs and on_page.issuperset(one.seqs) for one in shown)
        assert not any(key.startswith("$") for one in shown for key in one.message)
    unsettled = {seq for one in context.page(name, settle=False) for seq in one.seqs}
    missing = [slot.message for slot in context.view.slots if slot.seq not in unsettled]
    assert all(map(is_unsaid, missing)), "only answers of which nothing can be said"
    assert unsettled <= on_page


def spoil(value: Any) -> None:
    """Changes every list and object in a value, as a caller may whom it was given."""
    inner = list(value.values()) if isinstance(value, dict) else list(value)
    for one in inner:
        if isinstance(one, dict | list):
            spoil(one)
    if isinstance(value, dict):
        value["spoiled"] = True
    else:
        value.append("spoiled")


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.tuples(steps(), st.booleans()), min_size=1, max_size=8),
    st.sampled_from(sorted(dialects.DIALECTS)),
    st.booleans(),
)
def test_a_page_is_what_a_new_reader_sees_whatever_was_shown_and_changed_before(
    taken: list[tuple[tuple[str, Any], bool]], name: str, settle: bool
) -> None:
    store = refold.open_store("memory:")
    context = refold.open("x", store=store, model="gpt-4o", embedder=False)
    for step, is_spoiled in taken:
        try:
            take(context, copy.deepcopy(step))
        except Invalid as error:
            assert error.hint
        shown = context.page(name, settle=settle)
        with refold.open("x", store=store, model=context.view.model, embedder=False) as other:
            assert shown == other.page(name, settle=settle)
        if is_spoiled:
            for one in shown:
                spoil(one.message)
