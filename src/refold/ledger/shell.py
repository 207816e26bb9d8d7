"""The effects of a shell command on files: which it reads (and which lines), creates, modifies,
deletes.

Conservative: an effect is listed only if the words are certain; other commands are just runs. A
read is `alone` if the command's output is the text of that one file and nothing else. Changes come
from `rm`, `mv`, `cp`, `tee`, `sed -i`, `git`, redirections, and the scripts and patches in a
command. Neighbours: `shell_words` splits the line and finds reads, `scripts` reads scripts and
patches, `actions` turns effects into actions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct, field
from msgspec.structs import replace

from refold.ledger.arguments import file_name, joined, normal
from refold.ledger.facts import FileKind
from refold.ledger.scripts import PATCHES, SUFFIXES, files_written, patched
from refold.ledger.shell_words import Effect, Simple, Word, names, piped_read, simple_commands

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
# Options that turn a command that looks around into one that changes things.
ACTING_OPTIONS = {
    "find": names("-delete -exec -execdir -ok -okdir -fprint"),
    "sed": names("-i --in-place"),
    "fd": names("-x -X --exec"),
}
PREFIXES = frozenset({"sudo", "time", "nohup", "command", "builtin", "stdbuf", "rtk"})
SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
FILE_COMMANDS = names("rm unlink Remove-Item mv cp tee touch mkdir")
STREAM_EDITORS = names("sed gsed perl")

_COMMAND_OPTION = re.compile(r"-(?!-).*c\Z", re.DOTALL)  # `-c`, `-lc`
_IN_PLACE = re.compile(r"--in-place|-(?!-).*i", re.DOTALL)


class Reading(Struct, frozen=True):
    """The effects of a whole command line. `plain`: it only reads or looks around; `searches`: it
    looks around. `scripts` are script files it writes, with their text; `runs` the script files it
    runs."""

    effects: tuple[Effect, ...] = ()
    plain: bool = False
    searches: bool = False
    steps: int = 1
    scripts: tuple[tuple[str, str], ...] = ()
    runs: tuple[str, ...] = ()


def reading_of(command: str | Sequence[str]) -> Reading:
    """The certain effects of a command line. Pages are read many times, so the readings of short
    lines are cached."""
    if isinstance(command, str) and len(command) <= REMEMBERED_MAX:
        return _cached_reading(command)
    return _reading(command)


def _reading(command: str | Sequence[str], depth: int = 0) -> Reading:
    if isinstance(command, str):
        simples = simple_commands(command)
    else:
        simples = [Simple(words=[Word(word, True) for word in command])]
    if not simples or depth > DEPTH_MAX:
        return Reading()
    simples = [_without_prefixes(simple) for simple in simples]
    if len(simples) == 1 and file_name(simples[0].name) in SHELLS:  # `bash -lc "…"`
        for option, script in pairwise(simples[0].arguments):
            if _COMMAND_OPTION.match(option.text):
                if script.sure:
                    return _reading(script.text, depth + 1)
                break
    return _reading_of_pipelines(_pipelines(simples))


_cached_reading = lru_cache(maxsize=1_024)(_reading)


def _without_prefixes(simple: Simple) -> Simple:
    """The command without assignments and words like sudo in front of it."""
    words = simple.words
    while len(words) > 1:
        first = words[0].text
        variable, _, value = first.partition("=")
        if first in PREFIXES or (value and variable.isidentifier()):
            words = words[1:]
        elif first == "timeout" and len(words) > 2:
            words = words[2:]
        else:
            break
    return replace(simple, words=words)


def _pipelines(simples: list[Simple]) -> list[list[Simple]]:
    """The commands by pipeline, without those that run only after a failure."""
    pipelines: list[list[Simple]] = []
    is_skipped = False
    for simple in simples:
        is_piped = simple.joined in ("|", "|&")
        if not is_piped:
            is_skipped = simple.joined == "||"
        if is_skipped:
            continue
        if is_piped and pipelines:
            pipelines[-1].append(simple)
        else:
            pipelines.append([simple])
    return pipelines


# --- pipelines ---


class _Line(Struct):
    """The effects of a line so far; `speaking` counts the pipelines with output in the result."""

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
            targets = stages[0].operands
            is_known = len(targets) == 1 and targets[0].sure
            if is_known and (line.folder != UNKNOWN_FOLDER or targets[0].text.startswith("/")):
                line.folder = joined(line.folder, targets[0].text)
            else:
                line.folder = UNKNOWN_FOLDER
        else:
            _read_pipeline(line, stages)
    effects = line.effects
    reads = sum(effect.kind == "read" for effect in effects)
    if line.speaking != 1 or reads != 1:  # a read is alone only if nothing else was shown
        effects = [replace(effect, alone=False) if effect.alone else effect for effect in effects]
    return Reading(
        effects=tuple(effects),
        plain=line.plain and (line.searches or bool(effects)),
        searches=line.searches,
        steps=len(pipelines),
        scripts=tuple(line.scripts),
        runs=tuple(line.runs),
    )


def _read_pipeline(line: _Line, stages: list[Simple]) -> None:
    """Adds the effects of one pipeline to the line."""
    effects = [effect for stage in stages for effect in file_changes(stage)]
    if not effects and not any(stage.is_redirected for stage in stages):
        effects = piped_read(stages)
    reads = bool(effects) and all(effect.kind == "read" for effect in effects)
    looks = not reads and all(map(_looks_around, stages))
    line.plain = line.plain and (reads or looks)
    line.searches = line.searches or looks
    last = stages[-1]
    if not (last.name in QUIET or last.is_redirected or edits_in_place(stages[0])):
        line.speaking += 1
    for effect in effects:
        if effect.path.endswith(SUFFIXES):
            line.scripts.append((normal(effect.path), stages[0].heredoc or ""))
        if line.folder != UNKNOWN_FOLDER:
            path = joined(line.folder, effect.path)
            line.effects.append(replace(effect, path=path) if line.folder else effect)
        elif effect.path.startswith("/"):
            line.effects.append(effect)
    for stage in stages:
        line.runs += script_run(stage)


def _looks_around(stage: Simple) -> bool:
    """Whether a command only looks around, with no redirection or option that changes files."""
    if stage.name == "git":
        is_looking = git_command(stage)[0] in GIT_LOOKING
    else:
        is_looking = stage.name in LOOKING
    writes = any(redirection.writes_file for redirection in stage.redirections)
    if not is_looking or writes or edits_in_place(stage):
        return False
    acting = ACTING_OPTIONS.get(stage.name, ())
    return not any(word.text in acting for word in stage.arguments)


# --- changes ---


def file_changes(simple: Simple) -> list[Effect]:
    """The changes of a command, by its name and by its redirections."""
    changes = _changes_by_name(simple)
    for redirection in simple.redirections:
        path = redirection.target.text
        if redirection.writes_file and redirection.target.sure and path:
            changes.append(Effect("modify" if ">>" in redirection.operator else "create", path))
    return changes


def _changes_by_name(simple: Simple) -> list[Effect]:
    name = simple.name
    if name == "git":
        return _git_changes(*git_command(simple))
    if name in ("apply_patch", "applypatch"):
        patch = simple.heredoc or "\n".join(word.text for word in simple.arguments)
        return [Effect(kind, path) for kind, path in patched(patch)]
    if _is_interpreter(name):
        return [Effect(kind, path) for kind, path in files_written(_inline_code(simple))]
    if name in STREAM_EDITORS:
        return [Effect("modify", word.text) for word in _edited_files(simple) if word.sure]
    return _file_command_changes(simple) if name in FILE_COMMANDS else []


def _is_interpreter(name: str) -> bool:
    return name.startswith(("python", "node")) or "/python" in name


def _file_command_changes(simple: Simple) -> list[Effect]:
    """The changes of a command with files as arguments."""
    words = [word.text for word in simple.arguments]
    files = [word.text for word in simple.operands if word.sure and word.text]
    match simple.name:
        case "rm" | "unlink" | "Remove-Item":
            return [Effect("delete", path) for path in files]
        # With an uncertain name the roles of a move would shift.
        case "mv" | "cp" if len(files) == len(simple.operands) >= 2 and "-t" not in words:
            return _moved_files(files, keeps=simple.name == "cp")
        case "tee":
            kind: FileKind = "modify" if "-a" in words else "create"
            return [Effect(kind, path) for path in files if not path.startswith("/dev/")]
        case "touch":
            return [Effect("create", path) for path in files]
        case "mkdir" if "-m" not in words:
            return [Effect("create", path.rstrip("/") + "/") for path in files]
        case _:
            return []


def _moved_files(files: list[str], *, keeps: bool) -> list[Effect]:
    """The deleted files, unless they are kept, and the created ones; the last is the target."""
    *sources, target = files
    gone = [] if keeps else [Effect("delete", path) for path in sources]
    made = [target]
    if len(sources) > 1 or target.endswith("/") or target in (".", ".."):
        made = [joined(target, file_name(path.rstrip("/"))) for path in sources]
    return [*gone, *(Effect("create", path) for path in made)]


# --- sed and perl ---


def edits_in_place(simple: Simple) -> bool:
    """Whether `sed` or `perl` writes back into its files."""
    if simple.name not in STREAM_EDITORS:
        return False
    for word in simple.arguments:
        if not word.is_option:
            return False
        if _IN_PLACE.match(word.text):
            return True
    return False


def _edited_files(simple: Simple) -> list[Word]:
    """The files of an in-place `sed` or `perl`: the words after its options and script."""
    if not edits_in_place(simple):
        return []
    files: list[Word] = []
    has_script = takes_value = False
    for word in simple.arguments:
        option = word.text
        if takes_value:
            takes_value, has_script = False, True
        elif word.is_option and option != "-":  # the script, or its file, may follow an option
            is_long = option.startswith("--") or "i" in option
            takes_value = not is_long and option[-1] in ("eE" if simple.name == "perl" else "ef")
        elif option:
            files.append(word)
    return files if has_script else files[1:]


# --- git ---


def git_command(simple: Simple) -> tuple[str, list[Word]]:
    """The subcommand of git and its arguments."""
    words = simple.arguments
    while words and words[0].is_option:
        words = words[2:] if words[0].text in ("-C", "-c") else words[1:]
    return (words[0].text, words[1:]) if words else ("", [])


def _git_changes(subcommand: str, arguments: list[Word]) -> list[Effect]:
    if not all(word.sure for word in arguments):
        return []
    words = [word.text for word in arguments]
    files = [word for word in words if not word.startswith("-")]
    match subcommand:
        case "mv" if len(files) >= 2:
            return _moved_files(files, keeps=False)
        case "rm" if "--cached" not in words:
            return [Effect("delete", path) for path in files]
        case "checkout" if "--" in words:
            return [Effect("modify", path) for path in words[words.index("--") + 1 :]]
        case "restore" if "--staged" not in words:
            return [Effect("modify", path) for path in files if path != "."]
        case _:
            return []


# --- scripts ---


def script_run(simple: Simple) -> list[str]:
    """The script file of an interpreter, or the applied patches, from arguments or input."""
    if simple.name == "patch" or (simple.name == "git" and git_command(simple)[0] == "apply"):
        inputs = [target for operator, _, target in simple.redirections if operator == "<"]
        words = [*simple.arguments, *inputs]
        return [normal(word.text) for word in words if word.sure and word.text.endswith(PATCHES)]
    if not _is_interpreter(simple.name):
        return []
    first = simple.operands[:1]
    return [normal(word.text) for word in first if word.text.endswith(SUFFIXES)]


def _inline_code(simple: Simple) -> str:
    """The script inside an interpreter's command: after `-c` or `-e`, or as a here-document."""
    words = [word.text for word in simple.arguments]
    for option in ("-c", "-e"):
        if option in words[:-1]:
            return words[words.index(option) + 1]
    has_only_options = all(word.startswith("-") for word in words)
    return simple.heredoc or "" if has_only_options else ""
