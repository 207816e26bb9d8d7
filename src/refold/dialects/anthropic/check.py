"""What the Messages API would refuse, read from the provider's side and written apart from `render`
and the laws.

Each fault names its place: "messages[3].content[0]: …". Blocks of server tools are checked by type
only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_MARKS_MAX = 4
_ROLES = ("user", "assistant", "system")
_SOURCES = {
    "base64": ("media_type", "data"), "url": ("url",), "file": ("file_id",), "text": ("media_type", "data"),
    "content": ("content",),
}  # fmt: skip
_ELSE = frozenset({
    "search_result", "container_upload", "server_tool_use", "mcp_tool_use", "mcp_tool_result", "mcp_tool_listing",
    "compaction", "fallback", "tool_addition", "tool_removal", "tool_reference", "browser_state",
})  # fmt: skip


def check(request: Mapping[str, Any]) -> list[str]:
    """Every fault that the provider would refuse the request for."""
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        return ["messages: not a list with at least one message"]
    faults = [
        f"messages[{i}]{fault}"
        for i, message in enumerate(messages)
        for fault in _message_faults(message)
    ]
    if not faults:
        faults += _order_faults(request, messages)
        faults += _pair_faults(messages)
    faults += _system_faults(request)
    faults += _tool_faults(request)
    return [*faults, *_mark_faults(request)]


# --- one message ---


def _message_faults(message: Any) -> Iterator[str]:
    if not isinstance(message, dict):
        yield ": not an object"
        return
    role, content = message.get("role"), message.get("content")
    if role not in _ROLES:
        yield f": unknown role {role!r}"
    elif isinstance(content, str):
        if not content.strip():
            yield ": empty content"
    elif not isinstance(content, list):
        yield f": content is {type(content).__name__}"
    elif not content:
        yield ": empty content"
    else:
        for index, block in enumerate(content):
            yield from (f".content[{index}]: {fault}" for fault in _block_faults(role, block))


def _block_faults(role: str, block: Any) -> Iterator[str]:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        yield "a block without a type"
    elif kind in _BLOCKS:
        roles, faults = _BLOCKS[kind]
        if role not in roles:
            yield f"a {kind} block in a {role} message"
        yield from faults(block)
    elif kind not in _ELSE and not kind.endswith("_tool_result"):
        yield f"unknown block type {kind!r}"


def _text_faults(block: dict[str, Any]) -> Iterator[str]:
    text = block.get("text")
    if not isinstance(text, str) or not text.strip():
        yield f"text is {text!r:.40}"


def _source_faults(block: dict[str, Any]) -> Iterator[str]:
    source = block.get("source")
    kind = source.get("type") if isinstance(source, dict) else None
    if not isinstance(source, dict) or not isinstance(kind, str) or kind not in _SOURCES:
        yield f"a source of type {kind!r}"
    elif not all(source.get(field) for field in _SOURCES[kind]):
        yield f"the {kind} source is incomplete"


def _thinking_faults(block: dict[str, Any]) -> Iterator[str]:
    if not isinstance(block.get("thinking"), str):
        yield "thinking is not text"
    if not isinstance(block.get("signature"), str) or not block["signature"]:
        yield "thinking without a signature"


def _redacted_faults(block: dict[str, Any]) -> Iterator[str]:
    if not isinstance(block.get("data"), str) or not block["data"]:
        yield "redacted thinking without data"


def _use_faults(block: dict[str, Any]) -> Iterator[str]:
    if not isinstance(block.get("id"), str) or not _ID.fullmatch(block["id"]):
        yield f"id is {block.get('id')!r}"
    if not isinstance(block.get("name"), str) or not block["name"]:
        yield f"name is {block.get('name')!r}"
    if not isinstance(block.get("input"), dict):
        yield f"input is {type(block.get('input')).__name__}"


def _result_faults(block: dict[str, Any]) -> Iterator[str]:
    if not isinstance(block.get("tool_use_id"), str) or not _ID.fullmatch(block["tool_use_id"]):
        yield f"tool_use_id is {block.get('tool_use_id')!r}"
    if not isinstance(block.get("is_error", False), bool):
        yield "is_error is not a truth value"
    content = block.get("content", "")
    if isinstance(content, list):
        for index, part in enumerate(content):
            kind = part.get("type") if isinstance(part, dict) else None
            if kind in ("tool_use", "tool_result", "thinking", "redacted_thinking"):
                yield f"content[{index}]: a {kind} block inside a result"
            else:
                yield from (f"content[{index}]: {fault}" for fault in _block_faults("user", part))
    elif not isinstance(content, str):
        yield f"content is {type(content).__name__}"


_BLOCKS: dict[str, tuple[tuple[str, ...], Callable[[dict[str, Any]], Iterator[str]]]] = {
    "text": (_ROLES, _text_faults),
    "image": (("user",), _source_faults),
    "document": (("user",), _source_faults),
    "thinking": (("assistant",), _thinking_faults),
    "redacted_thinking": (("assistant",), _redacted_faults),
    "tool_use": (("assistant",), _use_faults),
    "tool_result": (("user",), _result_faults),
}


# --- the list ---


def _order_faults(request: Mapping[str, Any], messages: list[dict[str, Any]]) -> Iterator[str]:
    if messages[0]["role"] != "user":
        yield f"messages[0]: the first message is {messages[0]['role']}, not user"
    thinking = request.get("thinking")
    if (
        messages[-1]["role"] == "assistant"
        and isinstance(thinking, dict)
        and thinking.get("type") != "disabled"
    ):
        yield f"messages[{len(messages) - 1}]: a prefill while thinking is on"


def _pair_faults(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Every call is answered in the next message, once, results first; nothing else is answered."""
    calls: list[str] = []
    known: set[str] = set()
    for index, message in enumerate(messages):
        place = f"messages[{index}]"
        results = _ids(message, "tool_result", "tool_use_id")
        yield from (
            f"{place}: the call {id!r} before it has no result here"
            for id in calls
            if id not in results
        )
        yield from (f"{place}: a stray result for {id!r}" for id in results if id not in calls)
        yield from (f"{place}: a second result for {id!r}" for id in _repeated(results))
        if results and not _leads(message["content"], len(results)):
            yield f"{place}: something stands before the results"
        calls = _ids(message, "tool_use", "id")
        again = [*_repeated(calls), *known.intersection(calls)]
        yield from (f"{place}: a second call with the id {id!r}" for id in again)
        known.update(calls)
    yield from (f"messages: the call {id!r} has no result" for id in calls)


def _ids(message: dict[str, Any], kind: str, field: str) -> list[str]:
    content = message["content"]
    return (
        []
        if isinstance(content, str)
        else [block[field] for block in content if block["type"] == kind]
    )


def _repeated(ids: list[str]) -> list[str]:
    return [id for index, id in enumerate(ids) if id in ids[:index]]


def _leads(content: list[dict[str, Any]], count: int) -> bool:
    return all(block["type"] == "tool_result" for block in content[:count])


# --- beside the messages ---


def _system_faults(request: Mapping[str, Any]) -> Iterator[str]:
    system = request.get("system", "")
    if isinstance(system, str):
        return
    if not isinstance(system, list) or not system:
        yield "system: neither text nor a list of text blocks"
        return
    for index, block in enumerate(system):
        if not isinstance(block, dict) or block.get("type") != "text":
            yield f"system[{index}]: not a text block"
        else:
            yield from (f"system[{index}]: {fault}" for fault in _text_faults(block))


def _tool_faults(request: Mapping[str, Any]) -> Iterator[str]:
    tools = request.get("tools", [])
    if not isinstance(tools, list):
        yield "tools: not a list"
        return
    for index, tool in enumerate(tools):
        if not isinstance(tool, dict):
            yield f"tools[{index}]: not an object"
            continue
        if not isinstance(tool.get("name"), str) or not _TOOL_NAME.fullmatch(tool["name"]):
            yield f"tools[{index}]: name is {tool.get('name')!r}"
        if tool.get("type", "custom") == "custom" and not isinstance(
            tool.get("input_schema"), dict
        ):
            yield f"tools[{index}]: no input_schema"


def _mark_faults(request: Mapping[str, Any]) -> Iterator[str]:
    marked = [block for block in _markable(request) if "cache_control" in block]
    if len(marked) > _MARKS_MAX:
        yield f"{len(marked)} cache marks, at most {_MARKS_MAX} are allowed"
    for block in marked:
        if block.get("type") in ("thinking", "redacted_thinking"):
            yield "a cache mark on thinking"


def _markable(request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield request
    contents = [request.get("system"), request.get("tools")]
    contents += [
        message.get("content") for message in request["messages"] if isinstance(message, dict)
    ]
    for content in contents:
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict):
                yield block
                inner = block.get("content")
                yield from (
                    (part for part in inner if isinstance(part, dict))
                    if isinstance(inner, list)
                    else ()
                )
