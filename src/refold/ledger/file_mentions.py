"""File text inside other text: `<file_content path="…">` mentions, `<final_file_content …>` after
an edit, and the `[read_file for 'path'] Result:` headers of agents that speak in plain text.

Everything is found literally. A tag that is not closed, or that holds another one, is left alone:
it never takes the text after it along. Neighbours: `actions` reads the headers, `dedup` the tags.
"""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

from refold.ledger.paths import PATH_MAX, is_path

TAGS = ("final_file_content", "file_content")
TAGS_MAX = 10_000
HEADER_MAX = 5_000

_HEADER_END = "] Result:"


class Excerpt(NamedTuple):
    """The text of one file between its tags: characters `start` to `end` (exclusive) of the
    block's text."""

    path: str
    start: int
    end: int


class Header(NamedTuple):
    """`[tool for 'subject'] Result:` at the beginning of a text, and where it ends."""

    tool: str
    subject: str
    end: int


def excerpts(text: str) -> list[Excerpt]:
    """Every file text between tags, in order."""
    if "file_content path=" not in text:
        return []
    found = [excerpt for tag in TAGS for excerpt in _tagged(text, tag)]
    return _without_nested(sorted(found, key=attrgetter("start")))


def _tagged(text: str, tag: str) -> list[Excerpt]:
    """Tags of one name, paired like brackets; what was never closed pairs with nothing."""
    waiting: list[tuple[str, int]] = []
    found: list[Excerpt] = []
    opening, closing = f"<{tag} path=", f"</{tag}>"
    at, close = text.find(opening), text.find(closing)
    for _ in range(TAGS_MAX):
        if close < 0:
            break
        if 0 <= at < close:
            path, start = _opening_tag(text, at + len(opening))
            if start:
                waiting.append((path, start))
            at = text.find(opening, at + len(opening))
        else:
            if waiting:
                path, start = waiting.pop()
                found.append(Excerpt(path, start, close))
            close = text.find(closing, close + len(closing))
    return found


def _opening_tag(text: str, at: int) -> tuple[str, int]:
    """The path of an opening tag, in quotes of either kind, and where its content starts; 0 if
    this is not a tag."""
    quote = text[at : at + 1]
    if quote not in ("'", '"'):
        return "", 0
    path, mark, _ = text[at + 1 : at + PATH_MAX + 3].partition(f"{quote}>")
    if not mark or not is_path(path):
        return "", 0
    return path, at + 1 + len(path) + len(mark)


def _without_nested(found: list[Excerpt]) -> list[Excerpt]:
    """Without those that hold one another: it is not clear which of them is the file."""
    out: list[Excerpt] = []
    reach, is_nested = -1, False
    for excerpt in found:
        if excerpt.start < reach:
            is_nested = True
        elif is_nested:
            out.pop()
            is_nested = False
        if not is_nested:
            out.append(excerpt)
        reach = max(reach, excerpt.end)
    return out[:-1] if is_nested else out


def header(text: str) -> Header | None:
    """The header of a result given as text, with quotes of either kind."""
    if not text.startswith("["):
        return None
    line = text[:HEADER_MAX].partition("\n")[0]
    tool, mark, rest = line[1:].partition(" for ")
    quote = rest[:1]
    subject, end, _ = rest[1:].partition(quote + _HEADER_END)
    if not tool or " " in tool or not mark or quote not in ("'", '"') or not end:
        return None
    return Header(tool, subject, 1 + len(tool) + len(mark) + 1 + len(subject) + len(end))


def content_start(text: str, found: Header | None) -> int:
    """Where the content of a result starts: on the line after its header."""
    if found is None:
        return 0
    return found.end + 1 if text.startswith("\n", found.end) else found.end
