"""Text that stands on the page twice is shown once: the newest stays, older ones become a short
notice.

File text comes from every source (read tools, shell commands, tags in results and mentions) and is
one sequence per file. A later text replaces an earlier one only if it shows at least the same lines
and is itself still visible. Failed reads and edits without the file's text replace nothing. Equal
large results of any tool are treated the same way. Neighbours: `actions` says what was read,
`excerpts` finds file text inside other text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from msgspec import Struct

from refold.config import Config
from refold.core.fold import GAP, text_of
from refold.core.model import Block, Edit, Media, Opaque, Replace, Slot, Text, ToolResult
from refold.core.plan import Ask
from refold.ledger.actions import Action, actions_of, spellings_of
from refold.ledger.file_mentions import excerpts
from refold.ledger.kinds import CHANGES
from refold.ledger.outcomes import failed
from refold.ledger.results import is_cut, payload, shown_lines
from refold.ledger.shell_reads import END
from refold.strategies.brief import Brief, protected

NOTICE_MAX = 200
NOTICE_START = "[this earlier copy was removed: "
SAME_CHARS = 400  # from this size on, equal results of any tool are shown once
LATER_KEPT = 64  # how many later texts of one file an earlier one is compared with
READ_LINES_MAX = 2_000  # many read tools stop here without a word


class Copy(Struct, frozen=True):
    """One text that may be a copy: characters `start` to `end` of a block. Without a path it is
    any tool's result."""

    path: str
    seq: int
    block: int
    start: int
    end: int
    first: int = 1
    last: int = END
    movable: bool = True  # False: it may stand for others, but never goes itself
    cut: bool = False  # True: it may go, but does not stand for others

    @property
    def whole(self) -> bool:
        return self.first == 1 and self.last == END


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
    page = _Page(brief.view.slots, brief.config, protected(brief.view))
    gone: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    for copy, notice in _unneeded(page, size):
        gone.setdefault((copy.seq, copy.block), []).append((copy.start, copy.end, notice))
    return [
        Replace(
            batch=brief.batch,
            seq=seq,
            block=block,
            text=_exchanged(page.texts[seq, block], parts),
            reason="a later copy is on the page",
        )
        for (seq, block), parts in sorted(gone.items())
    ]


def _exchanged(text: str, parts: list[tuple[int, int, str]]) -> str:
    """The text with just these parts exchanged."""
    out, at = [], 0
    for start, end, notice in sorted(parts):
        out += [text[at:start], notice]
        at = end
    return "".join([*out, text[at:]])


# --- choosing ---


def _unneeded(page: _Page, size: int) -> Iterator[tuple[Copy, str]]:
    """Every copy that goes, with its notice; newest first, so that what stays is known when
    older ones are judged."""
    later: dict[str, list[Copy]] = {}
    same: dict[tuple[str, str], Copy] = {}
    for copy in reversed(page.copies()):
        text = page.text(copy)
        output = payload(text) if len(text) >= size else ""
        notice = _file_notice(copy, later, page.changes) or _same_notice(
            same.get((copy.path, output))
        )
        if copy.movable and notice and len(notice) < len(text):
            yield copy, notice
            continue
        kept = later.setdefault(copy.path, [])
        if copy.path and not copy.cut and len(kept) < LATER_KEPT:
            kept.append(copy)
        if output:
            # The text of one file never stands for another's, only for output that is nobody's.
            same.setdefault((copy.path, output), copy)
            same.setdefault(("", output), copy)


def _file_notice(copy: Copy, later: dict[str, list[Copy]], changes: dict[str, list[int]]) -> str:
    if not copy.path:
        return ""
    for other in later.get(copy.path, ()):
        # An edit moves lines: after one, the same line numbers need not show the same lines.
        if _covers(other, copy) and (
            other.whole or not _changed(changes.get(copy.path, []), copy.seq, other.seq)
        ):
            return f"{NOTICE_START}the latest text of {_short(copy.path)} is at #{other.seq} and is authoritative]"
    return ""


def _same_notice(found: Copy | None) -> str:
    return f"{NOTICE_START}the same output is shown in full at #{found.seq}]" if found else ""


def _changed(changes: list[int], after: int, before: int) -> bool:
    """Whether the file was changed between two places of the log."""
    at = bisect_left(changes, after)
    return at < len(changes) and changes[at] < before


def _short(path: str) -> str:
    room = NOTICE_MAX - 90
    return path if len(path) <= room else path[: room // 3] + "…" + path[-(room - room // 3 - 1) :]


def _covers(later: Copy, earlier: Copy) -> bool:
    """Whether a later text of the file shows all lines of an earlier one."""
    if later.whole:
        return True
    if later.first < 0 or earlier.first < 0:
        return later.first < 0 and earlier.first < 0 and later.first <= earlier.first
    reaches = later.last == END or (earlier.last != END and earlier.last <= later.last)
    return later.first <= earlier.first and reaches


# --- finding ---


class _Page:
    """The texts of a page that may be copies, in the order they stand."""

    def __init__(self, slots: Sequence[Slot], config: Config, untouchable: set[int]) -> None:
        self.slots, self.config, self.untouchable = slots, config, untouchable
        self.spellings = spellings_of(config)
        self.texts: dict[tuple[int, int], str] = {}
        self.reads: dict[tuple[int, int], Action] = {}
        self.kinds: dict[tuple[int, int], Action] = {}
        self.written: dict[int, list[Action]] = {}
        self.changes: dict[str, list[int]] = {}
        for action in actions_of(slots, config, self.spellings):
            self._note(action)

    def _note(self, action: Action) -> None:
        place = (action.result_seq, action.result_block)
        if action.result_seq:
            self.kinds.setdefault(place, action)
        if action.kind == "read" and action.alone and action.ok:
            self.reads[place] = action
        if action.kind in CHANGES and action.ok is not False:
            self.changes.setdefault(action.path, []).append(action.seq)
        if action.written and action.ok:
            self.written.setdefault(action.seq, []).append(action)

    def text(self, copy: Copy) -> str:
        return self.texts[copy.seq, copy.block][copy.start : copy.end] if copy.end else ""

    def copies(self) -> list[Copy]:
        return [copy for slot in self.slots if not slot.standin for copy in self._in_slot(slot)]

    def _in_slot(self, slot: Slot) -> Iterator[Copy]:
        edited = {applied.block for applied in slot.edits}
        for action in self.written.get(slot.seq, ()):
            yield Copy(action.path, slot.seq, action.block, 0, 0, movable=False)
        for index, block in enumerate(slot.message.blocks):
            if not isinstance(block, Text | ToolResult) or slot.message.role in (
                "assistant",
                "system",
            ):
                continue
            if isinstance(block, ToolResult) and not _is_text(block):
                continue
            self.texts[slot.seq, index] = text_of(block)
            yield from self._in_block(slot, index, block, index in edited)

    def _in_block(self, slot: Slot, index: int, block: Block, edited: bool) -> Iterator[Copy]:
        place = (slot.seq, index)
        text, action = self.texts[place], self.kinds.get(place)
        movable = slot.seq not in self.untouchable and not self._excluded(block, action)
        read = self.reads.get(place)
        if read is not None:
            if not edited and not text.startswith(NOTICE_START, read.start):
                yield _read_copy(read, text, movable)
            return
        tagged = (
            []
            if action and action.kind in ("run", "search")
            else self._tagged(place, text, movable)
        )
        yield from tagged
        if not tagged and isinstance(block, ToolResult) and not edited and text:
            yield Copy("", slot.seq, index, 0, len(text), movable=movable)

    def _tagged(self, place: tuple[int, int], text: str, movable: bool) -> list[Copy]:
        """File texts between tags; one that was cut or replaced before is no text of the file
        any more."""
        found = []
        for path, start, end in excerpts(text):
            body = text[start:end]
            if body.startswith(NOTICE_START) or f"\n{GAP} " in body or failed(body):
                continue
            found.append(
                Copy(
                    self.spellings.form(path), *place, start, end, movable=movable, cut=is_cut(body)
                )
            )
        return found

    def _excluded(self, block: Block, action: Action | None) -> bool:
        names = {action.tool if action else "", block.name if isinstance(block, ToolResult) else ""}
        return not names.isdisjoint(self.config.exclude_tools)


def _is_text(result: ToolResult) -> bool:
    """Whether a result is text and nothing else; a stub that stands for an artifact is not the
    text."""
    return not result.artifact and not any(
        isinstance(part, Media | Opaque) for part in result.content
    )


def _read_copy(read: Action, text: str, movable: bool) -> Copy:
    body = text[read.start :]
    shown = payload(body)
    first, last = _lines(read, shown)
    return Copy(
        read.path,
        read.result_seq,
        read.result_block,
        read.start,
        len(text),
        first=first,
        last=last,
        movable=movable,
        cut=is_cut(shown),
    )


def _lines(read: Action, shown: str) -> tuple[int, int]:
    """The lines a read really shows: their numbers where it has them, else what was asked for."""
    numbers = shown_lines(shown)
    if numbers is None:
        return read.first, read.last
    first, last = numbers
    if first != max(read.first, 1):
        return (first, last)
    reached_end = last - first + 1 != READ_LINES_MAX if read.last == END else last < read.last
    return first, END if reached_end else last
