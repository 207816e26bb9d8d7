"""Brackets are counted while a document streams in."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from refold.conversations.importer import Nesting


@given(
    st.recursive(
        st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_brackets_are_counted_wherever_a_document_is_cut(value: object) -> None:
    document = json.dumps(value).encode()
    for size in (1, 2, 3, 7):
        nesting = Nesting(3)
        for at in range(0, len(document), size):
            nesting.take(document[at : at + size])
        assert nesting.depth == 0
