"""Text that stands on the page twice is shown once: the newest stays, older ones become a short
notice.

File text comes from every source (read tools, shell commands, tags in results and mentions) and is
one sequence per file. A later text replaces an earlier one only if it shows at least the same lines
and is itself still visible. Failed reads and edits without the file's text replace nothing. Equal
large results of any tool are treated the same way. Neighbour: `copies` finds the texts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from refold.core.model import Edit, Replace
from refold.core.plan import Ask
from refold.ledger.outcomes import payload
from refold.ledger.shell_reads import END
from refold.strategies.brief import Brief, protected
from refold.strategies.copies import NOTICE_START, Copies, Copy

NOTICE_MAX = 200
SAME_CHARS = 400  # from this size on, equal results of any tool are shown once
LATER_KEPT = 64  # how many later texts of one file an earlier one is compared with


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
    copies = Copies(brief.view.slots, brief.config, protected(brief.view))
    gone: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    for copy, notice in _unneeded(copies, size):
        gone.setdefault((copy.seq, copy.block), []).append((copy.start, copy.end, notice))
    return [
        Replace(
            batch=brief.batch,
            seq=seq,
            block=block,
            text=_exchange(copies.texts[seq, block], parts),
            reason="a later copy is on the page",
        )
        for (seq, block), parts in sorted(gone.items())
    ]


def _exchange(text: str, parts: list[tuple[int, int, str]]) -> str:
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
    later: dict[str, list[Copy]] = {}
    same: dict[tuple[str, str], Copy] = {}
    for copy in reversed(copies.found()):
        text = copies.text(copy)
        output = payload(text) if len(text) >= size else ""
        notice = _file_notice(copy, later, copies.changes)
        shown = same.get((copy.path, output))
        if shown and not notice:
            notice = f"{NOTICE_START}the same output is shown in full at #{shown.seq}]"
        if copy.movable and notice and len(notice) < len(text):
            yield copy, notice
            continue
        kept = later.setdefault(copy.path, [])
        if copy.path and not copy.cut and len(kept) < LATER_KEPT:
            kept.append(copy)
        if output:
            # The text of one file never stands for another's, only for output of no file.
            same.setdefault((copy.path, output), copy)
            same.setdefault(("", output), copy)


def _file_notice(
    copy: Copy, later: Mapping[str, Sequence[Copy]], changes: Mapping[str, Sequence[int]]
) -> str:
    """The notice if a later text of the same file shows what this one shows; else nothing."""
    if not copy.path:
        return ""
    for other in later.get(copy.path, ()):
        if not _shows_all(other, copy):
            continue
        # An edit moves lines: after one, the same line numbers need not show the same lines.
        if other.whole or not _is_changed(changes.get(copy.path, ()), copy.seq, other.seq):
            name = _short_path(copy.path)
            text = f"the latest text of {name} is at #{other.seq} and is authoritative"
            return f"{NOTICE_START}{text}]"
    return ""


def _is_changed(changes: Sequence[int], after: int, before: int) -> bool:
    """Whether the file was changed between two places of the log."""
    at = bisect_left(changes, after)
    return at < len(changes) and changes[at] < before


def _short_path(path: str) -> str:
    """A path without its middle if it is too long for a notice."""
    room = NOTICE_MAX - 90
    if len(path) <= room:
        return path
    head = room // 3
    tail = room - head - 1
    return path[:head] + "…" + path[-tail:]


def _shows_all(later: Copy, earlier: Copy) -> bool:
    """Whether a later text of the file shows all lines of an earlier one. Lines that are counted
    from the end have negative numbers."""
    if later.whole:
        return True
    if later.first < 0 or earlier.first < 0:
        return later.first <= earlier.first < 0
    if later.first > earlier.first:
        return False
    return later.last == END or (earlier.last != END and earlier.last <= later.last)
