"""A file that was imported before and was not written to since is not read again.

Beside the store lies a small file for each file that was imported: which one it was, its size and
times, where the conversations ended then, and what was reported, without a word of what was said.
Derived and disposable: where it is missing, of another version, or speaks of a log that is not this
one, the file is read as usual. Whatever was appended since changes nothing: an unchanged file adds
nothing to it. Neighbours: `importer` asks first and keeps what it found; `stores.protocol` says
where derived files lie.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

import refold
from refold import decoding
from refold.conversations.listing import preview
from refold.edges.importers.lines import digest
from refold.edges.importers.report import Report, Session
from refold.errors import NotFound
from refold.stores.protocol import Store
from refold.system import disk

FOLDER = "imports"  # of derived files
KEPT_BYTES_MAX = 64_000
SETTLED_NS = 2_000_000_000  # some clocks of files tick that slowly
# Sources whose sessions are one file. Others keep parts of them in files beside it.
ONE_FILE = frozenset({
    "claude-code", "codex", "gemini-cli", "cline", "aider", "mini-swe-agent", "swe-agent",
    "messages",
})  # fmt: skip


class _State(Struct, frozen=True):
    """A file as the system sees it: whoever writes to it changes one of these."""

    file: int
    size_bytes: int
    written_ns: int
    changed_ns: int


class _Kept(Struct, frozen=True):
    """What is kept of an import: what it read, and the last event of each conversation."""

    version: str
    state: _State
    ends: list[tuple[str, int, str]]
    report: Report


class Unchanged:
    """What is known of one file, imported in one way. Nothing where the store has no place for
    it."""

    def __init__(self, store: Store, path: Path, way: str) -> None:
        self._store = store
        folder = store.derived_path(FOLDER)
        name = digest(os.fsencode(f"{way}\n{path.absolute()}"))
        self._state = _state_of(path) if folder else None
        self._place = Path(folder, f"{name}.json") if folder and self._state else None

    def report(self) -> Report | None:
        """What importing the file gives, if it is the same as then and the log still has it."""
        kept = self._kept()
        if kept is None or (kept.version, kept.state) != (refold.__version__, self._state):
            return None
        if not all(self._has(*end) for end in kept.ends):
            return None
        sessions = [self._as_it_is(one) for one in kept.report.sessions]
        return replace(kept.report, sessions=sessions)

    def _as_it_is(self, session: Session) -> Session:
        about = self._store.conversation(session.conversation)
        title = about.title or preview(self._store, about.id)
        unchanged = replace(session, new=0, restored=0, left_at=0, erased=0)
        return replace(unchanged, title=title, head=about.head)

    def _kept(self) -> _Kept | None:
        try:
            data = self._place.read_bytes() if self._place else b""
            return _DECODER.decode(data) if 0 < len(data) <= KEPT_BYTES_MAX else None
        except (OSError, msgspec.DecodeError, ValueError):
            return None

    def _has(self, conversation: str, head: int, chain: str) -> bool:
        try:
            events = self._store.read(conversation, after=head - 1, limit=1)
        except NotFound:
            return False
        return bool(events) and events[0].seq == head and events[0].chain.hex() == chain

    def keep(self, report: Report) -> None:
        """Keeps what the import gave, if the same would be said again: not where lines are to be
        told, or where forks may take up branches that were left."""
        if self._place is None or self._state is None or not _is_lasting(report):
            return
        ends = [self._end(one.conversation, one.head) for one in report.sessions]
        sessions = [replace(one, title="") for one in report.sessions]
        nameless = replace(report, sessions=sessions)
        kept = _Kept(refold.__version__, self._state, ends, nameless)
        # Without it the next import takes longer, nothing else.
        with contextlib.suppress(OSError):
            disk.make_folder(str(self._place.parent), durable=False)
            disk.replace_file(str(self._place), msgspec.json.encode(kept))

    def _end(self, conversation: str, head: int) -> tuple[str, int, str]:
        [event] = self._store.read(conversation, after=head - 1, last=head, limit=1)
        return conversation, head, event.chain.hex()


_DECODER = decoding.decoder(_Kept)


def _is_lasting(report: Report) -> bool:
    if report.source not in ONE_FILE or report.unread_total or not report.sessions:
        return False
    return not any(one.left for one in report.sessions)


def _state_of(path: Path) -> _State | None:
    """The file as it is; None if it is none, or was written to so lately that a clock might not
    tell the next write from it."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # ValueError: no file can have such a name
        return None
    if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) < SETTLED_NS:
        return None
    return _State(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
