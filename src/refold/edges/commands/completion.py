"""`refold completion`: what a shell needs to complete commands, options and names.

The shell runs refold with `REFOLD_COMPLETE` set and the words up to the cursor; it is given one
candidate in a line, with what it means after a tab. Where there is none it completes files itself.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from refold.edges.commands.command import POSITIONAL, Arguments, Command, Result, Screen

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


def run(_: object, arguments: CompletionArguments) -> Script:
    return Script(shell=arguments.shell, script=SCRIPTS[arguments.shell])


def show(found: Script, screen: Screen) -> None:
    screen.line(f"# {INSTALL[found.shell]}")
    screen.text(found.script)


COMMAND = Command(
    name="completion",
    details='For bash: eval "$(refold completion bash)" in ~/.bashrc.',
    on="nothing",
    arguments=CompletionArguments,
    run=run,
    show=show,
)
