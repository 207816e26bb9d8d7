"""The files of a project: those changed or seen in earlier conversations, and those that a request
is about.

An entry per conversation names the files that it changed and those that its tools named, the most
frequent first. A path may be written in many ways; it counts under the shortest. Paths come from
tools, so only strings that can be nothing but a path are kept. Neighbours:
`engine.conversation_memory` stores and shows entries, `ledger` knows which files were changed.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from math import sqrt
from typing import NamedTuple

from refold.core.model import Message, Text
from refold.core.shortened import text_of
from refold.memory.claim import stem
from refold.search.words import STOP

TAG = "files"
HEAD, SEEN = "Changed files: ", "\nSeen files: "
CHANGED_MAX, SEEN_MAX = 60, 150
TEXT_CHARS = 60_000  # of one message, to find paths in
CHANGED = ("modified", "created")  # states of a file in the ledger
# The weights of the ranking; results are flat around these values.
RANK_HALVES, FILE_NAME_WORTH, TIMES_MAX = 40, 0.3, 3

_PATH = re.compile(r"(?<![\w:/.@-])(?:\.?/)?(?:[\w@.-]{1,60}/){1,9}[\w@.-]{1,60}\.[A-Za-z]{1,5}\b")
_PLAIN = re.compile(r"(?!/?(?:tmp|dev|var|proc|usr)/|.*(?:node_modules|/\.|\.\.))[\w@~+./-]{1,160}")
_PARTS = re.compile(r"\w{3,}")
_NAME_PARTS = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{3,}")


class FileNames(NamedTuple):
    """The files that a conversation changed, and others that its tools named, by frequency."""

    changed: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()

    def with_earlier(self, other: FileNames) -> FileNames:
        changed = tuple(dict.fromkeys(self.changed + other.changed))[:CHANGED_MAX]
        seen = dict.fromkeys(self.seen + other.seen)
        return FileNames(changed, tuple(one for one in seen if one not in changed)[:SEEN_MAX])

    def content(self) -> str:
        """The words of the entry."""
        return HEAD + ", ".join(self.changed) + (SEEN + ", ".join(self.seen) if self.seen else "")


def names_in(content: str) -> FileNames:
    """The names in the words of an entry."""
    changed, _, seen = content.removeprefix(HEAD).partition(SEEN)
    return FileNames(_split(changed), _split(seen))


def _split(names: str) -> tuple[str, ...]:
    return tuple(name for name in names.split(", ") if name)


def names_of(changed: Iterable[str], messages: Iterable[Message]) -> FileNames:
    """The changed files in the ledger, and the files in calls and results."""
    seen: Tally[str] = Tally()
    for message in messages:
        if message.role != "user":
            blocks = (one for one in message.blocks if not isinstance(one, Text))
            text = "\n".join(map(text_of, blocks))[:TEXT_CHARS]
            seen.update(list(dict.fromkeys(_PATH.findall(text))))
    common = (name for name, _ in seen.most_common(2 * SEEN_MAX))
    kept = (tuple(filter(_PLAIN.fullmatch, names)) for names in (changed, common))
    return FileNames(*kept).with_earlier(FileNames())


def best(named: Sequence[FileNames], request: str, most: int) -> list[str]:
    """The files that a request is about: by the words that it shares with a path, above all rare
    ones, by changes, and by mentions."""
    short = _shortest({name for one in named for name in (*one.changed, *one.seen)})
    changed: Tally[str] = Tally()
    worth: dict[str, float] = {}
    for one in named:
        changed.update(list(dict.fromkeys(short[name] for name in one.changed)))
        for place, name in enumerate(one.seen):
            held = short[name]
            worth[held] = max(worth.get(held, 0.0), 1 / (1 + place / RANK_HALVES))
    for name, times in changed.items():
        worth[name] = worth.get(name, 0.0) + min(TIMES_MAX, times)
    words = {name: _words(name) for name in worth}
    holders = Tally(word for held in words.values() for word in held)
    asked = _words(request)
    for name, parts in words.items():
        fit = sum(1 / sqrt(holders[word]) for word in sorted(parts & asked)) / sqrt(
            max(1, len(parts))
        )
        own = _words(name.rpartition("/")[2].partition(".")[0])
        worth[name] += fit + FILE_NAME_WORTH * len(own & asked) / max(1, len(own))
    return sorted(worth, key=worth.__getitem__, reverse=True)[:most]


def _shortest(paths: set[str]) -> dict[str, str]:
    """Each path with the shortest other path that it ends in: `/home/ann/shop/src/a.py` and
    `b/src/a.py` are `src/a.py`."""
    known = {path.removeprefix("./") for path in paths}

    def shortest(path: str) -> str:
        parts = path.split("/")
        ends = ("/".join(parts[at:]) for at in range(len(parts) - 2, 0, -1))
        return next((end for end in ends if end in known), path)

    return {path: shortest(path.removeprefix("./")) for path in paths}


def _words(text: str) -> set[str]:
    """The words in a path or a request, whole and the parts of names, without endings."""
    parts = _PARTS.findall(text) + _NAME_PARTS.findall(text)
    return {stem(part.casefold()) for part in parts} - STOP
