"""The tag line of a gist is written, read and kept out of other text in one place."""

from __future__ import annotations

import pytest

from refold.core.model import Span
from refold.strategies.tags import TAG_LINE, role_of, span_of, tag_line, untagged


@pytest.mark.parametrize("role", ["user", "assistant", "tool", "system"])
def test_a_tag_line_gives_its_message_back(role: str) -> None:
    tag = TAG_LINE.fullmatch(tag_line(41, role))
    assert tag and (int(tag[1]), role_of(tag[2])) == (41, role)


def test_what_only_looks_like_a_tag_line_is_put_in_parentheses() -> None:
    assert untagged("see\n#4 tool\n#4 tools\n #5 user") == "see\n(#4 tool)\n#4 tools\n #5 user"


def test_a_handle_names_a_span_or_one_seq() -> None:
    assert (span_of("3", "9"), span_of("3", "")) == (Span(3, 9), Span(3, 3))
