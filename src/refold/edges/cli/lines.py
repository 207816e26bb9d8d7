"""A line of a chat, such as `/show --list --role user`, read as a command of the table.

`parse(line)` gives the command and its arguments, ready for `command.run(session, arguments)`.
Click reads the words, by the same options as in a shell; its errors become `Invalid` with the
nearest name. A line never names the conversation: it is the session's. Neighbours: `commands.line`
finds the command that the words name, `options` makes click's options.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import click

from refold.display import suggestion
from refold.edges.cli.options import own_parameters
from refold.edges.commands import load
from refold.edges.commands.command import Arguments, Command, Taking, parameters_of, short_line
from refold.edges.commands.line import (
    asked_help,
    named,
    named_first,
    resolved,
    shell_only,
    split,
    table,
)
from refold.errors import Invalid

JSON = "--json"


class Line(NamedTuple):
    """A command of the table, its arguments, and whether its result is wanted as JSON."""

    command: Command[Any, Any]
    arguments: Arguments
    json_output: bool = False


def parse(line: str, also: Iterable[str] = ()) -> Line:
    """The command that a line names, and its arguments. The caller understands the names `also`
    itself: they are suggested, too. Raises Invalid, with what to write instead."""
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
    """The words as the arguments of the command. Raises Invalid if it does not take them."""
    reader = click.Command(command.name, params=[*own_parameters(command)], add_help_option=False)
    try:
        with reader.make_context(command.name, list(words)) as context:
            arguments: Arguments = command.arguments(**context.params)
            return arguments
    except click.UsageError as error:
        raise _refusal(command, error) from error


def _refusal(command: Taking, error: click.UsageError) -> Invalid:
    """Click's error in the words of a chat."""
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
