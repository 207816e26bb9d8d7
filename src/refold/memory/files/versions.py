"""Earlier versions of files: undo, history, old contents, and blame.

An undo is a change as well, so it is in the history and loses nothing. It is refused for a file
that has changed since. A change is skipped if the process was killed before it reached the tree.
Neighbour: `tree` makes changes and has their history.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from refold.errors import Conflict, Invalid, NotFound
from refold.memory.files import commands
from refold.memory.files.commands import BlamedLine, FileChange, FileVersion, MemoryPath
from refold.memory.files.tree import Tree, digests_of

# A line and the change that wrote it; None if it was written by other means.
_Line = tuple[str, FileChange | None]


# --- undoing ---


def undo(tree: Tree, path: MemoryPath | None) -> FileChange:
    """Undoes the newest change, of one path or of all, that is not undone yet."""
    with tree.changing() as staging:
        changes = tree.history.changes()
        undone = {change.undoes for change in changes}
        for change in reversed(changes):
            touched = {change.path, change.new_path, *(file.path for file in change.files)}
            is_meant = path is None or str(path) in touched
            is_open = not change.undoes and change.seq not in undone
            if is_open and is_meant and _has_happened(tree, change):
                return _reverse(tree, staging, change)
    raise NotFound("there is no change to undo", hint="history() lists the changes")


def _has_happened(tree: Tree, change: FileChange) -> bool:
    """False for a change that never reached the tree because the process was killed, and for one
    that cannot be undone. A deletion of empty folders always counts as done, because they may have
    been created again since."""
    if change.new_path:
        return tree.kind_or_absent(commands.parsed(change.new_path)) != "absent"
    if change.command == "delete" and not change.files:
        return True
    return any(_digest_now(tree, file.path) != file.before for file in change.files)


def _reverse(tree: Tree, staging: int, change: FileChange) -> FileChange:
    path = commands.parsed(change.path)
    if change.new_path:
        return _rename_back(tree, change, path, commands.parsed(change.new_path))
    for folder in change.folders:
        if tree.kind_or_absent(commands.parsed(folder)) not in ("absent", "folder"):
            raise Conflict(f"{folder} exists as a file", hint="rename it, then undo again")
    back = [
        FileVersion(path=file.path, before=file.after, after=file.before) for file in change.files
    ]
    for file in back:
        if _digest_now(tree, file.path) != file.before:
            problem = f"{file.path} was changed since"
            raise Conflict(problem, hint="version(path, seq) returns an earlier version")
    contents = {file.path: _content(tree, file.after) for file in back if file.after}
    undone = tree.record("undo", path, *back, undoes=change.seq)
    for file in back:
        tree.write_file(staging, commands.parsed(file.path), contents.get(file.path))
    for folder in change.folders:
        tree.make_folder(commands.parsed(folder))
    return undone


def _rename_back(tree: Tree, change: FileChange, old: MemoryPath, new: MemoryPath) -> FileChange:
    if tree.kind_or_absent(old) != "absent":
        raise Conflict(f"{old} exists again", hint="rename it, then undo again")
    undone = tree.record("undo", new, new=old, undoes=change.seq)
    tree.move(new, old)
    return undone


def _digest_now(tree: Tree, path: str) -> str:
    """The current digest of a file; empty if there is no such file."""
    try:
        return hashlib.sha256(tree.read(commands.parsed(path), "")).hexdigest()
    except (NotFound, Invalid):
        return ""


def forget(tree: Tree, path: MemoryPath) -> int:
    """Removes a file or folder and all its earlier contents for good. Returns the number of removed
    contents, which also vanish from versions of other files."""
    with tree.changing() as staging:
        changes = tree.history.changes()
        known = {file.path for change in changes for file in change.files}
        names = {name for name in known if _is_below(name, str(path))} | _files_at(tree, path)
        contents = digests_of(file for name in names for _, file in _chain(changes, name))
        tree.record("forget", path)
        if tree.kind_or_absent(path) != "absent":
            tree.write_file(staging, path, None)
        tree.history.drop(contents)
        return len(contents)


def _files_at(tree: Tree, path: MemoryPath) -> set[str]:
    """The current files at a path or below it."""
    kind = tree.kind_or_absent(path)
    found = tree.entries(path, "") if kind == "folder" else []
    below = {str(path.below(*one.names)) for one in found if not one.is_folder}
    return below | ({str(path)} if kind == "file" else set())


# --- reading ---


def version(tree: Tree, path: MemoryPath, seq: int) -> bytes:
    """The content of a file after the change of this seq, or as it was found later."""
    chain = list(_chain(tree.history.changes(), str(path)))
    for change, file in reversed(chain):
        if change.seq <= seq:
            if file.after:
                return _content(tree, file.after)
            problem = f"{path} did not exist at that time"
            raise NotFound(problem, hint="history(path) lists its changes")
    raise NotFound(f"{path} has no version {seq}", hint="history(path) lists them")


def _content(tree: Tree, digest: str) -> bytes:
    try:
        return tree.history.content(digest)
    except NotFound as error:
        problem = "the content of that version is no longer kept"
        raise NotFound(problem, hint="FileLimits.versions sets the limit") from error


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
    """The current lines of a file, each with the change that wrote it."""
    lines: list[_Line] = []
    known = ""
    for change, file in _chain(tree.history.changes(), str(path)):
        try:
            before, after = (_lines(tree, one, path) for one in (file.before, file.after))
        except (NotFound, Invalid):
            continue  # no longer kept, or not text
        if file.before != known:
            lines = _carried(lines, before, None)
        lines, known = _carried(lines, after, change), file.after
    lines = _carried(lines, commands.lines_of(commands.document(data, path).text), None)
    return [
        BlamedLine(line=line, seq=change.seq, by=change.by, at_ms=change.at_ms)
        if change
        else BlamedLine(line=line)
        for line, change in lines
    ]


def _chain(changes: Sequence[FileChange], name: str) -> Iterator[tuple[FileChange, FileVersion]]:
    """The versions of a file, oldest first, followed through renames."""
    found = []
    for change in reversed(changes):
        found += [(change, file) for file in change.files if file.path == name]
        before = _name_before(change, name)
        if change.new_path and before == name and _is_below(name, change.path):
            break  # the earlier file of this name was moved away: it is another file
        name = before
    return reversed(found)


def _is_below(name: str, folder: str) -> bool:
    return f"{name}/".startswith(f"{folder}/")


def _name_before(change: FileChange, name: str) -> str:
    """The name of a path before a change."""
    new = change.new_path
    if new and _is_below(name, new):
        return change.path + name[len(new) :]
    return name


def _lines(tree: Tree, digest: str, path: MemoryPath) -> list[str]:
    return commands.lines_of(commands.document(tree.history.content(digest), path).text)


def _carried(before: list[_Line], after: list[str], change: FileChange | None) -> list[_Line]:
    """The lines after a change; unchanged lines keep their origin."""
    matcher = SequenceMatcher(None, [line for line, _ in before], after, autojunk=False)
    lines: list[_Line] = []
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag == "equal":
            lines += before[first:last]
        else:
            lines += [(line, change) for line in after[start:end]]
    return lines
