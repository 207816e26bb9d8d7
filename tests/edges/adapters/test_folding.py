"""What adapters share, with no framework: the list that is sent, and the sessions held open."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.dialects import dialect
from refold.dialects.openai_responses.check import parted_faults
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
        for count in (3, 61, 21, 61, 61):
            assert fold(context, messages[:count])[-1] is messages[count - 1]


def test_a_result_stored_as_an_artifact_is_sent_as_its_stub():
    [asked, called, answered] = history(1)
    answered.wire = {**answered.wire, "content": "\n".join(map(str, range(20_000)))}
    with refold.open("a", store="memory:", window=30_000) as context:
        shown = fold(context, [asked, called, answered])
        assert shown[:2] == [asked, called]
        assert len(shown[2].wire["content"]) < 20_000


# --- what is sent is the request ---

REPORT = "\n".join(f"part {part}: {part * 37 % 991} kg" for part in range(60))


def reply(name: str, number: int, calls: int, *, thinks: bool) -> tuple[list[Any], list[Any]]:
    """The messages of an answer with parallel calls, and of their results."""
    ids = [f"c{number}_{call}" for call in range(calls)]
    text = f"Crate {number} is weighed."
    match name:
        case "anthropic":
            thought = {"type": "thinking", "thinking": f"hm {number}", "signature": "c2ln"}
            uses = [{"type": "tool_use", "id": id, "name": "weigh", "input": {}} for id in ids]
            said = [*[thought] * thinks, *(uses or [{"type": "text", "text": text}])]
            results = [{"type": "tool_result", "tool_use_id": id, "content": REPORT} for id in ids]
            return [{"role": "assistant", "content": said}], [{"role": "user", "content": results}]
        case "openai_responses":
            thought = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
            thought["encrypted_content"] = "eA"
            made = [
                {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": "weigh"}
                | {"arguments": "{}", "status": "completed"}
                for id in ids
            ]
            content = [{"type": "output_text", "text": text, "annotations": []}]
            message = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
            message |= {"status": "completed", "content": content}
            outputs = [
                {"type": "function_call_output", "call_id": id, "output": REPORT} for id in ids
            ]
            return [*[thought] * thinks, *(made or [message])], outputs
        case "openai_chat":
            function = {"name": "weigh", "arguments": "{}"}
            made = [{"id": id, "type": "function", "function": function} for id in ids]
            called = {"role": "assistant", "content": None, "tool_calls": made}
            answer = called if made else {"role": "assistant", "content": text}
            thought = {"reasoning_content": f"hm {number}"} if thinks else {}
            outputs = [{"role": "tool", "tool_call_id": id, "content": REPORT} for id in ids]
            return [{**answer, **thought}], outputs
        case _:
            made = [{"functionCall": {"name": "weigh", "args": {}}} for _ in ids]
            parts = made or [{"text": text}]
            parts[0] = {**parts[0], "thoughtSignature": "c2ln"} if thinks else parts[0]
            response = {"functionResponse": {"name": "weigh", "response": {"output": REPORT}}}
            results = [response for _ in ids]
            return [{"role": "model", "parts": parts}], [{"role": "user", "parts": results}]


MODELS = {
    "anthropic": ("claude-opus-5-5", "claude-sonnet-4-5"),
    "openai_responses": ("gpt-5",),
    "openai_chat": ("gpt-4o", "somebody/local"),
    "gemini": ("gemini-3-pro",),
}
PLAYED = [(name, model) for name, models in MODELS.items() for model in models]
# The parallel calls of each answer, whether it thinks, and whether the user speaks before the next.
ANSWERS = st.lists(
    st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=8, max_size=24
)


@pytest.mark.parametrize(("name", "model"), PLAYED)
@settings(max_examples=15)
@given(answers=ANSWERS)
def test_an_adapter_sends_the_very_messages_of_the_request(
    name: str, model: str, answers: list[tuple[int, bool, bool]]
) -> None:
    config = {"cache": False, "dialect": name}
    options = {"thinking": {"type": "adaptive"}} if name == "anthropic" else {}
    key = {"gemini": "contents", "openai_responses": "input"}.get(name, "messages")

    def user(text: str) -> Any:
        return {"role": "user", **({"parts": [{"text": text}]} if key == "contents" else {})} | (
            {} if key == "contents" else {"content": text}
        )

    messages = [user("Weigh the crates.")]
    with refold.open("a", store="memory:", model=model, window=8_000, config=config) as context:
        for number, (calls, thinks, speaks) in enumerate(answers):
            said, results = reply(name, number, calls, thinks=thinks)
            messages += said + (results if calls else [])
            messages += [user(f"Go on {number}.")] if speaks or not calls else []
            sent = folded(
                context, messages, guest.same, guest.same, dialect=name, options=options
            ).shown
            request = context.request(name, **options)
            assert sent == request[key]
            assert dialect(name).check(request) == []
            if name == "openai_responses":
                assert parted_faults(request, {"input": messages}) == []


@pytest.mark.parametrize("count", [3, 30])
def test_a_prefill_stays_the_last_message(count: int) -> None:
    messages = [{"role": "user", "content": "Weigh the crates."}]
    for number in range(count):
        said, results = reply("anthropic", number, 1, thinks=False)
        messages += [*said, *results]
    messages.append({"role": "assistant", "content": "The total is"})
    model = "claude-sonnet-4-5"
    with refold.open("a", store="memory:", model=model, window=8_000) as context:
        sent = folded(context, messages, guest.same, guest.same, dialect="anthropic").shown
    assert sent[-1] == messages[-1]
    assert (sent == messages) == (count == 3)


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
