"""What the tool calls of a page did, by code: read, create, modify, delete, run, search, todo, or
other.

The kind of a call comes from the configuration, the tool's name, or, for a shell command, from the
command itself; one call may be several actions. Results given as text are actions as well.
Neighbours: `calls` pairs calls with results, `tools` knows names, `arguments` shapes, `shell`
commands, `outcomes` results.

Which files the tool calls changed, and which shown text a change made stale.

Neighbours: `actions` says what was done; `log.trace` and `log.points` ask.

How a tool call ended, read from its result: the exit status where it is stated, or the signs of
a failure.

Only the first and last few hundred characters are looked at, so that a file's own text is not taken
for an outcome. Neighbours: `results` has the text of a result, `actions` asks for both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from refold.config import Config
from refold.core.laws import NO_RESULT
from refold.core.model import Message, Slot, View
from refold.core.shortened import text_of
from refold.ledger.arguments import (
    Spellings,
    arguments_of,
    code_of,
    command_of,
    file_name,
    folder_of,
    joined,
    lines_are_known,
    lines_of,
    patch_of,
    paths_of,
    whole_text,
)
from refold.ledger.calls import Call, TextResult, calls_in
from refold.ledger.embedded_files import (
    SUFFIXES,
    FileChange,
    changes_of,
    content_start,
    header,
    patched,
)
from refold.ledger.facts import CHANGES, ON_FILES, ActionKind, of_kind
from refold.ledger.shell import Reading, reading_of
from refold.ledger.shell_words import END, Effect
from refold.ledger.tools import MOVERS, compact, configured, kind_of_tool

RUNS_ON_FILES = frozenset({"edit", "insert"})  # editor commands that work on the file opened before


class Action(Struct, frozen=True, kw_only=True):
    """One thing that a call did. `first`/`last` are lines of the file (`last` 0: to its end;
    `first` negative: from its end). `alone`: the result, from character `start`, is the text of
    these lines and nothing else. `written`: the call itself carries the file's whole text. `ok`
    is None where the outcome is not known."""

    kind: ActionKind
    tool: str = ""
    path: str = ""
    first: int = 1
    last: int = END
    command: str = ""
    alone: bool = False
    written: bool = False
    ok: bool | None = None
    exit: int | None = None
    seq: int = 0
    block: int = 0
    result_seq: int = 0
    result_block: int = 0
    start: int = 0
    arguments: Mapping[str, Any] = {}
    output: str = ""

    @property
    def whole(self) -> bool:
        """Whether it concerns the file from its first line to its last."""
        return self.first == 1 and self.last == END


class _Earlier(Struct):
    """What later calls need of earlier ones: the file opened last, and the text of the scripts
    that were written, by file name."""

    opened: str = ""
    scripts: dict[str, str] = field(default_factory=dict)

    def note(self, action: Action) -> None:
        if action.path and action.kind in ("read", "create"):
            self.opened = action.path
        if action.written and action.path.endswith(SUFFIXES):
            self.scripts[file_name(action.path)] = whole_text(action.arguments)


def spellings_of(config: Config) -> Spellings:
    """How paths are compared: from the folder `cwd`, and without case if `ignore_case` is set."""
    settings = config.strategy.get("actions", {})
    return Spellings(settings.get("cwd", ""), ignore_case=settings.get("ignore_case", False))


def actions_of(
    slots: Sequence[Slot], config: Config, spellings: Spellings | None = None
) -> list[Action]:
    """The actions of a page in order. Stand-ins are not messages and have none."""
    messages = ((slot.seq, slot.message) for slot in slots if not slot.standin)
    return actions_in(messages, config, spellings)


def actions_in(
    messages: Iterable[tuple[int, Message]], config: Config, spellings: Spellings | None = None
) -> list[Action]:
    """The actions of messages, each given with its seq."""
    out: list[Action] = []
    earlier, spellings = _Earlier(), spellings or spellings_of(config)
    for call in calls_in(messages):
        for action in _actions_of_call(call, config, earlier):
            if action.path:
                action = replace(action, path=spellings.form(action.path))
                earlier.note(action)
            out.append(action)
    return out


def _actions_of_call(call: Call | TextResult, config: Config, earlier: _Earlier) -> list[Action]:
    if isinstance(call, TextResult):
        return [_text_action(call)]
    arguments = arguments_of(call.call)
    command = command_of(arguments)
    kind, path_argument = _configured_kind(call.call.name, config)
    paths = paths_of(arguments, path_argument)
    if kind is None:
        has_path, has_command = bool(paths), command is not None
        kind = kind_of_tool(call.call.name, arguments, has_path=has_path, has_command=has_command)
    base = _base_action(call, kind, arguments)
    if kind == "run":
        return _run_actions(base, command, earlier)
    if compact(base.tool) in MOVERS:
        return _move_actions(base)
    if kind == "modify" and not paths:
        return _patch_actions(base)
    return _file_actions(base, paths, path_argument)


def _configured_kind(tool: str, config: Config) -> tuple[ActionKind | None, str]:
    """The kind that the configuration gives a tool, and the argument that holds its path."""
    entry = config.tool_kinds.get(tool)
    return configured(entry) if entry else (None, "")


def _base_action(call: Call, kind: ActionKind, arguments: Mapping[str, Any]) -> Action:
    """The action that all actions of a call are made from."""
    base = Action(
        kind=kind, tool=call.call.name, seq=call.seq, block=call.block, arguments=arguments
    )
    if call.result is None:
        return base
    text = text_of(call.result)
    ok, status = _outcome(kind, text, call.result.is_error)
    return replace(
        base,
        ok=ok,
        exit=status,
        result_seq=call.result_seq,
        result_block=call.result_block,
        start=content_start(text, header(text)),
        output=text,
    )


def _outcome(kind: ActionKind, text: str, is_error: bool) -> tuple[bool | None, int | None]:
    """Whether it went well, and the exit status of a command."""
    if text == NO_RESULT:
        return None, None
    status = exit_status(text) if kind == "run" else None
    if is_error:
        return False, status
    if status is None:
        return not failed(text), None
    return status == 0, status


def _text_action(result: TextResult) -> Action:
    """The action that a result given as text tells of."""
    tool, subject, _ = result.header
    kind = kind_of_tool(tool, {}, has_path=True, has_command=True)
    ok, status = _outcome(kind, result.output, False)
    return Action(
        kind=kind,
        tool=tool,
        path=subject if kind in ON_FILES else "",
        command=subject if kind == "run" else "",
        alone=kind == "read",
        ok=ok,
        exit=status,
        seq=result.seq,
        block=result.block,
        result_seq=result.seq,
        result_block=result.content_block,
        start=result.start,
        output=result.output,
    )


# --- files ---


def _file_actions(base: Action, paths: Sequence[str], path_argument: str) -> list[Action]:
    """What a call does to the files that its arguments name."""
    if base.kind == "search" and paths:
        return [replace(base, path=paths[0])]
    if base.kind not in ON_FILES or not paths:
        return [base]
    if base.kind == "read":
        return _read_actions(base, paths, path_argument)
    is_whole = base.kind == "create" and len(paths) == 1 and bool(whole_text(base.arguments))
    return [replace(base, path=path, written=is_whole) for path in paths]


def _read_actions(base: Action, paths: Sequence[str], path_argument: str) -> list[Action]:
    first, last = lines_of(base.arguments)
    alone = len(paths) == 1 and lines_are_known(base.arguments, path_argument)
    return [replace(base, path=path, first=first, last=last, alone=alone) for path in paths]


def _move_actions(base: Action) -> list[Action]:
    """A move by a tool of its own: one file goes, one comes."""
    source, target = base.arguments.get("source"), base.arguments.get("destination")
    if not (isinstance(source, str) and isinstance(target, str) and source and target):
        return [base]
    return [replace(base, kind="delete", path=source), replace(base, kind="create", path=target)]


def _patch_actions(base: Action) -> list[Action]:
    """The changes that the patch of a call makes, where it says so."""
    changes = patched(patch_of(base.arguments))
    return [replace(base, kind=kind, path=path) for kind, path in changes] or [base]


# --- commands ---


def _run_actions(base: Action, command: str | list[str] | None, earlier: _Earlier) -> list[Action]:
    """A command, and what it does to files. One that only reads or looks around is not a run."""
    if command is None:
        return [replace(base, command=code_of(base.arguments))]
    run = replace(base, command=command if isinstance(command, str) else " ".join(command))
    editing = _editor_actions(run, earlier.opened)
    if editing:
        return editing
    reading = reading_of(command)
    effects = _effect_actions(run, reading, earlier)
    if reading.plain:
        return effects or [replace(run, kind="search")]
    return [run, *effects]


def _effect_actions(run: Action, reading: Reading, earlier: _Earlier) -> list[Action]:
    """What a command and the scripts that it runs do to files."""
    folder = folder_of(run.arguments)
    scripted = [Effect(kind, path) for kind, path in _script_changes(reading, earlier)]
    actions: list[Action] = []
    for effect in (*reading.effects, *scripted):
        # Of several steps, the one that changed the file may have gone well although the whole
        # failed.
        is_unknown = run.ok is False and reading.steps > 1 and effect.kind in CHANGES
        actions.append(_effect_action(run, effect, folder, None if is_unknown else run.ok))
    return actions


def _script_changes(reading: Reading, earlier: _Earlier) -> list[FileChange]:
    """What the scripts do that a command runs, where they were written before and say it."""
    for path, code in reading.scripts:
        earlier.scripts[file_name(path)] = code
    changes: list[FileChange] = []
    for script in reading.runs:
        changes += changes_of(script, earlier.scripts.get(file_name(script), ""))
    return changes


def _effect_action(run: Action, effect: Effect, folder: str, ok: bool | None) -> Action:
    return replace(
        run,
        kind=effect.kind,
        path=joined(folder, effect.path),
        first=effect.first,
        last=effect.last,
        alone=effect.alone,
        ok=ok,
    )


def _editor_actions(run: Action, opened: str) -> list[Action]:
    """Editors that live in the shell: `open path 10`, `create path`, and `edit 1:10 …` on the
    file opened last."""
    name, _, rest = run.command.strip().partition(" ")
    target = rest.split("\n", 1)[0].strip().strip("\"'")
    if name == "open" and target:
        return [replace(run, kind="read", path=target.split(" ")[0])]
    if name == "create" and target and " " not in target:
        return [replace(run, kind="create", path=target)]
    if name in RUNS_ON_FILES and opened and rest:
        return [replace(run, kind="modify", path=opened)]
    return []


def changed_files(slots: Sequence[Slot], config: Config) -> list[str]:
    """The files that the tool calls of these messages changed, or may have changed, by their
    first change."""
    changes = _changes(actions_of(slots, config))
    return list(dict.fromkeys(action.path for action in changes if action.path))


def made_stale(view: View, seq: int, config: Config) -> tuple[int, str] | None:
    """The first change, by its seq, of a file after the message at `seq` showed its text, and
    the file; from the page, or from the ledger where the change is no longer on it. None if its
    text still holds, or is not shown whole."""
    if not any(slot.seq == seq and not slot.edits for slot in view.slots):
        return None
    actions = actions_of(view.slots, config)
    read = _files_read(actions, seq)
    changes = [(action.seq, action.path) for action in _changes(actions)]
    changes += _changes_in_ledger(view)
    later = [change for change in changes if change[0] > seq and change[1] in read]
    return min(later, default=None)


def _changes(actions: Sequence[Action]) -> list[Action]:
    """The actions that changed a file, as far as is known."""
    return [action for action in actions if action.kind in CHANGES and action.ok is not False]


def _files_read(actions: Sequence[Action], seq: int) -> set[str]:
    """The files whose text the result at `seq` shows."""
    reads = [action for action in actions if action.kind == "read" and action.ok]
    return {action.path for action in reads if action.result_seq == seq}


def _changes_in_ledger(view: View) -> list[tuple[int, str]]:
    """The changes that the ledger of the view knows."""
    files = of_kind(view.facts, "file")
    return [(fact.seq, fact.text) for fact in files if fact.state != "read"]


HEAD, TAIL = 400, 240
COUNT_LINES = 3  # at the end, where a test runner counts

_HEADLINE = re.compile(
    r"(?:process |command )?exit(?:ed)?(?: with)?[ _](?:code|status):? (-?\d{1,5})\.?$",
    re.IGNORECASE,
)
_LAST_LINE = re.compile(
    r"[\[<(]?[^\n]{0,60}?\bexit(?:ed)?(?: with)?[ _](?:code|status)[:=]? ?(-?\d{1,5})[.\])>]{0,3}$",
    re.IGNORECASE,
)
_TAGGED = re.compile(
    r"<(?:returncode|exit_code|exitcode)>\s{0,4}(-?\d{1,5})\s{0,4}</", re.IGNORECASE
)
_IN_JSON = re.compile(r'"(?:exit_code|exitCode|returncode)" ?: ?(-?\d{1,5})\b')
_COUNTED = re.compile(
    r"(?:^|[\s,;:=])[1-9]\d{0,6} (?:failed|failing|failures?)\b(?!:)", re.IGNORECASE
)
_FAILED_STARTS = (
    "<tool_use_error>", "<error>", "error:", "error ", "error\n", "failed to ", "failed:",
    "the tool execution failed", "traceback (most recent call last)", "file does not exist",
    "file not found", "no such file", "path does not exist", "string to replace not found",
    "could not find the exact", "could not find ", "no changes made", "invalid ",
    "permission denied", "the user doesn't want to proceed", "the user denied", "user rejected",
    "command aborted", "inputvalidationerror", "cannot ", "unable to ", "access denied",
    "[no result recorded]", "[erased]", "enoent", "your proposed edit has introduced",
    "no replacement was performed", "apply_patch verification failed", "patch failed", '{"error"',
    '{"message": "path does no', '{"success": false', '{"success":false', '{"status":"error"',
)  # fmt: skip


def exit_status(text: str) -> int | None:
    """The exit status that a result states in a line of its own near its beginning or its end."""
    match = (
        _TAGGED.match(text.lstrip()[:60])
        or _stated(_HEADLINE, text[:HEAD].split("\n")[:6])
        or _in_json(text)
        or _stated(_LAST_LINE, text[-TAIL:].rstrip().split("\n")[-4:])
    )
    return int(match[1]) if match else None


def _in_json(text: str) -> re.Match[str] | None:
    if not text.startswith("{"):
        return None
    return _IN_JSON.search(text[:HEAD]) or _IN_JSON.search(text[-TAIL:])


def _stated(form: re.Pattern[str], lines: list[str]) -> re.Match[str] | None:
    """The last of these lines that has the form."""
    for line in reversed(lines):
        match = form.match(line.strip())
        if match:
            return match
    return None


def failed(text: str) -> bool:
    """Whether a result begins as failures begin."""
    start = text[:HEAD].lstrip(" \n\r\t[").lower()
    return start.startswith(_FAILED_STARTS)


def tests_failed(text: str) -> bool:
    """Whether a test runner's own count, in the last lines, names failures. A pipe hides the
    exit status, not that."""
    lines = text[-TAIL:].rstrip().split("\n")
    return any(_COUNTED.search(line) for line in lines[-COUNT_LINES:])
