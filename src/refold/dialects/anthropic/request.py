"""Anthropic Messages: the keyword arguments of `client.messages.create`.

Here the whole page is seen for the first time: what the system says gets its place, call ids are
made distinct, and cache marks are set. Neighbours: `render` made the messages, `tools` the
definitions, `ids` renames calls, `marks` sets marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from refold.dialects.anthropic.ids import distinct
from refold.dialects.anthropic.marks import given_ttl, mark_of, marked, with_marks_in_order
from refold.dialects.anthropic.parse import parse_plain
from refold.dialects.anthropic.render import ELSEWHERE
from refold.dialects.anthropic.thinking import ended_by_user
from refold.dialects.anthropic.tools import definitions
from refold.dialects.protocol import REFOLDS, CacheMarks
from refold.dialects.system import as_system, leading, system_text, text_blocks
from refold.dialects.wire import objects_in, same

_SYSTEM = ("system", ELSEWHERE)
_ROLE = itemgetter("role")

Wire = dict[str, Any]


def request(
    messages: list[Wire],
    *,
    system: Any,
    tools: list[Any] | None,
    marks: Sequence[int],
    lost: list[str],
    caching: CacheMarks = REFOLDS,
) -> dict[str, Any]:
    """The keyword arguments of the call. With marks, the system prompt (or the tools) and the
    marked messages, newest first, end cacheable prefixes, four in all; marks that were given
    give way, unless the caller's are the ones that count. System messages that lead the page
    follow the system prompt. A user speaks last."""
    unmarked = caching.by != "caller"
    defined = definitions(tools, lost, unmarked=unmarked)
    lead = leading(messages, _SYSTEM)
    prompt = _prompt(system, messages[:lead], unmarked=unmarked)
    said = ended_by_user(distinct(_by_user(messages[lead:])))
    beginning = {"system": prompt} if prompt else {}
    ending = {"tools": defined} if defined else {}
    made = {**beginning, "messages": said, **ending}
    if not unmarked:
        return with_marks_in_order(made, caching.most)
    if not marks:
        return made
    ttl = caching.ttl or given_ttl([*objects_in(system), *objects_in(tools)])
    return marked(made, [index - lead for index in marks], caching.most, mark_of(ttl))


# --- what the system says ---


def _prompt(system: Any, lead: Sequence[Wire], *, unmarked: bool) -> str | list[Wire]:
    """The system prompt as it was given, and each system message that leads the page as a block
    after it."""
    if isinstance(system, str) and not lead:
        return system if system.strip() else ""
    return text_blocks([system, *map(_system_text, lead)], unmarked=unmarked)


def _by_user(messages: list[Wire]) -> list[Wire]:
    """The messages; what the system says among them is said by the user. Most models refuse a
    system message there, the newest take it only in some places."""
    if frozenset(_SYSTEM).isdisjoint(map(_ROLE, messages)):
        return messages
    return list(map(_said_by_user, messages))


def _said_by_user(message: Wire) -> Wire:
    """The message, said by the user if the system says it."""
    if message["role"] not in _SYSTEM:
        return message
    return {"role": "user", "content": as_system(_system_text(message))}


def _system_text(message: Wire) -> str:
    """What a system message on the wire says."""
    return system_text(parse_plain({**message, "role": "system"}, same))
