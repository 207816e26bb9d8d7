"""A moment may be given as a number, a datetime or text in ISO form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.errors import Invalid
from refold.system.disk import happened_ms, ms_of

ZONES = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), None])
TIMES = st.datetimes(datetime(1971, 1, 1), datetime(9000, 1, 1))


@given(TIMES, ZONES, st.sampled_from(["T", " "]))
def test_text_means_the_moment_that_it_was_written_from(moment, zone, between) -> None:
    given = moment.replace(tzinfo=zone)
    assert ms_of("at", given.isoformat(between)) == ms_of("at", given)


@pytest.mark.parametrize("bad", ["", "soon", "2026-13-01", "2026", "7d", "1767225600000", "#4"])
def test_other_text_is_refused_with_what_would_do(bad: str) -> None:
    with pytest.raises(Invalid, match="2026-01-31"):
        happened_ms(bad)


def test_a_memory_and_a_conversation_take_dates_as_text() -> None:
    with refold.open("talk", store="memory:", embedder=False) as context:
        context.memory.store("The port is 1", at="2024-01-01", until="2025-01-01")
        [found] = context.memory.list(as_of="2024-06-01")
        assert found.valid_from_ms == ms_of("at", datetime(2024, 1, 1))
        assert context.memory.list(as_of="2025-06-01") == []
        [event] = context.append({"role": "user", "content": "hello"}, at="2024-01-01T10:00Z")
        assert event.at_ms == ms_of("at", datetime(2024, 1, 1, 10, tzinfo=UTC))
        assert context.search("hello", since="2024-02-01") == []
