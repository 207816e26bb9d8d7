"""Where the folder ends: a path that a person or a model writes, made certain."""

from __future__ import annotations

import os
from pathlib import Path

from refold.edges.commands.text import short_line
from refold.errors import Denied, Invalid, NotFound


def inside(path: str, *, top: str | None = None, anywhere: bool = False) -> tuple[Path, str]:
    """The real path, and how it is named from the folder `top` (the current one). Denied if it
    lies outside, unless `anywhere`; NotFound if it is not there."""
    shown = short_line(path, 200)
    if not path or "\0" in path:
        raise Invalid(f"{shown!r} is not a path", hint="name a file or a folder")
    folder = os.path.realpath(top or os.getcwd())
    real = os.path.realpath(os.path.join(folder, os.path.expanduser(path)))
    if not os.path.lexists(real):
        raise NotFound(f"there is no {shown}", hint=f"paths are read from {folder}")
    if is_below(real, folder):
        return Path(real), os.path.relpath(real, folder)
    if not anywhere:
        raise Denied(f"{shown} is outside {folder}", hint="--anywhere allows it")
    return Path(real), real


def is_below(path: str, folder: str) -> bool:
    """Whether a real path is the folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
