"""The ledger: typed facts that code takes from a span, kept over compactions and never paraphrased.

Requests, files, commands, errors, decisions, constraints, to-dos, artifacts; one fact per kind and
text, the newest state wins. `facts_of` gives what a span adds to what is known, `merged` keeps the
whole bounded, `ledger_lines` writes it for a page. Neighbours: `actions` (what was done),
`sentences` (what was said), `failures`, `todos`, `text`.

The ledger as text for a page: grouped, one line per fact with its #seq, always in the same
order.

When room is short, the least needed facts are left out and counted; none is shortened but older
requests, which say where they are whole. Neighbours: `ledger` makes the facts, `facts` says what is
needed most.

Which tools were used, how often, and up to three uses of each worth a word: the failed first,
then the newest.

A summary notes this (`noted`), and is counted by its notes when the next one covers it, so nothing
is read or counted twice. A use is the text of the call's arguments. Here it is nearly whole:
secrets are taken out before it is cut to a line, or half of one could stay. Neighbours:
`strategies.summarize` notes the uses, `writer.quote` cuts and shows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Literal, NamedTuple

from msgspec import Struct

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
from refold.ledger.actions import Action, actions_of, exit_status, failed
from refold.ledger.facts import (
    ON_FILES,
    RANK_CHANGED,
    RANK_KEPT,
    RANK_SPARE,
    UNCLEANED,
    Cutter,
    of_kind,
    rank,
    without_middle,
)
from refold.ledger.failures import LABEL_MAX, error_facts, went_well
from refold.ledger.sentences import SENTENCE_MAX, marked, own_text
from refold.ledger.todos import checked, listings, settled_todos

__all__ = ["facts_of", "files_in_work", "ledger_lines", "merged"]

FACTS_MAX = 400
REQUEST_MAX = 2_000
COMMAND_MAX = 240
ASSISTANT_MAX = 60  # sentences of the assistant that one span may add
# Binding sentences of one message: beyond that it is a document, and is whole in the log
MESSAGE_MAX = 12

Said = Sequence[tuple[Slot, str]]
"""Messages, and what their speakers said in them."""


# --- what a span adds ---


def facts_of(
    slots: Sequence[Slot],
    config: Config,
    known: Sequence[Fact] = (),
    cutter: Cutter = UNCLEANED,
) -> tuple[Fact, ...]:
    """The facts that a span adds to those that are known, or whose state it changes; in order of
    their seq."""
    before = {(fact.kind, fact.text): fact for fact in known}
    new: dict[tuple[str, str], Fact] = {}
    said = [slot for slot in slots if not (slot.standin or shows_memories(slot.message))]
    for fact in _facts_in(said, config, known, cutter):
        key = fact.kind, fact.text
        if _is_news(before.get(key), fact):
            new[key] = fact
    return tuple(sorted(new.values(), key=lambda fact: (fact.seq, fact.kind, fact.text)))


def _facts_in(
    slots: Sequence[Slot], config: Config, known: Sequence[Fact], cutter: Cutter
) -> list[Fact]:
    """All facts of a span, whether they are known or not."""
    actions = actions_of(slots, config)
    speaking = [slot for slot in slots if slot.message.role in ("user", "assistant")]
    said = [(slot, own_text(slot.message)) for slot in speaking]
    return [
        *_requests(said, cutter),
        *_binding_sentences(said, cutter),
        *_files(actions, known, cutter),
        *_commands(actions, cutter),
        *error_facts(actions, known, cutter),
        *_todos(said, actions, known, cutter),
        *_artifacts(slots, actions, cutter),
    ]


def files_in_work(slots: Sequence[Slot], config: Config) -> frozenset[str]:
    """The files that these messages work on."""
    return frozenset(action.path for action in actions_of(slots, config) if action.path)


def _is_news(old: Fact | None, new: Fact) -> bool:
    """Whether a fact says more than is known: a sentence said twice stays where it was said first,
    a request where it came last."""
    if old is None or old.state != new.state:
        return True
    return new.kind in ("request", "command") and new.seq > old.seq


def _requests(said: Said, cutter: Cutter) -> Iterable[Fact]:
    """The page may show less of a request than its fact has, so secrets go from a short one too."""
    for slot, text in said:
        if text.strip() and is_request(slot):
            words = without_middle(cutter.redact(text.strip()), REQUEST_MAX, slot.seq)
            yield Fact(kind="request", text=words, seq=slot.seq)


def _binding_sentences(said: Said, cutter: Cutter) -> list[Fact]:
    """Decisions and constraints; a user's own are marked as such."""
    assistants = _sentences_by("assistant", said, cutter)
    users = _sentences_by("user", said, cutter)
    return [*assistants[-ASSISTANT_MAX:], *users]


def _sentences_by(role: Literal["assistant", "user"], said: Said, cutter: Cutter) -> list[Fact]:
    by_user = role == "user"
    state = "user" if by_user else ""
    facts: list[Fact] = []
    for slot, text in said:
        found = marked(text, by_user=by_user) if slot.message.role == role else []
        for kind, sentence in found[:MESSAGE_MAX]:
            words = cutter.end(sentence, SENTENCE_MAX)
            facts.append(Fact(kind=kind, text=words, seq=slot.seq, state=state))
    return facts


def _files(actions: Sequence[Action], known: Sequence[Fact], cutter: Cutter) -> Iterable[Fact]:
    """One fact per file: what became of it. Reading a file that was changed tells nothing new."""
    files = {fact.text: fact for fact in of_kind(known, "file")}
    for action in actions:
        if not _concerns_file(action) or _is_secret(action, cutter):
            continue
        old = files.get(action.path)
        state = _file_state(old.state if old else "", action)
        is_same = old is not None and old.state == state
        if old is not None and (state == "read" or (is_same and action.kind == "read")):
            continue
        files[action.path] = Fact(kind="file", text=action.path, seq=action.seq, state=state)
    return files.values()


def _concerns_file(action: Action) -> bool:
    """Whether it read or changed a file, as far as is known; a folder is not a file."""
    if action.kind not in ON_FILES or action.ok is False:
        return False
    return bool(action.path) and not action.path.endswith("/")


def _is_secret(action: Action, cutter: Cutter) -> bool:
    """Whether what a command seems to name as a file is a secret there: `password => 'x'`."""
    name = action.path.rsplit("/", 1)[-1]
    return name in action.command and name not in cutter.redact(action.command)


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


def _commands(actions: Sequence[Action], cutter: Cutter) -> list[Fact]:
    runs = [action for action in actions if action.kind == "run"]
    return [_command(action, cutter) for action in runs if action.command.strip()]


def _command(action: Action, cutter: Cutter) -> Fact:
    """A command that was run, and how it ended."""
    text = cutter.middle(action.command.strip(), COMMAND_MAX)
    return Fact(kind="command", text=text, seq=action.seq, state=_command_state(action))


def _command_state(action: Action) -> str:
    if action.exit is not None:
        return f"exit {action.exit}"
    return {True: "ok", False: "failed", None: ""}[went_well(action)]


def _todos(
    said: Said, actions: Sequence[Action], known: Sequence[Fact], cutter: Cutter
) -> Iterable[Fact]:
    in_texts = [checked(text, slot.seq, cutter) for slot, text in said]
    found = [*listings(actions, known, cutter), *filter(None, in_texts)]
    return settled_todos(found, known).values()


def _artifacts(slots: Sequence[Slot], actions: Sequence[Action], cutter: Cutter) -> Iterable[Fact]:
    origins = {(action.result_seq, action.result_block): action for action in reversed(actions)}
    for slot in slots:
        for index, block in enumerate(slot.message.blocks):
            if isinstance(block, ToolResult) and block.artifact:
                origin = origins.get((slot.seq, index))
                yield _artifact(block, origin, slot.seq, cutter)


def _artifact(result: ToolResult, origin: Action | None, seq: int, cutter: Cutter) -> Fact:
    """An artifact and what it came from."""
    name = result.name
    if origin is not None:
        name = origin.path or origin.command or origin.tool
    label = cutter.middle(one_line(name), LABEL_MAX)
    return Fact(kind="artifact", text=f"{result.artifact} {label}".strip(), seq=seq)


# --- keeping it bounded ---


def merged(
    known: Sequence[Fact], new: Sequence[Fact], facts_max: int = FACTS_MAX
) -> tuple[Fact, ...]:
    """All facts, the new over the known. Above the bound the least needed go, oldest first; what
    a user asked for, what was changed, what binds and what is still to be done never goes."""
    facts = {(fact.kind, fact.text): fact for fact in (*known, *new)}
    excess = len(facts) - facts_max
    if excess > 0:
        may_go = [fact for fact in facts.values() if rank(fact) > RANK_KEPT]
        may_go.sort(key=lambda fact: (-rank(fact), fact.seq, fact.text))
        for fact in may_go[:excess]:
            del facts[fact.kind, fact.text]
    return tuple(facts.values())


REQUEST_SHOWN = 400  # of an older request
CHARACTERS = 12_000
GROUP_SHARE = 0.35  # of the room, for one group, while others need it
COUNT_ROOM = 40  # for the line that counts what is not shown
LEFT_OUT = " more facts are not shown)"

_MARK = re.compile(r"^- #\d+ ")


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
    """The lines, headings included, of the facts that fit; the last line counts those that did
    not. What is known of the files `in_work` is needed as much as what was changed. All but what
    went well may have `spare` characters more."""
    newest = max((fact.seq for fact in of_kind(facts, "request")), default=0)
    lines = {id(fact): _line(fact, fact.seq == newest, characters_max) for fact in facts}
    order = sorted(facts, key=lambda fact: _turn(fact, newest, in_work))
    shown = _fitting(order, lines, characters_max, spare)
    out = _grouped([fact for fact in facts if id(fact) in shown], lines)
    if len(shown) < len(facts):
        out.append(f"({len(facts) - len(shown)}{LEFT_OUT}")
    return out


def _grouped(facts: Sequence[Fact], lines: dict[int, str]) -> list[str]:
    """The lines of these facts under the headings of their groups, each group by seq."""
    out: list[str] = []
    ordered = sorted(facts, key=lambda fact: (fact.seq, fact.text))
    for group in _GROUPS:
        found = [lines[id(fact)] for fact in ordered if group.holds(fact)]
        if found:
            out += [f"{group.heading}:", *found]
    return out


def is_cut(lines: Sequence[str]) -> bool:
    """Whether there was no room for some facts."""
    return bool(lines) and lines[-1].endswith(LEFT_OUT)


def said(lines: Sequence[str]) -> set[str]:
    """The same lines as they were said: without the ledger's mark."""
    return {_MARK.sub("", line).strip() for entry in lines for line in entry.split("\n")}


# --- what fits ---


def _turn(fact: Fact, newest: int, in_work: Set[str]) -> tuple[bool, int, int, str]:
    """When a fact's turn for room comes: the newest request, then by need, newest first among
    equals."""
    is_newest = fact.kind == "request" and fact.seq == newest
    return not is_newest, _need(fact, in_work), -fact.seq, fact.text


def _need(fact: Fact, in_work: Set[str]) -> int:
    """The rank of a fact; that of a file in work is the rank of a changed one."""
    is_in_work = fact.kind == "file" and fact.text in in_work
    return RANK_CHANGED if is_in_work else rank(fact)


class _Room:
    """What is shown so far, and how many characters each heading has taken."""

    def __init__(self, lines: dict[int, str]) -> None:
        self.lines = lines
        self.shown: set[int] = set()
        self.used: dict[str, int] = {}
        self.total = 0

    def take(self, facts: Sequence[Fact], first: Fact | None, share: float, room: int) -> None:
        """Shows those of the facts that fit; one heading may have its share, but for the first
        fact of all."""
        for fact in facts:
            heading = _heading(fact)
            if not heading or id(fact) in self.shown:
                continue
            used = self.used.get(heading, 0)
            need = self._need(fact, heading)
            has_share = fact is first or used + need <= share
            if has_share and self.total + need <= room - COUNT_ROOM:
                self.used[heading] = used + need
                self.total += need
                self.shown.add(id(fact))

    def _need(self, fact: Fact, heading: str) -> int:
        """The characters of a fact's line, and of the heading if it is the first under it."""
        line = len(self.lines[id(fact)]) + 1
        return line if heading in self.used else line + len(heading) + 2


def _fitting(
    order: Sequence[Fact], lines: dict[int, str], characters_max: int, spare: int
) -> set[int]:
    """The first facts that fit; one group takes all the room only if no other needs it."""
    room = _Room(lines)
    first = order[0] if order else None
    room.take(order, first, GROUP_SHARE * characters_max, characters_max)
    room.take(order, first, characters_max, characters_max)
    if spare > 0:
        needed = [fact for fact in order if rank(fact) <= RANK_SPARE]
        most = characters_max + spare
        room.take(needed, first, most, most)
    return room.shown


def _heading(fact: Fact) -> str:
    for group in _GROUPS:
        if group.holds(fact):
            return group.heading
    return ""


# --- one line ---


def _line(fact: Fact, is_newest: bool, characters_max: int) -> str:
    mark = f"- #{fact.seq} "
    if fact.kind == "request":
        return mark + _request_text(fact, is_newest, characters_max)
    text = one_line(fact.text)
    match fact.kind:
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


def _request_text(fact: Fact, is_newest: bool, characters_max: int) -> str:
    if is_newest and len(fact.text) + 100 <= characters_max:
        return fact.text
    line = one_line(fact.text)
    size = min(REQUEST_SHOWN, max(40, characters_max // 2))
    return line if len(line) <= size else f"{cut(line, size)} (whole at #{fact.seq})"


USES_MAX = 3
TOOLS_MAX = 30  # the tools used most have their uses noted
USE_READ = 20_000  # characters: enough for a private key to be known as one
FAILED = "failed: "

Use = ToolCall | str
"""A call, or what a summary noted of one."""


class Used(Struct, frozen=True):
    """How often a tool was used, and its notable uses."""

    count: int
    notable: tuple[str, ...] = ()


def tools_used(slots: Sequence[Slot]) -> dict[str, Used]:
    """The tools called in these messages and in what summaries among them noted, the most used
    first."""
    counts: dict[str, int] = {}
    uses: dict[str, list[Use]] = {}
    for name, count, some in _each_tool(slots):
        counts[name] = counts.get(name, 0) + count
        uses.setdefault(name, []).extend(some)
    failures = _failed_calls(slots)
    used: dict[str, Used] = {}
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        notable = _notable(uses[name], failures) if len(used) < TOOLS_MAX else ()
        used[name] = Used(counts[name], notable)
    return used


def noted(used: dict[str, Used], messages: int) -> SummaryNotes:
    """The same as notes of a summary of this many messages."""
    tools = {name: used[name].count for name in sorted(used)}
    uses = {name: list(used[name].notable) for name in sorted(used) if used[name].notable}
    return SummaryNotes(messages=messages, tools=tools, uses=uses)


def _each_tool(slots: Sequence[Slot]) -> Iterator[tuple[str, int, list[Use]]]:
    """Name, how often and the uses, oldest first: of every call, and of every tool that a
    summary noted."""
    for slot in slots:
        if slot.summary and slot.summary.counted:
            yield from _noted_tools(slot.summary.counted)
        for block in slot.message.blocks:
            if isinstance(block, ToolCall):
                yield block.name, 1, [block]


def _noted_tools(notes: SummaryNotes) -> Iterator[tuple[str, int, list[Use]]]:
    for name, count in notes.tools.items():
        yield name, count, list(reversed(notes.uses.get(name, ())))


def _failed_calls(slots: Sequence[Slot]) -> set[str]:
    """The ids of the calls whose results say that they failed."""
    return {
        block.call
        for slot in slots
        for block in slot.message.blocks
        if isinstance(block, ToolResult) and _has_failed(block)
    }


def _has_failed(result: ToolResult) -> bool:
    if result.is_error:
        return True
    output = text_of(result)
    return failed(output) or exit_status(output) not in (None, 0)


def _notable(uses: Sequence[Use], failures: set[str]) -> tuple[str, ...]:
    """Only as many arguments are read as are shown: there may be thousands of calls."""
    shown: list[str] = []
    for use in sorted(reversed(uses), key=lambda use: not _is_failure(use, failures)):
        text = use if isinstance(use, str) else _use_text(use, failures)
        if text not in shown:
            shown.append(text)
        if len(shown) == USES_MAX:
            break
    return tuple(shown)


def _is_failure(use: Use, failures: set[str]) -> bool:
    return use.startswith(FAILED) if isinstance(use, str) else use.id in failures


def _use_text(call: ToolCall, failures: set[str]) -> str:
    """What a summary notes of a call."""
    text = arguments_text(call)[:USE_READ]
    return FAILED + text if call.id in failures else text
