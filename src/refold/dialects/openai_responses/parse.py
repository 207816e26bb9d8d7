"""OpenAI Responses, the way in: items, lists of them, and responses as messages.

Neighbours: `items` knows which items call and which answer, `blocks` reads one item, `render` is
the way out.

OpenAI Responses, the way in: items and parts as blocks.

What is not known is carried as it is. Neighbours: `parse` puts the blocks of an answer together,
`items` knows which items call and which answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from refold.core.model import (
    Block,
    Media,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from refold.dialects.form import Placed, content_blocks, formless, placed_content, take_metadata
from refold.dialects.input import (
    checked_message,
    count_in,
    plain,
    refused,
    remove_marks,
    role_of,
    text_in,
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
    own_part,
    usual,
)
from refold.dialects.protocol import Reply
from refold.dialects.wire import (
    KNOWN_PARTS,
    Same,
    alike,
    all_objects,
    at,
    is_text_part,
    media_of_url,
    objects_in,
    same,
)

_ITEMS = frozenset({
    *CALLS, *CONTROLS, *PROVIDERS_PAIRS.values(), "reasoning", "compaction", "item_reference",
    "mcp_list_tools", "mcp_approval_request",
})  # fmt: skip
_PARTS = (*INPUT_PARTS, "output_text")
_EVENTS = ("response.completed", "response.incomplete", "response.failed")
_UNFINISHED = ("queued", "in_progress")

Item = dict[str, Any]


# --- which dialect ---


def speaks(message: Mapping[str, Any]) -> bool:
    """Whether the message has a shape that only this dialect has."""
    kind, content = message.get("type"), message.get("content")
    if isinstance(kind, str) and kind != "message":
        return kind in _ITEMS or ("role" not in message and kind.endswith(("_call", "_output")))
    if isinstance(content, list):
        if any(map(_is_ours, content)):
            return True
    elif kind is None:
        return _listed(message) is not None
    return kind == "message" and _is_typed(message)


def _is_ours(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") in _PARTS


def _is_typed(message: Mapping[str, Any]) -> bool:
    """Whether only this provider would give such a message a type."""
    if "status" in message or isinstance(message.get("content"), str):
        return True
    return message.get("role") in ("user", "system", "developer")


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
    for key in ("output", "input"):
        items = wire.get(key)
        if isinstance(items, list) and items and all(map(_is_item, items)):
            return items
    return None


def _is_item(value: Any) -> bool:
    return isinstance(value, Mapping) and ("role" in value or "type" in value)


# --- parse ---


def parse(message: Any) -> list[Message]:
    """An item, a list of them, or a response, as messages."""
    wire = plain(message)
    if isinstance(wire, dict) and is_response(wire):
        return [reply(message).message]
    listed = _listed(wire) if isinstance(wire, dict) else None
    equal = _equality(message)
    if listed is None:
        return [_parse_items([_item(wire, equal)], equal)]
    items = [_item(item, equal) for item in listed]
    return [_parse_items(run, equal) for run in _runs(items)]


def _runs(items: list[Item]) -> list[list[Item]]:
    """The items in runs, one for each message: what the model says in a row, and any other item
    alone."""
    runs: list[list[Item]] = []
    for item in items:
        if runs and is_said(item) and is_said(runs[-1][-1]):
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs


def _equality(message: Any) -> Same:
    """How closely what is kept must be what came: an SDK's objects have their own order of keys."""
    if type(message) is not dict:
        return alike
    for key in ("content", "output", "input"):
        parts = message.get(key)
        if type(parts) is list and not all_objects(parts):
            return alike
    return same


def _item(wire: Any, equal: Same) -> Item:
    """A plain item, checked, without cache marks and without what only an SDK's classes add."""
    kind = kind_of(wire) if isinstance(wire, dict) else ""
    if isinstance(wire, dict) and not isinstance(wire.get("type"), str | None):
        raise refused("the type of an item", wire["type"], "a text such as message")
    if kind in ("", "message"):
        item = checked_message(wire)
    elif kind in KNOWN_PARTS:
        raise refused("a message", wire, 'an item, such as {"role": "user", "content": [this]},')
    else:
        item = _without_marks(wire)
    return _without_extras(item) if equal is alike else item


def _without_marks(item: Item) -> Item:
    for part in objects_in(item.get("output")):
        remove_marks(part)
    return remove_marks(item)


def _without_extras(item: Item) -> Item:
    """An item without the fields that only an SDK's classes have."""
    item.pop("parsed_arguments", None)
    if kind_of(item) == "reasoning" and item.get("status") is None:
        item.pop("status", None)
    for part in objects_in(item.get("content")):
        if part.get("type") == "output_text":
            part.pop("parsed", None)
    return item


# --- messages ---


def _parse_items(items: list[Item], equal: Same) -> Message:
    """Items that belong together as one message."""
    if is_said(items[0]):
        return _parse_answer(items, equal)
    role, placed = _placed_given(items[0])
    return _message(role, items, placed, equal)


def _parse_answer(items: list[Item], equal: Same) -> Message:
    return _message("assistant", items, _placed_answer(items), equal)


def _message(role: Role, items: list[Item], placed: Placed, equal: Same) -> Message:
    """The message; its form is kept only if the dialect's usual rendering is not the items
    again."""
    metadata = {key: value for item in items for key, value in take_metadata(item).items()}
    message = formless(role, placed, NAME, metadata)
    if equal(items, usual(message)):
        return message
    return replace(message, form=form_of(items, placed, partial(own_part, role=role), equal))


def _placed_answer(items: list[Item]) -> Placed:
    # A call that the provider answered itself, in the same response, waits for nobody.
    paired = _paired(items)
    placed: Placed = []
    for index, item in enumerate(items):
        if kind_of(item) == "message":
            placed += _placed_content(item, index)
        else:
            placed.append(((index,), _said_block(item, is_paired=index in paired)))
    return placed


def _paired(items: list[Item]) -> set[int]:
    """Where the calls stand that the same response answers, and their outputs."""
    if len(items) == 1:
        return set()
    waiting: dict[tuple[str, str], int] = {}
    paired: set[int] = set()
    for index, item in enumerate(items):
        if call_of(item):
            waiting[f"{kind_of(item)}_output", call_of(item)] = index
        call = waiting.pop((kind_of(item), answer_of(item)), None)
        if call is not None:
            paired |= {call, index}
    return paired


def _said_block(item: Item, *, is_paired: bool) -> Block:
    """An item of an answer that is not a message. An output without its call is a result all the
    same: whose it is, the whole page shows."""
    if kind_of(item) == "reasoning":
        return read_reasoning(item)
    if call_of(item) and not is_paired:
        return read_call(item)
    _check_named(item)
    return read_result(item) if answer_of(item) and not is_paired else read_opaque(item)


def _check_named(item: Item) -> None:
    """Invalid if this is a call that nothing could answer, or an output that answers nothing."""
    kind, given = kind_of(item), item.get("call_id")
    if kind in CALLS and not call_of(item):
        raise refused("the call_id of a call", given, "the text that its output will name")
    if kind.endswith("_output") and kind.removesuffix("_output") in CALLS and not answer_of(item):
        raise refused("the call_id of an output", given, "the id of the call it answers")


def _placed_given(item: Item) -> tuple[Role, Placed]:
    """Who gives an item that the model does not say, and its blocks."""
    if kind_of(item) == "message":
        return role_of(item, ROLES), _placed_content(item, 0)
    if answer_of(item):
        return "tool", [((0,), read_result(item))]
    return "system", [((0,), read_opaque(item))]


def _placed_content(item: Item, index: int) -> Placed:
    role = item["role"]
    read = partial(read_part, role=role)
    return placed_content(item.get("content"), (index, "content"), read, role)


# --- reply ---


def reply(response: Any) -> Reply:
    """A response taken apart, or a bare item of the assistant."""
    wire = plain(response)
    if not isinstance(wire, dict) or not is_response(wire):
        return Reply(message=parse(response)[0], usage=None)
    if wire.get("type") in _EVENTS:
        wire = wire.get("response", wire)
    _check_finished(wire)
    equal = _equality(response)
    items = [_item(item, equal) for item in wire["output"]]
    message = _parse_answer(items, equal)
    return Reply(message=message, usage=usage_of(wire), finished=_finished(wire))


def _check_finished(response: dict[str, Any]) -> None:
    """Invalid for a response that is still under way."""
    status = response.get("status")
    if status in _UNFINISHED:
        what = f"the status of response {response.get('id')}"
        raise refused(what, status, "a response that has ended")


def _finished(response: dict[str, Any]) -> str:
    """Why it ended: `completed`, or what cut it off."""
    reason = at(response, ("incomplete_details", "reason"))
    return reason if isinstance(reason, str) else text_in(response, "status")


def usage_of(response: dict[str, Any]) -> Usage | None:
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


_Part = Text | Media | Opaque


def read_part(part: Any, role: str = "user") -> _Part:
    """A part of a message or an output."""
    if is_text_part(part):
        # Everybody else's text: what only has another name here goes out under ours.
        part["type"] = "output_text" if role == "assistant" else "input_text"
    match part:
        case {"type": "input_text" | "output_text", "text": str(text)}:
            return Text(text)
        case {"type": "refusal", "refusal": str(text)}:
            return Text(text)
        case {"type": "input_image", "image_url": str(url)}:
            return media_of_url("image", url, detail=text_in(part, "detail"))
        case {"type": "input_image", "file_id": str(file)}:
            return Media("image", file=file, detail=text_in(part, "detail"))
        case {"type": "input_file", "file_data": str(url)} if url.startswith("data:"):
            return media_of_url("document", url, name=text_in(part, "filename"))
        case {"type": "input_file", "file_url": str(url)}:
            return Media("document", url=url, name=text_in(part, "filename"))
        case {"type": "input_file", "file_id": str(file)}:
            return Media("document", file=file, name=text_in(part, "filename"))
        case {"type": str()}:
            return Opaque(raw=part)
        case _:
            accepted = "an object with a type, such as input_text or input_image,"
            raise refused("a part of the content", part, accepted)


def read_reasoning(item: dict[str, Any]) -> Thinking | Opaque:
    """What the model thought, with its seal; its id stands for it where there is no seal."""
    parts = objects_in(item.get("summary") or item.get("content"))
    text = "\n\n".join(text_in(part, "text") for part in parts)
    thinking = Thinking(text, text_in(item, "id"), text_in(item, "encrypted_content"))
    return Opaque(raw=item) if thinking == Thinking() else thinking


def read_call(item: dict[str, Any]) -> ToolCall:
    """A call that the caller answers."""
    kind = kind_of(item)
    usual_name, key = CALLS.get(kind, (kind.removesuffix("_call"), ""))
    name = usual_name or text_in(item, "name")
    arguments = item.get(key, {})
    is_known = isinstance(arguments, str | dict)
    if kind in OPEN_CALLS and not (name and is_known):
        raise refused("a tool call", item, f"an item with a name and {key}")
    return ToolCall(call_of(item), name, arguments if is_known else {})


def read_result(item: dict[str, Any]) -> ToolResult:
    """What answers a call."""
    content = _output_content(item)
    failed = item.get("status") == "failed"
    return ToolResult(answer_of(item), content, is_error=failed, name=text_in(item, "name"))


def _output_content(item: dict[str, Any]) -> tuple[_Part, ...]:
    """The content of an output; Invalid if a call of its kind takes no such output."""
    output = item.get("output")
    is_open = kind_of(item).removesuffix("_output") in OPEN_CALLS
    if is_open and not isinstance(output, str | list):
        raise refused(f"the output of call {answer_of(item)}", output, "text or a list of parts")
    content = content_blocks(output, read_part if is_open else _chunk)
    return (_screenshot(output),) if content is None else content


def _chunk(chunk: Any) -> Text | Opaque:
    """What a shell gave: as text if it came on one channel, else in its own shape."""
    match chunk:
        case {"stdout": str(text), "stderr": ""} | {"stdout": "", "stderr": str(text)}:
            return Text(text)
        case {"stdout": str(output), "stderr": str(errors)}:
            return Opaque(raw=chunk, text=f"{output}\n{errors}")
        case _:
            return Opaque(raw=chunk)


def _screenshot(output: Any) -> Media | Opaque:
    """An output that is one object: an image, or what we do not know."""
    url = at(output, ("image_url",))
    return media_of_url("image", url) if isinstance(url, str) and url else Opaque(raw=output)


def read_opaque(item: dict[str, Any]) -> Opaque:
    """An item that is carried as it is. Pixels are not words: they must not be counted as such."""
    if kind_of(item) == "image_generation_call":
        return Opaque(raw=item, text=f"[image: {text_in(item, 'revised_prompt') or 'generated'}]")
    return Opaque(raw=item)
