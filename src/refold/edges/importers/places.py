"""Where programs keep their sessions on this machine, and which files of a folder may be sessions.

Only names are looked at; no link is followed, and a folder that cannot be read is passed over.
Neighbours: `refold import --scan` asks here, `recognition` looks into a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

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
)


class Found(Struct, frozen=True, kw_only=True):
    """The session files of one program."""

    source: str
    folder: str
    files: list[str]
    size_bytes: int


def roots() -> dict[str, list[Path]]:
    """The folders in which the programs keep their sessions, whether they are there or not."""
    home = Path.home()
    claude = Path(os.environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex = Path(os.environ.get("CODEX_HOME") or home / ".codex")
    return {
        "claude-code": [claude / "projects"],
        "codex": [codex / "sessions", codex / "archived_sessions"],
        "gemini-cli": [home / ".gemini" / "tmp"],
    }


def scan() -> list[Found]:
    """What there is on this machine."""
    found = []
    for source, folders in roots().items():
        for folder in folders:
            files = list(islice(_files(folder, (".jsonl", ".jsonl.zst")), FILES_MAX))
            if files:
                size = sum(map(_size, files))
                shown = list(map(str, files))
                one = Found(source=source, folder=str(folder), files=shown, size_bytes=size)
                found.append(one)
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
