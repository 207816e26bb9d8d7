"""Redaction of text, plain JSON and streams: each secret is replaced by a note with its kind.

Redacting twice changes nothing. The log and the page are not redacted: the model has seen them
already. `Config.redact` selects the channels, and e-mail addresses. In JSON, a short string is
searched together with the name of its field. In bytes and hashes only sure secrets are replaced: a
note would make them unreadable. A changed object loses its hash or signature, and a native summary
is removed, because its provider would no longer accept it. Neighbour: `find` finds the secrets.
"""

from __future__ import annotations

import base64
import binascii
import codecs
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec

from refold.config import CHANNELS, EMAILS, Channel
from refold.redaction.find import KnownSecrets, secrets_in
from refold.redaction.rules import PRIVATE_KEY_CHARS

PASSES_MAX = 10
SHOWN_CHARS_MIN = 24  # length of a secret from which some characters may be shown

Redact = Callable[[str], str]


# --- channels ---


def is_redacted(redact: bool | tuple[str, ...], channel: Channel) -> bool:
    """Whether the setting `redact` covers a channel."""
    assert channel in CHANNELS
    return redact if isinstance(redact, bool) else channel in redact


def redactor(redact: bool | tuple[str, ...], channel: Channel = "summaries") -> Redact:
    """The function for the text of a channel: `redacted`, or a function that changes nothing."""
    return partial(redacted, emails=takes_emails(redact)) if is_redacted(redact, channel) else str


def takes_emails(redact: bool | tuple[str, ...]) -> bool:
    """Whether the setting `redact` includes e-mail addresses."""
    return not isinstance(redact, bool) and EMAILS in redact


# --- texts ---


def redacted(text: str, *, emails: bool = False, keep_lines: bool = False) -> str:
    """The text with every secret, and with `emails` every e-mail address, replaced by a note with
    its kind. With `keep_lines` the number of lines stays the same, for callers with line
    numbers."""
    for _ in range(PASSES_MAX):
        secrets = secrets_in(text, emails=emails)
        if not secrets:
            break
        parts: list[str] = []
        done = 0
        for kind, start, end, _ in secrets:
            parts += [text[done:start], f"[redacted {kind}]"]
            if keep_lines:
                parts.append("\n" * text.count("\n", start, end))
            done = end
        parts.append(text[done:])
        # Searched again, because a secret may have hidden an adjacent one.
        text = "".join(parts)
    return text


def masked(secret: str) -> str:
    """A secret for display: a few characters of a long one, none of a password or a key block."""
    size = f"({len(secret):,} characters)"
    is_block = "-----" in secret or any(char.isspace() for char in secret)
    if len(secret) < SHOWN_CHARS_MIN or is_block:
        return f"… {size}"
    return f"{secret[:4]}…{secret[-2:]} {size}"


NAMED_CHARS = 400
KEY_CHARS = 8  # a shorter key of an object is a name
# Fields whose values are bytes in base64, or hashes.
ENCODED = ("data", "signature", "digest", "arguments_hash", "encrypted_content")
HASHES = ("signature", "arguments_hash")
# A native summary, which its provider accepts only unaltered.
SEALED, SEALED_FIELDS = "native", {"dialect", "model", "messages"}
ADOPTED = "adopt"  # purpose of an edit that has lost its native summary


class PlainRedactor:
    """Redacts values, with a function that redacts text."""

    def __init__(self, redact: Redact) -> None:
        self.redact = redact

    def value(self, value: Any, name: str = "") -> Any:
        """The redacted value; an equal one if it has no secret."""
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
        native = value.get(SEALED)
        is_sealed = isinstance(native, dict) and native.keys() == SEALED_FIELDS
        if is_sealed and clean[SEALED] != native:
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
        """The redacted arguments of a call; JSON stays JSON."""
        try:
            given = msgspec.json.decode(text)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return self.redact(text)
        clean = self.value(given)
        return text if clean == given else msgspec.json.encode(clean).decode()

    def encoded(self, data: str) -> str:
        """Redacted text in base64; other bytes unchanged."""
        text = decoded(data)
        if text is None:
            return data
        clean = self.redact(text)
        if clean == text:
            return data
        return base64.b64encode(clean.encode("utf-8", "surrogatepass")).decode()


def decoded(data: str) -> str | None:
    """The text in a base64 string; None if it is not text."""
    try:
        return base64.b64decode(data, validate=True).decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def has_sure(text: str) -> bool:
    """Whether the text contains a sure secret."""
    return any(hit.sure for hit in secrets_in(text))


def is_token(text: str) -> bool:
    """Whether the text is short and without spaces, so that the name of its field may make it a
    secret."""
    return len(text) <= NAMED_CHARS and not any(character.isspace() for character in text)


HELD_CHARS, LINE_CHARS = 64_000, 1_000_000


def redacted_chunks(
    chunks: Iterable[bytes], *, emails: bool = False, known: KnownSecrets | None = None
) -> Iterator[bytes]:
    """A redacted stream of UTF-8 text, such as an export for reading. `known` secrets are replaced
    everywhere."""
    values = known or KnownSecrets()
    for piece in pieces(chunks):
        yield values.redacted(redacted(piece, emails=emails)).encode()


def pieces(chunks: Iterable[bytes]) -> Iterator[str]:
    """A stream of UTF-8 text in pieces that can be searched separately. A piece ends at the end of
    a line, and never inside a private key; the buffer is bounded."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    waiting: list[str] = []
    size, enough = 0, HELD_CHARS
    for chunk in chunks:
        waiting.append(decoder.decode(chunk))
        size += len(waiting[-1])
        if size > enough:
            text = "".join(waiting)
            end = _piece_end(text)
            if end:
                yield text[:end]
            waiting = [text[end:]]
            size = len(waiting[0])
            # If no piece could end, the next attempt waits for as much again, so that the cost of
            # many small chunks does not grow quadratically.
            enough = size + HELD_CHARS
    yield "".join(waiting) + decoder.decode(b"", True)


def _piece_end(text: str) -> int:
    """The end of the part that can be searched without the rest; 0 if there is none yet."""
    end = text.rfind("\n") + 1
    if not end and len(text) > LINE_CHARS:
        end = len(text)
    key = text.rfind("-----BEGIN", max(0, end - PRIVATE_KEY_CHARS), end)
    is_in_key = key > text.rfind("-----END", 0, end)
    return text.rfind("\n", 0, key) + 1 if is_in_key else end
