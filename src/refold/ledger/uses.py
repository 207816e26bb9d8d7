"""Which tools were used, how often, and up to three uses of each worth a word: the failed first,
then the newest.

A summary notes this (`noted`), and is counted by its notes when the next one covers it, so nothing
is read or counted twice. A use is the text of the call's arguments. Here it is nearly whole:
secrets are taken out before it is cut to a line, or half of one could stay. Neighbours: `summarize`
notes the uses, the engine's `quoting` cuts and shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from refold.core.fold import text_of
from refold.core.model import Slot, ToolCall, ToolResult
from refold.core.notes import TOOLS, USES, tools_of, uses_of
from refold.ledger.outcomes import exit_status, failed

USES_MAX = 3
TOOLS_MAX = 30  # the tools used most have their uses noted
USE_READ = 20_000  # characters: enough for a private key to be known as one
FAILED = "failed: "


class Used(Struct, frozen=True):
    """How often a tool was used, and its notable uses."""

    count: int
    notable: tuple[str, ...] = ()


def tools_used(slots: Sequence[Slot]) -> dict[str, Used]:
    """The tools called in these messages and in what summaries among them noted, the most used
    first."""
    counts: dict[str, int] = {}
    uses: dict[str, list[ToolCall | str]] = {}
    for name, count, use in _each(slots):
        counts[name] = counts.get(name, 0) + count
        uses.setdefault(name, []).extend(use)
    bad = _failed_calls(slots)
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {
        name: Used(count, _notable(uses[name], bad) if at < TOOLS_MAX else ())
        for at, (name, count) in enumerate(most)
    }


def noted(used: dict[str, Used]) -> dict[str, Any]:
    """The same as notes of a summary."""
    uses = {name: list(used[name].notable) for name in sorted(used) if used[name].notable}
    return {
        TOOLS: {name: used[name].count for name in sorted(used)},
        **({USES: uses} if uses else {}),
    }


def _each(slots: Sequence[Slot]) -> Iterator[tuple[str, int, list[ToolCall | str]]]:
    """Name, how often and the uses, oldest first: of every call, and of every tool that a
    summary noted."""
    for slot in slots:
        notes = slot.notes if slot.standin else None
        for name, count in tools_of(notes).items():
            yield name, count, list(reversed(uses_of(notes).get(name, ())))
        for block in slot.message.blocks:
            if isinstance(block, ToolCall):
                yield block.name, 1, [block]


def _failed_calls(slots: Sequence[Slot]) -> set[str]:
    results = [
        block for slot in slots for block in slot.message.blocks if isinstance(block, ToolResult)
    ]
    return {result.call for result in results if result.is_error or _failed(text_of(result))}


def _failed(output: str) -> bool:
    return failed(output) or exit_status(output) not in (None, 0)


def _notable(uses: Sequence[ToolCall | str], bad: set[str]) -> tuple[str, ...]:
    """Only as many arguments are read as are shown: there may be thousands of calls."""
    shown: list[str] = []
    for use in sorted(reversed(uses), key=lambda use: not _went_wrong(use, bad)):
        text = use if isinstance(use, str) else _told(use, bad)
        shown += [text] if text not in shown else []
        if len(shown) == USES_MAX:
            break
    return tuple(shown)


def _went_wrong(use: ToolCall | str, bad: set[str]) -> bool:
    return use.startswith(FAILED) if isinstance(use, str) else use.id in bad


def _told(call: ToolCall, bad: set[str]) -> str:
    return (FAILED if call.id in bad else "") + arguments_text(call)[:USE_READ]


def arguments_text(call: ToolCall) -> str:
    """The arguments as they came, or as JSON."""
    return (
        call.arguments
        if isinstance(call.arguments, str)
        else msgspec.json.encode(call.arguments).decode()
    )
