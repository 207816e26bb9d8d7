"""Entries that answer a query, the best first: what was found, as it stands at a time.

The index finds events; the fold says which entry each is part of and whether it is true then. An
event that something moved away from leads to what it moved to. Equal hits are ordered by use and
age, and of entries that code cannot decide between the newest stands first. Neighbours: `finder`
finds, `fold` knows, `semantic` asks.

What may be about the same as an entry: shown to whoever has just stored it, who knows whether it
has changed.

Near is what the vectors say, by the threshold of the embedder; and without them, what shares much
of the rare words. The same is shown to a writer that takes facts from messages. Nothing is decided
here. Neighbours: `finder` finds, `succession` compares vectors and `followers` words, `semantic`
offers `near`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold.core.model import Memory
from refold.display import number
from refold.memory.claim import claim_of
from refold.memory.entry import MemoryEntry, Run, Version
from refold.memory.finder import Asked, Finder, Fitness, Found
from refold.memory.fold import HEIRS_MAX, Entries
from refold.memory.journal import Journal
from refold.memory.succession import Likeness, Succession

SPARE, RIVALS_SHOWN = 20, 3
SUCCEEDED = 3  # hits, of which it is asked what succeeds them
SUCCESSORS_AMONG = 20  # hits, besides what tells of a change
DAY_MS = 86_400_000
USES_MAX, WEEK_MS = 8, 7 * DAY_MS  # a use makes an entry younger by a week, at most by eight


Hit = tuple[Found, MemoryEntry]


class Wanted(Struct, frozen=True, kw_only=True):
    """What an entry must be besides answering, and when."""

    at_ms: int
    now_ms: int
    limit: int
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    accepted: bool = False  # nothing that waits for a person


def is_wanted(entry: MemoryEntry, tags: Sequence[str], metadata: Mapping[str, Any]) -> bool:
    """Whether an entry has all these tags and these values."""
    missing = object()
    return set(tags) <= set(entry.tags) and all(
        entry.metadata.get(key, missing) == value for key, value in metadata.items()
    )


def listed(
    journals: Sequence[Journal],
    at_ms: int | None,
    tags: Sequence[str],
    metadata: Mapping[str, Any],
) -> list[MemoryEntry]:
    """The entries of these scopes that are true at a time, or ever were; the one that changed last
    first."""
    found = [
        entry
        for journal in journals
        for entries in [journal.entries()]
        for run in entries.runs(at_ms)
        if is_wanted(entry := entries.entry(run, journal.scope), tags, metadata)
    ]
    return sorted(found, key=lambda entry: (entry.updated_ms, entry.seq), reverse=True)


def recall(journal: Journal, finder: Finder, asked: Asked, wanted: Wanted) -> list[MemoryEntry]:
    """The entries of one scope that answer."""
    if journal.is_empty() or not wanted.limit:
        return []
    entries = journal.glance(finder)
    hits: list[Hit] = []
    seen: set[str] = set()
    for found in finder.found(journal.id, asked):
        if _is_enough(hits, found, wanted.limit):
            break
        said = entries.run_at(found.seq)
        run = _standing(entries, said, wanted.at_ms)
        if said is None or run is None or run.entry in seen:
            continue
        if wanted.accepted and not run.first.is_accepted:
            continue
        seen.add(run.entry)
        entry = _entry(entries, run, journal, found, wanted)
        if said.entry != run.entry:
            entry = replace(entry, why=f"changes {said.entry}; {entry.why}")
        if is_wanted(entry, wanted.tags, wanted.metadata):
            hits.append((found, entry))
    hits = _weighed(hits, Fitness(asked.query))
    uses = finder.uses([entry.id for _, entry in hits])
    hits.sort(key=lambda hit: (hit[0].rank, _preference(hit[1], uses)), reverse=True)
    ordered = _preferred_first(_preferred_first(hits, _equal, uses), _rival, uses)
    likeness = Likeness(finder, journal.id)
    by_entry = {entry.id: found for found, entry in ordered}
    succession = Succession(entries, likeness, asked.query, wanted.at_ms, by_entry)
    latest = _latest_first(ordered, entries, journal.scope, succession, wanted)
    return _falling([entry for _, entry in latest])[: wanted.limit]


def _weighed(hits: Sequence[Hit], fitness: Fitness) -> list[Hit]:
    """The hits, those higher that can be an answer by their form. A rank below zero stays."""
    return [
        (replace(found, rank=found.rank * fitness.of(entry.content)), entry)
        if found.rank > 0
        else (found, entry)
        for found, entry in hits
    ]


def _latest_first(
    hits: Sequence[Hit], entries: Entries, scope: str, succession: Succession, wanted: Wanted
) -> list[Hit]:
    """The hits, and before each of the first what succeeds it: that answers as well as what it
    stands for."""
    by_id = {entry.id: (found, entry) for found, entry in hits}
    runs = [entries.run_at(entry.seq) for _, entry in hits[:SUCCESSORS_AMONG]]
    among = [run for run in runs if run is not None]
    out: dict[str, Hit] = {}
    for run, (found, entry) in zip(runs[:SUCCEEDED], hits):
        for later in succession.after(run, among) if run else ():
            own = by_id[later.entry][0] if later.entry in by_id else found
            change = entries.entry(later, scope, score=max(entry.score, own.strength))
            why = f"changes {entry.id}; {_why(change, own, wanted.now_ms)}"
            if is_wanted(change, wanted.tags, wanted.metadata):
                out.setdefault(change.id, (own, replace(change, why=why)))
        out.setdefault(entry.id, (found, entry))
    for hit in hits:
        out.setdefault(hit[1].id, hit)
    return list(out.values())


def _is_enough(hits: Sequence[Hit], found: Found, limit: int) -> bool:
    """Whether nothing that comes from here on can be among the first so many: some more are looked
    at for rivals, and all that are equal to the last."""
    return len(hits) >= limit + SPARE and _worth(found) != _equal(hits[-1])


def _standing(entries: Entries, run: Run | None, at_ms: int) -> Run | None:
    """What stands for an entry at a time: itself, what it moved to, or what somebody said that
    replaces it."""
    for _ in range(HEIRS_MAX):
        if run is None or run.holds_at(at_ms):
            return run
        heir = entries.run_at(run.heir) if run.until_ms <= at_ms and run.heir else None
        run = heir if heir is not None and (run.is_told or heir.first.claim.left) else None
    return None


def _entry(
    entries: Entries, run: Run, journal: Journal, found: Found, wanted: Wanted
) -> MemoryEntry:
    entry = entries.entry(run, journal.scope)
    return replace(entry, score=found.strength, why=_why(entry, found, wanted.now_ms))


def _why(entry: MemoryEntry, found: Found, now_ms: int) -> str:
    """By what an entry answers, in words."""
    parts = []
    if found.words:
        parts.append("words: " + ", ".join(found.words))
    if found.cosine is not None:
        parts.append(f"cosine {found.cosine:.2f}")
    if entry.count > 1:
        parts.append(f"said {entry.count} times")
    days = max(0, now_ms - entry.updated_ms) // DAY_MS
    parts.append(f"{number(days, 'day')} old" if days else "from today")
    if entry.rivals:
        others = ", ".join(entry.rivals[:RIVALS_SHOWN])
        more = (
            f" and {len(entry.rivals) - RIVALS_SHOWN} more" if entry.rivals[RIVALS_SHOWN:] else ""
        )
        parts.append(f"others say something else: {others}{more}")
    return "; ".join(parts)


def _preferred_first(
    hits: Sequence[Hit], group_of: Callable[[Hit], object], uses: Mapping[str, int]
) -> list[Hit]:
    """The same places, those of one group given to its hits by preference. What is in no group
    stays where it is."""
    places: dict[object, list[int]] = {}
    for at, hit in enumerate(hits):
        group = group_of(hit)
        if group is not None:
            places.setdefault(group, []).append(at)
    out = list(hits)
    for taken in places.values():
        ordered = sorted(
            (hits[at] for at in taken), key=lambda hit: _preference(hit[1], uses), reverse=True
        )
        for at, hit in zip(taken, ordered):
            out[at] = hit
    return out


def _equal(hit: Hit) -> object:
    return _worth(hit[0])


def _worth(found: Found) -> object:
    """By what one hit answers as well as another: the same words of the query, and about as good
    all in all. Its cosine alone would not do: a sentence that is 0.05 nearer is the better one."""
    return found.words, round(found.rank, 1)


def _rival(hit: Hit) -> object:
    """What is denied by others that answer as well."""
    _, entry = hit
    if not entry.rivals:
        return None
    return frozenset((entry.id, *entry.rivals)), round(entry.score, 1)


def _preference(entry: MemoryEntry, uses: Mapping[str, int]) -> tuple[int, int]:
    """Of equal entries the one that became true later; what was used counts as younger."""
    used = min(USES_MAX, uses.get(entry.id, 0))
    return entry.valid_from_ms + used * WEEK_MS, entry.seq


def _falling(entries: Sequence[MemoryEntry]) -> list[MemoryEntry]:
    """The entries with scores that never rise: one that stands behind another is no better."""
    out: list[MemoryEntry] = []
    score = 1.0
    for entry in entries:
        score = min(score, max(0.0, entry.score))
        out.append(replace(entry, score=round(score, 4)))
    return out


QUERY_WORDS_MAX, LOOKED_AT = 60, 40
SENTENCES_MAX, EACH = 60, 5  # that are looked for, and hits of each
WORDS_NEAR = 0.15  # the least cosine of words weighed by rarity; measured on the lives in bench
_WORD = re.compile(r"\w+")


def near(
    journal: Journal, finder: Finder, run: Run, limit: int, *, accepted: bool
) -> list[MemoryEntry]:
    """The entries that are true and may be about the same, the nearest first, each with its
    nearness as its score; if only what is `accepted` is wanted, nothing that waits."""
    words = _WORD.findall(run.versions[-1].body.content)[:QUERY_WORDS_MAX]
    if not words or not limit:
        return []
    entries = journal.glance(finder)
    asked = Asked(query=" ".join(words), most=LOOKED_AT)
    seqs = [found.seq for found in finder.found(journal.id, asked)]
    others = [
        one
        for one in _others(entries, run, seqs, journal.now_ms())
        if one.first.is_accepted or not accepted
    ]
    likeness = Likeness(finder, journal.id)
    likeness.read((run, *others))
    nearness = {
        other.entry: max(
            likeness.between(run, other) or 0.0,
            entries.shared(run, other, frozenset()).rest - WORDS_NEAR,
        )
        for other in others
    }
    found = [one for one in others if nearness[one.entry] > 0]
    found.sort(key=lambda one: nearness[one.entry], reverse=True)
    return [
        entries.entry(one, journal.scope, score=round(min(1.0, nearness[one.entry]), 4))
        for one in found[:limit]
    ]


def known_of(
    journal: Journal, finder: Finder, sentences: Iterable[str], limit: int
) -> list[MemoryEntry]:
    """The entries that are true and may be about what these sentences say, as many as the limit.
    What no person accepted is not among them: they are for a model."""
    entries, now_ms = journal.glance(finder), journal.now_ms()
    least = finder.least_near()
    known: dict[str, Run] = {}
    for sentence in islice((one for one in sentences if _WORD.search(one)), SENTENCES_MAX):
        words = " ".join(_WORD.findall(sentence)[:QUERY_WORDS_MAX])
        said = Run([Version(0, 0, Memory(entry="", content=sentence), claim_of(sentence))])
        for found in islice(finder.found(journal.id, Asked(query=words, most=LOOKED_AT)), EACH):
            run = entries.run_at(found.seq)
            if run is None or not run.first.is_accepted or not run.holds_at(now_ms):
                continue
            shared = entries.shared(said, run, frozenset()).rest
            if shared >= WORDS_NEAR or (found.cosine is not None and found.cosine >= least):
                known.setdefault(run.entry, run)
    return [entries.entry(run, journal.scope) for run in islice(known.values(), limit)]


def _others(entries: Entries, run: Run, seqs: Iterable[int], now_ms: int) -> list[Run]:
    """The entries of these events that are true now, but for what is the same, or replaced."""
    known = {one.body.entry for one in run.versions} | set(run.replaces)
    found = (entries.run_at(seq) for seq in seqs)
    is_other = {one.first.seq: one for one in found if one is not None and one.holds_at(now_ms)}
    return [one for one in is_other.values() if one.entry not in known]
