"""The errors of refold, by what the caller can do about them.

    RefoldError
    ├── NotFound      there is no such conversation, event, artifact, handle
    ├── Conflict      the head moved: read again, then append again
    ├── Invalid       your input: nothing was written
    ├── Corrupt       our bytes: damage, with its position
    ├── OverBudget    no plan makes the page fit
    ├── Denied        not allowed here
    └── Unavailable   not now: a full disk, a busy store, a server that is down

An error has a `message`, one sentence with the offending value, and a `hint` that names the next
step; printed, it shows both. Neither shows a secret; to quote only the beginning of a value, use
`checked.quoted`. `OUTCOMES` maps every code to its HTTP status and exit status; edges look
there and nowhere else.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar


class RefoldError(Exception):
    """The root of all errors that refold raises on purpose."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self._raw = message, hint

    # An error quotes what it was given and ends up in logs, so its text is redacted before anyone
    # sees it. Most errors are caught and never shown: those pay nothing.

    @cached_property
    def message(self) -> str:
        """What went wrong, in one sentence."""
        return _redacted(self._raw[0])

    @cached_property
    def hint(self) -> str:
        """What to do next; may be empty."""
        return _redacted(self._raw[1])

    @property
    def args(self) -> tuple[str]:  # type: ignore[override]
        return (self.message,)

    def __str__(self) -> str:
        return with_hint(self.message, self.hint)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r})"


def _redacted(text: str) -> str:
    from refold.redaction.redact import redacted

    return redacted(text) if text else ""


def with_hint(message: str, hint: str) -> str:
    """An error's message, followed by its hint."""
    return message + ("" if not hint else " " if message.endswith("?") else "; ") + hint


def install_hint(extra: str) -> str:
    """How to install an extra: from an index, and in a checkout."""
    return f"pip install 'refold[{extra}]', or in a checkout: pip install '.[{extra}]'"


def sentence(error: BaseException) -> str:
    """An error's message, without the hint."""
    return error.message if isinstance(error, RefoldError) else str(error)


class NotFound(RefoldError):
    code = "not-found"


class Conflict(RefoldError):
    """The log grew since it was read; `head` is its current head."""

    code = "conflict"

    def __init__(
        self, message: str, *, head: int = 0, hint: str = "read the new events, then append again"
    ) -> None:
        super().__init__(message, hint=hint)
        self.head = head


class Invalid(RefoldError):
    code = "invalid"


class Corrupt(RefoldError):
    code = "corrupt"


class OverBudget(RefoldError):
    code = "over-budget"


class Denied(RefoldError):
    code = "denied"


class Unavailable(RefoldError):
    """Not now; try again after `retry_after_s` if it is set."""

    code = "unavailable"

    def __init__(self, message: str, *, retry_after_s: float | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


OUTCOMES: dict[str, tuple[int, int]] = {
    # code: (HTTP status, exit status)
    "ok": (200, 0),
    "error": (500, 1),
    "invalid": (400, 2),
    "not-found": (404, 3),
    "conflict": (409, 4),
    "corrupt": (500, 5),
    "over-budget": (413, 6),
    "denied": (403, 7),
    "unavailable": (503, 8),
    # not an error: scripts must distinguish found secrets from a failed scan
    "secrets-found": (200, 9),
}
