"""`refold model`: which model reads the page and in which window, or others from now on; limits
follow at once."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.display import nearest, number
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import short_line
from refold.edges.displays.phrases import tokens_of
from refold.tokens.models import model_info, table

NAME = Meta(
    description="The model for the next requests.",
    extra={"positional": True, "completes": "model"},
)


WINDOW = Meta(description="The window to work in from now on, in tokens.", ge=1)


class ModelArguments(Arguments, frozen=True, kw_only=True):
    name: Annotated[str, NAME] | None = None
    window: Annotated[int, WINDOW] | None = None


class Chosen(Result, frozen=True, kw_only=True):
    """The model, and what the page is for it. `before` is the one that was there; `nearest` are
    known names like one that is not known, whose window is a guess."""

    conversation: str
    model: str
    before: str
    is_known: bool
    nearest: tuple[str, ...]
    current: int
    window: int
    due: str


def run(session: Session, arguments: ModelArguments) -> Chosen:
    changes = arguments.name is not None or arguments.window is not None
    with session.context(writes=changes) as context:
        before = context.view.model
        if changes:
            context.update(model=arguments.name, window=arguments.window)
            context.flush()
        stats = context.stats()
        model = context.view.model
    is_known = model_info(model).known
    like = () if is_known or not model else tuple(nearest(model, table().models, limit=3))
    return Chosen(
        conversation=context.id,
        model=model,
        before=before,
        is_known=is_known,
        nearest=like,
        current=stats.current,
        window=stats.window,
        due=stats.due,
    )


def show(chosen: Chosen, screen: Screen) -> None:
    name = short_line(chosen.model, 200) or "no model is named"
    screen.line(("bold", name), f": {tokens_of(chosen.current, chosen.window)}")
    if chosen.model and not chosen.is_known:
        hint = f"; did you mean {' or '.join(chosen.nearest)}?" if chosen.nearest else ""
        guess = f"This model is not known; a window of {number(chosen.window, 'token')} is assumed"
        screen.line(("yellow", f"{guess}{hint}"))
    if chosen.due != "none":
        screen.line(("yellow", "The next request makes the page shorter first."))
    if chosen.before and chosen.before != chosen.model:
        back = screen.call("model", chosen.conversation, chosen.before)
        screen.line(("dim", f"Go back with: {back}"))


COMMAND = Command(
    name="model",
    details="Without a NAME and a window, nothing is changed.",
    arguments=ModelArguments,
    run=run,
    show=show,
)
