"""The text of a result."""

from __future__ import annotations

from refold.ledger.calls import payload, shown_lines


def test_numbered_lines_and_envelopes_are_recognised() -> None:
    assert shown_lines("     5→a\n     6→b\n\n<system-reminder>x</system-reminder>") == (5, 6)
    assert shown_lines("5\ta\n6\tb") == (5, 6)
    assert shown_lines("plain\ntext") is None
    assert payload("Chunk ID: 1\nOutput:\nx") == "x"
    assert payload("<returncode>0</returncode>\n<output>\nx\n</output>") == "x\n"
