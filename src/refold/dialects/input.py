"""Values from outside made plain: nothing but dicts, lists, text and finite numbers, our own copy.

SDK objects are asked for their fields; no SDK is imported. What JSON cannot say, and what has no
form in a dialect, is Invalid with the offending value. Neighbours: the dialects' `parse` sends
everything through `plain` or `checked_message`; `wire` compares and copies what is plain.
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
    for key, item in value.items() if type(value) is dict else _entries(value):
        if type(key) is not str and not isinstance(key, str):
            raise Invalid(f"the key {shown(key)} is not text", hint="JSON objects have text keys")
        kind = type(item)
        is_bare = kind is str or item is None or kind is bool or kind is int
        items[key] = item if is_bare else plain(item, depth + 1)
    return items


def _entries(value: Mapping[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """The entries of an object of somebody else's class, which may raise anything."""
    try:
        return list(value.items())
    except Exception as error:
        what = f"a {type(value).__name__} cannot be read: {failure(error)}"
        raise Invalid(what, hint="pass plain dicts") from error


def _plain_other(value: Any, depth: int) -> Any:
    """The value of a class that JSON does not have."""
    match value:
        case float() if math.isfinite(value):
            return value
        case str() | bool() | int():
            return _base_value(value)
        case bytes() | bytearray():
            return _decoded(bytes(value))
        case list() | tuple():
            return [plain(item, depth + 1) for item in value]
        case _:
            return plain(_fields(value), depth + 1)


def _base_value(value: str | bool | int) -> str | bool | int:
    """The value of a text or number subclass, such as an enumeration's member."""
    return str.__str__(value) if isinstance(value, str) else int(value)


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Invalid(
            f"{quoted(content, 20)}… is not UTF-8 text",
            hint="pass text, or bytes as base64 in a media block",
        ) from error


def encoded(value: Any, depth: int = 0) -> Any:
    """The value with bytes as base64 text, which is how JSON has them here. The SDK's objects
    encode themselves."""
    if depth > DEPTH_MAX:
        return value  # `plain` says that it is too deep
    if type(value) is dict:
        return {key: encoded(item, depth + 1) for key, item in value.items()}
    if type(value) is list or type(value) is tuple:
        return [encoded(item, depth + 1) for item in value]
    return b64encode(value).decode() if type(value) is bytes else value


# Methods of a stream that give what it has become.
_FINAL = ("get_final_message", "get_final_completion", "get_final_response")


def _fields(value: Any) -> Any:
    """An object's own fields: a finished stream's result, a pydantic model, a dataclass, or just
    attributes."""
    for method in _FINAL:
        if _has_method(value, method):
            return _final(getattr(value, method))
    for method, ask in _ASKED.items():
        if _has_method(value, method):
            return _answered(value, method, ask)
    return _attributes(value)


def _answered(value: Any, method: str, ask: Callable[[Any], Any]) -> Any:
    """What an object's own method says of its fields. Invalid if it fails."""
    try:
        return ask(value)
    except Exception as error:
        what = f"{type(value).__name__}.{method}() failed with {type(error).__name__}"
        raise Invalid(what, hint="pass the message as a plain dict") from error


def _final(method: Callable[[], Any]) -> Any:
    """What a stream has become. An SDK that raises because the answer was cut off has the answer
    with its error."""
    try:
        return method()
    except Exception as error:
        completion = getattr(error, "completion", None)
        if completion is None:
            raise
        return completion


def _has_method(value: Any, name: str) -> bool:
    try:
        return callable(getattr(value, name, None))
    except Exception:  # noqa: BLE001 - an attribute of somebody else's object may raise anything
        return False


def _attributes(value: Any) -> Any:
    """The fields of an object that has no method for it. Invalid if it has no fields."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    _refuse_unread(value)
    fields = _own_fields(value).items()
    if public := {name: field for name, field in fields if not name.startswith("_")}:
        return public
    hint = "pass plain dicts, lists, text and finite numbers"
    raise Invalid(f"{shown(value)} is not JSON", hint=hint)


def _refuse_unread(value: Any) -> None:
    """Invalid for what only leads to a response, with what to call."""
    kind = type(value)
    names = {*dir(kind), *_own_fields(value)}
    if isinstance(value, Awaitable):
        what, hint = "was not awaited", "await it, and pass what it gives"
    elif {"parse", "http_response"} <= names:
        what, hint = "is a raw HTTP response", "pass what its .parse() gives"
    elif {"json", "status_code"} <= names:
        what, hint = "is an HTTP response", "pass what its .json() gives"
    elif "__enter__" in names:
        what, hint = "was not entered", "use: with … as stream, and pass the stream"
    elif "__aenter__" in names:
        what, hint = "was not entered", "use: async with … as stream, and pass the stream"
    else:
        return
    raise Invalid(f"{shown(value)} {what}", hint=hint)


def _own_fields(value: Any) -> dict[str, Any]:
    """The attributes of an object that is not a function; none where it does not tell."""
    try:
        return {} if callable(value) else dict(vars(value))
    except Exception:  # noqa: BLE001 - as above
        return {}


# Unset fields stay out: what the provider did not send is not sent back.
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


# The methods by which objects give their fields, in the order in which they are asked.
_ASKED: dict[str, Callable[[Any], Any]] = {
    "model_dump": _dumped,
    "to_dict": lambda value: value.to_dict(),
    "dict": lambda value: value.dict(),
}


_MESSAGE_HINT = 'pass {"role": "user", "content": "…"}'


def checked_message(wire: Any) -> dict[str, Any]:
    """A plain message, checked, its cache marks taken off. Invalid if it is not an object with a
    role."""
    if not isinstance(wire, dict):
        raise not_a_message(wire)
    if not isinstance(wire.get("role"), str):
        raise Invalid(f"a message without a role: {shown(wire)}", hint=_MESSAGE_HINT)
    return remove_marks(wire)


_LANGCHAIN = frozenset({"human", "ai", "system", "tool", "function", "chat", "remove"})


def refuse_langchain(wire: Mapping[str, Any]) -> None:
    """Refuses a message of LangChain, which has a type and no role, and says what to do."""
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
    """Takes the cache marks off a message, its parts and theirs; arguments are content and stay
    as they are."""
    for mark in MARKS:
        wire.pop(mark, None)
    content = wire.get("content")
    if type(content) is list:
        for part in content:
            if type(part) is dict:
                remove_marks(part)
    return wire


def marks_in(wire: Any) -> list[list[Any]]:
    """The cache marks of a message, each with the place of its block; one inside a result counts
    for the result."""
    parts = wire.get("content") if isinstance(wire, dict) else None
    marks: list[list[Any]] = []
    for index, part in enumerate(parts if type(parts) is list else ()):
        mark = _mark_on(part) if type(part) is dict else None
        if mark is not None:
            marks.append([index, mark])
    return marks


def _mark_on(part: dict[str, Any]) -> dict[str, Any] | None:
    inner = part.get("content")
    for one in (part, *reversed(inner)) if type(inner) is list else (part,):
        mark = one.get(MARKS[0]) if type(one) is dict else None
        if type(mark) is dict:
            return mark
    return None


def without_marks(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A shallow copy of an object without its cache marks."""
    return {key: value for key, value in fields.items() if key not in MARKS}


def plain_value(value: Any) -> Any:
    """A system prompt, a list of tools or any other value as plain JSON: a subclass of text becomes
    text, an SDK's object its fields. None stays None; Invalid for what JSON cannot say."""
    return plain(encoded(value))


def role_of(wire: Mapping[str, Any], roles: Mapping[str, Role]) -> Role:
    """The neutral role of a message, by the dialect's own roles."""
    given = wire["role"]
    role = roles.get(given) if isinstance(given, str) else None
    if role is None:
        raise Invalid(f"{shown(given)} is not a role", hint=f"one of {', '.join(roles)}")
    return role


def refused(what: str, value: Any, accepted: str) -> Invalid:
    """The error for a value that has no form in a dialect."""
    return Invalid(f"{what} is {shown(value)}", hint=f"{accepted} is accepted")


def text_in(fields: Mapping[Any, Any], key: str) -> str:
    """A text field, or nothing."""
    value = fields.get(key)
    return value if type(value) is str or isinstance(value, str) else ""


def count_in(fields: Any, key: str) -> int:
    """A number of tokens, or none."""
    value = fields.get(key) if isinstance(fields, dict) else None
    return int(value) if isinstance(value, int | float) else 0
