"""A command line as its words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from refold.ledger.shell import reading_of
from refold.ledger.shell_words import simple_commands


@given(st.text(alphabet="ab'\"\\$`|&;<>()\n #EOF-*>", max_size=60))
def test_any_command_line_is_split_or_not_understood(text: str) -> None:
    assert simple_commands(text) is None or all(
        simple.words or simple.redirections for simple in simple_commands(text) or []
    )
    reading_of(text)
