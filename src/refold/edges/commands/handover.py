"""`refold handover`: what conversations settled and left open, to go on from.

Neighbour: `engine.handover` makes it from the logs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from refold.conversations.listing import newest
from refold.edges.commands.command import PROJECT, Result, Screen, Since, command, project_of
from refold.edges.commands.search import time_of
from refold.edges.commands.session import Session
from refold.engine.handover import (
    CONVERSATIONS_MAX,
    TITLES,
    TOKENS,
    HandoverItem,
    handed_over,
    named,
    section,
)
from refold.errors import Conflict, NotFound
from refold.system.disk import os_failure

CONVERSATIONS = Meta(
    description="The conversations, by id or name; by default all of a project.",
    extra={"positional": True, "metavar": "ID", "completes": "conversation"},
)
SIZE = Meta(description="How long it may be, in tokens.", ge=200, le=100_000)
HandsOver = Annotated[
    bool,
    Meta(description="Begin each new conversation with a hand-over of the earlier ones."),
]
TO = Meta(description="A new folder to write it to, a file for each section.")


class HandedOver(Result, frozen=True, kw_only=True):
    """The hand-over, whole as `text`, and by section; `files` are those written."""

    text: str
    project: str
    conversations: tuple[str, ...]
    sections: dict[str, tuple[HandoverItem, ...]]
    files: tuple[str, ...] = ()

    def show(self, screen: Screen) -> None:
        if self.files:
            for file in self.files:
                screen.line(file)
            return
        for line in self.text.splitlines():
            screen.line(line)


@command(
    "handover",
    details="Rules in force, requests, decisions, open to-dos, files and commands, each with its "
    "source, by code and without a model, also from imported sessions. By default of this folder's "
    "project; if the store has none of it, of the project that spoke last. With --to, read-only "
    "files for agents that search a folder.",
    on="store",
    reads=True,
)
def handover(
    session: Session,
    *,
    conversations: Annotated[tuple[str, ...], CONVERSATIONS] = (),
    project: Annotated[str, PROJECT] | None = None,
    since: Since | None = None,
    tokens: Annotated[int, SIZE] = TOKENS,
    to: Annotated[str, TO] = "",
) -> HandedOver:
    start = time_of(since)
    from_ms = 0 if start is None else int(start.timestamp() * 1_000)
    store = session.store
    if conversations or project is None:
        # A store of several projects may hold none of this one.
        found = named(store, conversations, os.getcwd()) or named(store, conversations)
    else:
        found = newest(store, folder=project_of(project), limit=CONVERSATIONS_MAX)
    made = handed_over(store, found, session.config, tokens=tokens, from_ms=from_ms)
    if not made.conversations:
        raise NotFound("no conversation has anything to hand over", hint="append messages first")
    files = _written(Path(to), made.sections) if to else ()
    return HandedOver(
        text=made.text,
        project=made.project,
        conversations=made.conversations,
        sections=made.sections,
        files=files,
    )


def _written(folder: Path, sections: dict[str, tuple[HandoverItem, ...]]) -> tuple[str, ...]:
    """Writes each section to a read-only file in a new folder."""
    try:
        folder.mkdir(parents=True)
        paths = [folder / f"{name}.md" for name in TITLES if name in sections]
        for path in paths:
            path.write_text(section(path.stem, sections[path.stem]), encoding="utf-8")
            path.chmod(0o400)
    except FileExistsError as error:
        raise Conflict(f"{folder} exists", hint="name a new folder") from error
    except OSError as error:
        raise os_failure(error, f"{folder} cannot be written") from error
    return tuple(map(str, paths))
