"""The key of an event is read without the rest of it, and only from the body that was sealed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from refold.core import codec, ids
from refold.core.model import Message, Note, Text
from refold.errors import Corrupt
from refold.log.notes import Name, name_of

words = st.text(st.characters(codec="utf-8"), max_size=20)


@given(words, words, st.booleans())
def test_the_key_of_an_event_is_the_one_that_its_body_has(key: str, kind: str, is_note: bool):
    said = Text(f'"key":"{kind}"')
    message = Message(role="user", blocks=(said,), metadata={"key": "another"}, key=key)
    body = Note(kind=kind, data={"key": "another"}, key=key) if is_note else message
    event = codec.seal(
        codec.ZERO,
        1,
        id=ids.uuid7(1, bytes(10)),
        at_ms=1,
        by="user",
        kind=codec.kind_of(body),
        body=codec.encode(body),
        salt=b"s" * 16,
    )
    assert name_of(event).key == key
    assert not (is_note and key) or name_of(event) == Name(key, kind)
    assert name_of(replace(event, body=b"", salt=b"")) == Name()
    with pytest.raises(Corrupt):
        name_of(replace(event, body=event.body + b' "key":"'))
