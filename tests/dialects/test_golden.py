"""Hand-written conversations: each comes back byte for byte, and reads as written down in the
other dialect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from refold.core import codec, ids
from refold.core.laws import settled, units
from refold.core.model import Message, Slot
from refold.dialects import dialect, dialect_of, parse
from refold.log.draft import Draft

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.json"))
OTHER = {
    "openai_chat": "anthropic",
    "anthropic": "openai_chat",
    "gemini": "anthropic",
    "openai_responses": "anthropic",
}


def golden(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def parsed(conversation: dict[str, Any]) -> list[Message]:
    speaker = dialect(conversation["dialect"])
    if conversation["dialect"] == "openai_responses":  # items of one answer are one message
        return speaker.parse({"input": conversation["messages"]})
    return [message for wire in conversation["messages"] for message in speaker.parse(wire)]


def stored(message: Message) -> Message:
    """The message as it comes back from a log."""
    id, body = ids.uuid7(1, bytes(10)), Draft(body=message, by="test").encoded
    event = codec.seal(
        codec.ZERO, 1, id=id, at_ms=1, by="user", kind="message", body=body, salt=b"x"
    )
    decoded = codec.decode(event)
    assert isinstance(decoded, Message)
    return decoded


def lawful(messages: list[Message]) -> list[Message]:
    """The messages in the order in which a page shows them."""
    return [
        slot.message
        for slot in settled([Slot(seq, seq, one, 0) for seq, one in enumerate(messages, 1)])[0]
    ]


@pytest.fixture(params=GOLDEN, ids=lambda path: path.stem)
def conversation(request: pytest.FixtureRequest) -> dict[str, Any]:
    return golden(request.param)


def test_every_valid_message_comes_back_byte_for_byte_through_the_log(
    conversation: dict[str, Any],
) -> None:
    lost: list[str] = []
    messages = [stored(message) for message in parsed(conversation)]
    rendered = dialect(conversation["dialect"]).render(messages, lost)
    assert [json.dumps(wire) for wire in rendered] == [
        json.dumps(wire) for wire in conversation.get("sent", conversation["messages"])
    ]
    assert lost == []


def test_the_other_dialect_says_it_as_written_down_and_names_what_is_lost(
    conversation: dict[str, Any],
) -> None:
    lost: list[str] = []
    other = dialect(OTHER[conversation["dialect"]])
    request = other.request(
        other.render(parsed(conversation), lost), system=None, tools=None, marks=[], lost=[]
    )
    assert [json.dumps(wire) for wire in request["messages"]] == [
        json.dumps(wire) for wire in conversation["elsewhere"]
    ]
    assert request.get("system") == conversation.get("elsewhere_system")
    assert lost == conversation["lost"]


def test_what_is_rendered_elsewhere_is_valid_there(conversation: dict[str, Any]) -> None:
    other = dialect(OTHER[conversation["dialect"]])
    request = other.request(
        other.render(parsed(conversation), []), system="s", tools=None, marks=[1, 3], lost=[]
    )
    assert other.check(request) == []


def test_units_rendered_apart_are_the_page_rendered_whole(conversation: dict[str, Any]) -> None:
    slots = [Slot(seq, seq, message, 0) for seq, message in enumerate(parsed(conversation), 1)]
    for name in OTHER:
        whole = dialect(name).render([slot.message for slot in slots], [])
        apart = [
            dialect(name).render([slots[at].message for at in unit], []) for unit in units(slots)
        ]
        assert [wire for part in apart for wire in part] == whole


def test_no_text_of_a_block_is_stored_twice(conversation: dict[str, Any]) -> None:
    given = "".join(json.dumps(wire) for wire in conversation["messages"])
    kept = "".join(codec.encode(message).decode() for message in parsed(conversation))
    for text in (
        "Look at the ears.",
        "It must be the clock.",
        "no such file",
        "iVBORw0KGgo=",
        "ls -l",
    ):
        assert kept.count(text) == given.count(text)


def test_messages_find_their_dialect_by_themselves(conversation: dict[str, Any]) -> None:
    spoken = {dialect_of(wire) for wire in conversation["messages"]}
    assert spoken - {None} == {conversation["dialect"]}
    for wire in conversation["messages"]:
        assert parse(wire, conversation["dialect"])[0].dialect == conversation["dialect"]


def test_changing_what_was_rendered_changes_no_message(conversation: dict[str, Any]) -> None:
    messages = parsed(conversation)
    for name in OTHER:
        first = dialect(name).render(messages, [])
        before = json.dumps(first)
        _spoil(first)
        assert json.dumps(dialect(name).render(messages, [])) == before


def test_changing_what_was_given_changes_no_message(conversation: dict[str, Any]) -> None:
    messages = parsed(conversation)
    before = [codec.encode(message) for message in messages]
    _spoil(conversation["messages"])
    assert [codec.encode(message) for message in messages] == before


def _spoil(value: Any) -> None:
    """Changes every object and list in place, from the inside out."""
    children = value.values() if isinstance(value, dict) else value
    for child in list(children):
        if isinstance(child, dict | list):
            _spoil(child)
    if isinstance(value, dict):
        value.clear()
        value["spoiled"] = True
    else:
        value.append("spoiled")
