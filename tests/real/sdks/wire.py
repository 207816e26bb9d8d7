"""What the providers' servers send: the same two turns in each format, whole and as a stream.

The first turn thinks, says something and calls a tool twice at once; the second one ends. Streams
are made from the whole bodies, in the pieces in which the providers send them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

CALLS = (("call_1", '{"path":"a.py"}'), ("call_2", '{"path":"b.py"}'))
SAID, DONE = "Reading both.", "Both are fine."


def server_sent(events: Iterable[Json], *, named: bool = False, end: str = "") -> bytes:
    """Events as a stream of server-sent events, with an `event:` line each where the API has
    them."""
    lines = []
    for event in events:
        head = f"event: {event['type']}\n" if named else ""
        lines.append(f"{head}data: {json.dumps(event)}\n\n")
    return "".join([*lines, end]).encode()


def chat(turn: int) -> Json:
    function_calls = [
        {"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}}
        for id, arguments in CALLS
    ]
    calling = {"role": "assistant", "content": SAID, "refusal": None, "tool_calls": function_calls}
    ending = {"role": "assistant", "content": DONE, "refusal": None}
    return {
        "id": f"chatcmpl-{turn}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "gpt-5",
        "choices": [
            {
                "index": 0,
                "message": ending if turn else calling,
                "finish_reason": "stop" if turn else "tool_calls",
                "logprobs": None,
            }
        ],
        "usage": {
            "prompt_tokens": 200,
            "completion_tokens": 20,
            "total_tokens": 220,
            "prompt_tokens_details": {"cached_tokens": 40},
            "completion_tokens_details": {"reasoning_tokens": 5},
        },
    }


def chat_stream(turn: int) -> bytes:
    whole = chat(turn)
    choice, message = whole["choices"][0], whole["choices"][0]["message"]
    deltas: list[Json] = [{"role": "assistant", "content": "", "refusal": None}]
    deltas += [{"content": piece} for piece in (message["content"][:4], message["content"][4:])]
    for index, call in enumerate(message.get("tool_calls", [])):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        begun = {"id": call["id"], "type": "function", "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [{"index": index, **begun}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in (arguments[:5], arguments[5:])
        ]
    head = {key: whole[key] for key in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"
    chunks = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    chunks += [{**head, "choices": [last]}, {**head, "choices": [], "usage": whole["usage"]}]
    return server_sent(chunks, end="data: [DONE]\n\n")


def responses(turn: int) -> Json:
    text = {"type": "output_text", "text": DONE if turn else SAID, "annotations": []}
    said = {
        "type": "message",
        "id": f"msg_{turn}",
        "status": "completed",
        "role": "assistant",
        "content": [text],
    }
    thought = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Two files."}],
        "encrypted_content": "gAAAA",
    }
    function_calls = [
        {
            "type": "function_call",
            "id": f"fc_{id}",
            "call_id": id,
            "name": "read",
            "arguments": arguments,
            "status": "completed",
        }
        for id, arguments in CALLS
    ]
    return {
        "id": f"resp_{turn}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "model": "gpt-5",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "output": [said] if turn else [thought, said, *function_calls],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": 200,
            "input_tokens_details": {"cached_tokens": 40},
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 5},
            "total_tokens": 220,
        },
    }


def responses_stream(turn: int) -> bytes:
    whole = responses(turn)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events: list[Json] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(whole["output"]):
        events += _item_events(index, item)
    events.append({"type": "response.completed", "response": whole})
    numbered = [{**event, "sequence_number": number} for number, event in enumerate(events)]
    return server_sent(numbered, named=True)


def _item_events(index: int, item: Json) -> list[Json]:
    at = {"output_index": index, "item_id": item["id"]}
    empty = {"message": {"content": []}, "function_call": {"arguments": ""}}
    added = {**item, **empty.get(item["type"], {}), "status": "in_progress"}
    inside: list[Json] = []
    if item["type"] == "message":
        part, here = item["content"][0], {**at, "content_index": 0}
        inside = [
            {"type": "response.content_part.added", "part": {**part, "text": ""}, **here},
            {
                "type": "response.output_text.delta",
                "delta": part["text"],
                "logprobs": [],
                **here,
            },
            {"type": "response.output_text.done", "text": part["text"], "logprobs": [], **here},
            {"type": "response.content_part.done", "part": part, **here},
        ]
    if item["type"] == "function_call":
        kind = "response.function_call_arguments"
        arguments = item["arguments"]
        inside = [
            {"type": f"{kind}.delta", "delta": arguments, **at},
            {"type": f"{kind}.done", "arguments": arguments, "name": item["name"], **at},
        ]
    return [
        {"type": "response.output_item.added", "output_index": index, "item": added},
        *inside,
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def anthropic(turn: int) -> Json:
    calling = [
        {"type": "thinking", "thinking": "Two files.", "signature": "c2ln"},
        {"type": "text", "text": SAID},
        *(
            {"type": "tool_use", "id": id, "name": "read", "input": json.loads(arguments)}
            for id, arguments in CALLS
        ),
    ]
    return {
        "id": f"msg_{turn}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": [{"type": "text", "text": DONE}] if turn else calling,
        "stop_reason": "end_turn" if turn else "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 160,
            "cache_read_input_tokens": 40,
            "cache_creation_input_tokens": 0,
            "output_tokens": 20,
        },
    }


def anthropic_stream(turn: int) -> bytes:
    whole = anthropic(turn)
    usage = {**whole["usage"], "output_tokens": 1}
    begun = {**whole, "content": [], "stop_reason": None, "usage": usage}
    events: list[Json] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(whole["content"]):
        empty, deltas = _block_deltas(block)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    stopped = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stopped, "usage": {"output_tokens": 20}})
    events.append({"type": "message_stop"})
    return server_sent(events, named=True)


def _block_deltas(block: Json) -> tuple[Json, list[Json]]:
    """A block as it begins, and what is added to it."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}, [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case _:
            arguments = json.dumps(block["input"])
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": piece}
                for piece in (arguments[:7], arguments[7:])
            ]


def gemini(turn: int) -> Json:
    calling: list[Json] = [
        {"text": "Two files.", "thought": True},
        {"text": SAID},
        *(
            {"functionCall": {"id": id, "name": "read", "args": json.loads(arguments)}}
            for id, arguments in CALLS
        ),
    ]
    calling[2]["thoughtSignature"] = "c2lnbmF0dXJl"
    parts = [{"text": DONE}] if turn else calling
    return {
        "candidates": [
            {"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {
            "promptTokenCount": 200,
            "cachedContentTokenCount": 40,
            "candidatesTokenCount": 15,
            "thoughtsTokenCount": 5,
            "totalTokenCount": 220,
        },
        "modelVersion": "gemini-2.5-pro",
        "responseId": f"g{turn}",
    }


def gemini_stream(turn: int) -> bytes:
    whole = gemini(turn)
    parts = whole["candidates"][0]["content"]["parts"]
    chunks = []
    for part in parts:
        last = part is parts[-1]
        candidate = {"content": {"parts": [part], "role": "model"}, "index": 0}
        chunk = {
            **whole,
            "candidates": [{**candidate, **({"finishReason": "STOP"} if last else {})}],
        }
        if not last:
            del chunk["usageMetadata"]
        chunks.append(chunk)
    return server_sent(chunks)
