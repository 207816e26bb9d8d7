"""Three promises, demonstrated: a compaction can be undone, an offloaded output is returned
unchanged, and a line that left the page is found by a few of its words.

The first two compare hashes taken in the run; the third searches for a line that is not on the
page. The page itself is shown first, as far as it fits on a screen.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from refold.core.model import View
from refold.core.shortened import text_of
from refold.display import cut
from refold.edges.commands.command import number
from refold.edges.demo.report import Note
from refold.edges.demo.sides import unmarked
from refold.engine.context import Context

QUERY_WORDS, HITS, LINE_CHARS = 3, 5, 70
SLOTS_SHOWN, SUMMARY_LINES = 6, 8
_NAME = re.compile(r"[A-Za-z_]{5,}")
_DEFINES = re.compile(r"\bdef \w{8,}")


class Undone(Struct, frozen=True, kw_only=True):
    """The page's hash before a compaction, with it, and after `undo`."""

    before: str
    compacted: str
    after: str
    tokens_before: int
    tokens_compacted: int

    @property
    def holds(self) -> bool:
        return self.before == self.after != self.compacted


class Returned(Struct, frozen=True, kw_only=True):
    """The hashes of a tool's output, and of the content behind its handle."""

    handle: str
    size_bytes: int
    given: str
    unfolded: str

    @property
    def holds(self) -> bool:
        return self.given == self.unfolded


class Searched(Struct, frozen=True, kw_only=True):
    """A line that is not on the page, the words of the search, and the seq of the hit."""

    line: str
    seq: int
    query: str
    found: int = 0

    @property
    def holds(self) -> bool:
        return self.found > 0


def undo(context: Context, folder: Path) -> Undone:
    """Compacts once more, undoes it, and hashes the page each time. Right after an automatic
    compaction the usual target frees nothing more; then the target is half of the page."""
    before = page_hash(context, folder)
    receipt = context.compact()
    if not receipt.batch:
        receipt = context.compact(target=context.stats().current // 2)
    compacted = page_hash(context, folder)
    context.undo(receipt.batch)
    return Undone(
        before=before,
        compacted=compacted,
        after=page_hash(context, folder),
        tokens_before=receipt.tokens_before,
        tokens_compacted=receipt.tokens_after,
    )


def page_hash(context: Context, folder: Path) -> str:
    """The sha256 of the request. The demo's folder has a new name on every run, so the name is
    left out, also where a line was cut in its middle."""
    page = msgspec.json.encode(unmarked(context.request())).decode()
    stem = folder.name.rpartition("-")[0] + "-"
    return hashlib.sha256(re.sub(re.escape(stem) + r"\w*", "", page).encode()).hexdigest()


def unfold(context: Context, handle: str, text: str) -> Returned:
    """Unfolds a large output and compares it with the tool's own."""
    whole = text.encode()
    return Returned(
        handle=handle,
        size_bytes=len(whole),
        given=hashlib.sha256(whole).hexdigest(),
        unfolded=hashlib.sha256(context.unfold(handle).content).hexdigest(),
    )


def search(context: Context, seen: Mapping[int, str]) -> Searched:
    """Searches for the earliest distinctive line that is not on the page, by its longest words."""
    page = msgspec.json.encode(context.request()).decode()
    seq, line = next(_lines_off(page, seen))
    names = dict.fromkeys(_NAME.findall(line))
    query = " ".join(sorted(names, key=len, reverse=True)[:QUERY_WORDS])
    hits = context.search(query, limit=HITS)
    found = next((hit.seq for hit in hits if line in seen.get(hit.seq, "")), 0)
    return Searched(line=line, seq=seq, query=query, found=found)


def _lines_off(page: str, seen: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    """The distinctive lines that are not on the page, each with its seq."""
    for seq, text in seen.items():
        for line in map(str.strip, text.split("\n")):
            if _is_distinctive(line) and _is_off(line, page):
                yield seq, line


def _is_distinctive(line: str) -> bool:
    """Whether a line defines something, and has enough words."""
    return _DEFINES.search(line) is not None and len(_NAME.findall(line)) > QUERY_WORDS


def _is_off(line: str, page: str) -> bool:
    """Whether the line, escaped as in the page's JSON, is missing from the page."""
    return msgspec.json.encode(line).decode()[1:-1] not in page


# --- in words ---


def page_note(view: View) -> Note:
    """The final page: each slot in a line, and the beginning of a summary."""
    lines = [f"the page: {number(len(view.slots), 'slot')}, {view.tokens:,} tokens by our count"]
    for slot in view.slots[:SLOTS_SHOWN]:
        text = "\n".join(map(text_of, slot.message.blocks)).strip()
        shown = text.split("\n")[: SUMMARY_LINES if slot.standin else 1]
        lines.append(f"{slot.span} {slot.message.role}, {slot.tokens:,} tokens")
        lines += [f"    {cut(line, LINE_CHARS)}" for line in shown]
    rest = len(view.slots) - SLOTS_SHOWN
    return Note("fold", lines if rest <= 0 else [*lines, f"and {rest} more, as they came"])


def undo_note(undone: Undone) -> Note:
    title = "undo: the page comes back as it was"
    rows = [
        ("page", undone.before, f"{undone.tokens_before:,} tokens"),
        ("compacted", undone.compacted, f"{undone.tokens_compacted:,} tokens"),
        ("undone", undone.after, "equal"),
    ]
    if not undone.holds:
        title = "undo: the page did not come back"
        rows[-1] = ("undone", undone.after, "different")
    return _hash_note(title, rows, holds=undone.holds)


def unfold_note(returned: Returned) -> Note:
    title, verdict = "unfold: the large output comes back whole", "equal"
    if not returned.holds:
        title, verdict = "unfold: bytes are missing", "different"
    rows = [
        ("the tool gave", returned.given, f"{returned.size_bytes:,} bytes"),
        (returned.handle, returned.unfolded, verdict),
    ]
    return _hash_note(title, rows, holds=returned.holds)


def search_note(searched: Searched) -> Note:
    title, kind = "search: a line that left the page is found", "right"
    if not searched.holds:
        title, kind = "search: the line was not found", "wrong"
    lines = [f"search {searched.query!r}", f"#{searched.found}  {searched.line[:LINE_CHARS]}"]
    return Note(kind, [title, *lines])


def _hash_note(title: str, rows: list[tuple[str, str, str]], *, holds: bool) -> Note:
    """Hashes in aligned rows, for comparison by eye."""
    lines = [title]
    for name, digest, what in rows:
        lines.append(f"{name:<16}  sha256 {digest[:16]}  {what}")
    return Note("right" if holds else "wrong", lines)
