"""`refold context add-search`: lines of the current folder that contain a text, kept and shown to
the model."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import TEXT, Arguments, Command
from refold.edges.commands.context.added import Added, added, show
from refold.edges.commands.session import Session
from refold.edges.commands.text import short_line
from refold.edges.workspace.guarded import guarded, refuse_guarded
from refold.edges.workspace.match import Match, matches
from refold.edges.workspace.place import inside
from refold.errors import Invalid, NotFound

LINE_CHARS = 300
QUERY = Meta(description="The text to look for, as it is written: not a pattern.", extra=TEXT)
FOLDER = Meta(
    description="Only below this folder.", extra={"metavar": "PATH", "completes": "folder"}
)
LIMIT = Meta(description="At most this many lines.", ge=1, le=10_000)
ANYWHERE = Meta(description="Allow a folder outside the current one.")


class AddSearchArguments(Arguments, frozen=True, kw_only=True):
    query: Annotated[str, QUERY]
    folder: Annotated[str, FOLDER] = "."
    limit: Annotated[int, LIMIT] = 200
    anywhere: Annotated[bool, ANYWHERE] = False


def run(session: Session, arguments: AddSearchArguments) -> Added:
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
    text = "\n".join(map(_line, found.lines))
    name = f'Search results: "{shown}"'
    return added(session, text, name=name, type="search_result", query=query, stopped=found.stopped)


def _line(match: Match) -> str:
    return f"{match.path}:{match.number}: {short_line(match.line.strip(), LINE_CHARS)}"


COMMAND = Command(
    name="context add-search",
    details="Leaves out what .gitignore names, the store, very large files and what is not text.",
    arguments=AddSearchArguments,
    run=run,
    show=show,
)
