"""What a simple command changes: `rm`, `mv`, `cp`, `tee`, `sed -i`, `git`, redirections, and the
scripts and patches that it carries or runs.

A file counts only where its name is certain. Neighbours: `shell` puts the commands of a line
together, `scripts` and `patches` read what is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from refold.ledger.patches import FileChange, patched
from refold.ledger.paths import file_name, joined, normal
from refold.ledger.scripts import PATCHES, SUFFIXES, files_written
from refold.ledger.shell_reads import Effect
from refold.ledger.shell_words import Redirection, Simple, Word, names

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
