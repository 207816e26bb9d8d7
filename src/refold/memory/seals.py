"""By what forgotten words are known again: a key, and a keyed hash of them.

Every seal has a key of its own, so equal words have different seals, and nobody reads from a log
what was forgotten without guessing it. Neighbours: `forgetting` makes seals, `fold` compares.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable

KEY_BYTES = 16
_KEY_DIGITS = 2 * KEY_BYTES


def sealed(words: str, key: str = "") -> str:
    """The seal of these words: the key, a new one unless it is given, and the hash."""
    key = key or secrets.token_hex(KEY_BYTES)
    data = words.encode("utf-8", "replace")
    return key + hashlib.blake2b(data, key=bytes.fromhex(key), digest_size=16).hexdigest()


def is_sealed(words: Iterable[str], seals: Iterable[str]) -> bool:
    """Whether one of the seals is that of one of these words."""
    wordings = list(words)
    return any(
        hmac.compare_digest(seal, sealed(one, seal[:_KEY_DIGITS]))
        for seal in seals
        for one in wordings
    )
