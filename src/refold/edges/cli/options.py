"""What a command takes, as options and arguments of a command line.

Every `Parameter` of a command becomes an option of click, or an argument if its place says what it
is. `--json`, `--no-color` and `--debug` are read by `app` before anything else, because they also
decide how an error is shown; here they are only part of the help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click

from refold.edges.commands.command import Command
from refold.edges.commands.parameters import Parameter, parameters_of

HELP = {"help_option_names": ["-h", "--help"]}
Joined = Callable[[click.Context, click.Parameter, tuple[str, ...]], str | None]
STORE_HELP = "The store; by default the .refold folder of this project."


def parameters(command: Command[Any, Any]) -> Iterator[click.Parameter]:
    """What the command line takes: the command's own arguments, then what all commands share."""
    if command.on == "conversation":
        # or @1, the newest: see `Session.find`
        yield click.Argument(["conversation"], metavar="ID")
    for parameter in parameters_of(command):
        yield _option(parameter) if parameter.option else _argument(parameter)
    if command.on != "nothing":
        yield click.Option(["--store"], metavar="URL", help=STORE_HELP)
    yield from output_options()


def output_options() -> Iterator[click.Option]:
    """What every command takes that says how its result is shown."""
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
    """Makes one text of words that stand apart on the command line."""

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
