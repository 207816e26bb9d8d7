"""OpenAI Chat Completions, the way out: messages and blocks as this provider has them.

The usual form is what `parse` compares with, so `render` gives it back without a form. Images never
go into a `tool` message: they follow in a user message, once all results of the turn are out.
Neighbours: `parse` is the way in, `form` fills in what is unusual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refold.core.model import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.dialects.foreign import (
    Accepts,
    as_it_is,
    media_as_note,
    translated,
    with_file_name,
)
from refold.dialects.form import Rename, filled
from refold.dialects.openai_chat.repair import NAME, repaired
from refold.dialects.repair import argument_text
from refold.dialects.wire import (
    copied,
    data_url,
    is_gone,
    is_text,
    plain_id,
    report,
    shown_text,
    text_within,
)

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
