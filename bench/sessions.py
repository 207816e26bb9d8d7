"""Recorded agent sessions on disk, for the measures; what they see of a message is in
`refold.replay.needs`.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from bench import GIVEN
from refold.replay.needs import (
    EXTENSIONS,
    MESSAGE_TOKENS,
    Message,
    argument_text,
    is_telling,
    names_in,
    opening_of,
    schema_words,
    telling_share,
    text_of,
    tokens_of,
    tokens_of_all,
    tokens_of_text,
    words_besides,
)

__all__ = [
    "EXTENSIONS", "MESSAGE_TOKENS", "Message", "argument_text", "data_folder", "family_of",
    "is_telling", "names_in", "opening_of", "rows_of", "schema_words", "session_of",
    "session_paths", "telling_share", "text_of", "tokens_of", "tokens_of_all", "tokens_of_text",
    "words_besides",
]  # fmt: skip


# --- files ---


def data_folder(given: str | None = None) -> Path | None:
    """The folder with `trajectories/`: as given, from the environment, or the one beside the
    repository."""
    beside = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    folder = Path(given or GIVEN.get("REFOLD_BENCH_DATA") or beside)
    return folder if folder.is_dir() else None


def session_paths(folder: Path, step: int = 1, first: int = 0) -> list[Path]:
    """Every `step`th file by name, beginning with this one, counted from 0. A folder with
    `trajectories/` has other data beside them."""
    inside = folder / "trajectories"
    return sorted((inside if inside.is_dir() else folder).rglob("*.jsonl.gz"))[first::step]


def family_of(path: Path) -> str:
    """The agent that a session is of: the first part of its file name."""
    return path.name.split("--", 1)[0]


def rows_of(path: Path) -> list[Message]:
    """All messages of a file, summaries of the agent's own compactions included."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row for row in rows if row.get("kind") != "meta"]


def session_of(path: Path) -> list[Message]:
    """A session as it would have been without compaction: system prompts, then from the first
    request on."""
    messages = [row for row in rows_of(path) if not row.get("compact_summary")]
    first = opening_of(messages) - 1
    return [one for one in messages[:first] if one["role"] == "system"] + messages[first:]
