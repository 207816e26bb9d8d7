"""The commands by name, and the one place where an error becomes a line and an exit status.

A command is imported when it is called. The table of exit statuses is `errors.OUTCOMES`; 130 and
141 are what a shell gives for an interrupt and a closed pipe. A person never sees a traceback
unless they ask for it by `--debug`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from refold.display import suggestion
from refold.edges.cli.options import HELP, output_options
from refold.edges.cli.screen import Screen, one_line
from refold.errors import OUTCOMES, RefoldError

COMMANDS = {
    # name: the file of this room; the command stands in it under its name with an underscore behind
    "list": "listing",
    "show": "showing",
    "stats": "listing",
    "compact": "compacting",
    "undo": "compacting",
    "export": "moving",
    "import": "moving",
    "copy": "copying",
    "delete": "clearing",
    "sweep": "clearing",
    "artifacts": "artifacts",
    "search": "searching",
    "index": "searching",
    "scan": "scanning",
    "verify": "checking",
    "doctor": "doctor",
    "demo": "trying",
}
INTERRUPTED, PIPE_CLOSED = 130, 141
MESSAGE_MAX = 2_000


class Commands(click.Group):
    """The group: lazy, with the nearest name for one that it does not know."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found = getattr(import_module(f"refold.edges.cli.{COMMANDS[cmd_name]}"), f"{cmd_name}_")
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS:
            hint = suggestion(args[0], COMMANDS)
            raise click.UsageError(f"there is no command {one_line(args[0], 40)!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> NoReturn:
        sys.exit(outcome(list(sys.argv[1:] if args is None else args)))


def outcome(args: list[str]) -> int:
    """Runs a command and gives the exit status."""
    screen = Screen(json_output="--json" in args, no_color="--no-color" in args)
    try:
        status = _run(args, screen)
        sys.stdout.flush()
    except BrokenPipeError:
        _let_go_of_stdout()
        return PIPE_CLOSED
    except OSError as error:
        _let_go_of_stdout()
        _say(f"cannot write the output: {error.strerror or error}", "")
        return OUTCOMES["unavailable"][1]
    return status


def _run(args: list[str], screen: Screen) -> int:
    try:
        with commands.make_context("refold", args, obj=screen) as ctx:
            commands.invoke(ctx)
    except click.exceptions.Exit as error:
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.ClickException as error:
        path = (
            error.ctx.command_path
            if isinstance(error, click.UsageError) and error.ctx
            else "refold"
        )
        _report(screen, "invalid", error.format_message().rstrip("."), f"{path} --help")
        return OUTCOMES["invalid"][1]
    except RefoldError as error:
        _report(screen, error.code, str(error), error.hint)
        _explain(args)
        return OUTCOMES[error.code][1]
    except OSError:
        raise
    except Exception as error:
        kind = f"internal error: {type(error).__name__}: {error}"
        _report(screen, "error", kind, "run with --debug for details")
        _explain(args)
        return OUTCOMES["error"][1]
    return 0


def _report(screen: Screen, code: str, message: str, hint: str) -> None:
    """Says what went wrong: as the JSON object that was asked for, else on standard error."""
    message, hint = map(_without_secrets, (message, hint))
    if screen.json_output:
        screen.emit({"error": {"code": code, "message": message, "hint": hint}})
    else:
        _say(message, hint)


def _without_secrets(text: str) -> str:
    """An error may quote an address, an argument or a content; what it says ends in logs."""
    from refold.redaction import redactor
    from refold.settings.sources import loaded

    try:
        redact = loaded()[0].redact
    except RefoldError:
        # The settings may be the very thing that is wrong.
        redact = True
    return redactor(redact, "logs")(text)


def _say(message: str, hint: str) -> None:
    errors = Screen(out=sys.stderr)
    errors.line(
        f"refold: {one_line(message, MESSAGE_MAX)}"
        + (f"; {one_line(hint, MESSAGE_MAX)}" if hint else "")
    )


def _explain(args: list[str]) -> None:
    if "--debug" in args:
        Screen(out=sys.stderr).line(traceback.format_exc())


def _let_go_of_stdout() -> None:
    """Sends what is still to be printed nowhere, or the interpreter would complain about it at
    its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from refold import __version__

        ctx.obj.line(f"refold {__version__}")
        ctx.exit()


@click.group(cls=Commands, context_settings=HELP, invoke_without_command=True)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Print the version.",
)
@click.pass_context
def _commands(ctx: click.Context) -> None:
    """Keeps all of an agent's conversation, and sends the best page that fits.

    The commands below look into a store: the .refold folder of this project, unless --store names
    another.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for _decorate in output_options:
    _commands = _decorate(_commands)
assert isinstance(_commands, Commands)
commands: Commands = _commands
