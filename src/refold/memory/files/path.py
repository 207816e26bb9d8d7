"""A path of the memory tool: a text of the model, parsed into names before anything touches a disk.

The virtual root is `/memories`. A text is split at `/` and every name is judged alone; no name is
decoded, folded or normalized, and what could be read in two ways is refused. Errors show the
virtual path and nothing else. Neighbours: `descriptors` walks the names, `files` parses with this.
"""

from __future__ import annotations

import re
import unicodedata

from msgspec import Struct

from refold.display import INVISIBLE, cut, visible
from refold.errors import Denied, Invalid

ROOT = "/memories"
PATH_BYTES_MAX = 1_024
NAME_BYTES_MAX = 255
SHOWN_CHARS = 200
# Control and format characters, lone surrogates, private and unassigned ones, separators.
_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_INVISIBLE = re.compile(f"[{INVISIBLE}]")
# What looks like a slash or a backslash and has no compatibility form that says so.
_SLASHES = frozenset("∕⁄⧸⫽⫻╱∖⧵⧹╲⟋⟍")
_WINDOWS_CHARS = frozenset('\\<>:"|?*')
_WINDOWS_NAMES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])(\..*)?", re.I)
_ENCODED = re.compile(r"%(u?[0-9a-f]{2})", re.I)


class MemoryPath(Struct, frozen=True):
    """The names below the root. The first `mounted` of them lead to another folder."""

    names: tuple[str, ...] = ()
    mounted: int = 0

    def __str__(self) -> str:
        return "/".join((ROOT, *self.names))

    @property
    def inner(self) -> tuple[str, ...]:
        """The names below the folder that the path is in."""
        return self.names[self.mounted :]

    @property
    def parent(self) -> MemoryPath:
        return MemoryPath(self.names[:-1], self.mounted)

    def below(self, *names: str) -> MemoryPath:
        return MemoryPath((*self.names, *names), self.mounted)


def parsed(text: str) -> MemoryPath:
    """The path that the text names. Invalid or Denied, with the reason, for any other text."""
    if len(text.encode("utf-8", "surrogatepass")) > PATH_BYTES_MAX:
        raise _unusable(text, f"it has more than {PATH_BYTES_MAX:,} bytes")
    names = text.split("/")
    if "/".join(names[:2]) != ROOT:
        raise Denied(f"Path must start with {ROOT}, got: {shown(text)}")
    names = names[2:]
    if names and not names[-1]:
        names.pop()
    if ".." in names:
        raise Denied(f"Path {shown(text)} would escape {ROOT} directory")
    for name in names:
        if reason := fault(name):
            raise _unusable(text, reason)
    return MemoryPath(tuple(names))


def shown(text: str) -> str:
    """A path as it may stand in an answer: nothing in it is hidden, and it is one line."""
    escaped = (char if char.isprintable() else repr(char)[1:-1] for char in visible(text))
    return cut("".join(escaped), SHOWN_CHARS)


def fault(name: str) -> str:
    """Why a name cannot be used; empty for one that can."""
    if name in ("", ".", ".."):
        return "it has an empty or a dot segment"
    if any(unicodedata.category(char) in _UNSEEN for char in name) or _INVISIBLE.search(name):
        return "it has control or invisible characters"
    if len(name.encode()) > NAME_BYTES_MAX:
        return f"a name in it has more than {NAME_BYTES_MAX} bytes"
    return _ambiguity(name)


def _ambiguity(name: str) -> str:
    """Why a name means different things in different places; empty if it does not."""
    if unicodedata.normalize("NFKC", name) != name or not _SLASHES.isdisjoint(name):
        return "it has characters that look like others; write them plainly (NFKC)"
    if not _WINDOWS_CHARS.isdisjoint(name) or _WINDOWS_NAMES.fullmatch(name):
        return "a name in it means something else on Windows"
    if name != name.strip() or name.endswith("."):
        return "a name in it begins or ends with a space, or ends with a dot"
    if _ENCODED.search(name):
        return "it has encoded characters; write them plainly"
    return ""


def _unusable(text: str, reason: str) -> Invalid:
    return Invalid(f"Error: The path {shown(text)} cannot be used: {reason}")
