"""A folder of memories in a place with canaries around it, and calls of the tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from refold.memory import FileAnswer, MemoryFiles

SECRET = "canary: nobody may read or change this"


def opened(place: Path, **given: Any) -> MemoryFiles:
    return MemoryFiles(folder=str(place / "base"), **given)


def call(files: MemoryFiles, command: str, path: str = "", **given: Any) -> FileAnswer:
    named = {"path": path} if path else {}
    return files.call({"command": command, **named, **given})


def said(files: MemoryFiles, command: str, path: str = "", **given: Any) -> str:
    """The text of a call that worked."""
    answer = call(files, command, path, **given)
    assert not answer.is_error, answer.text
    return answer.text


def refused(files: MemoryFiles, command: str, path: str = "", **given: Any) -> str:
    """The text of a call that was refused."""
    answer = call(files, command, path, **given)
    assert answer.is_error, answer.text
    return answer.text


def tree(place: Path) -> Path:
    return place / "base" / "memories"


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, and every link as the place it leads to."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = path.read_text("utf-8", "surrogateescape")
    return found


def outside(place: Path) -> Path:
    """Canaries where an escape would lead: beside the tree, beside the place, and further up."""
    folder = place / "outside"
    for spot in (folder, place, place / "base", place / "base" / "memories-evil"):
        spot.mkdir(parents=True, exist_ok=True)
        (spot / "canary.txt").write_text(SECRET)
    return folder
