"""Thread-safe decoding of values of our types, from bytes or plain data.

msgspec resolves a type at its first use, and caches it before it is complete. A second thread at
that moment uses the incomplete one and corrupts the memory of the process. So every type is
resolved here first, under one lock; after that it costs one lookup in a set. All of refold decodes
through this module, which a test enforces. Imports nothing of refold.
"""

from __future__ import annotations

import os
import threading
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")
NOT_TEXT = "the text has a lone surrogate, which UTF-8 cannot represent"

_lock = threading.Lock()
_read = set[Any]()


def _renew() -> None:
    """Replaces the lock in a forked child: its holder may be a thread of the parent."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # systems without fork have nothing to renew
    os.register_at_fork(after_in_child=_renew)


def resolved_type(kind: Any) -> Any:
    """Returns the type after msgspec has resolved it completely."""
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
    try:
        return msgspec.convert(value, resolved_type(kind), strict=strict)
    except UnicodeEncodeError as error:
        raise msgspec.ValidationError(NOT_TEXT) from error


@overload
def decode(data: bytes | str | msgspec.Raw, kind: type[T]) -> T: ...


@overload
def decode(data: bytes | str | msgspec.Raw, kind: Any) -> Any: ...


def decode(data: bytes | str | msgspec.Raw, kind: Any) -> Any:
    """A value of this type, from JSON. Raises msgspec.DecodeError for anything else."""
    kind = resolved_type(kind)
    try:
        return msgspec.json.decode(data, type=kind)
    except UnicodeEncodeError as error:
        raise msgspec.DecodeError(NOT_TEXT) from error
    except (RecursionError, UnicodeDecodeError) as error:
        raise msgspec.DecodeError(f"not JSON: {error}") from error


VALUES_MAX = 500_000


def foreign_value(data: bytes) -> Any:
    """Decodes JSON from an untrusted sender. Also raises msgspec.DecodeError for too many values,
    which would take far more memory than their text."""
    if sum(map(data.count, (b",", b":", b"[", b"{"))) > VALUES_MAX:
        raise msgspec.DecodeError(f"JSON with more than {VALUES_MAX:,} values")
    return decode(data, Any)


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """A reusable decoder for JSON of this type."""
    return msgspec.json.Decoder(resolved_type(kind))


def packed_decoder(kind: type[T]) -> msgspec.msgpack.Decoder[T]:
    """The same for MessagePack."""
    return msgspec.msgpack.Decoder(resolved_type(kind))
