"""A scratch copy of the installed package, and the real tools that an agent works on it with.

Outputs are the same on every run: paths are relative to the scratch copy, lists are sorted, and
what a command prints is cleaned of the scratch folder's name. Neighbour: `script` decides what is
called.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import string
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

import refold
from refold.errors import Invalid, Unavailable

COMMAND_S_MAX = 30.0
OUTPUT_CHARS_MAX = 2 * 1024 * 1024
MATCHES_MAX = 40
HIDDEN = ("PYTHONPATH", "PYTHONUNBUFFERED")  # variables that a command does not see
# The demo's own files stay out of the copy: its script would give the answers away.
SKIPPED = ("__pycache__", "*.pyc", "demo", "demo.py")


class Outcome(Struct, frozen=True):
    """What a tool gave."""

    text: str
    failed: bool = False


def tool(name: str, description: str, **properties: str) -> dict[str, Any]:
    """A tool definition in the Messages API's shape."""
    schema = {key: {"type": kind} for key, kind in properties.items()}
    required = list(properties)
    return {
        "name": name,
        "description": description,
        "input_schema": {"type": "object", "properties": schema, "required": required},
    }


TOOLS = [
    tool("list_files", "The files in a folder with their lines.", path="string"),
    tool(
        "read_file",
        "A range of lines of a file.",
        path="string",
        start_line="integer",
        end_line="integer",
    ),
    tool(
        "grep",
        "Lines that match a regular expression, as path:line:text.",
        pattern="string",
        path="string",
    ),
    tool("run", "Runs a command in the scratch folder.", command="string"),
    tool(
        "edit_file",
        "Replaces one text in a file by another.",
        path="string",
        old="string",
        new="string",
    ),
]


@contextmanager
def scratch_folder(*, keep: bool = False) -> Iterator[Path]:
    """A folder of our own, gone afterwards. Its name has lower-case letters only: it is part of
    stubs, and every name must have the same number of tokens."""
    letters = "".join(secrets.choice(string.ascii_lowercase) for _ in range(12))
    folder = Path(tempfile.gettempdir()) / f"refold-demo-{letters}"
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        hint = "set TMPDIR to a folder with room"
        raise Unavailable(f"the demo cannot use {folder}: {error}", hint=hint) from error
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _environment() -> dict[str, str]:
    """What a command sees, so that it prints the same everywhere."""
    environ = {name: text for name, text in os.environ.items() if name not in HIDDEN}
    plain = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"}
    return environ | plain


class Workshop:
    """The tools, on one scratch copy."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._lines: dict[str, list[str]] = {}
        source = Path(refold.__file__).parent
        shutil.copytree(source, self.root / source.name, ignore=shutil.ignore_patterns(*SKIPPED))

    def call(self, name: str, arguments: dict[str, Any]) -> Outcome:
        """Runs one tool by its name."""
        match name:
            case "list_files":
                return self.list_files(**arguments)
            case "read_file":
                return self.read_file(**arguments)
            case "grep":
                return self.grep(**arguments)
            case "run":
                return self.run(**arguments)
            case "edit_file":
                return self.edit_file(**arguments)
            case _:
                raise Invalid(f"there is no tool {name!r}", hint="see workshop.TOOLS")

    # --- reading ---

    def files(self, path: str = ".") -> list[Path]:
        """The Python files of a folder and below, sorted."""
        place = self.root / path
        return sorted(place.rglob("*.py")) if place.is_dir() else [place]

    def name(self, file: Path) -> str:
        return file.relative_to(self.root).as_posix()

    def lines(self, path: str) -> list[str]:
        """The lines of a file; read once until it is edited."""
        if path not in self._lines:
            self._lines[path] = self._text(path).splitlines()
        return self._lines[path]

    def _text(self, path: str) -> str:
        try:
            return (self.root / path).read_text(encoding="utf-8")
        except OSError as error:
            raise Unavailable(
                f"the scratch copy has no {path}: {error.strerror}", hint="install it again"
            ) from error

    def list_files(self, path: str) -> Outcome:
        names = map(self.name, self.files(path))
        rows = [f"{name}  {len(self.lines(name))} lines" for name in names]
        return Outcome("\n".join(rows) or f"{path} has no Python files")

    def read_file(self, path: str, start_line: int, end_line: int) -> Outcome:
        lines = self.lines(path)[start_line - 1 : end_line]
        numbered = [f"{at:4} {line}" for at, line in enumerate(lines, start_line)]
        return Outcome("\n".join(numbered) or "(empty)")

    def grep(self, pattern: str, path: str) -> Outcome:
        wanted = re.compile(pattern, re.MULTILINE)
        found: list[str] = []
        for file in self.files(path):
            found += self._matches(wanted, self.name(file))
        shown = found[:MATCHES_MAX]
        if len(found) > MATCHES_MAX:
            shown.append(f"… {len(found) - MATCHES_MAX} more")
        return Outcome("\n".join(shown) or "no match")

    def _matches(self, wanted: re.Pattern[str], name: str) -> list[str]:
        """The lines of a file that match, as path:line:text."""
        lines = self.lines(name)
        # Most files have no match at all, and one look at the whole text says so.
        if not wanted.search("\n".join(lines)):
            return []
        numbered = enumerate(lines, 1)
        return [f"{name}:{at}:{line.strip()}" for at, line in numbered if wanted.search(line)]

    # --- acting ---

    def run(self, command: str) -> Outcome:
        words = shlex.split(command)
        if words[0] == "python":
            words[0] = sys.executable
        try:
            done = subprocess.run(
                words,
                cwd=self.root,
                env=_environment(),
                capture_output=True,
                timeout=COMMAND_S_MAX,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.SubprocessError) as error:
            hint = f"try it by hand: {command}"
            raise Unavailable(f"the demo's command did not run: {error}", hint=hint) from error
        printed = (done.stdout + done.stderr).decode("utf-8", "replace")
        output = printed.replace(str(self.root), "/scratch").rstrip()
        text = f"exit status {done.returncode}: {command}\n{output}"
        return Outcome(text[:OUTPUT_CHARS_MAX].rstrip(), done.returncode != 0)

    def edit_file(self, path: str, old: str, new: str) -> Outcome:
        whole = self._text(path)
        count = whole.count(old)
        if count != 1:
            return Outcome(f"{path}: the text occurs {count} times, not once", failed=True)
        (self.root / path).write_text(whole.replace(old, new), encoding="utf-8")
        self._lines.pop(path, None)
        line = whole[: whole.index(old)].count("\n") + 1
        return Outcome(f"modified {path} at line {line}:\n- {old}\n+ {new}")
