"""Recognition of the source of a session file, by its first lines or its JSON value; and the
folders where programs keep their sessions.

Readers are tried in the order of the package's table. A scan looks only at file names; it follows
no links and skips unreadable folders. Neighbours: `lines.Reader` describes a source, `importer`
imports a recognized file, `refold import --scan` scans.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from refold.checked import quoted
from refold.conversations.exporter import FORMAT
from refold.edges.importers import SOURCES
from refold.edges.importers.lines import HINT, UNREADABLE, Branches, Lines, Reader, Walk, document
from refold.errors import Invalid

SNIFFED_LINES = 30
SNIFFED_BYTES = 4_096


class Recognised(NamedTuple):
    """The source of a file, the id of its session, and its entries. The id is empty if the file has
    several sessions, and None if only the path identifies it. `unit` names what line numbers count;
    `branches` finds abandoned branches; `has_line_ids` means that the lines have ids."""

    source: str
    session: str | None
    entries: Walk
    unit: str = "line"
    branches: Branches | None = None
    has_line_ids: bool = False


def recognised(lines: Lines) -> Recognised | None:
    """The source of a session file; None for refold's own export. Invalid if it is unknown."""
    start = [line for _, line in islice(lines, SNIFFED_LINES)]
    if not start:
        if not lines.unread:
            raise Invalid(f"{lines.path} is empty", hint=HINT)
        first = lines.unread[0]
        raise Invalid(f"{lines.path}, line {first.line}: {first.reason}", hint=HINT)
    if f'"{FORMAT}"'.encode() in start[0][:SNIFFED_BYTES]:
        return None
    for name, reader in _readers():
        if reader.is_start and reader.entries and reader.is_start(start[0]):
            session = "" if reader.has_many else None
            return Recognised(name, session, reader.entries, reader.unit)
    values = list(_objects(start))
    # Some lines of a multi-line document may be objects too.
    is_lines = 2 * len(values) > len(start) or not _continues(start[0])
    # A single object on a single line may be a document or a line.
    is_single_line = sum(1 for _ in islice(lines, 2)) == 1 and not lines.unread
    if values and is_lines and not is_single_line:
        found = _of_lines(lines, values)
    else:
        found = _of_document(lines) or _of_lines(lines, values)
    if found is None:
        raise Invalid(f"{lines.path} is not a session that refold can read", hint=HINT)
    return found


def _readers() -> Iterator[tuple[str, Reader]]:
    for name, source in SOURCES.items():
        module, _, value = source.reader.partition(".")
        yield name, getattr(import_module(f"{__package__}.{module}"), value)


def _objects(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            value = msgspec.json.decode(line)
        except UNREADABLE:
            continue
        if isinstance(value, dict):
            yield value


def _continues(line: bytes) -> bool:
    """Whether a JSON value begins in this line and continues in the next."""
    return line.strip().startswith((b"[", b"{")) and line.rstrip().endswith((b"[", b"{", b","))


def _of_lines(lines: Lines, values: list[dict[str, Any]]) -> Recognised | None:
    for name, reader in _readers():
        if reader.is_lines and reader.entries and reader.is_lines(values):
            session = reader.session_of(lines) if reader.session_of else None
            branches, has_line_ids = reader.branches, reader.has_line_ids
            return Recognised(
                name, session, reader.entries, branches=branches, has_line_ids=has_line_ids
            )
    return None


def _of_document(lines: Lines) -> Recognised | None:
    value = document(lines.path)
    for name, reader in _readers():
        if reader.is_document and reader.of_document and reader.is_document(value):
            session = "" if reader.has_many else None
            if reader.session_of:
                session = reader.session_of(lines)
            return Recognised(name, session, reader.of_document, reader.document_unit)
    return None


FILES_MAX = 100_000
DEPTH_MAX = 100  # folders below the named one
ENDINGS = (
    ".jsonl",
    ".jsonl.gz",
    ".jsonl.zst",
    ".json",
    ".json.gz",
    ".traj",
    ".aider.chat.history.md",
    "opencode.db",
)


class Found(Struct, frozen=True, kw_only=True):
    """The session files of one program."""

    source: str
    folder: str
    files: list[str]
    size_bytes: int


class SessionFolder(NamedTuple):
    """A folder of a program's sessions, and the endings of their file names."""

    source: str
    folder: Path
    endings: tuple[str, ...]


def session_folders() -> list[SessionFolder]:
    """The session folders of all programs, whether they exist or not."""
    home = Path.home()
    claude = Path(os.environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex = Path(os.environ.get("CODEX_HOME") or home / ".codex")
    shared = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    cline = Path(os.environ.get("CLINE_DATA_DIR") or home / ".cline" / "data")
    rollouts = (".jsonl", ".jsonl.zst")
    return [
        SessionFolder("claude-code", claude / "projects", (".jsonl",)),
        SessionFolder("codex", codex / "sessions", rollouts),
        SessionFolder("codex", codex / "archived_sessions", rollouts),
        SessionFolder("gemini-cli", home / ".gemini" / "tmp", (".jsonl",)),
        SessionFolder("opencode", shared / "opencode", (".db",)),
        SessionFolder("cline", cline / "sessions", (".messages.json",)),
        SessionFolder("openhands", home / ".openhands" / "conversations", ("base_state.json",)),
        SessionFolder("messages", cline / "tasks", ("api_conversation_history.json",)),
    ]


def scan() -> list[Found]:
    """The session files on this machine, by program."""
    found = []
    for source, folder, endings in session_folders():
        files = list(islice(_files(folder, endings), FILES_MAX))
        if files:
            size_bytes = sum(map(_size_bytes, files))
            names = list(map(str, files))
            entry = Found(source=source, folder=str(folder), files=names, size_bytes=size_bytes)
            found.append(entry)
    return found


def files_in(folder: Path) -> list[Path]:
    """The files in a folder and its subfolders that may be sessions."""
    return list(islice(_files(folder, ENDINGS), FILES_MAX))


def _files(folder: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    left = [(str(folder), 0)]
    while left:
        parent, depth = left.pop()
        if depth > DEPTH_MAX:
            deep = f"{quoted(str(folder), 200)} has folders {depth:,} deep"
            raise Invalid(deep, hint="name the files, or a folder further down")
        # One folder at a time: os.walk calls itself for each.
        _, folders, names = next(os.walk(parent), (parent, [], []))
        for name in sorted(names):
            path = Path(parent, name)
            if name.endswith(endings) and not path.is_symlink():
                yield path
        below = (os.path.join(parent, name) for name in sorted(folders, reverse=True))
        left += [(path, depth + 1) for path in below if not os.path.islink(path)]


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
