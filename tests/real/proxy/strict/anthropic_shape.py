"""What the Messages API refuses whatever was said before: shapes (A1, A2), pairs of calls and
results (P1, P2), its own tools' calls and results, cache marks (C1).

The first fault is told, as the provider does. Neighbours: `anthropic_thinking` and
`anthropic_compaction` have the rules about what this server signed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tests.real.proxy.strict.wire import Json, Refusal, is_text, need, objects

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_DATA = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_NAME = re.compile(r"claude-(?:(?P<old>\d+)(?:-(?P<minor>\d{1,2}))?-)?(?P<family>[a-z]+)")
_NEWER = re.compile(r"claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?!\d)")
_MARKS_MAX = 4
THINKING = ("thinking", "redacted_thinking")
# Which version of a family binds thinking to what stood before it.
_PRESERVED = {"fable": (5, 1), "mythos": (5, 1), "opus": (5, 5), "sonnet": (5, 5), "haiku": (5, 5)}
# Blocks of tools that the provider runs, and others that are taken as they are.
_TAKEN = (
    "search_result", "container_upload", "server_tool_use", "mcp_tool_use", "mcp_tool_listing",
    "fallback", "tool_addition", "tool_removal", "tool_reference", "browser_state", "compaction",
)  # fmt: skip


def family_of(model: str) -> str:
    found = _NAME.match(model)
    return found["family"] if found else model


def version_of(model: str) -> tuple[int, int]:
    newer, older = _NEWER.match(model), _NAME.match(model)
    if newer:
        return int(newer[1]), int(newer[2] or 0)
    return (int(older["old"]), int(older["minor"] or 0)) if older and older["old"] else (99, 0)


def preserves_thinking(model: str) -> bool:
    least = _PRESERVED.get(family_of(model))
    return least is not None and version_of(model) >= least


def check_shape(request: Json, *, counts_only: bool = False) -> None:
    """Refuses a request for what stands in it."""
    need(is_text(request.get("model")), "model: Field required")
    if not counts_only:
        most = request.get("max_tokens")
        need(type(most) is int and most >= 1, "max_tokens: Field required")
        _check_budget(request, int(most or 0))
    messages = request.get("messages")
    need(isinstance(messages, list), "messages: Field required")
    need(messages, "messages: at least one message is required")
    for index, message in enumerate(messages or []):
        _check_message(f"messages.{index}", message)
    _check_system(request.get("system", ""))
    _check_tools(request.get("tools", []))
    _check_marks(request)


def check_list(request: Json, *, may_end_with_answer: bool = False) -> None:
    """Refuses a list of messages, each of them sound, for how they follow one another."""
    messages: list[Json] = request["messages"]
    _check_order(request, messages)
    last = messages[-1]
    if not may_end_with_answer and last["role"] == "assistant" and not _is_paused(last):
        _check_prefill(request, last)
    _check_pairs(messages)
    _check_server_pairs(messages)


def _is_paused(message: Json) -> bool:
    """Whether an answer is one that `pause_turn` ended: it is continued as it is."""
    blocks = list(objects(message["content"]))
    last = str(blocks[-1].get("type")) if blocks else ""
    answered = {block.get("tool_use_id") for block in blocks}
    open_calls = [
        b for b in blocks if str(b["type"]).endswith("_tool_use") and b.get("id") not in answered
    ]
    return bool(open_calls) or last.endswith(("_tool_use", "_tool_result"))


def _check_server_pairs(messages: list[Json]) -> None:
    """A call of the provider's own tool is completed in its turn, which ends with the user's
    words; results of the caller's tools do not end it."""
    open_calls: list[object] = []
    for index, message in enumerate(messages):
        blocks = list(objects(message["content"]))
        only_results = bool(blocks) and all(b["type"] == "tool_result" for b in blocks)
        if message["role"] != "assistant" and not only_results:
            ids = ", ".join(map(str, open_calls))
            need(
                not open_calls, f"messages.{index - 1}: `server_tool_use` without its result: {ids}"
            )
        for block in blocks if message["role"] == "assistant" else ():
            kind = str(block["type"])
            if kind.endswith("_tool_use"):
                open_calls.append(block.get("id"))
            elif kind.endswith("_tool_result"):
                id = block.get("tool_use_id")
                words = (
                    f"messages.{index}: unexpected `tool_use_id` found in `{kind}` blocks: {id}."
                )
                need(id in open_calls, words)
                open_calls.remove(id)


def _check_budget(request: Json, most: int) -> None:
    budget = (request.get("thinking") or {}).get("budget_tokens")
    is_above = not isinstance(budget, int) or budget < most
    need(is_above, "`max_tokens` must be greater than `thinking.budget_tokens`.")


# --- one message ---


def _check_message(place: str, message: object) -> None:
    need(isinstance(message, dict), f"{place}: Input should be a valid dictionary")
    assert isinstance(message, dict)
    role, content = message.get("role"), message.get("content")
    known = role in ("user", "assistant", "system")
    need(known, f"{place}.role: Input should be 'user', 'assistant' or 'system'")
    is_content = isinstance(content, str | list)
    need(is_content, f"{place}.content: Input should be a valid string or list")
    if isinstance(content, str):
        need(content.strip(), f"{place}: text content must be non-empty")
    # A system message may only set something for the turns behind it, as Claude Code's do.
    sets = role == "system" and bool(message.get("output_config"))
    need(content or sets, f"{place}: all messages must have non-empty content")
    if isinstance(content, list):
        for index, block in enumerate(content):
            check_block(f"{place}.content.{index}", block, role)


def check_block(place: str, block: object, role: str) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    need(isinstance(kind, str), f"{place}.type: Field required")
    assert isinstance(block, dict) and isinstance(kind, str)
    if kind in _CHECKS:
        roles, check = _CHECKS[kind]
        need(role in roles, f"{place}: `{kind}` blocks are not permitted in {role} messages")
        check(place, block)
    else:
        is_taken = kind in _TAKEN or kind.endswith("_tool_result")
        need(is_taken, f"{place}: Input tag '{kind}' does not match any of the expected tags")


def _check_text(place: str, block: Json) -> None:
    text = block.get("text")
    need(isinstance(text, str), f"{place}.text: Field required")
    need(text, "messages: text content blocks must be non-empty")
    need(str(text).strip(), "messages: text content blocks must contain non-whitespace text")


def _check_source(place: str, block: Json) -> None:
    source = block.get("source")
    fields = {"base64": ("media_type", "data"), "url": ("url",), "file": ("file_id",),
              "text": ("media_type", "data"), "content": ("content",)}  # fmt: skip
    kind = source.get("type") if isinstance(source, dict) else None
    need(isinstance(kind, str) and kind in fields, f"{place}.source: Field required")
    assert isinstance(source, dict) and isinstance(kind, str)
    for field in fields[kind]:
        need(source.get(field), f"{place}.source.{kind}.{field}: Field required")
    is_data = kind != "base64" or _matches(_DATA, source.get("data"))
    need(is_data, f"{place}.source.base64.data: Invalid base64 data")


def _check_thinking(place: str, block: Json) -> None:
    need(isinstance(block.get("thinking"), str), f"{place}.thinking.thinking: Field required")
    need(is_text(block.get("signature")), f"{place}.thinking.signature: Field required")


def _check_redacted(place: str, block: Json) -> None:
    need(is_text(block.get("data")), f"{place}.redacted_thinking.data: Field required")


def _check_use(place: str, block: Json) -> None:
    is_id = _matches(_ID, block.get("id"))
    need(is_id, f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    need(_matches(_TOOL_NAME, block.get("name")), f"{place}.tool_use.name: String should match")
    is_object = isinstance(block.get("input"), dict)
    need(is_object, f"{place}.tool_use.input: Input should be a valid dictionary")


def _check_result(place: str, block: Json) -> None:
    need(_matches(_ID, block.get("tool_use_id")), f"{place}.tool_result.tool_use_id: should match")
    is_truth = isinstance(block.get("is_error", False), bool)
    need(is_truth, f"{place}.tool_result.is_error: Input should be a valid boolean")
    content = block.get("content", "")
    need(isinstance(content, str | list), f"{place}.tool_result.content: Input should be valid")
    if isinstance(content, list):
        for index, part in enumerate(content):
            _check_inner(f"{place}.tool_result.content.{index}", part)


def _check_inner(place: str, part: object) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    is_own = kind in ("tool_use", "tool_result", *THINKING)
    need(not is_own, f"{place}: Input tag '{kind}' does not match any of the expected tags")
    check_block(place, part, "user")


_ALL = ("user", "assistant", "system")
_CHECKS: dict[str, tuple[tuple[str, ...], Callable[[str, Json], None]]] = {
    "text": (_ALL, _check_text),
    "image": (("user",), _check_source),
    "document": (("user",), _check_source),
    "thinking": (("assistant",), _check_thinking),
    "redacted_thinking": (("assistant",), _check_redacted),
    "tool_use": (("assistant",), _check_use),
    "tool_result": (("user",), _check_result),
}


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


# --- the list ---


def _check_order(request: Json, messages: list[Json]) -> None:
    """A1: who speaks first, and where system messages may stand."""
    model = request["model"]
    is_first = messages[0]["role"] == "user" or starts_compacted(messages)
    need(is_first, 'messages: first message must use the "user" role')
    for index, message in enumerate(messages):
        if message["role"] == "system":
            place = f"messages.{index}"
            takes = version_of(model) >= (4, 8)
            need(takes, f"{place}.role: this model does not support system messages")
            follows = index > 0 and messages[index - 1]["role"] == "user"
            need(follows, f"{place}: a system message must directly follow a user message")


def _check_prefill(request: Json, last: Json) -> None:
    is_newer = version_of(request["model"]) >= (4, 6)
    is_thinking = (request.get("thinking") or {}).get("type", "disabled") != "disabled"
    message = "This model does not support assistant message prefill. "
    message += "The conversation must end with a user message."
    need(not is_newer and not is_thinking, message)
    content = last["content"]
    text = content if isinstance(content, str) else content[-1].get("text", "")
    message = "messages: final assistant content cannot end with trailing whitespace"
    need(text == text.rstrip(), message)


def starts_compacted(messages: list[Json]) -> bool:
    first = next(objects(messages[0]["content"]), {}) if messages else {}
    return first.get("type") == "compaction"


def _check_pairs(messages: list[Json]) -> None:
    """P1 and P2: every call is answered in the next message, once, and nothing else is."""
    calls: list[str] = []
    known: set[str] = set()
    for index, message in enumerate(messages):
        if calls:
            _check_answered(index, message, calls)
        _check_answers(index, message, calls)
        calls = ids_in(message, "tool_use", "id")
        is_new = len(set(calls)) == len(calls) and not known & set(calls)
        need(is_new, "messages: `tool_use` ids must be unique")
        known.update(calls)
    if calls:
        raise _unanswered(len(messages) - 1, calls)


def _check_answered(index: int, message: Json, calls: list[str]) -> None:
    answered = ids_in(message, "tool_result", "tool_use_id")
    if missing := [id for id in calls if id not in answered]:
        raise _unanswered(index - 1, missing)
    kinds = [block.get("type") for block in objects(message["content"])]
    first = kinds[: len(answered)]
    is_first = message["role"] == "user" and all(kind == "tool_result" for kind in first)
    need(is_first, f"messages.{index}: `tool_result` blocks must come first in the message")


def _unanswered(index: int, ids: list[str]) -> Refusal:
    return Refusal(
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately "
        f"after: {', '.join(ids)}. Each `tool_use` block must have a corresponding `tool_result` "
        "block in the next message."
    )


def _check_answers(index: int, message: Json, calls: list[str]) -> None:
    answered = ids_in(message, "tool_result", "tool_use_id")
    if stray := [id for id in answered if id not in calls]:
        raise Refusal(
            f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: "
            f"{', '.join(stray)}. Each `tool_result` block must have a corresponding `tool_use` "
            "block in the previous message."
        )
    message_ = f"messages.{index}: each tool_use must have a single result."
    need(len(set(answered)) == len(answered), message_)


def ids_in(message: Json, kind: str, field: str) -> list[str]:
    return [one[field] for one in objects(message["content"]) if one.get("type") == kind]


# --- beside the messages ---


def _check_system(system: object) -> None:
    if isinstance(system, str):
        return
    need(isinstance(system, list) and system, "system: Input should be a valid string or list")
    for index, block in enumerate(system if isinstance(system, list) else []):
        is_text_block = isinstance(block, dict) and block.get("type") == "text"
        need(is_text_block, f"system.{index}.type: Input should be 'text'")
        need(str(block.get("text") or "").strip(), "system: text content blocks must be non-empty")


def _check_tools(tools: object) -> None:
    need(isinstance(tools, list), "tools: Input should be a valid list")
    for index, tool in enumerate(tools if isinstance(tools, list) else []):
        need(isinstance(tool, dict), f"tools.{index}: Input should be a valid dictionary")
        need(_matches(_TOOL_NAME, tool.get("name")), f"tools.{index}.name: String should match")
        is_whole = tool.get("type", "custom") != "custom" or isinstance(
            tool.get("input_schema"), dict
        )
        need(is_whole, f"tools.{index}.custom.input_schema: Field required")
    _check_deferred(list(objects(tools)))


def _check_deferred(tools: list[Json]) -> None:
    """Deferred tools are found by a search, the provider's or the caller's own tool, which is not
    deferred itself; and they are not cached."""
    deferred = [tool for tool in tools if tool.get("defer_loading")]
    if not deferred:
        return
    need(len(deferred) < len(tools), "tools: At least one tool must be non-deferred")
    searches = [tool for tool in tools if str(tool.get("type")).startswith("tool_search_tool_")]
    need(not any(tool in deferred for tool in searches), "tools: a tool search cannot be deferred")
    are_cached = any("cache_control" in tool for tool in deferred)
    need(not are_cached, "tools: `cache_control` cannot be set on a tool with `defer_loading`")


def marked_units(request: Json) -> Iterator[tuple[str, Json]]:
    """Everything that is cached, in the order in which it is: the part it belongs to, and it."""
    yield from (("tools", tool) for tool in objects(request.get("tools")))
    system = request.get("system") or []
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    yield from (("system", block) for block in objects(system))
    for message in request["messages"]:
        yield from ((message["role"], block) for block in blocks_of(message))


def blocks_of(message: Json) -> list[Json]:
    content = message["content"]
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(objects(content))


def _check_marks(request: Json) -> None:
    """C1: at most four, none on thinking, and an hour comes before five minutes."""
    marks = [request["cache_control"]] if "cache_control" in request else []
    is_short = False
    for _, block in marked_units(request):
        for one in (block, *objects(block.get("content"))):
            if "cache_control" not in one:
                continue
            message = "messages: `cache_control` cannot be set on thinking blocks"
            need(one.get("type") not in THINKING, message)
            is_long = (one["cache_control"] or {}).get("ttl") == "1h"
            message = "a ttl='1h' cache_control block must not come after a ttl='5m' one."
            need(not (is_long and is_short), message)
            is_short = is_short or not is_long
            marks.append(one["cache_control"])
    message = f"A maximum of {_MARKS_MAX} blocks with cache_control may be provided. "
    need(len(marks) <= _MARKS_MAX, message + f"Found {len(marks)}.")
