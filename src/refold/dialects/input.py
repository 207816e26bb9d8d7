"""Input from callers as plain values: copies that consist of dicts, lists, text and finite numbers
only.

SDK objects are read through their own methods; no SDK is imported. A value that JSON or a dialect
cannot represent is Invalid, and the error shows it. Neighbours: the dialects' `parse` puts
everything through `plain` or `checked_message`; `wire` compares and copies plain values.
"""

from __future__ import annotations

import dataclasses
import math
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec

from refold.checked import quoted, shown
from refold.core.codec import DEPTH_MAX
from refold.core.model import Role
from refold.display import failure
from refold.errors import Invalid

MARKS = ("cache_control", "prompt_cache_breakpoint")


def plain(value: Any, depth: int = 1) -> Any:
    """A copy of the value as plain dicts, lists, text and numbers. Invalid if JSON cannot
    represent it."""
    kind = type(value)
    if kind is str or value is None or kind is bool or kind is int:
        return value
    if depth > DEPTH_MAX:
        raise Invalid(
            f"nested more than {DEPTH_MAX} levels deep", hint="pass deep structures as text"
        )
    if kind is dict or isinstance(value, Mapping):
        return _plain_items(value, depth)
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    match value:
        case float() if math.isfinite(value):
            return value
        case str():
            return str.__str__(value)  # a subclass, such as the member of an enumeration
        case int():
            return int(value)
        case bytes() | bytearray():
            try:
                return bytes(value).decode()
            except UnicodeDecodeError as error:
                what = f"{quoted(bytes(value), 20)}… is not UTF-8 text"
                hint = "pass text, or bytes as base64 in a media block"
                raise Invalid(what, hint=hint) from error
        case _:
            return plain(_fields(value), depth + 1)


def _plain_items(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    entries: Iterable[tuple[Any, Any]]
    if type(value) is dict:
        entries = value.items()
    else:
        try:
            entries = list(value.items())
        except Exception as error:  # a foreign class may raise anything
            what = f"a {type(value).__name__} cannot be read: {failure(error)}"
            raise Invalid(what, hint="pass plain dicts") from error
    items: dict[str, Any] = {}
    for key, item in entries:
        if type(key) is not str and not isinstance(key, str):
            raise Invalid(f"the key {shown(key)} is not text", hint="JSON objects have text keys")
        kind = type(item)
        is_bare = kind is str or item is None or kind is bool or kind is int
        items[key] = item if is_bare else plain(item, depth + 1)
    return items


def encoded(value: Any, depth: int = 0) -> Any:
    """The value with bytes as base64 text. SDK objects encode their own bytes."""
    if depth > DEPTH_MAX:
        return value  # `plain` refuses it as too deep
    if type(value) is dict:
        return {key: encoded(item, depth + 1) for key, item in value.items()}
    if type(value) is list or type(value) is tuple:
        return [encoded(item, depth + 1) for item in value]
    return b64encode(value).decode() if type(value) is bytes else value


# Methods of a stream that return its assembled response.
_FINAL = ("get_final_message", "get_final_completion", "get_final_response")


def _fields(value: Any) -> Any:
    """An object's fields: the response of a finished stream, or the fields of a pydantic model, a
    dataclass or any other object."""
    for method in _FINAL:
        if _has_method(value, method):
            try:
                return getattr(value, method)()
            except Exception as error:
                # An SDK that raises because the answer was cut off attaches the answer.
                completion = getattr(error, "completion", None)
                if completion is None:
                    raise
                return completion
    for method, dump in _DUMPERS.items():
        if _has_method(value, method):
            try:
                return dump(value)
            except Exception as error:
                what = f"{type(value).__name__}.{method}() failed with {type(error).__name__}"
                raise Invalid(what, hint="pass the message as a plain dict") from error
    return _attributes(value)


def _has_method(value: Any, name: str) -> bool:
    try:
        return callable(getattr(value, name, None))
    except Exception:  # noqa: BLE001 - an attribute of a foreign object may raise anything
        return False


def _attributes(value: Any) -> Any:
    """The fields of an object without a method that dumps them. Invalid if it has none."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    try:
        fields = {} if callable(value) else dict(vars(value))
    except Exception:  # noqa: BLE001 - as above
        fields = {}
    _refuse_unread(value, {*dir(type(value)), *fields})
    if public := {name: field for name, field in fields.items() if not name.startswith("_")}:
        return public
    hint = "pass plain dicts, lists, text and finite numbers"
    raise Invalid(f"{shown(value)} is not JSON", hint=hint)


def _refuse_unread(value: Any, names: set[str]) -> None:
    """Raises Invalid, with the call to make, for an object that only gives access to a response."""
    if isinstance(value, Awaitable):
        what, hint = "was not awaited", "await it, and pass the result"
    elif {"parse", "http_response"} <= names:
        what, hint = "is a raw HTTP response", "pass the result of its .parse()"
    elif {"json", "status_code"} <= names:
        what, hint = "is an HTTP response", "pass the result of its .json()"
    elif "__enter__" in names:
        what, hint = "was not entered", "use: with … as stream, and pass the stream"
    elif "__aenter__" in names:
        what, hint = "was not entered", "use: async with … as stream, and pass the stream"
    else:
        return
    raise Invalid(f"{shown(value)} {what}", hint=hint)


# Without unset fields: a field that the provider did not send is not sent back.
_DUMPS: tuple[dict[str, Any], ...] = (
    {"mode": "json", "exclude_unset": True, "warnings": False},
    {"exclude_unset": True},
)


def _dumped(value: Any) -> Any:
    for options in _DUMPS:
        try:
            return value.model_dump(**options)
        except TypeError:
            continue  # an older or simpler model_dump that does not know the option
    return value.model_dump()


# The methods by which objects dump their fields, in order of preference.
_DUMPERS: dict[str, Callable[[Any], Any]] = {
    "model_dump": _dumped,
    "to_dict": lambda value: value.to_dict(),
    "dict": lambda value: value.dict(),
}


_MESSAGE_HINT = 'pass {"role": "user", "content": "…"}'


def checked_message(wire: Any) -> dict[str, Any]:
    """The plain message without its cache marks. Invalid if it is not an object with a role."""
    if not isinstance(wire, dict):
        raise not_a_message(wire)
    if not isinstance(wire.get("role"), str):
        raise Invalid(f"a message without a role: {shown(wire)}", hint=_MESSAGE_HINT)
    return remove_marks(wire)


_LANGCHAIN = frozenset({"human", "ai", "system", "tool", "function", "chat", "remove"})


def refuse_langchain(wire: Mapping[str, Any]) -> None:
    """Raises Invalid, with advice, for a message of LangChain, which has a type and no role."""
    kind = wire.get("type")
    if "role" in wire or "content" not in wire or not isinstance(kind, str):
        return
    if kind.removesuffix("MessageChunk").lower() in _LANGCHAIN:
        hint = "give langchain_core.messages.convert_to_openai_messages(message)"
        raise Invalid(
            f"a LangChain message of type {kind!r} is not a provider's message", hint=hint
        )


def not_a_message(value: Any) -> Invalid:
    """The error for a message that is not an object."""
    return Invalid(f"{shown(value)} is not a message", hint=_MESSAGE_HINT)


def remove_marks(wire: dict[str, Any]) -> dict[str, Any]:
    """Removes the cache marks of a message and, recursively, of its parts. Arguments are content
    and stay unchanged."""
    for mark in MARKS:
        wire.pop(mark, None)
    content = wire.get("content")
    if type(content) is list:
        for part in content:
            if type(part) is dict:
                remove_marks(part)
    return wire


def marks_in(wire: Any) -> list[list[Any]]:
    """The cache marks of a message, each with the index of its block; a mark inside a result counts
    as the result's."""
    parts = wire.get("content") if isinstance(wire, dict) else None
    marks: list[list[Any]] = []
    for index, part in enumerate(parts if type(parts) is list else ()):
        inner = part.get("content") if type(part) is dict else None
        for holder in (part, *reversed(inner)) if type(inner) is list else (part,):
            mark = holder.get(MARKS[0]) if type(holder) is dict else None
            if type(mark) is dict:
                marks.append([index, mark])
                break
    return marks


def without_marks(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A shallow copy of an object without its cache marks."""
    return {key: value for key, value in fields.items() if key not in MARKS}


def plain_value(value: Any) -> Any:
    """A system prompt, a list of tools or any other value as plain JSON, with bytes as base64.
    Invalid if JSON cannot represent it."""
    return plain(encoded(value))


def role_of(wire: Mapping[str, Any], roles: Mapping[str, Role]) -> Role:
    """The neutral role of a message, by the dialect's table of roles."""
    wire_role = wire["role"]
    role = roles.get(wire_role) if isinstance(wire_role, str) else None
    if role is None:
        raise Invalid(f"{shown(wire_role)} is not a role", hint=f"one of {', '.join(roles)}")
    return role


def refused(what: str, value: Any, accepted: str) -> Invalid:
    """The error for a value that a dialect cannot represent."""
    return Invalid(f"{what} is {shown(value)}", hint=f"{accepted} is accepted")


def text_in(fields: Mapping[Any, Any], key: str) -> str:
    """A text field; empty if it is missing or not a string."""
    value = fields.get(key)
    return value if type(value) is str or isinstance(value, str) else ""


def count_in(fields: Any, key: str) -> int:
    """A token count; 0 if it is missing or not a number."""
    value = fields.get(key) if isinstance(fields, dict) else None
    return int(value) if isinstance(value, int | float) else 0
