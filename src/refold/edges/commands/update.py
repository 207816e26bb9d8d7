"""`refold update`: the title, the tags, the names and the model of a conversation."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from refold.edges.commands import model
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.model import Chosen, ModelArguments
from refold.edges.commands.session import Session
from refold.edges.commands.text import short_line
from refold.errors import Invalid

TITLE = Meta(description="The new title.")
TAGS = Meta(description="A tag; replaces those it has. May be repeated.")
NAMES = Meta(description="A name, in addition to the id; replaces those it has. May be repeated.")
MODEL = Meta(
    description="The model for the next requests.",
    extra={"metavar": "NAME", "completes": "model"},
)


class UpdateArguments(Arguments, frozen=True, kw_only=True):
    title: Annotated[str, TITLE] | None = None
    tags: Annotated[tuple[str, ...], TAGS] = field(name="tag", default=())
    names: Annotated[tuple[str, ...], NAMES] = field(name="name", default=())
    model: Annotated[str, MODEL] | None = None


class Updated(Result, frozen=True, kw_only=True):
    """`chosen` is there if another model was named: what the page is for it."""

    conversation: str
    title: str
    tags: tuple[str, ...]
    names: tuple[str, ...]
    model: str
    chosen: Chosen | None = None


def run(session: Session, arguments: UpdateArguments) -> Updated:
    given = arguments.title, arguments.tags or None, arguments.names or None, arguments.model
    if all(value is None for value in given):
        raise Invalid("there is nothing to update", hint="give --title, --tag, --name or --model")
    title, tags, names, name = given
    chosen = None if name is None else model.run(session, ModelArguments(name=name))
    with session.context(writes=True) as context:
        context.update(title=title, tags=tags, names=names)
        context.flush()
        view = context.view
        called = context.stats().title
    return Updated(
        conversation=context.id,
        title=called,
        tags=view.tags,
        names=view.names,
        model=view.model,
        chosen=chosen,
    )


def show(updated: Updated, screen: Screen) -> None:
    names = ", ".join(short_line(name, 200) for name in updated.names)
    screen.fields(
        [
            ("Conversation", updated.conversation),
            *([("Names", names)] if names else []),
            ("Title", short_line(updated.title, 200)),
            ("Tags", ", ".join(updated.tags) or "none"),
            ("Model", updated.model or "unknown"),
        ]
    )
    if updated.chosen is not None:
        model.show(updated.chosen, screen)


COMMAND = Command(
    name="update",
    arguments=UpdateArguments,
    run=run,
    show=show,
)
