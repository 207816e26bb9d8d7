"""OpenAI Chat Completions, the way out: messages and blocks as this provider has them.

The usual form is what `parse` compares with, so `render` gives it back without a form. Images never
go into a `tool` message: they follow in a user message, once all results of the turn are out.
Neighbours: `parse` is the way in, `form` fills in what is unusual.

Chat Completions, repaired: a message that came in a shape that the provider refuses goes out in
one that it takes.

Compatible servers and SDKs give messages with empty or null `tool_calls`, calls without a type or
in the simple shape {id, name, arguments}, arguments as an object, and keys that only an SDK has.
Neighbours: `render` sends every message through here that is not plain text, `dialects.repair` has
what the dialects share.

Chat Completions for servers whose chat template wants user and assistant in turns.

Messages of one role that follow each other are said as one, and what the system says after the
beginning is said by the user. Calls and their results stay as they are. Neighbours: `engine.pages`
asks for it where the setting `alternate_roles` says so; `request` made the messages.

OpenAI Chat Completions: the keyword arguments of `client.chat.completions.create`.

Neighbours: `render` made the messages, `dialects.tools` reads definitions of every shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from refold.core.model import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.dialects.form import Rename, filled
from refold.dialects.input import plain, remove_marks
from refold.dialects.protocol import REFOLDS, CacheMarks
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
    is_text,
    media_as_note,
    objects_in,
    plain_id,
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
_SPOKEN = ("role", "content")
_CALL = {"id", "type", "function"}
_FUNCTION = {"name", "arguments"}
# A message with one of these needs no content.
_INSTEAD = ("tool_calls", "function_call", "refusal", "audio")

Wire = dict[str, Any]


def repaired(wire: Wire, lost: list[str]) -> Wire:
    """The message as the provider takes it; what was valid stays as it is."""
    if wire.get("role") == "assistant":
        wire = _repaired_answer(wire, lost)
    elif "tool_calls" in wire:
        wire = {key: value for key, value in wire.items() if key != "tool_calls"}
    content = wire.get("content")
    if type(content) is list:
        wire["content"] = _content(content, wire["role"], lost)
    elif content is not None and type(content) is not str:
        wire["content"] = refused_text(content, NAME, lost)
    return _with_content(wire)


def _with_content(wire: Wire) -> Wire:
    """The message, never without content: the provider refuses that."""
    content = wire.get("content")
    if content is None and not any(wire.get(key) for key in _INSTEAD):
        wire["content"] = "" if wire["role"] in ("assistant", "tool") else EMPTY
    return wire


# --- parts ---


def _content(parts: list[Any], role: str, lost: list[str]) -> Any:
    """The parts that the provider takes, none of them empty; None for nothing."""
    kept = [part for part in (_part(part, role, lost) for part in parts) if part is not None]
    if kept and role == "function":
        return "\n".join(part.get("text") or "" for part in kept)
    return kept or None


def _part(part: Any, role: str, lost: list[str]) -> Wire | None:
    kind = part.get("type") if type(part) is dict else None
    if kind in _SAID and (kind == "text" or role == "assistant"):
        return part if type(part.get(kind)) is str and part[kind] else None
    is_unknown = type(kind) is str and kind not in KNOWN_PARTS
    if is_unknown or (kind in _MEDIA and role == "user" and _is_whole(kind, part.get(kind))):
        return part  # type: ignore[no-any-return]
    text = refused_text(part, NAME, lost)
    return {"type": "text", "text": text} if text else None


def _is_whole(kind: str, held: Any) -> bool:
    """Whether media has what the provider needs of it."""
    if type(held) is not dict:
        return False
    match kind:
        case "image_url":
            return _is_address(held.get("url"))
        case "input_audio":
            return is_base64(held.get("data")) and _is_text(held.get("format"))
        case _:
            return _is_text(held.get("file_id")) or _is_address(held.get("file_data"))


def _is_text(value: Any) -> bool:
    return type(value) is str and bool(value)


def _is_address(url: Any) -> bool:
    """Whether this is a URL; one with its content in it must have content."""
    return _is_text(url) and (not url.startswith("data:") or is_data_url(url))


# --- answers ---


def _repaired_answer(wire: Wire, lost: list[str]) -> Wire:
    """An answer with nothing but what the provider takes back."""
    answer = {key: value for key, value in wire.items() if key in _SPOKEN or _goes_back(key, value)}
    if type(answer.get("audio")) is dict:
        answer["audio"] = {"id": answer["audio"]["id"]}
    if "tool_calls" in answer:
        calls = [_call(call, lost) for call in objects_in(answer["tool_calls"])]
        answer["tool_calls"] = calls
    return answer


def _goes_back(key: str, value: Any) -> bool:
    """Whether a field of an answer may go back: not what an SDK made of it, nor what is empty and
    must not be."""
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
    if call.keys() == _CALL and _is_whole_function(call):
        return call
    made = {key: value for key, value in call.items() if key != "index"}
    if call.get("type") == "custom" and type(call.get("custom")) is dict:
        return {**made, "custom": _called(call["custom"], "input", lost)}
    function = call.get("function")
    if type(function) is not dict:
        if "name" not in call:
            return made
        function = {key: made.pop(key) for key in ("name", "arguments") if key in made}
        return {"id": made.pop("id"), "type": "function", **_function(function, lost), **made}
    if made.get("type") != "function":
        made = {"id": made.pop("id"), "type": "function", **_without_type(made)}
    return {**made, **_function(function, lost)}


def _is_whole_function(call: Wire) -> bool:
    """Whether this calls a function as the provider has it."""
    function = call["function"]
    if call["type"] != "function" or type(function) is not dict or function.keys() != _FUNCTION:
        return False
    is_named = is_fitting(function["name"], _NAME_LENGTH_MAX)
    return is_named and type(function["arguments"]) is str


def _without_type(call: Wire) -> Wire:
    return {key: value for key, value in call.items() if key != "type"}


def _function(function: Wire, lost: list[str]) -> Wire:
    return {"function": _called(function, "arguments", lost)}


def _called(called: Wire, key: str, lost: list[str]) -> Wire:
    """The name and the arguments of what is called, both as the provider takes them."""
    kept = {name: value for name, value in called.items() if name != "parsed_arguments"}
    name = fitting_name(called.get("name"), NAME, _NAME_LENGTH_MAX, lost)
    return {**kept, "name": name, key: argument_text(called.get(key))}


ID_LENGTH_MAX = 40
# What media of each kind can be sent by.
_MEDIA_FIELDS = {"image": ("data", "url"), "audio": ("data",), "document": ("data", "file")}


def render(messages: Sequence[Message], lost: list[str]) -> list[dict[str, Any]]:
    """Lawful messages in this wire format. What it cannot say is described in `lost`."""
    rendering = _Rendering(lost)
    for message in messages:
        if not rendering.add_plain(message):
            rendering.add(message)
    rendering.release()
    return rendering.out


class _Rendering:
    """One rendering under way. `held` waits until all results of a turn are out; `long` are ids
    over the length limit that a compatible server gave out itself, and so must see again."""

    def __init__(self, lost: list[str]) -> None:
        self.lost, self.out = lost, list[dict[str, Any]]()
        self.held: list[dict[str, Any]] = []
        self.long: set[str] = set()

    def add_plain(self, message: Message) -> bool:
        """Puts out a message that is one text, or the result of one call with one text: nearly
        all are. False for any other."""
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
            message = _translated(message, self.lost)
            if message.role == "assistant" and not message.blocks:
                return  # nothing of it can be said here, and many servers refuse an empty answer
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
        """Puts out what waited for the results of a turn."""
        if self.held:
            self.out.extend(self.held)
            self.held = []

    def _add_results(self, message: Message, results: list[ToolResult]) -> None:
        """Puts out each result as a message of its own, and holds back what else is said."""
        for result in results:
            self._add_result(message, result)
        rest = tuple(block for block in message.blocks if type(block) is not ToolResult)
        if rest:
            said = Message(role="user", blocks=rest, dialect=message.dialect)
            self.held.append(self._wire(said))

    def _add_result(self, message: Message, result: ToolResult) -> None:
        media = [part for part in result.content if type(part) is Media]
        if media or len(message.blocks) > 1:
            message = Message(role="tool", blocks=(result,), dialect=message.dialect)
        self.out.append(self._wire(message))
        if media:
            self._hold_media(result, media)

    def _hold_media(self, result: ToolResult, media: list[Media]) -> None:
        report(self.lost, f"media in the result of call {result.call} went into a user message")
        said = _text_part(f"From the result of call {self._id(result.call)}:")
        wire = {"role": "user", "content": [said, *map(own_part, media)]}
        self.held.append(repaired(wire, self.lost))

    def _wire(self, message: Message) -> dict[str, Any]:
        """The message in its own form, or else in the usual one."""
        if message.form is None:
            return repaired(usual(message, self._id), self.lost)
        own: dict[str, Any] | None = filled(message, own_part, self._id)
        if own is None:
            self._report_thinking(message)
            own = usual(message, self._id)
        return repaired(own, self.lost)

    def _report_thinking(self, message: Message) -> None:
        if any(type(block) is Thinking and not is_gone(block) for block in message.blocks):
            report(self.lost, "thinking of an edited message is not sent: its place is gone")

    def _id(self, id: str) -> str:
        if 0 < len(id) <= ID_LENGTH_MAX or id in self.long:
            return id
        return plain_id(id, ID_LENGTH_MAX)


# --- from other providers ---


def _translated(message: Message, lost: list[str]) -> Message:
    """Another provider's message in blocks that can be said here."""
    made = translated(message, _ACCEPTS, lost)
    if made.role != "assistant":
        return made
    return Message(role="assistant", blocks=_with_one_text(made.blocks))


def _translated_media(media: Media, source: str, lost: list[str]) -> Text | Media:
    # A file id is known only to the provider that gave it; a document needs a file name here.
    if not _is_sayable(media) or not (media.data or media.url):
        return media_as_note(media, source, NAME, lost)
    return with_file_name(media)


_ACCEPTS = Accepts(name=NAME, media=_translated_media, call=as_it_is, marks_errors=False)


def _with_one_text(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """An answer's separate texts as one, because many servers take only text there."""
    text = "\n\n".join(block.text for block in blocks if type(block) is Text and block.text)
    rest = tuple(block for block in blocks if type(block) is not Text)
    return (Text(text), *rest) if text else rest


# --- the usual form ---


def usual(message: Message, rename: Rename = str) -> dict[str, Any]:
    """The message as this provider usually has it."""
    own = message.dialect == NAME
    first = message.blocks[0] if message.blocks else None
    if type(first) is ToolResult:
        return _usual_result(first, rename(first.call), own)
    said = [block for block in message.blocks if type(block) not in (ToolCall, Thinking)]
    wire: dict[str, Any] = {"role": message.role, "content": _usual_content(said)}
    calls = [block for block in message.blocks if type(block) is ToolCall]
    if calls:
        wire["tool_calls"] = [_usual_call(call, rename(call.id), own) for call in calls]
    return wire


def _usual_content(blocks: Sequence[Block]) -> Any:
    """Text alone as text, anything else as parts; None for nothing."""
    if len(blocks) == 1 and is_text(blocks[0]):
        return shown_text(blocks[0])
    return list(map(own_part, blocks)) or None


def _usual_call(call: ToolCall, id: str, own: bool) -> dict[str, Any]:
    """A call; an object as arguments is the simple shape if it came in this dialect, else text
    is made of it."""
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
    """A block as a part of this provider's content; None for what has no place there."""
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


def _is_sayable(media: Media) -> bool:
    """Whether there is a part for such media, and something to put in it."""
    fields = _MEDIA_FIELDS.get(media.media, ())
    return any(getattr(media, field) for field in fields)


def _media_part(media: Media) -> dict[str, Any]:
    if not _is_sayable(media):
        return _text_part(shown_text(media))
    match media.media:
        case "image":
            return {"type": "image_url", "image_url": _image(media)}
        case "audio":
            audio = {"data": media.data, "format": media.mime.partition("/")[2]}
            return {"type": "input_audio", "input_audio": audio}
        case _:
            return {"type": "file", "file": _file(media)}


def _image(media: Media) -> dict[str, Any]:
    image = {"url": data_url(media) if media.data else media.url}
    return {**image, "detail": media.detail} if media.detail else image


def _file(media: Media) -> dict[str, Any]:
    name = {"filename": media.name} if media.name else {}
    if media.data:
        return {**name, "file_data": data_url(media)}
    return {**name, "file_id": media.file}


_SYSTEM = ("system", "developer")

AlternationWire = dict[str, Any]


def alternating(request: dict[str, Any]) -> dict[str, Any]:
    """The request with its messages in turns; the messages given are never changed."""
    out: list[AlternationWire] = []
    for message in request["messages"]:
        said = _in_role(message, opens=all(one["role"] in _SYSTEM for one in out))
        if out and _joins(out[-1], said):
            out[-1] = _joined(out[-1], said)
        else:
            out.append(said)
    return {**request, "messages": out}


def _in_role(message: AlternationWire, *, opens: bool) -> AlternationWire:
    """The message, said by the user if it is the system's and the conversation has begun."""
    if opens or message["role"] not in _SYSTEM:
        return message
    text = "\n".join(part.get("text", "") for part in _parts(message["content"]))
    return {"role": "user", "content": as_system(text)}


def _joins(last: AlternationWire, message: AlternationWire) -> bool:
    """Whether two messages that follow each other must be one."""
    if last["role"] in _SYSTEM and message["role"] in _SYSTEM:
        return True
    is_turn = message["role"] in ("user", "assistant")
    return is_turn and last["role"] == message["role"] and "tool_calls" not in last


def _joined(last: AlternationWire, message: AlternationWire) -> AlternationWire:
    before, after = last.get("content"), message.get("content")
    if isinstance(before, str) and isinstance(after, str):
        content: Any = "\n\n".join(text for text in (before, after) if text)
    else:
        content = [*_parts(before), *_parts(after)] or None
    return {**last, **message, "role": last["role"], "content": content}


def _parts(content: Any) -> list[AlternationWire]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content or []


_REQUEST_FUNCTION = "function"
_ROLE = itemgetter("role")

RequestWire = dict[str, Any]


def request(
    messages: list[dict[str, Any]],
    *,
    system: Any,
    tools: list[Any] | None,
    marks: Sequence[int],
    lost: list[str],
    caching: CacheMarks = REFOLDS,
) -> dict[str, Any]:
    """The keyword arguments of the call. The provider finds what it can cache automatically: no
    marks."""
    said = _answering(messages) if _REQUEST_FUNCTION in map(_ROLE, messages) else messages
    kwargs: RequestWire = {"messages": [*_system_messages(system), *said]}
    defined = definitions(tools, lost)
    if defined:
        kwargs["tools"] = defined
    return kwargs


def definitions(tools: list[Any] | None, lost: list[str]) -> list[dict[str, Any]]:
    """The tools as Chat Completions takes them."""
    return functions(tools, NAME, lost)


def _answering(messages: list[RequestWire]) -> list[RequestWire]:
    """The messages; what a function gave stands only directly after the call of that function, and
    is said by the user anywhere else."""
    before: list[RequestWire] = [{}, *messages]
    return [_said(message, last) for message, last in zip(messages, before)]


def _said(message: RequestWire, last: RequestWire) -> RequestWire:
    if message["role"] != _REQUEST_FUNCTION or message.get("name") == _request_called(last):
        return message
    return {"role": "user", "content": message.get("content") or EMPTY}


def _request_called(message: RequestWire) -> Any:
    """The function that an answer calls in the legacy way."""
    return at(message, ("function_call", "name"))


def _system_messages(system: Any) -> list[dict[str, Any]]:
    """The system prompt as leading messages; what already is such a message stays as it is."""
    if not system:
        return []
    if isinstance(system, str):
        return [{"role": "system", "content": system}]
    given = plain(system)
    entries = given if isinstance(given, list) else [given]
    if all(isinstance(entry, dict) and {"role", "content"} <= entry.keys() for entry in entries):
        return [remove_marks(entry) for entry in entries]
    # One message per block: where the system prompt stands apart, each system message that led the
    # page is a block of it.
    return [_system_message(block) for block in text_blocks(entries)]


def _system_message(block: dict[str, Any]) -> dict[str, Any]:
    """A block that is nothing but text as text, any other as the only part of a content."""
    is_text = block.keys() <= {"type", "text"}
    content = block["text"] if is_text else [{"type": "text", **block}]
    return {"role": "system", "content": content}
