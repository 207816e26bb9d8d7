"""What the tool calls of a page did, by code: read, create, modify, delete, run, search, todo, or
other.

Each call is paired with its result. Its kind comes from the configuration, the tool's name, or, for
a shell command, from the command itself; one call may be several actions. Results given as text
(`[read_file for 'a'] Result:`) are actions too. Neighbours: `tools` knows names, `arguments`
shapes, `shell` commands, `outcomes` results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold.config import Config
from refold.core.fold import text_of
from refold.core.laws import NO_RESULT
from refold.core.model import Block, Message, Slot, Text, ToolCall, ToolResult, View
from refold.ledger.arguments import (
    arguments_of,
    code_of,
    command_of,
    folder_of,
    lines_are_known,
    lines_of,
    patch_of,
    paths_of,
    whole_text,
)
from refold.ledger.file_mentions import Header, header
from refold.ledger.outcomes import exit_status, failed
from refold.ledger.patches import patched
from refold.ledger.paths import Spellings, joined
from refold.ledger.scripts import SUFFIXES, changes_of
from refold.ledger.shell import Reading, reading_of
from refold.ledger.shell_reads import END, Effect
from refold.ledger.tools import MOVERS, Kind, compact, configured, kind_of_tool

RUNS_ON_FILES = frozenset({"edit", "insert"})  # editor commands that work on the file opened before
CHANGES = frozenset({"create", "modify", "delete"})


class Action(Struct, frozen=True, kw_only=True):
    """One thing that a call did. `first`/`last` are lines of the file (`last` 0: to its end;
    `first` negative: from its end). `alone`: the result, from character `start`, is the text of
    these lines and nothing else. `written`: the call itself carries the file's whole text. `ok`
    is None where the outcome is not known."""

    kind: Kind
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


class _Desk(Struct):
    """What earlier calls left behind: the file opened last, and the scripts that were written,
    by path."""

    opened: str = ""
    scripts: dict[str, str] = {}


class _Pair(Struct):
    """A call and, once it came, its result."""

    call: ToolCall
    seq: int
    block: int
    result: ToolResult | None = None
    result_seq: int = 0
    result_block: int = 0


def spellings_of(config: Config) -> Spellings:
    """How paths are compared: from the folder `cwd`, and without case if `ignore_case` is set."""
    settings = config.strategy.get("actions", {})
    return Spellings(settings.get("cwd", ""), ignore_case=settings.get("ignore_case", False))


def actions_of(
    slots: Sequence[Slot], config: Config, spellings: Spellings | None = None
) -> list[Action]:
    """The actions of a page in order. Stand-ins are no messages and have none."""
    return actions_in(
        ((slot.seq, slot.message) for slot in slots if not slot.standin), config, spellings
    )


def actions_in(
    messages: Iterable[tuple[int, Message]], config: Config, spellings: Spellings | None = None
) -> list[Action]:
    """The actions of messages, each given with its seq."""
    out: list[Action] = []
    desk, spellings = _Desk(), spellings or spellings_of(config)
    for pair in _paired(messages):
        for action in [pair] if isinstance(pair, Action) else _actions(pair, config, desk):
            if action.path:
                action = replace(action, path=spellings.form(action.path))
                desk.opened = action.path if action.kind in ("read", "create") else desk.opened
            if action.written and action.path.endswith(SUFFIXES):
                desk.scripts[action.path.rsplit("/", 1)[-1]] = whole_text(action.arguments)
            out.append(action)
    return out


def made_stale(view: View, seq: int, config: Config) -> tuple[int, str] | None:
    """The first change, by its seq, of a file after the message at `seq` showed its text, and
    the file; from the page, or from the ledger where the change is no longer on it. None if its
    text still holds, or is not shown whole."""
    if not any(slot.seq == seq and not slot.edits for slot in view.slots):
        return None
    found = actions_of(view.slots, config)
    read = {
        action.path
        for action in found
        if action.kind == "read" and action.ok and action.result_seq == seq
    }
    changes = [
        (action.seq, action.path)
        for action in found
        if action.kind in CHANGES and action.ok is not False
    ]
    told = [
        (fact.seq, fact.text) for fact in view.facts if fact.kind == "file" and fact.state != "read"
    ]
    return min(
        (change for change in (*changes, *told) if change[0] > seq and change[1] in read),
        default=None,
    )


def _paired(messages: Iterable[tuple[int, Message]]) -> list[_Pair | Action]:
    """Calls with their results, and results that stand as text, in order."""
    out: list[_Pair | Action] = []
    waiting: dict[str, _Pair] = {}
    for seq, message in messages:
        for index, block in enumerate(message.blocks):
            if isinstance(block, ToolCall):
                waiting[block.id] = pair = _Pair(block, seq, index)
                out.append(pair)
            elif isinstance(block, ToolResult) and block.call in waiting:
                pair = waiting.pop(block.call)
                pair.result, pair.result_seq, pair.result_block = block, seq, index
            elif message.role in ("user", "tool") and isinstance(block, Text | ToolResult):
                out += _headed(seq, index, message.blocks)
    return out


# --- results that stand as text ---


def _headed(seq: int, index: int, blocks: Sequence[Block]) -> list[Action]:
    """The action of a text that begins with a result's header; its content may be the next
    block."""
    text = text_of(blocks[index])
    found = header(text) if text.startswith("[") else None
    if found is None:
        return []
    start = found.end + (text[found.end : found.end + 1] == "\n")
    at, content = index, text[start:]
    if not content.strip() and index + 1 < len(blocks) and isinstance(blocks[index + 1], Text):
        at, start, content = index + 1, 0, text_of(blocks[index + 1])
    told = Action(
        kind="other",
        tool=found.tool,
        seq=seq,
        block=index,
        result_seq=seq,
        result_block=at,
        start=start,
        output=content,
    )
    return [_header_action(found, told)]


def _header_action(found: Header, action: Action) -> Action:
    kind = kind_of_tool(found.tool, {}, has_path=True, has_command=True)
    named = {"path": found.subject} if kind in (*CHANGES, "read") else {}
    ran = {"command": found.subject} if kind == "run" else {}
    ok, status = _outcome(kind, action.output, False)
    return replace(action, kind=kind, alone=kind == "read", ok=ok, exit=status, **named, **ran)


# --- calls ---


def _actions(pair: _Pair, config: Config, desk: _Desk) -> list[Action]:
    call, arguments = pair.call, arguments_of(pair.call)
    entry = config.tool_kinds.get(call.name)
    kind, named = configured(entry) if entry else (None, "")
    paths = paths_of(arguments, named)
    command = command_of(arguments)
    if kind is None:
        has_command = command is not None
        kind = kind_of_tool(call.name, arguments, has_path=bool(paths), has_command=has_command)
    base = _based(pair, kind, arguments)
    if kind == "run":
        return _run(base, command, desk)
    if compact(call.name) in MOVERS:
        return _moved(base)
    if kind == "modify" and not paths:
        return [
            replace(base, kind=_kind(what), path=path)
            for what, path in patched(patch_of(arguments))
        ] or [base]
    return _on_files(base, paths, named)


def _based(pair: _Pair, kind: Kind, arguments: Mapping[str, Any]) -> Action:
    """The action that all actions of a call are made from."""
    text = text_of(pair.result) if pair.result is not None else ""
    error = pair.result is not None and pair.result.is_error
    ok, status = _outcome(kind, text, error) if pair.result is not None else (None, None)
    found = header(text) if text.startswith("[") else None
    start = found.end + (text[found.end : found.end + 1] == "\n") if found else 0
    return Action(
        kind=kind,
        tool=pair.call.name,
        ok=ok,
        exit=status,
        seq=pair.seq,
        block=pair.block,
        result_seq=pair.result_seq,
        result_block=pair.result_block,
        start=start,
        arguments=arguments,
        output=text,
    )


def _outcome(kind: Kind, text: str, error: bool) -> tuple[bool | None, int | None]:
    """Whether it went well, and the exit status of a command."""
    if text == NO_RESULT:
        return None, None
    status = exit_status(text) if kind == "run" else None
    if error:
        return False, status
    return (status == 0, status) if status is not None else (not failed(text), None)


def _on_files(base: Action, paths: Sequence[str], named: str) -> list[Action]:
    if not paths or base.kind in ("todo", "other", "search"):
        return [replace(base, path=paths[0]) if paths and base.kind == "search" else base]
    if base.kind == "read":
        first, last = lines_of(base.arguments)
        alone = len(paths) == 1 and lines_are_known(base.arguments, named)
        return [replace(base, path=path, first=first, last=last, alone=alone) for path in paths]
    written = base.kind == "create" and len(paths) == 1 and bool(whole_text(base.arguments))
    return [replace(base, path=path, written=written) for path in paths]


def _moved(base: Action) -> list[Action]:
    """A move by a tool of its own: one file goes, one comes."""
    ends = [base.arguments.get(name) for name in ("source", "destination")]
    if not all(isinstance(end, str) and end for end in ends):
        return [base]
    return [replace(base, kind="delete", path=ends[0]), replace(base, kind="create", path=ends[1])]


def _kind(text: str) -> Kind:
    return text  # type: ignore[return-value]


# --- commands ---


def _run(base: Action, command: str | list[str] | None, desk: _Desk) -> list[Action]:
    """A command, and what it does to files. One that only reads or looks around is no run."""
    if command is None:
        return [replace(base, command=code_of(base.arguments))]
    line = command if isinstance(command, str) else " ".join(command)
    if editing := _editor_actions(base, line, desk.opened):
        return editing
    reading = reading_of(command)
    folder = folder_of(base.arguments)
    found = [*reading.effects, *_scripted(reading, desk)]
    effects = [_effect_action(base, effect, line, folder, reading.steps) for effect in found]
    if reading.plain:
        return effects or [replace(base, kind="search", command=line)]
    return [replace(base, command=line), *effects]


def _scripted(reading: Reading, desk: _Desk) -> list[Effect]:
    """What the scripts do that a command runs, where they were written before and say it."""
    for path, code in reading.scripts:
        desk.scripts[path.rsplit("/", 1)[-1]] = code
    ran = [(path, desk.scripts.get(path.rsplit("/", 1)[-1], "")) for path in reading.runs]
    return [Effect(kind, path) for script, text in ran for kind, path in changes_of(script, text)]


def _effect_action(base: Action, effect: Effect, line: str, folder: str, steps: int) -> Action:
    # Of several steps, the one that changed the file may have gone well although the whole failed.
    unknown = base.ok is False and steps > 1 and effect.kind in CHANGES
    return replace(
        base,
        kind=_kind(effect.kind),
        path=joined(folder, effect.path),
        first=effect.first,
        last=effect.last,
        alone=effect.alone,
        command=line,
        ok=None if unknown else base.ok,
    )


def _editor_actions(base: Action, line: str, opened: str) -> list[Action]:
    """Editors that live in the shell: `open path 10`, `create path`, and `edit 1:10 …` on the
    file opened last."""
    name, _, rest = line.strip().partition(" ")
    target = rest.split("\n", 1)[0].strip().strip("\"'")
    if name == "open" and target:
        return [replace(base, kind="read", path=target.split(" ")[0], command=line)]
    if name == "create" and target and " " not in target:
        return [replace(base, kind="create", path=target, command=line)]
    if name in RUNS_ON_FILES and opened and rest:
        return [replace(base, kind="modify", path=opened, command=line)]
    return []


def changed_files(slots: Sequence[Slot], config: Config) -> list[str]:
    """The files that the tool calls of these messages changed, or may have changed, by their
    first change."""
    changes = (
        action
        for action in actions_of(slots, config)
        if action.kind in CHANGES and action.ok is not False
    )
    return list(dict.fromkeys(action.path for action in changes if action.path))
