"""What is kept is what was given: a value that JSON would change on the way is refused.

JSON has no word for not-a-number and would make it null; a key that is a number would become a
text, a set a list, bytes and times a text. Whoever reads the log could not tell. Only a tuple may
become a list, which means the same. Neighbours: `draft` compares what it was given with what its
bytes say; `artifacts.values` writes what a tool gave, whatever it is, as JSON that leads back.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from refold.errors import Invalid

KEY_CHARS = 60
HINT = "pass texts, finite numbers, truth values, None, and lists and dicts of those"


def check_unchanged(given: Any, kept: Any, place: str) -> None:
    """Invalid, with the place, if what was kept is not what was given."""
    if given == kept:
        return
    match given, kept:
        case Struct(), Struct():
            for name in given.__struct_fields__:
                check_unchanged(getattr(given, name), getattr(kept, name), f"{place}.{name}")
        case _, Struct():
            return  # a plain form of it was given, and decoding has held it to its type
        case dict(), dict():
            _check_keys(given, kept, place)
        case ((list() | tuple()), (list() | tuple())):
            for at, (one, other) in enumerate(zip(given, kept, strict=True)):
                check_unchanged(one, other, f"{place}[{at}]")
        case _:
            raise Invalid(f"{place}: {_shown(given)} is not JSON", hint=HINT)


def _check_keys(given: dict[Any, Any], kept: dict[str, Any], place: str) -> None:
    for key, value in given.items():
        if not isinstance(key, str):
            raise Invalid(f"{place}: the key {_shown(key)} is not text", hint=HINT)
        # A long one may be a secret, and half of it would not be known as one.
        named = key if len(key) <= KEY_CHARS else "…"
        check_unchanged(value, kept.get(key), f"{place}.{named}")


def _shown(value: object) -> str:
    """A number, or the type: what a stranger's value says of itself may fail."""
    if type(value) in (int, float):
        return str(value)
    return f"a {type(value).__name__}"
