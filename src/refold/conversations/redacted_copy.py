"""A copy of a conversation without its secrets: a log of its own that can be imported, verified
and continued.

Every text of every event is redacted, field by field, also where no page shows it, and so are the
contents. What was found as a secret anywhere is taken out everywhere: of a list of names, of a line
that was cut, of the author of an event. A content that changes has another digest, and so another
id, and everything that names it is changed with it. Events keep their ids and places; their salts,
digests and chain are new, so the copy is another log. It follows from the log alone: the same
export twice gives the same bytes. What a hash said about a secret goes, and so does the signature
of a thought that was changed.
Neighbours: `exporter` writes it, `redaction` finds secrets, `scanner` walks the same texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from refold.conversations.markdown import is_text
from refold.conversations.scanner import json_body, texts
from refold.core import codec
from refold.core.model import Artifact, Conversation, Event
from refold.errors import NotFound
from refold.log.reading import artifact_of, events_of
from refold.redaction import KnownSecrets, Redact, pieces, redacted
from refold.redaction.plain import PlainRedactor
from refold.stores.protocol import Store

GIST, NAMES = "gist", "names"  # fields of a summary, and of its notes
MEASURES = ("id", "digest", "size_bytes", "size_chars", "lines")


class _Values(PlainRedactor):
    """The values of one log: what is known as a secret is one everywhere, and artifacts have the
    ids of what they became."""

    def __init__(self, redact: Redact, known: KnownSecrets, ids: Mapping[str, str]) -> None:
        super().__init__(redact)
        self._known, self._ids = known, ids

    def object(self, value: dict[str, Any]) -> dict[str, Any]:
        clean = super().object(value)
        if isinstance(clean.get(GIST), dict):
            return {**clean, GIST: self._gist_notes(clean[GIST])}
        return clean

    def _gist_notes(self, notes: dict[str, Any]) -> dict[str, Any]:
        """The notes of a gist, without names that were part of a secret."""
        names = notes.get(NAMES)
        if not isinstance(names, dict):
            return notes
        kept = {name: row for name, row in names.items() if not self._known.is_part(name)}
        return {**notes, NAMES: kept}

    def string(self, text: str, name: str) -> str:
        renamed = codec.ARTIFACT_ID.sub(lambda match: self._ids.get(match[0], match[0]), text)
        return super().string(renamed, name)

    def unsure(self, text: str) -> str:
        return self._known.redacted(text)


class RedactedCopy:
    """A conversation without its secrets. Contents are streamed; of each, only what it became is
    held."""

    def __init__(self, store: Store, conversation: str, *, emails: bool = False) -> None:
        self._store = store
        # An edit may say which lines of a result stay.
        self._by_rules = partial(redacted, emails=emails, keep_lines=True)
        self._about = store.conversation(conversation)
        self._known = known_secrets(store, self._about)
        # What became of an artifact, by the digest that it had.
        self._artifacts: dict[str, Artifact] = {}
        # The digest that a content had, by the one it has now.
        self._digests: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._values = _Values(self._redact, self._known, self._ids)
        # Needed before anything is written, as the secrets are: a text may name an artifact before
        # the event that makes it known.
        for event in events_of(store, self._about):
            artifact = artifact_of(event)
            if artifact is not None and artifact.digest not in self._artifacts:
                self._learn(artifact)

    def _redact(self, text: str) -> str:
        return self._known.redacted(self._by_rules(text))

    def about(self) -> Conversation:
        """The conversation as a list shows it. Its chain is known only after the whole walk."""
        chain = codec.ZERO
        for event in self.events():
            chain = event.chain
        return replace(self._about, title=self._redact(self._about.title), chain=chain)

    def events(self) -> Iterator[Event]:
        """The events without secrets, sealed again into a chain of their own."""
        before = codec.ZERO
        for event in events_of(self._store, self._about):
            sealed = self._sealed(event, before)
            before = sealed.chain
            yield sealed

    def content(self, digest: str) -> Iterator[bytes]:
        """The bytes of a content by its new digest."""
        old = self._digests.get(digest, digest)
        return (text.encode(coding) for text, coding in self._pieces(old))

    # --- events ---

    def _sealed(self, event: Event, before: bytes) -> Event:
        """An event without secrets, sealed on top of the chain value before it."""
        if event.erased:
            return codec.resealed(event, before, event.seq)
        return codec.seal(
            before,
            event.seq,
            id=event.id,
            at_ms=event.at_ms,
            by=self._redact(event.by),
            kind=event.kind,
            body=self._body(event),
            salt=_new_salt(event.salt),
            tokens=event.tokens,
            counter=self._redact(event.counter),
        )

    def _body(self, event: Event) -> bytes:
        """The body of an event without secrets; the very same bytes if it has none."""
        body = json_body(event)
        clean = self._artifact(body) if event.kind == "artifact" else self._values.value(body)
        return event.body if clean == body else msgspec.json.encode(clean)

    # --- artifacts ---

    def _artifact(self, body: dict[str, Any]) -> dict[str, Any]:
        """What an artifact's event says, with the measures of the content that it has now."""
        new = self._artifacts[body["digest"]]
        rest = {name: value for name, value in body.items() if name not in MEASURES}
        clean = {**body, **self._values.value(rest)}
        for name in MEASURES:
            if name in body:
                clean[name] = getattr(new, name)
        return clean

    def _learn(self, artifact: Artifact) -> None:
        """Remembers what becomes of an artifact."""
        try:
            new = self._measured(artifact)
        except NotFound:
            # It was cleaned up, or is lost; then there is nothing to hide.
            new = artifact
        self._artifacts[artifact.digest] = new
        self._digests[new.digest] = artifact.digest
        self._ids[artifact.id] = new.id

    def _measured(self, artifact: Artifact) -> Artifact:
        """The artifact with the digest and size of its content without secrets."""
        hasher = codec.content_hasher()
        size = chars = lines = 0
        last = ""
        for text, coding in self._pieces(artifact.digest):
            encoded = text.encode(coding)
            hasher.update(encoded)
            size += len(encoded)
            chars += len(text)
            lines += text.count("\n")
            last = text[-1:] or last
        digest = hasher.hexdigest()
        if digest == artifact.digest:
            return artifact
        id = codec.artifact_id(digest)
        changed = replace(artifact, id=id, digest=digest, size_bytes=size)
        if not artifact.size_chars:
            return changed
        return replace(changed, size_chars=chars, lines=lines + (last not in ("", "\n")))

    def _pieces(self, digest: str) -> Iterator[tuple[str, str]]:
        """A content in pieces without secrets, and how they become bytes."""
        return ((self._redact(text), coding) for text, coding in _texts(self._store, digest))


def known_secrets(store: Store, about: Conversation) -> KnownSecrets:
    """The secrets of all events and contents. A text may hold one that only another shows to be
    one, or a part of one where it was cut."""
    known = KnownSecrets()
    contents: set[str] = set()
    for event in events_of(store, about):
        if event.erased:
            continue
        for text in (event.by, *texts(json_body(event))):
            known.learn(text)
        artifact = artifact_of(event)
        if artifact is not None and artifact.digest not in contents:
            contents.add(artifact.digest)
            _learn_content(known, store, artifact.digest)
    return known


def _learn_content(known: KnownSecrets, store: Store, digest: str) -> None:
    try:
        for text, _ in _texts(store, digest):
            known.learn(text)
    except NotFound:
        return  # cleaned up, or lost: then it shows nothing either


def _texts(store: Store, digest: str) -> Iterator[tuple[str, str]]:
    """A content in pieces as it is, and how they become bytes. What is not text is read character
    by character: a note in the middle of it costs less than a secret."""
    coding = "utf-8" if is_text(store.get(digest)) else "latin-1"
    chunks = store.get(digest)
    if coding == "latin-1":
        chunks = (chunk.decode("latin-1").encode() for chunk in chunks)
    for piece in pieces(chunks):
        yield piece, coding


def _new_salt(salt: bytes) -> bytes:
    """The salt of a changed event. The old one stays unknown, so the new one says nothing about
    what was taken out."""
    return hashlib.blake2b(b"withheld", key=salt, digest_size=codec.SALT_BYTES).digest()
