"""Requests as a person types them, on a plain terminal or in a pipe, with the files they mention.

A backslash at the end of a line continues it; text between two lines of three quotes is one
request. `@file` or `@"file with spaces"` attaches a file: its text follows the request, between
marks that do not occur in it; of a large file only the beginning, and the whole is stored as an
artifact. Neighbours: `prompt` adds history and completion, `tools.Workspace` decides what may be
read, `loop` sends the message.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TextIO

from refold.display import fenced, visible
from refold.errors import Denied, NotFound, RefoldError, sentence

if TYPE_CHECKING:
    from refold.edges.chat.tools import Workspace
    from refold.engine.context import Context

QUOTES = '"""'
PROMPT, MORE = "> ", ". "
LINES_MAX = 10_000
MENTION = re.compile(r'(?<![\w@])@(?:"([^"\n]+)"|((?:\\ |[^\s@"])(?:\\ |[^\s@])*))')
FILES_MAX = 20
CHARS_MAX, EXCERPT_CHARS = 40_000, 4_000


class Lines(Protocol):
    """A source of requests. `can_ask` if a person is there, `shows_status` if the status is shown
    beside the line."""

    can_ask: bool
    shows_status: bool

    def read(self, status: str) -> str | None:
        """The next request, which may have several lines; None at the end of the input."""
        ...

    def ask(self, question: str) -> str:
        """The answer to a question; empty without one."""
        ...


class PlainLines:
    """Lines of standard input."""

    shows_status = False

    def __init__(self, stdin: TextIO, *, is_terminal: bool) -> None:
        self._stdin, self.can_ask = stdin, is_terminal
        if is_terminal:
            import readline  # noqa: F401 - gives `input` its history and its keys

    def read(self, status: str) -> str | None:
        return joined(lambda is_first: self._line(PROMPT if is_first else MORE))

    def ask(self, question: str) -> str:
        answer = self._line(f"{visible(question)} ") if self.can_ask else None
        return (answer or "").strip()

    def _line(self, prompt: str) -> str | None:
        if self.can_ask:
            try:
                return input(prompt)
            except EOFError:
                return None
        line = self._stdin.readline()
        return line.rstrip("\n") if line else None


def joined(next_line: Callable[[bool], str | None]) -> str | None:
    """One request, which may have several lines; None at the end of the input."""
    line = next_line(True)
    if line is None:
        return None
    if line.strip() == QUOTES:
        quoted: list[str] = []
        while len(quoted) < LINES_MAX:
            line = next_line(False)
            if line is None or line.strip() == QUOTES:
                break
            quoted.append(line)
        return "\n".join(quoted)
    lines = [line]
    while lines[-1].endswith("\\") and len(lines) < LINES_MAX:
        lines[-1] = lines[-1][:-1]
        lines.append(next_line(False) or "")
    return "\n".join(lines)


def mentioned(text: str) -> list[str]:
    """The paths that a request mentions, each once."""
    # A plain path has backslashes before its spaces, and may be followed by the end of a sentence.
    paths = (
        quoted or plain.replace("\\ ", " ").rstrip(".,;:!?)]}\"'")
        for quoted, plain in MENTION.findall(text)
    )
    return list(dict.fromkeys(path for path in paths if path))[:FILES_MAX]


def mention(path: str) -> str:
    """The mention of a path that `mentioned` can read, in quotes only if needed."""
    plain = "@" + path.replace(" ", "\\ ")
    return plain if mentioned(plain) == [path] else in_quotes(path)


def in_quotes(path: str) -> str:
    """The mention of a path in quotes; a folder's stay open, for the name of a file in it."""
    return f'@"{path}' if path.endswith("/") else f'@"{path}"'


def with_files(text: str, workspace: Workspace, context: Context) -> tuple[str, list[str]]:
    """The request with the mentioned files, and the reasons for unread ones."""
    parts, missing = [text], list[str]()
    for path in mentioned(text):
        try:
            content = workspace.text(path)
        except (RefoldError, OSError) as error:
            missing.append(f"@{path} {_reason(error, path, workspace)}")
            continue
        named = f' path="{path}"'
        if len(content) <= CHARS_MAX:
            parts.append(fenced(content, "file", named))
        else:
            artifact = context.artifacts.put(content, name=path, type="file")
            whole = f"[{path} is kept whole as {artifact.id}: refold_unfold shows more of it.]"
            parts.append(f"{fenced(content[:EXCERPT_CHARS], 'file', named)}\n{whole}")
    return "\n\n".join(parts), missing


def _reason(error: RefoldError | OSError, path: str, workspace: Workspace) -> str:
    """Why a mentioned path was not read."""
    if isinstance(error, NotFound):
        return "is not a file here"
    if isinstance(error, Denied):
        return "is outside the folder (refold chat --allow FOLDER allows another)"
    if os.path.isdir(workspace.root / path):
        return "is a folder, and only files can be taken along"
    return f"was not read ({sentence(error)})"
