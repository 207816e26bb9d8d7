"""Exporting a conversation to one file.

The JSON document has the whole log, every body with its original bytes, and the artifacts it names;
nothing else is needed to import it. It is streamed, and contains every secret of the log, because
an incomplete backup is not a backup. A copy without secrets is another log (`copier.RedactedCopy`);
the export for reading (`markdown`) has none unless requested. Neighbours: `core.codec` has the
lines, `importer` reads the document.
"""

from __future__ import annotations

import base64
import codecs
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from secrets import token_hex
from typing import Protocol

import msgspec

from refold.artifacts.intake import suffix_of
from refold.conversations.copier import RedactedCopy, known_secrets
from refold.conversations.markdown import is_text, markdown_chunks
from refold.core import codec, ids
from refold.core.codec import from_line, to_line
from refold.core.model import Artifact, Conversation, Event, is_cleanup
from refold.errors import Conflict, Corrupt, Invalid
from refold.log.stored_logs import events_of
from refold.redaction import pieces, redacted_chunks
from refold.stores.protocol import Store
from refold.system import disk, posix

FORMAT = "refold-export"
VERSION = 1
FORMATS = {".json": "json", ".md": "markdown"}
EXTENSIONS_HINT = "end it in " + " or ".join(FORMATS)
FORMATS_HINT = "formats: " + ", ".join(FORMATS.values())
BASE64_BYTES = 3 * 64 * 1024
FILE_MODE = 0o600
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | posix.O_CLOEXEC
# In the order in which they are written.
DESCRIBED = ("id", "title", "head", "chain", "at_ms", "updated_ms", "parent", "parent_seq")


# --- the JSON document ---


class _Source(Protocol):
    """The source of an export."""

    def about(self) -> Conversation: ...
    def events(self) -> Iterator[Event]: ...
    def content(self, digest: str) -> Iterator[bytes]: ...


class _FullExport:
    """A conversation with its secrets."""

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
    return _document(_FullExport(store, conversation))


def _document(source: _Source) -> Iterator[bytes]:
    about = source.about()
    fields = {name: getattr(about, name) for name in DESCRIBED}
    head = msgspec.json.encode({**fields, "chain": about.chain.hex()})
    # The chain does not cover every field of an event (its size in tokens, for example); this
    # digest does.
    hasher = ids.content_hasher()
    hasher.update(head)
    artifacts: dict[str, Artifact] = {}
    start = f'{{"format":"{FORMAT}","version":{VERSION},"conversation":'.encode()
    yield start + head + b',"events":['
    before = codec.ZERO
    for event in source.events():
        line = _line(event, before)
        before = event.chain
        yield (b"\n" if event.seq == 1 else b",\n") + line
        hasher.update(line)
        # Every event is decoded, so an undecodable body is found here.
        body = codec.decode(event)
        if isinstance(body, Artifact) and is_cleanup(event):
            artifacts.pop(body.digest, None)
        elif isinstance(body, Artifact):
            artifacts.setdefault(body.digest, body)
    yield b'\n],"artifacts":['
    for index, artifact in enumerate(artifacts.values()):
        yield b",\n" if index else b"\n"
        yield from _content_chunks(source, artifact)
    yield f'\n],"digest":"{hasher.hexdigest()}"}}\n'.encode()


def _line(event: Event, before: bytes) -> bytes:
    """The line of an event; Corrupt if it is damaged, or does not survive the round trip."""
    for fault in codec.check([event], after=event.seq - 1, before=before):
        raise Corrupt(fault, hint=codec.REPAIR)
    line = to_line(event)
    if from_line(line) != event:
        raise Corrupt(f"event {event.seq}: its body is not plain JSON", hint=codec.REPAIR)
    return line


def _content_chunks(source: _Source, artifact: Artifact) -> Iterator[bytes]:
    """The artifact's bytes, as text if possible, else in base64. They are read twice, and are never
    all in memory."""
    digest = artifact.digest
    about = {"digest": digest, "suffix": suffix_of(artifact)}
    yield msgspec.json.encode(about)[:-1]
    if is_text(source.content(digest)):
        yield b',"text":"'
        yield from _escaped(source.content(digest))
    else:
        yield b',"data":"'
        yield from _base64(source.content(digest))
    yield b'"}'


def _escaped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    for chunk in chunks:
        yield msgspec.json.encode(decoder.decode(chunk))[1:-1]


def _base64(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        rest += chunk
        end = len(rest) - len(rest) % BASE64_BYTES
        yield base64.b64encode(rest[:end])
        rest = rest[end:]
    yield base64.b64encode(rest)


# --- files ---


def format_of(path: str) -> str:
    """The format of a file name, by its extension."""
    extension = os.path.splitext(path)[1].lower()
    if extension not in FORMATS:
        raise Invalid(f"{path!r} does not end in a known format", hint=EXTENSIONS_HINT)
    return FORMATS[extension]


def chunks_of(
    store: Store,
    conversation: str,
    format: str,
    *,
    secrets: bool | None = None,
    emails: bool = False,
) -> Iterator[bytes]:
    """The export in a format, `json` or `markdown`. By default JSON is complete and Markdown is
    without secrets; `secrets` overrides that. `emails` removes addresses together with secrets."""
    match format:
        case "json" if secrets is False:
            return _document(RedactedCopy(store, conversation, emails=emails))
        case "json":
            return json_chunks(store, conversation)
        case "markdown":
            chunks = markdown_chunks(store, conversation)
            return chunks if secrets else _without_secrets(store, conversation, chunks, emails)
        case _:
            raise Invalid(f"there is no format {format!r}", hint=FORMATS_HINT)


def _without_secrets(
    store: Store, conversation: str, chunks: Iterator[bytes], emails: bool
) -> Iterator[bytes]:
    """The export for reading without secrets. Log and export are read completely first, because a
    secret found in one place is removed everywhere, and a page may show only part of it."""
    known = known_secrets(store, store.conversation(conversation))
    for piece in pieces(chunks):
        known.learn(piece)
    again = markdown_chunks(store, conversation)
    yield from redacted_chunks(again, emails=emails, known=known)


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
    """Writes the export and returns its size in bytes. Only `force` replaces an existing file; for
    `secrets` and `emails` see `chunks_of`."""
    disk.check_name(path)
    wanted = format or format_of(path)
    chunks = chunks_of(store, conversation, wanted, secrets=secrets, emails=emails)
    if os.path.lexists(path) and not force:
        raise Conflict(f"{path} already exists", hint="choose another name, or remove it first")
    return write_file(path, chunks)


def write_file(path: str, chunks: Iterable[bytes]) -> int:
    """Writes a file for the owner alone, all or nothing; returns its size in bytes."""
    folder = os.path.dirname(os.path.abspath(path))
    pending = os.path.join(folder, f".pending-{token_hex(8)}")
    try:
        with os.fdopen(os.open(pending, NEW_FILE, FILE_MODE), "wb") as file:
            # The mode given to open() is cut by the umask, this one is not.
            posix.set_mode(file.fileno(), FILE_MODE)
            size = sum(map(file.write, chunks))
            file.flush()
            os.fsync(file.fileno())
        os.replace(pending, path)
        disk.sync_folder(folder)
    except OSError as error:
        raise disk.os_failure(error, f"cannot write {path}") from error
    finally:
        with suppress(OSError):
            os.unlink(pending)
    return size
