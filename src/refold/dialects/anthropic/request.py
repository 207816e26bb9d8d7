"""Requests to Anthropic Messages: the keyword arguments of `client.messages.create`.

This sees the whole page: it places system messages, makes call ids distinct, closes the provider's
own calls and sets cache marks. With thinking on, every answer of the open tool loop must begin with
thinking, and a user must speak last. Other models' answers have no thinking that Claude accepts, so
their calls and results are sent as text, and the loop begins after them; Claude's later thinking is
bound to that text, so it stays the same even after the loop is closed. Neighbours: `render` builds
the messages, `cache_marks` the marks; `engine.pages` calls `finished` with the caller's keywords
added.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import is_, itemgetter
from typing import Any

from refold.dialects.anthropic.cache_marks import (
    MARK,
    given_ttl,
    mark_of,
    marked,
    with_marks_in_order,
)
from refold.dialects.anthropic.native import has_block, with_beta
from refold.dialects.anthropic.parse import parse_plain
from refold.dialects.anthropic.render import ELSEWHERE, NAME, distinct
from refold.dialects.anthropic.server_tools import closed, is_waiting
from refold.dialects.protocol import ANSWER_MIN, GO_ON, REFOLDS, Arranged, CacheMarks
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
    marked messages, newest first, end cacheable prefixes, four in all; the caller's marks are
    dropped, unless the request carries them. Leading system messages follow the system prompt. A
    user speaks last."""
    unmarked = caching.by != "caller"
    defined = definitions(tools, lost, unmarked=unmarked) if tools else []
    messages = arranged(messages, lost).messages
    lead = leading(messages, _SYSTEM)
    prompt: str | list[Wire]
    if isinstance(system, str) and not lead:
        prompt = system if system.strip() else ""
    else:
        blocks = [system, *map(_system_text, messages[:lead])]
        prompt = text_blocks(blocks, unmarked=unmarked)
    beginning = {"system": prompt} if prompt else {}
    ending = {"tools": defined} if defined else {}
    call = {**beginning, "messages": messages[lead:], **ending}
    if not unmarked:
        return with_marks_in_order(call, caching.most)
    if not marks:
        return call
    ttl = caching.ttl or given_ttl([*objects_in(system), *objects_in(tools)])
    return marked(call, [index - lead for index in marks], caching.most, mark_of(ttl))


def arranged(messages: list[Wire], lost: list[str]) -> Arranged:
    """The page with distinct call ids, and with a user speaking last. System messages after the
    beginning become the user's: most models refuse them there, and the newest accept only some."""
    lead = leading(messages, _SYSTEM)
    page = messages[lead:]
    if not frozenset(_SYSTEM).isdisjoint(map(_ROLE, page)):
        page = [
            {"role": "user", "content": as_system(_system_text(message))}
            if message["role"] in _SYSTEM
            else message
            for message in page
        ]
    page = ended_by_user(closed(distinct(page), lost))
    return Arranged([*messages[:lead], *page], range(len(messages)))


def _system_text(message: Wire) -> str:
    """The text of a system message on the wire."""
    return system_text(parse_plain({**message, "role": "system"}, same))


# --- tools ---


def definitions(
    tools: list[Any] | None, lost: list[str], *, unmarked: bool = True
) -> list[dict[str, Any]]:
    """The tools as the Messages API accepts them, without their cache marks if `unmarked`."""
    plain_tools = (plain_tool(tool, unmarked=unmarked) for tool in one_by_one(tools, lost))
    return present(_defined(tool, lost) for tool in plain_tools)


def _defined(tool: dict[str, Any], lost: list[str]) -> dict[str, Any] | None:
    is_function = tool.get("type", "function") == "function"
    is_custom = isinstance(tool.get("custom"), Mapping)
    is_providers = not is_function and isinstance(tool.get("name"), str) and not is_custom
    if isinstance(tool.get("input_schema"), Mapping) or is_providers:
        return tool
    if not is_function:
        report_left_out(tool, NAME, lost)
        return None
    wrapped = function_in(tool)
    function = tool if wrapped is None else wrapped
    definition = definition_of(function)
    return named(definition) | {"input_schema": definition.schema} | strictness(function)


# --- thinking ---

_THINKING = ("thinking", "redacted_thinking")
_MEDIA = ("image", "document")


def finished(request: Wire, *, output_max: int | None = None) -> Wire:
    """The complete call as the provider accepts it: valid with thinking on, with the beta that a
    compaction needs, and with at most four cache marks, even if keywords brought more."""
    call = request
    messages = call.get("messages")
    if messages and type(messages[0]) is dict and type(messages[0].get("content")) is list:
        call = with_beta(call) if has_block(call) else call
    if "thinking" in call:
        call = ready_to_think(call)
        if output_max is not None:
            call = _with_room_to_think(call, output_max)
    beginning = [*objects_in(call.get("system")), *objects_in(call.get("tools"))]
    is_marked_twice = sum(MARK in block for block in beginning) > 1
    return with_marks_in_order(call) if MARK in call or is_marked_twice else call


def _with_room_to_think(request: Wire, output_max: int) -> Wire:
    """The request with a limit for thinking and answer together. Invalid if the model or the page
    leaves no room for both."""
    thinking, answer = request.get("thinking"), request.get("max_tokens")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if not _is_thinking_on(request) or type(budget) is not int or type(answer) is not int:
        return request
    least = min(answer, ANSWER_MIN)
    if budget + least > output_max:
        tokens = f"{budget:,} tokens of thinking and {least:,} of an answer"
        what = f"{tokens} do not fit in {output_max:,}"
        hint = "lower budget_tokens, or set reserve_tokens so that pages leave room for it"
        raise Invalid(what, hint=hint)
    return {**request, "max_tokens": min(budget + answer, output_max)}


def ready_to_think(request: Wire) -> Wire:
    """The request, made valid on copies if thinking is on."""
    messages = request.get("messages")
    if not _is_thinking_on(request) or not isinstance(messages, list) or not messages:
        return request
    if not all(isinstance(message, dict) for message in messages):
        return request
    page = ended_by_user(closed(with_loops_said(messages), []))
    return request if page is messages else {**request, "messages": page}


def ended_by_user(messages: list[Wire]) -> list[Wire]:
    """The messages with a user speaking last: newer models refuse to continue an answer, older ones
    if it ends with white space. An answer that paused in a tool of the provider stays last."""
    if not messages or messages[-1].get("role") != "assistant":
        return messages
    if is_waiting(messages[-1]):
        return messages
    return [*messages, {"role": "user", "content": GO_ON}]


def _is_thinking_on(request: Wire) -> bool:
    """Whether the request asks the model to think."""
    thinking = request.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") != "disabled"


def with_loops_said(messages: list[Wire]) -> list[Wire]:
    """The messages; in every tool loop, those up to the last call without thinking and its results
    become text, if thinking requires it."""
    starts = [0]
    has_results = False  # consecutive messages of the user are one turn
    for index, (message, follower) in enumerate(zip(messages, [*messages[1:], {}])):
        is_answer = message.get("role") == "assistant"
        has_results = not is_answer and (has_results or _has(message, "tool_result"))
        is_turn = not is_answer and follower.get("role", "assistant") == "assistant"
        if is_turn and not has_results:
            starts.append(index + 1)
    page: list[Wire] = []
    for first, after in pairwise(starts):
        page += _loop_as_text(messages[first:after], is_open=False)
    page += _loop_as_text(messages[starts[-1] :], is_open=True)
    return messages if all(map(is_, page, messages)) else page


def _loop_as_text(loop: list[Wire], *, is_open: bool) -> list[Wire]:
    """One loop, with the request that ended it. Thinking is bound to the loop as it was sent, so a
    closed loop is sent as it was while it was open. If no thinking follows the text, the loop is
    restored, without its thinking."""
    unthinking = []  # indices of answers that call tools without thinking first
    for index, message in enumerate(loop):
        calls = message.get("role") == "assistant" and _has(message, "tool_use")
        if calls and objects_in(message["content"])[0].get("type") not in _THINKING:
            unthinking.append(index)
    if not unthinking:
        return loop
    end = unthinking[-1] + 2
    if is_open or any(map(_thinks, loop[end:])):
        return [*map(_as_text, loop[:end]), *loop[end:]]
    restored = []
    for message in loop:
        if _thinks(message):
            blocks = objects_in(message["content"])
            rest = [block for block in blocks if block.get("type") not in _THINKING]
            restored.append({**message, "content": rest or [_text(EMPTY)]})
        else:
            restored.append(message)
    return restored


def _thinks(message: Wire) -> bool:
    return message.get("role") == "assistant" and any(_has(message, kind) for kind in _THINKING)


def _has(message: Wire, kind: str) -> bool:
    return any(block.get("type") == kind for block in objects_in(message.get("content")))


def _as_text(message: Wire) -> Wire:
    """The message with its calls and results as text, and without thinking, which would belong to
    missing calls."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    blocks: list[Wire] = []
    for block in objects_in(content):
        kind = block.get("type")
        if kind == "tool_use":
            arguments = json.dumps(block.get("input"), ensure_ascii=False)
            texts = [_text(f"[I called {block.get('name')} with {arguments}]")]
        elif kind == "tool_result":
            heading = "error" if block.get("is_error") else "result"
            texts = _result_as_text(block.get("content"), heading)
        else:
            blocks += [] if kind in _THINKING else [block]
            continue
        if MARK in block:
            texts[-1] = {**texts[-1], MARK: block[MARK]}
        blocks += texts
    return {**message, "content": blocks or [_text(EMPTY)]}


def _result_as_text(content: Any, heading: str) -> list[Wire]:
    """A result as one block of text, followed by its media."""
    if isinstance(content, str):
        return [_text(f"[{heading}]\n{content}")]
    parts = objects_in(content)
    texts = [part.get("text") or f"[{part.get('type')}]" for part in parts]
    media = [part for part in parts if part.get("type") in _MEDIA]
    return [_text("\n".join([f"[{heading}]", *texts])), *media]


def _text(text: str) -> Wire:
    return {"type": "text", "text": text}
