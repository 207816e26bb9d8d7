"""What commands share: the options that all of them take, and how they open a store or a
conversation.

`--json`, `--no-color` and `--debug` are read by `app` before anything else, because they also
decide how an error is shown; here they only stand in the help. Reading commands never write, not
even a bookmark.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from refold.edges.cli.screen import Screen, one_line
from refold.errors import OUTCOMES, Corrupt, Invalid

if TYPE_CHECKING:
    from refold.engine.context import Context
    from refold.stores.protocol import Store

Decorator = Callable[[Any], Any]

HELP = {"help_option_names": ["-h", "--help"]}

output_options: tuple[Decorator, ...] = (
    click.option(
        "--json", is_flag=True, expose_value=False, help="Print one JSON object and nothing else."
    ),
    click.option("--no-color", is_flag=True, expose_value=False, help="Print without colours."),
    click.option(
        "--debug", is_flag=True, expose_value=False, help="Show where an error came from."
    ),
)
store_option = click.option(
    "--store", metavar="URL", help="The store; by default the .refold folder of this project."
)
window_option = click.option(
    "--window", type=click.IntRange(min=1), help="The model's window in tokens."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
conversation_argument = click.argument(
    "conversation", metavar="ID"
)  # or @1, the newest: see `named`


def command(name: str, *decorators: Decorator) -> Callable[[Callable[..., None]], click.Command]:
    """A command that takes the shared options behind its own, and the screen as its first
    argument."""

    def made(function: Callable[..., None]) -> click.Command:
        wrapped: Any = click.pass_obj(function)
        for decorate in reversed((*decorators, *output_options)):
            wrapped = decorate(wrapped)
        return click.command(name, context_settings=HELP)(wrapped)

    return made


@contextmanager
def opened_store(url: str | None) -> Iterator[Store]:
    """The store of that URL, or of this project; closed at the end."""
    from refold.settings.sources import default_store
    from refold.stores import open_store

    store = open_store(url or default_store())
    try:
        yield store
    finally:
        store.close()


@contextmanager
def opened(
    conversation: str, url: str | None, *, window: int | None = None, writes: bool = False
) -> Iterator[Context]:
    """A conversation that is there already; NotFound if it is not. What a command `writes` is
    kept like an agent's."""
    from refold.engine.context import Context
    from refold.settings.sources import loaded

    config, _ = loaded()
    with opened_store(url) as store:
        conversation = store.conversation(named(store, conversation)).id
        context = Context(store, conversation, config=config, window=window)
        yield context
        if writes:
            context.close()


def named(store: Store, name: str) -> str:
    """The id of a conversation that was named by it, or as `@1` for the newest, `@2` for the one
    before."""
    from refold.conversations.listing import id_of

    return id_of(store, name)


# --- what goes for good, and what is damaged ---


def confirm(screen: Screen, question: str, yes: bool) -> None:
    """Asks on a terminal; elsewhere --yes must say it."""
    if yes:
        return
    if screen.json_output or not sys.stdin.isatty():
        raise Invalid("what this removes cannot be brought back", hint="say --yes if that is meant")
    if not click.confirm(question, default=False):
        raise click.Abort


def tell_damage(screen: Screen, damaged: Mapping[str, str]) -> None:
    """Says which conversations could not be read."""
    for id, reason in damaged.items():
        screen.line(
            ("red", f"{id} is damaged: "), f"{one_line(reason, 300)}; refold verify {id} says more."
        )


def end_with_damage(damaged: Mapping[str, str]) -> None:
    """The exit status of damage, if there is any, after all the rest was done."""
    if damaged:
        raise click.exceptions.Exit(OUTCOMES[Corrupt.code][1])
