"""What a shell command does to files: which it reads (and which lines), creates, modifies, deletes.

Conservative: an effect is named only where the words say it for certain; what is not understood is
just a run. A read is `alone` when the command's output is the text of that one file and nothing
else. Neighbours: `shell_words` splits the line, `shell_reads` knows the commands that show files,
`shell_changes` those that change them, `actions` turns effects into actions.

What a simple command changes: `rm`, `mv`, `cp`, `tee`, `sed -i`, `git`, redirections, and the
scripts and patches that it carries or runs.

A file counts only where its name is certain. Neighbours: `shell` puts the commands of a line
together, `scripts` and `patches` read what is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct, field
from msgspec.structs import replace

from refold.ledger.arguments import file_name, joined, normal
from refold.ledger.embedded_files import PATCHES, SUFFIXES, FileChange, files_written, patched
from refold.ledger.shell_words import (
    Effect,
    Redirection,
    Simple,
    Word,
    names,
    piped_read,
    simple_commands,
)

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
    if _prints_result(stages):
        line.speaking += 1
    line.effects += _placed(effects, line.folder)
    line.scripts += _scripts_written(effects, stages[0].heredoc or "")
    for stage in stages:
        line.runs += script_run(stage)


def _scripts_written(effects: list[Effect], text: str) -> list[tuple[str, str]]:
    """The script files among those that a pipeline is fed this text to write."""
    scripts = [effect.path for effect in effects if effect.path.endswith(SUFFIXES)]
    return [(normal(path), text) for path in scripts]


def _prints_result(stages: list[Simple]) -> bool:
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


OUTWARD = names("> >> >| &> &>>")
FILE_COMMANDS = names("rm unlink Remove-Item mv cp tee touch mkdir")
STREAM_EDITORS = names("sed gsed perl")

_IN_PLACE = re.compile(r"--in-place|-(?!-).*i", re.DOTALL)


def file_changes(simple: Simple) -> list[Effect]:
    """What a command changes, by what it is and by where its output goes."""
    return [*_changes_by_name(simple), *_redirection_changes(simple)]


# --- redirections ---


def writing_redirections(simple: Simple) -> list[Redirection]:
    """The redirections that write a file."""
    return [
        redirection
        for redirection in simple.redirections
        if redirection.operator in OUTWARD
        and not redirection.target.text.startswith(("/dev/", "&"))
    ]


def is_redirected(simple: Simple) -> bool:
    """Whether the output goes somewhere else than to the result."""
    return any(
        redirection.operator in OUTWARD and redirection.fd in ("", "1")
        for redirection in simple.redirections
    )


def _redirection_changes(simple: Simple) -> list[Effect]:
    return [
        _written_file(target.text, appends=operator.endswith(">>"))
        for operator, _, target in writing_redirections(simple)
        if target.sure and target.text
    ]


def _written_file(path: str, *, appends: bool) -> Effect:
    return Effect("modify" if appends else "create", path)


# --- commands ---


def _changes_by_name(simple: Simple) -> list[Effect]:
    name = simple.name
    if name == "git":
        return _git_changes(*git_command(simple))
    if name in ("apply_patch", "applypatch"):
        return _effects(patched(_patch_text(simple)))
    if _is_interpreter(name):
        return _effects(files_written(_inline_code(simple)))
    if name in STREAM_EDITORS:
        return [Effect("modify", word.text) for word in _edited_files(simple) if word.sure]
    return _file_command_changes(simple) if name in FILE_COMMANDS else []


def _effects(changes: Iterable[FileChange]) -> list[Effect]:
    return [Effect(kind, path) for kind, path in changes]


def _is_interpreter(name: str) -> bool:
    return name.startswith(("python", "node")) or "/python" in name


def _patch_text(simple: Simple) -> str:
    if simple.heredoc:
        return simple.heredoc
    return "\n".join(word.text for word in simple.arguments)


def _file_command_changes(simple: Simple) -> list[Effect]:
    """The changes of a command whose arguments are files."""
    words = [word.text for word in simple.arguments]
    files = _certain_files(simple)
    match simple.name:
        case "rm" | "unlink" | "Remove-Item":
            return [Effect("delete", path) for path in files]
        case "mv" | "cp" if len(files) >= 2 and "-t" not in words:
            return _moved_files(files, keeps=simple.name == "cp")
        case "tee":
            kept = [path for path in files if not path.startswith("/dev/")]
            return [_written_file(path, appends="-a" in words) for path in kept]
        case "touch":
            return [Effect("create", path) for path in files]
        case "mkdir" if "-m" not in words:
            return [Effect("create", path.rstrip("/") + "/") for path in files]
        case _:
            return []


def _certain_files(simple: Simple) -> list[str]:
    """The arguments that are files, as far as their names are certain."""
    files = [word.text for word in simple.operands if word.sure and word.text]
    # One file that is not known may be any of them: for a move the roles would shift.
    if simple.name in ("mv", "cp") and len(files) < len(simple.operands):
        return []
    return files


def _moved_files(files: list[str], *, keeps: bool) -> list[Effect]:
    """The files that go, unless they are kept, and those that come; the last is the target."""
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
        if takes_value:
            takes_value, has_script = False, True
        elif word.is_option and word.text != "-":
            takes_value = _takes_script(simple.name, word.text)
        elif word.text:
            files.append(word)
    return files if has_script else files[1:]


def _takes_script(name: str, option: str) -> bool:
    """Whether the word after an option is the script, or its file."""
    if option.startswith("--") or "i" in option:
        return False
    return option[-1] in ("eE" if name == "perl" else "ef")


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
    """The script file that an interpreter is given, or the patch that is applied."""
    if _applies_patch(simple):
        return _patch_files(simple)
    if not _is_interpreter(simple.name):
        return []
    first = simple.operands[:1]
    return [normal(word.text) for word in first if word.text.endswith(SUFFIXES)]


def _applies_patch(simple: Simple) -> bool:
    if simple.name == "git":
        return git_command(simple)[0] == "apply"
    return simple.name == "patch"


def _patch_files(simple: Simple) -> list[str]:
    """The patches that are given as arguments or fed in."""
    fed = [target for operator, _, target in simple.redirections if operator == "<"]
    given = [*simple.arguments, *fed]
    return [normal(word.text) for word in given if word.sure and word.text.endswith(PATCHES)]


def _inline_code(simple: Simple) -> str:
    """The script that is given to an interpreter with its command: after `-c` or `-e`, or as a
    here-document."""
    words = [word.text for word in simple.arguments]
    for option in ("-c", "-e"):
        if option in words[:-1]:
            return words[words.index(option) + 1]
    has_only_options = all(word.startswith("-") for word in words)
    return simple.heredoc or "" if has_only_options else ""
