"""Earlier versions of files: taken back, listed, read, and blamed line by line.

Taking a change back is a change as well, so it stands in the history and loses nothing. A file that
is no longer as the change left it is refused: somebody wrote to it since. A change that was killed
before it reached the tree is passed over. Neighbours: `history` has the changes, `tree` makes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from refold.errors import Conflict, Invalid, NotFound
from refold.memory.files.path import MemoryPath, parsed
from refold.memory.files.text import document, lines_of
from refold.memory.files.tree import Tree
from refold.memory.files.values import BlamedLine, FileChange, FileVersion

# A line and the change that it came with; None: it was written by other means.
_Line = tuple[str, FileChange | None]


# --- taking back ---


def undo(tree: Tree, path: MemoryPath | None) -> FileChange:
    """Takes back the newest change, of one path or of all, that was not taken back before."""
    with tree.changing() as staging:
        changes = tree.history.changes()
        undone = {change.undoes for change in changes}
        for change in reversed(changes):
            is_open = not change.undoes and change.seq not in undone
            if is_open and _concerns(change, path) and _has_happened(tree, change):
                return _reverse(tree, staging, change)
    raise NotFound("there is no change to take back", hint="history() lists the changes")


def _concerns(change: FileChange, path: MemoryPath | None) -> bool:
    touched = {change.path, change.new_path, *(file.path for file in change.files)}
    return path is None or str(path) in touched


def _has_happened(tree: Tree, change: FileChange) -> bool:
    """False for a change that was killed before it reached the tree."""
    if change.new_path:
        return tree.kind_or_absent(parsed(change.new_path)) != "absent"
    return any(_digest_now(tree, file.path) != file.before for file in change.files)


def _reverse(tree: Tree, staging: int, change: FileChange) -> FileChange:
    path = parsed(change.path)
    if change.new_path:
        return _rename_back(tree, change, path, parsed(change.new_path))
    back = [
        FileVersion(path=file.path, before=file.after, after=file.before) for file in change.files
    ]
    for file in back:
        if _digest_now(tree, file.path) != file.before:
            said = f"{file.path} was changed since"
            raise Conflict(said, hint="version(path, seq) gives an earlier text of it")
    undone = tree.record("undo", path, *back, undoes=change.seq)
    for file in back:
        data = tree.history.content(file.after) if file.after else None
        tree.put(staging, parsed(file.path), data)
    return undone


def _rename_back(tree: Tree, change: FileChange, old: MemoryPath, new: MemoryPath) -> FileChange:
    if tree.kind_or_absent(old) != "absent":
        raise Conflict(f"{old} is there again", hint=f"rename it, then {new} can go back")
    undone = tree.record("undo", new, new=old, undoes=change.seq)
    tree.move(new, old)
    return undone


def _digest_now(tree: Tree, path: str) -> str:
    """The digest of a file as it is; empty if there is none."""
    try:
        return hashlib.sha256(tree.read(parsed(path), "")).hexdigest()
    except (NotFound, Invalid):
        return ""


# --- reading ---


def version(tree: Tree, path: MemoryPath, seq: int) -> bytes:
    """A file as the change of this seq left it, or as it was found after it."""
    chain = list(_chain(tree.history.changes(), str(path)))
    for change, file in reversed(chain):
        if change.seq <= seq:
            return _kept(tree, file.after, path)
    raise NotFound(f"{path} has no version {seq}", hint="history(path) lists them")


def _kept(tree: Tree, digest: str, path: MemoryPath) -> bytes:
    if not digest:
        raise NotFound(f"{path} was not there at that time", hint="history(path) lists its changes")
    return tree.history.content(digest)


def changes(tree: Tree, path: MemoryPath | None) -> list[FileChange]:
    """The changes of a path, or all, newest first."""
    found = tree.history.changes()
    if path is None:
        return found[::-1]
    name = str(path)
    chosen = []
    for change in reversed(found):
        before = _name_before(change, name)
        touched = [change.path, change.new_path, *(file.path for file in change.files)]
        if before != name or any(f"{one}/".startswith(f"{name}/") for one in touched):
            chosen.append(change)
        name = before
    return chosen


def blame(tree: Tree, path: MemoryPath, data: bytes) -> list[BlamedLine]:
    """The lines of a file as it is now, each with the change it came with."""
    lines: list[_Line] = []
    known = ""
    for change, file in _chain(tree.history.changes(), str(path)):
        if file.before != known:
            lines = _carried(lines, _lines(tree, file.before, path), None)
        lines = _carried(lines, _lines(tree, file.after, path), change)
        known = file.after
    lines = _carried(lines, lines_of(document(data, path).text), None)
    return [_blamed(line, change) for line, change in lines]


def _blamed(line: str, change: FileChange | None) -> BlamedLine:
    if change is None:
        return BlamedLine(line=line)
    return BlamedLine(line=line, seq=change.seq, by=change.by, at_ms=change.at_ms)


def _chain(changes: Sequence[FileChange], name: str) -> Iterator[tuple[FileChange, FileVersion]]:
    """The versions of a file, oldest first, under whatever name it had."""
    found = []
    for change in reversed(changes):
        found += [(change, file) for file in change.files if file.path == name]
        name = _name_before(change, name)
    return reversed(found)


def _name_before(change: FileChange, name: str) -> str:
    """What a path was called before a change."""
    new = change.new_path
    if new and (name == new or name.startswith(f"{new}/")):
        return change.path + name[len(new) :]
    return name


def _lines(tree: Tree, digest: str, path: MemoryPath) -> list[str]:
    return lines_of(document(tree.history.content(digest), path).text)


def _carried(before: list[_Line], after: list[str], change: FileChange | None) -> list[_Line]:
    """The lines after a change: what was there before keeps its origin."""
    matcher = SequenceMatcher(None, [line for line, _ in before], after, autojunk=False)
    lines: list[_Line] = []
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag == "equal":
            lines += before[first:last]
        else:
            lines += [(line, change) for line in after[start:end]]
    return lines
