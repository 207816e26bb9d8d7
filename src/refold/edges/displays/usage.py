"""How full the window is and what fills it, in a few lines."""

from __future__ import annotations

from collections.abc import Mapping

from refold.edges.displays.phrases import ago

# What the lines call the parts; any other part has its own name.
NAMES = {
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
    """The size of the next request, and its parts; those that have nothing are left out."""
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
        lines.append(f"  {NAMES.get(name, name.capitalize())}: {size:,} tokens")
    return lines
