"""Which tools were used, how often, and up to three uses of each worth a word: the failed first,
then the newest.

A summary notes this (`noted`), and is counted by its notes when the next one covers it, so nothing
is read or counted twice. A use is the text of the call's arguments. Here it is nearly whole:
secrets are taken out before it is cut to a line, or half of one could stay. Neighbours:
`strategies.summarize` notes the uses, `writer.quote` cuts and shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from refold.core.call_arguments import arguments_text
from refold.core.model import Slot, SummaryNotes, ToolCall, ToolResult
from refold.core.shortened import text_of
from refold.ledger.actions import exit_status, failed

USES_MAX = 3
TOOLS_MAX = 30  # the tools used most have their uses noted
USE_READ = 20_000  # characters: enough for a private key to be known as one
FAILED = "failed: "

Use = ToolCall | str
"""A call, or what a summary noted of one."""


class Used(Struct, frozen=True):
    """How often a tool was used, and its notable uses."""

    count: int
    notable: tuple[str, ...] = ()


def tools_used(slots: Sequence[Slot]) -> dict[str, Used]:
    """The tools called in these messages and in what summaries among them noted, the most used
    first."""
    counts: dict[str, int] = {}
    uses: dict[str, list[Use]] = {}
    for name, count, some in _each_tool(slots):
        counts[name] = counts.get(name, 0) + count
        uses.setdefault(name, []).extend(some)
    failures = _failed_calls(slots)
    used: dict[str, Used] = {}
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        notable = _notable(uses[name], failures) if len(used) < TOOLS_MAX else ()
        used[name] = Used(counts[name], notable)
    return used


def noted(used: dict[str, Used], messages: int) -> SummaryNotes:
    """The same as notes of a summary of this many messages."""
    tools = {name: used[name].count for name in sorted(used)}
    uses = {name: list(used[name].notable) for name in sorted(used) if used[name].notable}
    return SummaryNotes(messages=messages, tools=tools, uses=uses)


def _each_tool(slots: Sequence[Slot]) -> Iterator[tuple[str, int, list[Use]]]:
    """Name, how often and the uses, oldest first: of every call, and of every tool that a
    summary noted."""
    for slot in slots:
        if slot.summary and slot.summary.counted:
            yield from _noted_tools(slot.summary.counted)
        for block in slot.message.blocks:
            if isinstance(block, ToolCall):
                yield block.name, 1, [block]


def _noted_tools(notes: SummaryNotes) -> Iterator[tuple[str, int, list[Use]]]:
    for name, count in notes.tools.items():
        yield name, count, list(reversed(notes.uses.get(name, ())))


def _failed_calls(slots: Sequence[Slot]) -> set[str]:
    """The ids of the calls whose results say that they failed."""
    return {
        block.call
        for slot in slots
        for block in slot.message.blocks
        if isinstance(block, ToolResult) and _has_failed(block)
    }


def _has_failed(result: ToolResult) -> bool:
    if result.is_error:
        return True
    output = text_of(result)
    return failed(output) or exit_status(output) not in (None, 0)


def _notable(uses: Sequence[Use], failures: set[str]) -> tuple[str, ...]:
    """Only as many arguments are read as are shown: there may be thousands of calls."""
    shown: list[str] = []
    for use in sorted(reversed(uses), key=lambda use: not _is_failure(use, failures)):
        text = use if isinstance(use, str) else _use_text(use, failures)
        if text not in shown:
            shown.append(text)
        if len(shown) == USES_MAX:
            break
    return tuple(shown)


def _is_failure(use: Use, failures: set[str]) -> bool:
    return use.startswith(FAILED) if isinstance(use, str) else use.id in failures


def _use_text(call: ToolCall, failures: set[str]) -> str:
    """What a summary notes of a call."""
    text = arguments_text(call)[:USE_READ]
    return FAILED + text if call.id in failures else text
