"""Anthropic Messages, repaired: a message that came with blocks that the provider refuses goes out
with blocks that it takes.

Nothing is empty: blank texts are left out, also inside results, and what would be empty says so.
Media that is not whole, or stands where the provider takes none, is said as a note. Neighbours:
`render` sends every message through here, `dialects.repair` has what the dialects share.
"""

from __future__ import annotations

from typing import Any

from refold.dialects.repair import KNOWN_PARTS, fitting_name, is_base64, refused_text
from refold.dialects.wire import EMPTY, present, report

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
