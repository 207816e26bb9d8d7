"""`refold context messages`: every message in one line, also one that the page does not show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from refold.core.model import Event, Message, Role, View
from refold.core.shortened import ERASED
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.events import State, body_of, event_row, state_of, whole_slots
from refold.edges.commands.session import Session
from refold.edges.commands.text import short_line
from refold.log.reading import pages_of
from refold.log.unfold import body_text

TEXT_CHARS, LINE_CHARS = 300, 100
ROLE = Meta(description="Only messages of this role.")
STYLES = {"hidden": "dim", "shortened": "yellow"}


class MessagesArguments(Arguments, frozen=True, kw_only=True):
    role: Annotated[Role, ROLE] | None = None


class Listed(Struct, frozen=True, kw_only=True):
    """One message; `role` is empty if it was erased, `text` is how it begins."""

    seq: int
    role: str
    tokens: int
    shown: State
    text: str


class Messages(Result, frozen=True, kw_only=True):
    conversation: str
    messages: Iterator[Listed]


def run(session: Session, arguments: MessagesArguments) -> Messages:
    with session.context() as context:
        view = context.view
    pages = pages_of(session.store, context.id, last=view.head)
    events = (event for page in pages for event in page if event.kind == "message")
    return Messages(conversation=context.id, messages=_listed(events, view, arguments.role))


def _listed(events: Iterator[Event], view: View, role: Role | None) -> Iterator[Listed]:
    slots = whole_slots(view)
    for event in events:
        row = event_row(event)
        body = body_of(row)
        said, text = "", ERASED
        if isinstance(body, Message):
            said, text = body.role, body_text(body)
        if role in (None, said):
            yield Listed(
                seq=event.seq,
                role=said,
                tokens=event.tokens,
                shown=state_of(event, slots),
                text=text[:TEXT_CHARS],
            )


def show(found: Messages, screen: Screen) -> None:
    for one in found.messages:
        note = "" if one.shown == "whole" else f" ({one.shown})"
        head = f"#{one.seq} [{(one.role or 'erased').capitalize()}]{note} "
        screen.line((STYLES.get(one.shown, "cyan"), head), short_line(one.text, LINE_CHARS))


COMMAND = Command(
    name="context messages",
    reads=True,
    arguments=MessagesArguments,
    run=run,
    show=show,
)
