"""Bytes, encrypted so that nobody without the key reads them or puts others in their place.

AES-256 in GCM, with a random nonce for each, in front of what it gives. What the bytes are about
(their place, what they belong to) is authenticated with them and not repeated: bytes that stand
somewhere else do not decrypt. Neighbours: `event` and `content` say what is encrypted.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Protocol

from refold.errors import Invalid, install_hint

NONCE_BYTES, TAG_BYTES = 12, 16


class Aead(Protocol):
    """A cipher of one key that authenticates what it encrypts."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes, /) -> bytes: ...
    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes, /) -> bytes: ...


class Changed(Exception):
    """The bytes are not those that were encrypted there, or not with this key."""


def encrypt(secret: bytes, plain: bytes, about: bytes) -> bytes:
    """A fresh nonce, and the bytes encrypted."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + aead(secret).encrypt(nonce, plain, about)


def decrypt(secret: bytes, data: bytes, about: bytes) -> bytes:
    """What `encrypt` was given; Changed if it was not this."""
    return decrypt_with(secret, data[:NONCE_BYTES], data[NONCE_BYTES:], about)


def decrypt_with(secret: bytes, nonce: bytes, data: bytes, about: bytes) -> bytes:
    """The same, for a nonce that is known."""
    if len(nonce) != NONCE_BYTES or len(data) < TAG_BYTES:
        raise Changed("it is cut short")
    cipher = aead(secret)
    from cryptography.exceptions import InvalidTag

    try:
        return cipher.decrypt(nonce, data, about)
    except InvalidTag as error:
        raise Changed("it is not what was encrypted there") from error


@lru_cache(maxsize=64)
def aead(secret: bytes) -> Aead:
    """The cipher of a key; Invalid if the package is missing."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ModuleNotFoundError as error:
        said = "a key in the store's URL needs the package cryptography (refold[encrypted])"
        raise Invalid(said, hint=install_hint("encrypted")) from error
    cipher: Aead = AESGCM(secret)
    return cipher
