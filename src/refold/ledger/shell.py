"""What a shell command does to files: which it reads (and which lines), creates, modifies, deletes.

Conservative: an effect is named only where the words say it for certain; what is not understood is
just a run. A read is `alone` when the command's output is the text of that one file and nothing
else. Neighbours: `shell_words` splits the line, `shell_reads` knows the commands that show files,
`shell_changes` those that change them, `actions` turns effects into actions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct, field
from msgspec.structs import replace

from refold.ledger.paths import file_name, joined, normal
from refold.ledger.scripts import SUFFIXES
from refold.ledger.shell_changes import (
    edits_in_place,
    file_changes,
    git_command,
    is_redirected,
    script_run,
    writing_redirections,
)
from refold.ledger.shell_reads import Effect, piped_read
from refold.ledger.shell_words import Simple, Word, names, simple_commands

DEPTH_MAX = 3
REMEMBERED_MAX = 2_000  # characters
UNKNOWN_FOLDER = "?"

QUIET = names(
    "cd pushd popd set export true : umask sleep shopt mkdir touch rm mv cp chmod ln rmdir unset"
)
LOOKING = names(
    "grep egrep fgrep rg ag ack find fd fdfind ls dir tree wc stat file which whereis pwd du df "
    "echo printf date uname whoami id env printenv type diff cmp sort uniq cut tr awk jq column "
    "xxd hexdump od strings basename dirname realpath readlink head tail cat nl sed less more bat "
    "test [ command find_file search_file search_dir Get-ChildItem Select-String"
)
GIT_LOOKING = names(
    "status log diff show grep ls-files ls-tree blame branch remote rev-parse describe cat-file "
    "reflog shortlog tag rev-list merge-base ls-remote for-each-ref config"
)
# Options that make a command which looks around one that changes things.
ACTING_OPTIONS = {
    "find": names("-delete -exec -execdir -ok -okdir -fprint"),
    "sed": names("-i --in-place"),
    "fd": names("-x -X --exec"),
}
PREFIXES = frozenset({"sudo", "time", "nohup", "command", "builtin", "stdbuf", "rtk"})
SHELLS = frozenset({"bash", "sh", "zsh", "dash"})

_COMMAND_OPTION = re.compile(r"-(?!-).*c\Z", re.DOTALL)  # `-c`, `-lc`


class Reading(Struct, frozen=True):
    """What a whole command line does. `plain`: it only reads or looks around; `searches`: it
    does the latter. `scripts` are script files it writes, with their text; `runs` the script
    files it runs."""

    effects: tuple[Effect, ...] = ()
    plain: bool = False
    searches: bool = False
    steps: int = 1
    scripts: tuple[tuple[str, str], ...] = ()
    runs: tuple[str, ...] = ()


def reading_of(command: str | Sequence[str]) -> Reading:
    """What a command line does, as far as it is certain. Pages are read again and again: short
    lines are remembered."""
    if isinstance(command, str) and len(command) <= REMEMBERED_MAX:
        return _remembered(command)
    return _reading(command, 0)


@lru_cache(maxsize=1_024)
def _remembered(command: str) -> Reading:
    return _reading(command, 0)


def _reading(command: str | Sequence[str], depth: int) -> Reading:
    if isinstance(command, str):
        simples = simple_commands(command)
    else:
        simples = [Simple(words=[Word(word, True) for word in command])]
    if not simples or depth > DEPTH_MAX:
        return Reading()
    simples = [_without_prefixes(simple) for simple in simples]
    inner = _inner_command(simples)
    if inner is not None:
        return _reading(inner, depth + 1)
    return _reading_of_pipelines(_pipelines(simples))


def _inner_command(simples: list[Simple]) -> str | None:
    """The text of `bash -lc "…"`."""
    if len(simples) != 1 or file_name(simples[0].name) not in SHELLS:
        return None
    words = simples[0].arguments
    for option, script in pairwise(words):
        if _COMMAND_OPTION.match(option.text):
            return script.text if script.sure else None
    return None


def _without_prefixes(simple: Simple) -> Simple:
    """The command without assignments and words like sudo in front of it."""
    words = simple.words
    while len(words) > 1:
        first = words[0].text
        if first in PREFIXES or _is_assignment(first):
            words = words[1:]
        elif first == "timeout" and len(words) > 2:
            words = words[2:]
        else:
            break
    return replace(simple, words=words)


def _is_assignment(word: str) -> bool:
    """Whether a word sets a variable for the command after it."""
    name, _, value = word.partition("=")
    return bool(value) and name.isidentifier()


def _pipelines(simples: list[Simple]) -> list[list[Simple]]:
    """The commands joined by pipes; what runs only if something before it failed is left out."""
    out: list[list[Simple]] = []
    is_skipped = False
    for simple in simples:
        is_piped = simple.joined in ("|", "|&")
        if not is_piped:
            is_skipped = simple.joined == "||"
        if is_skipped:
            continue
        if is_piped and out:
            out[-1].append(simple)
        else:
            out.append([simple])
    return out


# --- pipelines together ---


class _Line(Struct):
    """What the pipelines of a line did so far. `speaking`: how many of them wrote to the result."""

    folder: str = ""
    speaking: int = 0
    plain: bool = True
    searches: bool = False
    effects: list[Effect] = field(default_factory=list)
    scripts: list[tuple[str, str]] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)


def _reading_of_pipelines(pipelines: list[list[Simple]]) -> Reading:
    line = _Line()
    for stages in pipelines:
        if stages[0].name in ("cd", "pushd"):
            line.folder = _folder_after(line.folder, stages[0])
        else:
            _read_pipeline(line, stages)
    return Reading(
        effects=_settled_effects(line),
        plain=line.plain and (line.searches or bool(line.effects)),
        searches=line.searches,
        steps=len(pipelines),
        scripts=tuple(line.scripts),
        runs=tuple(line.runs),
    )


def _read_pipeline(line: _Line, stages: list[Simple]) -> None:
    """Adds what one pipeline does to what the line did so far."""
    effects = _pipeline_effects(stages)
    reads = bool(effects) and all(effect.kind == "read" for effect in effects)
    looks = not reads and _looks_around(stages)
    line.plain = line.plain and (reads or looks)
    line.searches = line.searches or looks
    if _speaks(stages):
        line.speaking += 1
    line.effects += _placed(effects, line.folder)
    line.scripts += _scripts_written(effects, stages[0].heredoc or "")
    for stage in stages:
        line.runs += script_run(stage)


def _scripts_written(effects: list[Effect], text: str) -> list[tuple[str, str]]:
    """The script files among those that a pipeline is fed this text to write."""
    scripts = [effect.path for effect in effects if effect.path.endswith(SUFFIXES)]
    return [(normal(path), text) for path in scripts]


def _speaks(stages: list[Simple]) -> bool:
    """Whether a pipeline's output is part of the result."""
    last = stages[-1]
    return not (last.name in QUIET or is_redirected(last) or edits_in_place(stages[0]))


def _settled_effects(line: _Line) -> tuple[Effect, ...]:
    """All effects; a read is alone only if nothing else was shown."""
    reads = sum(effect.kind == "read" for effect in line.effects)
    if line.speaking == 1 and reads == 1:
        return tuple(line.effects)
    return tuple(
        replace(effect, alone=False) if effect.alone else effect for effect in line.effects
    )


def _folder_after(folder: str, change: Simple) -> str:
    """The folder after a `cd`, `UNKNOWN_FOLDER` where it cannot be known."""
    targets = change.operands
    if len(targets) != 1 or not targets[0].sure:
        return UNKNOWN_FOLDER
    target = targets[0].text
    is_known = folder != UNKNOWN_FOLDER or target.startswith("/")
    return joined(folder, target) if is_known else UNKNOWN_FOLDER


def _placed(effects: list[Effect], folder: str) -> list[Effect]:
    """The effects on paths as seen from where the line began; without those that cannot be."""
    if not folder:
        return effects
    if folder == UNKNOWN_FOLDER:
        return [effect for effect in effects if effect.path.startswith("/")]
    return [replace(effect, path=joined(folder, effect.path)) for effect in effects]


# --- one pipeline ---


def _pipeline_effects(stages: list[Simple]) -> list[Effect]:
    effects = [effect for stage in stages for effect in file_changes(stage)]
    if effects or any(map(is_redirected, stages)):
        return effects
    return piped_read(stages)


def _looks_around(stages: list[Simple]) -> bool:
    """Whether a pipeline only looks around."""
    return all(_only_looks(stage) and not _acts(stage) for stage in stages)


def _only_looks(stage: Simple) -> bool:
    """Whether the command is one that usually only looks."""
    if stage.name == "git":
        return git_command(stage)[0] in GIT_LOOKING
    return stage.name in LOOKING


def _acts(stage: Simple) -> bool:
    """Whether a redirection or an option makes the command change something."""
    if writing_redirections(stage) or edits_in_place(stage):
        return True
    acting = ACTING_OPTIONS.get(stage.name, ())
    return any(word.text in acting for word in stage.arguments)
