"""Plain JSON without its secrets: every text in it, the long keys of its objects, text that is
encoded, and arguments that are JSON themselves.

A short text is looked at together with the name of its field, which may tell what it is. Of bytes
and hashes only what is surely a secret goes: a note would make them unreadable. What a hash or a
signature said of an object that was changed goes with it, and so does what a provider wrote and
would no longer know. Neighbours: `redact` has the rules for a
text; a copy without secrets and a log that is shared are made by this.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from refold.redaction.find import found
from refold.redaction.redact import Redact

NAMED_CHARS = 400
KEY_CHARS = 8  # a shorter key of an object is a name
# Fields whose texts are bytes in base64, or hashes.
ENCODED = ("data", "signature", "digest", "arguments_hash", "encrypted_content")
HASHES = ("signature", "arguments_hash")
# What a provider wrote for a span, which it takes back unaltered only.
SEALED, SEALED_FIELDS = "native", {"dialect", "model", "messages"}
ADOPTED = "adopt"  # what an edit is for that has lost it: its text stands, as anybody's would


class PlainRedactor:
    """Takes secrets out of values, by a function that takes them out of a text."""

    def __init__(self, redact: Redact) -> None:
        self.redact = redact

    def value(self, value: Any, name: str = "") -> Any:
        """The value without secrets; an equal one if it has none."""
        match value:
            case str():
                return self.string(value, name)
            case list():
                return [self.value(item, name) for item in value]
            case tuple():
                return tuple(self.value(item, name) for item in value)
            case dict():
                return self.object(value)
            case _:
                return value

    def object(self, value: dict[str, Any]) -> dict[str, Any]:
        clean = {self._key(key): self.value(item, key) for key, item in value.items()}
        if value.get("type") == "opaque" and isinstance(value.get("data"), str):
            clean["data"] = self.encoded(value["data"])
        if _is_sealed(value.get(SEALED)) and clean[SEALED] != value[SEALED]:
            del clean[SEALED]
            clean["purpose"] = ADOPTED
        if clean == value:
            return clean
        return {name: inner for name, inner in clean.items() if name not in HASHES}

    def _key(self, key: Any) -> Any:
        is_text = isinstance(key, str) and len(key) >= KEY_CHARS
        return self.redact(key) if is_text else key

    def string(self, text: str, name: str) -> str:
        if name in ENCODED:
            return self.redact(text) if has_sure(text) else self.unsure(text)
        if name == "arguments" and text[:1] in ("{", "["):
            return self._arguments(text)
        if not name or not is_token(text):
            return self.redact(text)
        start = f'{name}: "'
        return self.redact(f'{start}{text}"').removeprefix(start).removesuffix('"')

    def unsure(self, text: str) -> str:
        """Bytes and hashes that may look like a secret."""
        return text

    def _arguments(self, text: str) -> str:
        """The arguments of a call, which stay JSON if they are."""
        try:
            given = msgspec.json.decode(text)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return self.redact(text)
        clean = self.value(given)
        return text if clean == given else msgspec.json.encode(clean).decode()

    def encoded(self, data: str) -> str:
        """Text that JSON cannot hold is kept as bytes, in base64."""
        text = decoded(data)
        if text is None:
            return data
        clean = self.redact(text)
        if clean == text:
            return data
        return base64.b64encode(clean.encode("utf-8", "surrogatepass")).decode()


def _is_sealed(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == SEALED_FIELDS


def decoded(data: str) -> str | None:
    """The text that is kept in base64; None if it is not text."""
    try:
        return base64.b64decode(data, validate=True).decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def has_sure(text: str) -> bool:
    """Whether something in a text is a secret beyond doubt."""
    return any(one.sure for one in found(text))


def is_token(text: str) -> bool:
    """Whether a text is short and without spaces: then the name of its field may make it a
    secret."""
    return len(text) <= NAMED_CHARS and not any(character.isspace() for character in text)
