"""A body that begins like a known one says the same, whether it is read on or as a whole."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.edges.proxy import body as repeated
from refold.edges.proxy.body import REPEATED_MARK, Listed, read

KEY = "messages"
Said = tuple[dict[str, bytes], list[Any], list[Any], bytes]

TEXTS = st.sampled_from(
    ["", "a", "]}", '"messages":[', '"list"', ",", "ü\ud7ff", '{"role":"user"}']
)
BLOCKS = st.fixed_dictionaries(
    {"type": st.just("text"), "text": TEXTS},
    optional={REPEATED_MARK: st.just({"type": "ephemeral"})},
)
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"])},
    optional={"content": TEXTS | st.lists(BLOCKS, max_size=3)},
)
LISTS = st.lists(MESSAGES, max_size=12)
# Fields before and after the list, also such as have the list itself in them.
NAMES = st.sampled_from(["model", "system", "list", "list_", "tools", "x"])
VALUES = TEXTS | st.integers(-3, 3) | st.none() | LISTS | st.fixed_dictionaries({KEY: LISTS})
FIELDS = st.dictionaries(NAMES, VALUES, max_size=3)
FORMS: list[dict[str, Any]] = [
    {},
    {"separators": (",", ":")},
    {"indent": 1},
    {"ensure_ascii": False, "separators": (" ,\t", " : ")},
]


def body_of(before: Any, messages: Any, after: Any, form: dict[str, Any]) -> bytes:
    """A body as a client writes it, without a name twice."""
    after = {name: value for name, value in after.items() if name not in before}
    return json.dumps({**before, KEY: messages, **after}, **form).encode()


def said(listed: Listed | None) -> Said | None:
    if listed is None:
        return None
    fields = {name: bytes(raw) for name, raw in listed.fields.items()}
    return fields, listed.messages, listed.marks, bytes(listed.came)


def outcome(body: bytes, *known: repeated.Begun) -> Said | str | None:
    try:
        return said(read(body, KEY, known))
    except msgspec.DecodeError:
        return "no JSON"


@given(FIELDS, LISTS, LISTS, FIELDS, FIELDS, st.sampled_from(FORMS), st.integers(0, 2))
def test_what_is_read_on_is_what_is_read_as_a_whole(
    before: Any, messages: Any, more: Any, after: Any, later: Any, form: Any, gone: int
) -> None:
    first = read(body_of(before, messages, after, form), KEY)
    kept = messages[: len(messages) - gone]
    bodies = [
        body_of(before, messages, after, form),
        body_of(before, messages + more, later, form),
        body_of(before, kept + more, after, form),
        body_of(before, messages + more + kept, after, form),
    ]
    for body in bodies:
        known = () if first is None or first.begun is None else (first.begun,)
        assert outcome(body, *known) == outcome(body)
        first = read(body, KEY, known)
        assert first is not None
        assert json.loads(bytes(first.came)) == json.loads(body)[KEY]


@given(LISTS, FIELDS, st.sampled_from(FORMS), st.data())
def test_what_is_cut_or_broken_is_no_more_taken_than_as_a_whole(
    messages: Any, after: Any, form: Any, data: Any
) -> None:
    body = body_of({"model": "m"}, messages, after, form)
    first = read(body, KEY)
    if first is None or first.begun is None:
        return
    place = data.draw(st.integers(0, len(body)))
    put = data.draw(st.sampled_from([b"", b",", b"]", b"}", b'"', b"{}", b',"messages":[]', b" "]))
    for broken in (body[:place] + put + body[place:], body[:place] + put, body[:place]):
        assert outcome(broken, first.begun) == outcome(broken)


@pytest.mark.parametrize(
    "rest",
    [
        b"]}",
        b',{"role":"user"}]}',
        b', {"role":"user"} ] , "model": 1}',
        b",]}",
        b",1]}",
        b'],"messages":[]}',
        b'],"model":"other"}',
        b'],"list":[{}]}',
        b',{"role":"user","list":1}],"list":{"list":1}}',
        b"]",
        b"",
        b"]}]}",
        b'],"x":}',
    ],
)
def test_every_end_of_a_body_is_read_alike(rest: bytes) -> None:
    beginning = b'{"model": "m", "messages": [{"role":"user","content":"a"}'
    first = read(beginning + b"]}", KEY)
    assert first is not None and first.begun is not None
    assert outcome(beginning + rest, first.begun) == outcome(beginning + rest)


def test_messages_that_were_read_before_are_the_same_objects() -> None:
    messages = [{"role": "user", "content": f"{number}"} for number in range(20)]
    first = read(body_of({"model": "m"}, messages[:10], {}, {}), KEY)
    assert first is not None and first.begun is not None
    again = read(body_of({"model": "m"}, messages, {"stream": True}, {}), KEY, [first.begun])
    assert again is not None and again.begun is not None
    assert all(one is other for one, other in zip(first.messages, again.messages, strict=False))
    assert len(again.begun.messages) == 20


def test_marks_that_move_do_not_keep_a_body_from_being_read_on() -> None:
    def marked(count: int) -> bytes:
        blocks = [{"type": "text", "text": f"{number}"} for number in range(count)]
        messages = [{"role": "user", "content": [block]} for block in blocks]
        for message in messages[-2:]:
            message["content"] = [{**message["content"][0], REPEATED_MARK: {"type": "ephemeral"}}]
        return body_of({"model": "m"}, messages, {}, {})

    first = read(marked(30), KEY)
    assert first is not None and first.begun is not None
    assert len(first.begun.messages) == 28
    again = read(marked(34), KEY, [first.begun])
    assert again is not None and again.messages[0] is first.messages[0]
    assert [mark.place for mark in again.marks] == [32, 33]
    assert said(again) == said(read(marked(34), KEY))


def test_the_longest_known_beginning_is_taken() -> None:
    messages = [{"role": "user", "content": f"{number}"} for number in range(9)]
    known = []
    for count in (2, 6, 4):
        listed = read(body_of({}, messages[:count], {}, {}), KEY)
        assert listed is not None and listed.begun is not None
        known.append(listed.begun)
    found = read(body_of({}, messages, {}, {}), KEY, known)
    assert found is not None and found.messages[5] is known[1].messages[5]
