"""Chat Completions: shapes (A2), pairs of calls and results (P3), and its answers."""

from __future__ import annotations

import re

from tests.real.proxy.strict.replies import Call, Reply, halves, streamed, whole
from tests.real.proxy.strict.settings import Settings
from tests.real.proxy.strict.wire import Json, Refusal, is_text, need, objects, tokens_in

_DEFAULT = {"role": "assistant", "content": "Done.", "refusal": None}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_BASE64_URL = re.compile(r"data:[^,]*;base64,[A-Za-z0-9+/_-]+={0,2}")
_PARTS = {
    "system": ("text",),
    "developer": ("text",),
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
    "tool": ("text",),
    "function": (),
}
_INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
_KINDS = {401: "invalid_api_key", 429: "rate_limit_exceeded", 500: "server_error"}


def error_body(refusal: Refusal) -> Json:
    code = refusal.code or _KINDS.get(refusal.status)
    kind = "server_error" if refusal.status >= 500 else refusal.kind
    return {
        "error": {
            "message": refusal.message,
            "type": kind,
            "param": refusal.param,
            "code": code,
        }
    }


def overflow(tokens: int, window: int) -> Refusal:
    message = f"This model's maximum context length is {window} tokens. However, your messages "
    message += f"resulted in {tokens} tokens. Please reduce the length of the messages."
    return Refusal(message, code="context_length_exceeded", param="messages")


def create(call: Call, settings: Settings) -> Reply:
    request = call.body
    need(call.account, "You didn't provide an API key.", status=401)
    check(request)
    units = [*objects(request.get("tools")), *request["messages"]]
    tokens = sum(map(tokens_in, units))
    if tokens > settings.window:
        raise overflow(tokens, settings.window)
    answer = settings.script.answer(call.queue, request, _DEFAULT, overflow)
    message = {"role": "assistant", "content": None, **answer.said}
    cached = settings.cache.automatic(f"{request['model']} {call.account}", units)
    output = tokens_in(message)
    usage = {
        "prompt_tokens": tokens,
        "completion_tokens": output,
        "total_tokens": tokens + output,
        "prompt_tokens_details": {"cached_tokens": cached.read, "cache_write_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    head = {"id": settings.id("chatcmpl-"), "created": 1_700_000_000, "model": request["model"]}
    if request.get("stream"):
        shows_usage = bool((request.get("stream_options") or {}).get("include_usage"))
        chunks = _chunks(head, message, usage if shows_usage else None)
        return streamed(chunks, answer, named=False, end="data: [DONE]\n\n")
    choice = {"index": 0, "message": message, "finish_reason": _reason(message), "logprobs": None}
    body = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
    return whole(body, answer)


def _reason(message: Json) -> str:
    return "tool_calls" if message.get("tool_calls") else "stop"


def _chunks(head: Json, message: Json, usage: Json | None) -> list[Json]:
    deltas: list[Json] = [{"role": "assistant", "content": "", "refusal": None}]
    deltas += [{"content": piece} for piece in halves(message["content"] or "") if piece]
    for index, made in enumerate(message.get("tool_calls") or []):
        function = made["function"]
        begun = {**made, "index": index, "function": {**function, "arguments": ""}}
        deltas.append({"tool_calls": [begun]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in halves(function["arguments"])
        ]
    head = {**head, "object": "chat.completion.chunk"}
    chunks = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    last = {"index": 0, "delta": {}, "finish_reason": _reason(message)}
    chunks.append({**head, "choices": [last]})
    return chunks if usage is None else [*chunks, {**head, "choices": [], "usage": usage}]


# --- what is refused ---


def check(request: Json) -> None:
    need(is_text(request.get("model")), "you must provide a model parameter")
    messages = request.get("messages")
    is_list = isinstance(messages, list) and bool(messages)
    need(is_list, "Invalid 'messages': empty array. Expected an array with minimum length 1.")
    assert isinstance(messages, list)
    for index, message in enumerate(messages):
        _check_message(f"messages[{index}]", message)
    _check_pairs(messages)
    _check_functions(messages)
    if "tools" in request:
        _check_tools(request["tools"])


def _check_message(place: str, message: object) -> None:
    need(isinstance(message, dict), f"Invalid type for '{place}': expected an object.")
    assert isinstance(message, dict)
    role = message.get("role")
    known = isinstance(role, str) and role in _PARTS
    need(known, f"Invalid value: {role!r}. Supported values are: 'system', 'assistant', 'user'…")
    _check_content(place, str(role), message)
    if role == "assistant":
        _check_calls(place, message)
    else:
        message_ = f"Invalid parameter: 'tool_calls' are not allowed in {role} messages."
        need("tool_calls" not in message, message_)
    if role == "tool":
        need(is_text(message.get("tool_call_id")), f"Missing parameter '{place}.tool_call_id'.")


def _check_content(place: str, role: str, message: Json) -> None:
    content = message.get("content")
    if content is None:
        has_other = any(message.get(key) for key in _INSTEAD_OF_CONTENT)
        is_fine = role == "assistant" and has_other
        need(is_fine, f"Invalid value for 'content': expected a string, got null. ({place})")
        return
    need(isinstance(content, str | list), f"Invalid type for '{place}.content'.")
    need(content != [], f"Invalid '{place}.content': empty array.")
    if isinstance(content, list):
        for index, part in enumerate(content):
            _check_part(f"{place}.content[{index}]", role, part)


def _check_part(place: str, role: str, part: object) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    known = isinstance(kind, str) and kind in _PARTS[role]
    need(known, f"Invalid value: {kind!r}. ({place}.type)")
    assert isinstance(part, dict) and isinstance(kind, str)
    value = part.get(kind)
    if kind in ("text", "refusal"):
        need(is_text(value), f"Invalid '{place}.{kind}': expected a non-empty string.")
        return
    need(isinstance(value, dict), f"Missing required parameter: '{place}.{kind}'.")
    assert isinstance(value, dict)
    needed = {"image_url": ("url",), "input_audio": ("data", "format")}.get(kind, ())
    is_whole = all(is_text(value.get(name)) for name in needed)
    need(is_whole, f"Missing required parameter in '{place}.{kind}'.")
    if kind == "file":
        need(value.get("file_data") or value.get("file_id"), f"Missing file in '{place}'.")
    url = value.get("url", "")
    is_readable = not str(url).startswith("data:") or _BASE64_URL.fullmatch(url) is not None
    need(is_readable, f"Invalid base64 image_url. ({place})")


def _check_calls(place: str, message: Json) -> None:
    need("parsed" not in message, f"Unknown parameter: '{place}.parsed'.")
    audio = message.get("audio")
    need(
        not isinstance(audio, dict) or audio.keys() == {"id"}, f"Unknown parameter: '{place}.audio'"
    )
    if "tool_calls" not in message:
        return
    calls = message["tool_calls"]
    need(isinstance(calls, list) and calls, f"Invalid '{place}.tool_calls': empty array.")
    for index, call in enumerate(calls):
        _check_call(f"{place}.tool_calls[{index}]", call)
    ids = [call["id"] for call in calls]
    need(len(set(ids)) == len(ids), f"Duplicate value for 'tool_call_id' in {place}")


def _check_call(place: str, call: object) -> None:
    need(isinstance(call, dict), f"Invalid type for '{place}'.")
    assert isinstance(call, dict)
    need(is_text(call.get("id")), f"Missing required parameter: '{place}.id'.")
    need("index" not in call, f"Unknown parameter: '{place}.index'.")
    kind = call.get("type")
    called = call.get(kind) if kind in ("function", "custom") else None
    need(isinstance(called, dict), f"Missing required parameter: '{place}.{kind}'.")
    assert isinstance(called, dict)
    name = called.get("name")
    is_name = isinstance(name, str) and _NAME.fullmatch(name) is not None
    need(is_name, f"Invalid '{place}.function.name': string does not match pattern.")
    field = "arguments" if kind == "function" else "input"
    need(isinstance(called.get(field), str), f"Missing required parameter: '{place}.{field}'.")
    need("parsed_arguments" not in called, f"Unknown parameter: '{place}.parsed_arguments'.")


def _check_pairs(messages: list[Json]) -> None:
    """P3: every call is answered before anything else is said; nothing else is answered."""
    waiting: list[str] = []
    for message in [*messages, {"role": "end"}]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                raise _stray()
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            raise _unanswered(waiting)
        waiting = [call["id"] for call in objects(message.get("tool_calls"))]


def _stray() -> Refusal:
    return Refusal(
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
        "with 'tool_calls'.",
        param="messages",
    )


def _unanswered(ids: list[str]) -> Refusal:
    return Refusal(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
        + ", ".join(ids),
        param="messages",
    )


def _check_functions(messages: list[Json]) -> None:
    called = None
    for message in messages:
        if message["role"] == "function":
            is_answer = message.get("name") is not None and message.get("name") == called
            need(is_answer, "Invalid parameter: a 'function' message must follow its call.")
        call = message.get("function_call")
        called = call.get("name") if isinstance(call, dict) else None


def _check_tools(tools: object) -> None:
    is_list = isinstance(tools, list) and bool(tools)
    need(is_list, "Invalid 'tools': empty array. Expected an array with minimum length 1.")
    for index, tool in enumerate(tools if isinstance(tools, list) else []):
        kind = tool.get("type") if isinstance(tool, dict) else None
        defined = tool.get(kind) if kind in ("function", "custom") else None
        need(isinstance(defined, dict), f"Missing required parameter: 'tools[{index}].function'.")
        assert isinstance(defined, dict)
        name = defined.get("name")
        is_name = isinstance(name, str) and _NAME.fullmatch(name) is not None
        need(is_name, f"Invalid 'tools[{index}].function.name'.")
        is_schema = isinstance(defined.get("parameters", {}), dict)
        need(is_schema, f"Invalid schema for function {name!r}")
