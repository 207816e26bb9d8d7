"""Answers a shell that completes a command line: see `commands.completion`."""

from __future__ import annotations

from collections.abc import Sequence

from refold.display import visible
from refold.edges.commands.candidates import Candidate, in_shell
from refold.edges.commands.session import Session


def answer(words: Sequence[str]) -> list[str]:
    """A line for each candidate: the word, a tab, what it means. Never an error."""
    try:
        with _session(words) as session:
            return [_line(one) for one in in_shell(words, session)]
    except Exception:
        return []


def _session(words: Sequence[str]) -> Session:
    """The store and the conversation that the words name so far."""
    rest = list(words[:-1])
    url = None
    if "--store" in rest[:-1]:
        at = rest.index("--store")
        url = rest[at + 1]
        del rest[at : at + 2]
    plain = [word for word in rest if not word.startswith("-")]
    from refold.edges.commands import COMMANDS

    size = 2 if " ".join(plain[:2]) in COMMANDS and len(plain) > 1 else 1
    name = plain[size] if len(plain) > size else None
    return Session(store_url=url, conversation=name, read_only=True)


def _line(one: Candidate) -> str:
    text, help = visible(one.text), visible(one.help).replace("\n", " ").replace("\t", " ")
    return f"{text}\t{help}"
