"""What the dialects share: values from outside made plain, JSON compared and copied, blocks as
text.

Everything that comes in goes through `opened` (or `plain`): our own copy, nothing but dicts, lists,
text and finite numbers. Everything that goes out is a copy as well, so that nobody can change a log
by changing a request. Neighbours: `form` brings a message back exactly as it came; `openai_chat`
and `anthropic` are the dialects.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeGuard

import msgspec

from refold.core.codec import DEPTH_MAX
from refold.core.model import Media, Opaque, Role, Text, Thinking
from refold.errors import Invalid

MARKS = ("cache_control", "prompt_cache_breakpoint")
EMPTY = "(empty)"
MISSING: Any = object()

Path = tuple[str | int, ...]


# --- outside values ---


def plain(value: Any, depth: int = 1) -> Any:
    """The value as plain dicts, lists and text, our own copy. SDK objects are asked for their
    fields, no SDK is imported; Invalid for what JSON cannot say."""
    kind = type(value)
    if kind is str or value is None or kind is bool or kind is int:
        return value
    if depth > DEPTH_MAX:
        raise Invalid(
            f"nested more than {DEPTH_MAX} levels deep", hint="pass deep structures as text"
        )
    if kind is dict or isinstance(value, Mapping):
        return _plain_items(value, depth)
    if kind is list or kind is tuple:
        return [plain(item, depth + 1) for item in value]
    return _plain_other(value, depth)


def _plain_items(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    items: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise Invalid(f"the key {key!r} is not text", hint="JSON objects have text keys")
        items[key] = item if type(item) is str else plain(item, depth + 1)
    return items


def _plain_other(value: Any, depth: int) -> Any:
    match value:
        case float() if math.isfinite(value):
            return value
        case str() | bool() | int():
            return _bare(value)
        case bytes() | bytearray():
            return _decoded(bytes(value))
        case list() | tuple():
            return [plain(item, depth + 1) for item in value]
        case _:
            return plain(_fields(value), depth + 1)


def _bare(value: str | bool | int) -> str | bool | int:
    """The value of a text or number subclass, such as an enumeration's member."""
    return str.__str__(value) if isinstance(value, str) else int(value)


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Invalid(
            f"{content[:20]!r}… is not UTF-8 text",
            hint="pass text, or bytes as base64 in a media block",
        ) from error


def _fields(value: Any) -> Any:
    """An object's own fields: a finished stream's result, a pydantic model, a dataclass, or just
    attributes."""
    for final in ("get_final_message", "get_final_completion", "get_final_response"):
        if callable(getattr(value, final, None)):
            return getattr(value, final)()
    if callable(getattr(value, "model_dump", None)):
        return _dumped(value)
    for method in ("to_dict", "dict"):
        if callable(getattr(value, method, None)):
            return getattr(value, method)()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if hasattr(value, "__dict__") and not callable(value) and vars(value):
        return {name: field for name, field in vars(value).items() if not name.startswith("_")}
    raise Invalid(
        f"{value!r:.80} ({type(value).__name__}) is not JSON",
        hint="pass plain dicts, lists, text and finite numbers",
    )


def _dumped(value: Any) -> Any:
    # Unset fields stay out: what the provider did not send is not sent back.
    for options in (
        {"mode": "json", "exclude_unset": True, "warnings": False},
        {"exclude_unset": True},
    ):
        try:
            return value.model_dump(**options)
        except TypeError:
            continue  # an older or simpler model_dump that does not know the option
    return value.model_dump()


def opened(wire: Any) -> dict[str, Any]:
    """A plain message at the door, its cache marks taken off. Invalid if it is not an object
    with a role."""
    if not isinstance(wire, dict):
        raise Invalid(
            f"{wire!r:.80} is not a message", hint='pass {"role": "user", "content": "…"}'
        )
    if not isinstance(wire.get("role"), str):
        raise Invalid(
            f"a message without a role: {wire!r:.80}", hint='pass {"role": "user", "content": "…"}'
        )
    return unmarked(wire)


def unmarked(wire: dict[str, Any]) -> dict[str, Any]:
    """Takes the cache marks off a message, its parts and theirs; arguments are content and stay
    as they are."""
    for mark in MARKS:
        wire.pop(mark, None)
    content = wire.get("content")
    if type(content) is list:
        for part in content:
            if type(part) is dict:
                unmarked(part)
    return wire


def role_of(wire: Mapping[str, Any], roles: Mapping[str, Role]) -> Role:
    """The neutral role of a message, by the dialect's own roles."""
    role = roles.get(wire["role"])
    if role is None:
        raise Invalid(f"{wire['role']!r} is not a role", hint=f"one of {', '.join(roles)}")
    return role


def refused(what: str, value: Any, accepted: str) -> Invalid:
    """The error for a value that has no form in a dialect."""
    return Invalid(f"{what} is {value!r:.80}", hint=f"{accepted} is accepted")


def text_in(fields: Mapping[Any, Any], key: str) -> str:
    """A text field, or nothing."""
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def count_in(fields: Any, key: str) -> int:
    """A number of tokens, or none."""
    value = fields.get(key) if isinstance(fields, dict) else None
    return int(value) if isinstance(value, int | float) else 0


# --- JSON values ---


def copied(value: Any) -> Any:
    """A copy that shares no dict or list with the value."""
    kind = type(value)
    if kind is dict:
        return {
            key: copied(item) if type(item) in (dict, list) else item for key, item in value.items()
        }
    if kind is list:
        return [copied(item) for item in value]
    return value


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
    if type(one) is dict and type(other) is dict:
        return one.keys() == other.keys() and all(
            alike(item, other[key]) for key, item in one.items()
        )
    if type(one) is list and type(other) is list:
        return len(one) == len(other) and all(map(alike, one, other))
    return type(one) is type(other) and bool(one == other)


def is_json(message: Any) -> bool:
    """Whether a message came as JSON, in the order of its sender, and not as or with objects of
    an SDK."""
    if type(message) is not dict:
        return False
    content = message.get("content")
    return type(content) is not list or all(type(part) is dict for part in content)


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


# --- blocks ---


def is_gone(block: Any) -> bool:
    """Whether this is thinking that was taken out: nothing is left to send."""
    return type(block) is Thinking and not (block.text or block.signature or block.data)


def is_text(block: Any) -> TypeGuard[Text | Opaque]:
    """Whether this is text, and be it text that JSON could not carry."""
    return type(block) is Text or (type(block) is Opaque and block.raw is None)


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
            return block.text or _raw_text(block.raw)
        case Media():
            return f"[{block.media}{f' {block.name}' if block.name else ''}{f': {block.url}' if block.url else ''}]"


def _raw_text(raw: Any) -> str:
    for path in (("text",), ("content",), ("source", "data"), ("refusal",)):
        text = at(raw, path)
        if isinstance(text, str) and at(raw, ("source", "type")) in ("text", MISSING):
            return text
    return ""


_DATA_URL = re.compile(r"data:([\w.+/-]*);base64,(.*)", re.DOTALL)


def media_of_url(media: str, url: str, **fields: str) -> Media:
    """Media behind a URL; a data URL is taken apart."""
    found = _DATA_URL.fullmatch(url)
    return (
        Media(media, mime=found[1], data=found[2], **fields)
        if found
        else Media(media, url=url, **fields)
    )


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
