"""Any output value of a tool as JSON, and back.

Values without a JSON form are written as an object with one tag: a set as `{"$set": [1, 2]}`, a
time as `{"$datetime": "2026-11-16T03:14:15"}`, not-a-number as `{"$float": "nan"}`, a mapping with
keys that are not strings as `{"$dict": [[1, "one"]]}`; a model reads this form, `decoded` restores
the value. Data that happens to look like a tag is also written as `$dict`. A value without any form
(an open file, a list that contains itself) is refused, and the error names its position.
Dataclasses and enums become their content; tuples become lists. Neighbour: `intake` keeps the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from pathlib import Path, PurePath
from traceback import format_exception_only
from typing import Any
from uuid import UUID

import msgspec

from refold import decoding
from refold.checked import quoted
from refold.core.codec import EVENT_BYTES_MAX
from refold.errors import Invalid

DEPTH_MAX, KEYS_SHOWN = 100, 10
PIECE_CHARS, PIECE_ITEMS, SMALL_CHARS, SMALL_ITEMS = 256 * 1024, 256, 1_024, 64
_PLAIN = frozenset((str, int, bool, type(None)))
_USUAL_CONTAINERS = frozenset((dict, list))
_CONTAINERS = frozenset((dict, list, tuple))
_TEXT = frozenset((str,))
# In this order: a datetime is also a date.
_TAGGED: tuple[tuple[str, type], ...] = (
    ("$bytes", bytes), ("$datetime", datetime), ("$date", date), ("$time", time),
    ("$timedelta", timedelta), ("$decimal", Decimal), ("$uuid", UUID),
)  # fmt: skip

_Text = Callable[[str], Any]


class Gap(msgspec.Struct, frozen=True):
    """A placeholder in a value for content kept elsewhere, written as `{tag: held}`."""

    tag: str
    held: Any


class _Unfit(Exception):
    """A value that cannot be written, and the path to it, innermost key first."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.way: list[str] = []


def encoded(value: Any) -> bytes:
    """The value as JSON; Invalid, with its path, if a part of it has no form."""
    written = Written(value)
    return b"".join(written) if written.whole is None else written.whole


class Written:
    """A value as JSON, in pieces, encoded again for each iteration: a large one is never held
    twice. `whole` has all of a small one. Invalid, with its path, if a part of it has no form."""

    def __init__(self, value: Any) -> None:
        self._value = _plain_value(value)
        try:
            self._measure()
        except UnicodeEncodeError:
            # Lone surrogates are rare, and looking for them in every text would not be cheap.
            self._value = _plain_value(value, _escaped)
            self._measure()

    def _measure(self) -> None:
        self.size_bytes = self.size_chars = 0
        held: list[bytes] = []
        for piece in self:
            self.size_bytes += len(piece)
            self.size_chars += len(piece.decode())
            if self.size_bytes <= EVENT_BYTES_MAX:
                held.append(piece)
            else:
                held.clear()
        self.whole = b"".join(held) if self.size_bytes <= EVENT_BYTES_MAX else None

    def __iter__(self) -> Iterator[bytes]:
        return _pieces(self._value)


def _plain_value(value: Any, text: _Text = str) -> Any:
    """The value as plain data; Invalid, with its path, if a part of it has no form."""
    try:
        return _written(value, set(), text=text)
    except _Unfit as error:
        place = ""  # the outer keys of the path: `at .rows[3].file: `
        if keys := error.way[::-1]:
            more = "…" if len(keys) > KEYS_SHOWN else ""
            place = f"at {''.join(keys[:KEYS_SHOWN])}{more}: "
        raise Invalid(
            f"a tool output of type {type(value).__name__} cannot be kept: {place}{error}",
            hint="pass text or plain data, or keep its repr with on_error='degrade'",
        ) from error


def _pieces(value: Any) -> Iterator[bytes]:
    """The JSON of plain data in small pieces."""
    if _is_small(value):
        yield msgspec.json.encode(value)
    elif isinstance(value, str):
        yield b'"'
        for at in range(0, len(value), PIECE_CHARS):
            yield msgspec.json.encode(value[at : at + PIECE_CHARS])[1:-1]
        yield b'"'
    elif isinstance(value, dict):
        for at, (key, item) in enumerate(value.items()):
            yield (b"," if at else b"{") + msgspec.json.encode(key) + b":"
            yield from _pieces(item)
        yield b"}"
    else:
        yield from _list_pieces(value)


def _list_pieces(values: Sequence[Any]) -> Iterator[bytes]:
    """The items one by one, small ones together: there may be millions."""
    comma, batch = b"[", list[Any]()
    for value in values:
        is_small = _is_small(value)
        if is_small:
            batch.append(value)
        if batch and (not is_small or len(batch) >= PIECE_ITEMS):
            yield comma + msgspec.json.encode(batch)[1:-1]
            comma, batch = b",", []
        if not is_small:
            yield comma
            yield from _pieces(value)
            comma = b","
    if batch:
        yield comma + msgspec.json.encode(batch)[1:-1] + b"]"
    else:
        yield b"]" if comma == b"," else b"[]"


def _is_small(value: Any) -> bool:
    """Whether a value is encoded at once: a number, a short text, or a few of these."""
    if type(value) is str:
        return len(value) <= SMALL_CHARS
    if type(value) not in _CONTAINERS:
        return True
    items = value.values() if type(value) is dict else value
    if len(value) > SMALL_ITEMS or not _CONTAINERS.isdisjoint(map(type, items)):
        return False
    return all(len(item) <= SMALL_CHARS for item in items if type(item) is str)


def degraded(value: Any) -> str:
    """The `repr` of any value, for callers who prefer that to an error."""
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - `repr` is the caller's code and may raise anything
        return f"<{type(value).__name__}, whose repr failed: {type(error).__name__}>"


# --- writing ---


def _written(value: Any, above: set[int], *, text: _Text = str) -> Any:
    """The value in a form that JSON has; the very same object if nothing had to be changed."""
    kind = type(value)
    if kind in _PLAIN:
        return text(value) if kind is str else value
    if kind not in _USUAL_CONTAINERS:
        scalar = _written_scalar(value, text)
        if scalar is not None:
            return scalar
    if id(value) in above:
        raise _Unfit("it holds itself")
    if len(above) >= DEPTH_MAX:
        raise _Unfit(f"it is nested more than {DEPTH_MAX} deep")
    above.add(id(value))
    written = _written_container(value, above, text)
    above.discard(id(value))
    return written


def _written_scalar(value: Any, text: _Text) -> Any:
    """A value without others in it, in a form that JSON has; None for any other value."""
    match value:
        case Enum():
            return None
        case Gap():
            return {value.tag: value.held}
        case PurePath():
            return {"$path": str(value)}
        case str():
            return text(str.__str__(value))
        case float():
            return float(value) if isfinite(value) else {"$float": str(float(value))}
        case int():
            return int(value)
        case BaseException():
            return {"$exception": "".join(format_exception_only(value)).strip()}
    for tag, kind in _TAGGED:
        if isinstance(value, kind):
            return {tag: msgspec.to_builtins(value)}
    return None


def _written_container(value: Any, above: set[int], text: _Text) -> Any:
    """A value with others in it."""
    if isinstance(value, dict):
        # A subclass may override access to its entries with code that raises anything.
        held = value if type(value) is dict else dict(dict.items(value))
        return _mapping(held, above, text)
    if isinstance(value, list | tuple):
        return _items(value, above, text)
    match value:
        case set() | frozenset():
            return {"$set": _items(sorted(value, key=repr), above, text)}
        case bytearray() | memoryview():
            return _written(bytes(value), above, text=text)
        case Enum():
            return _written(value.value, above, text=text)
        case msgspec.Struct():
            return _mapping(msgspec.structs.asdict(value), above, text)
    if is_dataclass(value) and not isinstance(value, type):
        held = {field.name: getattr(value, field.name) for field in fields(value)}
        return _mapping(held, above, text)
    raise _Unfit(f"{type(value).__name__} is not plain data")


def _items(
    values: list[Any] | tuple[Any, ...], above: set[int], text: _Text
) -> list[Any] | tuple[Any, ...]:
    changed: list[Any] | None = None
    plain = _PLAIN if text is str else _PLAIN - {str}
    for at, value in enumerate(values):
        if type(value) in plain:
            continue
        written = _written_item(at, value, above, text)
        if written is not value:
            changed = list(values) if changed is None else changed
            changed[at] = written
    return values if changed is None else changed


def _mapping(values: dict[Any, Any], above: set[int], text: _Text) -> dict[str, Any]:
    """A JSON object, if all keys are texts and it does not look like a tag."""
    is_tag = len(values) == 1 and next(iter(values)) in _TAGS
    is_object = not is_tag and not set(map(type, values)) - _TEXT
    if not is_object or (text is not str and any(text(key) is not key for key in values)):
        return {"$dict": _items([[key, value] for key, value in values.items()], above, text)}
    changed: dict[str, Any] | None = None
    plain = _PLAIN if text is str else _PLAIN - {str}
    for key, value in values.items():
        if type(value) in plain:
            continue
        written = _written_item(key, value, above, text)
        if written is not value:
            changed = dict(values) if changed is None else changed
            changed[key] = written
    return values if changed is None else changed


def _written_item(key: str | int, value: Any, above: set[int], text: _Text) -> Any:
    if type(value) is float and isfinite(value):
        return value
    try:
        return _written(value, above, text=text)
    except _Unfit as error:
        named = quoted(key, 80).strip("'") if isinstance(key, str) else ""
        error.way.append(f".{named}" if named else f"[{key}]")
        raise


def _escaped(text: str) -> Any:
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"$escaped": text.encode("unicode_escape").decode()}
    return text


# --- reading ---


def decoded(text: str | bytes) -> Any:
    """The value that `encoded` wrote; Invalid if it is not JSON."""
    return restored(json_of(text))


def json_of(text: str | bytes) -> Any:
    """The value of a JSON text; Invalid if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise _unreadable(error) from error


def restored(value: Any) -> Any:
    """The value that was written as this JSON value."""
    try:
        return _restored(value)
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError) as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> Invalid:
    what = f"this is not what a value was written as: {error}"
    return Invalid(what, hint="text is kept as it is")


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        [(tag, held)] = value.items()
        if tag in _TAGS:
            return _TAGS[tag](held)
    return {key: _restored(item) for key, item in value.items()}


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    return frozenset(value) if isinstance(value, set) else value


def _converter(kind: type) -> Callable[[Any], Any]:
    return lambda held: decoding.convert(held, kind)


_TAGS: dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$set": lambda held: {_hashable(_restored(item)) for item in held},
    "$dict": lambda held: {_hashable(_restored(key)): _restored(item) for key, item in held},
    "$exception": str,
    "$escaped": lambda held: held.encode().decode("unicode_escape"),
    "$path": Path,
    **{tag: _converter(kind) for tag, kind in _TAGGED},
    # Gaps: filled before, with the content kept elsewhere.
    **dict.fromkeys(("$media", "$base64", "$data_url", "$text"), lambda held: held),
}
