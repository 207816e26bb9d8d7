"""Duplicate text on the page is shown once: the newest copy stays, older ones become a short
notice.

File text comes from reads, from writes, and from tags in other text, and forms one sequence per
file. Later text replaces earlier text only if it covers the same lines, loses none of their
content, and is still visible itself. Equal large results of any tool are treated the same way. The
task is never edited. Neighbours: `newer_text` decides whether newer text can replace older text,
`ledger.actions` has the reads and writes, `ledger.calls` the file text between tags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from refold.config import Config
from refold.core.model import Block, Edit, Hide, Replace, Slot, Text, ToolResult, shows_memories
from refold.core.plan import Ask
from refold.core.shortened import GAP, text_of
from refold.ledger.actions import Action, actions_of, spellings_of
from refold.ledger.calls import excerpts, failed, is_cut, payload, shown_lines
from refold.ledger.facts import CHANGES
from refold.ledger.shell_words import END
from refold.strategies.brief import Brief
from refold.strategies.newer_text import Changed, FileChanges, FileText, can_replace, file_text
from refold.strategies.protected_messages import opening, protected

NOTICE_START = "[this earlier copy was removed: "
NOTICE_MAX = 200
PATH_MAX = NOTICE_MAX - 90  # of a path in a notice
PATH_HEAD = PATH_MAX // 3
PATH_TAIL = PATH_MAX - PATH_HEAD - 1
SAME_CHARS = 400  # equal results of at least this size are shown only once
LATER_MAX = 64  # later copies of a file that are remembered for comparison
COMPARED_MAX = 8  # of these, the number compared with an earlier copy
READ_LINES_MAX = 2_000  # many read tools stop here without a note


def dedup(brief: Brief) -> list[Edit | Ask]:
    """Replaces all text that a later copy on the page makes redundant."""
    size = brief.setting("same_chars", SAME_CHARS)
    view = brief.view
    page = (view.chain, view.head, len(view.slots), view.tokens, size)
    if brief.scratch.get("dedup") == page:
        return []  # an earlier run found no duplicates on this very page
    edits: list[Edit | Ask] = [*_hide_memories(brief), *_replace_copies(brief, size)]
    if not edits:
        brief.scratch["dedup"] = page
    return edits


def _hide_memories(brief: Brief) -> Iterator[Hide]:
    """Hides memories shown for an earlier request: they are still stored, and are shown again when
    needed."""
    for slot in brief.slots:
        is_old = slot.seq < brief.view.request and slot.seq not in brief.view.pins
        if is_old and shows_memories(slot.message) and not slot.edits:
            yield Hide(batch=brief.batch, span=slot.span, reason="memories of an earlier request")


def _replace_copies(brief: Brief, size: int) -> Iterator[Replace]:
    """One edit per block, with a notice for every removed copy."""
    task = {slot.seq for slot in brief.slots[: opening(brief.view)]}
    copies = Copies(brief.slots, brief.config, protected(brief.view) | task, brief.redact)
    removed: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    for copy, notice in _unneeded(copies, size):
        removed.setdefault((copy.seq, copy.block), []).append((copy.start, copy.end, notice))
    for (seq, block), notices in sorted(removed.items()):
        pieces: list[str] = []
        at = 0
        for start, end, notice in sorted(notices):
            pieces += [copies.texts[seq, block][at:start], notice]
            at = end
        yield Replace(
            batch=brief.batch,
            seq=seq,
            block=block,
            text="".join([*pieces, copies.texts[seq, block][at:]]),
            reason="a later copy is on the page",
        )


# --- choosing ---


def _unneeded(copies: Copies, size: int) -> Iterator[tuple[Copy, str]]:
    """Every unneeded copy with its notice, newest first: earlier copies are compared only with
    later ones that stay."""
    remaining = _RemainingCopies(copies)
    for copy in reversed(copies.all()):
        text = copies.text(copy)
        output = payload(text) if len(text) >= size else ""
        notice = remaining.notice(copy, output) if copy.movable else ""
        if notice and len(notice) < len(text):
            yield copy, notice
        else:
            remaining.add(copy, output)


class _RemainingCopies(Struct):
    """The copies that stay, by file and by their text."""

    copies: Copies
    later: dict[str, list[Copy]] = {}
    same: dict[tuple[str, str], Copy] = {}
    file_texts: dict[Copy, FileText] = {}

    def add(self, copy: Copy, output: str) -> None:
        """Keeps this copy on the page."""
        if copy.path and not copy.cut:
            later = self.later.setdefault(copy.path, [])
            if len(later) < LATER_MAX:
                later.append(copy)
        if output:
            # The text of a file never replaces another file's text, only output without a file.
            self.same.setdefault((copy.path, output), copy)
            self.same.setdefault(("", output), copy)

    def notice(self, copy: Copy, output: str) -> str:
        """The notice for an older copy; empty if the copy is needed."""
        covering = [other for other in self.later.get(copy.path, ()) if _covers(other, copy)]
        for other in covering[:COMPARED_MAX]:
            if self._can_replace(other, copy):
                # Even the latest text may leave the page, so the notice does not promise it.
                path = self.copies.spellings.redacted(copy.path, self.copies.redact)
                if len(path) > PATH_MAX:
                    path = path[:PATH_HEAD] + "…" + path[-PATH_TAIL:]
                latest = f"the latest text of {path} came at #{other.seq}"
                return f"{NOTICE_START}{latest} and is authoritative]"
        same = self.same.get((copy.path, output))
        return f"{NOTICE_START}the same output came in full at #{same.seq}]" if same else ""

    def _can_replace(self, other: Copy, copy: Copy) -> bool:
        """Whether a later copy has everything that this one has. After a change, the same line
        numbers need not be the same lines; a call that writes a file contains all of its text."""
        changed = self.copies.changed_between(copy, other)
        if changed.count and not other.whole:
            return False
        if other.written:
            return True
        same_lines = (other.first, other.last) == (copy.first, copy.last)
        return can_replace(self._file_text(other), self._file_text(copy), changed, same_lines)

    def _file_text(self, copy: Copy) -> FileText:
        if copy not in self.file_texts:
            self.file_texts[copy] = file_text(self.copies.text(copy), copy.cut)
        return self.file_texts[copy]


def _covers(later: Copy, earlier: Copy) -> bool:
    """Whether a later text of the file has the line range of an earlier one. Lines counted from
    the end have negative numbers; `END` is the end of the file."""
    if later.whole:
        return True
    if later.first < 0 or earlier.first < 0:
        return later.first <= earlier.first < 0
    if later.last == END or earlier.last == END:
        return later.first <= earlier.first and later.last == END
    return later.first <= earlier.first and earlier.last <= later.last


# --- finding copies ---


class Copy(Struct, frozen=True):
    """A possible duplicate: characters `start` to `end` of a block. Without a path it is a result
    of any tool."""

    path: str
    seq: int
    block: int
    start: int
    end: int
    first: int = 1
    last: int = END
    movable: bool = True  # False: it may replace others, but is never removed itself
    cut: bool = False  # True: it may be removed, but does not replace others
    written: bool = False  # True: its text is an argument of a call

    @property
    def whole(self) -> bool:
        return self.first == 1 and self.last == END


class Copies:
    """The text on a page that may be duplicated, in page order."""

    def __init__(
        self,
        slots: Sequence[Slot],
        config: Config,
        untouchable: set[int],
        redact: Callable[[str], str],
    ) -> None:
        self.slots, self.config, self.untouchable = slots, config, untouchable
        self.redact = redact
        self.spellings = spellings_of(config)
        self.texts: dict[tuple[int, int], str] = {}
        self.reads: dict[tuple[int, int], Action] = {}
        self.kinds: dict[tuple[int, int], Action] = {}
        self.written: dict[int, list[Action]] = {}
        self.changes: dict[str, list[Action]] = {}
        self._file_changes: dict[str, FileChanges] = {}
        for action in actions_of(slots, config, self.spellings):
            result = (action.result_seq, action.result_block)
            if action.result_seq:
                self.kinds.setdefault(result, action)
            if action.kind == "read" and action.alone and action.ok:
                self.reads[result] = action
            if action.kind in CHANGES and action.ok is not False:
                self.changes.setdefault(action.path, []).append(action)
            if action.written and action.ok:
                self.written.setdefault(action.seq, []).append(action)

    def text(self, copy: Copy) -> str:
        """The text of a copy; empty if it is an argument of a call."""
        return "" if copy.written else self.texts[copy.seq, copy.block][copy.start : copy.end]

    def changed_between(self, earlier: Copy, later: Copy) -> Changed:
        """The changes of a file after one copy of its text and up to another. The text may be the
        result of the very change that produced it."""
        path = earlier.path
        if path not in self._file_changes:
            self._file_changes[path] = FileChanges(self.changes.get(path, ()))
        return self._file_changes[path].between(earlier.seq, later.seq)

    def all(self) -> list[Copy]:
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
        tools = (action.tool if action else "", block.name if isinstance(block, ToolResult) else "")
        is_excluded = any(tool in self.config.exclude_tools for tool in tools)
        movable = slot.seq not in self.untouchable and not is_excluded
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
        """The file text between tags, without passages that were cut or replaced before."""
        copies: list[Copy] = []
        for path, start, end in excerpts(text):
            body = text[start:end]
            if body.startswith(NOTICE_START) or f"\n{GAP} " in body or failed(body):
                continue
            path = self.spellings.form(path)
            copies.append(Copy(path, *place, start, end, movable=movable, cut=is_cut(body)))
        return copies


def _is_text(block: Block) -> bool:
    """Whether a block is text only; the stub of an artifact is not the artifact's text."""
    if isinstance(block, ToolResult):
        return not block.artifact and all(isinstance(part, Text) for part in block.content)
    return isinstance(block, Text)


def _read_copy(read: Action, text: str, movable: bool) -> Copy:
    """The file text in the result of a read. Its line range follows from the line numbers in it,
    or else from the arguments of the read."""
    body = payload(text[read.start :])
    numbers = shown_lines(body)
    first, last = numbers or (read.first, read.last)
    if numbers and first == max(read.first, 1):
        is_to_the_end = read.last == END
        has_end = last - first + 1 != READ_LINES_MAX if is_to_the_end else last < read.last
        last = END if has_end else last
    return Copy(
        read.path,
        read.result_seq,
        read.result_block,
        read.start,
        len(text),
        first=first,
        last=last,
        movable=movable,
        cut=is_cut(body),
    )
