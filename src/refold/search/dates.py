"""Days and months that a query names: what was said then is preferred.

`7 May 2023`, `May 7th`, `in May`, `2023-05-07`, `2023-05`. A message that speaks of a day is often
written on it or soon after ("yesterday we …"), so the days after a named one count as well; the
rest of its month counts half. Neighbour: `finding` raises scores by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec import Struct

MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_VERBS = ("may", "march")
_BEFORE_MONTHS = frozenset(("in", "of", "since", "last"))
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

    def is_in_month_of(self, moment: datetime) -> bool:
        """Whether a time lies in the month of this date, in its year if that is said."""
        return self.month == moment.month and self.year in (0, moment.year)


def dates_in(text: str) -> list[Date]:
    """The dates that a query names."""
    return [*_named_dates(text), *_written_dates(text)]


def _named_dates(text: str) -> Iterator[Date]:
    for found in _NAMED.finditer(text):
        month = MONTHS.index(found["month"].lower()) + 1
        day, year = found["before"] or found["after"], found["year"]
        if day or year or not _is_verb(text, found):
            yield _date(month, day, year)


def _written_dates(text: str) -> Iterator[Date]:
    for found in _WRITTEN.finditer(text):
        yield _date(int(found["month"]), found["day"], found["year"])


def _date(month: int, day: str | None, year: str | None) -> Date:
    return Date(month, int(day or 0), int(year or 0))


def _is_verb(text: str, found: re.Match[str]) -> bool:
    """`may` and `march` alone are months only after `in` or the like."""
    before = text[: found.start()].lower().split()
    return found["month"].lower() in _VERBS and _BEFORE_MONTHS.isdisjoint(before[-1:])


def nearness(at_ms: int, dates: list[Date]) -> float:
    """How well a time fits the dates: 1 if it is of one of them, 0.5 in the month of a day, else
    0."""
    moment = datetime.fromtimestamp(at_ms / 1_000, UTC)
    return max((_nearness_to(moment, date) for date in dates), default=0.0)


def _nearness_to(moment: datetime, date: Date) -> float:
    if not date.is_in_month_of(moment):
        return 0.0
    if not date.day or 0 <= moment.day - date.day <= DAYS_AFTER:
        return 1.0
    return 0.5
