"""The answer to a shell that completes a command line: see `commands.shell`."""

from __future__ import annotations

from collections.abc import Sequence

from refold.display import visible
from refold.edges.commands import COMMANDS
from refold.edges.commands.candidates import in_shell
from refold.edges.commands.session import Session


def answer(words: Sequence[str]) -> list[str]:
    """A line for each candidate: the word, a tab, its meaning. Never raises."""
    try:
        with _session(words) as session:
            found = in_shell(words, session)
    except Exception:
        return []
    spaces = str.maketrans("\n\t", "  ")
    return [f"{visible(one.text)}\t{visible(one.help).translate(spaces)}" for one in found]


def _session(words: Sequence[str]) -> Session:
    """A session with the store and the conversation named so far."""
    rest = list(words[:-1])
    url = None
    if "--store" in rest[:-1]:
        at = rest.index("--store")
        url = rest[at + 1]
        del rest[at : at + 2]
    plain = [word for word in rest if not word.startswith("-")]
    size = 2 if " ".join(plain[:2]) in COMMANDS and len(plain) > 1 else 1
    name = plain[size] if len(plain) > size else None
    return Session(store_url=url, conversation=name, read_only=True)
