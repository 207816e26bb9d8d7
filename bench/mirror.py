"""What it costs to follow a list that somebody else owns: a history of 2,000 messages that comes
back at every call with two new ones, as the same objects or decoded anew from its bytes.

The measure for the second is what nobody can avoid: decoding those bytes, and one digest over them.
Memory is looked at over many calls with the same list.
"""

from __future__ import annotations

import hashlib
import resource
import time
from collections.abc import Callable
from typing import Any

import msgspec

import refold
from bench.tables import Table

MESSAGES, NEW, TRIES = 2_000, 2, 7
CALLS = 10_000
SAME_MS_MAX, ANEW_MAX, GROWTH_MAX = 3.0, 2.0, 1.05

Wire = dict[str, Any]


def history(length: int) -> list[Wire]:
    """Requests, calls, results of two kilobytes, and answers."""
    out: list[Wire] = []
    for number in range(length):
        id = f"call_{number - number % 4}"
        function = {"name": "read_file", "arguments": f'{{"path": "src/part{number}.py"}}'}
        kinds: tuple[Wire, ...] = (
            {"role": "user", "content": f"Please look at part {number}. " * 10},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": id, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": id, "content": f"line {number} of the file\n" * 100},
            {"role": "assistant", "content": f"Part {number} is fine. " * 20},
        )
        out.append(kinds[number % 4])
    return out


def cpu_ms(work: Callable[[], object]) -> float:
    start = time.process_time_ns()
    work()
    return (time.process_time_ns() - start) / 1e6


def run(messages: int = MESSAGES, calls: int = CALLS) -> list[Table]:
    whole = history(messages + NEW * 2 * TRIES)
    config = refold.Config(durability="none", auto=False)
    context = refold.open("mirror", store="memory:", window=10_000_000, config=config)
    context.mirror(whole[:messages])
    same, anew, floor = [], [], []
    length = messages
    for _ in range(TRIES):
        length += NEW
        handed = whole[:length]
        same.append(cpu_ms(lambda handed=handed: context.mirror(handed)))
        length += NEW
        encoded = msgspec.json.encode(whole[:length])
        decoded = msgspec.json.decode(encoded)
        anew.append(cpu_ms(lambda decoded=decoded: context.mirror(decoded)))
        floor.append(cpu_ms(lambda encoded=encoded: _floor(encoded)))
    table = Table(
        f"A list of {messages:,} messages with {NEW} new ones, CPU time, best of {TRIES}",
        ["what", "ms", "goal", ""],
    )
    table.at_most("the same objects", min(same), SAME_MS_MAX)
    ratio = (min(anew) + _decoding(whole[:length])) / min(floor)
    table.at_most("decoded anew, decoding counted, over decoding and one digest", ratio, ANEW_MAX)
    table.note(
        f"Decoding and one digest: {min(floor):.2f} ms; the list decoded anew: {min(anew):.2f} ms."
    )
    return [table, _memory(context, whole[:length], calls)]


def _floor(encoded: bytes) -> None:
    msgspec.json.decode(encoded)
    hashlib.sha256(encoded).digest()


def _decoding(messages: list[Wire]) -> float:
    """What decoding costs, as the list was decoded outside of the clock."""
    encoded = msgspec.json.encode(messages)
    return min(cpu_ms(lambda: msgspec.json.decode(encoded)) for _ in range(TRIES))


def _memory(context: refold.Context, messages: list[Wire], calls: int) -> Table:
    """The peak after a tenth of the calls, and after all."""
    encoded = msgspec.json.encode(messages)
    tenth = 0
    for number in range(calls):
        context.mirror(msgspec.json.decode(encoded) if number % 10 == 0 else messages)
        if number == calls // 10:
            tenth = _peak()
    table = Table(f"Memory over {calls:,} calls with the same list", ["what", "times", "goal", ""])
    table.at_most("peak after all over peak after a tenth", _peak() / tenth, GROWTH_MAX)
    return table


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
