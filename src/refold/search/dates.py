"""Days and months that a query names: what was said then is preferred.

`7 May 2023`, `May 7th`, `in May`, `2023-05-07`, `2023-05`. A message that speaks of a day is often
written on it or soon after ("yesterday we …"), so the days behind a named one count as well; the
rest of its month counts half.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from msgspec import Struct

MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
DATE_WORTH = 0.8
DAYS_AFTER = 3
_NAMED = re.compile(
    rf"(?:\b(?P<before>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?\b(?P<month>{'|'.join(MONTHS)})\b"
    r"(?:,?\s+(?P<after>\d{1,2})(?:st|nd|rd|th)?(?!\d))?(?:,?\s+(?P<year>\d{4})\b)?",
    re.IGNORECASE,
)
_WRITTEN = re.compile(r"\b(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])(?:-(?P<day>[0-3]\d))?\b")


class Date(Struct, frozen=True):
    """A month, perhaps of a year, perhaps a day of it; 0 where it is not said."""

    month: int
    day: int = 0
    year: int = 0


def dates_in(text: str) -> list[Date]:
    """The dates that a query names."""
    found = [
        Date(
            MONTHS.index(one["month"].lower()) + 1,
            int(one["before"] or one["after"] or 0),
            int(one["year"] or 0),
        )
        for one in _NAMED.finditer(text)
        if one["before"] or one["after"] or one["year"] or not _is_verb(text, one)
    ]
    return found + [
        Date(int(one["month"]), int(one["day"] or 0), int(one["year"]))
        for one in _WRITTEN.finditer(text)
    ]


def _is_verb(text: str, found: re.Match[str]) -> bool:
    """`may` and `march` alone are months only behind `in` or the like."""
    before = text[: found.start()].lower().split()
    return found["month"].lower() in ("may", "march") and not (
        before and before[-1] in ("in", "of", "since", "last")
    )


def nearness(at_ms: int, dates: list[Date]) -> float:
    """How well a time fits the dates: 1 if it is of one of them, 0.5 in the month of a day, else
    0."""
    moment = datetime.fromtimestamp(at_ms / 1_000, UTC)
    return max((_near(moment, date) for date in dates), default=0.0)


def _near(moment: datetime, date: Date) -> float:
    if moment.month != date.month or (date.year and moment.year != date.year):
        return 0.0
    return 1.0 if not date.day or 0 <= moment.day - date.day <= DAYS_AFTER else 0.5
