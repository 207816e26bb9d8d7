"""A copy of a conversation without its secrets: a log of its own, that can be imported, verified
and gone on with.

Every text of every event is redacted, field by field, also where no page shows it, and so are the
contents. A content that changes has another digest, and so another id, which all that names it
follows. Events keep their ids and places; their salts, digests and chain are new, so the copy is
another log. It follows from the log alone: the same export twice gives the same bytes. What a hash
said of a secret goes, and so does the signature of a thought that was changed. Neighbours:
`transfer` writes it, `redaction` finds secrets, `scanning` walks the same texts.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from refold.conversations.markdown import is_text
from refold.conversations.scan import ENCODED, NAMED_CHARS
from refold.core import codec
from refold.core.model import Artifact, Conversation, Event
from refold.errors import Corrupt, NotFound
from refold.log.reading import events_of
from refold.redaction import found, pieces, redacted
from refold.stores.protocol import Store

KEY_CHARS = 8  # a shorter key of an object is a name
_ID = re.compile(r"art-[a-z2-7]{12}")


class Withheld:
    """A conversation as it is told without its secrets. Contents are streamed; of each only what
    it became is held."""

    def __init__(self, store: Store, conversation: str, *, emails: bool = False) -> None:
        self._store = store
        # An edit may say which lines of a result stay.
        self._redact = partial(redacted, emails=emails, keep_lines=True)
        self._about = store.conversation(conversation)
        self._artifacts: dict[
            str, Artifact
        ] = {}  # what became of an artifact, by the digest that it had
        self._digests: dict[str, str] = {}  # the digest that a content had, by the one it has now
        self._ids: dict[str, str] = {}
        # A text may name an artifact before the event that makes it known.
        for event in events_of(store, self._about):
            if event.kind == "artifact" and isinstance(body := codec.decode(event), Artifact):
                self._learn(body)

    def about(self) -> Conversation:
        """The conversation as its list shows it. What its chain is only the whole walk tells."""
        chain = codec.ZERO
        for event in self.events():
            chain = event.chain
        return replace(self._about, title=self._redact(self._about.title), chain=chain)

    def events(self) -> Iterator[Event]:
        before = codec.ZERO
        for event in events_of(self._store, self._about):
            clean = (
                codec.resealed(event, before, event.seq)
                if event.erased
                else self._sealed(event, before)
            )
            before = clean.chain
            yield clean

    def content(self, digest: str) -> Iterator[bytes]:
        """The bytes of a content by its new digest."""
        return self._content(self._digests.get(digest, digest))

    # --- events ---

    def _sealed(self, event: Event, before: bytes) -> Event:
        try:
            body = msgspec.json.decode(event.body)
        except (msgspec.DecodeError, ValueError) as error:
            raise Corrupt(
                f"event {event.seq} is not JSON: {error}", hint="refold verify"
            ) from error
        clean = self._artifact(body) if event.kind == "artifact" else self._clean(body)
        # The old salt is told to nobody, so the new one says nothing about what was taken out.
        salt = hashlib.blake2b(b"withheld", key=event.salt, digest_size=codec.SALT_BYTES).digest()
        return codec.seal(
            before,
            event.seq,
            id=event.id,
            at_ms=event.at_ms,
            by=event.by,
            kind=event.kind,
            body=event.body if clean == body else msgspec.json.encode(clean),
            salt=salt,
            tokens=event.tokens,
            counter=event.counter,
        )

    def _clean(self, value: Any, name: str = "") -> Any:
        match value:
            case str():
                return self._text(value, name)
            case list():
                return [self._clean(item, name) for item in value]
            case dict():
                return self._object(value)
            case _:
                return value

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        clean = {self._key(key): self._clean(item, key) for key, item in value.items()}
        if value.get("type") == "opaque" and isinstance(value.get("data"), str):
            clean["data"] = self._encoded(value["data"])
        if clean != value:
            # Nobody signed the text that it is now.
            clean.pop("signature", None)
            clean.pop("arguments_hash", None)
        return clean

    def _key(self, key: str) -> str:
        return self._redact(key) if len(key) >= KEY_CHARS else key

    def _text(self, value: str, name: str) -> str:
        text = _ID.sub(lambda match: self._ids.get(match[0], match[0]), value)
        if name in ENCODED:
            # Bytes may look like a key that nobody can be sure of; a note in them would make them
            # unreadable.
            return self._redact(text) if any(one.sure for one in found(text)) else text
        if name == "arguments" and text[:1] in ("{", "["):
            return self._arguments(text)
        if not name or len(text) > NAMED_CHARS or any(sign.isspace() for sign in text):
            return self._redact(text)
        shown = self._redact(f'{name}: "{text}"')
        return shown.removeprefix(f'{name}: "').removesuffix('"')

    def _arguments(self, text: str) -> str:
        """The arguments of a call, which stay JSON if they are."""
        try:
            given = msgspec.json.decode(text)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return self._redact(text)
        clean = self._clean(given)
        return text if clean == given else msgspec.json.encode(clean).decode()

    def _encoded(self, data: str) -> str:
        """Text that JSON cannot hold is kept as bytes."""
        try:
            text = base64.b64decode(data, validate=True).decode("utf-8", "surrogatepass")
        except (binascii.Error, UnicodeDecodeError):
            return data
        clean = self._redact(text)
        return (
            data
            if clean == text
            else base64.b64encode(clean.encode("utf-8", "surrogatepass")).decode()
        )

    # --- artifacts ---

    def _artifact(self, body: Any) -> Any:
        """What an artifact's event says, of the content that it has now."""
        new = self._artifacts[body["digest"]]
        names = ("id", "digest", "size_bytes", "size_chars", "lines")
        same = {name: getattr(new, name) for name in names if name in body}
        rest = {name: value for name, value in body.items() if name not in names}
        return {**body, **self._clean(rest), **same}

    def _learn(self, artifact: Artifact) -> None:
        if artifact.digest in self._artifacts:
            return
        try:
            new = self._measured(artifact)
        except NotFound:
            # It was cleaned up, or is lost; then there is nothing to hide either.
            new = artifact
        self._artifacts[artifact.digest] = new
        self._digests[new.digest] = artifact.digest
        self._ids[artifact.id] = new.id

    def _measured(self, artifact: Artifact) -> Artifact:
        hasher = codec.content_hasher()
        size = chars = lines = 0
        last = ""
        for text, coding in self._texts(artifact.digest):
            encoded = text.encode(coding)
            hasher.update(encoded)
            size, chars, lines = size + len(encoded), chars + len(text), lines + text.count("\n")
            last = text[-1:] or last
        digest = hasher.hexdigest()
        if digest == artifact.digest:
            return artifact
        sizes = (
            {"size_chars": chars, "lines": lines + (last not in ("", "\n"))}
            if artifact.size_chars
            else {}
        )
        return replace(
            artifact, id=codec.artifact_id(digest), digest=digest, size_bytes=size, **sizes
        )

    def _content(self, digest: str) -> Iterator[bytes]:
        return (text.encode(coding) for text, coding in self._texts(digest))

    def _texts(self, digest: str) -> Iterator[tuple[str, str]]:
        """A content in pieces without secrets, and how they become bytes. What is not text is
        read sign by sign: a note in the middle of it costs less than a secret."""
        if is_text(self._store.get(digest)):
            yield from ((self._redact(piece), "utf-8") for piece in pieces(self._store.get(digest)))
            return
        signs = (chunk.decode("latin-1").encode() for chunk in self._store.get(digest))
        yield from ((self._redact(piece), "latin-1") for piece in pieces(signs))
