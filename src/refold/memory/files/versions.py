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
from refold.memory.files.commands import (
    BlamedLine,
    FileChange,
    FileVersion,
    MemoryPath,
    document,
    lines_of,
    parsed,
)
from refold.memory.files.tree import Tree, digests_of

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
    """False for a change that was killed before it reached the tree, and for what cannot be taken
    back. That only empty folders went away cannot be told from one that somebody made again: it
    is a step of its own, which may find them there."""
    if change.new_path:
        return tree.kind_or_absent(parsed(change.new_path)) != "absent"
    if change.command == "delete" and not change.files:
        return True
    return any(_digest_now(tree, file.path) != file.before for file in change.files)


def _reverse(tree: Tree, staging: int, change: FileChange) -> FileChange:
    path = parsed(change.path)
    if change.new_path:
        return _rename_back(tree, change, path, parsed(change.new_path))
    for folder in _folders_of(change):
        if tree.kind_or_absent(parsed(folder)) not in ("absent", "folder"):
            raise Conflict(f"{folder} is there as a file", hint="rename it, then it can go back")
    back = [
        FileVersion(path=file.path, before=file.after, after=file.before) for file in change.files
    ]
    for file in back:
        if _digest_now(tree, file.path) != file.before:
            said = f"{file.path} was changed since"
            raise Conflict(said, hint="version(path, seq) gives an earlier text of it")
    kept = {file.path: _kept(tree, file.after) for file in back if file.after}
    undone = tree.record("undo", path, *back, undoes=change.seq)
    for file in back:
        tree.put(staging, parsed(file.path), kept.get(file.path))
    for folder in _folders_of(change):
        tree.make_folder(parsed(folder))
    return undone


def _folders_of(change: FileChange) -> tuple[str, ...]:
    """The empty folders that a deletion took away. One of an older refold without a file was of
    such a folder."""
    is_bare = change.command == "delete" and not change.files
    return change.folders or ((change.path,) if is_bare else ())


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


def forget(tree: Tree, path: MemoryPath) -> int:
    """Removes a file or folder and every content that it ever had, for good. Gives how many
    contents went, also from the versions of other files that had them."""
    with tree.changing() as staging:
        changes = tree.history.changes()
        known = {file.path for change in changes for file in change.files}
        names = {name for name in known if _is_below(name, str(path))} | _files_at(tree, path)
        contents = digests_of(file for name in names for _, file in _chain(changes, name))
        tree.record("forget", path)
        if tree.kind_or_absent(path) != "absent":
            tree.put(staging, path, None)
        tree.history.drop(contents)
        return len(contents)


def _files_at(tree: Tree, path: MemoryPath) -> set[str]:
    """The files that are at a path or below it now."""
    kind = tree.kind_or_absent(path)
    found = tree.entries(path, "") if kind == "folder" else []
    below = {str(path.below(*one.names)) for one in found if not one.is_folder}
    return below | ({str(path)} if kind == "file" else set())


# --- reading ---


def version(tree: Tree, path: MemoryPath, seq: int) -> bytes:
    """A file as the change of this seq left it, or as it was found after it."""
    chain = list(_chain(tree.history.changes(), str(path)))
    for change, file in reversed(chain):
        if change.seq <= seq:
            if file.after:
                return _kept(tree, file.after)
            said = f"{path} was not there at that time"
            raise NotFound(said, hint="history(path) lists its changes")
    raise NotFound(f"{path} has no version {seq}", hint="history(path) lists them")


def _kept(tree: Tree, digest: str) -> bytes:
    try:
        return tree.history.content(digest)
    except NotFound as error:
        said = "the content of that version is no longer kept"
        raise NotFound(said, hint="FileLimits.versions says how many are") from error


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
        if before != name or any(_is_below(one, name) for one in touched):
            chosen.append(change)
        name = before
    return chosen


def blame(tree: Tree, path: MemoryPath, data: bytes) -> list[BlamedLine]:
    """The lines of a file as it is now, each with the change it came with."""
    lines: list[_Line] = []
    known = ""
    for change, file in _chain(tree.history.changes(), str(path)):
        try:
            before, after = (_lines(tree, one, path) for one in (file.before, file.after))
        except (NotFound, Invalid):
            continue  # no longer kept, or no text
        if file.before != known:
            lines = _carried(lines, before, None)
        lines, known = _carried(lines, after, change), file.after
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
        before = _name_before(change, name)
        if change.new_path and before == name and _is_below(name, change.path):
            break  # What had this name before went elsewhere: it is another file.
        name = before
    return reversed(found)


def _is_below(name: str, folder: str) -> bool:
    return f"{name}/".startswith(f"{folder}/")


def _name_before(change: FileChange, name: str) -> str:
    """What a path was called before a change."""
    new = change.new_path
    if new and _is_below(name, new):
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
