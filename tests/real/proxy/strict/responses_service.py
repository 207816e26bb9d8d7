"""The Responses API: keeps what it issued, judges items, and sends what the script says, sealed."""

from __future__ import annotations

import itertools
from typing import Any

from tests.real.proxy.strict import responses_items as rules
from tests.real.proxy.strict.replies import Call, Reply, halves, streamed, whole
from tests.real.proxy.strict.seals import seal
from tests.real.proxy.strict.settings import Settings
from tests.real.proxy.strict.wire import Json, Refusal, is_text, need, objects, tokens_in

_DEFAULT = [
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
    }
]
_PREFIXES = {"message": "msg_", "reasoning": "rs_", "function_call": "fc_", "compaction": "cmp_"}


def overflow(tokens: int, window: int) -> Refusal:
    message = "Your input exceeds the context window of this model. Please adjust your input and "
    return Refusal(message + "try again.", code="context_length_exceeded", param="input")


def count(call: Call, settings: Settings) -> Reply:
    items = _judged(call, settings)
    tokens = sum(map(tokens_in, _units(call.body, items)))
    return whole({"object": "response.input_tokens", "input_tokens": tokens})


def compact(call: Call, settings: Settings) -> Reply:
    """The user's messages, and one item that stands for everything else."""
    items = _judged(call, settings)
    users = [item for item in items if item.get("role") == "user"]
    made = _issued([{"type": "compaction"}], call, settings)
    body = {"object": "response.compaction", "output": [*users, *made]}
    body["usage"] = {"input_tokens": sum(map(tokens_in, items)), "output_tokens": 1}
    return whole(body)


def create(call: Call, settings: Settings) -> Reply:
    request = call.body
    items = _judged(call, settings)
    units = _units(request, items)
    tokens = sum(map(tokens_in, units))
    if tokens > settings.window:
        raise overflow(tokens, settings.window)
    answer = settings.script.answer(call.queue, request, _DEFAULT, overflow)
    output = _issued(answer.said, call, settings)
    scope = f"{request['model']} {call.account}"
    cached = settings.cache.automatic(scope, units)
    said = sum(map(tokens_in, output))
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": cached.read},
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + said,
    }
    body = _body(settings.id("resp_"), request, output, usage)
    if request.get("store", True):
        settings.chains[body["id"]] = [*items, *output]
        settings.stored.update((item["id"], item) for item in output)
    if request.get("stream"):
        return streamed(_events(body), answer, named=True)
    return whole(body, answer)


def _units(request: Json, items: list[Json]) -> list[Any]:
    instructions = request.get("instructions") or ""
    return [instructions, *objects(request.get("tools")), *items]


def _judged(call: Call, settings: Settings) -> list[Json]:
    """The whole input, references resolved. Refusal for what the API does not take."""
    request = call.body
    need(call.account, "You didn't provide an API key.", status=401)
    need(is_text(request.get("model")), "Missing required parameter: 'model'.")
    need(isinstance(request.get("instructions") or "", str), "Invalid type for 'instructions'.")
    given = request.get("input")
    need(isinstance(given, str | list) and given, "Missing required parameter: 'input'.")
    if isinstance(given, str):
        given = [{"type": "message", "role": "user", "content": given}]
    _check_tools(request)
    for index, item in enumerate(given or []):
        rules.check_item(f"input[{index}]", item)
    items = [*_chain(request, settings), *(_resolved(item, settings) for item in given or [])]
    rules.check_ids(items)
    rules.check_seals(items, call.account, set(settings.stored))
    rules.check_pairs(items)
    rules.check_answers(items)
    rules.check_reasoning(items, settings.led_by)
    return items


def _check_tools(request: Json) -> None:
    if "tools" not in request:
        return
    tools = request["tools"]
    need(isinstance(tools, list) and tools, "Invalid 'tools': empty array.")
    for index, tool in enumerate(tools):
        kind = tool.get("type") if isinstance(tool, dict) else None
        need(is_text(kind), f"Missing required parameter: 'tools[{index}].type'.")
        if kind in ("function", "custom"):
            need(is_text(tool.get("name")), f"Missing required parameter: 'tools[{index}].name'.")
    deferred = any(tool.get("defer_loading") for tool in tools)
    searches = any(tool["type"] == "tool_search" for tool in tools)
    need(searches or not deferred, "Deferred tools need a tool of the type 'tool_search'.")


def _chain(request: Json, settings: Settings) -> list[Json]:
    """P7: what a stored response goes on from."""
    id = request.get("previous_response_id")
    if id is None:
        return []
    message = f"Previous response with id '{id}' not found."
    need(id in settings.chains, message, code="previous_response_not_found")
    return settings.chains[id]


def _resolved(item: Json, settings: Settings) -> Json:
    if rules.kind_of(item) != "item_reference":
        return item
    need(item["id"] in settings.stored, f"Item with id '{item['id']}' not found.", status=404)
    return settings.stored[item["id"]]


def _issued(said: list[Json], call: Call, settings: Settings) -> list[Json]:
    """The items with ids and seals; which reasoning led to which is remembered."""
    output, reasoning = [], ""
    for item in said:
        kind = rules.kind_of(item)
        made = {**item, "type": kind, "id": settings.id(_PREFIXES.get(kind, "it_"))}
        if kind in ("reasoning", "compaction"):
            note = {"id": made["id"], "account": call.account}
            made |= {"encrypted_content": seal(note)}
        if kind == "reasoning":
            made.setdefault("summary", [])
            reasoning = made["id"]
        else:
            made.setdefault("status", "completed")
            settings.led_by[made["id"]] = reasoning
        output.append(made)
    return output


def _body(id: str, request: Json, output: list[Json], usage: Json) -> Json:
    return {
        "id": id,
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "model": request["model"],
        "error": None,
        "incomplete_details": None,
        "instructions": request.get("instructions"),
        "metadata": {},
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": request.get("tools", []),
        "top_p": 1.0,
        "store": request.get("store", True),
        "usage": usage,
    }


def _events(body: Json) -> list[Json]:
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    events: list[Json] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(body["output"]):
        events += _item_events(index, item)
    events.append({"type": "response.completed", "response": body})
    numbers = itertools.count()
    return [{**event, "sequence_number": next(numbers)} for event in events]


def _item_events(index: int, item: Json) -> list[Json]:
    at = {"output_index": index, "item_id": item["id"]}
    added = {key: value for key, value in item.items() if key != "encrypted_content"}
    inside: list[Json] = []
    if item["type"] == "message":
        part = item["content"][0]
        added, here = {**added, "content": []}, {**at, "content_index": 0}
        begun = {**part, "text": ""}
        inside = [
            {"type": "response.content_part.added", "part": begun, **here},
            *(
                {"type": "response.output_text.delta", "delta": piece, "logprobs": [], **here}
                for piece in halves(part["text"])
            ),
            {"type": "response.output_text.done", "text": part["text"], "logprobs": [], **here},
            {"type": "response.content_part.done", "part": part, **here},
        ]
    if item["type"] == "function_call":
        added = {**added, "arguments": ""}
        kind, text = "response.function_call_arguments", item["arguments"]
        inside = [{"type": f"{kind}.delta", "delta": piece, **at} for piece in halves(text)]
        inside.append({"type": f"{kind}.done", "arguments": text, "name": item["name"], **at})
    return [
        {"type": "response.output_item.added", "output_index": index, "item": added},
        *inside,
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]
