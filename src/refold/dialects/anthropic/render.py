"""Anthropic Messages, the way out: messages and blocks as this provider has them.

All results of a turn go back in one user message, results first, in the order of their calls.
Thinking goes back only if Anthropic signed it. Nothing is empty: blank texts are left out, and what
would be empty says so. Neighbours: `parse` is the way in, `form` fills in what is unusual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from refold.core.model import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.dialects import MARKED
from refold.dialects.anthropic.marks import with_came
from refold.dialects.anthropic.repair import NAME, is_blank, repaired
from refold.dialects.foreign import Accepts, media_as_note, translated, with_object
from refold.dialects.form import filled
from refold.dialects.system import system_text
from refold.dialects.wire import (
    EMPTY,
    copied,
    is_gone,
    is_text,
    only_text,
    plain_id,
    present,
    report,
    shown_text,
    text_within,
)

# A role that this provider does not have: what another provider's system said. `request` sees the
# whole page and gives it its place, in the system prompt or in a user message.
ELSEWHERE = "developer"
_ID_LENGTH_MAX = 1_000


def render(messages: Sequence[Message], lost: list[str]) -> list[dict[str, Any]]:
    """Lawful messages in this wire format. What it cannot say is described in `lost`."""
    rendering = _Rendering(lost)
    for message in messages:
        text = only_text(message)
        if text is not None and message.role == "user":
            rendering.add_text(text.text)
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
        self.out.append({"role": "user", "content": EMPTY if is_blank(text) else text})

    def add(self, message: Message) -> None:
        own = message.dialect == NAME
        if message.role == "system" and not own:
            self._add_system(message)
            return
        accepted = _signed(message, self.lost) if own else translated(message, _ACCEPTS, self.lost)
        wire = repaired(_wire(accepted), self.lost)
        if ToolResult in map(type, accepted.blocks):
            self._add_results(wire, as_it_came=own)
        else:
            self.merging = False
            self.out.append(wire)

    def _add_system(self, message: Message) -> None:
        """Another provider's system message, for `request` to give it its place."""
        text = system_text(translated(message, _ACCEPTS, self.lost))
        self.merging = False
        self.out.append({"role": ELSEWHERE, "content": text})

    def _add_results(self, wire: dict[str, Any], *, as_it_came: bool) -> None:
        """Joins results with those that are out; alone, the provider's own stay as they came."""
        if not self.merging:
            self.merging = True
            wire["content"] = self._results_first(wire["content"], as_it_came=as_it_came)
            self.out.append(wire)
            return
        last = self.out[-1]
        content = self._results_first(last["content"] + wire["content"])
        self.out[-1] = {**wire, **last, "content": content}

    def _results_first(
        self, content: list[dict[str, Any]], *, as_it_came: bool = False
    ) -> list[dict[str, Any]]:
        """Results first; in the order of the calls, unless the provider's own user sent them in
        another."""
        if len(content) == 1:
            return content
        results = [part for part in content if part.get("type") == "tool_result"]
        rest = [part for part in content if part.get("type") != "tool_result"]
        if not as_it_came:
            order = {id: index for index, id in enumerate(self._calls())}
            results.sort(key=lambda part: order.get(part["tool_use_id"], len(order)))
        return results + rest

    def _calls(self) -> list[str]:
        """The ids that the last assistant message out calls."""
        answers = (wire["content"] for wire in reversed(self.out) if wire["role"] == "assistant")
        content = next(answers, None)
        if not isinstance(content, list):
            return []
        return [part["id"] for part in content if part.get("type") == "tool_use"]


def _wire(message: Message) -> dict[str, Any]:
    """The message in its own form, or else in the usual one."""
    own: dict[str, Any] | None = filled(message, own_part, _id)
    wire = usual(message) if own is None else own
    if message.role == "tool":  # whoever the caller said gave the results
        wire["role"] = "user"
    if MARKED in message.metadata and not any(map(is_gone, message.blocks)):
        wire["content"] = with_came(wire["content"], message.metadata[MARKED])
    return wire


def _id(id: str) -> str:
    return plain_id(id, _ID_LENGTH_MAX)


# --- what may be sent ---


def _signed(message: Message, lost: list[str]) -> Message:
    """An own message without thinking that was never signed, and with objects as arguments."""
    if message.role != "assistant" or not any(map(_is_refused, message.blocks)):
        return message
    return replace(message, blocks=tuple(_accepted(block, lost) for block in message.blocks))


def _is_refused(block: Block) -> bool:
    """Whether the provider would refuse the block, although it came from there."""
    if type(block) is Thinking:
        return not (block.signature or block.data)
    return type(block) is ToolCall and type(block.arguments) is str


def _accepted(block: Block, lost: list[str]) -> Block:
    if not _is_refused(block):
        return block
    if type(block) is ToolCall:
        return with_object(block, lost)
    if not is_gone(block):
        report(lost, "thinking without a signature is not sent")
    return Thinking()


def _translated_media(media: Media, source: str, lost: list[str]) -> Text | Media:
    if _is_sayable(media):
        return media
    return media_as_note(media, source, NAME, lost)


def _is_sayable(media: Media) -> bool:
    """Whether another provider's media can be said here: a file id is known only to the provider
    that gave it."""
    if media.media == "image":
        return bool(media.data or media.url)
    if media.media != "document":
        return False
    return bool(media.url or (media.data and media.mime == "application/pdf"))


_ACCEPTS = Accepts(name=NAME, media=_translated_media, call=with_object, marks_errors=True)


# --- the usual form ---


def usual(message: Message) -> dict[str, Any]:
    """The message as this provider usually has it."""
    role = "user" if message.role == "tool" else message.role
    blocks = message.blocks
    if len(blocks) == 1 and role != "assistant" and is_text(blocks[0]):
        return {"role": role, "content": shown_text(blocks[0])}
    said = (block for block in blocks if not is_gone(block))
    return {"role": role, "content": present(map(own_part, said))}


def own_part(block: Any) -> Any:
    """A block as a part of this provider's content."""
    match block:
        case Text():
            return _text_part(block.text)
        case ToolCall():
            return _call_part(block)
        case ToolResult():
            return _result_part(block)
        case Thinking():
            return _thinking_part(block)
        case Media():
            return _media_part(block)
        case Opaque():
            return _text_part(block.text) if block.raw is None else copied(block.raw)


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _call_part(call: ToolCall) -> dict[str, Any]:
    """A call, its id in characters that the provider takes."""
    arguments = copied(call.arguments)
    return {"type": "tool_use", "id": _id(call.id), "name": call.name, "input": arguments}


def _thinking_part(thinking: Thinking) -> dict[str, Any]:
    """Thinking with its signature, or what stands for it where it was redacted."""
    if thinking.data:
        return {"type": "redacted_thinking", "data": thinking.data}
    return {"type": "thinking", "thinking": thinking.text, "signature": thinking.signature}


def _result_part(result: ToolResult) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "tool_result", "tool_use_id": _id(result.call)}
    content = result.content
    if len(content) == 1 and is_text(content[0]):
        part["content"] = text_within(content)
    elif content:
        said = (item for item in content if not (is_text(item) and is_blank(item.text)))
        part["content"] = list(map(own_part, said))
    if result.is_error:
        part["is_error"] = True
    return part


def _media_part(media: Media) -> dict[str, Any]:
    """Media with its source, and its name as the title."""
    part = {"type": media.media, "source": _source(media)}
    return {**part, "title": media.name} if media.name else part


def _source(media: Media) -> dict[str, Any]:
    if media.data:
        return {"type": "base64", "media_type": media.mime, "data": media.data}
    if media.url:
        return {"type": "url", "url": media.url}
    return {"type": "file", "file_id": media.file}
