"""`MemoryFiles`, the memory tool: executes six commands, answers in text, and never raises.

A path is resolved to the tree of this folder or of a mount, and the tree does the rest. The methods
for people (`undo`, `history`, `version`, `blame`) raise our errors. Neighbours: `commands`, `tree`,
`versions`; `anthropic_sdk` adapts it to the runner of that SDK.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

from refold import decoding
from refold.checked import checked, quoted
from refold.display import is_text
from refold.errors import Conflict, Denied, Invalid, NotFound, RefoldError
from refold.memory.files import commands, versions
from refold.memory.files.commands import ROOT, FileAnswer, FileChange, FileLimits, MemoryPath
from refold.memory.files.descriptors import Entry, Place, not_followed, place_of
from refold.memory.files.tree import Tree
from refold.redaction import secrets_in
from refold.system import posix
from refold.system.disk import os_failure

LEVELS = 2  # of a directory that are listed
LIMITS = FileLimits()


class MemoryFiles:
    """The files under `/memories` of one scope, as a tool for a model.

    `scope` is `user`, `project` or `agent.NAME`; `folder` names another place. `by` is recorded
    with every change. `mounts` shows other folders below the root, each by a name, with their own
    `read_only`. With `refuse_secrets`, text that looks like a key or a password is not stored; with
    `as_data`, stored text is shown between marks.
    """

    @checked
    def __init__(
        self,
        scope: str = "project",
        *,
        folder: str | None = None,
        by: str = "model",
        read_only: bool = False,
        limits: FileLimits | None = None,
        mounts: Mapping[str, MemoryFiles] | None = None,
        refuse_secrets: bool = False,
        as_data: bool = False,
    ) -> None:
        posix.check("the memory folder", "remember entries: context.memory.store")
        if not by or not is_text(by):
            raise Invalid(f"by={quoted(by)} is not a name", hint="such as model or reviewer")
        place = place_of(scope) if folder is None else Place(folder)
        self._limits = _limits_checked(limits or LIMITS)
        self._tree = Tree(place, self._limits, by=by, read_only=read_only)
        self._mounts = {name: _mounted(name, files) for name, files in (mounts or {}).items()}
        self._refuse_secrets, self._as_data = refuse_secrets, as_data

    # --- the tool ---

    def call(
        self,
        arguments: str | Mapping[str, Any],
        *,
        as_data: bool | None = None,
        chars_max: int | None = None,
    ) -> FileAnswer:
        """Executes a call by the model, and always returns text. `as_data` and `chars_max` override
        the settings for this answer."""
        page = commands.Page(
            self._as_data if as_data is None else as_data, chars_max or self._limits.view_chars
        )
        try:
            text, is_error = self._execute(commands.command_of(arguments), page), False
        except RefoldError as error:
            text, is_error = error.message, True
        except OSError as error:
            text, is_error = f"Error: {os_failure(error, ROOT).message}", True
        except Exception as error:  # noqa: BLE001 - arguments may be any objects
            text, is_error = f"Error: the tool failed ({type(error).__name__})", True
        return FileAnswer(text.encode("utf-8", "replace").decode(), is_error)

    @checked
    def tool(self, dialect: str = "anthropic") -> dict[str, Any]:
        """The definition of the tool for a provider: `anthropic` (its own `memory_20250818`),
        `openai_chat`, `openai_responses`, `gemini`; `json` for name, description and JSON
        schema."""
        if dialect == "json":
            return commands.plain_definition()
        return commands.definition(dialect)

    @checked
    def sdk_tool(self, *, is_async: bool = False) -> Any:
        """The tool for the runner of the Anthropic SDK: `client.beta.messages.tool_runner(…)`."""
        from refold.memory.files.anthropic_sdk import sdk_tool

        return sdk_tool(self, is_async=is_async)

    def _execute(self, command: commands.Command, page: commands.Page) -> str:
        match command:
            case commands.View():
                return self._view(command, page)
            case commands.Create():
                return self._create(command)
            case commands.StrReplace():
                return self._str_replace(command, page)
            case commands.Insert():
                return self._insert(command)
            case commands.Delete():
                return self._delete(command)
            case commands.Rename():
                return self._rename(command)
            case _:
                assert_never(command)

    # --- the commands ---

    def _view(self, command: commands.View, page: commands.Page) -> str:
        tree, path = self._at(command.path)
        absent = _absent(path)
        kind = tree.kind(path, absent)
        if kind == "absent":
            raise NotFound(absent)
        if kind == "file":
            document = commands.document(tree.read(path, absent), path)
            shown = commands.view_of(document, path, command.view_range, page.chars_max)
            return page.answer(f"Here's the content of {path} with line numbers:", *shown)
        if kind != "folder":
            raise not_followed(kind, path)
        if command.view_range is not None:
            problem = "The `view_range` parameter is not allowed when `path` points to a directory."
            raise Invalid(problem)
        return self._listing(tree, path, absent, page)

    def _listing(self, tree: Tree, path: MemoryPath, absent: str, page: commands.Page) -> str:
        entries = tree.entries(path, absent)
        if not path.names:
            entries = self._with_mounts(entries)
        sizes = _sizes(entries)
        rows = [f"{commands.size(sizes[()])}\t{path}"]
        for entry in entries:
            if len(entry.names) <= LEVELS and _is_listed(entry):
                end = "/" if entry.is_folder else ""
                rows.append(f"{commands.size(sizes[entry.names])}\t{path.below(*entry.names)}{end}")
        head = (
            f"Here're the files and directories up to {LEVELS} levels deep in {path}, "
            "excluding hidden items and node_modules:"
        )
        return page.answer(head, *commands.rows_of(rows, page.chars_max))

    def _with_mounts(self, entries: list[Entry]) -> list[Entry]:
        """The entries of the root, with the entries of the mounts under their names."""
        own = [one for one in entries if one.names[0] not in self._mounts]
        for name, tree in self._mounts.items():
            own.append(Entry((name,), 0, True))
            for one in tree.entries(MemoryPath((name,), 1), ""):
                own.append(Entry((name, *one.names), one.size_bytes, one.is_folder))
        return sorted(own, key=lambda one: one.names)

    def _create(self, command: commands.Create) -> str:
        tree, path = self._at(command.path)
        tree.create(path, self._stored(command.file_text, path))
        return f"File created successfully at: {path}"

    def _str_replace(self, command: commands.StrReplace, page: commands.Page) -> str:
        tree, path = self._at(command.path)
        snippet = ""

        def change(data: bytes) -> bytes:
            nonlocal snippet
            before = commands.document(data, path)
            after, snippet = commands.replaced(before, command.old_str, command.new_str, path)
            return self._stored_document(after, path, before)

        tree.edit("str_replace", path, change, absent=_absent(path))
        if command.old_str == command.new_str:
            return "No replacement was performed: old_str and new_str are the same."
        head = "The memory file has been edited."
        if snippet:
            head += " Here is the snippet showing the change (with line numbers):"
        shown, left = commands.rows_of(snippet.split("\n"), page.chars_max)
        return page.answer(head, shown, "[The snippet is cut.]" if left else "")

    def _insert(self, command: commands.Insert) -> str:
        tree, path = self._at(command.path)

        def change(data: bytes) -> bytes:
            before = commands.document(data, path)
            after = commands.inserted(before, command.insert_line, command.insert_text)
            return self._stored_document(after, path, before)

        tree.edit("insert", path, change, absent=_gone(path))
        return f"The file {path} has been edited."

    def _delete(self, command: commands.Delete) -> str:
        tree, path = self._at(command.path)
        if not path.inner:
            raise Denied(f"Cannot delete the {path} directory itself")
        tree.delete(path, _gone(path))
        return f"Successfully deleted {path}"

    def _rename(self, command: commands.Rename) -> str:
        tree, old = self._at(command.old_path)
        target, new = self._at(command.new_path)
        taken = f"Error: The destination {new} already exists"
        if not old.inner:
            raise Denied(f"Cannot rename the {old} directory itself")
        if not new.inner:
            raise Conflict(taken)
        if tree is not target:
            raise Invalid(f"Error: {old} cannot be renamed to {new}: they are in different mounts")
        if new != old and new.names[: len(old.names)] == old.names:
            raise Invalid(f"Error: {old} cannot be renamed into itself")
        tree.rename(old, new, absent=_gone(old), taken=taken)
        return f"Successfully renamed {old} to {new}"

    # --- paths and contents ---

    def _at(self, given: str) -> tuple[Tree, MemoryPath]:
        """The tree of a path: this one, or a mount."""
        path = commands.parsed(given)
        if path.names and path.names[0] in self._mounts:
            return self._mounts[path.names[0]], MemoryPath(path.names, 1)
        return self._tree, path

    def _stored(self, content: str, path: MemoryPath, before: str = "") -> bytes:
        """The text as bytes; Denied for a new secret, Invalid if it cannot be encoded."""
        if self._refuse_secrets:
            known = {before[one.start : one.end] for one in secrets_in(before)}
            new = [one for one in secrets_in(content) if content[one.start : one.end] not in known]
            if new:
                kind = new[0].kind
                raise Denied(f"Error: {path} was not written: the text holds a secret ({kind})")
        try:
            return content.encode()
        except UnicodeEncodeError as error:
            raise Invalid(f"Error: The text for {path} has a lone surrogate") from error

    def _stored_document(
        self, after: commands.Document, path: MemoryPath, before: commands.Document
    ) -> bytes:
        self._stored(after.text, path, before.text)
        return after.data

    # --- for people ---

    @checked
    def undo(self, path: str = "") -> FileChange:
        """Undoes the newest change of one path or of all, one step per call. Returns the change
        that undid it; NotFound if there is none, Conflict if the file was changed since."""
        tree, at = self._tree_of(path)
        return versions.undo(tree, at)

    @checked
    def forget(self, path: str) -> int:
        """Removes a file or folder with all its earlier contents for good: this cannot be undone.
        Returns the number of removed contents."""
        tree, at = self._at(path)
        if not at.inner:
            raise Denied(f"{at} is not forgotten as a whole", hint="remove its folder on the disk")
        return versions.forget(tree, MemoryPath(at.inner))

    @checked
    def history(self, path: str = "") -> list[FileChange]:
        """The changes of a file or folder, or all of this scope, newest first."""
        tree, at = self._tree_of(path)
        return versions.changes(tree, at)

    @checked
    def version(self, path: str, seq: int) -> str:
        """The text of a file as the change `seq` left it."""
        tree, at = self._at(path)
        inner = MemoryPath(at.inner)
        return commands.document(versions.version(tree, inner, seq), at).text

    @checked
    def blame(self, path: str) -> list[commands.BlamedLine]:
        """The lines of a file, each with its author, time and change."""
        tree, at = self._at(path)
        data = tree.read(at, _gone(at))
        return versions.blame(tree, MemoryPath(at.inner), data)

    def _tree_of(self, path: str) -> tuple[Tree, MemoryPath | None]:
        if not path:
            return self._tree, None
        tree, at = self._at(path)
        return tree, MemoryPath(at.inner)

    def close(self) -> None:
        """Closes the history. A later call opens it again."""
        self._tree.close()


def _limits_checked(limits: FileLimits) -> FileLimits:
    try:
        return decoding.convert(msgspec.to_builtins(limits), FileLimits)
    except msgspec.ValidationError as error:
        raise Invalid(f"limits: {error}", hint="whole numbers of at least 1") from error


def _mounted(name: str, files: MemoryFiles) -> Tree:
    """The tree of a mount, with its name checked."""
    if commands.fault(name) or "/" in name:
        raise Invalid(f"mounts: {quoted(name)} is not a name", hint="one plain name, such as team")
    if files._mounts:
        raise Invalid(f"mounts: {name} has mounts of its own", hint="mount them here instead")
    return files._tree


def _absent(path: MemoryPath) -> str:
    return f"The path {path} does not exist. Please provide a valid path."


def _gone(path: MemoryPath) -> str:
    return f"Error: The path {path} does not exist"


def _sizes(entries: list[Entry]) -> Tally[tuple[str, ...]]:
    """The sizes of the listed entries; the size of a folder is the sum of the files below it."""
    sizes: Tally[tuple[str, ...]] = Tally()
    for entry in entries:
        for level in range(LEVELS + 1):
            if level <= len(entry.names):
                sizes[entry.names[:level]] += entry.size_bytes
    return sizes


def _is_listed(entry: Entry) -> bool:
    """False for hidden entries, and for names that no path could have."""
    return not any(
        name.startswith(".") or name == "node_modules" or commands.fault(name)
        for name in entry.names
    )
