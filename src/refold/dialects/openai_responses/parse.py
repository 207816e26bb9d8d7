"""Parsing of OpenAI Responses: items, lists of items and responses become messages.

The model's consecutive items become one message, any other item a separate one; unknown items and
parts become opaque blocks. Neighbours: `items` knows which items call and which answer, `render` is
the way out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from refold.checked import quoted
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
from refold.dialects.original_form import (
    Placed,
    content_blocks,
    formless,
    placed_content,
    take_metadata,
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
from refold.errors import Invalid

_ITEMS = frozenset({
    *CALLS, *CONTROLS, *PROVIDERS_PAIRS.values(), "reasoning", "compaction", "item_reference",
    "mcp_list_tools", "mcp_approval_request",
})  # fmt: skip
_PARTS = (*INPUT_PARTS, "output_text")
_EVENTS = ("response.completed", "response.incomplete", "response.failed")


Item = dict[str, Any]


# --- which dialect ---


def recognizes(message: Mapping[str, Any]) -> bool:
    """Whether the message has a shape unique to this dialect."""
    kind, content = message.get("type"), message.get("content")
    if isinstance(kind, str) and kind != "message":
        return kind in _ITEMS or ("role" not in message and kind.endswith(("_call", "_output")))
    if isinstance(content, list):
        if any(isinstance(part, Mapping) and part.get("type") in _PARTS for part in content):
            return True
    elif kind is None:
        return _listed(message) is not None
    if kind != "message":
        return False
    # Only this provider gives such messages a type.
    if "status" in message or isinstance(content, str):
        return True
    return message.get("role") in ("user", "system", "developer")


def is_response(response: Mapping[str, Any]) -> bool:
    """Whether this is a response object, or the event that ends a stream with one."""
    if response.get("type") in _EVENTS:
        inner = response.get("response")
        return isinstance(inner, Mapping) and is_response(inner)
    return response.get("object") == "response" and isinstance(response.get("output"), list)


def _listed(wire: Mapping[str, Any]) -> list[Any] | None:
    """The items under `output` or `input`: of a request, or of a result of `responses.compact`."""
    if "role" in wire or "type" in wire or is_response(wire):
        return None
    for key in ("output", "input"):
        items = wire.get(key)
        if isinstance(items, list) and items:
            objects = [item for item in items if isinstance(item, Mapping)]
            valid = [item for item in objects if "role" in item or "type" in item]
            if len(valid) == len(items):
                return items
    return None


# --- parse ---


def parse(message: Any) -> list[Message]:
    """An item, a list of items, or a response, as messages."""
    wire = plain(message)
    if isinstance(wire, dict) and is_response(wire):
        return [reply(message).message]
    listed = _listed(wire) if isinstance(wire, dict) else None
    equal = _equality(message)
    if listed is None:
        return [_parse_items([_item(wire, equal)], equal)]
    runs: list[list[Item]] = []  # one for each message
    for item in [_item(item, equal) for item in listed]:
        if runs and is_said(item) and is_said(runs[-1][-1]):
            runs[-1].append(item)
        else:
            runs.append([item])
    return [_parse_items(run, equal) for run in runs]


def _equality(message: Any) -> Same:
    """The comparison that a message must pass to be stored without a form: SDK objects have a key
    order of their own."""
    if type(message) is not dict:
        return alike
    for key in ("content", "output", "input"):
        parts = message.get(key)
        if type(parts) is list and not all_objects(parts):
            return alike
    return same


def _item(wire: Any, equal: Same) -> Item:
    """A checked plain item, without cache marks and without fields of the SDK."""
    kind = kind_of(wire) if isinstance(wire, dict) else ""
    if isinstance(wire, dict) and not isinstance(wire.get("type"), str | None):
        raise refused("the type of an item", wire["type"], "a text such as message")
    if kind in ("", "message"):
        item = checked_message(wire)
    elif kind.startswith("response."):
        hint = "pass the events of a stream to record"
        raise Invalid(f"a stream event ({quoted(kind, 40)}) is not a message", hint=hint)
    elif kind in KNOWN_PARTS:
        raise refused("a message", wire, 'an item, such as {"role": "user", "content": [this]},')
    else:
        for part in objects_in(wire.get("output")):
            remove_marks(part)
        item = remove_marks(wire)
    if equal is alike:
        item.pop("parsed_arguments", None)
        if kind == "reasoning" and item.get("status") is None:
            item.pop("status", None)
        for part in objects_in(item.get("content")):
            if part.get("type") == "output_text":
                part.pop("parsed", None)
    return item


# --- messages ---


def _parse_items(items: list[Item], equal: Same) -> Message:
    """The model's items, or one other item, as one message."""
    if is_said(items[0]):
        return _parse_answer(items, equal)
    item = items[0]
    if kind_of(item) == "message":
        return _message(role_of(item, ROLES), items, _placed_content(item, 0), equal)
    if answer_of(item):
        return _message("tool", items, [((0,), read_result(item))], equal)
    return _message("system", items, [((0,), read_opaque(item))], equal)


def _message(role: Role, items: list[Item], placed: Placed, equal: Same) -> Message:
    """The message, with a form only if the usual rendering differs from the items."""
    metadata = {key: value for item in items for key, value in take_metadata(item).items()}
    message = formless(role, placed, NAME, metadata)
    if equal(items, usual(message)):
        return message
    return replace(message, form=form_of(items, placed, partial(own_part, role=role), equal))


def _parse_answer(items: list[Item], equal: Same) -> Message:
    """The items of an answer as one message. A call that the provider answered itself, in the same
    response, waits for no result."""
    paired = _paired(items)
    placed: Placed = []
    for index, item in enumerate(items):
        if kind_of(item) == "message":
            placed += _placed_content(item, index)
        else:
            placed.append(((index,), _answer_block(item, is_paired=index in paired)))
    return _message("assistant", items, placed, equal)


def _paired(items: list[Item]) -> set[int]:
    """Indices of the calls that the same response answers, and of their outputs."""
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


def _answer_block(item: Item, *, is_paired: bool) -> Block:
    """An item of an answer that is not a message. An output without its call is a result too: its
    call is elsewhere on the page. Invalid for a call or an output without an id."""
    kind, id = kind_of(item), item.get("call_id")
    if kind == "reasoning":
        return read_reasoning(item)
    if call_of(item) and not is_paired:
        return read_call(item)
    if kind in CALLS and not call_of(item):
        raise refused("the call_id of a call", id, "the text that its output will name")
    if kind.endswith("_output") and kind.removesuffix("_output") in CALLS and not answer_of(item):
        raise refused("the call_id of an output", id, "the id of the call it answers")
    return read_result(item) if answer_of(item) and not is_paired else read_opaque(item)


def _placed_content(item: Item, index: int) -> Placed:
    role = item["role"]
    read = partial(read_part, role=role)
    return placed_content(item.get("content"), (index, "content"), read, role)


# --- reply ---


def reply(response: Any) -> Reply:
    """The reply in a response, or in a bare item of the assistant."""
    wire = plain(response)
    if not isinstance(wire, dict) or not is_response(wire):
        return Reply(message=parse(response)[0], usage=None)
    if wire.get("type") in _EVENTS:
        wire = wire.get("response", wire)
    status = wire.get("status")
    if status in ("queued", "in_progress"):
        what = f"the status of response {wire.get('id')}"
        raise refused(what, status, "a response that has ended")
    equal = _equality(response)
    items = [_item(item, equal) for item in wire["output"]]
    message = _parse_answer(items, equal)
    reason = at(wire, ("incomplete_details", "reason"))
    finished = reason if isinstance(reason, str) else text_in(wire, "status")
    return Reply(message=message, usage=usage_of(wire), finished=finished)


def usage_of(response: dict[str, Any]) -> Usage | None:
    """The usage of a response. `input_tokens` includes cached tokens."""
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


# --- blocks ---


def read_part(part: Any, role: str = "user") -> Text | Media | Opaque:
    """A part of a message or an output."""
    if is_text_part(part):
        # Other providers' text parts differ only in their type.
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
    """The model's thinking with its encrypted content; without that, its id identifies it."""
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
    """The output of a call. Invalid if a call of its kind has no such output."""
    output = item.get("output")
    is_open = kind_of(item).removesuffix("_output") in OPEN_CALLS
    if is_open and not isinstance(output, str | list):
        raise refused(f"the output of call {answer_of(item)}", output, "text or a list of parts")
    content = content_blocks(output, read_part if is_open else _chunk)
    if content is None:  # one object: a screenshot, or an unknown shape
        url = at(output, ("image_url",))
        is_image = isinstance(url, str) and url
        content = (media_of_url("image", url) if is_image else Opaque(raw=output),)
    failed = item.get("status") == "failed"
    return ToolResult(answer_of(item), content, is_error=failed, name=text_in(item, "name"))


def _chunk(chunk: Any) -> Text | Opaque:
    """The output of a shell: text if only one channel has any, else opaque."""
    match chunk:
        case {"stdout": str(text), "stderr": ""} | {"stdout": "", "stderr": str(text)}:
            return Text(text)
        case {"stdout": str(output), "stderr": str(errors)}:
            return Opaque(raw=chunk, text=f"{output}\n{errors}")
        case _:
            return Opaque(raw=chunk)


def read_opaque(item: dict[str, Any]) -> Opaque:
    """An item that is carried unchanged. The text of an image does not include its pixels, which
    must not be counted as tokens."""
    if kind_of(item) == "image_generation_call":
        return Opaque(raw=item, text=f"[image: {text_in(item, 'revised_prompt') or 'generated'}]")
    return Opaque(raw=item)
