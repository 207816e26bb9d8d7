"""Two promises, shown rather than told: a compaction can be undone, and what was moved out comes back whole.

Both compare hashes that are taken in the run, from the page that would be sent and from the bytes that the tool gave.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
from msgspec import Struct

from refold.edges.demo.billing import unmarked
from refold.edges.demo.report import Told
from refold.engine import Context


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
    """The hash of what a tool gave, and of what unfolding its handle gives."""

    handle: str
    size_bytes: int
    given: str
    unfolded: str

    @property
    def holds(self) -> bool:
        return self.given == self.unfolded


def undo(context: Context, folder: Path) -> Undone:
    """Compacts once more, undoes it, and hashes the page each time."""
    before = page_hash(context, folder)
    receipt = context.compact()
    compacted = page_hash(context, folder)
    context.undo()
    return Undone(
        before=before,
        compacted=compacted,
        after=page_hash(context, folder),
        tokens_before=receipt.tokens_before,
        tokens_compacted=receipt.tokens_after,
    )


def page_hash(context: Context, folder: Path) -> str:
    """The sha256 of the request. The demo's folder is named anew on every run, so its name is left out."""
    page = msgspec.json.encode(unmarked(context.request())).decode()
    return hashlib.sha256(page.replace(folder.name, "").encode()).hexdigest()


def unfold(context: Context, handle: str, text: str) -> Returned:
    """Unfolds a large output and compares it with what the tool gave."""
    whole = text.encode()
    return Returned(
        handle=handle,
        size_bytes=len(whole),
        given=hashlib.sha256(whole).hexdigest(),
        unfolded=hashlib.sha256(context.unfold(handle).content).hexdigest(),
    )


# --- in words -----------------------------------------------------------------------------------------------------


def told_undo(undone: Undone) -> Told:
    """The proof for people."""
    verdict = "equal" if undone.holds else "different"
    rows = [
        ("page", undone.before, f"{undone.tokens_before:,} tokens"),
        ("compacted", undone.compacted, f"{undone.tokens_compacted:,} tokens"),
        ("undone", undone.after, verdict),
    ]
    title = "undo: the page comes back as it was" if undone.holds else "undo: the page did not come back"
    return _told(title, rows, holds=undone.holds)


def told_unfold(returned: Returned) -> Told:
    """The proof for people."""
    verdict = "equal" if returned.holds else "different"
    rows = [
        ("the tool gave", returned.given, f"{returned.size_bytes:,} bytes"),
        (returned.handle, returned.unfolded, verdict),
    ]
    title = "unfold: the large output comes back whole" if returned.holds else "unfold: bytes are missing"
    return _told(title, rows, holds=returned.holds)


def _told(title: str, rows: list[tuple[str, str, str]], *, holds: bool) -> Told:
    lines = [f"{name:<16}  sha256 {digest[:16]}  {what}" for name, digest, what in rows]
    return Told("right" if holds else "wrong", [title, *lines])
