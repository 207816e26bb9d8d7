"""The ledger: typed facts that code takes from a span, kept over compactions and never paraphrased.

Requests, files, commands, errors, decisions, constraints, to-dos, artifacts; one fact per kind and
text, the newest state wins. `facts_of` gives what a span adds to what is known, `merged` keeps the
whole bounded, `ledger_lines` writes it for a page. Neighbours: `actions` (what was done),
`sentences` (what was said), `todos`, `ledgerlines`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from refold.config import Config
from refold.core.laws import is_request
from refold.core.model import Fact, Slot, ToolResult
from refold.display import one_line
from refold.ledger.actions import CHANGES, Action, actions_of
from refold.ledger.outcomes import payload, tests_failed
from refold.ledger.sentences import marked, own_text
from refold.ledger.text import RANK_KEPT, ledger_lines, rank
from refold.ledger.todos import Listing, checked, listings, settled_todos

__all__ = ["facts_of", "files_in_work", "ledger_lines", "merged", "rank", "telling_line"]

FACTS_MAX = 400
REQUEST_MAX = 2_000
COMMAND_MAX = 240
LABEL_MAX = 120
LINE_MAX = 300
ASSISTANT_MAX = 60  # sentences of the assistant that one span may add
# Binding sentences of one message: beyond that it is a document, and stands whole in the log
MESSAGE_MAX = 12
ARROW = " → "  # between what was tried and how it failed

_SIGNS = (
    "error",
    "fail",
    "exception",
    "panic",
    "fatal",
    "not found",
    "no such",
    "denied",
    "cannot",
    "undefined",
)
_UNTELLING = (
    "exit code",
    "<returncode>",
    "traceback",
    "raise ",
    'file "',
    "====",
    "----",
    "____",
    "</output",
)
_ANSI = re.compile(r"\x1b\[[\d;]{0,12}[a-zA-Z]")
_REFUSED = ("the user doesn't want to", "the user denied", "user rejected", "[no result recorded]")


# --- what a span adds ---


def facts_of(slots: Sequence[Slot], config: Config, known: Sequence[Fact] = ()) -> tuple[Fact, ...]:
    """The facts that a span adds to those that are known, or whose state it changes; in order of
    their seq."""
    own = [slot for slot in slots if not slot.standin]
    actions = actions_of(own, config)
    said = [
        (slot, own_text(slot.message)) for slot in own if slot.message.role in ("user", "assistant")
    ]
    found = [
        *_requests(said),
        *_binding(said),
        *_files(actions, known),
        *_commands(actions),
        *_errors(actions, known),
        *_todos(said, actions, known),
        *_artifacts(own, actions),
    ]
    before = {(fact.kind, fact.text): fact for fact in known}
    new = {
        (fact.kind, fact.text): fact
        for fact in found
        if _says_more(before.get((fact.kind, fact.text)), fact)
    }
    return tuple(sorted(new.values(), key=lambda fact: (fact.seq, fact.kind, fact.text)))


def files_in_work(slots: Sequence[Slot], config: Config) -> frozenset[str]:
    """The files that these messages work on."""
    return frozenset(action.path for action in actions_of(slots, config) if action.path)


def _says_more(old: Fact | None, new: Fact) -> bool:
    """Whether a fact is news: a sentence said twice stands where it was said first, a request
    where it came last."""
    if old is None or old.state != new.state:
        return True
    return new.kind in ("request", "command") and new.seq > old.seq


def _requests(said: Sequence[tuple[Slot, str]]) -> Iterable[Fact]:
    for slot, text in said:
        if is_request(slot) and text.strip():
            yield Fact(
                kind="request", text=_cut_middle(text.strip(), REQUEST_MAX, slot.seq), seq=slot.seq
            )


def _binding(said: Sequence[tuple[Slot, str]]) -> list[Fact]:
    """Decisions and constraints; a user's own are marked as such."""
    users: list[Fact] = []
    assistants: list[Fact] = []
    for slot, text in said:
        by_user = slot.message.role == "user"
        for kind, sentence in marked(text, by_user=by_user)[:MESSAGE_MAX]:
            fact = Fact(kind=kind, text=sentence, seq=slot.seq, state="user" if by_user else "")
            (users if by_user else assistants).append(fact)
    return [*assistants[-ASSISTANT_MAX:], *users]


def _files(actions: Sequence[Action], known: Sequence[Fact]) -> Iterable[Fact]:
    """One fact per file: what became of it. Reading a file that was changed tells nothing new."""
    states = {fact.text: fact for fact in known if fact.kind == "file"}
    for action in actions:
        if (
            not action.path
            or action.ok is False
            or action.kind not in (*CHANGES, "read")
            or action.path.endswith("/")
        ):
            continue
        old = states.get(action.path)
        state = _file_state(old.state if old else "", action.kind)
        if old is None or (state != "read" and (action.kind != "read" or old.state != state)):
            states[action.path] = Fact(kind="file", text=action.path, seq=action.seq, state=state)
    return states.values()


def _file_state(old: str, kind: str) -> str:
    match kind:
        case "read":
            return old if old and old != "deleted" else "read"
        case "create":
            return "created" if old in ("", "created", "deleted") else "modified"
        case "modify":
            return "created" if old == "created" else "modified"
        case _:
            return "deleted"


def _commands(actions: Sequence[Action]) -> Iterable[Fact]:
    for action in actions:
        if action.kind == "run" and action.command.strip():
            text = _cut_middle(action.command.strip(), COMMAND_MAX)
            yield Fact(kind="command", text=text, seq=action.seq, state=_command_state(action))


def _command_state(action: Action) -> str:
    if action.exit is not None:
        return f"exit {action.exit}"
    return {True: "ok", False: "failed", None: ""}[_went_well(action)]


def _went_well(action: Action) -> bool | None:
    """Whether what was tried came out as wished: a test run without an exit status is judged by
    its own count."""
    return action.ok and not (
        action.kind == "run" and action.exit is None and tests_failed(action.output)
    )


def _errors(actions: Sequence[Action], known: Sequence[Fact]) -> list[Fact]:
    """Failures by what was tried: open until the same is tried again, then resolved, or open
    with its new words."""
    waiting = {
        _tried(fact): fact for fact in known if fact.kind == "error" and fact.state == "open"
    }
    out: dict[str, Fact] = {}
    for action in actions:
        label, well = _label(action), _went_well(action)
        if not label or well is None:
            continue
        if (old := waiting.pop(label, None)) is not None:
            # It stays where it failed; the run that passed stands among the commands.
            out[old.text] = Fact(kind="error", text=old.text, seq=old.seq, state="resolved")
        if not well and (line := telling_line(action.output)):
            fact = Fact(kind="error", text=f"{label}{ARROW}{line}", seq=action.seq, state="open")
            waiting[label] = out[fact.text] = fact
    return list(out.values())


def _tried(fact: Fact) -> str:
    return fact.text.partition(ARROW)[0]


def _label(action: Action) -> str:
    """What was tried, in the words by which a later try is known again."""
    if action.kind == "run" and action.command:
        return _cut_middle(one_line(_bare_command(action.command)), LABEL_MAX)
    if action.path and action.kind in (*CHANGES, "read") and not action.command:
        return f"{'modify' if action.kind == 'create' else action.kind} {action.path}"
    return ""


def _bare_command(command: str) -> str:
    """A command without the folder before it and the filter behind it: what is run, not how much
    of it is shown."""
    text = command.strip()
    if text.startswith("cd ") and " && " in text[:300]:
        text = text.partition(" && ")[2]
    for filter_ in (" | head", " | tail"):
        at = text.rfind(filter_)
        text = text[:at] if at > 0 and len(text) - at < 20 else text
    return text.removesuffix(" 2>&1").strip()


def telling_line(output: str) -> str:
    """The line of a failed result that says most: a named exception, else the first with a sign
    of failure in it."""
    if output[:80].lower().startswith(_REFUSED):
        return ""
    text = _ANSI.sub("", payload(output[:200_000]))
    lines = [line.strip() for line in f"{text[:6_000]}\n{text[6_000:][-6_000:]}".split("\n")]
    lines = [line for line in lines if line and not line.lower().startswith(_UNTELLING)]
    named = next((line for line in reversed(lines) if _names_exception(line)), "")
    signed = next(
        (line for line in lines if any(sign in line[:LINE_MAX].lower() for sign in _SIGNS)), ""
    )
    return (named or signed or (lines[0] if lines else ""))[:LINE_MAX]


def _names_exception(line: str) -> bool:
    head = line[:80].partition(":")[0]
    return (
        line[len(head) : len(head) + 2] == ": "
        and head.endswith(("Error", "Exception"))
        and " " not in head
    )


def _todos(
    said: Sequence[tuple[Slot, str]], actions: Sequence[Action], known: Sequence[Fact]
) -> Iterable[Fact]:
    found: list[Listing] = list(listings(actions, known))
    found += [listing for slot, text in said if (listing := checked(text, slot.seq))]
    return settled_todos(found, known).values()


def _artifacts(slots: Sequence[Slot], actions: Sequence[Action]) -> Iterable[Fact]:
    origin = {(action.result_seq, action.result_block): action for action in reversed(actions)}
    for slot in slots:
        for index, block in enumerate(slot.message.blocks):
            if isinstance(block, ToolResult) and block.artifact:
                action = origin.get((slot.seq, index))
                name = (action.path or action.command or action.tool) if action else block.name
                text = f"{block.artifact} {_cut_middle(one_line(name), LABEL_MAX)}".strip()
                yield Fact(kind="artifact", text=text, seq=slot.seq)


def _cut_middle(text: str, size: int, seq: int = 0) -> str:
    """A text that is too long without its middle; `seq` says where all of it is."""
    if len(text) <= size:
        return text
    left_out = (
        f" … [{len(text) - size:,}+ characters left out, whole at #{seq}] … " if seq else " … "
    )
    room = size - len(left_out)
    return text[: room * 2 // 3] + left_out + text[len(text) - (room - room * 2 // 3) :]


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
        for fact in sorted(may_go, key=lambda fact: (-rank(fact), fact.seq, fact.text))[:excess]:
            del facts[fact.kind, fact.text]
    return tuple(facts.values())
