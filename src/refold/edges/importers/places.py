"""Where programs keep their sessions on this machine, and which files of a folder may be sessions.

Only names are looked at; no link is followed, and a folder that cannot be read is passed over.
Neighbours: `refold import --scan` asks here, `recognition` looks into a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

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


def places() -> list[Place]:
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
    for source, folder, endings in places():
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
