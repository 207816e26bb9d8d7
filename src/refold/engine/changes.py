"""What an update of a conversation writes: only what differs from what the log says, and from what
an earlier update will still write.

The system prompt and the tools are events of their own, because each is counted. Neighbour:
`context`.
"""

from __future__ import annotations

from typing import Any

from refold.core.fold import merged
from refold.core.model import Meta
from refold.log.draft import Draft
from refold.log.open_log import OpenLog
from refold.tokens.counter import count_system, count_tools


def changes(log: OpenLog, given: Meta, system: Any, tools: list[Any] | None) -> list[Draft]:
    """The drafts that make the log say what was given."""
    known, drafts = log.known, []
    if merged(known, given) != known:
        drafts.append(log.draft(given))
    if system is not None and system != known.system:
        drafts.append(log.draft(Meta(system=system), count_system(system, log.counter)))
    if tools is not None and tools != known.tools:
        drafts.append(log.draft(Meta(tools=tools), count_tools(tools, log.counter)))
    return drafts
