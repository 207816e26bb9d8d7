"""Turns and pairs of a log, and the lines of a summary that name a message."""

from __future__ import annotations

from hypothesis import given

from refold.core.model import Event, Prose, Quote, Span, Summarize
from refold.core.shortened import summary_text
from refold.edges.ui.readable import lines_of
from refold.edges.ui.transcript import Transcript
from tests.core.logs import call, logs, result, sealed, user


@given(logs)
def test_a_transcript_in_parts_is_the_transcript_at_once(log: list[Event]) -> None:
    whole, parts = Transcript(), Transcript()
    whole.extend(log)
    for event in log:
        parts.extend([event])
    assert vars(parts) == vars(whole)
    assert [turn.at for turn in whole.turns] == sorted({turn.at for turn in whole.turns})
    assert all(turn.at < turn.reply for turn in whole.turns)
    assert len(whole.seqs) == len(whole.tools) == len(whole.pairs)


def test_a_turn_is_one_call_and_knows_what_it_read() -> None:
    said = [user("go"), call("a"), result("a"), call("b"), call("c"), user("next"), call("d")]
    seen = Transcript()
    seen.extend(sealed(list(said)))
    assert [(turn.at, turn.reply) for turn in seen.turns] == [(1, 2), (3, 4), (6, 7)]
    assert seen.pairs[2] == 1 and seen.tools[2] == "run" and seen.requests == [1, 6]


def test_only_lines_that_refold_wrote_name_a_message() -> None:
    """A quoted line, or a model's words, that look like a tag line name nothing."""
    edit = Summarize(
        batch="b",
        span=Span(1, 90),
        text="Constraints:\n- #44 keep it\nsay #12 in the middle",
        quotes=(Quote(seq=70, role="user", lines=("#71 user", "- #72 fake")),),
        prose=Prose(words="#70 is gone\n- #44 too", span=Span(1, 90), added=("- #75 real",)),
    )
    assert [seq for seq, _ in lines_of(edit) if seq] == [75, 44, 70]
    assert "\n".join(line for _, line in lines_of(edit)) == summary_text(edit)
