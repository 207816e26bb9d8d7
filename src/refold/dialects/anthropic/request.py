"""Anthropic Messages: the keyword arguments of the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from refold.dialects import definitions
from refold.dialects.anthropic.ids import distinct
from refold.dialects.anthropic.parse import _parsed
from refold.dialects.anthropic.render import ELSEWHERE
from refold.dialects.foreign import as_system, leading, said_by_system
from refold.dialects.wire import MARKS, report, same

MARKS_MAX = 4
_SYSTEM = ("system", ELSEWHERE)
_ROLE = itemgetter("role")
_MARK = {"type": "ephemeral"}


def request(
    messages: list[dict[str, Any]],
    *,
    system: Any,
    tools: list[Any] | None,
    marks: Sequence[int],
    lost: list[str],
) -> dict[str, Any]:
    """The keyword arguments of the call. With marks, the system prompt (or the tools) and the
    marked messages, newest first, end cacheable prefixes, four in all; marks that were given
    with system and tools give way. System messages that lead the page stand behind the system
    prompt."""
    defined = definitions.for_anthropic(tools, lost, unmarked=bool(marks))
    lead = leading(messages, _SYSTEM)
    prompt = _prompt(system, messages[:lead], unmarked=bool(marks))
    room = MARKS_MAX
    if marks and (prompt or defined):
        prompt, defined = (
            (_marked_prompt(prompt), defined) if prompt else (prompt, _marked_last(defined))
        )
        room -= 1
    kwargs: dict[str, Any] = {"system": prompt} if prompt else {}
    kwargs["messages"] = _marked(
        distinct(_begun(messages[lead:], lost)), [mark - lead for mark in marks], room
    )
    return {**kwargs, "tools": defined} if defined else kwargs


def _begun(messages: list[dict[str, Any]], lost: list[str]) -> list[dict[str, Any]]:
    """The messages, a user first: what another provider's system says among them, or the system
    alone, is said by the user. Reports an end that is no user's."""
    if messages and messages[-1]["role"] == "assistant":
        report(
            lost, "the conversation ends with the assistant: a prefill, which newer models refuse"
        )
    by_user = _SYSTEM if messages and messages[0]["role"] in _SYSTEM else (ELSEWHERE,)
    if not any(role in map(_ROLE, messages) for role in by_user):
        return messages
    return [
        {"role": "user", "content": as_system(_said(message))}
        if message["role"] in by_user
        else message
        for message in messages
    ]


def _said(message: dict[str, Any]) -> str:
    """What a system message on the wire says."""
    return said_by_system(_parsed({**message, "role": "system"}, same))


def _prompt(
    system: Any, said: Sequence[dict[str, Any]], *, unmarked: bool
) -> str | list[dict[str, Any]]:
    """The system prompt as it was given, and each system message that leads the page as a block
    behind it."""
    if isinstance(system, str) and not said:
        return system if system.strip() else ""
    return definitions.text_blocks([system, *map(_said, said)], unmarked=unmarked)


def _marked_prompt(prompt: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return _marked_last([{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt)


def _marked_last(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*entries[:-1], {**entries[-1], MARKS[0]: dict(_MARK)}]


def _marked(
    messages: list[dict[str, Any]], marks: Sequence[int], room: int
) -> list[dict[str, Any]]:
    marked = list(messages)
    for index in sorted(set(marks), reverse=True):
        if room and 0 <= index < len(marked):
            message = _marked_message(marked[index])
            room -= message is not None
            marked[index] = message or marked[index]
    return marked


def _marked_message(message: dict[str, Any]) -> dict[str, Any] | None:
    """The message with a mark on its last block that may carry one; None if there is no such
    block."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    for index in reversed(range(len(blocks))):
        if _is_markable(blocks[index]):
            blocks[index] = {**blocks[index], MARKS[0]: dict(_MARK)}
            return {**message, "content": blocks}
    return None


def _is_markable(block: Mapping[str, Any]) -> bool:
    kind = block.get("type")
    return kind not in ("thinking", "redacted_thinking") and (
        kind != "text" or bool(block.get("text"))
    )
