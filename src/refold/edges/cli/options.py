"""The arguments of a command as click options, the parser of chat lines, and commands for copying.

Every `Parameter` becomes an option, or an argument if it is positional. A chat line such as `/show
--list` is parsed with the same options, and click's errors become `Invalid` with the nearest name.
`app` reads `--json`, `--no-color` and `--debug` first, because they decide how an error is shown. A
printed command is quoted for the shell and repeats the places of this call (`--store`, `--scope`,
...). Neighbours: `commands.command_line` finds the command, `Screen.call` and `app` print commands.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import isfinite
from typing import Any, NamedTuple

import click

from refold.display import suggestion
from refold.edges.commands import ALIASES, COMMANDS, load
from refold.edges.commands.command import (
    Arguments,
    Command,
    Parameter,
    Taking,
    parameters_of,
    short_line,
)
from refold.edges.commands.command_line import (
    asked_help,
    named,
    named_first,
    resolved,
    shell_only,
    split,
    table,
)
from refold.errors import Invalid

HELP = {"help_option_names": ["-h", "--help"]}
Joined = Callable[[click.Context, click.Parameter, tuple[str, ...]], str | None]
STORE_HELP = "The store; by default the .refold folder of this project."


def parameters(command: Command[Any, Any]) -> Iterator[click.Parameter]:
    """The parameters of a command: its own arguments, then the shared options."""
    if command.on in ("conversation", "either"):
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
    """The output options of every command."""
    for name, text in (
        ("--json", "Print one JSON object and nothing else."),
        ("--no-color", "Print without colors."),
        ("--debug", "Show where an error came from."),
    ):
        yield click.Option([name], is_flag=True, expose_value=False, help=text)


def _argument(parameter: Parameter) -> click.Argument:
    """A positional argument; a tuple, or text up to the end of the line, takes several words."""
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
    """A callback that joins the words of the text."""

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
    """Whether the parameter is required, and its default. To click, None is a default like any
    other, and makes a parameter optional."""
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
            return _FiniteRange(parameter.least, parameter.most)
    return click.STRING


class _FiniteRange(click.FloatRange):
    """A range of numbers. Not a number is in every range of click's, and no limit is ever reached
    by it."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


PLACES = ("--store", "--project", "--scope", "--far", "--key")


class Place(NamedTuple):
    """An option that says where a command works, with its value. Options with different help texts
    are different: the store of a server is not the store of a conversation."""

    option: str
    help: str
    value: str


def places_of(command: Command[Any, Any], given: Mapping[str, Any]) -> tuple[Place, ...]:
    """The places given in a call."""
    taken = _place_options(command.name)
    values = ((option, help, default, given.get(option[2:])) for option, help, default in taken)
    return tuple(
        Place(option, help, value)
        for option, help, default, value in values
        if isinstance(value, str) and value != default
    )


def in_shell(name: str, words: tuple[str, ...], places: tuple[Place, ...]) -> str:
    """The command as a shell reads it, such as `refold undo ID --store sqlite:other.db`."""
    quoted = map(shlex.quote, words)
    return " ".join(("refold", name, *quoted, *_carried(name, " ".join(words), places)))


def in_chat(name: str, words: tuple[str, ...]) -> str:
    """The command as a chat reads it, such as `/restore "two words"`."""
    return " ".join((f"/{name}", *map(_quoted_in_chat, words)))


def at_places(text: str, places: tuple[Place, ...], conversation: str = "") -> str:
    """The hint with these places added to its shell commands."""
    if not places:
        return text

    def placed(found: re.Match[str]) -> str:
        return " ".join((found[0], *_carried(found[1], text, places)))

    return _calls_in_text(conversation or "ID").sub(placed, text)


def _carried(name: str, written: str, places: tuple[Place, ...]) -> Iterator[str]:
    """The options for the places that a command accepts, unless already written."""
    if not places:
        return
    taken = {(option, help) for option, help, _ in _place_options(name)}
    for option, help, value in places:
        if (option, help) in taken and option not in written.split():
            yield f"{option} {shlex.quote(value)}"


@cache
def _place_options(name: str) -> tuple[tuple[str, str, object], ...]:
    """The place options of a command: name, help and default."""
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


JSON = "--json"


class Line(NamedTuple):
    """A command of the table, its arguments, and the choice of JSON output."""

    command: Command[Any, Any]
    arguments: Arguments
    json_output: bool = False


def parse(line: str, also: Iterable[str] = ()) -> Line:
    """The command and arguments of a line. The names in `also` are the caller's own commands, and
    are suggested too. Raises Invalid with a correction."""
    typed = named_first(split(line.strip().removeprefix("/")), table())
    if not typed:
        raise Invalid("no command is named", hint="/help lists them")
    words = resolved(typed, is_shell=False)
    if (elsewhere := shell_only(typed)) is not None:
        raise elsewhere
    if (topic := asked_help(typed)) is not None:
        return Line(load("help"), load("help").arguments(command=topic))
    name, words = named(words, also)
    end = words.index("--") if "--" in words else len(words)
    given = [word for word in words[:end] if word != JSON] + words[end:]
    command = load(name)
    return Line(command, arguments_of(command, given), json_output=len(given) < len(words))


def arguments_of(command: Taking, words: Sequence[str]) -> Arguments:
    """The words as arguments of the command. Raises Invalid if they do not match."""
    reader = click.Command(command.name, params=[*own_parameters(command)], add_help_option=False)
    try:
        with reader.make_context(command.name, list(words)) as context:
            arguments: Arguments = command.arguments(**context.params)
            return arguments
    except click.UsageError as error:
        raise _refusal(command, error) from error


def _refusal(command: Taking, error: click.UsageError) -> Invalid:
    """Click's error, reworded for a chat."""
    taken = parameters_of(command)
    hint = f"/help {command.name}"
    if isinstance(error, click.NoSuchOption):
        known = [one.option for one in taken if one.option]
        reason = f"has no option {short_line(error.option_name, 40)}"
        hint = suggestion(error.option_name, known) if known else hint
    elif isinstance(error, click.MissingParameter) and error.param is not None:
        [missing] = [one for one in taken if one.name == error.param.name]
        reason = f"needs {missing.shown}"
    else:
        text = " ".join(error.format_message().split()).rstrip(".")
        reason = f"was not understood: {text[0].lower()}{text[1:]}"
    return Invalid(f"/{command.name} {short_line(reason, 300)}", hint=hint)
