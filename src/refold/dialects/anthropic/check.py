"""Faults that make the Messages API reject a request, according to the provider's documentation.

The rules do not depend on `render` or the laws; they serve to test both. Each fault names its
position: "messages[3].content[0]: …". Blocks of server tools are checked by type only. Neighbour:
`faults` has the checks that all validators share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from refold.checked import quoted
from refold.dialects.faults import (
    Faults,
    faults_in,
    is_name,
    is_object_schema,
    kind_in,
    matches,
    option_faults,
    pattern_faults,
    repeated,
    type_faults,
)
from refold.dialects.wire import is_taken, objects_in

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
# Model names come in both orders: claude-3-5-haiku, claude-opus-4-8.
_VERSION = re.compile(r"claude-(?:(\d)(?:-(\d))?-[a-z]|[a-z]+-(\d+)(?:-(\d{1,2})(?!\d))?)")
# The first version that rejects a prefill, and the first that accepts system messages.
_NO_PREFILL, _SYSTEM_MESSAGES = (4, 6), (4, 8)
_MARKS_MAX = 4
_ROLES = ("user", "assistant", "system")
_SOURCES = {
    "base64": ("media_type", "data"), "url": ("url",), "file": ("file_id",),
    "text": ("media_type", "data"), "content": ("content",),
}  # fmt: skip
_OTHER_BLOCKS = frozenset({
    "search_result", "container_upload", "server_tool_use", "mcp_tool_use", "mcp_tool_result",
    "mcp_tool_listing", "compaction", "fallback", "tool_addition", "tool_removal", "tool_reference",
    "browser_state",
})  # fmt: skip
# Suffixes of the types of server tool calls and of their results.
_SERVER_USE, _SERVER_RESULT = "_tool_use", "_tool_result"

Version = tuple[int, int] | None


def check(request: Mapping[str, Any]) -> list[str]:
    """All faults that would make the provider reject the request."""
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        return ["messages: not a list with at least one message"]
    faults = list(faults_in("messages", messages, _message_faults, between=""))
    if not faults:
        faults += _order_faults(request, messages)
        faults += _pair_faults(messages)
        faults += _server_faults(messages)
    return [*faults, *_top_level_faults(request), *_mark_faults(request)]


# --- one message ---


def _message_faults(message: Any) -> Faults:
    if not isinstance(message, dict):
        yield ": not an object"
        return
    role, content = message.get("role"), message.get("content")
    if role not in _ROLES:
        yield f": unknown role {role!r}"
    elif role == "system" and content == [] and message.get("output_config"):
        return  # it only configures the following turns
    elif not isinstance(content, str | list):
        yield f": content is {type(content).__name__}"
    elif not content or (isinstance(content, str) and not content.strip()):
        yield ": empty content"
    elif isinstance(content, list):
        yield from faults_in(".content", content, lambda block: _block_faults(role, block))


def _block_faults(role: str, block: Any) -> Faults:
    kind = kind_in(block)
    if not isinstance(kind, str):
        yield "a block without a type"
    elif kind in _BLOCKS:
        roles, faults = _BLOCKS[kind]
        if role not in roles:
            yield f"a {kind} block in a {role} message"
        yield from faults(block)
    elif kind not in _OTHER_BLOCKS and not kind.endswith("_tool_result"):
        yield f"unknown block type {kind!r}"


def _text_faults(block: dict[str, Any]) -> Faults:
    text = block.get("text")
    if not isinstance(text, str) or not text.strip():
        yield f"text is {quoted(text, 40)}"


def _source_faults(block: dict[str, Any]) -> Faults:
    source = block.get("source")
    kind = kind_in(source)
    needed = _SOURCES.get(kind) if isinstance(kind, str) else None
    if needed is None or not isinstance(source, dict):
        yield f"unknown source type {kind!r}"
    elif not all(source.get(field) for field in needed):
        yield f"the {kind} source is incomplete"
    elif kind == "base64" and not matches(_BASE64, source["data"]):
        yield "the data is not base64"
    elif kind == "base64" and not is_taken("anthropic", kind_in(block), source["media_type"]):
        yield f"unsupported {kind_in(block)} type {quoted(source['media_type'], 40)}"


def _thinking_faults(block: dict[str, Any]) -> Faults:
    if not isinstance(block.get("thinking"), str):
        yield "thinking is not a string"
    if not is_name(block.get("signature")):
        yield "thinking without a signature"


def _redacted_faults(block: dict[str, Any]) -> Faults:
    if not is_name(block.get("data")):
        yield "redacted thinking without data"


def _use_faults(block: dict[str, Any]) -> Faults:
    yield from pattern_faults(block, "id", _ID)
    yield from pattern_faults(block, "name", _TOOL_NAME)
    yield from type_faults(block, "input", dict)


def _result_faults(block: dict[str, Any]) -> Faults:
    yield from pattern_faults(block, "tool_use_id", _ID)
    if not isinstance(block.get("is_error", False), bool):
        yield "is_error is not a boolean"
    content = block.get("content", "")
    if isinstance(content, list):
        yield from faults_in("content", content, _inner_faults)
    elif not isinstance(content, str):
        yield f"content is {type(content).__name__}"


def _inner_faults(part: Any) -> Faults:
    """The faults of a block inside a result."""
    kind = kind_in(part)
    if kind in ("tool_use", "tool_result", "thinking", "redacted_thinking"):
        yield f"a {kind} block inside a result"
    else:
        yield from _block_faults("user", part)


_BLOCKS: dict[str, tuple[tuple[str, ...], Callable[[dict[str, Any]], Faults]]] = {
    "text": (_ROLES, _text_faults),
    "image": (("user",), _source_faults),
    "document": (("user",), _source_faults),
    "thinking": (("assistant",), _thinking_faults),
    "redacted_thinking": (("assistant",), _redacted_faults),
    "tool_use": (("assistant",), _use_faults),
    "tool_result": (("user",), _result_faults),
}


# --- the list ---


def _order_faults(request: Mapping[str, Any], messages: list[dict[str, Any]]) -> Faults:
    first = messages[0]["role"]
    content = messages[0]["content"]
    is_compacted = isinstance(content, list) and content[0]["type"] == "compaction"
    thinking = request.get("thinking")
    is_on = isinstance(thinking, dict) and thinking.get("type") != "disabled"
    if first != "user" and not is_compacted:
        yield f"messages[0]: the first message is {first}, not user"
    version = version_of(request.get("model"))
    if messages[-1]["role"] == "assistant" and not _is_paused(messages[-1]["content"]):
        prefill = messages[-1]["content"]
        position = f"messages[{len(messages) - 1}]"
        if is_on:
            yield f"{position}: a prefill while thinking is on"
        elif version is not None and version >= _NO_PREFILL:
            yield f"{position}: a prefill, which this model refuses"
        text = prefill if isinstance(prefill, str) else prefill[-1].get("text", "")
        if text != text.rstrip():
            yield f"{position}: a prefill that ends with white space"
    for index, message in enumerate(messages[1:], start=1):
        if message["role"] != "system":
            continue
        if version is not None and version < _SYSTEM_MESSAGES:
            yield f"messages[{index}]: a system message, which this model refuses"
        elif messages[index - 1]["role"] != "user":
            yield f"messages[{index}]: a system message that does not follow a user's"
    yield from _compaction_faults(messages)
    if is_on:
        yield from _loop_faults(messages)


def version_of(model: Any) -> Version:
    """The version in a model's name; None if no model is named, or its name has no version."""
    match = _VERSION.search(model) if isinstance(model, str) else None
    return None if match is None else (int(match[1] or match[3]), int(match[2] or match[4] or 0))


def _compaction_faults(messages: list[dict[str, Any]]) -> Faults:
    """Requires at most one requested compaction, which must be the first block."""
    positions = [
        f"messages[{index}].content[{at}]"
        for index, message in enumerate(messages)
        for at, block in enumerate(objects_in(message["content"]))
        if block["type"] == "compaction" and block.get("signature") and block.get("content")
    ]
    yield from (f"{position}: a second compaction block" for position in positions[1:])
    if positions and positions[0] != "messages[0].content[0]":
        yield f"{positions[0]}: a compaction block that is not the first block"


def _loop_faults(messages: list[dict[str, Any]]) -> Faults:
    """Requires every answer in the open tool loop to begin with thinking. Consecutive user
    messages are one turn, so text after a result leaves the loop open."""
    start = before = 0
    has_results = False
    for index, message in enumerate(messages):
        if message["role"] == "assistant":
            before, has_results = start, False
        else:
            has_results = has_results or bool(_ids(message, "tool_result", "tool_use_id"))
            start = before if has_results else index + 1
    for index, message in enumerate(messages[start:], start=start):
        if message["role"] != "assistant" or not _ids(message, "tool_use", "id"):
            continue
        kind = message["content"][0]["type"]
        if kind not in ("thinking", "redacted_thinking"):
            yield f"messages[{index}]: expected thinking, found {kind} while thinking is on"


def _pair_faults(messages: list[dict[str, Any]]) -> Faults:
    """Requires exactly one result per call, in the next message, before any other block."""
    calls: list[str] = []
    earlier: set[str] = set()
    for index, message in enumerate(messages):
        position = f"messages[{index}]"
        yield from (f"{position}: {fault}" for fault in _answer_faults(message, calls))
        calls = _ids(message, "tool_use", "id")
        repeats = [*repeated(calls), *earlier.intersection(calls)]
        yield from (f"{position}: a second call with the id {id!r}" for id in repeats)
        earlier.update(calls)
    yield from (f"messages: the call {id!r} has no result" for id in calls)


def _answer_faults(message: dict[str, Any], calls: list[str]) -> Faults:
    """The faults in the results of a message that follows these calls."""
    results = _ids(message, "tool_result", "tool_use_id")
    missing = [id for id in calls if id not in results]
    stray = [id for id in results if id not in calls]
    yield from (f"the call {id!r} before it has no result here" for id in missing)
    yield from (f"a stray result for {id!r}" for id in stray)
    yield from (f"a second result for {id!r}" for id in repeated(results))
    if results:
        beginning = message["content"][: len(results)]
        if any(block["type"] != "tool_result" for block in beginning):
            yield "the results are not first"


def _is_paused(content: Any) -> bool:
    """Whether an answer ends in a server tool call, so that it continues when it is sent back."""
    if not isinstance(content, list):
        return False
    uses = [block.get("id") for block in content if block["type"].endswith(_SERVER_USE)]
    results = [
        block.get("tool_use_id") for block in content if block["type"].endswith(_SERVER_RESULT)
    ]
    return content[-1]["type"].endswith((_SERVER_USE, _SERVER_RESULT)) or not set(uses) <= {
        *results
    }


def _server_faults(messages: list[dict[str, Any]]) -> Faults:
    """Requires every server tool call to have its result before the user's next text, and every
    such result to follow its call. Results of the caller's own tools leave the turn open."""
    waiting: list[str] = []
    for index, message in enumerate(messages):
        content, position = message["content"], f"messages[{index}]"
        if message["role"] != "assistant":
            if isinstance(content, str) or any(kind_in(one) != "tool_result" for one in content):
                yield from (
                    f"{position}: the call {id!r} before it has no result" for id in waiting
                )
                waiting = []
            continue
        for block in objects_in(content):
            if block["type"].endswith(_SERVER_USE):
                waiting.append(block.get("id", ""))
            elif block["type"].endswith(_SERVER_RESULT):
                id = block.get("tool_use_id", "")
                if id in waiting:
                    waiting.remove(id)
                else:
                    yield f"{position}: a {block['type']} for {id!r} without its call"


def _ids(message: dict[str, Any], kind: str, field: str) -> list[str]:
    """The ids in the blocks of that kind."""
    content = message["content"]
    if isinstance(content, str):
        return []
    return [block[field] for block in content if block["type"] == kind]


# --- outside the messages ---


def _top_level_faults(request: Mapping[str, Any]) -> Faults:
    """The faults of the system prompt, the tools and the options."""
    system, tools = request.get("system", ""), request.get("tools", [])
    if isinstance(system, list) and system:
        yield from faults_in("system", system, _prompt_faults)
    elif not isinstance(system, str):
        yield "system: neither text nor a list of text blocks"
    if isinstance(tools, list):
        yield from faults_in("tools", tools, _tool_faults)
    else:
        yield "tools: not a list"
    names = [tool.get("name") for tool in objects_in(tools)]
    yield from option_faults("anthropic", request, names)


def _prompt_faults(block: Any) -> Faults:
    if kind_in(block) == "text":
        yield from _text_faults(block)
    else:
        yield "not a text block"


def _tool_faults(tool: Any) -> Faults:
    if not isinstance(tool, dict):
        yield "not an object"
        return
    yield from pattern_faults(tool, "name", _TOOL_NAME)
    is_custom = tool.get("type", "custom") == "custom"
    if is_custom and not is_object_schema(tool.get("input_schema")):
        yield "input_schema is not the schema of an object"


def _mark_faults(request: Mapping[str, Any]) -> Faults:
    marked = [block for block in _markable(request) if "cache_control" in block]
    if len(marked) > _MARKS_MAX:
        yield f"{len(marked)} cache marks; at most {_MARKS_MAX} are allowed"
    for block in marked:
        if block.get("type") in ("thinking", "redacted_thinking"):
            yield "a cache mark on thinking"
    # One-hour marks must come before five-minute marks, in the order tools, system, messages.
    is_short = False
    contents = [message.get("content") for message in objects_in(request["messages"])]
    for entries in (request.get("tools"), request.get("system"), *contents):
        for block in objects_in(entries):
            mark = block.get("cache_control")
            if not isinstance(mark, dict):
                continue
            is_long = mark.get("ttl") == "1h"
            if is_long and is_short:
                yield "a 1h cache mark after a 5m one"
            is_short = is_short or not is_long


def _markable(request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every object that can carry a cache mark: the request, its tools, and its blocks, including
    blocks inside results."""
    yield request
    contents = [message.get("content") for message in objects_in(request["messages"])]
    for entries in (request.get("system"), request.get("tools"), *contents):
        for block in objects_in(entries):
            yield block
            yield from objects_in(block.get("content"))
