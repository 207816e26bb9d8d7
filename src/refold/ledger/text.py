"""The ledger as text for a page: grouped, one line per fact with its #seq, always in the same
order.

When room is short, the least needed facts are left out and counted; none is shortened but older
requests, which say where they are whole. `rank` says what is needed most. Neighbour: `ledger` makes
the facts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from refold.core.model import Fact

REQUEST_SHOWN = 400  # of an older request
CHARACTERS = 12_000
GROUP_SHARE = 0.35  # of the room, for one group, while others need it
COUNT_ROOM = 40  # for the line that counts what is not shown
LEFT_OUT = " more facts are not shown)"
RANK_CHANGED = 2  # of files that were changed
RANK_KEPT = 4  # up to this rank a fact never leaves the ledger

_MARK = re.compile(r"^- #\d+ ")
_GROUPS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    # heading, kind, states (empty: any)
    ("User requests", "request", ()),
    ("Constraints", "constraint", ()),
    ("Decisions", "decision", ()),
    ("Open to-dos", "todo", ("open",)),
    ("Files changed", "file", ("created", "modified", "deleted")),
    ("Open errors", "error", ("open",)),
    ("Commands", "command", ()),
    ("Finished to-dos", "todo", ("done", "cancelled")),
    ("Resolved errors", "error", ("resolved",)),
    ("Artifacts", "artifact", ()),
    ("Files read", "file", ("read",)),
)


def rank(fact: Fact) -> int:
    """How soon a fact may go: 0 last, 9 first. Up to `RANK_KEPT` it never leaves the ledger."""
    match fact.kind, fact.state:
        case "request", _:
            return 0
        case "constraint", _:
            return 1 if fact.state == "user" else 3
        case "todo", "open":
            return 1
        case "file", "created" | "modified" | "deleted":
            return RANK_CHANGED
        case "error", "open":
            return 5
        case "decision", _:
            return 4 if fact.state == "user" else 5
        case "artifact", _:
            return 6
        case "command", "exit 0" | "ok" | "":
            return 9
        case "command", _:
            return 6
        case "file", _:
            return 9
        case _:
            return 8


def ledger_lines(
    facts: Sequence[Fact],
    characters_max: int = CHARACTERS,
    in_work: Set[str] = frozenset(),
    spare: int = 0,
) -> list[str]:
    """The lines, headings included, of the facts that fit; the last line counts those that did
    not. What is known of the files `in_work` is needed as much as what was changed. Facts that
    never leave the ledger may have `spare` characters more."""
    newest = max((fact.seq for fact in facts if fact.kind == "request"), default=0)
    lines = {id(fact): _line(fact, fact.seq == newest, characters_max) for fact in facts}
    order = sorted(facts, key=lambda fact: _turn(fact, newest, in_work))
    shown = _fitting(order, lines, characters_max, spare)
    out: list[str] = []
    for heading, kind, states in _GROUPS:
        group = [fact for fact in facts if id(fact) in shown and _belongs(fact, kind, states)]
        if group:
            out.append(f"{heading}:")
            out += [
                lines[id(fact)] for fact in sorted(group, key=lambda fact: (fact.seq, fact.text))
            ]
    left_out = len(facts) - len(shown)
    return [*out, f"({left_out}{LEFT_OUT}"] if left_out else out


def is_cut(lines: Sequence[str]) -> bool:
    """Whether there was no room for some facts."""
    return bool(lines) and lines[-1].endswith(LEFT_OUT)


def said(lines: Sequence[str]) -> set[str]:
    """The same lines as they were said: without the ledger's mark."""
    return {_MARK.sub("", line).strip() for entry in lines for line in entry.split("\n")}


def _turn(fact: Fact, newest: int, in_work: Set[str]) -> tuple[bool, int, int, str]:
    """When a fact's turn for room comes: the newest request, then by need, newest first among
    equals."""
    need = RANK_CHANGED if fact.kind == "file" and fact.text in in_work else rank(fact)
    return fact.kind != "request" or fact.seq != newest, need, -fact.seq, fact.text


def _fitting(
    order: Sequence[Fact], lines: dict[int, str], characters_max: int, spare: int
) -> set[int]:
    """The first facts that fit; one group takes all the room only if no other needs it."""
    shown: set[int] = set()
    used: dict[str, int] = {}
    kept = [fact for fact in order if rank(fact) <= RANK_KEPT] if spare > 0 else []
    usual, most = characters_max, characters_max + spare
    for share, room, facts in (
        (GROUP_SHARE * usual, usual, order),
        (usual, usual, order),
        (most, most, kept),
    ):
        for fact in facts:
            heading = _heading(fact)
            need = len(lines[id(fact)]) + 1 + (0 if heading in used else len(heading) + 2)
            first = fact is order[0] or used.get(heading, 0) + need <= share
            if (
                heading
                and id(fact) not in shown
                and first
                and sum(used.values()) + need <= room - COUNT_ROOM
            ):
                used[heading] = used.get(heading, 0) + need
                shown.add(id(fact))
    return shown


def _heading(fact: Fact) -> str:
    return next((heading for heading, kind, states in _GROUPS if _belongs(fact, kind, states)), "")


def _belongs(fact: Fact, kind: str, states: tuple[str, ...]) -> bool:
    return fact.kind == kind and (not states or fact.state in states)


def _line(fact: Fact, newest: bool, characters_max: int) -> str:
    mark = f"- #{fact.seq} "
    if fact.kind == "request":
        return mark + _request(fact, newest, characters_max)
    text = " ".join(fact.text.split())
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


def _request(fact: Fact, newest: bool, characters_max: int) -> str:
    if newest and len(fact.text) + 100 <= characters_max:
        return fact.text
    line = " ".join(fact.text.split())
    size = min(REQUEST_SHOWN, max(40, characters_max // 2))
    return line if len(line) <= size else f"{line[: size - 1]}… (whole at #{fact.seq})"
