"""What a tool gave, taken apart for the page: its text, its media, and what makes it whole again.

Text is text. Bytes are text where they are UTF-8, a picture or a document where they are one. A
list of a provider's parts is its texts and media in order. Anything else is data, written as JSON,
with its media beside it. `value_of` gives back what the tool gave. Neighbours: `media` finds
pictures, `values` writes data, `intake` decides what the page shows of it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from refold.artifacts import values
from refold.artifacts.media import Found, Search, gapped, media_of, mime_of, part_media
from refold.artifacts.values import Gap, Written, degraded
from refold.checked import quoted
from refold.core.codec import EVENT_BYTES_MAX
from refold.core.model import Media, Text
from refold.errors import Invalid

TEXT, JSON, BYTES = "text/plain", "application/json", "application/octet-stream"
ON_ERROR = ("raise", "degrade")
PARTS_MAX = 100
FORM = "$form"  # in the metadata of a result: what its value is made of

Content = str | bytes | Written
Fetch = Callable[[str], bytes]
"""Gives the bytes of an artifact by its id."""


class Output(Struct, frozen=True, kw_only=True):
    """An output taken apart. `content` is its text, bytes or data; `mime` says what it was, where
    it was not text; `blocks` are texts and media in order, where it came in parts; `form` is what
    the value is made of, where the content alone does not say it."""

    content: Content
    mime: str | None = None
    found: tuple[Found, ...] = ()
    blocks: tuple[Text | Media, ...] = ()
    form: Any = None

    @property
    def media(self) -> tuple[Media, ...]:
        return tuple(one.media for one in self.found)

    @property
    def text(self) -> str | None:
        """The text that a page can show; None if it is too large for an event, or not text."""
        if isinstance(self.content, str):
            return self.content
        whole = self.content.whole if isinstance(self.content, Written) else None
        return None if whole is None else whole.decode()


def read(output: Any, *, mime: str = "", on_error: str = "raise") -> Output:
    """What is kept and shown of a tool's output. `mime` says what bytes are. Raises Invalid for
    values that cannot be written, unless `on_error` is "degrade": then their `repr` is kept."""
    if on_error not in ON_ERROR:
        raise Invalid(f"on_error={quoted(on_error, 80)}", hint="one of: " + ", ".join(ON_ERROR))
    if isinstance(output, str):
        return Output(content=output)
    if isinstance(output, bytes | bytearray | memoryview):
        return _read_bytes(bytes(output), mime)
    try:
        return _read_data(output)
    except Invalid:
        if on_error == "degrade":
            return Output(content=degraded(output))
        raise


def kept(content: Any) -> Content:
    """Text and bytes as they are, anything else as JSON."""
    if isinstance(content, bytearray | memoryview):
        return bytes(content)
    return content if isinstance(content, str | bytes) else Written(content)


def _read_bytes(content: bytes, mime: str) -> Output:
    seen = mime_of(content)
    if seen and mime in ("", seen):
        found = media_of(content, seen)
        form = {"$media": found.id}
        return Output(content="", mime=JSON, found=(found,), blocks=(found.media,), form=form)
    return Output(content=text_or_bytes(content), mime=mime or BYTES)


def text_or_bytes(content: bytes) -> str | bytes:
    """Bytes as text where they are UTF-8. What no event could hold stays bytes, even if it is text:
    it goes to the store in pieces, and is not held twice."""
    if len(content) > EVENT_BYTES_MAX:
        return content
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _read_data(output: Any) -> Output:
    """Data, with its media beside it; parts of a provider's content in their order."""
    parts = _parts(output)
    whole = _read_parts(output, parts) if parts else None
    if whole is not None:
        return whole
    search = Search()
    carved = search.carved(output)
    return Output(content=Written(carved), mime=JSON, found=tuple(search.found))


def _parts(output: Any) -> list[dict[Any, Any]]:
    """The parts of a provider's content: a list of them, one alone, or the result of an MCP
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
    """Parts as texts and media in their order; None if there are no media among them."""
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
        form=msgspec.json.decode(values.encoded(form)),
    )


class _Reading:
    """Parts on their way to blocks. A text in the form is its place in the joined text."""

    def __init__(self) -> None:
        self.search, self.blocks, self._at = Search(), list[Text | Media](), 0

    def form(self, part: dict[Any, Any]) -> Any:
        """What is kept of a part besides its text and media."""
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
            text = values.encoded(form).decode()
        self._at += len(text) + 1
        self.blocks += [Text(text), *(one.media for one in self.search.found[known:])]
        return form


# --- the way back ---


def value_of(content: str | bytes, mime: Any, form: Any = None, fetch: Fetch | None = None) -> Any:
    """The output that was read as this content. `fetch` gives the bytes of its media."""
    if form is not None:
        return values.restored(_filled(form, content, fetch))
    if mime == JSON:
        return values.restored(_filled(values.json_of(content), content, fetch))
    if mime is None or isinstance(content, bytes):
        return content
    return content.encode("utf-8", "surrogatepass")


def _filled(value: Any, content: str | bytes, fetch: Fetch | None) -> Any:
    """A form with what belongs in its gaps."""
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
