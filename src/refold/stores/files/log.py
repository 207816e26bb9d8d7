"""One log as a file: an event a line, appended; any part of it is found without reading the rest.

Bytes after the last complete batch are not part of the log: a writer is working there, or died
there. Every line begins with its seq, so an event in the middle is found by bisecting the file, and
offsets once found are cached. Neighbours: `stores.event_lines` encodes lines, `conversation_folder`
locks and repairs.
"""

from __future__ import annotations

import bisect
import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from refold.core.codec import REPAIR
from refold.core.model import Event
from refold.errors import Corrupt, Invalid
from refold.stores import checks
from refold.stores.event_lines import LINE_BYTES_MAX, event_of, line_of
from refold.stores.files import tree
from refold.system import posix

NEAR_BYTES = 16 * 1024
READ_BYTES = 4 * 1024
READ_BYTES_MAX = 1024 * 1024
PLACES_MAX = 4_096
_READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}
_FLAGS = posix.O_CLOEXEC | posix.O_NOFOLLOW | posix.O_NONBLOCK
_SEQ = re.compile(rb'\{"v":\d+,"seq":(\d+),')


def _open_log(path: str, *, read_only: bool) -> tuple[int, bool]:
    """A descriptor, and whether it is writable: without permission to write, the log is opened for
    reading."""
    if read_only:
        return os.open(path, os.O_RDONLY | _FLAGS), False
    try:
        return os.open(path, os.O_RDWR | os.O_APPEND | _FLAGS), True
    except OSError as error:
        if error.errno not in _READ_ONLY:
            raise
        return os.open(path, os.O_RDONLY | _FLAGS), False


class Newest(NamedTuple):
    """The newest event, without its body, which may be large."""

    seq: int
    chain: bytes
    at_ms: int


class LogFile:
    """An open log. `end` is the end of its last complete batch, `size` the size of the file at the
    last refresh."""

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        self.path = path
        self.fd, self.writable = _open_log(path, read_only=read_only)
        found = os.fstat(self.fd)
        self.identity = (found.st_dev, found.st_ino)
        if not stat.S_ISREG(found.st_mode):
            self.close()
            hint = "move it away; refold verify shows what can still be read"
            raise Corrupt(f"{path} is not a file", hint=hint)
        self._forget()

    def _forget(self) -> None:
        self.size = self.end = self.first = 0
        self.newest: Newest | None = None
        self.places: list[tuple[int, int]] = []  # some seqs with the offsets of their lines, sorted

    @property
    def is_torn(self) -> bool:
        return self.size > self.end

    def is_current(self) -> bool:
        """Whether the path still names this file; an erase or a delete replaces it."""
        try:
            there = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return (there.st_dev, there.st_ino) == self.identity

    def refresh(self) -> None:
        """Updates the end of the log from its last line."""
        size = os.fstat(self.fd).st_size
        # With a torn tail the size proves nothing: a cut and an append may cancel out.
        if size == self.size and not self.is_torn:
            return
        end = self.last_complete_batch_end(size)
        if end < self.end:
            self._forget()
        if end > self.end:
            start = self._newline_before(end - 1) + 1
            self._learn(start, self._event(start, self._line(start, end - 1)))
        self.size, self.end = size, end

    def _learn(self, start: int, newest: Event) -> None:
        """Caches the newest event, whose line begins at `start`, if it follows the one before."""
        if start:
            before = self._seq_at(self._newline_before(start - 1) + 1)
            if newest.seq != before + 1:
                raise self._damage(start, f"event {newest.seq} follows event {before}")
        self.newest = Newest(newest.seq, newest.chain, newest.at_ms)
        self._remember(newest.seq, start)
        self.first = self.first or self._seq_at(0)

    def append(self, events: Sequence[Event], batch: bytes) -> None:
        """Writes a batch at the end. The caller holds the lock and has moved a torn tail aside."""
        try:
            tree.write_all(self.fd, batch)
        except BaseException:
            # If the truncation fails too, the next writer moves the torn tail aside.
            self.size = -1
            os.ftruncate(self.fd, self.end)
            raise
        self.first = self.first or events[0].seq
        self._remember(events[0].seq, self.end)
        self.newest = Newest(events[-1].seq, events[-1].chain, events[-1].at_ms)
        self.end = self.size = self.end + len(batch)

    def events(self, first: int, last: int) -> list[Event]:
        """Events of this file from `first` to `last`, both of which it holds."""
        events: list[Event] = []
        start = offset = self._offset_of(first)
        for start, line in self.lines(offset):
            event = self._event(start, line)
            expected = first + len(events)
            if event.seq != expected:
                raise self._damage(start, f"event {expected} is missing before event {event.seq}")
            events.append(event)
            if event.seq >= last:
                self._remember(event.seq, start)
                return events
        raise self._damage(start, f"the log ends before event {last}")

    def lines(self, offset: int = 0) -> Iterator[tuple[int, bytes]]:
        """Every line from the offset on, with its own offset. Reads growing chunks; a long line is
        read alone, once its end is known."""
        start = offset
        rest, step = b"", READ_BYTES
        while offset < self.end:
            chunk = self._bytes(offset, min(offset + step, self.end))
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield start, line
                start += len(line) + 1
            offset += len(chunk)
            step = min(2 * step, READ_BYTES_MAX)
            if len(rest) >= READ_BYTES_MAX:
                rest = b""
                stop = self._newline_after(offset, min(start + LINE_BYTES_MAX + 1, self.end))
                yield start, self._line(start, stop)
                start = offset = stop + 1

    def newest_title(self, last: int, *, without: int = 0) -> tuple[str, int] | None:
        """The newest title given by an event up to `last` in this file, and the seq of that event;
        `without` is ignored."""
        newest = None
        for event in self._containing(b'"kind":"meta"'):
            if event.seq > last:
                break
            if event.seq != without and (title := checks.title_in([event])) is not None:
                newest = title, event.seq
        return newest

    def naming(self, digest: str) -> list[Event]:
        """The artifact events in this file that name a content."""
        return [event for event in self._containing(digest.encode()) if event.kind == "artifact"]

    def _containing(self, text: bytes) -> Iterator[Event]:
        for start, line in self.lines():
            if text in line:
                yield self._event(start, line)

    def write_without(self, seq: int, fd: int) -> None:
        """Copies the log to another file, without the body and salt of one event."""
        offset = self._offset_of(seq)
        _, line = next(self.lines(offset))
        emptied = line_of(replace(self._event(offset, line), body=b"", salt=b""))
        self._copy(0, offset, fd)
        tree.write_all(fd, emptied + (b" " if line.endswith(b" ") else b""))
        self._copy(offset + len(line), self.end, fd)

    def torn(self) -> Iterator[bytes]:
        """The bytes after the last complete batch."""
        for start in range(self.end, self.size, READ_BYTES_MAX):
            yield self._bytes(start, min(start + READ_BYTES_MAX, self.size))

    def cut(self) -> None:
        """Truncates the file to its last complete batch."""
        os.ftruncate(self.fd, self.end)
        self.size = self.end

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            self.close()

    # --- places ---

    def last_complete_batch_end(self, size: int) -> int:
        """The end of the last complete batch in the first `size` bytes."""
        at = self._newline_before(size)
        while at > 0 and os.pread(self.fd, 1, at - 1) == b" ":
            at = self._newline_before(at)
        return at + 1

    def _newline_before(self, before: int) -> int:
        """The last newline before an offset, or -1; reads backwards in growing chunks."""
        step = READ_BYTES
        while before > 0:
            start = max(0, before - step)
            newline = self._bytes(start, before).rfind(b"\n")
            if newline >= 0:
                return start + newline
            before, step = start, min(2 * step, READ_BYTES_MAX)
        return -1

    def _newline_after(self, start: int, stop: int) -> int:
        """The first newline from `start` up to `stop`, or -1."""
        step = READ_BYTES
        while start < stop:
            chunk = self._bytes(start, min(start + step, stop))
            newline = chunk.find(b"\n")
            if newline >= 0:
                return start + newline
            start, step = start + len(chunk), min(2 * step, READ_BYTES_MAX)
        return -1

    def _offset_of(self, seq: int) -> int:
        """The offset of an event's line. Narrows the range between two cached offsets, alternating
        between interpolation, as if all lines were equally long, and bisection, which ends soon in
        any case."""
        assert self.newest is not None
        at = bisect.bisect_right(self.places, (seq, self.end))
        near, low = self.places[at - 1] if at else (self.first, 0)
        is_last = at == len(self.places)
        far, high = (self.newest.seq + 1, self.end) if is_last else self.places[at]
        halves = False
        while high - low > NEAR_BYTES and near < seq:
            aim = low + (high - low) * (seq - near) // (far - near) - NEAR_BYTES // 2
            probe = (low + high) // 2 if halves else max(aim, low + NEAR_BYTES)
            halves = not halves
            start = self._newline_after(probe - 1, high) + 1
            if start == 0 or start >= high:
                high = probe
                continue
            probed = self._seq_at(start)
            self._remember(probed, start)
            if probed <= seq:
                near, low = probed, start
            else:
                far, high = probed, start
        return self._skip(low, seq - near)

    def _skip(self, start: int, lines: int) -> int:
        """The offset after a number of lines."""
        if lines == 0:
            return start
        for at, (offset, _) in enumerate(self.lines(start)):
            if at == lines:
                return offset
        raise self._damage(start, f"{lines} lines are missing")

    def _remember(self, seq: int, offset: int) -> None:
        if len(self.places) >= PLACES_MAX:
            del self.places[1::2]
        at = bisect.bisect_left(self.places, (seq, 0))
        if at == len(self.places) or self.places[at][0] != seq:
            self.places.insert(at, (seq, offset))

    def _seq_at(self, offset: int) -> int:
        found = _SEQ.match(os.pread(self.fd, 64, offset))
        if found is None:
            raise self._damage(offset, "there is no event")
        return int(found[1])

    # --- bytes ---

    def _line(self, start: int, stop: int) -> bytes:
        """The line between two offsets. Raises Corrupt, without reading the line, if it has no end
        or is longer than any event."""
        if stop < 0 or stop - start > LINE_BYTES_MAX:
            raise self._damage(
                start, f"a line of more than {LINE_BYTES_MAX:,} bytes is not an event"
            )
        return self._bytes(start, stop)

    def _bytes(self, start: int, stop: int) -> bytes:
        content = os.pread(self.fd, stop - start, start)
        while len(content) < stop - start:
            more = os.pread(self.fd, stop - start - len(content), start + len(content))
            if not more:
                raise self._damage(start, "the file became shorter")
            content += more
        return content

    def _copy(self, start: int, stop: int, fd: int) -> None:
        for at in range(start, stop, READ_BYTES_MAX):
            tree.write_all(fd, self._bytes(at, min(at + READ_BYTES_MAX, stop)))

    def _event(self, offset: int, line: bytes) -> Event:
        try:
            return event_of(line)
        except Corrupt as error:
            raise self._damage(offset, error.message) from error
        except Invalid as error:
            raise Invalid(
                f"{self.path}, byte {offset:,}: {error.message}", hint=error.hint
            ) from error

    def _damage(self, offset: int, what: str) -> Corrupt:
        return Corrupt(f"{self.path}, byte {offset:,}: {what}", hint=REPAIR)
