"""Rendering of OpenAI Chat Completions: messages, and the arguments of the provider's call.

Images never go into a `tool` message: they follow in a user message, after all results of the turn.
Messages that are not plain text are repaired, because compatible servers and SDKs return null
`tool_calls`, calls without a type or in the simple shape {id, name, arguments}, arguments as
objects, and keys of the SDK. `alternating` serves chat templates that require user and assistant to
take turns. Neighbours: `parse` is the way in, `original_form` restores unusual shapes,
`dialects.tools` reads definitions of every shape.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from refold.checked import quoted
from refold.core.model import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.dialects.input import plain, remove_marks
from refold.dialects.original_form import Rename, filled
from refold.dialects.protocol import REFOLDS, Arranged, CacheMarks
from refold.dialects.tools import functions
from refold.dialects.wire import (
    EMPTY,
    KNOWN_PARTS,
    Accepts,
    argument_text,
    as_it_is,
    as_system,
    at,
    copied,
    data_url,
    fitting_name,
    is_base64,
    is_data_url,
    is_fitting,
    is_gone,
    is_object_text,
    is_speaker,
    is_text,
    media_as_note,
    object_text,
    objects_in,
    plain_id,
    present,
    refused_text,
    report,
    shown_text,
    text_blocks,
    text_within,
    translated,
    with_file_name,
)

NAME = "openai_chat"
_NAME_LENGTH_MAX = 64
_SAID = ("text", "refusal")
_MEDIA = ("image_url", "input_audio", "file")

_CALL = {"id", "type", "function"}
_FUNCTION = {"name", "arguments"}
# A message with one of these needs no content.
_INSTEAD = ("tool_calls", "function_call", "refusal", "audio")

Wire = dict[str, Any]


# --- repair ---


def repaired(wire: Wire, lost: list[str]) -> Wire:
    """The message as the provider accepts it; valid content stays unchanged."""
    if wire.get("role") == "assistant":
        wire = _repaired_answer(wire, lost)
    elif "tool_calls" in wire:
        wire = {key: value for key, value in wire.items() if key != "tool_calls"}
    content, role = wire.get("content"), wire["role"]
    if wire.get("name") is not None and role != "tool" and not is_speaker(wire["name"]):
        _fit_speaker(wire, lost)
    if type(content) is list:
        parts = present(_part(part, role, lost) for part in content)
        if parts and role == "function":
            wire["content"] = "\n".join(part.get("text") or "" for part in parts)
        else:
            wire["content"] = parts or None
    elif content is not None and type(content) is not str:
        wire["content"] = refused_text(content, NAME, lost)
    # The provider refuses a message without content.
    if wire.get("content") is None and not any(wire.get(key) for key in _INSTEAD):
        wire["content"] = "" if role in ("assistant", "tool") else EMPTY
    return wire


_NOT_SPEAKER = re.compile(r"[\s<|\\/>]+")


def _fit_speaker(wire: Wire, lost: list[str]) -> None:
    """Replaces a speaker's name that the provider would refuse, or removes one that is not text."""
    name = wire.pop("name")
    fit = _NOT_SPEAKER.sub("_", name)[:64] if isinstance(name, str) else ""
    if fit:
        wire["name"] = fit
    report(lost, f"the speaker {quoted(name, 80)} is called {fit or 'nothing'} here")


def _part(part: Any, role: str, lost: list[str]) -> Wire | None:
    """A part as the provider accepts it, or None."""
    kind = part.get("type") if type(part) is dict else None
    if kind in _SAID and (kind == "text" or role == "assistant"):
        return part if type(part.get(kind)) is str and part[kind] else None
    is_unknown = type(kind) is str and kind not in KNOWN_PARTS
    if is_unknown or (kind in _MEDIA and role == "user" and _is_complete(kind, part.get(kind))):
        return part  # type: ignore[no-any-return]
    text = refused_text(part, NAME, lost)
    return _text_part(text) if text else None


def _is_complete(kind: str, media: Any) -> bool:
    """Whether media has the fields that the provider requires."""
    if type(media) is not dict:
        return False
    match kind:
        case "image_url":
            return _is_address(media.get("url"))
        case "input_audio":
            return is_base64(media.get("data")) and _is_text(media.get("format"))
        case _:
            return _is_text(media.get("file_id")) or _is_address(media.get("file_data"))


def _is_text(value: Any) -> bool:
    return type(value) is str and bool(value)


def _is_address(url: Any) -> bool:
    """Whether this is a URL; a data URL must have content."""
    return _is_text(url) and (not url.startswith("data:") or is_data_url(url))


def _repaired_answer(wire: Wire, lost: list[str]) -> Wire:
    """An answer with only the fields that the provider accepts back."""
    answer = {key: value for key, value in wire.items() if _is_accepted(key, value)}
    if "function_call" in answer:
        legacy = answer["function_call"]
        arguments = object_text(legacy.get("arguments"), legacy["name"], lost)
        answer["function_call"] = {**legacy, "arguments": arguments}
    if type(answer.get("audio")) is dict:
        answer["audio"] = {"id": answer["audio"]["id"]}
    if "tool_calls" in answer:
        calls = [_call(call, lost) for call in objects_in(answer["tool_calls"])]
        answer["tool_calls"] = calls
    return answer


def _is_accepted(key: str, value: Any) -> bool:
    """Whether the provider accepts a field of an answer back: no field of an SDK, and none that is
    empty where it must not be."""
    match key:
        case "parsed":
            return False
        case "annotations":
            return value is not None
        case "tool_calls":
            return bool(objects_in(value))
        case "function_call":
            return type(value) is dict and _is_text(value.get("name"))
        case "audio":
            return type(value) is dict and _is_text(value.get("id"))
        case "thinking_blocks" | "reasoning_details":
            return bool(value)
        case "refusal":
            return value is None or type(value) is str
        case _:
            return True


def _call(call: Wire, lost: list[str]) -> Wire:
    """A call in the provider's shape."""
    function = call.get("function")
    is_complete = call.keys() == _CALL and call["type"] == "function"
    if is_complete and type(function) is dict and function.keys() == _FUNCTION:
        is_named = is_fitting(function["name"], _NAME_LENGTH_MAX)
        arguments = function["arguments"]
        if is_named and type(arguments) is str and is_object_text(arguments):
            return call
    fields, id = {key: value for key, value in call.items() if key != "index"}, call.get("id")
    if call.get("type") == "custom" and type(call.get("custom")) is dict:
        custom = _called(call["custom"], lost)
        return {**fields, "custom": {**custom, "input": argument_text(custom.get("input"))}}
    if type(function) is dict:
        if fields.get("type") != "function":
            fields.pop("type", None)
            fields = {"id": fields.pop("id"), "type": "function", **fields}
        return {**fields, "function": _function(function, id, lost)}
    if "name" not in call:
        return fields
    simple: Wire = {key: fields.pop(key) for key in ("name", "arguments") if key in fields}
    called = _function(simple, id, lost)
    return {"id": fields.pop("id"), "type": "function", "function": called, **fields}


def _function(function: Wire, id: Any, lost: list[str]) -> Wire:
    """A called function, with a name and arguments that the provider accepts."""
    called = _called(function, lost)
    return {**called, "arguments": object_text(called.get("arguments"), id, lost)}


def _called(called: Wire, lost: list[str]) -> Wire:
    """A called function or custom tool, with a name that the provider accepts."""
    fields = {name: value for name, value in called.items() if name != "parsed_arguments"}
    return {**fields, "name": fitting_name(called.get("name"), NAME, _NAME_LENGTH_MAX, lost)}


# --- messages ---

ID_LENGTH_MAX = 40
# Fields by which media of each kind can be sent.
_MEDIA_FIELDS = {"image": ("data", "url"), "audio": ("data",), "document": ("data", "file")}


def render(messages: Sequence[Message], lost: list[str]) -> list[dict[str, Any]]:
    """Lawful messages in this wire format. Content that it cannot express is added to `lost`."""
    rendering = _Rendering(lost)
    for message in messages:
        if not rendering.add_plain(message):
            rendering.add(message)
    rendering.release()
    return rendering.out


class _Rendering:
    """One rendering. `held` messages wait for the last result of a turn; `long` are ids above the
    length limit: a compatible server issued them itself, and so accepts them."""

    def __init__(self, lost: list[str]) -> None:
        self.lost, self.out = lost, list[dict[str, Any]]()
        self.held: list[dict[str, Any]] = []
        self.long: set[str] = set()

    def add_plain(self, message: Message) -> bool:
        """Adds a message that is one block of text, or one result of plain text, as nearly all are.
        For any other it adds nothing and returns False."""
        if len(message.blocks) != 1 or message.form is not None:
            return False
        block = message.blocks[0]
        if type(block) is Text and not self.held and (block.text or message.role != "assistant"):
            self.out.append({"role": message.role, "content": block.text})
            return True
        if type(block) is not ToolResult or block.is_error or len(block.content) != 1:
            return False
        part = block.content[0]
        if type(part) is not Text:
            return False
        call = self._id(block.call)
        self.out.append({"role": "tool", "tool_call_id": call, "content": part.text})
        return True

    def add(self, message: Message) -> None:
        own = message.dialect == NAME
        if not own:
            message = translated(message, _ACCEPTS, self.lost)
            if message.role == "assistant":
                # Joined, because many servers accept only plain text in an answer.
                blocks = message.blocks
                texts = [block.text for block in blocks if type(block) is Text and block.text]
                rest = [block for block in blocks if type(block) is not Text]
                one_text = [Text("\n\n".join(texts))] if texts else []
                message = Message(role="assistant", blocks=(*one_text, *rest))
                if not message.blocks:
                    return  # many servers refuse an empty answer
        results = [block for block in message.blocks if type(block) is ToolResult]
        if results:
            self._add_results(message, results)
            return
        self.release()
        if message.role == "assistant" and own:
            calls = [block.id for block in message.blocks if type(block) is ToolCall]
            self.long.update(id for id in calls if len(id) > ID_LENGTH_MAX)
        self.out.append(self._wire(message))

    def release(self) -> None:
        """Adds the messages that waited for the results of a turn."""
        if self.held:
            self.out.extend(self.held)
            self.held = []

    def _add_results(self, message: Message, results: list[ToolResult]) -> None:
        """Adds each result as a separate message, and holds back media and the other blocks."""
        for result in results:
            media = [part for part in result.content if type(part) is Media]
            answer = message
            if media or len(message.blocks) > 1:
                answer = Message(role="tool", blocks=(result,), dialect=message.dialect)
            self.out.append(self._wire(answer))
            if media:
                to_user = f"media in the result of call {result.call} went into a user message"
                report(self.lost, to_user)
                heading = _text_part(f"From the result of call {self._id(result.call)}:")
                wire = {"role": "user", "content": [heading, *map(own_part, media)]}
                self.held.append(repaired(wire, self.lost))
        rest = tuple(block for block in message.blocks if type(block) is not ToolResult)
        if rest:
            other = Message(role="user", blocks=rest, dialect=message.dialect)
            self.held.append(self._wire(other))

    def _wire(self, message: Message) -> dict[str, Any]:
        """The message in its own form if it has one, else in the usual form."""
        if message.form is None:
            return repaired(usual(message, self._id), self.lost)
        own: dict[str, Any] | None = filled(message, own_part, self._id)
        if own is None:
            if any(type(block) is Thinking and not is_gone(block) for block in message.blocks):
                report(self.lost, "thinking of an edited message is not sent: its place is gone")
            own = usual(message, self._id)
        return repaired(own, self.lost)

    def _id(self, id: str) -> str:
        if 0 < len(id) <= ID_LENGTH_MAX or id in self.long:
            return id
        return plain_id(id, ID_LENGTH_MAX)


# --- from other providers ---


def _translated_media(media: Media, source: str, lost: list[str]) -> Text | Media:
    # A file id means nothing here, and a document needs a file name.
    if not _is_sendable(media) or not (media.data or media.url):
        return media_as_note(media, source, NAME, lost)
    return with_file_name(media)


_ACCEPTS = Accepts(name=NAME, media=_translated_media, call=as_it_is, marks_errors=False)


# --- the usual form ---


def usual(message: Message, rename: Rename = str) -> dict[str, Any]:
    """The message in the provider's usual form."""
    own = message.dialect == NAME
    first = message.blocks[0] if message.blocks else None
    if type(first) is ToolResult:
        return _usual_result(first, rename(first.call), own)
    blocks = [block for block in message.blocks if type(block) not in (ToolCall, Thinking)]
    wire: dict[str, Any] = {"role": message.role, "content": _usual_content(blocks)}
    calls = [block for block in message.blocks if type(block) is ToolCall]
    if calls:
        wire["tool_calls"] = [_usual_call(call, rename(call.id), own) for call in calls]
    return wire


def _usual_content(blocks: Sequence[Block]) -> Any:
    """A single block of text as a string, anything else as parts; None if there are no blocks."""
    if len(blocks) == 1 and is_text(blocks[0]):
        return shown_text(blocks[0])
    return list(map(own_part, blocks)) or None


def _usual_call(call: ToolCall, id: str, own: bool) -> dict[str, Any]:
    """A call. In this dialect, arguments that are an object mean the simple shape; from any other,
    they become text."""
    arguments = call.arguments
    if not isinstance(arguments, str):
        if own:
            return {"id": id, "name": call.name, "arguments": copied(arguments)}
        arguments = argument_text(arguments)
    return {"id": id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _usual_result(result: ToolResult, id: str, own: bool) -> dict[str, Any]:
    parts = [part for part in result.content if type(part) is not Media]
    content = _usual_content(parts) if own and len(parts) > 1 else text_within(parts)
    if not content and len(parts) < len(result.content):
        content = "[shown in the next user message]"
    return {"role": "tool", "tool_call_id": id, "content": content}


def own_part(block: Any) -> Any:
    """A block as a part of this provider's content; None if it cannot be one."""
    match block:
        case Text():
            return _text_part(block.text)
        case Media():
            return _media_part(block)
        case Opaque():
            return _text_part(block.text) if block.raw is None else copied(block.raw)
        case ToolCall():
            return _usual_call(block, block.id, True)
        case ToolResult():
            return _usual_result(block, block.call, True)
        case _:
            return None


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _is_sendable(media: Media) -> bool:
    """Whether the provider has a part for such media, and the media has content for it."""
    fields = _MEDIA_FIELDS.get(media.media, ())
    return any(getattr(media, field) for field in fields)


def _media_part(media: Media) -> dict[str, Any]:
    if not _is_sendable(media):
        return _text_part(shown_text(media))
    match media.media:
        case "image":
            image = {"url": data_url(media) if media.data else media.url}
            detail = {"detail": media.detail} if media.detail else {}
            return {"type": "image_url", "image_url": {**image, **detail}}
        case "audio":
            audio = {"data": media.data, "format": media.mime.partition("/")[2]}
            return {"type": "input_audio", "input_audio": audio}
        case _:
            name = {"filename": media.name} if media.name else {}
            file = {"file_data": data_url(media)} if media.data else {"file_id": media.file}
            return {"type": "file", "file": {**name, **file}}


# --- turns ---

_SYSTEM = ("system", "developer")


def alternating(messages: Sequence[Wire]) -> Arranged:
    """The messages, with consecutive messages of one role joined on copies. System messages after
    the beginning become the user's; calls and results stay unchanged."""
    out: list[Wire] = []
    places: list[int] = []
    for message in messages:
        is_system = message["role"] in _SYSTEM
        if is_system and any(wire["role"] not in _SYSTEM for wire in out):
            text = "\n".join(part.get("text", "") for part in _parts(message["content"]))
            message = {"role": "user", "content": as_system(text)}
        last = out[-1] if out else {"role": ""}
        is_turn = message["role"] in ("user", "assistant") and "tool_calls" not in last
        are_system = last["role"] in _SYSTEM and message["role"] in _SYSTEM
        if are_system or (is_turn and last["role"] == message["role"]):
            before, after = out[-1].get("content"), message.get("content")
            if isinstance(before, str) and isinstance(after, str):
                content: Any = "\n\n".join(text for text in (before, after) if text)
            else:
                content = [*_parts(before), *_parts(after)] or None
            out[-1] = {**out[-1], **message, "role": out[-1]["role"], "content": content}
        else:
            out.append(message)
        places.append(len(out) - 1)
    return Arranged(out, places)


def _parts(content: Any) -> list[Wire]:
    if isinstance(content, str):
        return [_text_part(content)] if content else []
    return content or []


# --- the call ---

_ROLE = itemgetter("role")


def request(
    messages: list[dict[str, Any]],
    *,
    system: Any,
    tools: list[Any] | None,
    marks: Sequence[int],
    lost: list[str],
    caching: CacheMarks = REFOLDS,
) -> dict[str, Any]:
    """The keyword arguments of the call. There are no marks: the provider caches automatically."""
    page = arranged(messages, lost).messages
    kwargs: Wire = {"messages": [*_system_messages(system), *page]}
    defined = definitions(tools, lost)
    if defined:
        kwargs["tools"] = defined
    return kwargs


def arranged(messages: list[Wire], lost: list[str]) -> Arranged:
    """The page; a legacy function result is accepted only directly after the call of that function,
    and becomes the user's anywhere else."""
    page = messages
    if "function" in map(_ROLE, messages):
        page = []
        for message, before in zip(messages, [{}, *messages]):
            called = at(before, ("function_call", "name"))
            if message["role"] == "function" and message.get("name") != called:
                page.append({"role": "user", "content": message.get("content") or EMPTY})
            else:
                page.append(message)
    return Arranged(page, range(len(page)))


def definitions(tools: list[Any] | None, lost: list[str]) -> list[dict[str, Any]]:
    """The tools as Chat Completions accepts them."""
    return functions(tools, NAME, lost)


def _system_messages(system: Any) -> list[dict[str, Any]]:
    """The system prompt as leading messages; system messages stay unchanged."""
    if not system:
        return []
    if isinstance(system, str):
        return [{"role": "system", "content": system}]
    prompt = plain(system)
    entries = prompt if isinstance(prompt, list) else [prompt]
    if all(isinstance(entry, dict) and {"role", "content"} <= entry.keys() for entry in entries):
        return [remove_marks(entry) for entry in entries]
    # One message per block, because providers with a separate system prompt turn each leading
    # system message into a block.
    messages = []
    for block in text_blocks(entries):
        is_text = block.keys() <= {"type", "text"}
        content = block["text"] if is_text else [{"type": "text", **block}]
        messages.append({"role": "system", "content": content})
    return messages
