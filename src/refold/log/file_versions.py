"""What files held before an agent wrote to them, as the log says it: notes that name an artifact.

The log is in the order of time, also where something in it was switched off. So what a file held
at a point is what it held before the first write after that point; a file that was not written to
since is as it is on the disk. Putting files back is a write as well, and noted like any other.
Neighbours: `notes` are how it is written, `engine.file_versions` reads and writes the files.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct

from refold import decoding
from refold.core.codec import decode
from refold.core.model import Event, Note

FILE_NOTE = "refold.file"
FileKey = tuple[str, str]  # the folder in which a file was kept, and its path there
ChangeOfFile = Literal["create", "change", "remove", "same", "impossible"]


class FileVersion(Struct, frozen=True, kw_only=True):
    """A file before a write: its path inside the folder `root`, and its bytes as an artifact,
    which is empty if there was no file."""

    path: str
    artifact: str = ""
    mode: int | None = None
    root: str = ""


class FileChange(Struct, frozen=True, kw_only=True):
    """What putting a file back does: `diff` is from what it holds to what it held (unified), in
    words for what is not text; `reason` says why it is impossible."""

    path: str
    change: ChangeOfFile
    diff: str = ""
    reason: str = ""


def versions_at(events: Iterable[Event]) -> dict[FileKey, FileVersion]:
    """What files held where these events begin. Files that they do not write to are left out."""
    found: dict[FileKey, FileVersion] = {}
    for event in events:
        version = _version_in(event)
        if version is not None:
            found.setdefault((version.root, version.path), version)
    return found


def _version_in(event: Event) -> FileVersion | None:
    """The version that an event tells of. A note of another form is nobody's: anybody may write
    notes of any kind."""
    if event.kind != "note":
        return None
    note = decode(event)
    if not isinstance(note, Note) or note.kind != FILE_NOTE:
        return None
    try:
        return decoding.convert(note.data, FileVersion)
    except msgspec.ValidationError:
        return None
