"""Rendering of Anthropic Messages: messages and blocks as the provider accepts them.

All results of a turn go into one user message, before any other block, in the order of their calls.
Thinking is sent only if Anthropic signed it. Every message is repaired: blank text is left out,
empty content becomes "(empty)", and refused media becomes a note. Call ids are made distinct per
page, because servers that count calls from zero in every turn repeat them. Neighbours: `parse` is
the way in, `original_form` restores unusual shapes, `request` sees the whole page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from refold.core.model import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.dialects import MARKED
from refold.dialects.anthropic.cache_marks import with_came
from refold.dialects.original_form import filled
from refold.dialects.wire import (
    EMPTY,
    KNOWN_PARTS,
    Accepts,
    copied,
    fitting_name,
    is_base64,
    is_gone,
    is_text,
    media_as_note,
    only_text,
    plain_id,
    present,
    refused_text,
    report,
    shown_text,
    system_text,
    text_within,
    translated,
    with_object,
)

NAME = "anthropic"
_NAME_LENGTH_MAX = 128
_MEDIA = ("image", "document")
_THINKING = ("thinking", "redacted_thinking")
# Fields of other providers' messages, which may be in a message that could be anyone's.
_NOT_FIELDS = frozenset({"name", "audio", "annotations", "refusal", "id", "status", "phase"})
_NOT_INSIDE = ("tool_use", "tool_result", *_THINKING)
# Required fields of each kind of source.
_SOURCES = {
    "base64": ("media_type", "data"), "url": ("url",), "file": ("file_id",),
    "text": ("media_type", "data"), "content": ("content",),
}  # fmt: skip

Wire = dict[str, Any]


# --- repair ---


def repaired(wire: Wire, lost: list[str]) -> Wire:
    """The message as the provider accepts it; valid content stays unchanged."""
    for key in _NOT_FIELDS.intersection(wire):
        del wire[key]
        report(lost, f"{key} of a message is not sent: {NAME} has no such field")
    content = wire.get("content")
    if type(content) is list:
        blocks = present(_block(block, wire["role"], lost) for block in content)
        wire["content"] = blocks or [_text_part(EMPTY)]
    elif is_blank(content):
        wire["content"] = EMPTY
    elif type(content) is not str:
        wire["content"] = refused_text(content, NAME, lost) or EMPTY
    return wire


def is_blank(text: Any) -> bool:
    """Whether the text is missing, empty or white space."""
    return not text or (type(text) is str and text.isspace())


def _block(block: Any, role: str, lost: list[str]) -> Wire | None:
    """A block of a message as the provider accepts it, or None."""
    kind = block.get("type") if type(block) is dict else None
    if kind == "tool_use":
        name = fitting_name(block.get("name"), NAME, _NAME_LENGTH_MAX, lost)
        return block if name == block["name"] else {**block, "name": name}
    if kind == "tool_result":
        return _result(block, lost)
    if kind not in _THINKING:
        return _content_block(block, kind, role, lost)
    # Thinking is accepted only with its signature, and only from the model.
    seal = block.get("signature" if kind == "thinking" else "data")
    is_complete = kind != "thinking" or type(block.get("thinking")) is str
    if role == "assistant" and type(seal) is str and seal and is_complete:
        return block  # type: ignore[no-any-return]
    report(lost, "thinking without a signature is not sent")
    return None


def _content_block(block: Any, kind: Any, role: str, lost: list[str]) -> Wire | None:
    """A text or media block, or None; a block of an unknown type stays unchanged."""
    if kind == "text":
        has_text = type(block.get("text")) is str and not is_blank(block["text"])
        return block if has_text else None
    is_unknown = type(kind) is str and kind not in KNOWN_PARTS
    if is_unknown or (kind in _MEDIA and role == "user" and _has_source(block)):
        return block  # type: ignore[no-any-return]
    text = refused_text(block, NAME, lost)
    return None if is_blank(text) else _text_part(text)


def _has_source(block: Wire) -> bool:
    """Whether media has a complete source of a known kind."""
    source = block.get("source")
    kind = source.get("type") if type(source) is dict else None
    if type(source) is not dict or type(kind) is not str:
        return False
    if not all(source.get(field) for field in _SOURCES.get(kind, ())):
        return False
    return kind in _SOURCES and (kind != "base64" or is_base64(source["data"]))


def _result(block: Wire, lost: list[str]) -> Wire:
    """A result whose content is text or blocks, none of them empty."""
    result = dict(block)
    if "is_error" in result and type(result["is_error"]) is not bool:
        del result["is_error"]
    content = result.get("content")
    if type(content) is list:
        parts = present(_inner(part, lost) for part in content)
        result["content"] = parts if parts or not content else ""
    elif content is None:
        result.pop("content", None)
    elif type(content) is not str:
        result["content"] = refused_text(content, NAME, lost)
    return result


def _inner(part: Any, lost: list[str]) -> Wire | None:
    """A block inside a result."""
    kind = part.get("type") if type(part) is dict else None
    if kind not in _NOT_INSIDE:
        return _content_block(part, kind, "user", lost)
    text = refused_text(part, NAME, lost)
    return None if is_blank(text) else _text_part(text)


# --- messages ---

# The role of another provider's system messages, which Anthropic does not have. `request` sees the
# whole page and moves them to the system prompt or into a user message.
ELSEWHERE = "developer"
_ID_LENGTH_MAX = 1_000


def render(messages: Sequence[Message], lost: list[str]) -> list[dict[str, Any]]:
    """Lawful messages in this wire format. Content that it cannot express is added to `lost`."""
    rendering = _Rendering(lost)
    for message in messages:
        text = only_text(message)
        if text is not None and message.role == "user":
            rendering.append(
                {"role": "user", "content": EMPTY if is_blank(text.text) else text.text}
            )
        else:
            rendering.add(message)
    return rendering.out


class _Rendering:
    """One rendering. While `merging`, the last message in `out` has results, and more join it."""

    def __init__(self, lost: list[str]) -> None:
        self.lost, self.out = lost, list[dict[str, Any]]()
        self.merging = False

    def append(self, wire: dict[str, Any]) -> None:
        self.merging = False
        self.out.append(wire)

    def add(self, message: Message) -> None:
        own = message.dialect == NAME
        if message.role == "system" and not own:
            text = system_text(translated(message, _ACCEPTS, self.lost))
            self.append({"role": ELSEWHERE, "content": text})
            return
        accepted = _signed(message, self.lost) if own else translated(message, _ACCEPTS, self.lost)
        wire = repaired(_wire(accepted), self.lost)
        if ToolResult not in map(type, accepted.blocks):
            self.append(wire)
        elif self.merging:
            last = self.out[-1]
            content = self._results_first(last["content"] + wire["content"], keep_order=False)
            self.out[-1] = {**wire, **last, "content": content}
        else:
            # Within a single message, a user of this provider may have chosen another order.
            wire["content"] = self._results_first(wire["content"], keep_order=own)
            self.append(wire)
            self.merging = True

    def _results_first(
        self, content: list[dict[str, Any]], *, keep_order: bool
    ) -> list[dict[str, Any]]:
        """The content with results first, in the order of the last answer's calls unless
        `keep_order`."""
        if len(content) == 1:
            return content
        results = [part for part in content if part.get("type") == "tool_result"]
        rest = [part for part in content if part.get("type") != "tool_result"]
        if not keep_order:
            answers = (
                wire["content"] for wire in reversed(self.out) if wire["role"] == "assistant"
            )
            answer = next(answers, None)
            parts = answer if isinstance(answer, list) else []
            calls = [part["id"] for part in parts if part.get("type") == "tool_use"]
            order = {id: index for index, id in enumerate(calls)}
            results.sort(key=lambda part: order.get(part["tool_use_id"], len(order)))
        return results + rest


def _wire(message: Message) -> dict[str, Any]:
    """The message in its own form if it has one, else in the usual form."""
    own: dict[str, Any] | None = filled(message, own_part, _id)
    wire = usual(message) if own is None else own
    if message.role == "tool":  # results belong to the user, whatever role the caller set
        wire["role"] = "user"
    if MARKED in message.metadata and not any(map(is_gone, message.blocks)):
        wire["content"] = with_came(wire["content"], message.metadata[MARKED])
    return wire


def _id(id: str) -> str:
    return plain_id(id, _ID_LENGTH_MAX)


# --- content that may be sent ---


def _signed(message: Message, lost: list[str]) -> Message:
    """An own message without unsigned thinking, and with arguments as objects."""
    if message.role != "assistant" or not any(map(_is_refused, message.blocks)):
        return message
    blocks: list[Block] = []
    for block in message.blocks:
        if not _is_refused(block):
            blocks.append(block)
        elif type(block) is ToolCall:
            blocks.append(with_object(block, lost))
        else:
            if not is_gone(block):
                report(lost, "thinking without a signature is not sent")
            blocks.append(Thinking())
    return replace(message, blocks=tuple(blocks))


def _is_refused(block: Block) -> bool:
    """Whether the provider would refuse a block of one of its own messages."""
    if type(block) is Thinking:
        return not (block.signature or block.data)
    return type(block) is ToolCall and type(block.arguments) is str


def _translated_media(media: Media, source: str, lost: list[str]) -> Text | Media:
    """Another provider's media. A file id means nothing here, and only PDF documents are accepted
    as data."""
    is_image, is_document = media.media == "image", media.media == "document"
    if media.url and (is_image or is_document):
        return media
    if media.data and (is_image or (is_document and media.mime == "application/pdf")):
        return media
    return media_as_note(media, source, NAME, lost)


_ACCEPTS = Accepts(name=NAME, media=_translated_media, call=with_object, marks_errors=True)


# --- the usual form ---


def usual(message: Message) -> dict[str, Any]:
    """The message in the provider's usual form."""
    role = "user" if message.role == "tool" else message.role
    blocks = message.blocks
    if len(blocks) == 1 and role != "assistant" and is_text(blocks[0]):
        return {"role": role, "content": shown_text(blocks[0])}
    remaining = (block for block in blocks if not is_gone(block))
    return {"role": role, "content": present(map(own_part, remaining))}


def own_part(block: Any) -> Any:
    """A block as a part of this provider's content."""
    match block:
        case Text():
            return _text_part(block.text)
        case ToolCall(id=id, name=name):
            arguments = copied(block.arguments)
            return {"type": "tool_use", "id": _id(id), "name": name, "input": arguments}
        case ToolResult():
            return _result_part(block)
        case Thinking(text=text, signature=signature):
            if block.data:
                return {"type": "redacted_thinking", "data": block.data}
            return {"type": "thinking", "thinking": text, "signature": signature}
        case Media():
            return _media_part(block)
        case Opaque():
            return _text_part(block.text) if block.raw is None else copied(block.raw)


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _result_part(result: ToolResult) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "tool_result", "tool_use_id": _id(result.call)}
    content = result.content
    if len(content) == 1 and is_text(content[0]):
        part["content"] = text_within(content)
    elif content:
        items = (item for item in content if not (is_text(item) and is_blank(item.text)))
        part["content"] = list(map(own_part, items))
    if result.is_error:
        part["is_error"] = True
    return part


def _media_part(media: Media) -> dict[str, Any]:
    """Media with its source, and its name as the title."""
    source = {"type": "file", "file_id": media.file}
    if media.data:
        source = {"type": "base64", "media_type": media.mime, "data": media.data}
    elif media.url:
        source = {"type": "url", "url": media.url}
    part = {"type": media.media, "source": source}
    return {**part, "title": media.name} if media.name else part


# --- distinct call ids ---


def distinct(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with distinct call ids, changed only on copies. A repeated id gets a number, and
    so does its result; the same page always gets the same ids."""
    # One walk without calls, because this runs for every page.
    contents = [content for wire in messages if type(content := wire.get("content")) is list]
    ids = [part["id"] for content in contents for part in content if part.get("type") == "tool_use"]
    if len(set(ids)) == len(ids):
        return messages
    taken = set(ids)
    names: dict[str, str] = {}  # of the newest call with each id
    renamed = []
    for message in messages:
        content = message.get("content")
        parts = []
        for part in content if isinstance(content, list) else ():
            kind = part.get("type")
            if kind == "tool_use":
                part = {**part, "id": _next_name(part["id"], names, taken)}
            elif kind == "tool_result":
                id = part["tool_use_id"]
                part = {**part, "tool_use_id": names.get(id, id)}
            parts.append(part)
        renamed.append({**message, "content": parts} if parts else message)
    return renamed


def _next_name(id: str, names: dict[str, str], taken: set[str]) -> str:
    """The name of the next call with this id: the id itself, or with the next free number."""
    name = id
    if id in names:
        number = 2
        while f"{id}_{number}" in taken:
            number += 1
        name = f"{id}_{number}"
    taken.add(name)
    names[id] = name
    return name
