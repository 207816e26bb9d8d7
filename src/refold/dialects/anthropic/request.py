"""Anthropic Messages: the keyword arguments of `client.messages.create`.

Here the whole page is seen for the first time: what the system says gets its place, call ids are
made distinct, and cache marks are set. Neighbours: `render` made the messages, `tools` the
definitions, `ids` renames calls, `marks` sets marks.

Anthropic Messages: tool definitions, with their schema beside their name.

Neighbours: `dialects.tools` reads definitions of every shape; `request` sends them.

A request with thinking on: its limit, and a tool loop that began without it.

While thinking is on, Anthropic wants every answer of the open tool loop to begin with thinking, and
a user to speak last. An answer of another model has no thinking that Claude takes: its calls and
their results are said as text, so nothing of them is lost, and the loop begins after them. What
Claude thinks then is bound to those words, so they stay as long as it does, also once the loop is
closed: the same messages always give the same. A thinking budget is part of `max_tokens`, so it is
added to the answer's share, unless the caller set the limit. Neighbours: `request` made the
request; `engine.pages` calls this once the caller's keywords are in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import is_, itemgetter
from typing import Any

from refold.dialects.anthropic.marks import MARK, given_ttl, mark_of, marked, with_marks_in_order
from refold.dialects.anthropic.native import has_block, with_beta
from refold.dialects.anthropic.parse import parse_plain
from refold.dialects.anthropic.render import ELSEWHERE, NAME, distinct
from refold.dialects.protocol import REFOLDS, CacheMarks
from refold.dialects.tools import (
    definition_of,
    function_in,
    named,
    one_by_one,
    plain_tool,
    report_left_out,
    strictness,
)
from refold.dialects.wire import (
    EMPTY,
    as_system,
    leading,
    objects_in,
    present,
    same,
    system_text,
    text_blocks,
)
from refold.errors import Invalid

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


def definitions(
    tools: list[Any] | None, lost: list[str], *, unmarked: bool = True
) -> list[dict[str, Any]]:
    """The tools as the Messages API takes them, if `unmarked` without the cache marks they came
    with."""
    given = (plain_tool(tool, unmarked=unmarked) for tool in one_by_one(tools, lost))
    return present(_defined(tool, lost) for tool in given)


def _defined(tool: dict[str, Any], lost: list[str]) -> dict[str, Any] | None:
    if isinstance(tool.get("input_schema"), Mapping) or _is_own(tool):
        return tool
    if tool.get("type", "function") != "function":
        report_left_out(tool, NAME, lost)
        return None
    wrapped = function_in(tool)
    return _with_schema(tool if wrapped is None else wrapped)


def _with_schema(function: Mapping[str, Any]) -> dict[str, Any]:
    definition = definition_of(function)
    schema = {"input_schema": definition.schema}
    return named(definition) | schema | strictness(function)


def _is_own(tool: Mapping[str, Any]) -> bool:
    """Whether this is a tool of the provider, which has a type of its own."""
    if tool.get("type", "function") == "function":
        return False
    return isinstance(tool.get("name"), str) and not isinstance(tool.get("custom"), Mapping)


_THINKING = ("thinking", "redacted_thinking")
_MEDIA = ("image", "document")
_GO_ON = "(go on)"
# So many tokens, or what was asked if that is less, an answer needs beside the thinking.
_ANSWER_MIN = 1_024

ThinkingWire = dict[str, Any]


def finished(request: ThinkingWire, *, output_max: int | None = None) -> ThinkingWire:
    """The whole call as the provider takes it: ready to think, if it is to, with the beta that what
    it holds needs, and with no more than four cache marks, where keywords brought some of their
    own."""
    made = ready_to_think(with_beta(request) if has_block(request) else request)
    if output_max is not None:
        made = _with_room_to_think(made, output_max)
    beginning = [*objects_in(made.get("system")), *objects_in(made.get("tools"))]
    is_marked_twice = sum(MARK in block for block in beginning) > 1
    return with_marks_in_order(made) if MARK in made or is_marked_twice else made


def _with_room_to_think(request: ThinkingWire, output_max: int) -> ThinkingWire:
    """The request with a limit that holds the thinking and the answer. Invalid if the model or
    the page leaves no room for both."""
    thinking, answer = request.get("thinking"), request.get("max_tokens")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if not _is_thinking_on(request) or type(budget) is not int or type(answer) is not int:
        return request
    least = min(answer, _ANSWER_MIN)
    if budget + least > output_max:
        what = (
            f"{budget:,} tokens of thinking and {least:,} of an answer do not fit in {output_max:,}"
        )
        hint = "lower budget_tokens, or set reserve_tokens so that pages leave room for it"
        raise Invalid(what, hint=hint)
    return {**request, "max_tokens": min(budget + answer, output_max)}


def ready_to_think(request: ThinkingWire) -> ThinkingWire:
    """The request, valid with thinking on; as it is where thinking is off, or nothing is in the
    way. The messages given are never changed."""
    messages = request.get("messages")
    if not _is_thinking_on(request) or not isinstance(messages, list) or not messages:
        return request
    if not all(isinstance(message, dict) for message in messages):
        return request
    said = ended_by_user(with_loops_said(messages))
    return request if said is messages else {**request, "messages": said}


def ended_by_user(messages: list[ThinkingWire]) -> list[ThinkingWire]:
    """The messages with a user speaking last: newer models refuse to go on with an answer, older
    ones where it ends with white space. An answer that paused in a tool of the provider is sent
    back as it is."""
    if not messages or messages[-1].get("role") != "assistant" or _has_paused(messages[-1]):
        return messages
    return [*messages, {"role": "user", "content": _GO_ON}]


def _has_paused(message: ThinkingWire) -> bool:
    """Whether an answer ends with a call of a tool that the provider runs, or with its result."""
    kind = (objects_in(message.get("content")) or [{}])[-1].get("type")
    return isinstance(kind, str) and kind.endswith(("_tool_use", "_tool_result"))


def _is_thinking_on(request: ThinkingWire) -> bool:
    """Whether the request asks the model to think."""
    thinking = request.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") != "disabled"


def with_loops_said(messages: list[ThinkingWire]) -> list[ThinkingWire]:
    """The messages; of every tool loop those up to the last call without thinking, and the results
    of that, as text, where thinking needs it."""
    starts = [0, *(at + 1 for at, message in enumerate(messages) if _is_request(message))]
    said: list[ThinkingWire] = []
    for first, after in pairwise(starts):
        said += _loop_said(messages[first:after], is_open=False)
    said += _loop_said(messages[starts[-1] :], is_open=True)
    return messages if all(map(is_, said, messages)) else said


def _loop_said(loop: list[ThinkingWire], *, is_open: bool) -> list[ThinkingWire]:
    """One loop, with the request that ended it. What was thought in a loop is bound to how the
    loop was said then, so a loop that is closed is said as it was while it was open. One whose
    last words were not thought goes back to what it was, without its thinking."""
    unthinking = [at for at, message in enumerate(loop) if _calls_unthinking(message)]
    if not unthinking:
        return loop
    end = unthinking[-1] + 2
    if is_open or any(map(_thinks, loop[end:])):
        return [*map(_as_text, loop[:end]), *loop[end:]]
    return [_without_thinking(message) if _thinks(message) else message for message in loop]


def _is_request(message: ThinkingWire) -> bool:
    """Whether a user speaks, and not only results."""
    return message.get("role") == "user" and not _has(message, "tool_result")


def _thinks(message: ThinkingWire) -> bool:
    return message.get("role") == "assistant" and any(_has(message, kind) for kind in _THINKING)


def _without_thinking(message: ThinkingWire) -> ThinkingWire:
    kept = [one for one in objects_in(message["content"]) if one.get("type") not in _THINKING]
    return {**message, "content": kept or [_text(EMPTY)]}


def _has(message: ThinkingWire, kind: str) -> bool:
    return any(block.get("type") == kind for block in objects_in(message.get("content")))


def _calls_unthinking(message: ThinkingWire) -> bool:
    """Whether an answer calls tools and does not begin with thinking."""
    if message.get("role") != "assistant" or not _has(message, "tool_use"):
        return False
    return objects_in(message["content"])[0].get("type") not in _THINKING


# --- as text ---


def _as_text(message: ThinkingWire) -> ThinkingWire:
    """The message with its calls and results as text, and without thinking, which would belong to
    calls that are no longer there."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    kept = [part for block in objects_in(content) for part in _said(block)]
    return {**message, "content": kept or [_text(EMPTY)]}


def _said(block: ThinkingWire) -> list[ThinkingWire]:
    match block.get("type"):
        case "tool_use":
            arguments = json.dumps(block.get("input"), ensure_ascii=False)
            said = [_text(f"[I called {block.get('name')} with {arguments}]")]
        case "tool_result":
            said = _said_result(
                block.get("content"), "error" if block.get("is_error") else "result"
            )
        case kind:
            return [] if kind in _THINKING else [block]
    if MARK in block:
        said[-1] = {**said[-1], MARK: block[MARK]}
    return said


def _said_result(content: Any, heading: str) -> list[ThinkingWire]:
    """A result as one text, and its media after it."""
    if isinstance(content, str):
        return [_text(f"[{heading}]\n{content}")]
    parts = objects_in(content)
    texts = [part.get("text") or f"[{part.get('type')}]" for part in parts]
    media = [part for part in parts if part.get("type") in _MEDIA]
    return [_text("\n".join([f"[{heading}]", *texts])), *media]


def _text(text: str) -> ThinkingWire:
    return {"type": "text", "text": text}
