"""OpenAI Chat Completions, the way out: messages and blocks as this provider has them.

The usual form is what `parse` compares with, so `render` gives it back without a form. Images never
go into a `tool` message: they follow in a user message, once all results of the turn are out.
Neighbours: `openai_chat` is the way in, `form` fills in what is unusual.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from refold.core.model import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.dialects.foreign import media_as_note, opaque_as_text
from refold.dialects.form import Misfit, fill
from refold.dialects.wire import (
    EMPTY,
    copied,
    is_gone,
    is_text,
    plain_id,
    report,
    shown_text,
    text_within,
)

NAME = "openai_chat"
ID_LENGTH_MAX = 40


def render(messages: Sequence[Message], lost: list[str]) -> list[dict[str, Any]]:
    """Lawful messages in this wire format. What it cannot say is described in `lost`."""
    rendering = _Rendering(lost)
    out = rendering.out
    for message in messages:
        blocks = message.blocks
        if (
            len(blocks) == 1
            and message.form is None
            and type(blocks[0]) is Text
            and not rendering.held
        ):
            out.append({"role": message.role, "content": blocks[0].text})
        else:
            rendering.add(message)
    rendering.release()
    return out


class _Rendering:
    """One rendering under way. `held` waits until all results of a turn are out; `long` are ids
    over the length limit that a compatible server gave out itself, and so must see again."""

    def __init__(self, lost: list[str]) -> None:
        self.lost, self.out = lost, list[dict[str, Any]]()
        self.held: list[dict[str, Any]] = []
        self.long: set[str] = set()

    def add(self, message: Message) -> None:
        if message.dialect != NAME:
            message = _translated(message, self.lost)
        results = [block for block in message.blocks if type(block) is ToolResult]
        if results:
            self._add_results(message, results)
            return
        self.release()
        if message.role == "assistant" and message.dialect == NAME:
            calls = (block.id for block in message.blocks if type(block) is ToolCall)
            self.long.update(id for id in calls if len(id) > ID_LENGTH_MAX)
        self.out.append(self._message(message))

    def release(self) -> None:
        if self.held:
            self.out.extend(self.held)
            self.held = []

    def _add_results(self, message: Message, results: list[ToolResult]) -> None:
        alone = len(message.blocks) == 1
        for result in results:
            media = [part for part in result.content if type(part) is Media]
            one = (
                message
                if alone and not media
                else Message(role="tool", blocks=(result,), dialect=message.dialect)
            )
            self.out.append(self._message(one))
            if media:
                self._hold_media(result, media)
        rest = tuple(block for block in message.blocks if type(block) is not ToolResult)
        if rest:
            self.held.append(
                self._message(Message(role="user", blocks=rest, dialect=message.dialect))
            )

    def _hold_media(self, result: ToolResult, media: list[Media]) -> None:
        report(self.lost, f"media in the result of call {result.call} went into a user message")
        said = {"type": "text", "text": f"From the result of call {self._id(result.call)}:"}
        self.held.append({"role": "user", "content": [said, *map(own_part, media)]})

    def _message(self, message: Message) -> dict[str, Any]:
        if message.form is not None and message.dialect == NAME:
            try:
                return _with_content(fill(message.form, message.blocks, own_part, self._id))
            except Misfit:
                self._report_thinking(message)
        return _with_content(usual(message, self._id))

    def _report_thinking(self, message: Message) -> None:
        if any(type(block) is Thinking and not is_gone(block) for block in message.blocks):
            report(self.lost, "thinking of an edited message is not sent: its place is gone")

    def _id(self, id: str) -> str:
        return id if len(id) <= ID_LENGTH_MAX or id in self.long else plain_id(id, ID_LENGTH_MAX)


def _with_content(wire: dict[str, Any]) -> dict[str, Any]:
    """The message without empty parts, and never without content: the provider refuses both."""
    content = wire.get("content")
    if type(content) is list:
        content = wire["content"] = [
            part for part in content if part.get("type") != "text" or part.get("text")
        ] or None
    if content is None and not any(
        wire.get(key) for key in ("tool_calls", "function_call", "refusal", "audio")
    ):
        wire["content"] = "" if wire.get("role") in ("assistant", "tool") else EMPTY
    return wire


# --- from other providers ---


def _translated(message: Message, lost: list[str]) -> Message:
    """Another provider's message in blocks that can be said here."""
    source = message.dialect or "elsewhere"
    blocks = [
        made
        for block in message.blocks
        if (made := _translated_block(block, source, lost)) is not None
    ]
    return Message(
        role=message.role, blocks=_joined(blocks) if message.role == "assistant" else tuple(blocks)
    )


def _translated_block(block: Block, source: str, lost: list[str]) -> Block | None:
    match block:
        case Thinking():
            if not is_gone(block):
                report(lost, f"thinking from {source} is not sent to {NAME}")
            return None
        case Opaque():
            return opaque_as_text(block, source, lost)
        case Media():
            return _translated_media(block, source, lost)
        case ToolResult():
            if block.is_error:
                report(lost, f"{NAME} has no mark for a tool result that is an error")
            parts = (_translated_block(part, source, lost) for part in block.content)
            return replace(
                block, content=tuple(part for part in parts if isinstance(part, Text | Media))
            )
        case Text() | ToolCall():
            return block
        case _:
            assert_never(block)


def _translated_media(media: Media, source: str, lost: list[str]) -> Text | Media:
    # A file id is known only to the provider that gave it; a document needs a file name here.
    if not _is_sayable(media) or (media.file and not media.data and not media.url):
        return media_as_note(media, source, NAME, lost)
    if media.media == "document" and not media.name:
        return replace(media, name=f"document.{media.mime.rpartition('/')[2]}")
    return media


def _joined(blocks: list[Block]) -> tuple[Block, ...]:
    """An answer's separate texts as one, because many servers take only text there."""
    texts = [block.text for block in blocks if type(block) is Text and block.text]
    rest = [block for block in blocks if type(block) is not Text]
    return (Text("\n\n".join(texts)), *rest) if texts else tuple(rest)


# --- the usual form ---


def usual(message: Message, id: Callable[[str], str] = str) -> dict[str, Any]:
    """The message as this provider usually has it."""
    own = message.dialect == NAME
    first = message.blocks[0] if message.blocks else None
    if type(first) is ToolResult:
        return _usual_result(first, id(first.call), own)
    calls = [block for block in message.blocks if type(block) is ToolCall]
    content = [
        block
        for block in message.blocks
        if type(block) is not ToolCall and type(block) is not Thinking
    ]
    wire: dict[str, Any] = {"role": message.role, "content": _usual_content(content)}
    if calls:
        wire["tool_calls"] = [_usual_call(call, id(call.id), own) for call in calls]
    return wire


def _usual_content(blocks: Sequence[Block]) -> Any:
    if not blocks:
        return None
    if len(blocks) == 1 and is_text(blocks[0]):
        return shown_text(blocks[0])
    return [own_part(block) for block in blocks]


def _usual_call(call: ToolCall, id: str, own: bool) -> dict[str, Any]:
    """A call; an object as arguments is the simple shape if it came in this dialect, else text
    is made of it."""
    if isinstance(call.arguments, str):
        return {
            "id": id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
    if own:
        return {"id": id, "name": call.name, "arguments": copied(call.arguments)}
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"id": id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _usual_result(result: ToolResult, id: str, own: bool) -> dict[str, Any]:
    parts = [part for part in result.content if type(part) is not Media]
    text = _usual_content(parts) if own and len(parts) > 1 else text_within(parts)
    if not text and len(parts) < len(result.content):
        text = "[shown in the next user message]"
    return {"role": "tool", "tool_call_id": id, "content": text}


def own_part(block: Any) -> Any:
    """A block as a part of this provider's content; None for what has no place there."""
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Media():
            return _media_part(block)
        case Opaque():
            return (
                copied(block.raw) if block.raw is not None else {"type": "text", "text": block.text}
            )
        case ToolCall():
            return _usual_call(block, block.id, True)
        case ToolResult():
            return _usual_result(block, block.call, True)
        case _:
            return None


def _is_sayable(media: Media) -> bool:
    match media.media:
        case "image":
            return bool(media.data or media.url)
        case "audio":
            return bool(media.data)
        case _:
            return media.media == "document" and bool(media.data or media.file)


def _media_part(media: Media) -> dict[str, Any]:
    if not _is_sayable(media):
        return {"type": "text", "text": shown_text(media)}
    url = f"data:{media.mime};base64,{media.data}" if media.data else media.url
    if media.media == "image":
        return {
            "type": "image_url",
            "image_url": {"url": url} | ({"detail": media.detail} if media.detail else {}),
        }
    if media.media == "audio":
        return {
            "type": "input_audio",
            "input_audio": {"data": media.data, "format": media.mime.partition("/")[2]},
        }
    file = {"file_data": url} if media.data else {"file_id": media.file}
    return {"type": "file", "file": ({"filename": media.name} if media.name else {}) | file}
