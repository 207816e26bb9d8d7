"""The inbox: entries that wait for a person to accept or reject them, and facts found by rules.

Neighbours: `fold` knows the pending entries, `semantic` writes the decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from refold.checked import quoted
from refold.core.model import Memory
from refold.errors import NotFound
from refold.memory.entry import ACCEPTED, FOREVER_MS, TRUSTED, MemoryEntry, Run, Version
from refold.memory.extraction import Taken
from refold.memory.fold import Entries
from refold.memory.journal import Journal


def waiting_entry(version: Version, scope: str) -> MemoryEntry:
    """A pending entry as a caller sees it."""
    return Run([version]).shown(scope=scope, created_ms=version.at_ms, waits=True)


def undecided(journal: Journal) -> Iterator[MemoryEntry]:
    """The pending entries, and unaccepted facts from tools and imports; oldest first."""
    entries = journal.entries()
    found = [waiting_entry(version, journal.scope) for version in entries.waiting.values()]
    if entries.head:
        runs = entries.unaccepted(journal.now_ms())
        found += [entries.entry(run, journal.scope) for run in runs]
    yield from sorted(found, key=lambda entry: entry.seq)


def undecided_body(journals: Iterable[Journal], id: str) -> tuple[Journal, Memory]:
    """The newest version of a pending entry, and its journal."""
    for journal in journals:
        entries = journal.entries()
        waiting, run = entries.waiting.get(id), entries.run_of(id)
        if waiting is not None:
            return journal, waiting.body
        if run is not None and not run.first.is_accepted:
            return journal, replace(entries.newest(run.entry).body, replaces=run.replaces)
    raise NotFound(
        f"{quoted(id)} does not wait in the inbox", hint="refold memory inbox lists its entries"
    )


def decided(waiting: Memory, content: str, *, state: Literal["", "rejected"]) -> Memory:
    """The next version of an entry, after a person's decision."""
    return replace(
        waiting,
        version=waiting.version + 1,
        content=content,
        trust="user",
        state=state,
        closed=state == "rejected",
    )


def repeated(own: Journal, journals: Iterable[Journal], body: Memory) -> Memory:
    """A model's statement as it will be stored. If the same words are pending, they stay pending: a
    model cannot get them past the inbox by repeating them."""
    if own.entries().has_accepted(body.content):
        return body
    waiting = own.entries().undecided(body.content)
    if waiting is None:
        others = (one for one in journals if one.id != own.id)
        is_elsewhere = any(one.entries().undecided(body.content) for one in others)
        return replace(body, state="waiting") if is_elsewhere else body
    before = waiting.body
    if not before.state:
        return replace(body, trust=before.trust)
    return replace(
        body,
        entry=before.entry,
        version=before.version + 1,
        state="waiting",
        trust=max(before.trust, body.trust, key=TRUSTED.index),
        tags=tuple(dict.fromkeys((*before.tags, *body.tags))),
        metadata=before.metadata | body.metadata,
        source=before.source or body.source,
        replaces=tuple(dict.fromkeys((*before.replaces, *body.replaces))),
    )


def taken_bodies(
    entries: Entries,
    taken: Sequence[Taken],
    *,
    conversation: str,
    waits: bool,
    new_id: Callable[[], str],
) -> list[Memory]:
    """First versions of the facts that are neither known, rejected nor forgotten. Facts from tools,
    and facts that would replace an entry of higher trust, always wait."""
    return [
        Memory(
            entry=new_id(),
            content=one.content,
            tags=(one.kind,),
            trust=one.trust,
            source=(conversation, one.seq),
            valid_from_ms=one.at_ms,
            state="waiting" if waits or _needs_a_person(entries, one) else "",
            replaces=one.replaces,
        )
        for one in taken
        if _is_new(entries, one) and not entries.is_forgotten(one.content)
    ]


def _is_new(entries: Entries, taken: Taken) -> bool:
    """Whether a fact is unknown, or is known but newly replaces a true entry."""
    if not entries.knows(taken.content):
        return True
    replaced = (entries.run_of(id) for id in taken.replaces)
    is_left = any(run is not None and run.until_ms == FOREVER_MS for run in replaced)
    return is_left and bool(entries.saying(taken.content))


def _needs_a_person(entries: Entries, taken: Taken) -> bool:
    """Whether only a person may accept a fact."""
    runs = (entries.run_of(id) for id in taken.replaces)
    trusts = (run.trust for run in runs if run is not None)
    own = TRUSTED.index(taken.trust)
    return taken.trust not in ACCEPTED or any(TRUSTED.index(trust) < own for trust in trusts)


def ended_bodies(entries: Entries, contents: Sequence[str], at_ms: int) -> list[Memory]:
    """Closing versions of the entries with these contents, including pending ones."""
    wanted = set(contents)
    current = [run.versions[-1].body for run in entries.runs(at_ms)] if wanted else []
    current += [version.body for version in entries.waiting.values()]
    return [
        replace(body, version=body.version + 1, state="", closed=True)
        for body in current
        if body.content in wanted
    ]
