"""Anthropic Messages, the way out: messages and blocks as this provider has them.

All results of a turn go back in one user message, results first, in the order of their calls.
Thinking goes back only if Anthropic signed it. Nothing is empty: blank texts are left out, and what
would be empty says so. Neighbours: `parse` is the way in, `form` fills in what is unusual.

Call ids once per page. Anthropic refuses a page on which two calls have the same id; other
providers, and servers that count their calls from zero in every turn, give such ids out.

A repeated id gets a number after it, and so does its result; the same page always gets the same
ids. Nothing is changed where ids are distinct already, as Anthropic's own are. Neighbour:
`request` calls this for every page.

Anthropic Messages, repaired: a message that came with blocks that the provider refuses goes out
with blocks that it takes.

Nothing is empty: blank texts are left out, also inside results, and what would be empty says so.
Media that is not whole, or stands where the provider takes none, is said as a note. Neighbours:
`render` sends every message through here, `dialects.repair` has what the dialects share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from refold.core.model import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.dialects import MARKED
from refold.dialects.anthropic.marks import with_came
from refold.dialects.form import filled
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
_NOT_INSIDE = ("tool_use", "tool_result", *_THINKING)
# What a source of each kind needs.
_SOURCES = {
    "base64": ("media_type", "data"), "url": ("url",), "file": ("file_id",),
    "text": ("media_type", "data"), "content": ("content",),
}  # fmt: skip

Wire = dict[str, Any]


def repaired(wire: Wire, lost: list[str]) -> Wire:
    """The message as the provider takes it; what was valid stays as it is."""
    content = wire.get("content")
    if type(content) is list:
        kept = present(_block(block, wire["role"], lost) for block in content)
        wire["content"] = kept or [_text_block(EMPTY)]
    elif is_blank(content):
        wire["content"] = EMPTY
    elif type(content) is not str:
        wire["content"] = refused_text(content, NAME, lost) or EMPTY
    return wire


def is_blank(text: Any) -> bool:
    """Whether a text says nothing."""
    return not text or (type(text) is str and text.isspace())


def _block(block: Any, role: str, lost: list[str]) -> Wire | None:
    """A block of a message as the provider takes it; None for nothing."""
    kind = block.get("type") if type(block) is dict else None
    match kind:
        case "tool_use":
            name = fitting_name(block.get("name"), NAME, _NAME_LENGTH_MAX, lost)
            return block if name == block["name"] else {**block, "name": name}
        case "tool_result":
            return _result(block, lost)
        case "thinking" | "redacted_thinking":
            return _thinking(block, kind, role, lost)
        case _:
            return _said(block, kind, role, lost)


def _said(block: Any, kind: Any, role: str, lost: list[str]) -> Wire | None:
    """A text or media; what nobody knows yet is carried as it is."""
    if kind == "text":
        is_said = type(block.get("text")) is str and not is_blank(block["text"])
        return block if is_said else None
    is_unknown = type(kind) is str and kind not in KNOWN_PARTS
    if is_unknown or (kind in _MEDIA and role == "user" and _has_source(block)):
        return block  # type: ignore[no-any-return]
    text = refused_text(block, NAME, lost)
    return None if is_blank(text) else _text_block(text)


def _text_block(text: str) -> Wire:
    return {"type": "text", "text": text}


def _has_source(block: Wire) -> bool:
    """Whether media says where its content is, and has it."""
    source = block.get("source")
    kind = source.get("type") if type(source) is dict else None
    if type(source) is not dict or type(kind) is not str:
        return False
    if not all(source.get(field) for field in _SOURCES.get(kind, ())):
        return False
    return kind in _SOURCES and (kind != "base64" or is_base64(source["data"]))


def _thinking(block: Wire, kind: str, role: str, lost: list[str]) -> Wire | None:
    """Thinking that the provider signed, where the model says it."""
    fields = ("signature",) if kind == "thinking" else ("data",)
    is_whole = all(type(block.get(field)) is str and block[field] for field in fields)
    is_text = kind != "thinking" or type(block.get("thinking")) is str
    if role == "assistant" and is_whole and is_text:
        return block
    report(lost, "thinking without a signature is not sent")
    return None


# --- results ---


def _result(block: Wire, lost: list[str]) -> Wire:
    """A result whose content is text or blocks, none of them empty."""
    kept = {key: value for key, value in block.items() if not _is_void(key, value)}
    content = kept.get("content")
    if type(content) is list:
        said = present(_inner(part, lost) for part in content)
        kept["content"] = said if said or not content else ""
    elif content is not None and type(content) is not str:
        kept["content"] = refused_text(content, NAME, lost)
    return kept


def _is_void(key: str, value: Any) -> bool:
    """Whether a field of a result says nothing and must not be there."""
    if key == "is_error":
        return type(value) is not bool
    return key == "content" and value is None


def _inner(part: Any, lost: list[str]) -> Wire | None:
    """A block inside a result."""
    kind = part.get("type") if type(part) is dict else None
    if kind not in _NOT_INSIDE:
        return _said(part, kind, "user", lost)
    text = refused_text(part, NAME, lost)
    return None if is_blank(text) else _text_block(text)


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


_CALL = "tool_use"
_FIELDS = {_CALL: "id", "tool_result": "tool_use_id"}


def distinct(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with distinct call ids; those given are never changed."""
    # One walk without calls: this is done for every page.
    contents = [content for one in messages if type(content := one.get("content")) is list]
    ids = [part["id"] for content in contents for part in content if part.get("type") == _CALL]
    if len(set(ids)) == len(ids):
        return messages
    names = _Names(ids)
    return [_renamed(message, names) for message in messages]


class _Names:
    """The names that ids have come to stand for, one call after the other."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.taken = set(ids)
        self.now: dict[str, str] = {}

    def of_call(self, id: str) -> str:
        """A name for the next call with this id."""
        name = self._free(id) if id in self.now else id
        self.taken.add(name)
        self.now[id] = name
        return name

    def _free(self, id: str) -> str:
        number = 2
        while f"{id}_{number}" in self.taken:
            number += 1
        return f"{id}_{number}"

    def of_result(self, id: str) -> str:
        """The name of the call that a result with this id answers."""
        return self.now.get(id, id)


def _renamed(message: dict[str, Any], names: _Names) -> dict[str, Any]:
    parts = [_renamed_part(part, names) for part in _parts(message)]
    return {**message, "content": parts} if parts else message


def _renamed_part(part: dict[str, Any], names: _Names) -> dict[str, Any]:
    field = _FIELDS.get(part.get("type", ""))
    if field is None:
        return part
    id = part[field]
    name = names.of_call(id) if field == "id" else names.of_result(id)
    return part if name == id else {**part, field: name}


def _parts(message: dict[str, Any]) -> Sequence[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else ()
