"""The ledger: typed facts of a span, extracted by code, kept across compactions, never paraphrased.

Requests, files, commands, errors, decisions, constraints, to-dos, artifacts; one fact per kind and
text, with its newest state. `facts_of` gives the new facts of a span, `merged` bounds their number,
`ledger_lines` formats them for a page: grouped, one line per fact with its #seq, in a fixed order;
if room is short, the least needed facts are left out and counted. `tools_used` counts tool
calls for the notes of a summary. Neighbours: `actions`, `sentences`, `failures` and `todos` find
the facts, `strategies.summarize` notes the uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from refold.config import Config
from refold.core.call_arguments import arguments_text
from refold.core.laws import is_request
from refold.core.model import (
    Fact,
    FactKind,
    FileState,
    Slot,
    SummaryNotes,
    ToolCall,
    ToolResult,
    shows_memories,
)
from refold.core.shortened import text_of
from refold.display import cut, one_line
from refold.ledger.actions import Action, actions_of, spellings_of
from refold.ledger.calls import exit_status, failed
from refold.ledger.facts import (
    ON_FILES,
    RANK_CHANGED,
    RANK_KEPT,
    RANK_RULE,
    RANK_SPARE,
    UNCLEANED,
    Cutter,
    of_kind,
    rank,
    without_middle,
)
from refold.ledger.failures import LABEL_MAX, error_facts, went_well
from refold.ledger.sentences import SENTENCE_MAX, Marked, marked, own_text
from refold.ledger.todos import checked, listings, settled_todos
from refold.ledger.typed_words import typed

__all__ = ["facts_of", "files_in_work", "ledger_lines", "merged"]

FACTS_MAX = 400
REQUEST_MAX = 2_000
COMMAND_MAX = 240
ASSISTANT_MAX = 60  # new sentences of the assistant per span
MESSAGE_MAX = 12  # binding sentences of one message; one with more is a document
REQUEST_SHOWN = 400  # of an older request
CHARACTERS = 12_000
GROUP_SHARE = 0.35  # of the room, for one group, while others need it
COUNT_ROOM = 40  # for the line that counts the facts left out
USES_MAX = 3
TOOLS_MAX = 30  # the tools used most have their uses noted
USE_READ = 20_000  # characters: enough for a private key to be recognized
FAILED = "failed: "
NAMED_MAX, PATH_CHARS = 8, 40  # files in a briefing

_MARK = re.compile(r"^- #\d+ ")
_COMMIT = re.compile(r"\bgit\b[^|;&\n]*\bcommit\b(?![^|;&\n]*--dry-run)")
# A command that checks the work, by the usual words for it in names of tools and targets.
_CHECK = re.compile(
    r"(?<![\w./-])(?:\w+[:-])?(?:py)?(?:tests?|build|lint|check|tsc|mypy|ruff|vet)\b"
)

OwnTexts = Sequence[tuple[Slot, str]]
"""Messages, each with its speaker's own text."""


# --- the facts of a span ---


def facts_of(
    slots: Sequence[Slot],
    config: Config,
    known: Sequence[Fact] = (),
    cutter: Cutter = UNCLEANED,
) -> tuple[Fact, ...]:
    """The facts of a span that are new or have a new state, in order of their seq."""
    slots = [slot for slot in slots if not (slot.standin or shows_memories(slot.message))]
    spellings = spellings_of(config)
    actions = actions_of(slots, config, spellings)
    clean = {path: spellings.redacted(path, cutter.redact) for path in {a.path for a in actions}}
    actions = [
        action if clean[action.path] == action.path else replace(action, path=clean[action.path])
        for action in actions
    ]
    speaking = [slot for slot in slots if slot.message.role in ("user", "assistant")]
    texts = [(slot, own_text(slot.message)) for slot in speaking]
    commands = [action for action in actions if action.kind == "run" and action.command.strip()]
    check_lists = [checked(text, slot.seq, cutter) for slot, text in texts]
    lists = [*listings(actions, known, cutter), *filter(None, check_lists)]
    facts = [
        *_requests(texts, cutter),
        *_binding_sentences("assistant", texts, cutter)[-ASSISTANT_MAX:],
        *_binding_sentences("user", texts, cutter),
        *_files(actions, known, cutter),
        *(_command(action, cutter) for action in commands),
        *error_facts(actions, known, cutter),
        *settled_todos(lists, known).values(),
        *_artifacts(slots, actions, cutter),
    ]
    before = {(fact.kind, fact.text): fact for fact in known}
    new = {
        (fact.kind, fact.text): fact
        for fact in facts
        if _is_news(before.get((fact.kind, fact.text)), fact)
    }
    return tuple(sorted(new.values(), key=lambda fact: (fact.seq, fact.kind, fact.text)))


def files_in_work(slots: Sequence[Slot], config: Config) -> frozenset[str]:
    """The files used in these messages."""
    return frozenset(action.path for action in actions_of(slots, config) if action.path)


def _is_news(old: Fact | None, new: Fact) -> bool:
    """Whether a fact is new: a repeated sentence keeps its first position, a request, a command
    and a change their last."""
    if old is None or old.state != new.state:
        return True
    is_changed = new.kind == "file" and new.state != "read"
    return (is_changed or new.kind in ("request", "command")) and new.seq > old.seq


def _requests(texts: OwnTexts, cutter: Cutter) -> Iterable[Fact]:
    """The requests, redacted even if short: the page may show only a part of one."""
    for slot, text in texts:
        if text.strip() and is_request(slot):
            words = without_middle(cutter.redact(text.strip()), REQUEST_MAX, slot.seq)
            yield Fact(kind="request", text=words, seq=slot.seq)


def _binding_sentences(
    role: Literal["assistant", "user"], texts: OwnTexts, cutter: Cutter
) -> list[Fact]:
    """Decisions and constraints of one speaker; those that a user typed are marked as such."""
    by_user, own = role == "user", list[Marked]()
    facts: list[Fact] = []
    for slot, text in texts:
        binding = marked(text, by_user=by_user) if slot.message.role == role else []
        if by_user and binding:
            own, uncertain = (marked(part, by_user=True) for part in typed(text))
            binding = [*own, *uncertain]
        for at, (kind, sentence) in enumerate(binding[:MESSAGE_MAX]):
            words = cutter.end(sentence, SENTENCE_MAX)
            state = "user" if by_user and at < len(own) else ""
            facts.append(Fact(kind=kind, text=words, seq=slot.seq, state=state))
    return facts


def _files(actions: Sequence[Action], known: Sequence[Fact], cutter: Cutter) -> Iterable[Fact]:
    """One fact per file, with its latest state. Reading a changed file does not update it."""
    files = {fact.text: fact for fact in of_kind(known, "file")}
    for action in actions:
        is_on_file = action.kind in ON_FILES and action.ok is not False
        if not is_on_file or not action.path or action.path.endswith("/"):
            continue
        # A seeming file name in a command may be a secret: `password => 'x'`.
        name = action.path.rsplit("/", 1)[-1]
        if name in action.command and name not in cutter.redact(action.command):
            continue
        old = files.get(action.path)
        state = _file_state(old.state if old else "", action)
        is_same = old is not None and old.state == state
        if old is not None and (state == "read" or (is_same and action.kind == "read")):
            continue
        files[action.path] = Fact(kind="file", text=action.path, seq=action.seq, state=state)
    return files.values()


def _file_state(old: str, action: Action) -> FileState:
    match action.kind, old:
        case "read", "created" | "modified":
            return old
        case "read", _:
            return "read"
        case "create", "" | "created" | "deleted":
            return "created"
        case "modify", "created":
            return "created"
        case "create" | "modify", _:
            return "modified"
        case _:
            return "deleted"


def _command(action: Action, cutter: Cutter) -> Fact:
    """A command and its outcome."""
    if action.exit is not None:
        state = f"exit {action.exit}"
    else:
        state = {True: "ok", False: "failed", None: ""}[went_well(action)]
    text = cutter.middle(action.command.strip(), COMMAND_MAX)
    return Fact(kind="command", text=text, seq=action.seq, state=state)


def _artifacts(slots: Sequence[Slot], actions: Sequence[Action], cutter: Cutter) -> Iterable[Fact]:
    """The artifacts among the results, each with its origin."""
    origins = {(action.result_seq, action.result_block): action for action in reversed(actions)}
    for slot in slots:
        for index, block in enumerate(slot.message.blocks):
            if isinstance(block, ToolResult) and block.artifact:
                origin = origins.get((slot.seq, index))
                name = block.name
                if origin is not None:
                    name = origin.path or origin.command or origin.tool
                label = cutter.middle(one_line(name), LABEL_MAX)
                text = f"{block.artifact} {label}".strip()
                yield Fact(kind="artifact", text=text, seq=slot.seq)


def merged(
    known: Sequence[Fact], new: Sequence[Fact], facts_max: int = FACTS_MAX
) -> tuple[Fact, ...]:
    """All facts, new ones replacing known ones. Above the limit the least needed are dropped,
    oldest first, but never requests, changed files, binding sentences or open to-dos."""
    facts = {(fact.kind, fact.text): fact for fact in (*known, *new)}
    excess = len(facts) - facts_max
    if excess > 0:
        may_go = [fact for fact in facts.values() if rank(fact) > RANK_KEPT]
        may_go.sort(key=lambda fact: (-rank(fact), fact.seq, fact.text))
        for fact in may_go[:excess]:
            del facts[fact.kind, fact.text]
    return tuple(facts.values())


# --- the lines of a page ---


class _Group(NamedTuple):
    """The facts of one kind under a heading; of any state if none is named."""

    heading: str
    kind: FactKind
    states: tuple[str, ...] = ()

    def holds(self, fact: Fact) -> bool:
        return fact.kind == self.kind and (not self.states or fact.state in self.states)


_GROUPS = (
    _Group("User requests", "request"),
    _Group("Constraints", "constraint"),
    _Group("Decisions", "decision"),
    _Group("Open to-dos", "todo", ("open",)),
    _Group("Files changed", "file", ("created", "modified", "deleted")),
    _Group("Open errors", "error", ("open",)),
    _Group("Commands", "command"),
    _Group("Finished to-dos", "todo", ("done", "cancelled")),
    _Group("Resolved errors", "error", ("resolved",)),
    _Group("Artifacts", "artifact"),
    _Group("Files read", "file", ("read",)),
)


def ledger_lines(
    facts: Sequence[Fact],
    characters_max: int = CHARACTERS,
    in_work: Set[str] = frozenset(),
    spare: int = 0,
) -> list[str]:
    """The lines, headings included, of the facts that fit; the last line counts the others. Files
    `in_work` are needed as much as changed ones. Facts up to `RANK_SPARE` may use `spare` more
    characters."""
    newest = max((fact.seq for fact in of_kind(facts, "request")), default=0)

    def by_need(fact: Fact) -> tuple[bool, bool, int, int, str]:
        """A user's rules, the newest request, then by need, newest first among equals."""
        is_newest = fact.kind == "request" and fact.seq == newest
        is_in_work = fact.kind == "file" and fact.text in in_work
        need = RANK_CHANGED if is_in_work else rank(fact)
        return need != RANK_RULE, not is_newest, need, -fact.seq, fact.text

    texts = {id(fact): _line(fact, fact.seq == newest, characters_max) for fact in facts}
    order = sorted(facts, key=by_need)
    room = _Room(texts)
    first = order[0] if order else None
    # One group takes all the room only if no other needs it.
    room.take(order, first, GROUP_SHARE * characters_max, characters_max)
    room.take(order, first, characters_max, characters_max)
    if spare > 0:
        needed = [fact for fact in order if rank(fact) <= RANK_SPARE]
        room.take(needed, first, characters_max + spare, characters_max + spare)
    lines: list[str] = []
    shown = [fact for fact in facts if id(fact) in room.shown]
    shown.sort(key=lambda fact: (fact.seq, fact.text))
    for group in _GROUPS:
        if grouped := [texts[id(fact)] for fact in shown if group.holds(fact)]:
            lines += [f"{group.heading}:", *grouped]
    if len(room.shown) < len(facts):
        lines.append(f"({len(facts) - len(room.shown)} more facts are not shown)")
    return lines


def unmarked_lines(lines: Sequence[str]) -> set[str]:
    """The lines in their original words, without the ledger's mark."""
    return {_MARK.sub("", line).strip() for entry in lines for line in entry.split("\n")}


class _Room:
    """The facts shown so far, and the characters under each heading."""

    def __init__(self, lines: dict[int, str]) -> None:
        self.lines = lines
        self.shown: set[int] = set()
        self.used: dict[str, int] = {}
        self.total = 0

    def take(self, facts: Sequence[Fact], first: Fact | None, share: float, room: int) -> None:
        """Shows the facts that fit; one heading may have its share, except for the very first
        fact and a user's rules."""
        for fact in facts:
            heading = next((group.heading for group in _GROUPS if group.holds(fact)), "")
            if not heading or id(fact) in self.shown:
                continue
            used = self.used.get(heading, 0)
            need = len(self.lines[id(fact)]) + 1
            if heading not in self.used:
                need += len(heading) + 2
            is_free = fact is first or rank(fact) == RANK_RULE
            has_share = is_free or used + need <= share
            if has_share and self.total + need <= room - COUNT_ROOM:
                self.used[heading] = used + need
                self.total += need
                self.shown.add(id(fact))


def _line(fact: Fact, is_newest: bool, characters_max: int) -> str:
    mark = f"- #{fact.seq} "
    text = one_line(fact.text)
    match fact.kind:
        case "request":
            if is_newest and len(fact.text) + 100 <= characters_max:
                return mark + fact.text
            size = min(REQUEST_SHOWN, max(40, characters_max // 2))
            if len(text) > size:
                text = f"{cut(text, size)} (whole at #{fact.seq})"
            return mark + text
        case "file":
            return f"{mark}{fact.state} {text}"
        case "command":
            return f"{mark}{text}" + (f" ({fact.state})" if fact.state else "")
        case "todo" if fact.state != "open":
            return f"{mark}{text} ({fact.state})"
        case "constraint" | "decision" if fact.state == "user":
            return f"{mark}{text} (user)"
        case _:
            return mark + text


# --- the briefing ---


def briefing_lines(facts: Sequence[Fact], characters_max: int) -> list[str]:
    """The state of the work, which no single fact shows: the changes since the last commit, the
    last check and its result, the next open to-do. Empty if none of these is known."""
    commands = sorted(of_kind(facts, "command"), key=lambda fact: fact.seq)
    went = [fact for fact in commands if fact.state in ("ok", "exit 0", "")]
    commit = next((fact for fact in reversed(went) if _COMMIT.search(fact.text)), None)
    check = next((fact for fact in reversed(commands) if _CHECK.search(fact.text)), None)
    changed = [fact for fact in of_kind(facts, "file") if fact.state != "read"]
    open_changes = [fact for fact in changed if commit is None or fact.seq > commit.seq]
    open_changes.sort(key=lambda fact: -fact.seq)
    todos = [fact for fact in of_kind(facts, "todo") if fact.state == "open"]
    lines: list[str] = []
    if changed or commit:
        since = f"since the commit #{commit.seq}" if commit else "and no commit seen"
        paths = [_short_path(fact.text) for fact in open_changes]
        more = f" and {len(paths) - NAMED_MAX} more" if len(paths) > NAMED_MAX else ""
        what = ", ".join(paths[:NAMED_MAX]) + more if paths else "nothing"
        lines.append(f"- Changed {since}: {what}")
    if check:
        state = check.state or "no result seen"
        lines.append(f"- Last check #{check.seq}: {cut(one_line(check.text), LABEL_MAX)} ({state})")
    if todos:
        lines.append(f"- Next to-do #{todos[0].seq}: {cut(one_line(todos[0].text), LABEL_MAX)}")
    last = max((fact.seq for fact in facts), default=0)
    lines = [f"Briefing, as of #{last}:", *lines]
    while len(lines) > 1 and sum(len(line) + 1 for line in lines) > characters_max:
        lines.pop()
    return lines if len(lines) > 1 else []


def _short_path(path: str) -> str:
    """The end of a long path."""
    return path if len(path) <= PATH_CHARS else "…/" + "/".join(path.split("/")[-2:])


# --- used tools ---

Use = ToolCall | str
"""A call, or a summary's note of one."""


class Used(Struct, frozen=True):
    """The number of a tool's uses, and the notable ones: the failed first, then the newest."""

    count: int
    notable: tuple[str, ...] = ()


def tools_used(slots: Sequence[Slot]) -> dict[str, Used]:
    """The tools called in these messages and noted by summaries among them, the most used first.
    A use is the text of the call's arguments, nearly whole: secrets are removed before it is cut to
    a line."""
    counts: dict[str, int] = {}
    uses: dict[str, list[Use]] = {}  # oldest first
    failures: set[str] = set()  # ids of calls
    for slot in slots:
        if slot.summary and (notes := slot.summary.counted):
            for name, count in notes.tools.items():
                counts[name] = counts.get(name, 0) + count
                uses.setdefault(name, []).extend(reversed(notes.uses.get(name, ())))
        for block in slot.message.blocks:
            if isinstance(block, ToolCall):
                counts[block.name] = counts.get(block.name, 0) + 1
                uses.setdefault(block.name, []).append(block)
            elif isinstance(block, ToolResult):
                output = text_of(block)
                if block.is_error or failed(output) or exit_status(output) not in (None, 0):
                    failures.add(block.call)
    used: dict[str, Used] = {}
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        notable = _notable(uses[name], failures) if len(used) < TOOLS_MAX else ()
        used[name] = Used(counts[name], notable)
    return used


def noted(used: dict[str, Used], messages: int) -> SummaryNotes:
    """The used tools as notes of a summary of this many messages."""
    tools = {name: used[name].count for name in sorted(used)}
    uses = {name: list(used[name].notable) for name in sorted(used) if used[name].notable}
    return SummaryNotes(messages=messages, tools=tools, uses=uses)


def _notable(uses: Sequence[Use], failures: set[str]) -> tuple[str, ...]:
    """The notable uses. Reads only their arguments: there may be thousands of calls."""

    def has_failed(use: Use) -> bool:
        return use.startswith(FAILED) if isinstance(use, str) else use.id in failures

    notable: list[str] = []
    for use in sorted(reversed(uses), key=has_failed, reverse=True):
        text = use
        if not isinstance(text, str):
            text = (FAILED if has_failed(use) else "") + arguments_text(text)[:USE_READ]
        if text not in notable:
            notable.append(text)
        if len(notable) == USES_MAX:
            break
    return tuple(notable)
