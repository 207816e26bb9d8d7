"""What a person types, line by line: on a plain terminal, or from a pipe.

A line that ends with a backslash goes on in the next one; text between two lines of three quotes
is one request. Neighbours: `prompt` is the same with history and completion, `loop` reads.

`@file`, or `@"file with spaces"`, in a request: the file's text goes along with it.

The text of the request comes first, then each file between marks that do not occur in it. A large
file is kept whole as an artifact, and only its beginning goes along. What is no file stays a word.
Neighbours: `workspace` says what may be read, `loop` sends the message.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TextIO

from refold.display import fenced
from refold.errors import Denied, NotFound, RefoldError, sentence

if TYPE_CHECKING:
    from refold.edges.chat.tools import Workspace
    from refold.engine.context import Context

QUOTES = '"""'
PROMPT, MORE = "> ", ". "
LINES_MAX = 10_000


class Lines(Protocol):
    """Where requests come from. `can_ask` says whether somebody sits there, `shows_status`
    whether the numbers stand beside the line."""

    can_ask: bool
    shows_status: bool

    def read(self, status: str) -> str | None:
        """The next request, which may have several lines; None at the end of the input."""
        ...

    def ask(self, question: str) -> str:
        """The answer to a question; empty where there is none."""
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
        answer = self._line(f"{question} ") if self.can_ask else None
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
    """One request of as many lines as it has."""
    line = next_line(True)
    if line is None:
        return None
    if line.strip() == QUOTES:
        return _until_quotes(next_line)
    lines = [line]
    while lines[-1].endswith("\\") and len(lines) < LINES_MAX:
        lines[-1] = lines[-1][:-1]
        lines.append(next_line(False) or "")
    return "\n".join(lines)


def _until_quotes(next_line: Callable[[bool], str | None]) -> str:
    lines: list[str] = []
    while len(lines) < LINES_MAX:
        line = next_line(False)
        if line is None or line.strip() == QUOTES:
            break
        lines.append(line)
    return "\n".join(lines)


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
