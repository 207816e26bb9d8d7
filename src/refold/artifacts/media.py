"""Images and documents in what a tool gave: found, and taken out of the value around them.

Bytes that are a picture or a PDF, and the parts by which providers and MCP servers hand media over,
become `Media` blocks; a gap that names the artifact stays in their place, so that the value can be
made whole again. Text stays text, whatever it encodes. What no provider takes (too large, too many
pixels, unreadable) is not shown as media. Neighbours: `output` asks, `dialects` read the parts,
`values` writes the gaps.
"""

from __future__ import annotations

import binascii
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from refold import dialects
from refold.artifacts.values import Gap
from refold.core.codec import artifact_id, content_hasher
from refold.core.model import Media
from refold.errors import Invalid
from refold.tokens.media import image_size

PDF = "application/pdf"
# What every provider takes that takes images at all.
IMAGE_BYTES_MAX, IMAGE_SIDE_MAX, DOCUMENT_BYTES_MAX = 3_750_000, 8_000, 8_000_000
INLINE_CHARS_MAX = 12_000_000  # of base64 in one result: an event must hold it
NODES_MAX, DEPTH_MAX = 2_000, 8
_MAGIC = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"),
          (b"GIF8", "image/gif"), (b"%PDF-", PDF))  # fmt: skip
_PART_TYPES = frozenset({
    "image", "document", "image_url", "file", "input_audio", "input_image", "input_file", "audio",
    "resource",
})  # fmt: skip
_PART_KEYS = frozenset({"inlineData", "inline_data", "fileData", "file_data"})


class Found(Struct, frozen=True, kw_only=True):
    """Media in an output. `content` has its bytes, if they came with it; `id` is the artifact that
    keeps them."""

    media: Media
    content: bytes = b""
    id: str = ""


def mime_of(content: bytes) -> str:
    """The type of a picture or document that can be shown, by its bytes; empty if it is neither."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        mime = "image/webp"
    else:
        mime = next((mime for magic, mime in _MAGIC if content.startswith(magic)), "")
    if mime == PDF:
        is_whole = b"%%EOF" in content[-1_024:]
        return PDF if is_whole and len(content) <= DOCUMENT_BYTES_MAX else ""
    if not mime or len(content) > IMAGE_BYTES_MAX:
        return ""
    size = image_size(b64encode(content[: 96 * 1024]).decode())
    return mime if size and max(size) <= IMAGE_SIDE_MAX else ""


def media_of(content: bytes, mime: str) -> Found:
    """These bytes as media."""
    kind = mime.partition("/")[0]
    kind = kind if kind in ("image", "audio", "video") else "document"
    return _found(Media(kind, mime=mime, data=b64encode(content).decode()), content)


def _found(media: Media, content: bytes) -> Found:
    hasher = content_hasher()
    hasher.update(content)
    return Found(media=media, content=content, id=artifact_id(hasher.hexdigest()))


class Search:
    """Walks through a value. `found` is the media in it, in order."""

    def __init__(self) -> None:
        self.found: list[Found] = []
        self._left, self._room = NODES_MAX, INLINE_CHARS_MAX

    def carved(self, value: Any, depth: int = 0) -> Any:
        """The value with gaps for media; the very same object where there are none."""
        self._left -= 1
        if self._left < 0 or depth > DEPTH_MAX:
            return value
        match value:
            case bytes() | bytearray() | memoryview():
                return self._bytes(bytes(value), value)
            case dict():
                found = part_media(value)
                if found is not None and self.takes(found):
                    return gapped(value, found)
                return self._mapping(value, depth)
            case list() | tuple():
                items = [self.carved(item, depth + 1) for item in value]
                is_changed = any(one is not other for one, other in zip(items, value, strict=True))
                return items if is_changed else value
            case _:
                return value

    def _bytes(self, content: bytes, value: Any) -> Any:
        mime = mime_of(content)
        if not mime:
            return value
        found = media_of(content, mime)
        return Gap("$media", found.id) if self.takes(found) else value

    def _mapping(self, value: dict[Any, Any], depth: int) -> dict[Any, Any]:
        items = {key: self.carved(item, depth + 1) for key, item in value.items()}
        is_changed = any(items[key] is not item for key, item in value.items())
        return items if is_changed else value

    def takes(self, found: Found) -> bool:
        """Takes media in, if there is room for it."""
        if len(found.media.data) > self._room:
            return False
        self._room -= len(found.media.data)
        self.found.append(found)
        return True


# --- parts of providers and MCP servers ---


def part_media(part: Mapping[Any, Any]) -> Found | None:
    """The media that a part of a provider's content holds; None if it holds none."""
    if not _may_be_media(part):
        return None
    media = _read(part)
    if media is None:
        return None
    try:
        content = binascii.a2b_base64(media.data, strict_mode=True)
    except ValueError:
        return None
    return _found(media, content) if content else Found(media=media)


def _may_be_media(part: Mapping[Any, Any]) -> bool:
    kind = part.get("type")
    if isinstance(kind, str):
        return kind in _PART_TYPES
    return not _PART_KEYS.isdisjoint(part)


def _read(part: Mapping[Any, Any]) -> Media | None:
    match part:
        case {"type": "image" | "audio" as kind, "data": str(data), "mimeType": str(mime)}:
            return Media(kind, mime=mime, data=data)
        case {"type": "resource", "resource": {"blob": str(data), "mimeType": str(mime)}}:
            kind = mime.partition("/")[0]
            return Media(kind if kind in ("image", "audio") else "document", mime=mime, data=data)
    place = "content" if "type" in part else "parts"
    try:
        [message] = dialects.parse({"role": "user", place: [part]})
    except (Invalid, ValueError):
        return None
    match message.blocks:
        case [Media() as media]:
            return media
        case _:
            return None


def gapped(value: Any, found: Found) -> Any:
    """A part with a gap in place of its base64."""
    data = found.media.data
    match value:
        case dict():
            return {key: gapped(item, found) for key, item in value.items()}
        case str() if data and value == data:
            return Gap("$base64", found.id)
        case str() if data and value.startswith("data:") and value.endswith(data):
            return Gap("$data_url", [value[: -len(data)], found.id])
        case _:
            return value
