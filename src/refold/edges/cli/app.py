"""The command line: finds and runs commands, and turns errors into a line and an exit status.

A command is imported when it is called. The table of exit statuses is `errors.OUTCOMES`; 130 and
141 are a shell's values for an interrupt and a closed pipe. A traceback is shown only with
`--debug`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile, takewhile
from typing import Any, NoReturn

import click

from refold.checked import quoted
from refold.display import is_text, nearest, one_line, suggestion
from refold.edges.cli.options import HELP, Place, at_places, output_options, parameters, places_of
from refold.edges.cli.screen import Screen
from refold.edges.commands import ALIASES, COMMANDS, DAILY, PREFIXES, load
from refold.edges.commands.command import Command, Document, Result, parameters_of, short_line
from refold.edges.commands.command_line import MISSPELT_MIN, OUTPUT, named_first, resolved, with_id
from refold.edges.commands.help_and_completion import overview
from refold.edges.commands.session import Session
from refold.errors import OUTCOMES, Invalid, RefoldError, with_hint

ABOUT = """Keep all of an agent's conversation, and send the best page that fits.

The commands below work on a store: the .refold folder of this project, unless --store names
another."""
INTERRUPTED, PIPE_CLOSED = 130, 141
MESSAGE_MAX = 2_000


# --- the commands ---


class Commands(click.Group):
    """The commands whose names begin with a prefix, loaded when they are used."""

    def __init__(self, prefix: str = "", **given: Any) -> None:
        super().__init__(
            context_settings=HELP,
            invoke_without_command=True,
            callback=_print_help,
            **given,
        )
        self.prefix = prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        names = [name for name in COMMANDS if name.startswith(self.prefix)]
        # A group is named once for all of its commands.
        return list(dict.fromkeys(name.removeprefix(self.prefix).split()[0] for name in names))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = self.prefix + cmd_name
        if name in PREFIXES:
            return Commands(
                f"{name} ", name=cmd_name, help=_group_help(name), params=_group_parameters(name)
            )
        return _as_click(load(name)) if name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = [*DAILY] if not self.prefix else self.list_commands(ctx)
        with formatter.section("Commands"):
            summaries = {**{name: one.summary for name, one in COMMANDS.items()}, **PREFIXES}
            formatter.write_dl([(name, summaries[self.prefix + name]) for name in names])
        if not self.prefix:
            with formatter.section("More commands"):
                formatter.write_dl([*overview(COMMANDS).items()])
            formatter.write_paragraph()
            formatter.write_text("refold help COMMAND explains a command, or a group of them.")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        name = self.prefix + args[0]
        if name in PREFIXES and name in COMMANDS and _is_for_group(name, args[1:]):
            # A group that is a command itself: `refold context ID`.
            return args[0], _as_click(load(name)), args[1:]
        if args[0] in known:
            return super().resolve_command(ctx, args)
        # Aliases are suggested for a typo, but not listed.
        also = [] if self.prefix else [name.split()[0] for name in ALIASES]
        is_near = bool(nearest(args[0], [*known, *also]))
        hint = suggestion(args[0], [*known, *also] if is_near else known)
        wrong = quoted(one_line(args[0]), 40)
        raise click.UsageError(f"there is no command {wrong}; {hint}", ctx)

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> NoReturn:
        sys.exit(outcome(list(sys.argv[1:] if args is None else args)))


def _is_for_group(group: str, args: list[str]) -> bool:
    """Whether the words after a prefix belong to the command of that name and not to one of its
    inner commands, perhaps misspelled: an id comes alone, unless the command takes several, and
    resembles no inner name. Output options may come first."""
    inner = [name.removeprefix(f"{group} ") for name in COMMANDS if name.startswith(f"{group} ")]
    known = [name.split()[0] for name in inner]
    words = list(dropwhile(OUTPUT.__contains__, args))
    if not words:
        return load(group).on != "conversation"
    if words[0] in known or words[0] in HELP["help_option_names"]:
        return False
    if words[0].startswith("-"):
        return True
    is_alone = len(words) == 1 or words[1].startswith("-") or load(group).on == "store"
    return is_alone and not nearest(words[0], known, alike_min=MISSPELT_MIN)


def _group_help(name: str) -> str:
    if name not in COMMANDS:
        return PREFIXES[name]
    command = load(name)
    if command.on != "conversation":
        return f"{command.summary}\n\n{command.details}"
    taken = "".join(f" [{one.shown}]" for one in parameters_of(command))
    own = f"refold {name} ID{taken}: {command.summary}"
    return f"{PREFIXES[name]}\n\n{own}"


def _group_parameters(name: str) -> list[click.Parameter]:
    """The options in the help of a group: the options of the command with its name, if it takes
    no id. A word after the group is one of its commands."""
    if name in COMMANDS and load(name).on != "conversation":
        return [one for one in parameters(load(name)) if isinstance(one, click.Option)]
    return [*output_options()]


@click.pass_context
def _print_help(ctx: click.Context, /, **_: Any) -> None:
    if ctx.invoked_subcommand is not None:
        return
    if ctx.obj.json_output:
        # Help is not JSON.
        raise click.UsageError("no command is named", ctx)
    click.echo(ctx.get_help())


def _as_click(command: Command[Any, Any]) -> click.Command:
    """The click command, with its options."""

    @click.pass_obj
    def callback(screen: Screen, /, **given: Any) -> None:
        _run_command(command, screen, given)

    passes_on = any(one.passes_on for one in parameters_of(command))
    return click.Command(
        command.name.split()[-1],
        callback=callback,
        params=[*parameters(command)],
        help=f"{command.summary}\n\n{command.details}",
        short_help=command.summary,
        context_settings={**HELP, "allow_interspersed_args": not passes_on},
    )


def _run_command(command: Command[Any, Any], screen: Screen, given: Mapping[str, Any]) -> None:
    """Runs a command with the given values, and shows its result."""
    values = dict(given)
    screen.places = places_of(command, given)
    store_url = values.pop("store", None) if command.on != "nothing" else None
    takes_id = command.on in ("conversation", "either")
    conversation = values.pop("conversation") if takes_id else None
    arguments = command.arguments(**values)
    session = Session(
        store_url=store_url,
        conversation=conversation,
        screen=screen,
        stdin=getattr(sys.stdin, "buffer", None),
        read_only=command.is_read_only(arguments),
        derives=command.derives,
    )
    with _complete_hints(given, screen.places), session:
        result = command.run(session, arguments)
        if not screen.json_output:
            session.tell_found()
        _show_result(command, screen, result)
    status = OUTCOMES[result.outcome][1]
    if status:
        raise click.exceptions.Exit(status)


@contextlib.contextmanager
def _complete_hints(given: Mapping[str, Any], places: tuple[Place, ...]) -> Iterator[None]:
    """Adds the conversation and the places of this call to the hint of an error."""
    try:
        yield
    except RefoldError as error:
        id = given.get("conversation") or ""
        error.hint = at_places(with_id(error.hint, id), places, id)
        raise


def _show_result(command: Command[Any, Any], screen: Screen, result: Result) -> None:
    """Shows a result as text, or as JSON with `--json`."""
    if not screen.json_output:
        command.show(result, screen)
    elif not isinstance(result, Document):
        screen.emit(result)
    elif result.is_json:
        screen.document(result.chunks)
    else:
        raise Invalid("--json prints JSON, and Markdown is not JSON", hint="leave out --json")


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from refold import __version__

        ctx.obj.line(f"refold {__version__}")
        ctx.exit()


_VERSION = click.Option(
    ["-V", "--version"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
commands = Commands(name="refold", help=ABOUT, params=[_VERSION, *output_options()])


# --- one run, and its exit status ---


def outcome(args: list[str]) -> int:
    """Runs a command line and returns the exit status."""
    own = _own_words(args)
    screen = Screen(json_output="--json" in own, no_color="--no-color" in own)
    try:
        status = _run(args, screen)
        sys.stdout.flush()
    except BrokenPipeError:
        _let_go_of_stdout()
        return PIPE_CLOSED
    except OSError as error:
        _let_go_of_stdout()
        _print_error(f"cannot write the output: {error.strerror or error}", "")
        return OUTCOMES["unavailable"][1]
    return status


def _own_words(args: list[str]) -> list[str]:
    """The words for refold itself, without the command line of a program that `run` starts."""
    if args[:1] != ["run"]:
        return args
    return list(takewhile(lambda word: word.startswith("-"), args[1:]))


def _run(args: list[str], screen: Screen) -> int:
    try:
        for number, arg in enumerate(args, start=1):
            if not is_text(arg):
                raise click.UsageError(f"argument {number} holds bytes that are not UTF-8")
        words = resolved(named_first(args, COMMANDS), is_shell=True)
        with commands.make_context("refold", words, obj=screen) as ctx:
            commands.invoke(ctx)
    except click.exceptions.Exit as error:
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.ClickException as error:
        return _report_usage(error, screen)
    except RefoldError as error:
        _report(screen, error.code, error.message, error.hint)
        _explain(args)
        return OUTCOMES[error.code][1]
    except OSError:
        raise
    except Exception as error:
        reason = f"internal error: {type(error).__name__}: {error}"
        _report(screen, "error", reason, "run with --debug for details")
        _explain(args)
        return OUTCOMES["error"][1]
    return OUTCOMES["ok"][1]


def _report_usage(error: click.ClickException, screen: Screen) -> int:
    """Reports a usage error, with a hint to the command's help."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    path = ctx.command_path if ctx else "refold"
    message, hint = " ".join(error.format_message().split()).rstrip("."), f"{path} --help"
    missing = error.param if isinstance(error, click.MissingParameter) else None
    if missing is not None and missing.name == "conversation":
        message = "no conversation is named (ID)"
        hint = f"{path} @1 is about the newest; refold list shows all"
        name = path.removeprefix("refold ")
        if ctx and name in COMMANDS:
            hint = at_places(hint, places_of(load(name), ctx.params))
    elif isinstance(error, click.NoSuchOption) and ctx and isinstance(ctx.command, Commands):
        message = f"no command is named that takes {short_line(error.option_name, 40)}"
    _report(screen, "invalid", message, hint)
    return OUTCOMES["invalid"][1]


def _report(screen: Screen, code: str, message: str, hint: str) -> None:
    """Reports an error, as a JSON object with `--json`, otherwise on standard error."""
    message, hint = _without_secrets(message), _without_secrets(hint)
    if screen.json_output:
        screen.emit({"error": {"code": code, "message": message, "hint": hint}})
    else:
        _print_error(message, hint)


def _without_secrets(text: str) -> str:
    """The text of an error, redacted: it may quote content, and ends up in logs."""
    from refold.redaction import redactor

    return redactor(_redact_setting(), "logs")(text)


def _redact_setting() -> bool | tuple[str, ...]:
    """The setting for redaction. Invalid settings may be the very error to report; then secrets are
    redacted everywhere."""
    from refold.settings.sources import loaded

    try:
        return loaded()[0].redact
    except Exception:
        return True


def _print_error(message: str, hint: str) -> None:
    text = with_hint(short_line(message, MESSAGE_MAX), short_line(hint, MESSAGE_MAX))
    Screen(out=sys.stderr).line(f"refold: {text}")


def _explain(args: list[str]) -> None:
    """Prints the traceback with `--debug`, except in `refold stats ID --debug`, where it is an
    option of the command."""
    if "--debug" in _own_words(args) and named_first(args, COMMANDS)[:1] != ["stats"]:
        import traceback

        Screen(out=sys.stderr).line(traceback.format_exc())


def _let_go_of_stdout() -> None:
    """Discards pending output, about which the interpreter would complain on exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
