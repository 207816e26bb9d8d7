"""`@file` in a request: the file's text goes along with it.

The text of the request comes first, then each file between marks that do not occur in it. A large
file is kept whole as an artifact, and only its beginning goes along. What is no file stays a word.
Neighbours: `workspace` says what may be read, `loop` sends the message.
"""

from __future__ import annotations

import re

from refold.display import fenced
from refold.edges.chat.workspace import Workspace
from refold.engine.context import Context
from refold.errors import RefoldError

MENTION = re.compile(r"(?<![\w@])@((?:\\ |[^\s@])+)")
CHARS_MAX, SHOWN_CHARS = 40_000, 4_000
FILES_MAX = 20


def mentioned(text: str) -> list[str]:
    """The paths that a request mentions, each once."""
    found = (path.replace("\\ ", " ").rstrip(".,;:!?)]}\"'") for path in MENTION.findall(text))
    return list(dict.fromkeys(path for path in found if path))[:FILES_MAX]


def with_files(text: str, workspace: Workspace, context: Context) -> tuple[str, list[str]]:
    """The request with the files that it mentions, and the mentions that are no files."""
    parts, missing = [text], []
    for path in mentioned(text):
        try:
            content = workspace.text(path)
        except (RefoldError, OSError):
            missing.append(path)
            continue
        parts.append(_shown(path, content, context))
    return "\n\n".join(parts), missing


def _shown(path: str, content: str, context: Context) -> str:
    named = f' path="{path}"'
    if len(content) <= CHARS_MAX:
        return fenced(content, "file", named)
    kept = context.artifacts.put(content, name=path, type="file")
    whole = f"[{path} is kept whole as {kept.id}: refold_unfold shows more of it.]"
    return f"{fenced(content[:SHOWN_CHARS], 'file', named)}\n{whole}"
