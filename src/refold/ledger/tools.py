"""The kind of a tool by its name: first the tools of the common agents, then the words of the name.

Names are compared without case, separators and server prefixes, so that `mcp__files__read_file`,
`ReadFile` and `read-file` are the same. A configuration's `tool_kinds` comes first: name → kind, or
`kind:argument` for the path. To support a new tool, add its name to `_NAMES`. Neighbour: `actions`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from refold.display import suggestion
from refold.errors import Invalid
from refold.ledger.facts import ACTION_KINDS, ON_FILES, ActionKind
from refold.ledger.shell_words import names
from refold.patterns import regex

_NAMES: dict[ActionKind, str] = {
    "read": (
        "read readfile readfiles viewfile view openfile open cat readtextfile readmediafile "
        "readmultiplefiles readmanyfiles getfilecontents getfilecontent filereadtool fileread "
        "notebookread viewimage readnotebook readlines showfile loadfile readresource "
        "viewcodeitem"
    ),
    "create": (
        "write writefile writetofile createfile create createnewfile filewrite filewritetool "
        "savefile newfile writefiles createorupdatefile createnotebook createtextfile"
    ),
    "modify": (
        "edit multiedit editfile editfiles replace replaceinfile strreplace insert "
        "notebookedit notebookeditcell editnotebook editnotebookfile applydiff applypatch "
        "patch searchandreplace searchreplace insertcontent insertline appendfile "
        "appendtofile fileedit smartedit multireplacestringinfile replacestringinfile "
        "inserteditintofile undoedit replacelines insertatline editblock writeedit "
        "regexreplace replacesymbolbody replacecontent replacefilecontent "
        "multireplacefilecontent strreplacebasededit"
    ),
    "delete": ("delete deletefile removefile remove deletefiles unlink"),
    "run": (
        "bash shell localshell localshellcall exec execcommand execute executecommand "
        "executebash cmdrun runcommand runcommands runshellcommand runterminalcmd "
        "runterminalcommand runinterminal terminal powershell containerexec unifiedexec "
        "writestdin bashoutput killshell killbash ipythonruncell runipython "
        "executeipythoncell ipython python codeinterpreter codeexecution executepython "
        "runpython runcode runtests runtest shellcommand bashcodeexecution terminaloutput "
        "getterminaloutput sendkeys command console cmd sh zsh process"
    ),
    "search": (
        "grep glob search searchfiles searchfilecontent findfile findfiles filesearch "
        "grepsearch codebasesearch semanticsearch listdir listfiles listdirectory "
        "listdirectorywithsizes directorytree ls list tree getfileinfo "
        "listcodedefinitionnames listalloweddirectories websearch webfetch googlewebsearch "
        "fetch browse toolsearch searchcode searchfile searchdir searchinfilecontent "
        "findbyname findsymbol findreferencingsymbols getsymbolsoverview searchforpattern "
        "viewoutline lsp rg ripgrep listmcpresources searchweb urlcontext"
    ),
    "todo": (
        "todowrite todoread updateplan taskcreate taskupdate tasklist taskget writetodos "
        "updatetodolist updatetodo focuschain tasktracker managetodolist todolist createplan "
        "readtodos todo plan"
    ),
}
BY_NAME: dict[str, ActionKind] = {
    name: kind for kind, listed in _NAMES.items() for name in listed.split()
}
# Editors with several commands: the argument `command` gives the kind.
EDITORS = names(
    "strreplaceeditor strreplacebasededittool texteditor fileeditor editor texteditorcodeexecution"
)
EDITOR_COMMANDS: dict[str, ActionKind] = {
    "view": "read",
    "create": "create",
    "str_replace": "modify",
    "insert": "modify",
    "undo_edit": "modify",
    "delete": "delete",
    "rename": "modify",
}
MOVERS = frozenset({"movefile", "renamefile", "move", "rename"})
PATCHERS = frozenset({"applypatch", "patch", "applydiff"})  # the patch itself names the files

_BY_VERB: dict[str, ActionKind] = {
    "read": "read", "view": "read", "open": "read", "show": "read",
    "write": "create", "create": "create", "save": "create",
    "edit": "modify", "update": "modify", "modify": "modify", "replace": "modify",
    "patch": "modify", "insert": "modify", "append": "modify", "apply": "modify",
    "change": "modify",
    "delete": "delete", "remove": "delete",
    "run": "run", "exec": "run", "execute": "run",
    "search": "search", "find": "search", "list": "search", "get": "search", "fetch": "search",
    "query": "search", "lookup": "search", "grep": "search", "resolve": "search",
    "browse": "search",
}  # fmt: skip
# Words in an unknown name that suggest a tool that runs commands. Arguments prove nothing: a ticket
# may contain a script, a log line a command.
_RUNNERS = names(
    "run exec execute execution executor invoke launch bash shell sh zsh fish powershell pwsh "
    "terminal tmux ssh subprocess repl console"
)
_TALKING_VERBS = names(
    "explain describe check validate verify lint review parse format log record note schedule "
    "suggest plan propose dry preview approve"
)
_WORDS = regex(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


@lru_cache(maxsize=4_096)
def compact(name: str) -> str:
    """A name without case, separators and server prefix."""
    return re.sub(r"[^a-z0-9]", "", _without_prefix(name).lower())


@lru_cache(maxsize=4_096)
def _words(name: str) -> tuple[str, ...]:
    """The words of a name."""
    return tuple(word.lower() for word in _WORDS.findall(_without_prefix(name)[:80]))


def _without_prefix(name: str) -> str:
    """The name without `mcp__server__` or `functions.` before it."""
    own = name[:400].rstrip("_-. ").rsplit("__", 1)[-1]
    for separator in "./:":
        own = own.rsplit(separator, 1)[-1]
    return own


def kind_of_tool(
    name: str, arguments: Mapping[str, Any], *, has_path: bool, has_command: bool
) -> ActionKind:
    """The kind by name; by the name's verb only if the arguments confirm it."""
    short = compact(name)
    if short in EDITORS:
        command = str(arguments.get("command", ""))
        return EDITOR_COMMANDS.get(command[:40], "other")
    known = BY_NAME.get(short)
    if known is None:
        return _guessed_kind(name, has_path=has_path, has_command=has_command)
    needs_path = known in ON_FILES and short not in PATCHERS
    return "other" if needs_path and not has_path else known


def _guessed_kind(name: str, *, has_path: bool, has_command: bool) -> ActionKind:
    """The kind by the first word of an unknown name; with a path, also by its last: `fs_edit`."""
    words = _words(name)
    if not words:
        return "other"
    guess = _BY_VERB.get(words[0], "other")
    if guess == "other" and has_path and _BY_VERB.get(words[-1]) in ON_FILES:
        guess = _BY_VERB[words[-1]]
    if guess == "search":
        return "search"
    may_run = guess in ("run", "other") and words[0] not in _TALKING_VERBS
    if has_command and may_run and not _RUNNERS.isdisjoint(words):
        return "run"
    return guess if has_path and guess != "run" else "other"


def kind_by_name(name: str, entry: str = "", *, has_path: bool) -> ActionKind:
    """The kind by the configuration's entry or the name alone. The verb of an unknown name counts
    for files only if there is a path."""
    if entry:
        return configured(entry)[0]
    short = compact(name)
    if short in EDITORS:
        return "modify"
    return BY_NAME.get(short) or _guessed_kind(name, has_path=has_path, has_command=True)


@lru_cache(maxsize=256)
def configured(entry: str) -> tuple[ActionKind, str]:
    """A `tool_kinds` entry as kind and the name of the path argument."""
    name, _, argument = entry.partition(":")
    for kind in ACTION_KINDS:
        if kind == name:
            return kind, argument
    hint = suggestion(name, ACTION_KINDS)
    raise Invalid(f"unknown kind in tool_kinds: {name!r}", hint=hint)
