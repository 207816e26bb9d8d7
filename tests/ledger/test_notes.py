"""What a summary notes is read by one function per key; a slot without notes has none of it."""

from __future__ import annotations

from refold.ledger import notes


def test_every_key_is_read_back_as_it_was_written() -> None:
    given = {
        notes.GIST: 1,
        notes.NOW: 12,
        notes.NAMES: {"a.py": [1, 2, 3, 4, 5, 0]},
        notes.STARVED: True,
        notes.SUMMARY: 1,
        notes.MESSAGES: 7,
        notes.TOOLS: {"read": 2},
        notes.USES: {"read": ["a.py"]},
        notes.FRESH_CHARS: 30,
    }
    assert notes.is_gist(given) and notes.is_starved(given) and notes.is_summary(given)
    assert (notes.now_of(given), notes.messages_of(given), notes.fresh_chars_of(given)) == (
        12,
        7,
        30,
    )
    assert notes.names_of(given) == {"a.py": [1, 2, 3, 4, 5, 0]}
    assert (notes.tools_of(given), notes.uses_of(given)) == ({"read": 2}, {"read": ["a.py"]})


def test_a_slot_without_notes_has_none() -> None:
    for nothing in (None, {}):
        assert not notes.is_gist(nothing) and not notes.is_starved(nothing)
        assert not notes.is_summary(nothing) and notes.messages_of(nothing) is None
        assert notes.now_of(nothing) == notes.fresh_chars_of(nothing) == 0
        assert notes.names_of(nothing) == notes.tools_of(nothing) == notes.uses_of(nothing) == {}
