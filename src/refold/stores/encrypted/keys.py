"""The key file, readable only by its owner, and the encryption of bytes with a key.

A line for each key: `refold-key-1:` and 32 bytes in base64. The first encrypts, all of them
decrypt, so a newer key goes in front and the older ones stay usable. A key has an id of twelve
characters, derived from it and revealing nothing; it is stored with everything that the key
encrypted.

Bytes are encrypted with AES-256 in GCM, with a random nonce in front. Their context (position,
owner) is authenticated with them but not stored: bytes moved elsewhere do not decrypt. Neighbours:
`encrypted_event` encrypts events and artifacts, the commands `sync key` write the file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
import stat
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from msgspec import Struct

from refold.checked import quoted
from refold.errors import Conflict, Corrupt, Denied, Invalid, install_hint
from refold.system import disk

MARK = "refold-key-1:"
KEY_BYTES = 32
FILE_BYTES_MAX = 64 * 1024
PASSPHRASE_CHARS_MIN = 16
SCRYPT_N, SCRYPT_R, SCRYPT_P = 2**17, 8, 1  # 128 MiB and about half a second
HINT = "copy it from a device that has it; on the first one: refold sync key new FILE"


class Key(Struct, frozen=True):
    """The bytes of a key. Neither its id nor its repr reveals them."""

    secret: bytes

    @property
    def id(self) -> str:
        hasher = hashlib.blake2b(key=self.secret, person=b"refold key id", digest_size=6)
        return hasher.hexdigest()

    def derived(self, purpose: bytes, about: bytes = b"") -> bytes:
        """A key derived for one purpose and context."""
        hasher = hashlib.blake2b(about, key=self.secret, person=purpose, digest_size=KEY_BYTES)
        return hasher.digest()

    def __repr__(self) -> str:
        return f"<Key {self.id}>"


class Keys(Struct, frozen=True, kw_only=True):
    """The keys of a file; the newest is first and encrypts."""

    path: str
    keys: tuple[Key, ...]

    @property
    def newest(self) -> Key:
        return self.keys[0]

    def named(self, id: str, what: str) -> Key:
        """The key with this id; Denied if the file lacks it."""
        for key in self.keys:
            if key.id == id:
                return key
        key_id = quoted(id, 40)
        message = f"{what} is encrypted with the key {key_id}, which {self.path} does not have"
        raise Denied(message, hint="add the line of that key to the file, below the first")


def read(path: str) -> Keys:
    """The keys of a file. Denied if it is missing, or other users can read it."""
    path = os.path.expanduser(path)
    try:
        with disk.open_regular(path) as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise Denied(f"others can read the key file {path}", hint=f"chmod 600 {path}")
            text = file.read(FILE_BYTES_MAX).decode("ascii", "replace")
    except FileNotFoundError as error:
        raise Denied(f"there is no key file {path}", hint=HINT) from error
    except Corrupt as error:
        message = f"{path} is not a key file: it is a folder, a link or a device"
        raise Corrupt(message, hint="name the file itself") from error
    except OSError as error:
        raise disk.os_failure(error, f"cannot read the key file {path}") from error
    lines = [line.strip() for line in text.splitlines()]
    keys = tuple(
        _key_in(line, f"{path}:{number}")
        for number, line in enumerate(lines, 1)
        if line and not line.startswith("#")
    )
    if not keys:
        raise Corrupt(f"the key file {path} has no key", hint=HINT)
    return Keys(path=path, keys=keys)


def _key_in(line: str, place: str) -> Key:
    """The key in a line. The error never repeats the line: it may be a damaged key."""
    try:
        secret = base64.b64decode(line.removeprefix(MARK), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not line.startswith(MARK) or len(secret) != KEY_BYTES:
        hint = f"a key is {MARK} and {KEY_BYTES} bytes in base64; lines with # are left out"
        raise Corrupt(f"{place} is not a key", hint=hint)
    return Key(secret)


def random_key() -> Key:
    return Key(secrets.token_bytes(KEY_BYTES))


def key_of(passphrase: str, name: str) -> Key:
    """The key derived from a passphrase and a name: the same on every device, also if keyboards
    encode an accented letter differently."""
    passphrase, name = (unicodedata.normalize("NFC", text) for text in (passphrase, name))
    if len(passphrase) < PASSPHRASE_CHARS_MIN:
        message = f"a passphrase has at least {PASSPHRASE_CHARS_MIN} characters"
        raise Invalid(message, hint="use several unrelated words")
    if not name:
        hint = "the same on every device: --name acme"
        raise Invalid("a key from a passphrase also needs a name", hint=hint)
    secret = hashlib.scrypt(
        passphrase.encode(),
        salt=f"refold key of {name}".encode(),
        n=SCRYPT_N,
        r=SCRYPT_R,
        p=SCRYPT_P,
        maxmem=2 * 128 * SCRYPT_N * SCRYPT_R,
        dklen=KEY_BYTES,
    )
    return Key(secret)


def create(path: str, key: Key) -> Keys:
    """Writes a new file with one key; Conflict if the file exists."""
    path = os.path.expanduser(path)
    if os.path.lexists(path):
        hint = "--rotate puts a newer key in front of it; another name makes another file"
        raise Conflict(f"the file {path} already exists", head=0, hint=hint)
    return _write(path, [key])


def rotate(path: str, key: Key) -> Keys:
    """Adds a newer key in front of those in a file."""
    old = read(path)
    if key in old.keys:
        message = f"{old.path} has the key {key.id} already"
        raise Conflict(message, head=0, hint="another passphrase makes another key")
    return _write(old.path, [key, *old.keys])


def _write(path: str, keys: Sequence[Key]) -> Keys:
    """Replaces the file, synced before the rename: a lost key is a lost store."""
    lines = [f"{MARK}{base64.b64encode(key.secret).decode()}\n" for key in keys]
    head = "# Keys of refold. The first encrypts, all decrypt. Whoever has one can read.\n"
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        disk.replace_file(path, (head + "".join(lines)).encode(), durable=True)
        disk.sync_folder(folder)
    except OSError as error:
        raise disk.os_failure(error, f"cannot write the key file {path}") from error
    return Keys(path=path, keys=tuple(keys))


# --- encrypting bytes ---

NONCE_BYTES, TAG_BYTES = 12, 16


class Aead(Protocol):
    """An authenticated cipher with one key."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes, /) -> bytes: ...
    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes, /) -> bytes: ...


class Changed(Exception):
    """The bytes were changed or moved, or encrypted with another key."""


def encrypt(secret: bytes, plain: bytes, about: bytes) -> bytes:
    """A new nonce, followed by the encrypted bytes."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + aead(secret).encrypt(nonce, plain, about)


def decrypt(secret: bytes, data: bytes, about: bytes) -> bytes:
    """The bytes that were encrypted; Changed if these are not their encryption."""
    return decrypt_with(secret, data[:NONCE_BYTES], data[NONCE_BYTES:], about)


def decrypt_with(secret: bytes, nonce: bytes, data: bytes, about: bytes) -> bytes:
    """The same, with a separate nonce."""
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
        message = "a key in the store's URL needs the package cryptography (refold[encrypted])"
        raise Invalid(message, hint=install_hint("encrypted")) from error
    cipher: Aead = AESGCM(secret)
    return cipher
