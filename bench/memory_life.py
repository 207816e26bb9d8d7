"""A made-up life in a memory: what is true now, what was true then, and what must not be found.

A life is a file of JSON lines, `bench/life*.jsonl`. The lines are carried out in their order:

    {"do": "store", "fact": "port", "content": "The database port is 5432", "at": "2024-01-10"}
    {"do": "store", "content": "We moved the database from 5432 to 6432", "at": "2024-05-02"}
    {"do": "update", "fact": "port", "content": "The database port is 7432", "at": "2024-08-01"}
    {"do": "forget", "fact": "port"}
    {"ask": "Which port does the database use?", "expect": "7432"}
    {"ask": "Which port does the database use?", "as_of": "2024-06-01", "expect": "6432"}
    {"ask": "Which port does the database use?", "forgotten": "5432"}

`fact` is a name of the file's own for an entry that is updated, replaced or forgotten later; a
change may be an update, or another store that says so. `at` is when it became true, `tags` are
kept. `expect` is a text, or a list of which one suffices, that the content of the first hit must
hold, in any case. `forgotten` is a text that no hit may hold.

`replaces` are the facts that a line changes. It is used only with `--told`: then a reader of the
life stands in for a model that knows what has changed. `always` says it with every change, `near`
only where the entry is among those that `memory.near` shows after the store, as the tool does;
`--near` counts how often it is.

    python -m bench.memory_life [FILE ...] [--misses] [--text] [--told always|near] [--near]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from bench.tables import Table
from refold.memory.entry import MemoryEntry
from refold.memory.semantic import SemanticMemory
from refold.stores.in_memory import MemoryStore

FOLDER = Path(__file__).parent
HITS, SHOWN = 10, 3
GOALS = {"now": 0.95, "then": 0.90}
LABELS = {"now": "current value first", "then": "value as of a date first"}


class Line(Struct, frozen=True, forbid_unknown_fields=True):
    """One line: something done, or something asked."""

    do: Literal["store", "update", "forget", ""] = ""
    fact: str = ""
    content: str = ""
    tags: tuple[str, ...] = ()
    at: date | None = None
    ask: str = ""
    as_of: date | None = None
    expect: str | tuple[str, ...] = ()
    forgotten: str = ""
    replaces: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        if self.forgotten:
            return "forgotten"
        return "now" if self.as_of is None else "then"


class Answer(Struct, frozen=True):
    """A question and what was found."""

    line: Line
    hits: tuple[MemoryEntry, ...]

    @property
    def is_right(self) -> bool:
        if self.line.forgotten:
            return not any(_holds(hit, self.line.forgotten) for hit in self.hits)
        expected = [self.line.expect] if isinstance(self.line.expect, str) else self.line.expect
        return bool(self.hits) and any(_holds(self.hits[0], text) for text in expected)


def _holds(entry: MemoryEntry, text: str) -> bool:
    return text.casefold() in entry.content.casefold()


def read(path: Path) -> list[Line]:
    """The lines of a life; ValueError with its place for one that is not as it should be."""
    lines = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if text.strip():
            try:
                line = msgspec.json.decode(text, type=Line)
            except msgspec.MsgspecError as error:
                raise ValueError(f"{path.name}:{number}: {error}") from error
            if bool(line.do) == bool(line.ask):
                raise ValueError(f"{path.name}:{number}: a line has `do` or `ask`")
            lines.append(line)
    return lines


Told = Literal["never", "always", "near"]


def lived(
    lines: Sequence[Line], *, embedder: bool | None = None, told: Told = "never"
) -> list[Answer]:
    """The life carried out, and every question answered, each when it is its turn."""
    answers = []
    with SemanticMemory(MemoryStore(), embedder=embedder, user=MemoryStore) as memory:
        teller = Teller(memory, told)
        for line in lines:
            if line.ask:
                found = memory.retrieve(line.ask, HITS, as_of=_midnight(line.as_of))
                answers.append(Answer(line, tuple(found)))
            else:
                teller.carry_out(line)
    return answers


def _midnight(day: date | None) -> datetime | None:
    return None if day is None else datetime(day.year, day.month, day.day, tzinfo=UTC)


class Teller:
    """Who lives the life: tells the memory what happens, and, if asked to, what it replaces."""

    def __init__(self, memory: SemanticMemory, told: Told) -> None:
        self._memory, self._told = memory, told
        self._ids: dict[str, str] = {}

    def carry_out(self, line: Line) -> None:
        replaced = self._told != "never" and line.replaces
        if line.do == "forget":
            self._memory.forget(self._ids[line.fact])
        elif line.do == "update" and not replaced:
            self._memory.update(self._ids[line.fact], line.content, at=_midnight(line.at))
        else:
            entry = self._store(line, [self._ids[fact] for fact in line.replaces])
            if line.fact:
                self._ids[line.fact] = entry.id

    def _store(self, line: Line, replaced: Sequence[str]) -> MemoryEntry:
        def store(replaces: Sequence[str]) -> MemoryEntry:
            at = _midnight(line.at)
            return self._memory.store(line.content, tags=line.tags, at=at, replaces=replaces)

        if self._told == "always":
            return store(replaced)
        entry = store(())
        if self._told == "near" and replaced:
            shown = {one.id for one in self._memory.near(entry.id, SHOWN)}
            seen = [id for id in replaced if id in shown]
            return store(seen) if seen else entry
        return entry


# --- tables ---


def files() -> list[Path]:
    return sorted(FOLDER.glob("life*.jsonl"))


def run(paths: Sequence[Path] = (), told: Told = "never") -> list[Table]:
    how = "" if told == "never" else f", changes told {told if told == 'always' else 'if shown'}"
    table = Table(f"A made-up life{how}, goals", ["what", "refold", "goal", "met"])
    for path in paths or files():
        lines = read(path)
        for name, embedder in (("text", False), ("text and vectors", None)):
            answers = lived(lines, embedder=embedder, told=told)
            _judge(table, f"{path.stem}, {name}", answers)
        table.note(f"{path.stem}: {_about(lines)}")
    return [table]


def _judge(table: Table, name: str, answers: Sequence[Answer]) -> None:
    for kind, goal in GOALS.items():
        asked = [one for one in answers if one.line.kind == kind]
        if asked:
            right = sum(one.is_right for one in asked) / len(asked)
            table.at_least(f"{LABELS[kind]}, {name} ({len(asked)})", right, goal)
    asked = [one for one in answers if one.line.kind == "forgotten"]
    found = sum(not one.is_right for one in asked)
    table.at_most(f"forgotten and found, {name} ({len(asked)})", found, 0)


def _about(lines: Sequence[Line]) -> str:
    done = [line.do for line in lines if line.do]
    kinds = (f"{done.count(kind)} {kind}" for kind in ("store", "update", "forget"))
    return ", ".join(kinds) + f", {len(lines) - len(done)} questions."


class Watcher(Teller):
    """Who tells every change, after looking at what `memory.near` shows."""

    def __init__(self, memory: SemanticMemory) -> None:
        super().__init__(memory, "always")
        self.stores, self.shown, self.changes, self.seen = 0, 0, 0, 0

    def _store(self, line: Line, replaced: Sequence[str]) -> MemoryEntry:
        entry = super()._store(line, ())
        shown = {one.id for one in self._memory.near(entry.id, SHOWN)}
        true = {one.id for one in self._memory.list(limit=1_000)}
        self.stores, self.shown = self.stores + 1, self.shown + len(shown)
        self.changes += len(true & set(replaced))  # what no rule has ended already
        self.seen += len(shown & set(replaced))
        return super()._store(line, replaced) if replaced else entry


def near_table(paths: Sequence[Path] = ()) -> Table:
    """How often `memory.near` shows what a change replaces."""
    table = Table("What is near, after each store", ["life", "changes", "shown", "per store"])
    for path in paths or files():
        for name, embedder in (("text", False), ("text and vectors", None)):
            with SemanticMemory(MemoryStore(), embedder=embedder, user=MemoryStore) as memory:
                watcher = Watcher(memory)
                for line in read(path):
                    if line.do:
                        watcher.carry_out(line)
            per_store = f"{watcher.shown / watcher.stores:.2f}"
            table.add(f"{path.stem}, {name}", watcher.changes, watcher.seen, per_store)
    return table


def misses(answers: Sequence[Answer]) -> Iterator[str]:
    """What was asked, expected and found instead."""
    for one in answers:
        if not one.is_right:
            line = one.line
            yield f"{line.kind}: {line.ask} [{line.as_of or ''}] wants {line.expect or line.forgotten!r}"
            yield from (f"    {hit.score:.2f} {hit.content}   ({hit.why})" for hit in one.hits[:4])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.memory_life")
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--misses", action="store_true", help="print what was not found")
    parser.add_argument("--text", action="store_true", help="with --misses: without vectors")
    parser.add_argument(
        "--told", choices=get_args(Told), default="never", help="say what a change replaces"
    )
    parser.add_argument("--near", action="store_true", help="count what is near, after each store")
    given = parser.parse_args()
    if given.near:
        print(near_table(given.files))
    elif given.misses:
        for path in given.files or files():
            embedder = False if given.text else None
            answers = lived(read(path), embedder=embedder, told=given.told)
            print("\n".join(misses(answers)))
    else:
        print("\n\n".join(map(str, run(given.files, given.told))))


if __name__ == "__main__":
    main()
