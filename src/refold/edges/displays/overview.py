"""A conversation at a glance, in plain text: its lines, its boxes, and the parts of its window.

The lines follow the original designs to the letter; times are in the given time zone. Every row of
a box has the width of its border: it is padded by display width, and cut if it is too long;
percentages in a box are rounded. Every token of the window belongs to one part, so the parts always
sum to the window, or to the page if that is larger; estimates are scaled to the provider's own
count. Neighbours: the commands `context` and `stats` gather the values, `panel` draws the parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

import msgspec
from msgspec import Struct

from refold.core.budget import Budget, current_tokens
from refold.core.model import Slot, ToolResult, View, shows_memories
from refold.display import ago, counted, number, plural, tokens_of
from refold.edges.displays.wrap import fitted, harmless, padded
from refold.tokens.models import dollars

LINE_COLUMNS = 60
MESSAGES_SHOWN, ARTIFACTS_SHOWN = 4, 3
ROLES = ("system", "user", "assistant", "tool")
TYPES = {"file": "file", "search_result": "search", "command_output": "command"}
Call = Callable[[str], str]  # the written form of a command of the group


def in_chat(name: str) -> str:
    """A command of the group as a chat writes it."""
    return f"/context {name}"


class Said(Struct, frozen=True, kw_only=True):
    """A message in one line."""

    role: str
    text: str


class ArtifactLine(Struct, frozen=True, kw_only=True):
    """An artifact in one line. `results` is the number of results of a search, if it is one."""

    id: str
    name: str
    type: str
    lines: int
    results: int = 0


class Overview(Struct, frozen=True, kw_only=True):
    """The values of a glance. `artifacts` are counts by type; `recent` and `first` are the messages
    and artifacts in the lines."""

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
    first: tuple[ArtifactLine, ...]
    recorded: int = 0
    off_page: int = 0  # messages that left the page


def overview_lines(seen: Overview, zone: tzinfo | None = None, call: Call = in_chat) -> list[str]:
    """The lines, and the commands for more."""
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


def recorded_size(recorded: int, window: int) -> str:
    """The size of an imported session as its agent last sent it; empty if that is unknown."""
    if not recorded:
        return ""
    return f"{tokens_of(recorded, window)}, as the agent sent it with its own prompt and tools"


def _marked(call: str) -> str:
    """A command between quotes of a kind that it does not contain."""
    return f"`{call}`" if "'" in call else f"'{call}'"


def _facts(seen: Overview, zone: tzinfo | None) -> Iterator[str]:
    percent = 1_000 * seen.current // seen.window / 10
    yield f"Conversation: {seen.conversation}"
    yield f'Title: "{harmless(seen.title)}"'
    off = f"; {seen.off_page:,} off the page" if seen.off_page else ""
    yield f"Messages: {counted(Counter(_by_role(seen.messages)))}{off}"
    types = {plural(type, count): count for type, count in seen.artifacts.items()}
    yield f"Artifacts: {counted(Counter(types))}"
    yield f"Tokens: {seen.current:,} / {seen.window:,} ({percent:.1f}%)"
    if recorded := recorded_size(seen.recorded, seen.window):
        yield f"As recorded: {recorded}"
    yield f"Cost: {dollars(seen.cost)}"
    if seen.created_ms:
        yield f"Created: {local_time(seen.created_ms, zone)}"
        yield f"Updated: {local_time(seen.updated_ms, zone)}"


def _by_role(messages: Mapping[str, int]) -> dict[str, int]:
    """Counts by role, in the usual order of roles."""
    order = [*ROLES, *(role for role in messages if role not in ROLES)]
    return {role: messages[role] for role in order if messages.get(role)}


def local_time(at_ms: int, zone: tzinfo | None) -> str:
    """`2025-12-27 10:30 AM`; an invalid time stays a number."""
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


COLUMNS = 50
USAGE_CELLS, COMPACTION_CELLS = 20, 15
NAME_COLUMNS = 21


def boxed(title: str, rows: Iterable[str], columns: int = COLUMNS) -> list[str]:
    """A title and rows between borders."""
    border = f"+{'-' * (columns - 2)}+"
    inside = [_row(row, columns) for row in rows]
    return [border, _row(title, columns), border, *inside, border]


def _row(text: str, columns: int) -> str:
    # Two borders and the space after the first; the rest is for the text.
    room = columns - 3
    return f"| {padded(fitted(text, room), room)}|"


def bar(share: float, cells: int) -> str:
    """`[#####...............]`."""
    filled = round(min(1.0, max(0.0, share)) * cells)
    return f"[{'#' * filled}{'.' * (cells - filled)}]"


def rounded(share: float) -> int:
    """A share in whole percent; a half is rounded up."""
    return int(share * 100 + 0.5)


def usage_box(active: int, total: int, summaries: int, columns: int = COLUMNS) -> list[str]:
    """The share of the messages on the page; narrower only if the screen is."""
    # Two borders with a space, the name, the ends of the bar, the percentage.
    cells = max(1, min(USAGE_CELLS, columns - 3 - 7 - 2 - 5))
    share = active / total if total else 1.0
    status = "Compressed" if active < total else "Uncompressed"
    rows = (
        _number("Active Messages", active),
        _number("Total Messages", total),
        _number("Summaries", summaries),
        "",
        f"Usage  {bar(share, cells)} {rounded(share):>3}%",
        "",
        f"Status: {status}",
    )
    return boxed("Context Usage Statistics", rows, min(COLUMNS, columns))


def compaction_box(active: int, total: int, summaries: int, columns: int = COLUMNS) -> list[str]:
    """The effect of compactions on all messages."""
    # Two borders with a space, a name with its number, two spaces and the ends of the bar.
    cells = max(1, min(COMPACTION_CELLS, columns - 3 - (NAME_COLUMNS + 2) - 4))
    share = active / total if total else 1.0
    rows = (
        f"{_number('Active', active)}  {bar(share, cells)}",
        f"{_number('Total', total)}  {bar(1.0 if total else 0.0, cells)}",
        _number("Summaries", summaries),
        "",
        # Not rounded on its own: saved and remaining make 100 %.
        f"Saved: {100 - rounded(share)}%",
    )
    return boxed("Compaction Complete", rows, min(COLUMNS, columns))


def _number(name: str, count: int) -> str:
    return f"{name:<{NAME_COLUMNS - 1}}{count:>3}"


# Names of parts in the lines; any other part has its own name.
USAGE_NAMES = {
    "system": "System prompt",
    "tools": "Tools",
    "memory": "Memory context",
    "summaries": "Summaries",
    "artifacts": "Artifacts",
    "conversation": "Conversation",
}


def usage_lines(
    *, current: int, window: int, messages: int, oldest_age_ms: int, parts: Mapping[str, int]
) -> list[str]:
    """The size of the next request, and its parts without empty ones."""
    percent = 1_000 * current // window / 10
    lines = [
        "Context Usage:",
        f"  Current: {current:,} tokens ({percent:.1f}%)",
        f"  Maximum: {window:,} tokens",
        f"  Messages: {messages:,}",
    ]
    if messages:
        lines.append(f"  Oldest: {ago(oldest_age_ms)}")
    shown = {name: size for name, size in parts.items() if size}
    if shown:
        lines += ["", "Breakdown:"]
    for name, size in shown.items():
        lines.append(f"  {USAGE_NAMES.get(name, name.capitalize())}: {size:,} tokens")
    return lines


NAMES = {
    "system": "System prompt",
    "tools": "Tools",
    "memory": "Memory",
    "summaries": "Summaries",
    "user": "User messages",
    "assistant": "Assistant messages",
    "outputs": "Tool outputs",
    "free": "Free",
    "reserve": "Reserve for the answer",
}
REST = ("free", "reserve")


class WindowPart(Struct, frozen=True, kw_only=True):
    """One part of the window, by its key in `NAMES`."""

    name: str
    tokens: int


def window_parts(view: View, budget: Budget) -> tuple[WindowPart, ...]:
    """The parts of the page, then the free part, then the reserve for the answer; without empty
    parts."""
    current = current_tokens(view, budget.factor)
    used = _scaled(_estimates(view), current)
    free = max(0, budget.input_max - current)
    reserve = max(0, budget.window - current - free)
    whole = {**used, "free": free, "reserve": reserve}
    return tuple(WindowPart(name=name, tokens=size) for name, size in whole.items() if size)


def page_parts(view: View, budget: Budget) -> dict[str, int]:
    """The parts of the page for a person: all messages are the conversation."""
    current = current_tokens(view, budget.factor)
    used = _scaled(_estimates(view), current)
    parts = {name: used[name] for name in ("system", "tools", "memory", "summaries")}
    return {**parts, "conversation": current - sum(parts.values())}


def _estimates(view: View) -> dict[str, int]:
    sizes = dict.fromkeys((name for name in NAMES if name not in REST), 0)
    sizes["system"], sizes["tools"] = view.system_tokens, view.tools_tokens
    for slot in view.slots:
        sizes[part_of(slot)] += slot.tokens
    return sizes


def part_of(slot: Slot) -> str:
    """The part of a slot of the page."""
    message = slot.message
    if slot.standin:
        return "summaries"
    if shows_memories(message):
        return "memory"
    if message.role == "tool" or any(isinstance(block, ToolResult) for block in message.blocks):
        return "outputs"
    return message.role if message.role in ("system", "assistant") else "user"


def _scaled(sizes: dict[str, int], current: int) -> dict[str, int]:
    """Sizes that sum to the size of the page; the largest takes the rounding."""
    total = sum(sizes.values())
    scaled = {name: size * current // total if total else 0 for name, size in sizes.items()}
    largest = max(scaled, key=lambda name: scaled[name])
    scaled[largest] += current - sum(scaled.values())
    return scaled


def tool_tokens(view: View) -> list[tuple[str, int]]:
    """The name of every tool, in order, and its share of the tokens of all."""
    tools = view.tools or []
    sizes = [len(msgspec.json.encode(tool)) for tool in tools]
    total = sum(sizes) or 1
    return [
        (tool_field(tool, "name"), view.tools_tokens * size // total)
        for tool, size in zip(tools, sizes, strict=True)
    ]


def tool_field(tool: Any, name: str) -> str:
    """A field of a tool of any provider: some nest it in `function`. A server-side tool has a type
    instead of a name."""
    if not isinstance(tool, Mapping):
        return ""
    inner = tool.get("function")
    fields = inner if isinstance(inner, Mapping) else tool
    value = fields.get(name) or (tool.get("type") if name == "name" else "")
    return value if isinstance(value, str) else ""
