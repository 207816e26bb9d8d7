"""What can stand where the cursor is: slash commands with what they take, handles, conversations,
paths.

Commands are completed as in a shell (`edges.commands.candidates`). All of it is asked when a
person wants it, in a thread of its own: a key never waits for the log or the disk. Whatever goes
wrong gives no word. Neighbour: `prompt` offers the words.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Mapping
from itertools import islice
from pathlib import Path

from msgspec import Struct

from refold.edges.chat.mentions import in_quotes, mention
from refold.edges.commands.candidates import in_chat
from refold.edges.commands.parameters import Taking
from refold.edges.commands.session import Session
from refold.edges.workspace.ignored import NEVER
from refold.errors import RefoldError

ENTRIES_MAX = 500
# The last word; a space after a backslash is part of it, or one between quotes that are still open.
_LAST = re.compile(r'(?<![\w@])@"[^"\n]*\Z|(?:\\ |[^ ])*\Z')


class Names(Struct, frozen=True):
    """What a line can name: the folder's files but for those of the store, what the session
    knows, and commands that only the chat has."""

    root: Path
    session: Session | None = None
    own: Mapping[str, Taking] = {}
    guards: Container[str] = ()


def last_word(text: str) -> str:
    """The word that is being typed."""
    found = _LAST.search(text)
    return found[0] if found else ""


def words_for(text: str, names: Names) -> list[str]:
    """The words that the last, unfinished word of a text could become."""
    last = last_word(text)
    if text.startswith("/"):
        found = _command_words(text, last, names)
    elif last.startswith('@"'):
        found = [in_quotes(path) for path in paths(last[2:], names.root, names.guards)]
    elif last.startswith("@"):
        name = last[1:].replace("\\ ", " ")
        found = [mention(path) for path in paths(name, names.root, names.guards)]
    else:
        found = []
    return sorted({word for word in found if word.startswith(last) and word != last})


def _command_words(text: str, last: str, names: Names) -> Iterable[str]:
    candidates = [one.text for one in in_chat(text, names.session, also=names.own)]
    if " " not in text:
        return [f"/{name}" for name in candidates]
    try:
        return _handles(names.session) if last.startswith("#") else candidates
    except (RefoldError, OSError):
        return candidates


def _handles(session: Session | None) -> list[str]:
    """The newest messages on the page."""
    if session is None:
        return []
    with session.context() as context:
        return [f"#{slot.seq}" for slot in context.view.slots[-ENTRIES_MAX:]]


def paths(text: str, root: Path, without: Container[str] = ()) -> list[str]:
    """The files and folders of the folder that begin with a text; folders end with a slash."""
    folder, _, name = text.rpartition("/")
    if os.path.isabs(text) or ".." in folder.split("/"):
        return []
    prefix = f"{folder}/" if folder else ""
    try:
        with os.scandir(root / folder) as found:
            entries = list(islice((one for one in found if one.name.startswith(name)), ENTRIES_MAX))
    except (OSError, ValueError):
        return []
    shown = [one for one in entries if one.name not in NEVER and one.path not in without]
    return [f"{prefix}{one.name}{'/' if one.is_dir() else ''}" for one in shown]
