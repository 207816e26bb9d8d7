"""Anthropic Messages, the way out: messages and blocks as this provider has them.

All results of a turn go back in one user message, results first, in the order of their calls.
Thinking goes back only if Anthropic signed it. Nothing is empty: blank texts are left out, and what
would be empty says so. Neighbours: `anthropic` is the way in, `form` fills in what is unusual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from refold.core.model import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.dialects.foreign import media_as_note, opaque_as_text, said_by_system, with_object
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

NAME = "anthropic"
# A role that this provider does not have: what another provider's system said. `request` sees the
# whole page and gives it its place, in the system prompt or in a user message.
ELSEWHERE = "developer"
_ID_LENGTH_MAX = 1_000


def render(messages: Sequence[Message], lost: list[str]) -> list[dict[str, Any]]:
    """Lawful messages in this wire format. What it cannot say is described in `lost`."""
    rendering = _Rendering(lost)
    for message in messages:
        blocks = message.blocks
        if (
            len(blocks) == 1
            and message.form is None
            and message.role == "user"
            and type(blocks[0]) is Text
        ):
            rendering.add_text(blocks[0].text)
        else:
            rendering.add(message)
    return rendering.out


class _Rendering:
    """One rendering under way. `merging`: the last message out holds results, more of them join
    it."""

    def __init__(self, lost: list[str]) -> None:
        self.lost, self.out = lost, list[dict[str, Any]]()
        self.merging = False

    def add_text(self, text: str) -> None:
        self.merging = False
        self.out.append({"role": "user", "content": EMPTY if _is_blank(text) else text})

    def add(self, message: Message) -> None:
        own = message.dialect == NAME
        message = _signed(message, self.lost) if own else _translated(message, self.lost)
        if message.role == "system" and not own:
            self.merging = False
            self.out.append({"role": ELSEWHERE, "content": said_by_system(message)})
            return
        wire = _with_content(_wire(message))
        if not any(type(block) is ToolResult for block in message.blocks):
            self.merging = False
            self.out.append(wire)
        elif self.merging:
            self.out[-1] = {
                **wire,
                **self.out[-1],
                "content": self._ordered(self.out[-1]["content"] + wire["content"]),
            }
        else:
            self.merging = True
            wire["content"] = self._ordered(wire["content"], as_it_came=own)
            self.out.append(wire)

    def _ordered(
        self, content: list[dict[str, Any]], *, as_it_came: bool = False
    ) -> list[dict[str, Any]]:
        """Results first; in the order of the calls, unless the provider's own user sent them in
        another."""
        if len(content) == 1:
            return content
        results = [part for part in content if part.get("type") == "tool_result"]
        if not as_it_came:
            order = {id: index for index, id in enumerate(self._calls())}
            results.sort(key=lambda part: order.get(part["tool_use_id"], len(order)))
        return results + [part for part in content if part.get("type") != "tool_result"]

    def _calls(self) -> list[str]:
        """The ids that the last assistant message out calls."""
        answer = next((wire for wire in reversed(self.out) if wire["role"] == "assistant"), None)
        parts = answer["content"] if answer and isinstance(answer["content"], list) else []
        return [part["id"] for part in parts if part.get("type") == "tool_use"]


def _wire(message: Message) -> dict[str, Any]:
    if message.form is None or message.dialect != NAME:
        return usual(message)
    try:
        filled: dict[str, Any] = fill(message.form, message.blocks, own_part, _id)
    except Misfit:
        return usual(message)
    return filled


def _id(id: str) -> str:
    return plain_id(id, _ID_LENGTH_MAX)


def _is_blank(text: Any) -> bool:
    return not text or (type(text) is str and text.isspace())


def _with_content(wire: dict[str, Any]) -> dict[str, Any]:
    """The message without blank texts, and never empty: the provider refuses both."""
    content = wire.get("content")
    if type(content) is list:
        kept = [
            part
            for part in content
            if part.get("type") != "text" or not _is_blank(part.get("text"))
        ]
        wire["content"] = kept or [{"type": "text", "text": EMPTY}]
    elif _is_blank(content):
        wire["content"] = EMPTY
    return wire


# --- what may be sent ---


def _signed(message: Message, lost: list[str]) -> Message:
    """An own message without thinking that was never signed, and with objects as arguments."""
    if message.role != "assistant" or not any(map(_is_unsound, message.blocks)):
        return message
    blocks = tuple(_sound(block, lost) if _is_unsound(block) else block for block in message.blocks)
    return replace(message, blocks=blocks)


def _is_unsound(block: Block) -> bool:
    if type(block) is Thinking:
        return not (block.signature or block.data)
    return type(block) is ToolCall and type(block.arguments) is str


def _sound(block: Block, lost: list[str]) -> Block:
    if type(block) is ToolCall:
        return with_object(block, lost)
    if not is_gone(block):
        report(lost, "thinking without a signature is not sent")
    return Thinking()


def _translated(message: Message, lost: list[str]) -> Message:
    """Another provider's message in blocks that can be said here."""
    source = message.dialect or "elsewhere"
    blocks = (_translated_block(block, source, lost) for block in message.blocks)
    return Message(role=message.role, blocks=tuple(block for block in blocks if block is not None))


def _translated_block(block: Block, source: str, lost: list[str]) -> Block | None:
    match block:
        case Text():
            return block
        case ToolCall():
            return with_object(block, lost)
        case ToolResult():
            parts = (_translated_block(part, source, lost) for part in block.content)
            return replace(
                block, content=tuple(part for part in parts if isinstance(part, Text | Media))
            )
        case Thinking():
            if not is_gone(block):
                report(lost, f"thinking from {source} is not sent to {NAME}")
            return None
        case Opaque():
            return opaque_as_text(block, source, lost)
        case Media():
            if _is_sayable(block):
                return block
            return media_as_note(block, source, NAME, lost)
        case _:
            assert_never(block)


def _is_sayable(media: Media) -> bool:
    """Whether another provider's media can be said here: a file id is known only to the provider
    that gave it."""
    if media.media == "image":
        return bool(media.data or media.url)
    return media.media == "document" and bool(
        media.url or (media.data and media.mime == "application/pdf")
    )


# --- the usual form ---


def usual(message: Message) -> dict[str, Any]:
    """The message as this provider usually has it."""
    role = "user" if message.role == "tool" else message.role
    blocks = message.blocks
    if len(blocks) == 1 and role != "assistant" and is_text(blocks[0]):
        return {"role": role, "content": shown_text(blocks[0])}
    parts = (own_part(block) for block in blocks if not is_gone(block))
    return {"role": role, "content": [part for part in parts if part is not None]}


def own_part(block: Any) -> Any:
    """A block as a part of this provider's content."""
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case ToolCall():
            return {
                "type": "tool_use",
                "id": _id(block.id),
                "name": block.name,
                "input": copied(block.arguments),
            }
        case ToolResult():
            return _result_part(block)
        case Thinking():
            if block.data:
                return {"type": "redacted_thinking", "data": block.data}
            return {"type": "thinking", "thinking": block.text, "signature": block.signature}
        case Media():
            title = {"title": block.name} if block.name else {}
            return {"type": block.media, "source": _source(block)} | title
        case Opaque():
            return (
                copied(block.raw) if block.raw is not None else {"type": "text", "text": block.text}
            )


def _result_part(result: ToolResult) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "tool_result", "tool_use_id": _id(result.call)}
    if len(result.content) == 1 and is_text(result.content[0]):
        part["content"] = text_within(result.content)
    elif result.content:
        part["content"] = [
            own_part(item)
            for item in result.content
            if not (is_text(item) and _is_blank(item.text))
        ]
    if result.is_error:
        part["is_error"] = True
    return part


def _source(media: Media) -> dict[str, Any]:
    if media.data:
        return {"type": "base64", "media_type": media.mime, "data": media.data}
    if media.url:
        return {"type": "url", "url": media.url}
    return {"type": "file", "file_id": media.file}
