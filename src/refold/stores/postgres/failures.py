"""What PostgreSQL and libpq raise, as errors of the family.

An `Unavailable` that says when to try again is one where trying again can help: the connection is
gone, the server starts, stops or is a standby, a lock was not to be had. Neighbours: `connections`
translates, and tries again.
"""

from __future__ import annotations

import re

import psycopg

from refold.errors import Corrupt, Denied, Invalid, RefoldError, Unavailable

SOON_S = 1.0
# A failure to connect carries no code, only the server's words.
_REFUSED = re.compile(
    r"authentication failed|no pg_hba\.conf entry|permission denied|no password supplied"
    r"|role \".*\" does not exist|is not permitted to log in|fe_sendauth"
)
_NO_DATABASE = re.compile(r"database \".*\" does not exist")
# By what the code begins with; the longest that fits counts.
_AGAIN = {
    "08": "the connection was lost",
    "40": "others wrote at the same time",
    "53": "the server has no room left for this",
    "55P03": "others hold the lock",
    "57P": "the server is starting or stopping",
    "25006": "the server is a standby: it can only be read",
    "58": "the server's disk or system failed",
}
_DAMAGED = ("XX001", "XX002")
_LAYOUT = ("42P01", "3F000", "42703")


def is_layout(error: BaseException) -> bool:
    """Whether a table is not there: the database is of another version, or not ours."""
    return isinstance(error, psycopg.Error) and error.sqlstate in _LAYOUT


def is_read_only(error: BaseException) -> bool:
    """Whether the server takes no writes: it has handed over, or is about to."""
    return isinstance(error, psycopg.Error) and error.sqlstate == "25006"


def failure(error: Exception, place: str) -> RefoldError:
    """The error of the family for what was raised; raise it `from` the original."""
    match error:
        case RefoldError():
            return error
        case psycopg.Error(sqlstate=str(code)):
            return _by_code(code, f"{place}: {_first_line(error)}")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return _connecting(_first_line(error), place)
        case psycopg.Error() | UnicodeError() | OverflowError():
            hint = "text without surrogates, numbers of 64 bits"
            return Invalid(f"not storable: {error}", hint=hint)
        case _:
            return Unavailable(f"{place}: {error}", hint="check the machine, then try again")


def _by_code(code: str, said: str) -> RefoldError:
    for start in sorted(_AGAIN, key=len, reverse=True):
        if code.startswith(start):
            return Unavailable(said, retry_after_s=SOON_S, hint=f"{_AGAIN[start]}; try again")
    if code == "57014":
        return Unavailable(said, hint="it took too long; ask for less at once")
    if code.startswith("28") or code == "42501":
        return Denied(said, hint="check the user of the URL, and what it was granted")
    if code in _DAMAGED:
        return Corrupt(said, hint="refold verify tells what can still be read")
    if code in _LAYOUT or code.startswith("23"):
        return Corrupt(f"{said}: not laid out as ours", hint="refold verify")
    if code.startswith(("22", "54")):
        return Invalid(said, hint="store large content as an artifact; numbers have 64 bits")
    return Unavailable(said, hint="see the log of the server")


def _connecting(said: str, place: str) -> RefoldError:
    """Why there is no connection, by the server's words."""
    if _REFUSED.search(said):
        hint = "check the user; the password may be in PGPASSWORD or ~/.pgpass"
        return Denied(f"{place}: {said}", hint=hint)
    if _NO_DATABASE.search(said):
        return Invalid(f"{place}: {said}", hint="createdb makes it, or name another in the URL")
    if "invalid" in said and "option" in said:
        return Invalid(f"{place}: {said}", hint="libpq's options, org, connections_max, wait_s")
    hint = "check that the server runs and can be reached, then try again"
    return Unavailable(f"{place}: {said}", retry_after_s=SOON_S, hint=hint)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Of several hosts the last one says the most: the others were standbys, or down as well.
    return (
        lines[0] if not isinstance(error, psycopg.OperationalError) else "; ".join(lines)
    ) or type(error).__name__
