"""What the dialects share about JSON values and blocks: compared, copied, read as text.

Everything that goes out is a copy, so that nobody can change a log by changing a request.
Neighbours: `outside` makes values plain on their way in; `form` brings a message back exactly as it
came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeGuard, TypeVar

from refold.core.model import Media, Message, Opaque, Text, Thinking
from refold.core.shortened import text_of

EMPTY = "(empty)"
MISSING: Any = object()

T = TypeVar("T")
Path = tuple[str | int, ...]
Same = Callable[[Any, Any], bool]


# --- JSON values ---


def copied(value: Any) -> Any:
    """A copy that shares no dict or list with the value."""
    kind = type(value)
    if kind is dict:
        return {key: copied(item) if type(item) in _NESTED else item for key, item in value.items()}
    if kind is list:
        return [copied(item) for item in value]
    return value


_NESTED = (dict, list)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values have the same bytes: key order counts, and true is not 1."""
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is dict:
        return len(one) == len(other) and _same_items(one, other)
    if kind is list:
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def alike(one: Any, other: Any) -> bool:
    """The same but for the order of keys: an SDK's object has that of its class, not that of the
    provider."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if type(one) is list:
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


def equality(message: Any) -> Same:
    """How closely what is kept must be what came."""
    return same if is_json(message) else alike


def is_json(message: Any) -> bool:
    """Whether a message came as JSON, in the order of its sender, and not as or with objects of
    an SDK."""
    if type(message) is not dict:
        return False
    content = message.get("content")
    return type(content) is not list or all_objects(content)


def all_objects(values: list[Any]) -> bool:
    """Whether these are plain objects, every one."""
    return all(type(value) is dict for value in values)


def _same_items(one: dict[str, Any], other: dict[str, Any]) -> bool:
    # A plain loop, because this runs for every message that is not plain text.
    for key, name in zip(one, other):
        if key != name:
            return False
        item, value = one[key], other[key]
        if item is not value and not same(item, value):
            return False
    return True


def at(value: Any, path: Path) -> Any:
    """What stands at a path, or MISSING."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return MISSING
    return value


def objects_in(values: Any) -> list[dict[str, Any]]:
    """The objects in a list; none in anything else."""
    if not isinstance(values, list):
        return []
    return [value for value in values if isinstance(value, dict)]


def present(values: Iterable[T | None]) -> list[T]:
    """The values without those that are None."""
    return [value for value in values if value is not None]


# --- blocks ---


def is_text_part(part: Any) -> bool:
    """Whether this is a text as nearly every provider has it."""
    return type(part) is dict and part.get("type") == "text" and type(part.get("text")) is str


def is_gone(block: Any) -> bool:
    """Whether this is thinking that was taken out: nothing is left to send."""
    return type(block) is Thinking and not (block.text or block.signature or block.data)


def is_text(block: Any) -> TypeGuard[Text | Opaque]:
    """Whether this is text, even text that JSON could not carry."""
    return type(block) is Text or (type(block) is Opaque and block.raw is None)


def only_text(message: Message) -> Text | None:
    """The text of a message that is nothing but one text in its usual form."""
    blocks = message.blocks
    if len(blocks) != 1 or message.form is not None or type(blocks[0]) is not Text:
        return None
    return blocks[0]


def text_within(content: Sequence[Text | Media | Opaque]) -> str:
    """All text of a result, as one."""
    if len(content) == 1 and type(content[0]) is Text:
        return content[0].text
    return "\n".join(text for text in map(shown_text, content) if text)


def shown_text(block: Text | Media | Opaque) -> str:
    """How a block reads where only text can stand."""
    match block:
        case Text():
            return block.text
        case Opaque():
            return text_of(block)
        case Media():
            return _media_note(block)


def _media_note(media: Media) -> str:
    """Media as a note in its place."""
    note = media.media
    if media.name:
        note += f" {media.name}"
    if media.url:
        note += f": {media.url}"
    return f"[{note}]"


_DATA_URL = re.compile(r"data:([\w.+/-]*);base64,(.*)", re.DOTALL)


def media_of_url(media: str, url: str, **fields: str) -> Media:
    """Media at a URL; a data URL is taken apart."""
    found = _DATA_URL.fullmatch(url)
    if found:
        return Media(media, mime=found[1], data=found[2], **fields)
    return Media(media, url=url, **fields)


def data_url(media: Media) -> str:
    """The content of media as a URL."""
    return f"data:{media.mime};base64,{media.data}"


def report(lost: list[str], line: str) -> None:
    """Says once what could not be said on the wire."""
    if line not in lost:
        lost.append(line)


_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")


@lru_cache(4096)
def plain_id(id: str, length_max: int) -> str:
    """The id in plain characters; the same for a call and its result, distinct for distinct ids."""
    if id and len(id) <= length_max and not _UNFIT.search(id):
        return id
    digest = blake2b(id.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{_UNFIT.sub('_', id)[:31]}_{digest}"
