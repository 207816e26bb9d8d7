"""The lines of a file, plain or compressed (gzip; zstd if the extra is installed), and the record
of its last import.

Only one line is in memory at a time, or all of a small file, so that it is decompressed once.
Unreadable lines are reported and skipped; so is the rest of a file that decompresses to far more
than its size. Next to the store, a small file records each import: size and times of the session
file, the last event of each conversation, and the report, without any message text. Records are
derived and disposable. Neighbours: readers walk the lines, `importer` checks the record first.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import time
import zlib
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

import refold
from refold import decoding
from refold.conversations.importer import open_regular_file
from refold.conversations.listing import preview, shown_title
from refold.edges.importers.entry import Branch, Entry, Report, UnreadLine, Where
from refold.errors import Denied, Invalid, NotFound, RefoldError, Unavailable, install_hint
from refold.stores.protocol import Store
from refold.system import disk
from refold.system.disk import HAPPENED_MS_MAX

LINE_BYTES_MAX = 64 << 20
RESPONSE_CHARS_MAX = 400
DOCUMENT_BYTES_MAX = 256 << 20
HELD_BYTES_MAX = 8 << 20
PIECE_BYTES, LONG_BYTES = 1 << 16, 1 << 20
# Transcripts pack to a tenth of their size; anything that unpacks to far more is a bomb.
UNPACKED_BYTES_FREE, UNPACKED_RATIO_MAX = 64 << 20, 200
ZSTD_WINDOW_LOG_MAX = 27
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_BOM = b"\xef\xbb\xbf"
HINT = "refold import --list shows what can be read"
UNREADABLE = (msgspec.DecodeError, RecursionError, ValueError)

Advance = Callable[[int], None]  # called with the number of bytes read so far


class Lines:
    """The lines of one file, for any number of consecutive walks. A small file is read once: a walk
    starts with the lines held by the previous one, and reads on. `unread` has the lines skipped by
    the last walk."""

    def __init__(self, path: Path, advance: Advance | None = None) -> None:
        self.path, self._advance = path, advance
        self._reading: Iterator[tuple[int, bytes]] | None = None  # continues after the held lines
        self._held: list[tuple[int, bytes]] = []
        self._held_bytes = 0
        self._unreadable: list[UnreadLine] = []  # not readable
        self._invalid: list[UnreadLine] = []  # read, but not JSON objects

    @property
    def unread(self) -> list[UnreadLine]:
        return [*self._unreadable, *self._invalid]

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yields each non-empty line with its number."""
        self._invalid = []
        if self._reading is None:
            self._held, self._held_bytes, self._unreadable = [], 0, []
            self._reading = self._read()
        reading = self._reading
        yield from self._held
        try:
            for line in reading:
                self._hold(line)
                yield line
        except RefoldError:
            self._reading = None  # the next walk fails in the same way
            raise

    def _hold(self, line: tuple[int, bytes]) -> None:
        """Keeps a line for the next walk, unless the file is too large."""
        self._held_bytes += len(line[1])
        if self._held_bytes <= HELD_BYTES_MAX:
            self._held.append(line)
        else:
            self._held, self._reading = [], None

    def _read(self) -> Iterator[tuple[int, bytes]]:
        number = 0
        with open_regular_file(str(self.path), HINT) as file:
            try:
                for number, line in enumerate(self._bounded(file), start=1):
                    if line and not line.isspace():
                        yield number, line
            except (EOFError, OSError) as error:
                self._report_unreadable(number + 1, _read_error(error))

    def objects(self) -> Iterator[tuple[int, dict[str, Any], bytes]]:
        """Yields each line that is a JSON object; reports the others."""
        for number, line in self:
            try:
                value = msgspec.json.decode(line)
            except UNREADABLE as error:
                self._invalid.append(UnreadLine(line=number, reason=_decode_error(error)))
                continue
            if isinstance(value, dict):
                yield number, value, line
            else:
                reason = f"a JSON {type(value).__name__}, not an object"
                self._invalid.append(UnreadLine(line=number, reason=reason))

    def _report_unreadable(self, line: int, reason: str) -> None:
        self._unreadable.append(UnreadLine(line=line, reason=reason))

    def _bounded(self, file: BinaryIO) -> Iterator[bytes]:
        stream = unpacked(file, self.path)
        size, number = 0, 0
        while line := stream.readline(LONG_BYTES):
            number += 1
            read = len(line)
            if read == LONG_BYTES and not line.endswith(b"\n"):
                line, read = _long_line(line, stream, size, file)
            size += read
            if size > UNPACKED_BYTES_FREE and is_bomb(size, file):
                self._report_unreadable(
                    number, f"the file unpacks to more than {size:,} bytes: the rest is skipped"
                )
                return
            if not line:
                self._report_unreadable(number, f"longer than {LINE_BYTES_MAX:,} bytes")
            if self._advance is not None:
                self._advance(file.tell())
            yield line.removeprefix(_BOM) if number == 1 else line


def _long_line(
    start: bytes, stream: io.BufferedReader, before: int, file: BinaryIO
) -> tuple[bytes, int]:
    """A long line with this start, and its size in bytes; empty if it is too long or part of a
    decompression bomb. `before` is the number of bytes unpacked so far."""
    pieces, read = [start], len(start)
    while piece := stream.readline(PIECE_BYTES):
        read += len(piece)
        pieces.append(piece)
        if read > LINE_BYTES_MAX:
            pieces.clear()
        if is_bomb(before + read, file):
            return b"", read
        if piece.endswith(b"\n"):
            break
    return b"".join(pieces), read


def unpacked(file: BinaryIO, path: Path) -> io.BufferedReader:
    """The decompressed content of a file, whose first bytes name the compression."""
    start = file.read(4)
    file.seek(0)
    if start.startswith(_GZIP):
        return io.BufferedReader(_Guarded(gzip.GzipFile(fileobj=file), zlib.error), PIECE_BYTES)
    if start == _ZSTD:
        return io.BufferedReader(_zstd(file, path), PIECE_BYTES)
    return cast(io.BufferedReader, file)


def _zstd(file: BinaryIO, path: Path) -> io.RawIOBase:
    try:
        from backports import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        hint = f"{install_hint('zstd')}; or unpack it with zstd -d"
        raise Unavailable(f"{path.name} is packed with zstd", hint=hint) from error
    limit = {zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG_MAX}
    return _Guarded(zstd.ZstdFile(file, options=limit), zstd.ZstdError)


class _Guarded(io.RawIOBase):
    """A stream that returns all readable bytes before it fails; EOFError for a damaged file."""

    def __init__(self, stream: Any, error: type[Exception]) -> None:
        self._stream, self._error = stream, error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            piece = self._stream.read1(len(buffer))
        except self._error as error:
            raise EOFError(str(error)) from error
        buffer[: len(piece)] = piece
        return len(piece)


Walk = Callable[[Lines], Iterator[Entry]]
Branches = Callable[[Lines, int], Iterator[Branch]]


class Reader(Struct, frozen=True, kw_only=True):
    """Functions that recognize and read the files of a source. `entries` reads JSON Lines
    (`is_lines`) and files recognized by their first line (`is_start`), `of_document` a file of one
    JSON value. `session_of` returns the id of the session; with `has_many`, the file has several
    sessions with ids. With `has_line_ids`, the lines of the file have ids that never change."""

    entries: Walk | None = None
    of_document: Walk | None = None
    is_lines: Callable[[list[dict[str, Any]]], bool] | None = None
    is_start: Callable[[bytes], bool] | None = None
    is_document: Callable[[Any], bool] | None = None
    session_of: Callable[[Lines], str] | None = None
    branches: Branches | None = None
    has_many: bool = False
    has_line_ids: bool = False
    unit: str = "line"
    document_unit: str = "element"


def is_bomb(size: int, file: BinaryIO) -> bool:
    """Whether the unpacked size is far too large for the bytes read."""
    return size > UNPACKED_BYTES_FREE and size > UNPACKED_RATIO_MAX * max(1, file.tell())


def document(path: Path) -> Any:
    """The one JSON value of a file. Invalid if it is not JSON, or too large for memory."""
    with open_regular_file(str(path), HINT) as file:
        try:
            content = unpacked(file, path).read(DOCUMENT_BYTES_MAX + 1)
            unpacks_to_bomb = is_bomb(len(content), file)
        except (EOFError, OSError) as error:
            raise Invalid(f"{path}: {_read_error(error)}", hint="copy it again") from error
    if unpacks_to_bomb:
        size = f"{len(content):,} bytes, far more than it has"
        raise Invalid(f"{path} unpacks to {size}", hint="unpack it and import the unpacked file")
    if len(content) > DOCUMENT_BYTES_MAX:
        hint = "write one message per line (JSON Lines), which is read line by line"
        raise Invalid(f"{path} has more than {DOCUMENT_BYTES_MAX:,} bytes", hint=hint)
    try:
        return msgspec.json.decode(content.removeprefix(_BOM))
    except UNREADABLE as error:
        raise _not_json(path, content, error) from error


def _not_json(path: Path, content: bytes, error: Exception) -> RefoldError:
    position = str(error).rpartition("byte ")[2].rstrip(")")
    if position.isdigit():
        line = content[: int(position)].count(b"\n") + 1
        return Invalid(f"{path}, line {line}: not JSON: {error}", hint=HINT)
    if "truncated" in str(error):
        line = content.rstrip().count(b"\n") + 1
        return Invalid(f"{path}, line {line}: the file is cut off here", hint="copy it again")
    return Invalid(f"{path}: {_decode_error(error)}", hint=HINT)


def _decode_error(error: Exception) -> str:
    """The reason why bytes cannot be decoded as JSON."""
    return "nested too deep" if isinstance(error, RecursionError) else f"not JSON: {error}"


def _read_error(error: Exception) -> str:
    """The reason why the rest of a file cannot be read."""
    if isinstance(error, EOFError | gzip.BadGzipFile):
        return "the compressed file is cut off or damaged here"
    return f"the rest of the file cannot be read: {error}"


def guarded(entries: Iterator[Entry], where: Where) -> Iterator[Entry]:
    """Yields the entries of one line, up to a value of the wrong type, which is reported."""
    try:
        yield from entries
    except (TypeError, AttributeError, LookupError, ValueError) as error:
        reason = f"a value of the wrong type ({type(error).__name__})"
        yield UnreadLine(reason=reason, **where)


def time_ms(value: Any) -> int | None:
    """A time in milliseconds since 1970, from ISO 8601, seconds or milliseconds; None for any other
    value."""
    if type(value) is str:
        try:
            value = datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError, OSError):
            return None
    elif (type(value) is not int and type(value) is not float) or value != value:
        return None
    ms = value if value > 1e11 else value * 1_000
    return round(ms) if 0 <= ms <= HAPPENED_MS_MAX else None


def counts(value: dict[str, Any], *names: str) -> list[int]:
    """The counts under these names; 0 if missing or invalid."""
    values = (value.get(name) for name in names)
    return [count if type(count) is int and count >= 0 else 0 for count in values]


def digest(content: bytes) -> str:
    """A short digest, as a name for a line without an id."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def message_names(id: Any, content: Any) -> tuple[str, str]:
    """The key of a message, which changes with its content, and the name of its response for
    billing, which does not if the message has an id."""
    key = f"{id}:{digest(msgspec.json.encode(content))}"
    is_named = isinstance(id, str) and bool(id)
    return key, id[:RESPONSE_CHARS_MAX] if is_named else key


FOLDER = "imports"  # of import records
RECORD_BYTES_MAX = 64_000
SETTLED_NS = 2_000_000_000  # resolution of the slowest file clocks
# Sources with one file per session.
ONE_FILE = frozenset({
    "claude-code", "codex", "gemini-cli", "cline", "aider", "mini-swe-agent", "swe-agent",
    "messages",
})  # fmt: skip


class _State(Struct, frozen=True):
    """The state of a file on disk: every write changes one of these."""

    file: int
    size_bytes: int
    written_ns: int
    changed_ns: int


class _ImportRecord(Struct, frozen=True):
    """The record of an import: the file, the last event of each conversation, the report."""

    version: str
    state: _State
    ends: list[tuple[str, int, str]]
    report: Report


class Unchanged:
    """The record of the last import of a file with the same options, if the store keeps derived
    files."""

    def __init__(self, store: Store, path: Path, options: str) -> None:
        self._store = store
        folder = store.derived_path(FOLDER)
        name = digest(os.fsencode(f"{options}\n{path.absolute()}"))
        self._state = _state_of(path) if folder else None
        self._record_path = Path(folder, f"{name}.json") if folder and self._state else None

    def report(self) -> Report | None:
        """The updated report of the last import, if the file and the imported events are unchanged;
        else None."""
        record = self._read_record()
        if record is None or (record.version, record.state) != (refold.__version__, self._state):
            return None
        if not all(self._has_event(*end) for end in record.ends):
            return None
        sessions = []
        for session in record.report.sessions:
            about = self._store.conversation(session.conversation)
            title = shown_title(about.title) or preview(self._store, about.id)
            unchanged = replace(session, new=0, restored=0, left_at=0)
            sessions.append(replace(unchanged, title=title, head=about.head))
        return replace(record.report, sessions=sessions)

    def _read_record(self) -> _ImportRecord | None:
        try:
            if self._record_path is None:
                return None
            disk.refuse_link(str(self._record_path.parent))
            content = disk.read_own(str(self._record_path), RECORD_BYTES_MAX + 1)
            return _DECODER.decode(content) if 0 < len(content) <= RECORD_BYTES_MAX else None
        except (OSError, Denied, msgspec.DecodeError, ValueError):
            return None

    def _has_event(self, conversation: str, head: int, chain: str) -> bool:
        try:
            events = self._store.read(conversation, after=head - 1, limit=1)
        except NotFound:
            return False
        if not events or events[0].erased:
            return False
        return events[0].seq == head and events[0].chain.hex() == chain

    def keep(self, report: Report) -> None:
        """Writes the record of an import, unless the next report may differ: unread lines are
        reported again, branches may become forks, and an erased conversation may go on."""
        if self._record_path is None or self._state is None or report.source not in ONE_FILE:
            return
        ended = any(one.left or one.erased for one in report.sessions)
        if report.unread_total or not report.sessions or ended:
            return
        ends = []
        for one in report.sessions:
            head = one.head
            [event] = self._store.read(one.conversation, after=head - 1, last=head, limit=1)
            ends.append((one.conversation, head, event.chain.hex()))
        untitled = replace(report, sessions=[replace(one, title="") for one in report.sessions])
        record = _ImportRecord(refold.__version__, self._state, ends, untitled)
        # Without a record, the next import only takes longer.
        with contextlib.suppress(OSError, Denied):
            disk.refuse_link(str(self._record_path.parent))
            disk.make_folder(str(self._record_path.parent), durable=False)
            disk.replace_file(str(self._record_path), msgspec.json.encode(record))


_DECODER = decoding.decoder(_ImportRecord)


def _state_of(path: Path) -> _State | None:
    """The state of the file; None if it is missing, or written so recently that the next write
    might have the same timestamp."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # ValueError: not a valid file name
        return None
    if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) < SETTLED_NS:
        return None
    return _State(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
