"""What `context add`, `add-folder` and `add-search` share: a text is kept as an artifact, and a
message says so to the model. It asks for nothing: the latest request stays what it was.

The message shows a short text whole and the beginning of a long one, between marks that nothing
inside can close; the rest is reached by the artifact's handle. The way back is a restore to the
place before.

`refold context add`: a file is kept with the conversation, and shown to the model.

`refold context add-folder`: which files a folder has, as a tree, kept and shown to the model.

What git leaves out is left out. Contents are not read: `context add` adds a file.

`refold context add-search`: lines of the current folder that contain a text, kept and shown to
the model.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated

from msgspec import Meta

from refold.core.model import ADDED, Artifact, ArtifactType, Message, Origin, Text
from refold.display import fenced, one_line, visible
from refold.edges.commands.command import (
    TEXT,
    Arguments,
    Command,
    Result,
    Screen,
    number,
    short_line,
)
from refold.edges.commands.session import Session
from refold.edges.workspace import Found, Match, guarded, inside, matches, refuse_guarded, walk
from refold.errors import Invalid, NotFound
from refold.system.disk import open_regular, os_failure

SHOWN_CHARS = 16_000
HEAD_LINES, HEAD_CHARS = 40, 4_000


class Added(Result, frozen=True, kw_only=True):
    """What was kept, and the message that shows it; `tokens` is what that costs on the page,
    `before` the place to go back to. `stopped` says why it is not everything."""

    conversation: str
    artifact: str
    name: str
    type: str
    lines: int
    size_bytes: int
    seq: int
    before: int
    tokens: int
    stopped: str = ""


def added(
    session: Session,
    content: str | bytes,
    *,
    name: str,
    type: ArtifactType,
    query: str = "",
    stopped: str = "",
) -> Added:
    """Keeps a content with the conversation, and shows it to the model."""
    with session.context(writes=True) as context:
        before = context.view.head
        origin = Origin(query=query)
        artifact = context.artifacts.put(content, name=name, type=type, origin=origin)
        text = _message(artifact, content if isinstance(content, str) else "", stopped)
        metadata = {ADDED: artifact.id}
        shown = Message(role="user", blocks=(Text(text),), metadata=metadata)
        events = context.append(shown)
        [message] = [event for event in events if event.kind == "message"]
    return Added(
        conversation=context.id,
        artifact=artifact.id,
        name=name,
        type=type,
        lines=artifact.lines,
        size_bytes=artifact.size_bytes,
        seq=message.seq,
        before=before,
        tokens=message.tokens,
        stopped=stopped,
    )


def _message(artifact: Artifact, text: str, stopped: str) -> str:
    """`[Added file src/a.py, 250 lines: artifact://art-…]` and the text, or how it begins."""
    kind = artifact.type.replace("_", " ")
    size = number(artifact.lines, "line") if text else number(artifact.size_bytes, "byte")
    head = f"[Added {kind} {one_line(artifact.name)}, {size}: artifact://{artifact.id}]"
    if stopped:
        head += f" ({stopped})"
    if not text:
        return head
    if len(text) > SHOWN_CHARS:
        text = "\n".join(text[:HEAD_CHARS].splitlines()[:HEAD_LINES])
        head += f" It begins as follows; artifact {artifact.id} has the rest."
    return f"{head}\n{fenced(text, 'added')}"


def show(done: Added, screen: Screen) -> None:
    size = number(done.lines, "line") if done.lines else number(done.size_bytes, "byte")
    name = short_line(done.name, 200)
    kept = f": {done.artifact}, {size}. Message #{done.seq}, {number(done.tokens, 'token')}."
    screen.line(("bold", f"Added {name}"), kept)
    if done.stopped:
        screen.line(("yellow", f"Not everything: {done.stopped}."))
    back = screen.call("restore", done.conversation, str(done.before))
    screen.line(("dim", f"Go back with: {back}"))


SIZE_MAX = 20_000_000
FILE = Meta(
    description="The file, from the current folder.",
    extra={"positional": True, "completes": "file"},
)
ANYWHERE = Meta(description="Allow a file outside the current folder.")


class AddArguments(Arguments, frozen=True, kw_only=True):
    file: Annotated[str, FILE]
    anywhere: Annotated[bool, ANYWHERE] = False


def run_context_add(session: Session, arguments: AddArguments) -> Added:
    session.check_conversation()
    path, name = inside(arguments.file, anywhere=arguments.anywhere)
    if path.is_dir():
        raise Invalid(f"{name} is a folder", hint="context add-folder shows what is in it")
    if not path.is_file():
        raise Invalid(f"{name} is not a regular file", hint="pipes and devices are not read")
    refuse_guarded(str(path), guarded(session.store))
    content = _content(str(path), name)
    return added(session, content, name=name, type="file")


def _content(path: str, name: str) -> str | bytes:
    """The file's text, or its bytes if it is none; Invalid for one that is too large."""
    try:
        with open_regular(path) as file:
            content = file.read(SIZE_MAX + 1)
    except OSError as error:
        raise os_failure(error, f"cannot read {name}") from error
    if len(content) > SIZE_MAX:
        reason = f"{name} is larger than {number(SIZE_MAX, 'byte')}"
        raise Invalid(reason, hint="add the part that matters, or a search in it")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content


CONTEXT_ADD = Command(
    name="context add",
    arguments=AddArguments,
    run=run_context_add,
    show=show,
)


PATH = Meta(
    description="The folder, from the current one.",
    extra={"positional": True, "completes": "folder"},
)
DEPTH = Meta(description="At most this many folders deep.", ge=1, le=50)
LIMIT = Meta(description="At most this many files and folders.", ge=1, le=20_000)
ADD_FOLDER_ANYWHERE = Meta(description="Allow a folder outside the current one.")


class AddFolderArguments(Arguments, frozen=True, kw_only=True):
    path: Annotated[str, PATH]
    depth: Annotated[int, DEPTH] = 6
    limit: Annotated[int, LIMIT] = 1_000
    anywhere: Annotated[bool, ADD_FOLDER_ANYWHERE] = False


def run_context_add_folder(session: Session, arguments: AddFolderArguments) -> Added:
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


CONTEXT_ADD_FOLDER = Command(
    name="context add-folder",
    details="Leaves out what .gitignore names and the store, and lists names and sizes only.",
    arguments=AddFolderArguments,
    run=run_context_add_folder,
    show=show,
)


LINE_CHARS = 300
QUERY = Meta(description="The text to look for, as it is written: not a pattern.", extra=TEXT)
FOLDER = Meta(
    description="Only below this folder.", extra={"metavar": "PATH", "completes": "folder"}
)
ADD_SEARCH_LIMIT = Meta(description="At most this many lines.", ge=1, le=10_000)
ADD_SEARCH_ANYWHERE = Meta(description="Allow a folder outside the current one.")


class AddSearchArguments(Arguments, frozen=True, kw_only=True):
    query: Annotated[str, QUERY]
    folder: Annotated[str, FOLDER] = "."
    limit: Annotated[int, ADD_SEARCH_LIMIT] = 200
    anywhere: Annotated[bool, ADD_SEARCH_ANYWHERE] = False


def run_context_add_search(session: Session, arguments: AddSearchArguments) -> Added:
    session.check_conversation()
    query = arguments.query
    if not query.strip():
        raise Invalid("there is nothing to look for", hint="give a text that a line may contain")
    path, _ = inside(arguments.folder, anywhere=arguments.anywhere)
    guards = guarded(session.store)
    refuse_guarded(str(path), guards)
    found = matches(str(path), query, limit=arguments.limit, without=guards)
    shown = short_line(query, 80)
    if not found.lines:
        reason = f"none of the {found.files:,} files contains {shown!r}"
        raise NotFound(reason, hint="a search is for a text as it is written, not for a pattern")
    text = "\n".join(map(_add_search_line, found.lines))
    name = f'Search results: "{shown}"'
    return added(session, text, name=name, type="search_result", query=query, stopped=found.stopped)


def _add_search_line(match: Match) -> str:
    return f"{match.path}:{match.number}: {short_line(match.line.strip(), LINE_CHARS)}"


CONTEXT_ADD_SEARCH = Command(
    name="context add-search",
    details="Leaves out what .gitignore names, the store, very large files and what is not text.",
    arguments=AddSearchArguments,
    run=run_context_add_search,
    show=show,
)
