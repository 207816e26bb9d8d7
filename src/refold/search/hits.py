"""What is asked of an index, and what it answers."""

from __future__ import annotations

from msgspec import Struct

from refold.checked import quoted
from refold.core.model import ROLES, Role
from refold.errors import Invalid

KINDS = ("message", "artifact", "meta", "checkpoint", "edit")
# A summary repeats what the messages say better: it is found only when it is asked for.
KINDS_USUAL = KINDS[:4]
LIMIT_MAX = 1_000
# What our own tools answered repeats what was found: it is found only when it is asked for.
OWN_PREFIX = "refold_"


class Hit(Struct, frozen=True, kw_only=True):
    """One place that answers a query. `snippet` is a part of its text, `marks` the places in it
    (start, end) that match. `hidden`: the page does not show these words now; None if only the
    whole log would tell."""

    conversation: str
    seq: int
    score: float
    snippet: str = ""
    marks: tuple[tuple[int, int], ...] = ()
    kind: str = "message"
    role: str = ""
    tool: str = ""
    at_ms: int = 0
    hidden: bool | None = False
    artifact: str = ""
    line: int = 0  # of an artifact: the line at which the snippet begins

    def highlighted(self, before: str = "**", after: str = "**") -> str:
        """The snippet with its matches between two marks."""
        parts: list[str] = []
        at = 0
        for start, end in self.marks:
            parts += [self.snippet[at:start], before, self.snippet[start:end], after]
            at = end
        parts.append(self.snippet[at:])
        return "".join(parts)


class Filters(Struct, frozen=True, kw_only=True):
    """What a hit must be, besides matching. Times are inclusive."""

    role: Role | None = None
    tool: str | None = None
    kinds: tuple[str, ...] = KINDS_USUAL
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def leaves_out_own(self) -> bool:
        """Whether answers of our own tools do not count: unless a tool is named."""
        return self.tool is None

    @property
    def needs_entries(self) -> bool:
        """Whether the index's own numbers do not tell, and rows have to be looked up."""
        return any(one is not None for one in (self.role, self.tool, self.since_ms, self.until_ms))


def filters_checked(
    *,
    role: str | None,
    tool: str | None,
    kind: str | None,
    since_ms: int | None,
    until_ms: int | None,
) -> Filters:
    """The filters, or Invalid with what there is to choose from."""
    if role is not None and role not in ROLES:
        raise Invalid(f"role: there is no role {quoted(role)}", hint="roles: " + ", ".join(ROLES))
    if kind is not None and kind not in KINDS:
        raise Invalid(
            f"kind: events of kind {quoted(kind)} are not searched",
            hint="kinds: " + ", ".join(KINDS),
        )
    if tool is not None and not is_text(tool):
        raise Invalid(f"tool: {quoted(tool)} is not the name of a tool", hint="a text")
    kinds = KINDS_USUAL if kind is None else (kind,)
    return Filters(role=role, tool=tool, kinds=kinds, since_ms=since_ms, until_ms=until_ms)


def is_text(value: object) -> bool:
    """Whether a value is a text that can be written: one without lone surrogates."""
    if not isinstance(value, str):
        return False
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)


def is_integer(value: object) -> bool:
    """Whether a value is an int; a bool is not meant as one."""
    return isinstance(value, int) and not isinstance(value, bool)


def limit_checked(limit: int, most: int = LIMIT_MAX) -> int:
    """The limit, or Invalid if it is not a number of hits."""
    if not is_integer(limit) or not 0 <= limit <= most:
        raise Invalid(f"limit={limit!r} is not a number of hits", hint=f"from 0 to {most:,}")
    return limit
