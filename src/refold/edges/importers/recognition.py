"""Whose file it is: by its first lines, or as a whole where it is one JSON value.

Neighbours: the sources in the package's table are asked in their order.

Where programs keep their sessions on this machine, and which files of a folder may be sessions.

Only names are looked at; no link is followed, and a folder that cannot be read is passed over.
Neighbours: `refold import --scan` asks here, `recognition` looks into a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from refold.conversations.exporter import FORMAT
from refold.edges.importers import REFOLD, SOURCES
from refold.edges.importers.entry import Branch, Entry
from refold.edges.importers.lines import HINT, UNREADABLE, Lines, document
from refold.errors import Invalid

SNIFFED_LINES = 30
SNIFFED_BYTES = 4_096


class Recognised(NamedTuple):
    """The source of a file, the id of its session, and the walk through it. An empty id: all
    sessions of the file have ids of their own. `unit` is what the numbers of its entries count.
    `branches` finds those that were left, where the source keeps them."""

    source: str
    session: str | None
    entries: Callable[[Lines], Iterator[Entry]]
    unit: str = "line"
    branches: Callable[[Lines, int], Iterator[Branch]] | None = None


def recognised(lines: Lines) -> Recognised | None:
    """Whose session the file is; None for an export of refold's own. Invalid if it is nobody's."""
    start = list(islice(lines, SNIFFED_LINES))
    if not start:
        raise _nothing_read(lines)
    if f'"{FORMAT}"'.encode() in start[0][1][:SNIFFED_BYTES]:
        return None
    if (of_start := _of_start(start[0][1])) is not None:
        return of_start
    values = list(_objects(line for _, line in start))
    # Of a document in many lines, some may be objects too.
    is_lines = 2 * len(values) > len(start) or not _goes_on(start[0][1])
    # One object in its only line may be a document as well as a line.
    if values and is_lines and (len(start) > 1 or not _is_whole(lines)):
        return _of_lines(lines, values) or _refuse(lines.path)
    return _of_document(lines) or _of_lines(lines, values) or _refuse(lines.path)


def _objects(lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            value = msgspec.json.decode(line)
        except UNREADABLE:
            continue
        if isinstance(value, dict):
            yield value


def _goes_on(line: bytes) -> bool:
    """Whether a JSON value begins in a line and goes on in the next."""
    return line.strip().startswith((b"[", b"{")) and line.rstrip().endswith((b"[", b"{", b","))


def _nothing_read(lines: Lines) -> Invalid:
    """The error for a file that gives no line."""
    if not lines.unread:
        return Invalid(f"{lines.path} is empty", hint=HINT)
    first = lines.unread[0]
    return Invalid(f"{lines.path}, line {first.line}: {first.reason}", hint=HINT)


def _is_whole(lines: Lines) -> bool:
    """Whether the file has one line and no other, readable or not."""
    return sum(1 for _ in islice(lines, 2)) == 1 and not lines.unread


def _of_start(first: bytes) -> Recognised | None:
    """The source of a file that is neither JSON nor lines of it."""
    for name, source in SOURCES.items():
        module = import_module(f"{__package__}.{source.module}")
        if hasattr(module, "is_text") and module.is_text(first):
            return Recognised(name, None, module.entries)
        if hasattr(module, "is_database") and module.is_database(first):
            return Recognised(name, "", module.of_database, "session")
    return None


def _of_lines(lines: Lines, values: list[dict[str, Any]]) -> Recognised | None:
    for name, source in SOURCES.items():
        module = import_module(f"{__package__}.{source.module}")
        if hasattr(module, "is_mine") and module.is_mine(values):
            of = getattr(module, "session_of", None)
            session = of(lines) if of else None
            branches = getattr(module, "branches", None)
            return Recognised(name, session, module.entries, branches=branches)
    return None


def _of_document(lines: Lines) -> Recognised | None:
    value = document(lines.path)
    for name, source in SOURCES.items():
        module = import_module(f"{__package__}.{source.module}")
        if hasattr(module, "is_document") and module.is_document(value):
            of = getattr(module, "session_of", None)
            own = "" if hasattr(module, "MANY") else None
            unit = getattr(module, "UNIT", "element")
            return Recognised(name, of(lines) if of else own, module.of_document, unit)
    return None


def _refuse(path: Path) -> Recognised:
    raise Invalid(f"{path} is not a session that refold can read", hint=HINT)


__all__ = ["REFOLD", "Recognised", "recognised"]


FILES_MAX = 100_000
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


class Place(NamedTuple):
    """Where a program keeps its sessions, and how the names of their files end."""

    source: str
    folder: Path
    endings: tuple[str, ...]


def session_folders() -> list[Place]:
    """The folders in which the programs keep their sessions, whether they are there or not."""
    home = Path.home()
    claude = Path(os.environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex = Path(os.environ.get("CODEX_HOME") or home / ".codex")
    shared = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    cline = Path(os.environ.get("CLINE_DATA_DIR") or home / ".cline" / "data")
    rollouts = (".jsonl", ".jsonl.zst")
    return [
        Place("claude-code", claude / "projects", (".jsonl",)),
        Place("codex", codex / "sessions", rollouts),
        Place("codex", codex / "archived_sessions", rollouts),
        Place("gemini-cli", home / ".gemini" / "tmp", (".jsonl",)),
        Place("opencode", shared / "opencode", (".db",)),
        Place("cline", cline / "sessions", (".messages.json",)),
        Place("openhands", home / ".openhands" / "conversations", ("base_state.json",)),
        Place("messages", cline / "tasks", ("api_conversation_history.json",)),
    ]


def scan() -> list[Found]:
    """What there is on this machine."""
    found = []
    for source, folder, endings in session_folders():
        files = list(islice(_files(folder, endings), FILES_MAX))
        if files:
            size = sum(map(_size, files))
            shown = list(map(str, files))
            found.append(Found(source=source, folder=str(folder), files=shown, size_bytes=size))
    return found


def files_in(folder: Path) -> list[Path]:
    """The files of a folder, and of the folders in it, that may be sessions."""
    return list(islice(_files(folder, ENDINGS), FILES_MAX))


def _files(folder: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    for place, folders, names in os.walk(folder, followlinks=False):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            if name.endswith(endings) and not path.is_symlink():
                yield path


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
