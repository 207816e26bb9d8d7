"""Text that stands on the page twice is shown once: the newest stays, older ones become a short
notice.

File text comes from every source (read tools, shell commands, tags in results and mentions) and is
one sequence per file. A later text replaces an earlier one only if it covers the same lines,
nothing of it would be lost, and it is itself still visible. Equal large results of any tool are
treated the same way. The task itself is never edited. Neighbours: `copies` finds the texts,
`newer_text` says whether one can stand for another.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from refold.core.model import Edit, Hide, Replace, shows_memories
from refold.core.plan import Ask
from refold.ledger.results import payload
from refold.ledger.shell_reads import END
from refold.strategies.brief import Brief, opening, protected
from refold.strategies.copies import NOTICE_START, Copies, Copy
from refold.strategies.newer_text import FileText, file_text, stands_for

NOTICE_MAX = 200
PATH_MAX = NOTICE_MAX - 90  # of a path in a notice
PATH_HEAD = PATH_MAX // 3
PATH_TAIL = PATH_MAX - PATH_HEAD - 1
SAME_CHARS = 400  # from this size on, equal results of any tool are shown once
LATER_KEPT = 64  # how many later texts of one file are known while earlier ones are judged
COMPARED_MAX = 8  # how many of them are read to judge one

Part = tuple[int, int, str]  # where a copy starts and ends in its block, and its notice


def dedup(brief: Brief) -> list[Edit | Ask]:
    """Replaces every text that a later one on the page makes unneeded."""
    size = brief.setting("same_chars", SAME_CHARS)
    view = brief.view
    seen = (view.chain, view.head, len(view.slots), view.tokens, size)
    if brief.scratch.get("dedup") == seen:
        return []  # this very page was looked through before, and nothing stood on it twice
    found = _edits(brief, size)
    if not found:
        brief.scratch["dedup"] = seen
    return found


def _edits(brief: Brief, size: int) -> list[Edit | Ask]:
    """One edit per block, with a notice in the place of every copy that goes."""
    task = {slot.seq for slot in brief.slots[: opening(brief.view)]}
    copies = Copies(brief.slots, brief.config, protected(brief.view) | task)
    gone: dict[tuple[int, int], list[Part]] = {}
    for copy, notice in _unneeded(copies, size):
        gone.setdefault((copy.seq, copy.block), []).append((copy.start, copy.end, notice))
    return [
        *_memories(brief),
        *(
            Replace(
                batch=brief.batch,
                seq=seq,
                block=block,
                text=_exchange(copies.texts[seq, block], parts),
                reason="a later copy is on the page",
            )
            for (seq, block), parts in sorted(gone.items())
        ),
    ]


def _memories(brief: Brief) -> list[Hide]:
    """Memories that were shown for an earlier request leave whole: they are in the memory still,
    and are shown again when they are needed."""
    shown = [slot for slot in brief.slots if shows_memories(slot.message) and not slot.edits]
    return [
        Hide(batch=brief.batch, span=slot.span, reason="memories of an earlier request")
        for slot in shown
        if slot.seq < brief.view.request and slot.seq not in brief.view.pins
    ]


def _exchange(text: str, parts: list[Part]) -> str:
    """The text with just these parts exchanged."""
    out: list[str] = []
    at = 0
    for start, end, notice in sorted(parts):
        out += [text[at:start], notice]
        at = end
    out.append(text[at:])
    return "".join(out)


# --- choosing ---


def _unneeded(copies: Copies, size: int) -> Iterator[tuple[Copy, str]]:
    """Every copy that goes, with its notice; newest first, so that what stays is known when
    older ones are judged."""
    kept = _Kept(copies)
    for copy in reversed(copies.found()):
        text = copies.text(copy)
        output = payload(text) if len(text) >= size else ""
        notice = kept.notice(copy, output) if copy.movable else ""
        if notice and len(notice) < len(text):
            yield copy, notice
        else:
            kept.add(copy, output)


class _Kept(Struct):
    """The copies that stay, by file and by their text."""

    copies: Copies
    later: dict[str, list[Copy]] = {}
    same: dict[tuple[str, str], Copy] = {}
    shown: dict[Copy, FileText] = {}

    def add(self, copy: Copy, output: str) -> None:
        """This copy stays on the page."""
        if copy.path and not copy.cut:
            self._add_later(copy)
        if output:
            # The text of one file never stands for another's, only for output of no file.
            self.same.setdefault((copy.path, output), copy)
            self.same.setdefault(("", output), copy)

    def _add_later(self, copy: Copy) -> None:
        """Earlier texts of the file are compared with this one, unless there are many already."""
        later = self.later.setdefault(copy.path, [])
        if len(later) < LATER_KEPT:
            later.append(copy)

    def notice(self, copy: Copy, output: str) -> str:
        """The notice for an older copy; nothing if it is needed."""
        later = self._later_text(copy)
        if later:
            return _file_notice(copy.path, later.seq)
        same = self.same.get((copy.path, output))
        return f"{NOTICE_START}the same output came in full at #{same.seq}]" if same else ""

    def _later_text(self, copy: Copy) -> Copy | None:
        """A later text of the same file that shows what this one shows."""
        covering = [other for other in self.later.get(copy.path, ()) if _covers(other, copy)]
        for other in covering[:COMPARED_MAX]:
            if self._stands_for(other, copy):
                return other
        return None

    def _stands_for(self, other: Copy, copy: Copy) -> bool:
        """Whether a later text loses nothing of this one. After a change, the same line numbers
        need not be the same lines; a call that writes the whole file has its text in it."""
        changed = self.copies.changed_between(copy, other)
        if changed.count and not other.whole:
            return False
        if other.written:
            return True
        same_lines = (other.first, other.last) == (copy.first, copy.last)
        return stands_for(self._shown(other), self._shown(copy), changed, same_lines)

    def _shown(self, copy: Copy) -> FileText:
        if copy not in self.shown:
            self.shown[copy] = file_text(self.copies.text(copy), copy.cut)
        return self.shown[copy]


def _file_notice(path: str, seq: int) -> str:
    """Says where the latest text came, not that it is still there: that one may leave, too."""
    latest = f"the latest text of {_short_path(path)} came at #{seq}"
    return f"{NOTICE_START}{latest} and is authoritative]"


def _short_path(path: str) -> str:
    """A path without its middle if it is too long for a notice."""
    if len(path) <= PATH_MAX:
        return path
    return path[:PATH_HEAD] + "…" + path[-PATH_TAIL:]


def _covers(later: Copy, earlier: Copy) -> bool:
    """Whether a later text of the file was to show all lines of an earlier one. Lines that are
    counted from the end have negative numbers."""
    if later.whole:
        return True
    if later.first < 0 or earlier.first < 0:
        return later.first <= earlier.first < 0
    return later.first <= earlier.first and _reaches(later.last, earlier.last)


def _reaches(last: int, wanted: int) -> bool:
    """Whether a text that ends at one line shows another; either may be the end of the file."""
    if last == END or wanted == END:
        return last == END
    return wanted <= last
