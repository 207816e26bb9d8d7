"""The ledger as text for a page: grouped, one line per fact with its #seq, always in the same
order.

When room is short, the least needed facts are left out and counted; none is shortened but older
requests, which say where they are whole. Neighbours: `ledger` makes the facts, `facts` says what is
needed most.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import NamedTuple

from refold.core.model import Fact, FactKind
from refold.display import cut, one_line
from refold.ledger.facts import RANK_CHANGED, RANK_SPARE, of_kind, rank

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
