"""`refold help`, `/help` and `refold completion`: how a person finds and types commands.

To complete a word, the shell runs refold with `REFOLD_COMPLETE` set and the words up to the cursor;
it gets one candidate per line, with its description after a tab. Without candidates, it completes
file names. Neighbours: `completion` finds the candidates, `edges/cli/app` shows the same overview.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from refold.display import suggestion
from refold.edges.commands import ALIASES, COMMANDS, DAILY, GROUPS, PREFIXES, Entry, load
from refold.edges.commands.command import (
    POSITIONAL,
    Parameter,
    Result,
    Screen,
    Taking,
    command,
    parameters_of,
    short_line,
)
from refold.edges.commands.command_line import as_lines, resolved, shell_only, table
from refold.edges.commands.session import Session
from refold.errors import NotFound

CONTEXT = "context"  # the prefix of most aliases
NAME = Meta(
    description="A command or a group, such as memory or agents; default: all.",
    extra={"positional": True, "takes_rest": True, "completes": "command"},
)


@command("help", on="nothing")
def help_(session: Session, *, command: Annotated[str, NAME] = "") -> Topics | Explained:
    name = command.removeprefix("/")
    known_groups = {heading.lower(): group for group, heading in GROUPS.items()}
    name = known_groups.get(name.lower(), name)
    is_shell = session.screen is None or session.screen.is_shell
    known = COMMANDS if is_shell else table()
    if name and not is_shell and (refusal := shell_only(name.split())):
        raise refusal
    if name in ALIASES and name not in PREFIXES:
        alias = ALIASES[name]
        words = " ".join((alias.command, *alias.preset))
        return replace(explained(load(name)), name=name, summary=alias.summary, alias=words)
    if name in known:
        return explained(load(name), known)
    if not name or name in PREFIXES or name in GROUPS:
        return Topics(group=name, commands=topics(name, known))
    resolved(name.split(), is_shell=is_shell)  # raises an error for a former name
    names = [*known, *ALIASES, *GROUPS]
    raise NotFound(f"there is no command {short_line(name, 40)!r}", hint=suggestion(name, names))


class Taken(Struct, frozen=True, kw_only=True):
    """One parameter of a command, as shown in a usage line, and its help text."""

    usage: str
    help: str


class Topic(Struct, frozen=True, kw_only=True):
    """A command, or a group of them, in one line."""

    name: str
    summary: str
    is_shell_only: bool = False


class Topics(Result, frozen=True, kw_only=True):
    """The commands of a group; all of them if `group` is empty."""

    group: str
    commands: tuple[Topic, ...]

    def show(self, screen: Screen) -> None:
        if self.group:
            _show_topics(self.commands, screen)
            return
        known = COMMANDS if screen.is_shell else table()
        daily = [_topic(name) for name in DAILY if name in known]
        _show_topics(tuple(daily), screen)
        screen.line()
        groups = overview(known, "" if screen.is_shell else "/")
        size = max(map(len, groups))
        for heading, names in groups.items():
            screen.line(("bold", f"{heading.ljust(size)}  "), names, hang=size + 2)
        screen.line(("dim", f"{screen.call('help')} COMMAND explains a command or a group."))


class Explained(Result, frozen=True, kw_only=True):
    """One command and its arguments; `on` is the kind of thing it acts on. `inside` has the
    commands whose names begin with its name. `alias` is the full command line of an alias."""

    name: str
    summary: str
    details: str
    on: str
    arguments: tuple[Taken, ...]
    options: tuple[Taken, ...]
    inside: tuple[Topic, ...]
    alias: str = ""

    def show(self, screen: Screen) -> None:
        screen.line(("bold", "Usage: "), _usage(self, screen))
        screen.line(f"  {self.summary}")
        if self.alias:
            screen.line(f"  The same as {screen.call(self.alias)}.")
        if self.details:
            screen.line(f"  {self.details if screen.is_shell else as_lines(self.details)}")
        _show_parameters((*self.arguments, *self.options), screen)
        if self.inside:
            screen.line()
            _show_topics(self.inside, screen)


def overview(known: Mapping[str, Entry], slash: str = "") -> dict[str, str]:
    """The commands of each group except the daily ones, by heading: `redo, history, ..., memory
    list, add, search`."""
    lines: dict[str, str] = {}
    for group, heading in GROUPS.items():
        names = [name for name, entry in known.items() if entry.group == group]
        shown: list[str] = []
        before = ""
        for name in names:
            prefix, space, last = name.rpartition(" ")
            if name not in DAILY:
                shown.append(last if space and prefix == before else slash + name)
            before = prefix
        lines[heading] = ", ".join(shown)
    return {heading: names for heading, names in lines.items() if names}


def topics(group: str = "", known: Mapping[str, Entry] = COMMANDS) -> tuple[Topic, ...]:
    """The known commands in a help group, or with this prefix; without a group, the first word of
    every command."""
    if group == CONTEXT:
        forms = [one for one in ALIASES if f"{one} ".startswith(f"{group} ")]
        return tuple(Topic(name=name, summary=ALIASES[name].summary) for name in forms)
    if group in GROUPS:
        names = [name for name, entry in known.items() if entry.group == group]
    elif group:
        names = [name for name in known if name.startswith(f"{group} ")]
    else:
        names = list(dict.fromkeys(name.split()[0] for name in known))
    return tuple(map(_topic, names))


def _topic(name: str) -> Topic:
    entry = COMMANDS.get(name)
    if entry is None:
        return Topic(name=name, summary=PREFIXES[name])
    return Topic(name=name, summary=entry.summary, is_shell_only=entry.is_shell_only)


def explained(command: Taking, known: Mapping[str, Entry] = COMMANDS) -> Explained:
    """The help of a command, with the known commands of its group."""
    parameters = parameters_of(command)
    return Explained(
        name=command.name,
        summary=command.summary,
        details=command.details,
        on=command.on,
        arguments=tuple(_parameter_help(one) for one in parameters if not one.option),
        options=tuple(_parameter_help(one) for one in parameters if one.option),
        inside=topics(command.name, known) if command.name in PREFIXES else (),
    )


def _parameter_help(parameter: Parameter) -> Taken:
    choices = f" One of {', '.join(parameter.choices)}." if parameter.choices else ""
    return Taken(usage=parameter.shown, help=parameter.help + choices)


def _show_topics(listed: tuple[Topic, ...], screen: Screen) -> None:
    size = max((len(screen.call(one.name)) for one in listed), default=0)
    for one in listed:
        name = screen.call(one.name).ljust(size)
        screen.line(("cyan", name), f"  {one.summary}", hang=size + 2)


def _usage(result: Explained, screen: Screen) -> str:
    id = "ID" if result.on == "conversation" else ""
    words = [one.usage for one in result.arguments]
    options = ["[OPTIONS]"] if result.options else []
    # A placeholder is not a value, so it is not quoted.
    return " ".join((screen.call(result.name, id), *words, *options))


def _show_parameters(rows: tuple[Taken, ...], screen: Screen) -> None:
    size = max((len(one.usage) for one in rows), default=0)
    for one in rows:
        screen.line(("cyan", f"  {one.usage.ljust(size)}"), f"  {one.help}", hang=size + 4)


# --- completion ---

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


@command(
    "completion",
    details='For bash: eval "$(refold completion bash)" in ~/.bashrc.',
    on="nothing",
)
def completion(_: Session, *, shell: Annotated[Shell, SHELL]) -> Script:
    return Script(shell=shell, script=SCRIPTS[shell])


class Script(Result, frozen=True, kw_only=True):
    shell: Shell
    script: str

    def show(self, screen: Screen) -> None:
        screen.line(f"# {INSTALL[self.shell]}")
        screen.text(self.script)
