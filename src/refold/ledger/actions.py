"""The actions of a page's tool calls: read, create, modify, delete, run, search, todo, or other.

The kind of a call comes from the configuration, the tool's name, or, for a shell command, from the
command itself; one call may be several actions. Results that came as text are actions as well.
`changed_files` and `made_stale` answer which files changed, and whether a shown text is outdated.
Neighbours: `calls` pairs calls with results, `tools` has names, `arguments` shapes, `shell`
commands.
"""

from __future__ import annotations

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
from refold.ledger.calls import Call, TextResult, calls_in, content_start, exit_status, failed
from refold.ledger.facts import CHANGES, ON_FILES, ActionKind, of_kind
from refold.ledger.scripts import SUFFIXES, changes_of, patched
from refold.ledger.shell import Reading, reading_of
from refold.ledger.shell_words import END, Effect
from refold.ledger.tools import MOVERS, compact, configured, kind_of_tool

EDITS = frozenset({"edit", "insert"})  # editor commands for the file opened before


class Action(Struct, frozen=True, kw_only=True):
    """One action of a call. `first`/`last` are lines of the file (`last` 0: to its end; `first`
    negative: from its end). `alone`: the result, from character `start`, is the text of these
    lines and nothing else. `written`: the call itself has the file's whole text. `ok` is None if
    the outcome is unknown."""

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
    """State for later calls: the file opened last, and the text of written scripts, by file
    name."""

    opened: str = ""
    scripts: dict[str, str] = field(default_factory=dict)


def spellings_of(config: Config) -> Spellings:
    """The rules for comparing paths: relative to `cwd`, and without case if `ignore_case` is
    set."""
    settings = config.strategy.get("actions", {})
    return Spellings(settings.get("cwd", ""), ignore_case=settings.get("ignore_case", False))


def actions_of(
    slots: Sequence[Slot], config: Config, spellings: Spellings | None = None
) -> list[Action]:
    """The actions of a page in order. Stand-ins have none."""
    messages = ((slot.seq, slot.message) for slot in slots if not slot.standin)
    return actions_in(messages, config, spellings)


def actions_in(
    messages: Iterable[tuple[int, Message]], config: Config, spellings: Spellings | None = None
) -> list[Action]:
    """The actions of messages, each given with its seq."""
    actions: list[Action] = []
    earlier, spellings = _Earlier(), spellings or spellings_of(config)
    for call in calls_in(messages):
        for action in _actions_of_call(call, config, earlier):
            if action.path:
                action = replace(action, path=spellings.form(action.path))
                if action.kind in ("read", "create"):
                    earlier.opened = action.path
                if action.written and action.path.endswith(SUFFIXES):
                    earlier.scripts[file_name(action.path)] = whole_text(action.arguments)
            actions.append(action)
    return actions


def _actions_of_call(call: Call | TextResult, config: Config, earlier: _Earlier) -> list[Action]:
    if isinstance(call, TextResult):
        return [_text_action(call)]
    tool, arguments = call.call.name, arguments_of(call.call)
    command = command_of(arguments)
    entry = config.tool_kinds.get(tool)
    kind, path_argument = configured(entry) if entry else (None, "")
    paths = paths_of(arguments, path_argument)
    if kind is None:
        has_path, has_command = bool(paths), command is not None
        kind = kind_of_tool(tool, arguments, has_path=has_path, has_command=has_command)
    base = Action(kind=kind, tool=tool, seq=call.seq, block=call.block, arguments=arguments)
    if call.result is not None:
        text = text_of(call.result)
        ok, status = _outcome(kind, text, call.result.is_error)
        base = replace(
            base,
            ok=ok,
            exit=status,
            result_seq=call.result_seq,
            result_block=call.result_block,
            start=content_start(text),
            output=text,
        )
    if kind == "run":
        return _run_actions(base, command, earlier)
    if compact(tool) in MOVERS:
        source, target = arguments.get("source"), arguments.get("destination")
        if not (isinstance(source, str) and isinstance(target, str) and source and target):
            return [base]
        moved, made = replace(base, kind="delete", path=source), replace(base, kind="create")
        return [moved, replace(made, path=target)]
    if kind == "modify" and not paths:
        changes = patched(patch_of(arguments))
        return [replace(base, kind=change, path=path) for change, path in changes] or [base]
    return _file_actions(base, paths, path_argument)


def _outcome(kind: ActionKind, text: str, is_error: bool) -> tuple[bool | None, int | None]:
    """Whether a call succeeded, and the exit status of a command."""
    if text == NO_RESULT:
        return None, None
    status = exit_status(text) if kind == "run" else None
    if is_error:
        return False, status
    if status is None:
        return not failed(text), None
    return status == 0, status


def _text_action(result: TextResult) -> Action:
    """The action behind a result that came as text."""
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
    """The actions of a call on the files in its arguments."""
    if base.kind == "search" and paths:
        return [replace(base, path=paths[0])]
    if base.kind not in ON_FILES or not paths:
        return [base]
    if base.kind == "read":
        first, last = lines_of(base.arguments)
        alone = len(paths) == 1 and lines_are_known(base.arguments, path_argument)
        return [replace(base, path=path, first=first, last=last, alone=alone) for path in paths]
    is_whole = base.kind == "create" and len(paths) == 1 and bool(whole_text(base.arguments))
    return [replace(base, path=path, written=is_whole) for path in paths]


# --- commands ---


def _run_actions(base: Action, command: str | list[str] | None, earlier: _Earlier) -> list[Action]:
    """A command, and its effects on files. A command that only reads or looks around is not a
    run."""
    if command is None:
        return [replace(base, command=code_of(base.arguments))]
    run = replace(base, command=command if isinstance(command, str) else " ".join(command))
    if editing := _editor_actions(run, earlier.opened):
        return editing
    reading = reading_of(command)
    effects = _effect_actions(run, reading, earlier)
    if reading.plain:
        return effects or [replace(run, kind="search")]
    return [run, *effects]


def _effect_actions(run: Action, reading: Reading, earlier: _Earlier) -> list[Action]:
    """The effects of a command, and of its scripts if their text is known."""
    for path, code in reading.scripts:
        earlier.scripts[file_name(path)] = code
    effects = list(reading.effects)
    for script in reading.runs:
        code = earlier.scripts.get(file_name(script), "")
        effects += [Effect(kind, path) for kind, path in changes_of(script, code)]
    folder = folder_of(run.arguments)
    actions: list[Action] = []
    for effect in effects:
        # In a command of several steps, the change may have succeeded although the command failed.
        is_unknown = run.ok is False and reading.steps > 1 and effect.kind in CHANGES
        action = replace(
            run,
            kind=effect.kind,
            path=joined(folder, effect.path),
            first=effect.first,
            last=effect.last,
            alone=effect.alone,
            ok=None if is_unknown else run.ok,
        )
        actions.append(action)
    return actions


def _editor_actions(run: Action, opened: str) -> list[Action]:
    """Editor commands in the shell: `open path 10`, `create path`, and `edit 1:10 …` on the file
    opened last."""
    name, _, rest = run.command.strip().partition(" ")
    target = rest.split("\n", 1)[0].strip().strip("\"'")
    if name == "open" and target:
        return [replace(run, kind="read", path=target.split(" ")[0])]
    if name == "create" and target and " " not in target:
        return [replace(run, kind="create", path=target)]
    if name in EDITS and opened and rest:
        return [replace(run, kind="modify", path=opened)]
    return []


def changed_files(slots: Sequence[Slot], config: Config) -> list[str]:
    """The files that the tool calls of these messages changed, or may have changed, in the order
    of their first change."""
    changes = _changes(actions_of(slots, config))
    return list(dict.fromkeys(action.path for action in changes if action.path))


def made_stale(view: View, seq: int, config: Config) -> tuple[int, str] | None:
    """The seq and the path of the first change to a file after the message at `seq` showed its
    text; from the page, or from the ledger if the change is no longer on it. None if the text is
    still valid, or is not shown whole."""
    if not any(slot.seq == seq and not slot.edits for slot in view.slots):
        return None
    actions = actions_of(view.slots, config)
    read = {
        action.path
        for action in actions
        if action.kind == "read" and action.ok and action.result_seq == seq
    }
    changes = [(action.seq, action.path) for action in _changes(actions)]
    files = of_kind(view.facts, "file")
    changes += [(fact.seq, fact.text) for fact in files if fact.state != "read"]
    later = [change for change in changes if change[0] > seq and change[1] in read]
    return min(later, default=None)


def _changes(actions: Sequence[Action]) -> list[Action]:
    """The actions that changed a file, or may have."""
    return [action for action in actions if action.kind in CHANGES and action.ok is not False]
