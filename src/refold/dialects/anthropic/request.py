"""Anthropic Messages: the keyword arguments of `client.messages.create`.

Here the whole page is seen for the first time: what the system says gets its place, call ids are
made distinct, and cache marks are set. Neighbours: `render` made the messages, `tools` the
definitions, `ids` renames calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from refold.dialects.anthropic.ids import distinct
from refold.dialects.anthropic.parse import parse_plain
from refold.dialects.anthropic.render import ELSEWHERE
from refold.dialects.anthropic.tools import definitions
from refold.dialects.outside import MARKS
from refold.dialects.system import as_system, leading, system_text, text_blocks
from refold.dialects.wire import at, objects_in, report, same

MARKS_MAX = 4
_SYSTEM = ("system", ELSEWHERE)
_MARK = {"type": "ephemeral"}
_ROLE = itemgetter("role")

Wire = dict[str, Any]


def request(
    messages: list[Wire],
    *,
    system: Any,
    tools: list[Any] | None,
    marks: Sequence[int],
    lost: list[str],
) -> dict[str, Any]:
    """The keyword arguments of the call. With marks, the system prompt (or the tools) and the
    marked messages, newest first, end cacheable prefixes, four in all; marks that were given
    with system and tools give way. System messages that lead the page follow the system
    prompt."""
    defined = definitions(tools, lost, unmarked=bool(marks))
    lead = leading(messages, _SYSTEM)
    prompt = _prompt(system, messages[:lead], unmarked=bool(marks))
    said = distinct(_by_user(messages[lead:], lost))
    if marks:
        mark = {**_MARK, **_time_to_live(system, tools)}
        prompt, defined, room = _mark_beginning(prompt, defined, mark)
        said = _marked(said, [index - lead for index in marks], room, mark)
    beginning = {"system": prompt} if prompt else {}
    ending = {"tools": defined} if defined else {}
    return {**beginning, "messages": said, **ending}


# --- what the system says ---


def _prompt(system: Any, lead: Sequence[Wire], *, unmarked: bool) -> str | list[Wire]:
    """The system prompt as it was given, and each system message that leads the page as a block
    after it."""
    if isinstance(system, str) and not lead:
        return system if system.strip() else ""
    return text_blocks([system, *map(_system_text, lead)], unmarked=unmarked)


def _by_user(messages: list[Wire], lost: list[str]) -> list[Wire]:
    """The messages, a user's first: what another provider's system says among them, or the system
    alone, is said by the user. Reports an end that is not a user's."""
    if messages and messages[-1]["role"] == "assistant":
        report(
            lost, "the conversation ends with the assistant: a prefill, which newer models refuse"
        )
    begins = messages[0]["role"] if messages else ""
    roles = _SYSTEM if begins in _SYSTEM else (ELSEWHERE,)
    if frozenset(roles).isdisjoint(map(_ROLE, messages)):
        return messages
    return [_said_by_user(message, roles) for message in messages]


def _said_by_user(message: Wire, roles: Sequence[str]) -> Wire:
    """The message, said by the user if it has one of these roles."""
    if message["role"] not in roles:
        return message
    return {"role": "user", "content": as_system(_system_text(message))}


def _system_text(message: Wire) -> str:
    """What a system message on the wire says."""
    return system_text(parse_plain({**message, "role": "system"}, same))


# --- cache marks ---


def _time_to_live(system: Any, tools: Any) -> dict[str, str]:
    """How long the marks that came with the system prompt or the tools were to live; ours live as
    long, because a shorter mark may not come before a longer one."""
    for block in [*objects_in(system), *objects_in(tools)]:
        ttl = at(block, (MARKS[0], "ttl"))
        if isinstance(ttl, str):
            return {"ttl": ttl}
    return {}


def _mark_beginning(
    prompt: str | list[Wire], defined: list[Wire], mark: Wire
) -> tuple[str | list[Wire], list[Wire], int]:
    """The prompt or, without one, the tools with a mark; and how many marks are left."""
    if prompt:
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt
        return _marked_last(blocks, mark), defined, MARKS_MAX - 1
    if defined:
        return prompt, _marked_last(defined, mark), MARKS_MAX - 1
    return prompt, defined, MARKS_MAX


def _marked_last(entries: list[Wire], mark: Wire) -> list[Wire]:
    return [*entries[:-1], _with_mark(entries[-1], mark)]


def _with_mark(block: Wire, mark: Wire) -> Wire:
    return {**block, MARKS[0]: dict(mark)}


def _marked(messages: list[Wire], marks: Sequence[int], room: int, mark: Wire) -> list[Wire]:
    """The messages, the newest of those to be marked with a mark, while there is room."""
    marked = list(messages)
    for index in sorted(set(marks), reverse=True):
        if not room or not 0 <= index < len(marked):
            continue
        message = _marked_message(marked[index], mark)
        if message is not None:
            marked[index] = message
            room -= 1
    return marked


def _marked_message(message: Wire, mark: Wire) -> Wire | None:
    """The message with a mark on its last block that may carry one; None if there is no such
    block."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    for index in reversed(range(len(blocks))):
        if _is_markable(blocks[index]):
            blocks[index] = _with_mark(blocks[index], mark)
            return {**message, "content": blocks}
    return None


def _is_markable(block: Mapping[str, Any]) -> bool:
    """Whether the provider takes a mark on this block: not on thinking, nor on an empty text."""
    kind = block.get("type")
    if kind == "text":
        return bool(block.get("text"))
    return kind not in ("thinking", "redacted_thinking")
