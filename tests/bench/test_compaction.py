"""The measure of compactions, on a small page."""

from __future__ import annotations

from itertools import islice

from bench import compaction

import refold


def test_a_compaction_is_timed_and_makes_the_page_smaller() -> None:
    cpu_ms, receipt = compaction.once(12_000, compaction.made_up(1))
    assert cpu_ms > 0
    assert receipt.tokens_after < receipt.tokens_before


def test_pages_of_recorded_sessions_end_where_they_are_large_enough() -> None:
    messages = islice(compaction.made_up(3), 200)
    assert compaction.page_of(3_000, messages).view.tokens >= 3_000
    assert refold.__version__
