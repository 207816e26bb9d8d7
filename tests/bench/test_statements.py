"""Statements of an agent's own summary; the measure of it, on an example made by hand."""

from __future__ import annotations

from bench.agents import Case
from bench.statements import pieces_of, statements_of, words_of


def test_a_statement_belongs_to_the_speaker_of_its_source() -> None:
    replaced = [
        {"role": "user", "content": "The harbour gauge must never report negative tides."},
        {"role": "assistant", "content": "The drift comes from a stale calibration offset."},
        {"role": "tool", "content": "pump seven restarted twice after overflow alarm"},
    ]
    told = [
        "- The harbour gauge must never report negative tides.",
        "- Drift comes from a stale calibration offset in storage.",
        "- Pump seven restarted twice after an overflow alarm.",
        "- Somebody painted the lighthouse violet yesterday without permission.",
    ]
    summary = {"role": "user", "content": "\n".join(told)}
    found, weights = statements_of(Case(replaced, summary, set()))
    assert [one.speaker for one in found] == ["user", "agent", "tool"]
    assert all(0.6 <= one.share <= 1.0 for one in found)
    assert "harbour" in weights and "lighthouse" not in weights


def test_words_are_compared_by_their_parts_and_lines_broken_at_blanks() -> None:
    assert words_of("The tideGauges_v2") == {"tidegauges_v2", "tide", "gauge"}
    line = "eleven ebbs " * 60
    assert max(map(len, pieces_of(line))) <= 300
    assert "".join(pieces_of(line)) == line
