"""`refold context add-folder`: which files a folder has, as a tree, kept and shown to the model.

What git leaves out is left out. Contents are not read: `context add` adds a file.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated

from msgspec import Meta

from refold.display import number, visible
from refold.edges.commands.command import Arguments, Command
from refold.edges.commands.context.added import Added, added, show
from refold.edges.commands.session import Session
from refold.edges.workspace.files import Found, walk
from refold.edges.workspace.guarded import guarded, refuse_guarded
from refold.edges.workspace.place import inside
from refold.errors import Invalid

PATH = Meta(
    description="The folder, from the current one.",
    extra={"positional": True, "completes": "folder"},
)
DEPTH = Meta(description="At most this many folders deep.", ge=1, le=50)
LIMIT = Meta(description="At most this many files and folders.", ge=1, le=20_000)
ANYWHERE = Meta(description="Allow a folder outside the current one.")


class AddFolderArguments(Arguments, frozen=True, kw_only=True):
    path: Annotated[str, PATH]
    depth: Annotated[int, DEPTH] = 6
    limit: Annotated[int, LIMIT] = 1_000
    anywhere: Annotated[bool, ANYWHERE] = False


def run(session: Session, arguments: AddFolderArguments) -> Added:
    session.check_conversation()
    path, name = inside(arguments.path, anywhere=arguments.anywhere)
    if not path.is_dir():
        raise Invalid(f"{name} is not a folder", hint="context add adds a file")
    guards = guarded(session.store)
    refuse_guarded(str(path), guards)
    below = walk(str(path), depth_max=arguments.depth, without=guards)
    found = list(islice(below, arguments.limit + 1))
    listed = found[: arguments.limit]
    text = "\n".join([f"{path.name}/", *map(_line, listed)])
    stopped = _stopped(listed, arguments, is_cut=len(found) > len(listed))
    shown = path.name if name == "." else name.rstrip("/")
    return added(session, text, name=f"{shown}/", type="file", stopped=stopped)


def _stopped(listed: list[Found], arguments: AddFolderArguments, *, is_cut: bool) -> str:
    """Why it is not everything; empty if it is."""
    if is_cut:
        return f"only the first {arguments.limit:,} files and folders are listed"
    if any(one.is_deeper for one in listed):
        return f"folders below {arguments.depth} levels are not looked into"
    return ""


def _line(one: Found) -> str:
    """`    login.py (1,204 bytes)`. A name may be anything, and is data."""
    name = visible(one.path.rpartition("/")[2]).replace("\n", "\\n")
    indent = "  " * one.depth
    if one.is_folder:
        return f"{indent}{name}/" + (" ..." if one.is_deeper else "")
    return f"{indent}{name} ({number(one.size_bytes, 'byte')})"


COMMAND = Command(
    name="context add-folder",
    details="Leaves out what .gitignore names and the store, and lists names and sizes only.",
    arguments=AddFolderArguments,
    run=run,
    show=show,
)
