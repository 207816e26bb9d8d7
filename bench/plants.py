"""Facts of the kinds that agents lose, phrased as people and agents phrase them, varied by a seed.

Each fact has a key that stands nowhere else in the session, and one line that says it. `turns_of`
puts facts into messages the way they come up: users set rules, the agent decides, tools fail and
report, lists are kept and ticked off. The phrasings are not made to suit any rule of refold;
several have none of the words that rules look for.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

KINDS = (
    "decision",
    "path",
    "number",
    "constraint",
    "error",
    "open to-do",
    "finished to-do",
    "modified file",
)
PER_KIND = 24

_AREAS = (
    "billing",
    "import",
    "search",
    "login",
    "export",
    "archive",
    "webhook",
    "tenant",
    "report",
    "upload",
)
_THINGS = (
    "ledger",
    "cursor",
    "digest",
    "window",
    "quota",
    "token",
    "batch",
    "shard",
    "probe",
    "mirror",
)

PHRASES: dict[str, tuple[str, ...]] = {
    "decision": (
        "Decision: {key} stays in the {area} service, the worker only reads it.",
        "I'll use {key} instead of the old {thing} because it survives a restart.",
        "We settled on {key} for {area}; the alternative needed a second table.",
        "After comparing both, {key} wins: fewer moving parts in {area}.",
        "Going with {key} as the only writer of the {thing}.",
    ),
    "path": (
        "The {thing} rules for {area} live in services/{area}/{key}.py, next to the tests.",
        "Found it: services/{area}/{key}.py opens the {thing} twice.",
        "services/{area}/{key}.py:41: the {thing} is closed before {area} reads it",
        "See services/{area}/{key}.py for how {area} builds its {thing}.",
    ),
    "number": (
        "p95 of {area} with a cold {thing} was {number} ms in run {key}",
        "run {key}: {number} rows in the {thing} table of {area}, none of them locked",
        "The {area} job {key} needs {number} MB before the first {thing} is written.",
        "limit for {key} in {area} is {number} requests per minute and {thing}",
    ),
    "constraint": (
        "Please do not touch {key}, the {area} people release from it on Friday.",
        "{key} must stay compatible with the {thing} of the last release.",
        "Never write to {key} while {area} is running.",
        "One more thing: {key} has to work without network access to {area}.",
        "Leave {key} as it is, whatever happens to the {thing}.",
    ),
    "error": (
        "RuntimeError: {key} has no {thing} after {area} was restarted",
        "FAILED tests/{area}/test_{key}.py::test_{thing} - assert {number} == 0",
        "error[E0502]: cannot borrow {key} as mutable while the {thing} of {area} is held",
        "psycopg.errors.UndefinedColumn: column {key} of relation {thing} does not exist in {area}",
    ),
    "open to-do": (
        "Write a migration for {key} in {area}",
        "Ask the {area} people whether {key} may drop the {thing}",
        "Measure {key} again with a warm {thing}",
        "Remove the second {thing} from {key}",
    ),
    "finished to-do": (
        "Add a test for {key} with an empty {thing}",
        "Rename the {thing} of {area} to {key}",
        "Move {key} out of the {area} package",
        "Document {key} and its {thing}",
    ),
    "modified file": ("services/{area}/{key}.py",),
}


@dataclass(frozen=True)
class Fact:
    kind: str
    key: str
    line: str


def planted(seed: int, per_kind: int = PER_KIND) -> list[Fact]:
    """The facts, kinds mixed."""
    pick = random.Random(seed)
    facts = []
    for kind in KINDS:
        for at in range(per_kind):
            key = f"{pick.choice(_THINGS)}_{pick.choice(_AREAS)}_{KINDS.index(kind)}{at:02d}{pick.randint(0, 9)}"
            words = {
                "area": pick.choice(_AREAS),
                "thing": pick.choice(_THINGS),
                "number": pick.randint(1_000, 99_999),
            }
            facts.append(Fact(kind, key, pick.choice(PHRASES[kind]).format(key=key, **words)))
    pick.shuffle(facts)
    return facts


# --- facts as messages ---

Message = dict[str, Any]


def call_of(id: str, name: str, arguments: Message, result: str, words: str = "") -> list[Message]:
    call = {"id": id, "name": name, "arguments": arguments}
    answer = {"role": "tool", "tool_call_id": id, "content": result}
    return [{"role": "assistant", "content": words, "tool_calls": [call]}, answer]


def messages_of(fact: Fact, id: str) -> list[Message]:
    """How a fact comes up. To-dos stand in lists, see `list_messages`."""
    match fact.kind:
        case "constraint":
            return [
                {"role": "user", "content": fact.line},
                {"role": "assistant", "content": "Understood."},
            ]
        case "error":
            output = f"$ make check\ncollecting\n{fact.line}\n1 failed, 12 passed in 3.1s"
            return call_of(id, "bash", {"command": f"make check-{id}"}, output)
        case "number":
            return call_of(
                id, "bash", {"command": f"tail report-{id}"}, f"report\n{fact.line}\ndone"
            )
        case "path" if fact.key[-1] in "02468":
            # A path that only a tool ever named is harder to keep than one that the agent spoke of.
            return call_of(
                id, "bash", {"command": f"grep -rn part-{id}"}, f"3 matches\n{fact.line}\nend"
            )
        case "decision" if fact.key[-1] in "02468":
            return [
                {"role": "user", "content": fact.line},
                {"role": "assistant", "content": "Good, then that."},
            ]
        case "modified file":
            change = {"path": fact.line, "old_string": "return None", "new_string": "return found"}
            return call_of(id, "edit_file", change, "The file was edited.", "Now the fix itself.")
        case _:
            return call_of(
                id,
                "bash",
                {"command": f"ls part-{id}"},
                "total 12",
                f"{fact.line} Let me look further.",
            )


def list_messages(facts: list[Fact], id: str, *, first: bool, by_tool: bool) -> list[Message]:
    """The to-do list as the agent keeps it: all open at first, the finished ones ticked off
    later."""
    done = {fact.line: not first and fact.kind == "finished to-do" for fact in facts}
    if by_tool:
        states = [
            {"content": line, "status": "completed" if done[line] else "pending"} for line in done
        ]
        return call_of(id, "TodoWrite", {"todos": states}, "Todos have been modified successfully.")
    marks = [f"- [{'x' if done[line] else ' '}] {line}" for line in done]
    return [
        {"role": "assistant", "content": "Where I am:\n" + "\n".join(marks)},
        {"role": "user", "content": "Go on."},
    ]
