"""Importing an exported conversation, byte for byte; and recognizing a conversation by its
messages.

Nothing is written before everything is checked: the format and the nesting while the document is
read, every event against the chain, every content against its digest, and the whole against the
digest at its end. A decoder needs the complete document, and a hundred million brackets cost more
memory than the bytes, so brackets are counted while reading. A host that sees only requests has no
reliable id; the conversation with the longest front wins (`log.fingerprints`). Neighbours:
`exporter` writes the documents, `search.fingerprints` has the fronts of a store.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, BinaryIO

import msgspec

from refold import decoding, dialects
from refold.conversations.exporter import FORMAT, VERSION
from refold.conversations.listing import described
from refold.core import codec, ids
from refold.core.codec import BODY_DEPTH_MAX, DEPTH_MAX, EVENT_BYTES_MAX, from_line
from refold.core.model import Conversation, Event, is_cleanup
from refold.display import number
from refold.errors import Conflict, Corrupt, Invalid, NotFound, sentence
from refold.log.draft import check_depth
from refold.log.fingerprints import BEGINNING, front_of
from refold.log.stored_logs import artifact_of, chain_at, open_id_checked
from refold.search.fingerprints import StoreFronts
from refold.stores.protocol import Store
from refold.system import disk, posix

DOCUMENT_BYTES_MAX = 1 << 30
SNIFF_BYTES = 4_096
STREAM_BYTES = 1 << 20
IDS_TRIED_MAX = 1_000
NUMBER_MAX = (1 << 63) - 1
# Levels around a body: the document, its list of events, the line of an event.
FRAME_LEVELS = 3
AGAIN = "export it again from its store; nothing was written"
_FORMAT_NAME = f'"{FORMAT}"'.encode()
NAME_AN_EXPORT = "pass a file that refold export wrote"
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
TOO_DEEP = f"nested more than {DEPTH_MAX} levels deep"
TOO_LARGE = f"an event of more than {EVENT_BYTES_MAX:,} bytes"


# --- reading ---


def read_document(path: str) -> bytes:
    """The bytes of an export. Any other file is refused by its first bytes."""
    try:
        with open_regular_file(path) as file:
            size = sum(map(len, checked_pieces(file, path)))
            file.seek(0)
            # A file that grows meanwhile is cut here, and the later checks find that.
            return file.read(size)
    except OSError as error:
        raise disk.os_failure(error, f"cannot read {path}") from error


def open_regular_file(path: str, hint: str = NAME_AN_EXPORT) -> BinaryIO:
    """A regular file, open for reading; Invalid for a folder, a device or a pipe. `hint` is for
    the error."""
    disk.check_name(path)
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for its writer forever.
        descriptor = os.open(path, os.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK)
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {path}", hint=hint) from error
    except OSError as error:
        raise disk.os_failure(error, f"cannot read {path}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Invalid(f"{path} is not a regular file", hint=hint)
    return os.fdopen(descriptor, "rb")


def checked_pieces(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """The bytes of a document, checked while they are read, so that reading ends at the first
    fault."""
    nesting, size = Nesting(FRAME_LEVELS), 0
    piece = stream.read(SNIFF_BYTES)
    if not piece.lstrip().startswith(b"{") or _FORMAT_NAME not in piece:
        hint = "refold export ID FILE.json writes one"
        raise Invalid(f"{name} is not a refold export", hint=hint)
    while piece:
        size += len(piece)
        if size > DOCUMENT_BYTES_MAX:
            too_long = f"{name} has more than {DOCUMENT_BYTES_MAX:,} bytes"
            raise Invalid(too_long, hint="copy the store itself")
        try:
            nesting.take(piece)
        except Invalid as error:
            raise _damaged(name, error) from error
        yield piece
        piece = stream.read(STREAM_BYTES)


def _damaged(name: str, error: Exception) -> Corrupt:
    return Corrupt(f"{name} is damaged: {sentence(error)}", hint=AGAIN)


# --- decoding ---


class _Head(msgspec.Struct):
    format: str
    version: int


class _About(msgspec.Struct):
    id: str
    head: int
    chain: str


class _Content(msgspec.Struct):
    digest: str
    suffix: str = ".bin"
    text: str | None = None
    data: bytes | None = None

    @property
    def content(self) -> bytes:
        return self.text.encode() if self.text is not None else self.data or b""

    def computed_digest(self) -> str:
        """The actual digest of the content."""
        hasher = ids.content_hasher()
        hasher.update(self.content)
        return hasher.hexdigest()


class _Document(msgspec.Struct):
    conversation: msgspec.Raw
    events: list[msgspec.Raw]
    artifacts: list[_Content]
    digest: str

    def computed_digest(self) -> str:
        """The actual digest of the description and the lines."""
        hasher = ids.content_hasher()
        hasher.update(self.conversation)
        for line in self.events:
            hasher.update(line)
        return hasher.hexdigest()


def import_document(
    store: Store, document: bytes, *, id: str | None = None, name: str = "the file"
) -> Conversation:
    """Writes an export into the store as a new conversation: under `id`, else its old id, else that
    with a number. Conflict if the store already has the same log and no id is given."""
    decoded, about = _decoded(document, name)
    events = _checked_events(decoded, about, name)
    contents = _checked_contents(decoded, events, name)
    wanted = open_id_checked(about.id if id is None else id)
    free = _free_id(store, wanted, events[-1], fixed=id is not None)
    for content in contents:
        store.put([content.content], suffix=content.suffix)
    store.append(free, events, expect=0)
    store.flush()
    return store.conversation(free)


def _decoded(document: bytes, name: str) -> tuple[_Document, _About]:
    try:
        head = decoding.decode(document, _Head)
        if head.format != FORMAT:
            wrong = f"{name} has the format {head.format!r}, not {FORMAT!r}"
            raise Invalid(wrong, hint="refold export writes one")
        if head.version != VERSION:
            wrong = f"{name} has version {head.version}, this refold reads {VERSION}"
            raise Invalid(wrong, hint="upgrade refold")
        decoded = decoding.decode(document, _Document)
        return decoded, decoding.decode(decoded.conversation, _About)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise _damaged(name, error) from error


# --- checking ---


def _checked_events(decoded: _Document, about: _About, name: str) -> list[Event]:
    """The events; Corrupt unless they are exactly the exported log."""
    events: list[Event] = []
    before = codec.ZERO
    for seq, line in enumerate(decoded.events, 1):
        events.append(_checked_event(bytes(line), seq, before, name))
        before = events[-1].chain
    if not events or (about.head, about.chain) != (len(events), before.hex()):
        held = f"{name} holds {number(len(events), 'event')}, its head is {about.head}"
        raise Corrupt(f"{held}: it was cut or changed", hint=AGAIN)
    if decoded.computed_digest() != decoded.digest:
        raise Corrupt(f"{name} does not match its digest: it was changed", hint=AGAIN)
    return events


def _checked_event(line: bytes, seq: int, before: bytes, name: str) -> Event:
    try:
        event = from_line(line)
        faults = list(codec.check([event], after=seq - 1, before=before))
        if not (0 <= event.at_ms <= NUMBER_MAX and abs(event.tokens) <= NUMBER_MAX):
            faults.append(f"event {seq}: its numbers are out of bounds")
        if not faults and not event.erased:
            check_depth(msgspec.json.decode(event.body))
            codec.decode(event)
    except (Corrupt, struct.error, ValueError, RecursionError) as error:
        raise Corrupt(f"{name}, event {seq}: {sentence(error)}", hint=AGAIN) from error
    if faults:
        raise Corrupt(f"{name}: {faults[0]}", hint=AGAIN)
    return event


def _checked_contents(decoded: _Document, events: list[Event], name: str) -> list[_Content]:
    """The contents that the log names and did not clean up, each checked against its digest."""
    wanted: set[str] = set()
    for event in events:
        artifact = artifact_of(event)
        if artifact is not None and is_cleanup(event):
            wanted.discard(artifact.digest)
        elif artifact is not None:
            wanted.add(artifact.digest)
    contents = {one.digest: one for one in decoded.artifacts if one.digest in wanted}
    for digest in sorted(wanted):
        id = ids.artifact_id(ids.digest_checked(digest))
        if digest not in contents:
            raise Corrupt(f"{name} lacks the artifact {id}", hint=AGAIN)
        if contents[digest].computed_digest() != digest:
            raise Corrupt(f"{name}: the artifact {id} does not match its digest", hint=AGAIN)
    return list(contents.values())


# --- ids ---


def _free_id(store: Store, wanted: str, newest: Event, *, fixed: bool) -> str:
    """A free id for the log: the wanted one, else with a number. Conflict if a conversation begins
    with the same log, or if the id is `fixed` and taken."""
    numbered = (f"{wanted[:58]}-{attempt}" for attempt in range(2, IDS_TRIED_MAX))
    for id in (wanted, *numbered):
        try:
            taken = store.conversation(id)
        except NotFound:
            return id
        if fixed:
            there = f"the conversation {id!r} already exists"
            raise Conflict(there, head=taken.head, hint="choose another id")
        if taken.head >= newest.seq and chain_at(store, taken, newest.seq) == newest.chain:
            same = f"{taken.id!r} already holds this log; nothing was written"
            raise Conflict(same, head=taken.head, hint="--id NEW makes a second copy")
    tried = f"{wanted!r} and {IDS_TRIED_MAX} numbered ids are taken"
    raise Conflict(tried, hint="choose one with --id")


# --- nesting ---


class Nesting:
    """Checks a document chunk by chunk; an event is `frame` levels deep in it. Raises Invalid for
    too many levels, or for more bytes outside of strings than an event may have in all."""

    def __init__(self, frame: int) -> None:
        self.frame, self.depth, self.size = frame, 0, 0
        self._in_text, self._rest = False, b""

    def take(self, chunk: bytes) -> None:
        """Counts the brackets of the next chunk."""
        chunk = self._rest + chunk
        # A final backslash waits for the character that it escapes.
        alone = (len(chunk) - len(chunk.rstrip(b"\\"))) % 2
        self._rest = b"\\" * alone
        complete = chunk[: len(chunk) - alone]
        parts = complete.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        plain = b"".join(parts[self._in_text :: 2])
        self._in_text ^= len(parts) % 2 == 0
        depth, frame = self.depth, self.frame
        for byte in plain.translate(None, _NO_BRACKETS):
            depth += 1 if byte in b"[{" else -1
            if depth > frame + BODY_DEPTH_MAX:
                raise Invalid(TOO_DEEP, hint="pass deep structures as text")
            if depth <= frame:
                self.size = 0
        self.depth = depth
        self.size += len(plain) if depth > frame else 0
        if self.size > EVENT_BYTES_MAX:
            raise Invalid(TOO_LARGE, hint="store large content as an artifact")


class Recognised(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, and the number of messages it shares with the beginning of the list."""

    conversation: Conversation
    shared: int


def recognise(store: Store, messages: Sequence[Any], dialect: str) -> Recognised | None:
    """The conversation with the longest common front with the list; None if none has its first
    message."""
    known = StoreFronts(store)
    try:
        found = known.longest(fronts_of(messages, dialect))
    finally:
        known.close()
    if found is None:
        return None
    id, shared = found
    return Recognised(conversation=described(store, store.conversation(id)), shared=shared)


def fronts_of(messages: Sequence[Any], dialect: str) -> list[bytes]:
    """The fronts of a list."""
    parsed = (dialects.parse(message, dialect) for message in messages)
    _, *fronts = accumulate(parsed, front_of, initial=BEGINNING)
    return fronts
