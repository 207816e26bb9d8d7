"""What only this server can make: a signed note, opaque to everybody else.

A seal holds a small object and an HMAC over it, in base64. Changing any byte of it breaks it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json

from tests.real.proxy.strict.wire import Json, canonical

_KEY = b"only this server knows it"
_MAC_BYTES = 16


def seal(note: Json) -> str:
    body = canonical(note)
    return base64.b64encode(_mac(body) + body).decode()


def unseal(text: object) -> Json | None:
    """The note in a seal; None for what this server did not make."""
    if not isinstance(text, str):
        return None
    try:
        # An SDK that holds bytes may write them back in the other alphabet.
        raw = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return None
    mac, body = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(body)):
        return None
    note: Json = json.loads(body)
    return note


def _mac(body: bytes) -> bytes:
    return hmac.digest(_KEY, body, "sha256")[:_MAC_BYTES]
