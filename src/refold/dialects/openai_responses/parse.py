"""OpenAI Responses: a flat list of items, where an answer is several of them (reasoning, text,
calls).

The items of one response are one message for us, so that nothing comes between reasoning and what
follows it, and parallel calls stay together. Items may also come one by one, or as a whole list:
`{"input": […]}`. Items that we do not know are carried untouched. Neighbours:
`openai_responses_items` knows the items, `openai_responses_render` is the way out,
`openai_responses_request` makes the call, `openai_responses_check` is the provider's own view of
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from refold.core.model import Message, Role, Text, Usage
from refold.dialects.form import Found, Same
from refold.dialects.openai_responses.blocks import (
    read_call,
    read_opaque,
    read_part,
    read_reasoning,
    read_result,
)
from refold.dialects.openai_responses.items import (
    CALLS,
    CONTROLS,
    INPUT_PARTS,
    NAME,
    OPEN_CALLS,
    PROVIDERS_PAIRS,
    ROLES,
    answer_of,
    call_of,
    form_of,
    is_said,
    kind_of,
)
from refold.dialects.openai_responses.usual import own_part, usual
from refold.dialects.protocol import Reply
from refold.dialects.wire import (
    alike,
    at,
    count_in,
    opened,
    plain,
    refused,
    role_of,
    same,
    text_in,
    unmarked,
)

_ITEMS = frozenset({
    *CALLS, *CONTROLS, *PROVIDERS_PAIRS.values(), "reasoning", "compaction", "item_reference", "mcp_list_tools",
    "mcp_approval_request",
})  # fmt: skip
_PARTS = (*INPUT_PARTS, "output_text")
_EVENTS = ("response.completed", "response.incomplete", "response.failed")
_UNFINISHED = ("queued", "in_progress")


# --- which dialect ---


def speaks(message: Mapping[str, Any]) -> bool:
    """Whether the message has a shape that only this dialect has."""
    kind = message.get("type")
    if isinstance(kind, str) and kind != "message":
        return kind in _ITEMS or ("role" not in message and kind.endswith(("_call", "_output")))
    content = message.get("content")
    if isinstance(content, list):
        if any(isinstance(part, Mapping) and part.get("type") in _PARTS for part in content):
            return True
    elif kind is None:
        return _listed(message) is not None
    return kind == "message" and (
        "status" in message or message.get("role") in ("user", "system", "developer")
    )


def is_response(response: Mapping[str, Any]) -> bool:
    """Whether this is a response object, or the event that ends a stream with one."""
    if response.get("type") in _EVENTS:
        inner = response.get("response")
        return isinstance(inner, Mapping) and is_response(inner)
    return response.get("object") == "response" and isinstance(response.get("output"), list)


def _listed(wire: Mapping[str, Any]) -> list[Any] | None:
    """The items of a list under `input` or `output`: a request's own, or what
    `responses.compact` gave."""
    if "role" in wire or "type" in wire or is_response(wire):
        return None
    listed = (wire.get(key) for key in ("output", "input"))
    return next(
        (items for items in listed if isinstance(items, list) and items and _are_items(items)), None
    )


def _are_items(items: list[Any]) -> bool:
    return all(isinstance(item, Mapping) and ("role" in item or "type" in item) for item in items)


# --- parse ---


def parse(message: Any) -> list[Message]:
    """An item, a list of them, or a response, as messages; plain text takes the short way."""
    if type(message) is dict and len(message) == 2 and next(iter(message)) == "role":
        content, role = message.get("content"), message["role"]
        if type(content) is str and role in ("user", "assistant", "system"):
            return [Message(role=role, blocks=(Text(content),), dialect=NAME)]
    wire = plain(message)
    if isinstance(wire, dict) and is_response(wire):
        return [reply(message).message]
    listed = _listed(wire) if isinstance(wire, dict) else None
    equal = _equality(message)
    if listed is None:
        return [_parsed([_item(wire, equal)], equal)]
    items = [_item(item, equal) for item in listed]
    runs = [
        list(run)
        for _, run in groupby(enumerate(items), lambda pair: -1 if is_said(pair[1]) else pair[0])
    ]
    return [_parsed([item for _, item in run], equal) for run in runs]


def _equality(message: Any) -> Same:
    """How closely what is kept must be what came: an SDK's objects have their own order of keys."""
    if type(message) is not dict:
        return alike
    lists = (message.get(key) for key in ("content", "output", "input"))
    parts = [part for parts in lists if type(parts) is list for part in parts]
    return same if all(type(part) is dict for part in parts) else alike


def _item(wire: Any, equal: Same) -> dict[str, Any]:
    """An item at the door, without cache marks and without what only an SDK's classes add to it."""
    if not isinstance(wire, dict) or kind_of(wire) == "message" or not kind_of(wire):
        return _undressed(opened(wire), equal)
    if kind_of(wire) in (*_PARTS, "text"):
        raise refused("a message", wire, 'an item, such as {"role": "user", "content": [this]},')
    output = wire.get("output")
    for part in output if isinstance(output, list) else ():
        if isinstance(part, dict):
            unmarked(part)
    return _undressed(unmarked(wire), equal)


def _undressed(item: dict[str, Any], equal: Same) -> dict[str, Any]:
    if equal is alike:
        item.pop("parsed_arguments", None)
        if kind_of(item) == "reasoning" and item.get("status") is None:
            item.pop("status", None)
        for part in item["content"] if isinstance(item.get("content"), list) else ():
            if isinstance(part, dict) and part.get("type") == "output_text":
                part.pop("parsed", None)
    return item


def _parsed(items: list[dict[str, Any]], equal: Same) -> Message:
    """Items that belong together as one message."""
    if is_said(items[0]):
        return _answer(items, equal)
    found: Found = []
    role = _find_given(items[0], found)
    return _kept(role, items, found, equal)


def _answer(items: list[dict[str, Any]], equal: Same) -> Message:
    found: Found = []
    _find_answer(items, found)
    return _kept("assistant", items, found, equal)


def _kept(role: Role, items: list[dict[str, Any]], found: Found, equal: Same) -> Message:
    """The message; its form is kept only if the dialect's usual rendering is not the items
    again."""
    metadata = (
        items[0].pop("metadata")
        if len(items) == 1 and isinstance(items[0].get("metadata"), dict)
        else {}
    )
    message = Message(
        role=role, blocks=tuple([block for _, block in found]), dialect=NAME, metadata=metadata
    )
    if equal(items, usual(message)):
        return message
    return replace(message, form=form_of(items, found, lambda block: own_part(block, role), equal))


def _find_answer(items: list[dict[str, Any]], found: Found) -> None:
    # A call that the provider answered itself, in the same response, waits for nobody.
    answered = {answer_of(item) for item in items}
    for index, item in enumerate(items):
        kind = kind_of(item)
        if kind == "message":
            _find_content(item, (index,), found)
        elif kind == "reasoning":
            found.append(((index,), read_reasoning(item)))
        elif call_of(item) and call_of(item) not in answered:
            found.append(((index,), read_call(item)))
        elif kind in OPEN_CALLS and not call_of(item):
            raise refused(
                "the call_id of a call", item.get("call_id"), "the text that its output will name"
            )
        else:
            found.append(((index,), read_opaque(item)))


def _find_given(item: dict[str, Any], found: Found) -> Role:
    kind = kind_of(item)
    if kind == "message":
        role = role_of(item, ROLES)
        _find_content(item, (0,), found)
        return role
    if answer_of(item):
        found.append(((0,), read_result(item)))
        return "tool"
    found.append(((0,), read_opaque(item)))
    return "system"


def _find_content(item: dict[str, Any], path: tuple[int], found: Found) -> None:
    content, role = item.get("content"), item["role"]
    if isinstance(content, str):
        found.append(((*path, "content"), Text(content)))
    elif isinstance(content, list):
        for index, part in enumerate(content):
            found.append(((*path, "content", index), read_part(part, role)))
    else:
        raise refused(f"the content of the {role} message", content, "text or a list of parts")


# --- reply ---


def reply(response: Any) -> Reply:
    """A response taken apart, or a bare item of the assistant."""
    wire = plain(response)
    if not isinstance(wire, dict) or not is_response(wire):
        return Reply(message=parse(response)[0], usage=None)
    wire = wire.get("response", wire) if wire.get("type") in _EVENTS else wire
    if wire.get("status") in _UNFINISHED:
        raise refused(
            f"the status of response {wire.get('id')}", wire["status"], "a response that has ended"
        )
    equal = _equality(response)
    items = [_item(item, equal) for item in wire["output"]]
    return Reply(message=_answer(items, equal), usage=_usage(wire), finished=_finished(wire))


def _finished(response: dict[str, Any]) -> str:
    """Why it ended: `completed`, or what cut it off."""
    reason = at(response, ("incomplete_details", "reason"))
    return reason if isinstance(reason, str) else text_in(response, "status")


def _usage(response: dict[str, Any]) -> Usage | None:
    """What was billed. `input_tokens` already counts what came from the cache."""
    usage = response.get("usage")
    if not isinstance(usage, dict):
        return None
    read, written = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    return Usage(
        response=text_in(response, "id"),
        model=text_in(response, "model"),
        input=count_in(usage, "input_tokens"),
        output=count_in(usage, "output_tokens"),
        cache_read=count_in(read, "cached_tokens"),
        cache_write=count_in(read, "cache_write_tokens"),
        reasoning=count_in(written, "reasoning_tokens"),
    )
