"""The ledger: typed facts that code takes from a span, kept over compactions and never paraphrased.

Requests, files, commands, errors, decisions, constraints, to-dos, artifacts; one fact per kind and
text, the newest state wins. `facts_of` gives what a span adds to what is known, `merged` keeps the
whole bounded, `ledger_lines` writes it for a page. Neighbours: `actions` (what was done),
`sentences` (what was said), `failures`, `todos`, `text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from refold.config import Config
from refold.core.laws import is_request
from refold.core.model import Fact, FileState, Slot, ToolResult, shows_memories
from refold.display import one_line
from refold.ledger.actions import Action, actions_of
from refold.ledger.facts import RANK_KEPT, UNCLEANED, Cutter, of_kind, rank, without_middle
from refold.ledger.failures import LABEL_MAX, error_facts, went_well
from refold.ledger.kinds import ON_FILES
from refold.ledger.sentences import SENTENCE_MAX, marked, own_text
from refold.ledger.text import ledger_lines
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
