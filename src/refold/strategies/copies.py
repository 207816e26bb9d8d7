"""The texts of a page that may be copies of one another: file texts, and results of any tool.

A file text comes from a read, from a write, or from between tags in other text; which lines it
shows is read from their numbers where it has them. Neighbours: `dedup` judges the copies,
`ledger.actions` says what was read and written, `ledger.file_mentions` finds file text between
tags.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from refold.config import Config
from refold.core.model import Block, Media, Opaque, Slot, Text, ToolResult
from refold.core.shortened import GAP, text_of
from refold.ledger.actions import Action, actions_of, spellings_of
from refold.ledger.file_mentions import excerpts
from refold.ledger.kinds import CHANGES
from refold.ledger.outcomes import failed
from refold.ledger.results import is_cut, payload, shown_lines
from refold.ledger.shell_reads import END
from refold.strategies.changes_between import Changed, FileChanges

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
