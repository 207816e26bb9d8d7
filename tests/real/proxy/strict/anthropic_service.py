"""The Messages API: judges a request, bills it, and sends what the script says, signed."""

from __future__ import annotations

from typing import Any

from tests.real.proxy.strict import anthropic_compaction as compaction
from tests.real.proxy.strict import anthropic_thinking as thinking
from tests.real.proxy.strict.anthropic_shape import (
    blocks_of,
    check_list,
    check_shape,
    family_of,
    marked_units,
)
from tests.real.proxy.strict.anthropic_stream import events_of
from tests.real.proxy.strict.replies import Call, Reply, streamed, whole
from tests.real.proxy.strict.script import Answer
from tests.real.proxy.strict.settings import Settings
from tests.real.proxy.strict.wire import Json, Refusal, need, objects, tokens_in, unmarked

_DEFAULT = [{"type": "text", "text": "Done."}]
_KINDS = {401: "authentication_error", 404: "not_found_error", 413: "request_too_large",
          429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}  # fmt: skip


def error_body(refusal: Refusal) -> Json:
    kind = _KINDS.get(refusal.status, refusal.kind)
    error: Json = {"type": kind, "message": refusal.message}
    if refusal.code:
        error["details"] = {"error_code": refusal.code}
    return {"type": "error", "error": error, "request_id": "req_strict"}


def overflow(tokens: int, window: int) -> Refusal:
    return Refusal(f"prompt is too long: {tokens} tokens > {window} maximum")


def count(call: Call, settings: Settings) -> Reply:
    request = call.body
    _check_key(call)
    check_shape(request, counts_only=True)
    compaction.check_blocks(request, call.headers.get("anthropic-beta", ""))
    check_list(request)
    return whole({"input_tokens": _judged(call, settings)[1]})


def create(call: Call, settings: Settings) -> Reply:
    """One message, or the block that stands for the whole conversation."""
    request = call.body
    _check_key(call)
    check_shape(request)
    compaction.check_blocks(request, call.headers.get("anthropic-beta", ""))
    wishes = request.get("compaction") is not None
    if wishes:
        has_beta = compaction.BETA in call.headers.get("anthropic-beta", "")
        need(has_beta, "compaction: Extra inputs are not permitted")
        compaction.check_wish(request)
    check_list(request, may_end_with_answer=wishes)
    judged, tokens = _judged(call, settings)
    if tokens > settings.window:
        raise overflow(tokens, settings.window)
    answer = settings.script.answer(call.queue, request, _DEFAULT, overflow)
    return _reply(call, settings, judged, answer)


def _check_key(call: Call) -> None:
    need(call.account, "x-api-key header is required", status=401)
    has_version = "anthropic-version" in call.headers
    need(has_version, "anthropic-version: header is required")


def _reader(call: Call, settings: Settings) -> thinking.Reader:
    binding = (call.body.get("thinking") or {}).get("block_binding") or {}
    wish = binding.get("prefix_mismatch_behavior")
    has_beta = thinking.BETA in call.headers.get("anthropic-beta", "")
    message = f"thinking.block_binding: requires the `{thinking.BETA}` value in `anthropic-beta`"
    need(wish is None or has_beta, message)
    known = wish in (None, "error", "drop_block")
    need(
        known,
        "thinking.block_binding.prefix_mismatch_behavior: Input should be 'error' or 'drop_block'",
    )
    drops = wish == "drop_block" or (wish is None and settings.drops_by_default)
    enforces = settings.enforces_prefix or wish is not None
    return thinking.Reader(call.body["model"], call.account, drops, enforces)


def _judged(call: Call, settings: Settings) -> tuple[thinking.Judged, int]:
    """What the model reads of a request, and how many tokens that is."""
    front, messages = compaction.begin(call.body)
    judged = thinking.judge(call.body, _reader(call, settings), front, messages)
    read = _read_request(call.body, judged)
    return judged, sum(tokens_in(unit) for unit in _units(read)) + _other_tokens(call.body)


def _read_request(request: Json, judged: thinking.Judged) -> Json:
    dropped = {one["path"] for one in judged.dropped}
    messages = [
        {
            **message,
            "content": [
                block
                for position, block in enumerate(blocks_of(message))
                if f"messages.{index}.content.{position}" not in dropped
            ],
        }
        for index, message in enumerate(request["messages"])
    ]
    return {**request, "messages": messages}


def _units(request: Json) -> list[Any]:
    return [(part, unmarked(block)) for part, block in marked_units(request)]


def _other_tokens(request: Json) -> int:
    return 3


def _usage(call: Call, settings: Settings, judged: thinking.Judged, said: list[Json]) -> Json:
    request = _read_request(call.body, judged)
    blocks = [block for _, block in marked_units(request)]
    marks = [at for at, block in enumerate(blocks) if _is_marked(block)]
    if "cache_control" in request:
        marks.append(len(blocks) - 1)
    scope = f"{family_of(request['model'])} {call.account}"
    cached = settings.cache.marked(scope, _units(request), marks)
    return {
        "input_tokens": cached.rest + _other_tokens(request),
        "cache_creation_input_tokens": cached.written,
        "cache_read_input_tokens": cached.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": cached.written,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": sum(map(tokens_in, said)),
        "service_tier": "standard",
    }


def _is_marked(block: Json) -> bool:
    inside = objects(block.get("content"))
    return "cache_control" in block or any("cache_control" in one for one in inside)


def _reply(call: Call, settings: Settings, judged: thinking.Judged, play: Answer) -> Reply:
    request, reader = call.body, _reader(call, settings)
    if request.get("compaction") is not None:
        text = play.said if isinstance(play.said, str) else "A summary of what was said."
        content = [compaction.compacted(text, reader, request, judged.front)]
        stop = "compaction"
    else:
        content = thinking.signed(play.said, reader, judged.front)
        calls = any(block["type"] == "tool_use" for block in content)
        stop = "tool_use" if calls else "end_turn"
    message = {
        "id": settings.id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": _usage(call, settings, judged, content),
    }
    if thinking.BETA in call.headers.get("anthropic-beta", ""):
        message["input_transformations"] = judged.dropped
    if request.get("stream"):
        return streamed(events_of(message), play, named=True)
    return whole(message, play)
