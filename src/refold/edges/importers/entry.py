"""What an importer gives, one value after another: what was said, what it was billed, what is no
message, a compaction of the other program's own, what was taken back, what the session is about,
and what could not be read.

`line` is where it stands in the file: a line, or an element where the file is one JSON value.
`session` names a side chain of it (empty: the session itself), `key` is its name in the file and
stays the same when the file grows. Neighbours: importers make entries, `follow` writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypedDict

from msgspec import Struct

from refold.core.model import Usage

# Kinds of notes.
LEFT_BRANCH = "left-branch"  # a message of a branch that was left
ADOPTED = "adopted-compaction"  # which summary of the file was taken over
REWOUND = "rewound"  # which line of the file took others back
UNREAD = "unread"  # in the place of a message that is none

STAND_IN = "erased:"  # the key of what stands for a message that was left out


class Entry(Struct, frozen=True, kw_only=True):
    """What all of them have. `at_ms` is when it happened, if the file says so; `within_ms`, of a
    response in several lines, from when to when, also if its first ones are not in the file. `ids`
    are those that the file itself gives it: nobody can tell its words from them."""

    line: int = 0
    session: str = ""
    key: str = ""
    at_ms: int | None = None
    within_ms: tuple[int, int] | None = None
    ids: tuple[str, ...] = ()


class Where(TypedDict, total=False):
    """Where and when an entry stands, as importers hand it on."""

    line: int
    session: str
    at_ms: int | None
    within_ms: tuple[int, int] | None


class About(Entry, frozen=True, kw_only=True):
    """What the session is about, from here on; None says nothing."""

    model: str | None = None
    title: str | None = None
    system: Any = None
    tools: list[Any] | None = None
    metadata: dict[str, Any] | None = None


class Said(Entry, frozen=True, kw_only=True):
    """A message, in any provider's shape, and what it was billed if that stands with it. Where the
    file may bring more of it later, `parts` says how many parts its content has so far; then `ids`
    and `times` are those of the lines of its parts, one for each (empty and None: it has none)."""

    message: Any
    usage: Usage | None = None
    parts: int = 0
    times: tuple[int | None, ...] = ()


class Billed(Entry, frozen=True, kw_only=True):
    """A usage that stands after its reply."""

    usage: Usage


class Noted(Entry, frozen=True, kw_only=True):
    """A line that is no message. `kind` is what the file calls it; of a branch that was left,
    `message` names the message that it is a part of."""

    kind: str
    data: Any
    message: str = ""


class Summed(Entry, frozen=True, kw_only=True):
    """A text that stands for everything before it, but for the messages whose keys are kept."""

    text: str


class Rewound(Entry, frozen=True, kw_only=True):
    """What was said under these keys, earlier in the file, was taken back."""

    keys: frozenset[str]


class Unread(Entry, frozen=True, kw_only=True):
    """A line that was not understood, and why."""

    reason: str


class Branch(NamedTuple):
    """A branch of a session that was left: its name, and what was said in it from the beginning
    on. Its first entries are those of the session itself."""

    name: str
    entries: Callable[[], Iterator[Entry]]
