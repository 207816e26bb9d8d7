"""What an update of a conversation writes: only what differs from what the log says, and from what
an earlier update will still write.

The system prompt and the tools are events of their own, because each is counted. One that the log
has said before is named by the event that said it, so that it is kept once, however often a caller
goes back and forth. Neighbour: `context`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from refold.core.fold import merged
from refold.core.model import Meta
from refold.log.draft import Draft
from refold.log.open_log import OpenLog
from refold.log.redacted import meta_redacted, value_redacted
from refold.tokens.counter import count_system, count_tools


def changes(log: OpenLog, given: Meta, system: Any, tools: list[Any] | None) -> list[Draft]:
    """The drafts that make the log say what was given, with those that were pending."""
    if log.redacts:
        given, system, tools = meta_redacted(given), value_redacted(system), value_redacted(tools)
    state, drafts = log.sums, list(log.pending)
    known = log.known
    if merged(known, given) != known:
        drafts.append(log.draft(given))
    if system is not None:
        drafts = _without(drafts, _sets_system)
        if not _is_same(system, state.meta.system):
            seq = _said_at(state.systems, system)
            said = Meta(system=system) if seq is None else Meta(system_seq=seq)
            drafts.append(log.draft(said, count_system(system, log.counter)))
    if tools is not None:
        drafts = _without(drafts, _sets_tools)
        if not _is_same(tools, state.meta.tools):
            seq = _said_at(state.toolsets, tools)
            said = Meta(tools=tools) if seq is None else Meta(tools_seq=seq)
            drafts.append(log.draft(said, count_tools(tools, log.counter)))
    return drafts


def _without(drafts: list[Draft], is_replaced: Callable[[Meta], bool]) -> list[Draft]:
    """The drafts but for those that nobody has seen and that something else replaces now."""
    return [
        draft for draft in drafts if not (isinstance(draft.body, Meta) and is_replaced(draft.body))
    ]


def _sets_system(meta: Meta) -> bool:
    return meta.system is not None or meta.system_seq is not None


def _sets_tools(meta: Meta) -> bool:
    return meta.tools is not None or meta.tools_seq is not None


def _said_at(contents: Mapping[int, Any], wanted: Any) -> int | None:
    """The seq of the event that says exactly this, if the log has one at hand."""
    return next((seq for seq, value in contents.items() if _is_same(value, wanted)), None)


def _is_same(value: Any, other: Any) -> bool:
    """Whether both are sent as the same bytes: 1 is not True, and keys have an order."""
    return bool(value == other) and repr(value) == repr(other)
