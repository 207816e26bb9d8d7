"""`refold help` and `/help`: the commands by name, or what one of them takes.

`refold completion`: what a shell needs to complete commands, options and names.

The shell runs refold with `REFOLD_COMPLETE` set and the words up to the cursor; it is given one
candidate in a line, with what it means after a tab. Where there is none it completes files itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from refold.display import suggestion
from refold.edges.commands import COMMANDS, PREFIXES, Entry, load
from refold.edges.commands.command import (
    POSITIONAL,
    Arguments,
    Command,
    Parameter,
    Result,
    Screen,
    Taking,
    parameters_of,
    short_line,
)
from refold.edges.commands.line import as_lines, shell_only, table
from refold.edges.commands.session import Session
from refold.errors import NotFound

NAME = Meta(
    description="A command or a group, such as context; by default all.",
    extra={"positional": True, "takes_rest": True, "completes": "command"},
)


class HelpArguments(Arguments, frozen=True, kw_only=True):
    command: Annotated[str, NAME] = ""


class Taken(Struct, frozen=True, kw_only=True):
    """One thing that a command takes, as a usage line names it, and what it means."""

    usage: str
    help: str


class Topic(Struct, frozen=True, kw_only=True):
    """A command, or a group of them, in one line."""

    name: str
    summary: str
    is_shell_only: bool = False


class Topics(Result, frozen=True, kw_only=True):
    """The commands of a group; those without one where `group` is empty."""

    group: str
    commands: tuple[Topic, ...]


class Explained(Result, frozen=True, kw_only=True):
    """What one command does and takes; `on` is what it works on. `inside` are the commands of
    the group that has its name."""

    name: str
    summary: str
    details: str
    on: str
    arguments: tuple[Taken, ...]
    options: tuple[Taken, ...]
    inside: tuple[Topic, ...]


def run_help(session: Session, arguments: HelpArguments) -> Topics | Explained:
    name = arguments.command.removeprefix("/")
    is_shell = session.screen is None or session.screen.is_shell
    known = COMMANDS if is_shell else table()
    if name and not is_shell and (elsewhere := shell_only(name.split())):
        raise elsewhere
    if name in known:
        return explained(load(name), known)
    if not name or name in PREFIXES:
        return Topics(group=name, commands=topics(name, known))
    raise NotFound(f"there is no command {short_line(name, 40)!r}", hint=suggestion(name, known))


def topics(group: str = "", known: Mapping[str, Entry] = COMMANDS) -> tuple[Topic, ...]:
    """The known commands of a group; without one, all that stand alone and every group."""
    if group:
        names = [name for name in known if name.startswith(f"{group} ")]
    else:
        names = list(dict.fromkeys(name.split()[0] for name in known))
    return tuple(map(_topic, names))


def _topic(name: str) -> Topic:
    if name in PREFIXES:
        return Topic(name=name, summary=PREFIXES[name])
    entry = COMMANDS[name]
    return Topic(name=name, summary=entry.summary, is_shell_only=entry.is_shell_only)


def explained(command: Taking, known: Mapping[str, Entry] = COMMANDS) -> Explained:
    """What a command does and takes; of its group, what is known here."""
    taken = parameters_of(command)
    return Explained(
        name=command.name,
        summary=command.summary,
        details=command.details,
        on=command.on,
        arguments=tuple(_taken(one) for one in taken if not one.option),
        options=tuple(_taken(one) for one in taken if one.option),
        inside=topics(command.name, known) if command.name in PREFIXES else (),
    )


def _taken(parameter: Parameter) -> Taken:
    choices = f" One of {', '.join(parameter.choices)}." if parameter.choices else ""
    return Taken(usage=parameter.shown, help=parameter.help + choices)


# --- shown ---


def show_help(result: Topics | Explained, screen: Screen) -> None:
    if isinstance(result, Topics):
        _show_topics(result.commands, screen)
    else:
        _show_explained(result, screen)


def _show_topics(listed: tuple[Topic, ...], screen: Screen) -> None:
    size = max((len(screen.call(one.name)) for one in listed), default=0)
    for one in listed:
        name = screen.call(one.name).ljust(size)
        screen.line(("cyan", name), f"  {one.summary}", hang=size + 2)


def _show_explained(result: Explained, screen: Screen) -> None:
    screen.line(("bold", "Usage: "), _usage(result, screen))
    screen.line(f"  {result.summary}")
    if result.details:
        screen.line(f"  {result.details if screen.is_shell else as_lines(result.details)}")
    _show_taken((*result.arguments, *result.options), screen)
    if result.inside:
        screen.line()
        _show_topics(result.inside, screen)


def _usage(result: Explained, screen: Screen) -> str:
    id = "ID" if result.on == "conversation" else ""
    words = [one.usage for one in result.arguments]
    options = ["[OPTIONS]"] if result.options else []
    # What is to be filled in is not a value: it is not quoted.
    return " ".join((screen.call(result.name, id), *words, *options))


def _show_taken(rows: tuple[Taken, ...], screen: Screen) -> None:
    size = max((len(one.usage) for one in rows), default=0)
    for one in rows:
        screen.line(("cyan", f"  {one.usage.ljust(size)}"), f"  {one.help}", hang=size + 4)


HELP = Command(
    name="help",
    on="nothing",
    arguments=HelpArguments,
    run=run_help,
    show=show_help,
)


SHELL = Meta(description="The shell: bash, zsh or fish.", extra=POSITIONAL)

Shell = Literal["bash", "zsh", "fish"]

SCRIPTS: dict[Shell, str] = {
    "bash": """_refold() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\\t'*}")
    done < <(REFOLD_COMPLETE=1 "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [ "${#COMPREPLY[@]}" -eq 0 ]; then
        compopt -o default
    fi
}
complete -F _refold refold
""",
    "zsh": """#compdef refold
_refold() {
    local -a found
    local line
    while IFS= read -r line; do
        found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done < <(REFOLD_COMPLETE=1 refold "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( $#found )); then
        _describe refold found
    else
        _files
    fi
}
compdef _refold refold
""",
    "fish": """function __refold_complete
    set -l typed (commandline -ct)
    set -l words (commandline -opc) "$typed"
    REFOLD_COMPLETE=1 refold $words[2..-1] 2>/dev/null
end
complete -c refold -a '(__refold_complete)'
""",
}
INSTALL: dict[Shell, str] = {
    "bash": 'eval "$(refold completion bash)"    # in ~/.bashrc',
    "zsh": 'eval "$(refold completion zsh)"    # in ~/.zshrc, after compinit',
    "fish": "refold completion fish > ~/.config/fish/completions/refold.fish",
}


class CompletionArguments(Arguments, frozen=True, kw_only=True):
    shell: Annotated[Shell, SHELL]


class Script(Result, frozen=True, kw_only=True):
    shell: Shell
    script: str


def run_completion(_: object, arguments: CompletionArguments) -> Script:
    return Script(shell=arguments.shell, script=SCRIPTS[arguments.shell])


def show_completion(found: Script, screen: Screen) -> None:
    screen.line(f"# {INSTALL[found.shell]}")
    screen.text(found.script)


COMPLETION = Command(
    name="completion",
    details='For bash: eval "$(refold completion bash)" in ~/.bashrc.',
    on="nothing",
    arguments=CompletionArguments,
    run=run_completion,
    show=show_completion,
)
