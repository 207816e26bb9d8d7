"""Ids and digests: their forms, their checks, and new ones.

The id of a conversation is a safe file name on every system; the id of an artifact is derived from
the sha256 of its content; the id of an event is a UUID that begins with its time. A form is checked
where an id comes in. Neighbours: `codec` seals events under their ids, `display` has plain text.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache

from refold.checked import quoted
from refold.display import plain_text
from refold.errors import Invalid
from refold.patterns import regex

_RESERVED = {"CON", "PRN", "AUX", "NUL", *(f"{d}{n}" for d in ("COM", "LPT") for n in range(1, 10))}
_ID = regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Written out: a repeated group would take twice as long, and every event is checked.
EVENT_ID = regex(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DIGEST = regex(r"[0-9a-f]{64}")
ARTIFACT_ID = regex(r"art-[a-z2-7]{12}")  # see `artifact_id`


def uuid7(at_ms: int, randomness: bytes) -> str:
    """A time-ordered id from a clock value and ten random bytes."""
    value = bytearray(at_ms.to_bytes(6, "big") + randomness[:10])
    value[6] = 0x70 | (value[6] & 0x0F)
    value[8] = 0x80 | (value[8] & 0x3F)
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def conversation_checked(id: str) -> str:
    """Returns the id; raises Invalid unless it is a safe file name on every system."""
    if not isinstance(id, str):
        raise _not_conversation_id(id)
    return _conversation_checked(id)


@lru_cache(maxsize=4_096)
def _conversation_checked(id: str) -> str:
    """The same for a string. Cached, because every read of a store checks the id again."""
    is_reserved = id.upper().partition(".")[0] in _RESERVED
    if is_reserved or not _ID.fullmatch(id) or id.endswith((".", ".lock")):
        raise _not_conversation_id(id)
    return plain_text(id)


def _not_conversation_id(id: object) -> Invalid:
    hint = "1 to 64 letters, digits, dots, dashes, underscores: fix-login"
    return Invalid(f"{quoted(id)} is not a conversation id", hint=hint)


def artifact_id(digest: str) -> str:
    """The short name of an artifact, derived from its content, so it is the same on every
    device."""
    return "art-" + base64.b32encode(bytes.fromhex(digest))[:12].decode().lower()


def digest_checked(digest: str) -> str:
    """Returns the digest; raises Invalid unless it is a sha256 in lower-case hex."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise Invalid(
            f"{quoted(digest)} is not a digest", hint="pass the 64 hex digits that `put` returned"
        )
    return digest


content_hasher = hashlib.sha256  # of artifact contents
