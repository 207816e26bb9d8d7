"""`@file`, or `@"file with spaces"`, in a request: the file's text goes along with it.

The text of the request comes first, then each file between marks that do not occur in it. A large
file is kept whole as an artifact, and only its beginning goes along. What is no file stays a word.
Neighbours: `workspace` says what may be read, `loop` sends the message.
"""

from __future__ import annotations

import os
import re

from refold.display import fenced
from refold.edges.chat.workspace import Workspace
from refold.engine.context import Context
from refold.errors import Denied, NotFound, RefoldError, sentence

MENTION = re.compile(r'(?<![\w@])@(?:"([^"\n]+)"|((?:\\ |[^\s@"])(?:\\ |[^\s@])*))')
CHARS_MAX, SHOWN_CHARS = 40_000, 4_000
FILES_MAX = 20


def mentioned(text: str) -> list[str]:
    """The paths that a request mentions, each once."""
    found = (quoted or _unescaped(plain) for quoted, plain in MENTION.findall(text))
    return list(dict.fromkeys(path for path in found if path))[:FILES_MAX]


def _unescaped(path: str) -> str:
    """A path without the backslashes before its spaces, and what ends the sentence after it."""
    return path.replace("\\ ", " ").rstrip(".,;:!?)]}\"'")


def mention(path: str) -> str:
    """How a request mentions a path, so that `mentioned` reads it: as it is, else in quotes."""
    plain = "@" + path.replace(" ", "\\ ")
    return plain if mentioned(plain) == [path] else in_quotes(path)


def in_quotes(path: str) -> str:
    """The same between quotes; those of a folder stay open, for what is in it."""
    return f'@"{path}' if path.endswith("/") else f'@"{path}"'


def with_files(text: str, workspace: Workspace, context: Context) -> tuple[str, list[str]]:
    """The request with the files that it mentions, and why others were not read."""
    parts, missing = [text], list[str]()
    for path in mentioned(text):
        try:
            content = workspace.text(path)
        except (RefoldError, OSError) as error:
            missing.append(f"@{path} {_reason(error, path, workspace)}")
            continue
        parts.append(_shown(path, content, context))
    return "\n\n".join(parts), missing


def _reason(error: RefoldError | OSError, path: str, workspace: Workspace) -> str:
    """Why what is mentioned was not read."""
    if isinstance(error, NotFound):
        return "is not a file here"
    if isinstance(error, Denied):
        return "is outside the folder (refold chat --allow FOLDER allows another)"
    if os.path.isdir(workspace.root / path):
        return "is a folder, and only files can be taken along"
    return f"was not read ({sentence(error)})"


def _shown(path: str, content: str, context: Context) -> str:
    named = f' path="{path}"'
    if len(content) <= CHARS_MAX:
        return fenced(content, "file", named)
    kept = context.artifacts.put(content, name=path, type="file")
    whole = f"[{path} is kept whole as {kept.id}: refold_unfold shows more of it.]"
    return f"{fenced(content[:SHOWN_CHARS], 'file', named)}\n{whole}"
