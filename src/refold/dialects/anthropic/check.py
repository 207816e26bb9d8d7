"""What the Messages API would refuse, read from the provider's side and written apart from `render`
and the laws.

Each fault names its place: "messages[3].content[0]: …". Blocks of server tools are checked by type
only. Neighbour: `faults` has what the validators share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from refold.checked import quoted
from refold.dialects.wire import (
    Faults,
    faults_in,
    is_name,
    kind_in,
    matches,
    objects_in,
    pattern_faults,
    repeated,
    type_faults,
)

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
# Both orders that names of models have had: claude-3-5-haiku, claude-opus-4-8.
_VERSION = re.compile(r"claude-(?:(\d)(?:-(\d))?-[a-z]|[a-z]+-(\d+)(?:-(\d{1,2})(?!\d))?)")
# From these versions on, models refuse an answer to go on with, and take system messages.
_NO_PREFILL, _SYSTEM_INSIDE = (4, 6), (4, 8)
_MARKS_MAX = 4
_ROLES = ("user", "assistant", "system")
_SOURCES = {
    "base64": ("media_type", "data"), "url": ("url",), "file": ("file_id",),
    "text": ("media_type", "data"), "content": ("content",),
}  # fmt: skip
_ELSE = frozenset({
    "search_result", "container_upload", "server_tool_use", "mcp_tool_use", "mcp_tool_result",
    "mcp_tool_listing", "compaction", "fallback", "tool_addition", "tool_removal", "tool_reference",
    "browser_state",
})  # fmt: skip

Version = tuple[int, int] | None


def check(request: Mapping[str, Any]) -> list[str]:
    """Every fault that the provider would refuse the request for."""
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        return ["messages: not a list with at least one message"]
    faults = list(faults_in("messages", messages, _message_faults, between=""))
    if not faults:
        faults += _order_faults(request, messages)
        faults += _pair_faults(messages)
    faults += _budget_faults(request)
    faults += _system_faults(request.get("system", ""))
    faults += _tools_faults(request.get("tools", []))
    return [*faults, *_mark_faults(request)]


# --- one message ---


def _message_faults(message: Any) -> Faults:
    if not isinstance(message, dict):
        yield ": not an object"
        return
    role = message.get("role")
    if role not in _ROLES:
        yield f": unknown role {role!r}"
    elif not _only_sets(message):
        yield from _content_faults(role, message.get("content"))


def _only_sets(message: dict[str, Any]) -> bool:
    """Whether a system message says nothing, and sets something for the turns behind it."""
    is_empty = message.get("content") == []
    return message["role"] == "system" and is_empty and bool(message.get("output_config"))


def _content_faults(role: str, content: Any) -> Faults:
    said = content.strip() if isinstance(content, str) else content
    if not isinstance(content, str | list):
        yield f": content is {type(content).__name__}"
    elif not said:
        yield ": empty content"
    elif isinstance(content, list):
        yield from faults_in(".content", content, lambda block: _block_faults(role, block))


def _block_faults(role: str, block: Any) -> Faults:
    kind = kind_in(block)
    if not isinstance(kind, str):
        yield "a block without a type"
    elif kind in _BLOCKS:
        yield from _known_faults(role, kind, block)
    elif kind not in _ELSE and not kind.endswith("_tool_result"):
        yield f"unknown block type {kind!r}"


def _known_faults(role: str, kind: str, block: dict[str, Any]) -> Faults:
    """The faults of a block whose rules we know."""
    roles, faults = _BLOCKS[kind]
    if role not in roles:
        yield f"a {kind} block in a {role} message"
    yield from faults(block)


def _text_faults(block: dict[str, Any]) -> Faults:
    text = block.get("text")
    if not isinstance(text, str) or not text.strip():
        yield f"text is {quoted(text, 40)}"


def _source_faults(block: dict[str, Any]) -> Faults:
    source = block.get("source")
    kind = kind_in(source)
    needed = _SOURCES.get(kind) if isinstance(kind, str) else None
    if needed is None or not isinstance(source, dict):
        yield f"a source of type {kind!r}"
    elif not all(source.get(field) for field in needed):
        yield f"the {kind} source is incomplete"
    elif kind == "base64" and not matches(_BASE64, source["data"]):
        yield "the data is not base64"


def _thinking_faults(block: dict[str, Any]) -> Faults:
    if not isinstance(block.get("thinking"), str):
        yield "thinking is not text"
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
        yield "is_error is not a truth value"
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
    if messages[-1]["role"] == "assistant":
        place = f"messages[{len(messages) - 1}]"
        yield from (f"{place}: {fault}" for fault in _prefill_faults(messages[-1], version, is_on))
    yield from _place_faults(messages, version)
    yield from _compaction_faults(messages)
    if is_on:
        yield from _loop_faults(messages)


def version_of(model: Any) -> Version:
    """The version in a model's name; None where no model is named, or it has no such version."""
    found = _VERSION.search(model) if isinstance(model, str) else None
    return None if found is None else (int(found[1] or found[3]), int(found[2] or found[4] or 0))


def _prefill_faults(message: dict[str, Any], version: Version, is_on: bool) -> Faults:
    """The faults of an answer that the model is to go on with."""
    if is_on:
        yield "a prefill while thinking is on"
    elif version is not None and version >= _NO_PREFILL:
        yield "a prefill, which this model refuses"
    content = message["content"]
    text = content if isinstance(content, str) else content[-1].get("text", "")
    if text != text.rstrip():
        yield "a prefill that ends with white space"


def _place_faults(messages: list[dict[str, Any]], version: Version) -> Faults:
    """The faults of system messages: newer models take them directly after a user's."""
    for index, message in enumerate(messages[1:], start=1):
        if message["role"] != "system":
            continue
        if version is not None and version < _SYSTEM_INSIDE:
            yield f"messages[{index}]: a system message, which this model refuses"
        elif messages[index - 1]["role"] != "user":
            yield f"messages[{index}]: a system message that does not follow a user's"


def _compaction_faults(messages: list[dict[str, Any]]) -> Faults:
    """The faults of compactions that were asked for: at most one, as the first block."""
    found = [
        f"messages[{index}].content[{at}]"
        for index, message in enumerate(messages)
        for at, block in enumerate(objects_in(message["content"]))
        if block["type"] == "compaction" and block.get("signature") and block.get("content")
    ]
    yield from (f"{place}: a second compaction block" for place in found[1:])
    if found and found[0] != "messages[0].content[0]":
        yield f"{found[0]}: a compaction block that is not the first block"


def _loop_faults(messages: list[dict[str, Any]]) -> Faults:
    """While thinking is on, every answer of the open tool loop begins with thinking."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message["role"] == "user" and not _ids(message, "tool_result", "tool_use_id"):
            return
        if not _ids(message, "tool_use", "id"):
            continue
        kind = message["content"][0]["type"]
        if kind not in ("thinking", "redacted_thinking"):
            yield f"messages[{index}]: expected thinking, found {kind} while thinking is on"


def _pair_faults(messages: list[dict[str, Any]]) -> Faults:
    """Every call is answered in the next message, once, results first; nothing else is answered."""
    calls: list[str] = []
    known: set[str] = set()
    for index, message in enumerate(messages):
        place = f"messages[{index}]"
        yield from (f"{place}: {fault}" for fault in _answer_faults(message, calls))
        calls = _ids(message, "tool_use", "id")
        again = [*repeated(calls), *known.intersection(calls)]
        yield from (f"{place}: a second call with the id {id!r}" for id in again)
        known.update(calls)
    yield from (f"messages: the call {id!r} has no result" for id in calls)


def _answer_faults(message: dict[str, Any], calls: list[str]) -> Faults:
    """What is wrong with the results of a message that follows these calls."""
    results = _ids(message, "tool_result", "tool_use_id")
    missing = [id for id in calls if id not in results]
    stray = [id for id in results if id not in calls]
    yield from (f"the call {id!r} before it has no result here" for id in missing)
    yield from (f"a stray result for {id!r}" for id in stray)
    yield from (f"a second result for {id!r}" for id in repeated(results))
    if results and not _leads(message["content"], len(results)):
        yield "something stands before the results"


def _ids(message: dict[str, Any], kind: str, field: str) -> list[str]:
    """The ids in the blocks of that kind."""
    content = message["content"]
    if isinstance(content, str):
        return []
    return [block[field] for block in content if block["type"] == kind]


def _leads(content: list[dict[str, Any]], count: int) -> bool:
    return all(block["type"] == "tool_result" for block in content[:count])


# --- beside the messages ---


def _budget_faults(request: Mapping[str, Any]) -> Faults:
    """The thinking is part of what the answer may be long."""
    thinking, most = request.get("thinking"), request.get("max_tokens")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if isinstance(budget, int) and isinstance(most, int) and budget >= most:
        yield f"max_tokens: {most}, which is not above the thinking budget of {budget}"


def _system_faults(system: Any) -> Faults:
    if isinstance(system, str):
        return
    if isinstance(system, list) and system:
        yield from faults_in("system", system, _prompt_faults)
    else:
        yield "system: neither text nor a list of text blocks"


def _prompt_faults(block: Any) -> Faults:
    if kind_in(block) == "text":
        yield from _text_faults(block)
    else:
        yield "not a text block"


def _tools_faults(tools: Any) -> Faults:
    if isinstance(tools, list):
        yield from faults_in("tools", tools, _tool_faults)
    else:
        yield "tools: not a list"


def _tool_faults(tool: Any) -> Faults:
    if not isinstance(tool, dict):
        yield "not an object"
        return
    yield from pattern_faults(tool, "name", _TOOL_NAME)
    is_custom = tool.get("type", "custom") == "custom"
    if is_custom and not isinstance(tool.get("input_schema"), dict):
        yield "no input_schema"


def _mark_faults(request: Mapping[str, Any]) -> Faults:
    marked = [block for block in _markable(request) if "cache_control" in block]
    if len(marked) > _MARKS_MAX:
        yield f"{len(marked)} cache marks, at most {_MARKS_MAX} are allowed"
    for block in marked:
        if block.get("type") in ("thinking", "redacted_thinking"):
            yield "a cache mark on thinking"
    yield from _lifetime_faults(request)


def _lifetime_faults(request: Mapping[str, Any]) -> Faults:
    """A mark of an hour comes before those of five minutes; the tools are read first."""
    is_short = False
    contents = [message.get("content") for message in objects_in(request["messages"])]
    for entries in (request.get("tools"), request.get("system"), *contents):
        for block in objects_in(entries):
            mark = block.get("cache_control")
            if not isinstance(mark, dict):
                continue
            is_long = mark.get("ttl") == "1h"
            if is_long and is_short:
                yield "a cache mark of 1h after one of 5m"
            is_short = is_short or not is_long


def _markable(request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Everything that can carry a cache mark: the request, and blocks down to those in results."""
    yield request
    for content in _contents(request):
        for block in objects_in(content):
            yield block
            yield from objects_in(block.get("content"))


def _contents(request: Mapping[str, Any]) -> Iterator[Any]:
    """The lists of a request whose entries can carry a mark."""
    yield request.get("system")
    yield request.get("tools")
    for message in objects_in(request["messages"]):
        yield message.get("content")
