"""What a summary notes about itself for the summaries after it: the keys of `Summarize.notes`.

A slot on the page carries the notes of the summary it shows, so a later strategy reads them there
and not in the log. Every key is named here and read by one function, which takes the notes of an
edit or of a slot; a slot without a summary has none. Neighbours: `strategies.summarize`,
`strategies.gist` and `ledger.uses` write notes, `compaction` and `engine.refresh` read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Notes = Mapping[str, Any] | None

GIST = "gist"  # set if the summary is a gist
NOW = "now"  # of a gist: how many messages it had seen
NAMES = "names"  # of a gist: how its names were used so far
STARVED = "starved"  # of a gist: set if it had too little room
SUMMARY = "summary"  # set if the summary was asked for by `summarize`
MESSAGES = "messages"  # how many messages the summary stands for
TOOLS = "tools"  # how often each tool was called in them
USES = "uses"  # the notable calls of each tool
FRESH_CHARS = "fresh_chars"  # how much of the text is files in front of everything else


def is_gist(notes: Notes) -> bool:
    """Whether these are the notes of a gist."""
    return GIST in (notes or {})


def now_of(notes: Notes) -> int:
    """How many messages a gist had seen; 0 if it is not a gist."""
    now: int = (notes or {}).get(NOW, 0)
    return now


def names_of(notes: Notes) -> dict[str, list[int]]:
    """How the names that a gist kept were used so far: the row of each name."""
    names: dict[str, list[int]] = (notes or {}).get(NAMES, {})
    return names


def is_starved(notes: Notes) -> bool:
    """Whether a gist had too little room, and should be made again as soon as possible."""
    return bool((notes or {}).get(STARVED))


def is_summary(notes: Notes) -> bool:
    """Whether these are the notes of a summary that `summarize` asked for."""
    return SUMMARY in (notes or {})


def messages_of(notes: Notes) -> int | None:
    """How many messages a summary stands for; None if it did not count them."""
    return (notes or {}).get(MESSAGES)


def tools_of(notes: Notes) -> dict[str, int]:
    """How often each tool was called in the messages of a summary."""
    tools: dict[str, int] = (notes or {}).get(TOOLS, {})
    return tools


def uses_of(notes: Notes) -> dict[str, list[str]]:
    """The notable calls of each tool in the messages of a summary."""
    uses: dict[str, list[str]] = (notes or {}).get(USES, {})
    return uses


def fresh_chars_of(notes: Notes) -> int:
    """How many leading characters of a summary's text are files that were read again."""
    fresh: int = (notes or {}).get(FRESH_CHARS, 0)
    return fresh
