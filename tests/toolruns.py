"""Conversations in which tools gave large outputs, and ways to get them off the page again."""

from __future__ import annotations

import time

import refold
from refold.artifacts import cleanup
from refold.artifacts.artifacts import Artifacts
from refold.artifacts.cleanup import Quota


def opened(store, id="work", **given):
    given.setdefault("window", 24_000)
    given.setdefault("config", refold.Config(offload_tokens=50))
    return refold.Context(store, id, **given)


def ran(context, output, tool="bash", arguments='{"command":"ls"}', **given):
    """One call of a tool and its output, which is large enough to be kept as an artifact."""
    id = f"c{context.view.head}"
    function = {"name": tool, "arguments": arguments}
    context.append(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": id, "type": "function", "function": function}],
        }
    )
    context.append_result(id, output, **given)
    return outputs_in(context).list()[-1].id


def outputs_in(context) -> Artifacts:
    return context.artifacts


def long(text: str, lines: int = 60) -> str:
    return text + "\n" + "\n".join(f"some more of it, line {n}" for n in range(lines))


def forget_page(context) -> None:
    """Takes everything that names an output off the page."""
    context.append({"role": "user", "content": "something else, please"})
    context.compact("hide", target=1)
    context.restore(0)
    context.append({"role": "user", "content": "start again"})


def clean(store, now_ms=None, **given):
    bounds = {name: given.pop(name) for name in list(given) if name in Quota.__struct_fields__}
    given.setdefault("grace_s", 0)
    return cleanup.clean(store, Quota(**bounds), now_ms=now_ms or clock_ms() + 1_000, **given)


def clock_ms() -> int:
    return time.time_ns() // 1_000_000
