"""Text that stands on the page twice is shown once: the newest stays, older ones become a short
notice.

File text comes from every source (read tools, shell commands, tags in results and mentions) and is
one sequence per file. A later text replaces an earlier one only if it covers the same lines,
nothing of it would be lost, and it is itself still visible. Equal large results of any tool are
treated the same way. The task itself is never edited. Neighbours: `copies` finds the texts,
`newer_text` says whether one can stand for another.

The texts of a page that may be copies of one another: file texts, and results of any tool.

A file text comes from a read, from a write, or from between tags in other text; which lines it
shows is read from their numbers where it has them. Neighbours: `dedup` judges the copies,
`ledger.actions` says what was read and written, `ledger.file_mentions` finds file text between
tags.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from refold.config import Config
from refold.core.model import (
    Block,
    Edit,
    Hide,
    Media,
    Opaque,
    Replace,
    Slot,
    Text,
    ToolResult,
    shows_memories,
)
from refold.core.plan import Ask
from refold.core.shortened import GAP, text_of
from refold.ledger.actions import Action, actions_of, failed, spellings_of
from refold.ledger.calls import is_cut, payload, shown_lines
from refold.ledger.embedded_files import excerpts
from refold.ledger.facts import CHANGES
from refold.ledger.shell_words import END
from refold.strategies.brief import Brief, opening, protected
from refold.strategies.newer_text import Changed, FileChanges, FileText, file_text, stands_for

NOTICE_START = "[this earlier copy was removed: "
READ_LINES_MAX = 2_000  # many read tools stop here without saying so


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
    written: bool = False  # True: its text stands in the arguments of a call

    @property
    def whole(self) -> bool:
        return self.first == 1 and self.last == END


class Copies:
    """The texts of a page that may be copies, in the order they stand."""

    def __init__(self, slots: Sequence[Slot], config: Config, untouchable: set[int]) -> None:
        self.slots, self.config, self.untouchable = slots, config, untouchable
        self.spellings = spellings_of(config)
        self.texts: dict[tuple[int, int], str] = {}
        self.reads: dict[tuple[int, int], Action] = {}
        self.kinds: dict[tuple[int, int], Action] = {}
        self.written: dict[int, list[Action]] = {}
        self.changes: dict[str, list[Action]] = {}
        self._file_changes: dict[str, FileChanges] = {}
        for action in actions_of(slots, config, self.spellings):
            self._note(action)

    def _note(self, action: Action) -> None:
        """Remembers what an action read or changed."""
        place = (action.result_seq, action.result_block)
        if action.result_seq:
            self.kinds.setdefault(place, action)
        if action.kind == "read" and action.alone and action.ok:
            self.reads[place] = action
        if action.kind in CHANGES and action.ok is not False:
            self.changes.setdefault(action.path, []).append(action)
        if action.written and action.ok:
            self.written.setdefault(action.seq, []).append(action)

    def text(self, copy: Copy) -> str:
        """The text of a copy; nothing if it stands in the arguments of a call."""
        return "" if copy.written else self.texts[copy.seq, copy.block][copy.start : copy.end]

    def changed_between(self, earlier: Copy, later: Copy) -> Changed:
        """What was done to the file after one copy of its text and up to another. A text may be
        the answer to the change that made it."""
        path = earlier.path
        if path not in self._file_changes:
            self._file_changes[path] = FileChanges(self.changes.get(path, ()))
        return self._file_changes[path].between(earlier.seq, later.seq)

    def found(self) -> list[Copy]:
        """Every text of the page that may be a copy."""
        return [copy for slot in self.slots if not slot.standin for copy in self._in_slot(slot)]

    def _in_slot(self, slot: Slot) -> Iterator[Copy]:
        for action in self.written.get(slot.seq, ()):
            yield Copy(action.path, slot.seq, action.block, 0, 0, movable=False, written=True)
        if slot.message.role in ("assistant", "system"):
            return
        edited = {applied.block for applied in slot.edits}
        for index, block in enumerate(slot.message.blocks):
            if _is_text(block):
                self.texts[slot.seq, index] = text_of(block)
                yield from self._in_block(slot, index, block, index in edited)

    def _in_block(self, slot: Slot, index: int, block: Block, edited: bool) -> Iterator[Copy]:
        place = (slot.seq, index)
        text, action = self.texts[place], self.kinds.get(place)
        movable = slot.seq not in self.untouchable and not self._is_excluded(block, action)
        read = self.reads.get(place)
        if read is not None:
            if not edited and not text.startswith(NOTICE_START, read.start):
                yield _read_copy(read, text, movable)
            return
        tagged: list[Copy] = []
        if action is None or action.kind not in ("run", "search"):
            tagged = self._tagged(place, text, movable)
        yield from tagged
        if text and isinstance(block, ToolResult) and not tagged and not edited:
            yield Copy("", slot.seq, index, 0, len(text), movable=movable)

    def _tagged(self, place: tuple[int, int], text: str, movable: bool) -> list[Copy]:
        """File texts between tags; one that was cut or replaced before is no longer the file's
        text."""
        found: list[Copy] = []
        for path, start, end in excerpts(text):
            body = text[start:end]
            if body.startswith(NOTICE_START) or f"\n{GAP} " in body or failed(body):
                continue
            path = self.spellings.form(path)
            cut = is_cut(body)
            found.append(Copy(path, *place, start, end, movable=movable, cut=cut))
        return found

    def _is_excluded(self, block: Block, action: Action | None) -> bool:
        """Whether the block is the result of a tool that is left alone."""
        excluded = self.config.exclude_tools
        if (action.tool if action else "") in excluded:
            return True
        return (block.name if isinstance(block, ToolResult) else "") in excluded


def _is_text(block: Block) -> bool:
    """Whether a block is text and nothing else; a stub that stands for an artifact is not the
    text."""
    if isinstance(block, ToolResult):
        return not block.artifact and not _has_media(block)
    return isinstance(block, Text)


def _has_media(result: ToolResult) -> bool:
    """Whether a result holds something that is not text."""
    return any(isinstance(part, Media | Opaque) for part in result.content)


# --- what a read shows ---


def _read_copy(read: Action, text: str, movable: bool) -> Copy:
    """The file text in the result of a read."""
    shown = payload(text[read.start :])
    first, last = _lines_shown(read, shown)
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


def _lines_shown(read: Action, shown: str) -> tuple[int, int]:
    """The lines a read really shows: their numbers where it has them, else what was asked for."""
    numbers = shown_lines(shown)
    if numbers is None:
        return read.first, read.last
    first, last = numbers
    if first == max(read.first, 1) and _reached_end(read, first, last):
        return first, END
    return first, last


def _reached_end(read: Action, first: int, last: int) -> bool:
    """Whether a read that shows these lines showed the end of the file."""
    if read.last == END:
        return last - first + 1 != READ_LINES_MAX
    return last < read.last


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
