"""The arguments of a command as options of click, and commands written out to be pasted.

Every `Parameter` becomes an option, or an argument if it is positional. `app` reads `--json`,
`--no-color` and `--debug` before anything else, because they also decide how an error is shown;
here they are only part of the help. A command that we print is quoted for the shell and carries the
places of this call (`--store`, `--project`, `--scope`, ...) if it takes the same options, but no
default. Neighbours: `Screen.call` writes the commands of results (`in_shell`, `in_chat`), `app`
those in the hints of errors (`at_places`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import click

from refold.edges.commands import ALIASES, COMMANDS, load
from refold.edges.commands.command import Command, Parameter, Taking, parameters_of
from refold.edges.commands.line import split

HELP = {"help_option_names": ["-h", "--help"]}
Joined = Callable[[click.Context, click.Parameter, tuple[str, ...]], str | None]
STORE_HELP = "The store; by default the .refold folder of this project."


def parameters(command: Command[Any, Any]) -> Iterator[click.Parameter]:
    """What the command line takes: the command's own arguments, then what all commands share."""
    if command.on in ("conversation", "either"):
        # or @1, the newest: see `Session.find`
        is_needed = command.on == "conversation"
        metavar = "ID" if is_needed else "[ID]"
        yield click.Argument(["conversation"], metavar=metavar, required=is_needed)
    own = list(own_parameters(command))
    yield from own
    if command.on != "nothing":
        yield click.Option(["--store"], metavar="URL", help=STORE_HELP)
    taken = {name for one in own for name in one.opts}
    yield from (one for one in output_options() if one.opts[0] not in taken)


def own_parameters(command: Taking) -> Iterator[click.Parameter]:
    """The command's own arguments, for click."""
    for parameter in parameters_of(command):
        yield _option(parameter) if parameter.option else _argument(parameter)


def output_options() -> Iterator[click.Option]:
    """Options of every command for how its result is shown."""
    for name, text in (
        ("--json", "Print one JSON object and nothing else."),
        ("--no-color", "Print without colors."),
        ("--debug", "Show where an error came from."),
    ):
        yield click.Option([name], is_flag=True, expose_value=False, help=text)


def _argument(parameter: Parameter) -> click.Argument:
    """An argument that is given by its position, many of them for a tuple or a long text."""
    is_many = parameter.is_many or parameter.takes_rest
    return click.Argument(
        [parameter.name],
        metavar=parameter.shown,
        nargs=-1 if is_many else 1,
        type=_value_type(parameter),
        callback=_joined(parameter) if parameter.takes_rest else None,
        **_presence(parameter, is_many=is_many),
    )


def _joined(parameter: Parameter) -> Joined:
    """Joins the words of a text."""

    def joined(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> str | None:
        return " ".join(words) if words else parameter.default

    return joined


def _option(parameter: Parameter) -> click.Option:
    names = [parameter.option, parameter.name]
    if parameter.short:
        names.append(parameter.short)
    if parameter.kind == "flag":
        return click.Option(names, is_flag=True, help=parameter.help)
    bare: dict[str, Any] = {}
    if parameter.bare is not None:
        bare = {"is_flag": False, "flag_value": parameter.bare}
    return click.Option(
        names,
        type=_value_type(parameter),
        metavar=parameter.metavar or None,
        multiple=parameter.is_many,
        show_default=parameter.kind in ("int", "float"),
        help=parameter.help,
        **bare,
        **_presence(parameter, is_many=parameter.is_many),
    )


def _presence(parameter: Parameter, *, is_many: bool) -> dict[str, Any]:
    """Whether it must be given, and what it is if it is not. For click, None is a default like
    any other, and what has one is not required."""
    if parameter.is_required or is_many:
        return {"required": parameter.is_required}
    return {"required": False, "default": parameter.default}


def _value_type(parameter: Parameter) -> click.ParamType[Any]:
    match parameter.kind:
        case "choice":
            return click.Choice(parameter.choices)
        case "int":
            least, most = parameter.least, parameter.most
            return click.IntRange(
                None if least is None else int(least), None if most is None else int(most)
            )
        case "float":
            return click.FloatRange(parameter.least, parameter.most)
    return click.STRING


PLACES = ("--store", "--project", "--scope", "--far", "--key")


class Place(NamedTuple):
    """An option that says where a command works, with the value it was given. Two options are
    the same if they say the same: the store of a server is not that of a conversation."""

    option: str
    help: str
    value: str


def places_of(command: Command[Any, Any], given: Mapping[str, Any]) -> tuple[Place, ...]:
    """Where a call was told to work."""
    taken = _place_options(command.name)
    values = ((option, help, default, given.get(option[2:])) for option, help, default in taken)
    return tuple(
        Place(option, help, value)
        for option, help, default, value in values
        if isinstance(value, str) and value != default
    )


def in_shell(name: str, words: tuple[str, ...], places: tuple[Place, ...]) -> str:
    """`refold undo ID --store sqlite:other.db`, as a shell reads it."""
    quoted = map(shlex.quote, words)
    return " ".join(("refold", name, *quoted, *_carried(name, " ".join(words), places)))


def in_chat(name: str, words: tuple[str, ...]) -> str:
    """`/restore "two words"`, as a chat reads it."""
    return " ".join((f"/{name}", *map(_quoted_in_chat, words)))


def at_places(text: str, places: tuple[Place, ...], conversation: str = "") -> str:
    """A hint with these places in every command of the shell that it names."""
    if not places:
        return text

    def placed(found: re.Match[str]) -> str:
        return " ".join((found[0], *_carried(found[1], text, places)))

    return _calls_in_text(conversation or "ID").sub(placed, text)


def _carried(name: str, written: str, places: tuple[Place, ...]) -> Iterator[str]:
    """The options of a command that say where it works, but for those that are written already."""
    if not places:
        return
    taken = {(option, help) for option, help, _ in _place_options(name)}
    for option, help, value in places:
        if (option, help) in taken and option not in written.split():
            yield f"{option} {shlex.quote(value)}"


@cache
def _place_options(name: str) -> tuple[tuple[str, str, object], ...]:
    """The options of a command that say where it works: name, help and default."""
    if name not in COMMANDS and name not in ALIASES:
        return ()
    command = load(name)
    own = [(one.option, one.help, one.default) for one in parameters_of(command)]
    store = [("--store", STORE_HELP, None)] if command.on != "nothing" else []
    return tuple(one for one in (*store, *own) if one[0] in PLACES)


@cache
def _calls_in_text(conversation: str) -> re.Pattern[str]:
    """Finds commands to run, with their ID; not `refold X --help`, nor `refold X wrote`."""
    names = "|".join(sorted([*COMMANDS, *ALIASES], key=len, reverse=True))
    id = f"(?: (?:ID|@1|{re.escape(conversation)})(?![\\w.-]))?"
    return re.compile(rf"\brefold ({names})\b(?!-)(?! --help| wrote){id}")


def _quoted_in_chat(word: str) -> str:
    if split(word) == [word]:
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
