"""What adapters share, with no framework: the list that is sent, and the sessions held open."""

from __future__ import annotations

import pytest

import refold
from refold.edges.adapters import guest
from refold.edges.adapters.guest import Sessions, folded


class Own:
    """A message of some framework."""

    def __init__(self, wire):
        self.wire = wire


def history(count):
    messages = [{"role": "user", "content": "Fix the login test"}]
    for number in range(count):
        function = {"name": "read", "arguments": f'{{"path":"file{number}.py"}}'}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        text = f"a line of file{number}.py that says something\n" * 300
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": text})
    return [Own(message) for message in messages]


def fold(context, messages, wire=lambda one: one.wire):
    system = "You fix tests."
    return folded(context, messages, wire, Own, dialect="openai_chat", system=system).shown


def test_what_fits_is_sent_as_the_very_objects():
    messages = history(3)
    with refold.open("a", store="memory:", window=200_000) as context:
        assert fold(context, messages) == messages


def test_what_does_not_fit_is_folded_and_the_rest_are_the_very_objects():
    messages = history(30)
    with refold.open("a", store="memory:", window=16_000) as context:
        shown = fold(context, messages)
        assert len(shown) < len(messages)
        assert shown[0] is messages[0]
        assert shown[-1] is messages[-1]
        assert context.view.slot_tokens < 16_000


def test_a_list_that_grows_and_goes_back_is_followed():
    messages = history(30)
    with refold.open("a", store="memory:", window=16_000) as context:
        for count in (3, 61, 20, 61, 61):
            assert fold(context, messages[:count])[-1] is messages[count - 1]


def broken(one):
    raise TypeError("no such type")


@pytest.mark.parametrize(
    ("messages", "wire"),
    [
        ([Own({"role": "nobody"})], lambda one: one.wire),
        ([Own(7)], lambda one: one.wire),
        (history(2), broken),
    ],
)
def test_what_cannot_be_read_is_sent_as_it_is(messages, wire, caplog):
    with refold.open("a", store="memory:") as context:
        assert fold(context, messages, wire) == messages
        assert "sent unchanged" in caplog.text


def test_only_the_newest_sessions_stay_open(tmp_path, monkeypatch):
    monkeypatch.setattr(guest, "OPEN_MAX", 2)
    held = Sessions(f"sqlite:{tmp_path}/a.db")
    for name in ("a", "b/ü", "c", "a"):
        with held.session(name) as context:
            context.append({"role": "user", "content": name})
    with held.session("a") as context:
        assert [slot.message.blocks[0].text for slot in context.view.slots] == ["a", "a"]
    held.close()
    there = refold.conversations.list(f"sqlite:{tmp_path}/a.db")
    assert {one.names for one in there} == {("a",), ("b/ü",), ("c",)}


def test_a_store_that_was_given_stays_open():
    store = refold.open_store("memory:")
    held = Sessions(store)
    with held.session("a") as context:
        context.append({"role": "user", "content": "x"})
    held.close()
    assert len(refold.conversations.list(store)) == 1
