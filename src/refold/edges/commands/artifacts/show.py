"""`refold artifacts show`: what an artifact holds. A long one is read while it is shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta

from refold.edges.commands.artifacts import ARTIFACT, stored_artifacts
from refold.edges.commands.command import Arguments, Command, Pieces, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import line_span
from refold.log.unfold import lines_between

LINES = Meta(description="Only these lines, counted from 1.", extra={"metavar": "A-B"})


class ShowArguments(Arguments, frozen=True, kw_only=True):
    artifact: Annotated[str, ARTIFACT]
    lines: Annotated[str, LINES] | None = None


class Content(Result, frozen=True, kw_only=True):
    conversation: str
    handle: str
    text: Pieces


def run(session: Session, arguments: ShowArguments) -> Content:
    span = None if arguments.lines is None else line_span(arguments.lines)
    stored = stored_artifacts(session)
    found = stored.reader.original(arguments.artifact)
    texts: Iterable[str] = found.texts
    if span is not None:
        first, last = span
        texts = [lines_between(found.texts, first, None if last == -1 else last).text]
    return Content(conversation=stored.id, handle=found.handle, text=Pieces(texts))


def show(content: Content, screen: Screen) -> None:
    last = ""
    for text in content.text:
        screen.text(text)
        last = text or last
    if not last.endswith("\n"):
        screen.line()


COMMAND = Command(
    name="artifacts show",
    reads=True,
    arguments=ShowArguments,
    run=run,
    show=show,
)
