"""A moment that a caller names: a time of day with its date, or milliseconds since 1970.

Everything is kept in milliseconds. Neighbours: search takes moments as bounds, `Context` as the
time when something happened.
"""

from __future__ import annotations

from datetime import datetime

from refold.errors import Invalid

Moment = int | datetime
MS_MAX = 2**62
HAPPENED_MS_MAX = 253_402_300_799_999  # the end of the year 9999


def ms_of(name: str, moment: Moment) -> int:
    """A moment in milliseconds; Invalid with the argument's name if it is none, or too far off."""
    try:
        ms = round(moment.timestamp() * 1_000) if isinstance(moment, datetime) else moment
    except (ValueError, OverflowError, OSError):
        ms = MS_MAX + 1  # a naive time at the end of the calendar
    if isinstance(ms, bool) or not isinstance(ms, int) or not -MS_MAX <= ms <= MS_MAX:
        raise Invalid(f"{name} is not a time", hint="milliseconds since 1970, or a datetime")
    return ms


def happened_ms(moment: Moment | None) -> int | None:
    """When something happened, in milliseconds; Invalid for a time that no event can have."""
    if moment is None:
        return None
    ms = ms_of("at", moment)
    if not 0 <= ms <= HAPPENED_MS_MAX:
        hint = "milliseconds since 1970, or a datetime"
        raise Invalid("at is before 1970, or thousands of years away", hint=hint)
    return ms
