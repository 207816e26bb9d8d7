"""A conversation leaves its store as one file, and comes back byte for byte.

The export is one JSON document: the whole log, every body as the bytes it was born with, and the
artifacts it names; nothing else is needed to import it. It is streamed out, and holds every secret
that the log holds: a backup that lacks something is none. A copy without secrets is another log
(`withholding`); the export for reading has none unless they are asked for. An import is checked to
its last byte before anything is written, and its nesting while it is read. Neighbours: `codec` has
the lines, `transcript` the export for reading, `redaction` finds secrets.
"""

from __future__ import annotations

import base64
import codecs
import contextlib
import os
import stat
import struct
from collections.abc import Iterable, Iterator
from secrets import token_hex
from typing import BinaryIO, Protocol

import msgspec

from refold.artifacts.offload import suffix_of
from refold.conversations.depth import Nesting, depth_checked
from refold.conversations.markdown import is_text, markdown_chunks
from refold.conversations.redacted_copy import Withheld
from refold.core import codec
from refold.core.model import CLEANER, Artifact, Conversation, Event
from refold.errors import Conflict, Corrupt, Invalid, NotFound
from refold.log.reading import events_of
from refold.redaction import redacted_chunks
from refold.stores import checks as door
from refold.stores.contents import sync_folder
from refold.stores.protocol import Store

FORMAT = "refold-export"
VERSION = 1
FORMATS = {".json": "json", ".md": "markdown"}
DOCUMENT_BYTES_MAX = 1 << 30
SNIFF_BYTES = 4_096
STREAM_BYTES = 1 << 20
IDS_TRIED_MAX = 1_000
NUMBER_MAX = (1 << 63) - 1
FRAME_LEVELS = 3  # the document, its list of events, the line of an event: then comes the body
BASE64_BYTES = 3 * 64 * 1024
AGAIN = "export it again from its store; nothing was written"


# --- export as JSON ---


class _Source(Protocol):
    """What an export is made of."""

    def about(self) -> Conversation: ...
    def events(self) -> Iterator[Event]: ...
    def content(self, digest: str) -> Iterator[bytes]: ...


class _Whole:
    """A conversation as it is."""

    def __init__(self, store: Store, conversation: str) -> None:
        self._store, self._about = store, store.conversation(conversation)

    def about(self) -> Conversation:
        return self._about

    def events(self) -> Iterator[Event]:
        return events_of(self._store, self._about)

    def content(self, digest: str) -> Iterator[bytes]:
        return self._store.get(digest)


def json_chunks(store: Store, conversation: str) -> Iterator[bytes]:
    """The conversation as one JSON document: an event or artifact per line."""
    return _document(_Whole(store, conversation))


def _document(source: _Source) -> Iterator[bytes]:
    head = _described(source.about())
    yield (
        f'{{"format":"{FORMAT}","version":{VERSION},"conversation":'.encode()
        + head
        + b',"events":['
    )
    # The chain does not cover everything that an event carries (its size in tokens, say); this
    # digest does.
    hasher = codec.content_hasher()
    hasher.update(head)
    artifacts: dict[str, Artifact] = {}
    before = codec.ZERO
    for event in source.events():
        line, before = _line(event, before), event.chain
        yield (b"\n" if event.seq == 1 else b",\n") + line
        hasher.update(line)
        if isinstance(body := codec.decode(event), Artifact):
            artifacts.setdefault(body.digest, body)
            if event.by == CLEANER:
                del artifacts[body.digest]
    yield b'\n],"artifacts":['
    for index, artifact in enumerate(artifacts.values()):
        yield b",\n" if index else b"\n"
        yield from _content_chunks(source, artifact)
    yield f'\n],"digest":"{hasher.hexdigest()}"}}\n'.encode()


def _described(about: Conversation) -> bytes:
    return msgspec.json.encode(
        {
            "id": about.id,
            "title": about.title,
            "head": about.head,
            "chain": about.chain.hex(),
            "at_ms": about.at_ms,
            "updated_ms": about.updated_ms,
            "parent": about.parent,
            "parent_seq": about.parent_seq,
        }
    )


def _line(event: Event, before: bytes) -> bytes:
    """The event's line, once it is certain that the line gives the same event back."""
    for fault in codec.check([event], after=event.seq - 1, before=before):
        raise Corrupt(fault, hint="refold verify")
    line = codec.to_line(event)
    if codec.from_line(line) != event:
        raise Corrupt(f"event {event.seq}: its body is not plain JSON", hint="refold verify")
    return line


def _content_chunks(source: _Source, artifact: Artifact) -> Iterator[bytes]:
    """The artifact's bytes: as text where they are one, in base64 where not. Read twice, never
    held whole."""
    about = {"digest": artifact.digest, "suffix": suffix_of(artifact)}
    readable = is_text(source.content(artifact.digest))
    yield msgspec.json.encode(about)[:-1] + (b',"text":"' if readable else b',"data":"')
    yield from (_escaped if readable else _base64)(source.content(artifact.digest))
    yield b'"}'


def _escaped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    for chunk in chunks:
        yield msgspec.json.encode(decoder.decode(chunk))[1:-1]


def _base64(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        rest += chunk
        whole = len(rest) - len(rest) % BASE64_BYTES
        yield base64.b64encode(rest[:whole])
        rest = rest[whole:]
    yield base64.b64encode(rest)


# --- files ---


def format_of(path: str) -> str:
    """The format that a file name asks for by its extension."""
    extension = os.path.splitext(path)[1].lower()
    if extension not in FORMATS:
        raise Invalid(f"{path!r} ends in no known format", hint="end it in " + " or ".join(FORMATS))
    return FORMATS[extension]


def chunks_of(
    store: Store,
    conversation: str,
    format: str,
    *,
    secrets: bool | None = None,
    emails: bool = False,
) -> Iterator[bytes]:
    """The export in a format, `json` or `markdown`. By default the former is whole, the latter
    without secrets; `secrets` says otherwise. With `emails`, addresses go where secrets go."""
    match format:
        case "json" if secrets is False:
            return _document(Withheld(store, conversation, emails=emails))
        case "json":
            return json_chunks(store, conversation)
        case "markdown":
            chunks = markdown_chunks(store, conversation)
            return chunks if secrets else redacted_chunks(chunks, emails=emails)
        case _:
            raise Invalid(
                f"there is no format {format!r}", hint="formats: " + ", ".join(FORMATS.values())
            )


def export_file(
    store: Store,
    conversation: str,
    path: str,
    *,
    format: str = "",
    force: bool = False,
    secrets: bool | None = None,
    emails: bool = False,
) -> int:
    """Writes the export and gives its size in bytes. An existing file is replaced by `force`
    only; `secrets` and `emails` are those of `chunks_of`."""
    chunks = chunks_of(
        store, conversation, format or format_of(path), secrets=secrets, emails=emails
    )
    if os.path.lexists(path) and not force:
        raise Conflict(
            f"{path} exists already", hint="choose another name, or use --force to replace it"
        )
    return write_file(path, chunks)


def write_file(path: str, chunks: Iterable[bytes]) -> int:
    """Writes a file for the owner alone, whole or not at all."""
    folder = os.path.dirname(os.path.abspath(path))
    pending = os.path.join(folder, f".pending-{token_hex(8)}")
    try:
        size = _write_synced(pending, chunks)
        os.replace(pending, path)
        sync_folder(folder)
    except OSError as error:
        raise door.os_failure(error, f"cannot write {path}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(pending)
    return size


def _write_synced(path: str, chunks: Iterable[bytes]) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        # The mode given to open() is cut by the umask, this one is not.
        os.fchmod(descriptor, 0o600)
        size = sum(file.write(chunk) for chunk in chunks)
        file.flush()
        os.fsync(descriptor)
    return size


def read_document(path: str) -> bytes:
    """The bytes of an export; a file that is none is refused by its first bytes, without reading
    the rest."""
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for its writer for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return _read_regular(descriptor, path)
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        raise NotFound(
            f"there is no file {path}", hint="name a file that refold export wrote"
        ) from error
    except OSError as error:
        raise door.os_failure(error, f"cannot read {path}") from error


def _read_regular(descriptor: int, path: str) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise Invalid(f"{path} is not a regular file", hint="name a file that refold export wrote")
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        size = sum(map(len, _checked_pieces(file, path)))
        file.seek(0)
        # A file that grows meanwhile is cut, which the check of its content finds.
        return file.read(size)


def read_stream(stream: BinaryIO, name: str = "standard input") -> bytes:
    """The same from a stream, which can be read once only."""
    return b"".join(_checked_pieces(stream, name))


def _checked_pieces(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """The bytes of a document, looked at while they come: what cannot be one is not read to its
    end."""
    nesting, size = Nesting(FRAME_LEVELS), 0
    piece = _sniffed(stream.read(SNIFF_BYTES), name)
    while piece:
        size += len(piece)
        if size > DOCUMENT_BYTES_MAX:
            raise Invalid(
                f"{name} has more than {DOCUMENT_BYTES_MAX:,} bytes", hint="copy the store itself"
            )
        try:
            nesting.take(piece)
        except Invalid as error:
            raise Corrupt(f"{name} is damaged: {error}", hint=AGAIN) from error
        yield piece
        piece = stream.read(STREAM_BYTES)


def _sniffed(start: bytes, name: str) -> bytes:
    if not start.lstrip().startswith(b"{") or f'"{FORMAT}"'.encode() not in start:
        raise Invalid(
            f"{name} is not a refold export", hint="refold export ID FILE.json writes one"
        )
    return start


# --- import ---


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


class _Document(msgspec.Struct):
    conversation: msgspec.Raw
    events: list[msgspec.Raw]
    artifacts: list[_Content]
    digest: str


def import_document(
    store: Store, document: bytes, *, id: str | None = None, name: str = "the file"
) -> Conversation:
    """Writes an export into the store as a new conversation: `id`, else the id it had, else that
    with a number. Conflict if the store holds the very same log already and no id is given."""
    read, about = _read(document, name)
    events = _checked_events(read, about, name)
    contents = _checked_contents(read, events, name)
    wanted = codec.conversation_checked(about.id if id is None else id)
    free = _free_id(store, wanted, events[-1], fixed=id is not None)
    for content in contents:
        store.put([content.content], suffix=content.suffix)
    store.append(free, events, expect=0)
    store.flush()
    return store.conversation(free)


def _read(document: bytes, name: str) -> tuple[_Document, _About]:
    try:
        head = msgspec.json.decode(document, type=_Head)
        if head.format != FORMAT:
            raise Invalid(
                f"{name} has the format {head.format!r}, not {FORMAT!r}",
                hint="refold export writes one",
            )
        if head.version != VERSION:
            raise Invalid(
                f"{name} has version {head.version}, this refold reads {VERSION}",
                hint="upgrade refold",
            )
        read = msgspec.json.decode(document, type=_Document)
        return read, msgspec.json.decode(read.conversation, type=_About)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise Corrupt(f"{name} is damaged: {error}", hint=AGAIN) from error


def _checked_events(read: _Document, about: _About, name: str) -> list[Event]:
    """The events, if they are exactly the log that was exported."""
    hasher = codec.content_hasher()
    hasher.update(read.conversation)
    events: list[Event] = []
    before = codec.ZERO
    for seq, line in enumerate(read.events, 1):
        hasher.update(line)
        events.append(_checked_event(bytes(line), seq, before, name))
        before = events[-1].chain
    if not events or (about.head, about.chain) != (events[-1].seq, before.hex()):
        raise Corrupt(
            f"{name} holds {len(events)} events, its head is {about.head}: it was cut or changed",
            hint=AGAIN,
        )
    if hasher.hexdigest() != read.digest:
        raise Corrupt(f"{name} does not match its digest: it was changed", hint=AGAIN)
    return events


def _checked_event(line: bytes, seq: int, before: bytes, name: str) -> Event:
    try:
        event = codec.from_line(line)
        faults = list(codec.check([event], after=seq - 1, before=before))
        if not (0 <= event.at_ms <= NUMBER_MAX and abs(event.tokens) <= NUMBER_MAX):
            faults.append(f"event {seq}: its numbers are out of bounds")
        if not faults and not event.erased:
            depth_checked(msgspec.json.decode(event.body))
            codec.decode(event)
    except (Corrupt, struct.error, ValueError, RecursionError) as error:
        raise Corrupt(f"{name}, event {seq}: {error}", hint=AGAIN) from error
    if faults:
        raise Corrupt(f"{name}: {faults[0]}", hint=AGAIN)
    return event


def _checked_contents(read: _Document, events: list[Event], name: str) -> list[_Content]:
    """The contents that the log names, each checked against its digest."""
    wanted: dict[
        str, bool
    ] = {}  # by digest, whether the content is there: False once it was cleaned up
    for event in events:
        if event.kind == "artifact" and isinstance(body := codec.decode(event), Artifact):
            wanted[body.digest] = event.by != CLEANER
    found = {content.digest: content for content in read.artifacts if wanted.get(content.digest)}
    for digest in sorted(digest for digest, there in wanted.items() if there):
        artifact = codec.artifact_id(door.digest_checked(digest))
        if digest not in found:
            raise Corrupt(f"{name} lacks the artifact {artifact}", hint=AGAIN)
        hasher = codec.content_hasher()
        hasher.update(found[digest].content)
        if hasher.hexdigest() != digest:
            raise Corrupt(f"{name}: the artifact {artifact} does not match its digest", hint=AGAIN)
    return list(found.values())


def _free_id(store: Store, wanted: str, newest: Event, *, fixed: bool) -> str:
    """The id under which the log can be written."""
    for number in range(1, IDS_TRIED_MAX):
        id = wanted if number == 1 else f"{wanted[:58]}-{number}"
        try:
            taken = store.conversation(id)
        except NotFound:
            return id
        if fixed:
            raise door.taken(id, taken.head)
        if taken.head >= newest.seq and _chain_at(store, id, newest.seq) == newest.chain:
            said = f"{id!r} holds this log already; nothing was written"
            raise Conflict(said, head=taken.head, hint="--id NEW makes a second copy")
    raise Conflict(
        f"{wanted!r} and {IDS_TRIED_MAX} numbered ids are taken", hint="choose one with --id"
    )


def _chain_at(store: Store, id: str, seq: int) -> bytes:
    return store.read(id, after=seq - 1, last=seq, limit=1)[0].chain
