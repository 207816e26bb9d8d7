"""What an update of a conversation writes: only what differs from what the log says, and from what
an earlier update will still write.

The system prompt and the tools are events of their own, because each is counted. Neighbour:
`context`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from refold.core.fold import merged
from refold.core.model import Body, Meta
from refold.core.surrogates import encoded
from refold.errors import Invalid
from refold.log.log import Draft
from refold.log.open_log import OpenLog
from refold.tokens.counter import count_system, count_tools


def changes(log: OpenLog, given: Meta, system: Any, tools: list[Any] | None) -> list[Draft]:
    """The drafts that make the log say what was given."""
    known, drafts = _known(log), []
    if merged(known, given) != known:
        drafts.append(log.draft(given))
    if system is not None and system != known.system:
        drafts.append(log.draft(Meta(system=system), count_system(system, log.counter)))
    if tools is not None and tools != known.tools:
        drafts.append(log.draft(Meta(tools=tools), count_tools(tools, log.counter)))
    for draft in drafts:
        check_body(draft.body)
    return drafts


def check_body(body: Body) -> None:
    """Refuses what could be written but not read again: a draft that waits must not be at fault
    when something else is appended."""
    data = encoded(body)
    try:
        msgspec.json.decode(data, type=type(body))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Invalid(
            f"this cannot be kept: {error}", hint="give values that can be written as JSON"
        ) from error


def _known(log: OpenLog) -> Meta:
    """What the log will say once everything pending is written."""
    known = log.state.meta
    for draft in log.pending:
        if isinstance(draft.body, Meta):
            known = merged(known, draft.body)
    return known
