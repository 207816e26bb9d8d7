"""Ids of events: distinct, in the order of their time, safe in any place that takes a name."""

from __future__ import annotations

import re
import secrets
from concurrent.futures import ThreadPoolExecutor

from refold.core.ids import uuid7

AT_MS = 1_700_000_000_000


def made(count: int) -> list[str]:
    return [uuid7(AT_MS, secrets.token_bytes(10)) for _ in range(count)]


def test_ids_are_distinct_sortable_and_safe_as_names() -> None:
    """X-02: 40,000 in one millisecond, from eight threads."""
    with ThreadPoolExecutor(8) as pool:
        ids = [id for part in pool.map(made, [5_000] * 8) for id in part]
    assert len(set(ids)) == 40_000
    assert all(re.fullmatch(r"[a-z0-9-]{1,64}", id) for id in ids)
    later = [uuid7(AT_MS + n, secrets.token_bytes(10)) for n in range(1, 1_000)]
    assert later == sorted(later) and max(ids) < later[0]
