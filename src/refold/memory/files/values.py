"""What the memory tool is given and gives back, as values."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=1, le=1 << 40)]


class FileLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much a folder of memories may hold, and how much of it is shown at once."""

    # Bytes of one file.
    file_bytes: Count = 100_000
    # Bytes of all files together.
    total_bytes: Count = 10_000_000
    # Files in all.
    files: Count = 1_000
    # Names in a path, below the root.
    depth: Annotated[int, Meta(ge=1, le=32)] = 8
    # Changes whose contents are kept, so that they can be taken back.
    versions: Count = 1_000
    # Characters of one answer; what is longer comes in pages.
    view_chars: Annotated[int, Meta(ge=200, le=1 << 40)] = 32_000


class FileAnswer(Struct, frozen=True):
    """What a call of the tool gave: a text for the model, and whether it is an error."""

    text: str
    is_error: bool = False

    def tool_result(self, call: str) -> dict[str, Any]:
        """The answer as the block that Anthropic takes, for the call of this id."""
        block = {"type": "tool_result", "tool_use_id": call, "content": self.text}
        return {**block, "is_error": True} if self.is_error else block


class FileVersion(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file before and after a change, by the digests of its contents; empty: there was none."""

    path: str
    before: str = ""
    after: str = ""


class FileChange(Struct, frozen=True, kw_only=True):
    """A change of the folder as it stands in its history. `folders` are empty ones that a
    deletion took away."""

    seq: int
    at_ms: int
    by: str
    command: str
    path: str
    new_path: str = ""
    files: tuple[FileVersion, ...] = ()
    folders: tuple[str, ...] = ()
    # The change that this one took back; 0 for none.
    undoes: int = 0


class BlamedLine(Struct, frozen=True, kw_only=True):
    """A line of a file and the change it came with; `seq` 0: it was written by other means."""

    line: str
    seq: int = 0
    by: str = ""
    at_ms: int = 0
