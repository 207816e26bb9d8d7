"""`refold add`: a file, the tree of a folder or the lines of a search, shown to the model.

The text becomes an artifact, and a message shows it: all of it if it is short, the beginning if it
is long, one, between marks that nothing inside can close. The message is not a request, so the
latest request stays the same. A restore to the previous position removes it. Neighbour:
`edges/workspace` reads the folder.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import islice
from typing import Annotated

from msgspec import Meta

from refold.core.model import ADDED, Artifact, ArtifactType, Message, Origin, Text
from refold.display import fenced, number, one_line, visible
from refold.edges.commands.command import TEXT, Limit, Result, Screen, command, short_line
from refold.edges.commands.session import Session
from refold.edges.workspace import Found, guarded, inside, matches, refuse_guarded, walk
from refold.errors import Invalid, NotFound
from refold.system.disk import open_regular, os_failure

SHOWN_CHARS = 16_000
HEAD_LINES, HEAD_CHARS = 40, 4_000
SIZE_MAX = 20_000_000
LINE_CHARS = 300
FILES_MAX, LINES_MAX = 1_000, 200


WHAT = Meta(
    description="A file or a folder, from the current one; with --search, the text to look for.",
    extra={**TEXT, "metavar": "WHAT", "completes": "file"},
)
SEARCH = Meta(description="Add the lines of this folder that contain WHAT, as it is written.")
FOLDER = Meta(
    description="With --search: only below this folder.",
    extra={"metavar": "PATH", "completes": "folder"},
)
DEPTH = Meta(description="Of a folder: at most this many levels deep.", ge=1, le=50)
ANYWHERE = Meta(description="Allow what is outside the current folder.")


@command(
    "add",
    details="Of a folder, lists names and sizes. Leaves out what .gitignore names, the store, and "
    "in a search also very large files and what is not text.",
)
def add(
    session: Session,
    *,
    what: Annotated[str, WHAT],
    search: Annotated[bool, SEARCH] = False,
    folder: Annotated[str, FOLDER] = ".",
    depth: Annotated[int, DEPTH] = 6,
    limit: Limit | None = None,
    anywhere: Annotated[bool, ANYWHERE] = False,
) -> Added:
    session.check_conversation()
    path, name = inside(folder if search else what, anywhere=anywhere)
    guards = guarded(session.store)
    if search:
        refuse_guarded(str(path), guards)
        return _lines(session, what, str(path), guards, limit or LINES_MAX)
    if path.is_dir():
        refuse_guarded(str(path), guards)
        most = limit or FILES_MAX
        # One more than the limit shows that there are others.
        found = list(islice(walk(str(path), depth_max=depth, without=guards), most + 1))
        shown = path.name if name == "." else name.rstrip("/")
        return _tree(session, found, shown, path.name, depth, most)
    if not path.is_file():
        raise Invalid(f"{name} is not a regular file", hint="pipes and devices are not read")
    refuse_guarded(str(path), guards)
    return added(session, _content(str(path), name), name=name, type="file")


class Added(Result, frozen=True, kw_only=True):
    """The artifact, and the message that shows it; `tokens` is its size on the page, `before` the
    seq to go back to. `stopped` is the reason why something was left out."""

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

    def show(self, screen: Screen) -> None:
        size = number(self.lines, "line") if self.lines else number(self.size_bytes, "byte")
        name = short_line(self.name, 200)
        kept = f": {self.artifact}, {size}. Message #{self.seq}, {number(self.tokens, 'token')}."
        screen.line(("bold", f"Added {name}"), kept)
        if self.stopped:
            screen.line(("yellow", f"Not everything: {self.stopped}."))
        back = screen.call("restore", self.conversation, str(self.before))
        screen.line(("dim", f"Go back with: {back}"))


def added(
    session: Session,
    content: str | bytes,
    *,
    name: str,
    type: ArtifactType,
    query: str = "",
    stopped: str = "",
) -> Added:
    """Stores a content with the conversation, and shows it to the model."""
    with session.context(writes=True) as context:
        before = context.view.head
        origin = Origin(query=query)
        artifact = context.artifacts.put(content, name=name, type=type, origin=origin)
        text = _message(artifact, content if isinstance(content, str) else "", stopped)
        events = context.append(
            Message(role="user", blocks=(Text(text),), metadata={ADDED: artifact.id})
        )
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
    """`[Added file src/a.py, 250 lines: artifact://art-…]` and the text, or its beginning."""
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


def _content(path: str, name: str) -> str | bytes:
    """The file's text, or its bytes if it is not UTF-8; Invalid if it is too large."""
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


def _tree(
    session: Session, found: list[Found], shown: str, name: str, depth: int, limit: int
) -> Added:
    """Adds files and folders as a tree, at most `limit`."""
    listed = found[:limit]
    text = "\n".join([f"{name}/", *map(_tree_line, listed)])
    stopped = ""
    if len(found) > limit:
        stopped = f"only the first {limit:,} files and folders are listed"
    elif any(one.is_deeper for one in listed):
        stopped = f"folders below {depth} levels are not looked into"
    return added(session, text, name=f"{shown}/", type="file", stopped=stopped)


def _tree_line(one: Found) -> str:
    """`    login.py (1,204 bytes)`, with the name escaped: it is foreign text."""
    name = visible(one.path.rpartition("/")[2]).replace("\n", "\\n")
    indent = "  " * one.depth
    if one.is_folder:
        return f"{indent}{name}/" + (" ..." if one.is_deeper else "")
    return f"{indent}{name} ({number(one.size_bytes, 'byte')})"


def _lines(session: Session, query: str, folder: str, guards: Container[str], limit: int) -> Added:
    """Adds the lines in a folder that contain the text."""
    if not query.strip():
        raise Invalid("there is nothing to look for", hint="pass text that a line may contain")
    found = matches(folder, query, limit=limit, without=guards)
    shown = short_line(query, 80)
    if not found.lines:
        reason = f"none of the {found.files:,} files contains {shown!r}"
        raise NotFound(reason, hint="a search looks for the exact text, not for a pattern")
    lines = (
        f"{one.path}:{one.number}: {short_line(one.line.strip(), LINE_CHARS)}"
        for one in found.lines
    )
    return added(
        session,
        "\n".join(lines),
        name=f'Search results: "{shown}"',
        type="search_result",
        query=query,
        stopped=found.stopped,
    )
