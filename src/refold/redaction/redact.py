"""Text without its secrets: each is replaced by a note that says what stood there.

What stood there is named, never shown. Redacting twice changes nothing. The log and the page keep
what they were given: the model has seen it already. `Config.redact` says for which channels this is
done, and whether e-mail addresses go as well. Neighbours: `find` finds the secrets, `streams` does
this piece by piece.

Plain JSON without its secrets: every text in it, the long keys of its objects, text that is
encoded, and arguments that are JSON themselves.

A short text is looked at together with the name of its field, which may tell what it is. Of bytes
and hashes only what is surely a secret goes: a note would make them unreadable. What a hash or a
signature said of an object that was changed goes with it, and so does what a provider wrote and
would no longer know. Neighbours: `redact` has the rules for a
text; a copy without secrets and a log that is shared are made by this.

Streams of text without their secrets, in pieces that can be searched one by one.

Neighbours: `redact` does this for a whole text, `private_keys` says how long a key may be.
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
from refold.redaction.find import KnownSecrets, found
from refold.redaction.rules import KEY_CHARS as PRIVATE_KEYS_KEY_CHARS
from refold.redaction.values import Found

PASSES_MAX = 10
SHOWN_CHARS_MIN = 24  # of a secret of which some characters may be shown

Redact = Callable[[str], str]


# --- channels ---


def is_redacted(redact: bool | tuple[str, ...], channel: Channel) -> bool:
    """Whether the setting `redact` covers a channel: all, none, or those it names."""
    assert channel in CHANNELS
    return redact if isinstance(redact, bool) else channel in redact


def redactor(redact: bool | tuple[str, ...], channel: Channel = "summaries") -> Redact:
    """The function to put texts of a channel through: `redacted`, or one that leaves them alone."""
    return partial(redacted, emails=takes_emails(redact)) if is_redacted(redact, channel) else str


def takes_emails(redact: bool | tuple[str, ...]) -> bool:
    """Whether the setting `redact` includes e-mail addresses."""
    return not isinstance(redact, bool) and EMAILS in redact


# --- texts ---


def redacted(text: str, *, emails: bool = False, keep_lines: bool = False) -> str:
    """The text with every secret, and with `emails` every e-mail address, replaced by a note that
    says what stood there. With `keep_lines` it has as many lines as before: somebody may have
    noted their numbers."""
    for _ in range(PASSES_MAX):
        secrets = found(text, emails=emails)
        if not secrets:
            break
        # A secret next to another shows only when that one is gone, so what is left is searched
        # again.
        text = _with_notes(text, secrets, keep_lines)
    return text


def _with_notes(text: str, secrets: list[Found], keep_lines: bool) -> str:
    parts: list[str] = []
    done = 0
    for kind, start, end, _ in secrets:
        parts += [text[done:start], f"[redacted {kind}]"]
        if keep_lines:
            parts.append("\n" * text.count("\n", start, end))
        done = end
    parts.append(text[done:])
    return "".join(parts)


def masked(secret: str) -> str:
    """What may be shown of a secret: enough to tell a long one from another, nothing of a
    password or a key block."""
    size = f"({len(secret):,} characters)"
    is_block = "-----" in secret or any(char.isspace() for char in secret)
    if len(secret) < SHOWN_CHARS_MIN or is_block:
        return f"… {size}"
    return f"{secret[:4]}…{secret[-2:]} {size}"


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


HELD_CHARS, LINE_CHARS = 64_000, 1_000_000


def redacted_chunks(
    chunks: Iterable[bytes], *, emails: bool = False, known: KnownSecrets | None = None
) -> Iterator[bytes]:
    """A stream of UTF-8 text without its secrets, such as an export for reading. Those that are
    `known` go wherever they stand."""
    values = known or KnownSecrets()
    for piece in pieces(chunks):
        yield values.redacted(redacted(piece, emails=emails)).encode()


def pieces(chunks: Iterable[bytes]) -> Iterator[str]:
    """A stream of UTF-8 text in pieces that can be searched one by one. What is held back is
    bounded; a piece ends at the end of a line, and never inside a private key."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    waiting: list[str] = []
    size, enough = 0, HELD_CHARS
    for chunk in chunks:
        waiting.append(decoder.decode(chunk))
        size += len(waiting[-1])
        if size > enough:
            held = "".join(waiting)
            end = _piece_end(held)
            if end:
                yield held[:end]
            waiting = [held[end:]]
            size = len(waiting[0])
            # Where no piece could end, the next try waits for as much again: the cost of many
            # small chunks does not grow with their square.
            enough = size + HELD_CHARS
    yield "".join(waiting) + decoder.decode(b"", True)


def _piece_end(text: str) -> int:
    """How much of a text can be searched without what comes after it: 0 if there is no such
    place yet."""
    end = text.rfind("\n") + 1
    if not end and len(text) > LINE_CHARS:
        end = len(text)
    key = text.rfind("-----BEGIN", max(0, end - PRIVATE_KEYS_KEY_CHARS), end)
    is_in_key = key > text.rfind("-----END", 0, end)
    return text.rfind("\n", 0, key) + 1 if is_in_key else end
