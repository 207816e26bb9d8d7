"""A conversation at a glance, in plain text.

The lines are what the designs before us drew, to the letter. Times are in the time zone that is
given. Neighbour: the command `context` gathers what is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, tzinfo

from msgspec import Struct

from refold.display import counted, number, plural
from refold.edges.displays.width import fitted, harmless
from refold.tokens.models import dollars

LINE_COLUMNS = 60
MESSAGES_SHOWN, ARTIFACTS_SHOWN = 4, 3
ROLES = ("system", "user", "assistant", "tool")
TYPES = {"file": "file", "search_result": "search", "command_output": "command"}
Call = Callable[[str], str]  # how a command of the group is written


def in_chat(name: str) -> str:
    """How a chat writes a command of the group."""
    return f"/context {name}"


class Said(Struct, frozen=True, kw_only=True):
    """A message in one line."""

    role: str
    text: str


class Kept(Struct, frozen=True, kw_only=True):
    """An artifact in one line. `results` are those of a search that did not give one a line."""

    id: str
    name: str
    type: str
    lines: int
    results: int = 0


class Overview(Struct, frozen=True, kw_only=True):
    """What a glance shows. `artifacts` are counted by type; `recent` and `first` are the messages
    and artifacts that are named."""

    conversation: str
    title: str
    messages: dict[str, int]
    artifacts: dict[str, int]
    current: int
    window: int
    cost: float | None
    created_ms: int
    updated_ms: int
    recent: tuple[Said, ...]
    first: tuple[Kept, ...]


def overview_lines(seen: Overview, zone: tzinfo | None = None, call: Call = in_chat) -> list[str]:
    """The lines, and how to see more."""
    hints = [f"Run {_marked(call(name))} to see all {name}" for name in ("messages", "artifacts")]
    return [
        "Context Summary",
        "",
        *_facts(seen, zone),
        *_recent(seen.recent),
        *_artifacts(seen),
        "",
        *hints,
    ]


def _marked(call: str) -> str:
    """A command between quotes, of another kind than those that are in it."""
    return f"`{call}`" if "'" in call else f"'{call}'"


def _facts(seen: Overview, zone: tzinfo | None) -> Iterator[str]:
    percent = 1_000 * seen.current // seen.window / 10
    yield f"Conversation: {seen.conversation}"
    yield f'Title: "{harmless(seen.title)}"'
    yield f"Messages: {counted(Counter(_by_role(seen.messages)))}"
    types = {plural(type, count): count for type, count in seen.artifacts.items()}
    yield f"Artifacts: {counted(Counter(types))}"
    yield f"Tokens: {seen.current:,} / {seen.window:,} ({percent:.1f}%)"
    yield f"Cost: {dollars(seen.cost)}"
    if seen.created_ms:
        yield f"Created: {local_time(seen.created_ms, zone)}"
        yield f"Updated: {local_time(seen.updated_ms, zone)}"


def _by_role(messages: Mapping[str, int]) -> dict[str, int]:
    """In the order in which people name roles."""
    order = [*ROLES, *(role for role in messages if role not in ROLES)]
    return {role: messages[role] for role in order if messages.get(role)}


def local_time(at_ms: int, zone: tzinfo | None) -> str:
    """`2025-12-27 10:30 AM`; a number that is no time stays a number."""
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return str(at_ms)
    return moment.strftime("%Y-%m-%d %I:%M %p")


def _recent(messages: tuple[Said, ...]) -> Iterator[str]:
    if messages:
        yield ""
        yield "Recent messages:"
    for one in messages[-MESSAGES_SHOWN:]:
        yield f"  [{one.role.capitalize()}] {fitted(harmless(one.text), LINE_COLUMNS)}"


def _artifacts(seen: Overview) -> Iterator[str]:
    if seen.first:
        yield ""
        yield "Artifacts:"
    for one in seen.first[:ARTIFACTS_SHOWN]:
        kind = TYPES.get(one.type, "custom")
        noun = "result" if kind == "search" else "line"
        size = number(one.results or one.lines, noun)
        yield f"  {one.id}: {fitted(harmless(one.name), LINE_COLUMNS)} ({kind}, {size})"
    more = sum(seen.artifacts.values()) - len(seen.first[:ARTIFACTS_SHOWN])
    if more > 0:
        yield f"  ... +{more:,} more"
