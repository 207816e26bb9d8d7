"""Values of our types, from bytes or plain data, in any number of threads.

msgspec reads a type at its first use, and remembers it before it has read all of it. A second
thread that comes at that moment takes the half for the whole, and the process ends with a broken
memory. So every type is read here first, under one lock; one that was read before costs a look into
a set. All of refold decodes by this module, and a test says so. No imports of ours.
"""

from __future__ import annotations

import os
import threading
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

_lock = threading.Lock()
_read = set[Any]()


def _renew() -> None:
    """A thread that read a type when the process was forked does not live on in the child."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew)


def resolved_type(kind: Any) -> Any:
    """The type itself, once msgspec knows all of it."""
    if kind not in _read:
        with _lock:
            msgspec.json.Decoder(kind)
        _read.add(kind)
    return kind


@overload
def convert(value: Any, kind: type[T], *, strict: bool = True) -> T: ...


@overload
def convert(value: Any, kind: Any, *, strict: bool = True) -> Any: ...


def convert(value: Any, kind: Any, *, strict: bool = True) -> Any:
    """A value of this type, from plain data."""
    return msgspec.convert(value, resolved_type(kind), strict=strict)


@overload
def decode(data: bytes | str | msgspec.Raw, kind: type[T]) -> T: ...


@overload
def decode(data: bytes | str | msgspec.Raw, kind: Any) -> Any: ...


def decode(data: bytes | str | msgspec.Raw, kind: Any) -> Any:
    """A value of this type, from JSON."""
    return msgspec.json.decode(data, type=resolved_type(kind))


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """What decodes JSON of this type, for many of them."""
    return msgspec.json.Decoder(resolved_type(kind))


def packed_decoder(kind: type[T]) -> msgspec.msgpack.Decoder[T]:
    """The same for MessagePack."""
    return msgspec.msgpack.Decoder(resolved_type(kind))
