"""What a shell command does to files: which it reads (and which lines), creates, modifies, deletes.

Conservative: an effect is named only where the words say it for certain; what is not understood is
just a run. A read is `alone` when the command's output is the text of that one file and nothing
else. Neighbours: `shellwords` splits the line, `shellreads` knows the commands that show files,
`actions` turns effects into actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from refold.ledger.patches import patched
from refold.ledger.paths import joined, normal
from refold.ledger.scripts import PATCHES, SUFFIXES, files_written
from refold.ledger.shell_reads import Effect, piped_read
from refold.ledger.shell_words import Redirection, Simple, Word, names, simple_commands

DEPTH_MAX = 3
REMEMBERED_MAX = 2_000  # characters


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


QUIET = names(
    "cd pushd popd set export true : umask sleep shopt mkdir touch rm mv cp chmod ln rmdir unset"
)
LOOKING = names(
    "grep egrep fgrep rg ag ack find fd fdfind ls dir tree wc stat file which whereis pwd du df echo printf date uname "
    "whoami id env printenv type diff cmp sort uniq cut tr awk jq column xxd hexdump od strings basename dirname "
    "realpath readlink head tail cat nl sed less more bat test [ command find_file search_file search_dir "
    "Get-ChildItem Select-String"
)
GIT_LOOKING = names(
    "status log diff show grep ls-files ls-tree blame branch remote rev-parse describe cat-file reflog shortlog tag "
    "rev-list merge-base ls-remote for-each-ref config"
)
# Options that make a command which looks around one that changes things: of find, of sed and its
# like.
ACTING_OPTIONS = {
    "find": names("-delete -exec -execdir -ok -okdir -fprint"),
    "sed": names("-i --in-place"),
    "fd": names("-x -X --exec"),
}
PREFIXES = frozenset({"sudo", "time", "nohup", "command", "builtin", "stdbuf", "rtk"})


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
    simples = [_bare(simple) for simple in simples]
    inner = _inner(simples)
    if inner is not None:
        return _reading(inner, depth + 1)
    return _whole(_pipelines(simples))


def _inner(simples: list[Simple]) -> str | None:
    """The text of `bash -lc "…"`."""
    if len(simples) != 1 or simples[0].name.rsplit("/", 1)[-1] not in ("bash", "sh", "zsh", "dash"):
        return None
    words = simples[0].arguments
    for at, word in enumerate(words[:-1]):
        if word.text.startswith("-") and word.text.endswith("c") and not word.text.startswith("--"):
            return words[at + 1].text if words[at + 1].sure else None
    return None


def _bare(simple: Simple) -> Simple:
    """The command without assignments and words like sudo in front of it."""
    words = simple.words
    while len(words) > 1:
        name, _, value = words[0].text.partition("=")
        if (value and name.isidentifier()) or words[0].text in PREFIXES:
            words = words[1:]
        elif words[0].text == "timeout" and len(words) > 2:
            words = words[2:]
        else:
            break
    return replace(simple, words=words)


def _pipelines(simples: list[Simple]) -> list[list[Simple]]:
    """The commands joined by pipes; what runs only if something before it failed is left out."""
    out: list[list[Simple]] = []
    skipping = False
    for simple in simples:
        piped = simple.joined in ("|", "|&")
        skipping = skipping if piped else simple.joined == "||"
        if skipping:
            continue
        if piped and out:
            out[-1].append(simple)
        else:
            out.append([simple])
    return out


def _whole(pipelines: list[list[Simple]]) -> Reading:
    effects: list[Effect] = []
    scripts: list[tuple[str, str]] = []
    runs: list[str] = []
    folder, speaking, plain, searches = "", 0, True, False
    for stages in pipelines:
        if stages[0].name in ("cd", "pushd"):
            folder = _changed(folder, stages[0])
            continue
        found = _pipeline_effects(stages)
        reads = bool(found) and all(effect.kind == "read" for effect in found)
        looks = not reads and _looks(stages)
        plain, searches = plain and (reads or looks), searches or looks
        speaking += not (
            stages[-1].name in QUIET or _redirected(stages[-1]) or _in_place(stages[0])
        )
        effects += [
            _placed(effect, folder)
            for effect in found
            if folder != "?" or effect.path.startswith("/")
        ]
        scripts += [
            (normal(effect.path), stages[0].heredoc or "")
            for effect in found
            if effect.path.endswith(SUFFIXES)
        ]
        runs += [script for stage in stages for script in _script_run(stage)]
    if speaking != 1 or sum(effect.kind == "read" for effect in effects) != 1:
        effects = [replace(effect, alone=False) if effect.alone else effect for effect in effects]
    plain = plain and (searches or bool(effects))
    return Reading(tuple(effects), plain, searches, len(pipelines), tuple(scripts), tuple(runs))


def _changed(folder: str, simple: Simple) -> str:
    """The folder after a `cd`; "?" when it cannot be known."""
    target = [word for word in simple.arguments if not word.text.startswith("-")]
    if len(target) != 1 or not target[0].sure or (folder == "?" and target[0].text[:1] != "/"):
        return "?"
    return joined(folder, target[0].text)


def _placed(effect: Effect, folder: str) -> Effect:
    return replace(effect, path=joined(folder, effect.path)) if folder and folder != "?" else effect


def _looks(stages: list[Simple]) -> bool:
    """Whether a pipeline only looks around."""
    for stage in stages:
        acting = ACTING_OPTIONS.get(stage.name, frozenset())
        if (
            _written(stage)
            or _in_place(stage)
            or any(word.text in acting for word in stage.arguments)
        ):
            return False
        if stage.name not in LOOKING and not (
            stage.name == "git" and _git(stage)[0] in GIT_LOOKING
        ):
            return False
    return True


def _written(simple: Simple) -> list[Redirection]:
    """The redirections that write a file."""
    outward = (r for r in simple.redirections if r.operator in (">", ">>", ">|", "&>", "&>>"))
    return [r for r in outward if not r.target.text.startswith(("/dev/", "&"))]


def _redirected(simple: Simple) -> bool:
    """Whether the output goes somewhere else than to the result."""
    return any(
        r.operator in (">", ">>", ">|", "&>", "&>>") and r.fd in ("", "1")
        for r in simple.redirections
    )


def _pipeline_effects(stages: list[Simple]) -> list[Effect]:
    effects = [
        effect for stage in stages for effect in (*_mutations(stage), *_redirection_effects(stage))
    ]
    if not effects and not any(_redirected(stage) for stage in stages):
        effects = piped_read(stages)
    return effects


def _redirection_effects(simple: Simple) -> list[Effect]:
    return [
        Effect("modify" if r.operator.endswith(">>") else "create", r.target.text)
        for r in _written(simple)
        if r.target.sure and r.target.text
    ]


# --- changes ---


def _mutations(simple: Simple) -> list[Effect]:
    name = simple.name
    if name == "git":
        return _git_mutations(*_git(simple))
    if name in ("apply_patch", "applypatch"):
        return _patch_effects(simple)
    if name.startswith(("python", "node")) or "/python" in name:
        return [Effect(kind, path) for kind, path in files_written(_inline_code(simple))]
    if name in ("sed", "gsed", "perl"):
        return [Effect("modify", word.text) for word in _scripted_files(simple) if word.sure]
    files = [word for word in simple.arguments if not word.text.startswith("-")]
    if not all(word.sure and word.text for word in files):
        # One file that is not known may be any of them: for a move the roles would shift.
        files = (
            []
            if name in ("mv", "cp", "install")
            else [word for word in files if word.sure and word.text]
        )
    return _file_commands(
        name, [word.text for word in files], [word.text for word in simple.arguments]
    )


def _file_commands(name: str, files: list[str], words: list[str]) -> list[Effect]:
    match name:
        case "rm" | "unlink" | "Remove-Item":
            return [Effect("delete", path) for path in files]
        case "mv" | "cp" if len(files) >= 2:
            return _moved(files, keeps=name == "cp", folder="-t" in words)
        case "tee":
            return [
                Effect("modify" if "-a" in words else "create", path)
                for path in files
                if path[:5] != "/dev/"
            ]
        case "touch":
            return [Effect("create", path) for path in files]
        case "mkdir":
            return [Effect("create", path.rstrip("/") + "/") for path in files if "-m" not in words]
        case _:
            return []


def _moved(files: list[str], *, keeps: bool, folder: bool) -> list[Effect]:
    *sources, target = files
    gone = [] if keeps else [Effect("delete", path) for path in sources]
    if folder:
        return []
    if len(sources) > 1 or target.endswith("/") or target in (".", ".."):
        made = [joined(target, path.rstrip("/").rsplit("/", 1)[-1]) for path in sources]
    else:
        made = [target]
    return [*gone, *(Effect("create", path) for path in made)]


def _in_place(simple: Simple) -> bool:
    """Whether `sed` or `perl` writes back into its files."""
    if simple.name not in ("sed", "gsed", "perl"):
        return False
    for word in simple.arguments:
        if not word.text.startswith("-"):
            return False
        if word.text.startswith("--in-place") or (
            not word.text.startswith("--") and "i" in word.text
        ):
            return True
    return False


def _scripted_files(simple: Simple) -> list[Word]:
    """The files of an in-place `sed` or `perl`: the words behind its options and script."""
    if not _in_place(simple):
        return []
    files: list[Word] = []
    scripts, takes_value = 0, False
    for word in simple.arguments:
        text = word.text
        if takes_value:
            takes_value, scripts = False, scripts + 1
        elif text.startswith("-") and len(text) > 1:
            takes_value = (
                text[1] != "-"
                and "i" not in text
                and text[-1] in ("eE" if simple.name == "perl" else "ef")
            )
        elif text:
            files.append(word)
    return files if scripts else files[1:]


def _git(simple: Simple) -> tuple[str, list[Word]]:
    """The subcommand of git and its arguments."""
    words = simple.arguments
    while words and words[0].text.startswith("-"):
        words = words[2:] if words[0].text in ("-C", "-c") else words[1:]
    return (words[0].text, words[1:]) if words else ("", [])


def _git_mutations(subcommand: str, words: list[Word]) -> list[Effect]:
    files = [word.text for word in words if not word.text.startswith("-")]
    if not all(word.sure for word in words):
        return []
    match subcommand:
        case "mv" if len(files) >= 2:
            return _moved(files, keeps=False, folder=False)
        case "rm" if "--cached" not in [word.text for word in words]:
            return [Effect("delete", path) for path in files]
        case "checkout" if "--" in [word.text for word in words]:
            at = [word.text for word in words].index("--")
            return [Effect("modify", word.text) for word in words[at + 1 :]]
        case "restore" if "--staged" not in [word.text for word in words]:
            return [Effect("modify", path) for path in files if path != "."]
        case _:
            return []


def _inline_code(simple: Simple) -> str:
    """The script that is given to an interpreter with its command: behind `-c` or `-e`, or as a
    here-document."""
    words = [word.text for word in simple.arguments]
    for option in ("-c", "-e"):
        if option in words[:-1]:
            return words[words.index(option) + 1]
    return simple.heredoc or "" if all(word.startswith("-") for word in words) else ""


def _script_run(simple: Simple) -> list[str]:
    """The script file that an interpreter is given, or the patch that is applied."""
    if simple.name == "patch" or (simple.name == "git" and _git(simple)[0] == "apply"):
        given = [*simple.arguments, *(r.target for r in simple.redirections if r.operator == "<")]
        return [normal(word.text) for word in given if word.sure and word.text.endswith(PATCHES)]
    if not (simple.name.startswith(("python", "node")) or "/python" in simple.name):
        return []
    words = [word.text for word in simple.arguments if not word.text.startswith("-")]
    return [normal(words[0])] if words and words[0].endswith(SUFFIXES) else []


def _patch_effects(simple: Simple) -> list[Effect]:
    body = simple.heredoc or "\n".join(word.text for word in simple.arguments)
    return [Effect(kind, path) for kind, path in patched(body)]
