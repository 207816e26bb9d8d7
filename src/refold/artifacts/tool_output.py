"""The output of a tool in parts for the page: its text, its media, and the form to restore it.

Bytes become text if they are UTF-8, and media if they are an image or a PDF. A list of parts from a
provider or an MCP server becomes text and media in order. Anything else is data, written as JSON,
with its media beside it. A gap that names the artifact replaces media in a value; `value_of`
restores it. Media that no provider accepts (too large, too many pixels, unreadable) are not shown
as media. Neighbours: `json_values` writes data and gaps, `dialects` read the parts, `intake`
decides what the page shows.
"""

from __future__ import annotations

import binascii
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from refold import dialects
from refold.artifacts import json_values
from refold.artifacts.json_values import Gap, Written, degraded
from refold.checked import quoted
from refold.core.codec import EVENT_BYTES_MAX
from refold.core.ids import artifact_id, content_hasher
from refold.core.model import Media, Text
from refold.errors import Invalid
from refold.tokens.media import image_size

PDF = "application/pdf"
# Accepted by every provider with images.
IMAGE_BYTES_MAX, IMAGE_SIDE_MAX, DOCUMENT_BYTES_MAX = 3_750_000, 8_000, 8_000_000
INLINE_CHARS_MAX = 12_000_000  # of base64 in one result, which must fit in an event
NODES_MAX, DEPTH_MAX = 2_000, 8
_MAGIC = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"),
          (b"GIF8", "image/gif"), (b"%PDF-", PDF))  # fmt: skip
_PART_TYPES = frozenset({
    "image", "document", "image_url", "file", "input_audio", "input_image", "input_file", "audio",
    "resource",
})  # fmt: skip
_PART_KEYS = frozenset({"inlineData", "inline_data", "fileData", "file_data"})
TEXT, JSON, BYTES = "text/plain", "application/json", "application/octet-stream"
ON_ERROR = ("raise", "degrade")
PARTS_MAX = 100
FORM = "$form"  # in the metadata of a result: the structure of its value

Content = str | bytes | Written
Fetch = Callable[[str], bytes]
"""Returns the bytes of an artifact by its id."""


# --- media ---


class FoundMedia(Struct, frozen=True, kw_only=True):
    """Media in an output. `content` has its bytes, if the output did; `id` is their artifact."""

    media: Media
    content: bytes = b""
    id: str = ""


def mime_of(content: bytes) -> str:
    """The type of a picture or document, by its bytes; empty if it cannot be shown."""
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


def media_of(content: bytes, mime: str) -> FoundMedia:
    """These bytes as media."""
    kind = mime.partition("/")[0]
    kind = kind if kind in ("image", "audio", "video") else "document"
    return _media_in(Media(kind, mime=mime, data=b64encode(content).decode()), content)


def _media_in(media: Media, content: bytes) -> FoundMedia:
    hasher = content_hasher()
    hasher.update(content)
    return FoundMedia(media=media, content=content, id=artifact_id(hasher.hexdigest()))


class Search:
    """A walk through a value. `found` is the media in it, in order."""

    def __init__(self) -> None:
        self.found: list[FoundMedia] = []
        self._left, self._room = NODES_MAX, INLINE_CHARS_MAX

    def carved(self, value: Any, depth: int = 0) -> Any:
        """The value with gaps for media; the very same object if there are none."""
        self._left -= 1
        if self._left < 0 or depth > DEPTH_MAX:
            return value
        match value:
            case bytes() | bytearray() | memoryview():
                content = bytes(value)
                mime = mime_of(content)
                found = media_of(content, mime) if mime else None
                return Gap("$media", found.id) if found and self.takes(found) else value
            case dict():
                found = part_media(value)
                if found is not None and self.takes(found):
                    return gapped(value, found)
                entries = {key: self.carved(item, depth + 1) for key, item in value.items()}
                is_changed = any(entries[key] is not item for key, item in value.items())
                return entries if is_changed else value
            case list() | tuple():
                items = [self.carved(item, depth + 1) for item in value]
                is_changed = any(one is not other for one, other in zip(items, value, strict=True))
                return items if is_changed else value
            case _:
                return value

    def takes(self, found: FoundMedia) -> bool:
        """Adds media, if there is room."""
        if len(found.media.data) > self._room:
            return False
        self._room -= len(found.media.data)
        self.found.append(found)
        return True


# --- parts of providers and MCP servers ---


def part_media(part: Mapping[Any, Any]) -> FoundMedia | None:
    """The media in a part of a provider's content; None if there is none."""
    kind = part.get("type")
    may_be_media = kind in _PART_TYPES if isinstance(kind, str) else not _PART_KEYS.isdisjoint(part)
    media = _read_part(part) if may_be_media else None
    if media is None:
        return None
    try:
        content = binascii.a2b_base64(media.data, strict_mode=True)
    except ValueError:
        return None
    return _media_in(media, content) if content else FoundMedia(media=media)


def _read_part(part: Mapping[Any, Any]) -> Media | None:
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


def gapped(value: Any, found: FoundMedia) -> Any:
    """A part with a gap instead of its base64."""
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


# --- outputs ---


class Output(Struct, frozen=True, kw_only=True):
    """An output in parts. `content` is its text, bytes or data; `mime` its type, unless it was
    text; `blocks` are text and media in order, if it came in parts; `form` is the structure of the
    value, if the content alone does not show it."""

    content: Content
    mime: str | None = None
    found: tuple[FoundMedia, ...] = ()
    blocks: tuple[Text | Media, ...] = ()
    form: Any = None

    @property
    def media(self) -> tuple[Media, ...]:
        return tuple(found.media for found in self.found)

    @property
    def text(self) -> str | None:
        """The text for a page; None if it is too large for an event, or not text."""
        if isinstance(self.content, str):
            return self.content
        whole = self.content.whole if isinstance(self.content, Written) else None
        return None if whole is None else whole.decode()


def read(output: Any, *, mime: str = "", on_error: str = "raise") -> Output:
    """Reads a tool's output into parts. `mime` is the type of bytes. Raises Invalid for values that
    cannot be written, unless `on_error` is "degrade": then their `repr` is kept."""
    if on_error not in ON_ERROR:
        raise Invalid(f"on_error={quoted(on_error, 80)}", hint="one of: " + ", ".join(ON_ERROR))
    if isinstance(output, str):
        return Output(content=output)
    if isinstance(output, bytes | bytearray | memoryview):
        content = bytes(output)
        media_type = mime_of(content)
        if media_type and mime in ("", media_type):
            found = media_of(content, media_type)
            form = {"$media": found.id}
            return Output(content="", mime=JSON, found=(found,), blocks=(found.media,), form=form)
        return Output(content=text_or_bytes(content), mime=mime or BYTES)
    try:
        parts = _parts(output)
        in_parts = _read_parts(output, parts) if parts else None
        if in_parts is not None:
            return in_parts
        search = Search()
        carved = search.carved(output)
        return Output(content=Written(carved), mime=JSON, found=tuple(search.found))
    except Invalid:
        if on_error == "degrade":
            return Output(content=degraded(output))
        raise


def as_content(content: Any) -> Content:
    """Text and bytes as they are, anything else as JSON."""
    if isinstance(content, bytearray | memoryview):
        return bytes(content)
    return content if isinstance(content, str | bytes) else Written(content)


def text_or_bytes(content: bytes) -> str | bytes:
    """Bytes as text if they are UTF-8. Content too large for an event stays bytes, even if it is
    text: it goes to the store in pieces, and is not held twice."""
    if len(content) > EVENT_BYTES_MAX:
        return content
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _parts(output: Any) -> list[dict[Any, Any]]:
    """The parts of a provider's content: a list of them, a single one, or the result of an MCP
    tool."""
    match output:
        case {"content": [*parts]} | [*parts]:
            pass
        case {"type": str()} | {"inlineData": _} | {"inline_data": _}:
            parts = [output]
        case _:
            return []
    are_parts = len(parts) <= PARTS_MAX and all(isinstance(part, dict) for part in parts)
    return parts if are_parts else []


def _read_parts(output: Any, parts: list[dict[Any, Any]]) -> Output | None:
    """Parts as text and media in order; None if there are no media among them."""
    reading = _Reading()
    forms = [reading.form(part) for part in parts]
    if not reading.search.found:
        return None
    form: Any = forms
    if isinstance(output, dict):
        form = forms[0] if parts[0] is output else {**output, "content": forms}
    return Output(
        content="\n".join(block.text for block in reading.blocks if isinstance(block, Text)),
        mime=JSON,
        found=tuple(reading.search.found),
        blocks=tuple(reading.blocks),
        form=msgspec.json.decode(json_values.encoded(form)),
    )


class _Reading:
    """The conversion of parts to blocks. In the form, text is replaced by its range in the joined
    text."""

    def __init__(self) -> None:
        self.search, self.blocks, self._at = Search(), list[Text | Media](), 0

    def form(self, part: dict[Any, Any]) -> Any:
        """The form of a part, without its text and media."""
        media = part_media(part)
        if media is not None and self.search.takes(media):
            self.blocks.append(media.media)
            return gapped(part, media)
        known = len(self.search.found)
        form = self.search.carved(part)
        text = part.get("text")
        if part.keys() <= {"type", "text"} and isinstance(text, str):
            form = {**part, "text": Gap("$text", [self._at, self._at + len(text)])}
        else:
            text = json_values.encoded(form).decode()
        self._at += len(text) + 1
        self.blocks += [Text(text), *(one.media for one in self.search.found[known:])]
        return form


# --- restoring ---


def value_of(content: str | bytes, mime: Any, form: Any = None, fetch: Fetch | None = None) -> Any:
    """The output that was read as this content. `fetch` returns the bytes of its media."""
    if form is not None:
        return json_values.restored(_filled(form, content, fetch))
    if mime == JSON:
        return json_values.restored(_filled(json_values.json_of(content), content, fetch))
    if mime is None or isinstance(content, bytes):
        return content
    return content.encode("utf-8", "surrogatepass")


def _filled(value: Any, content: str | bytes, fetch: Fetch | None) -> Any:
    """A form with its gaps filled."""
    if isinstance(value, list):
        return [_filled(item, content, fetch) for item in value]
    if not isinstance(value, Mapping):
        return value
    if len(value) == 1 and fetch is not None:
        match value:
            case {"$media": str(id)}:
                return fetch(id)
            case {"$base64": str(id)}:
                return b64encode(fetch(id)).decode()
            case {"$data_url": [str(start), str(id)]}:
                return start + b64encode(fetch(id)).decode()
            case {"$text": [int(first), int(end)]}:
                return content[first:end]
    return {key: _filled(item, content, fetch) for key, item in value.items()}
