"""Entries that answer a query, best first, as they were at a given time; and related entries.

The index finds events; the fold maps each to its entry and says whether it was true then. An event
about something that moved points to the entry it moved to. Equal hits are ordered by use and age;
among rivals the newest comes first. Related entries are true ones that may be about the same thing
as a new one, near by vectors or by rare words: the caller decides. Neighbours: `ranking`, `fold`,
`succession`, `merging`, `semantic`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold.core.model import Memory
from refold.display import number
from refold.memory.claim import claim_of
from refold.memory.entry import MemoryEntry, Run, Version
from refold.memory.fold import HEIRS_MAX, Entries
from refold.memory.journal import Journal
from refold.memory.ranking import Finder, Fitness, Found, IndexQuery
from refold.memory.succession import Likeness, Succession, stems_of, telling_words
from refold.patterns import regex

SPARE, RIVALS_SHOWN, VALUE_RARITY = 60, 3, 10  # a value is in at most one of ten sentences
# The first hits with a search for successors, and hits that may be some, besides announced changes.
SUCCEEDED, SUCCESSORS_AMONG = 3, 20
DAY_MS = 86_400_000
USES_MAX, WEEK_MS = 8, 7 * DAY_MS  # a use makes an entry younger by a week, at most by eight


Hit = tuple[Found, MemoryEntry]


class Wanted(Struct, frozen=True, kw_only=True):
    """The conditions on an entry, besides being an answer, and the time of the question."""

    at_ms: int
    now_ms: int
    limit: int
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    accepted: bool = False  # no pending entries


def is_wanted(entry: MemoryEntry, tags: Sequence[str], metadata: Mapping[str, Any]) -> bool:
    """Whether an entry has all these tags and metadata values."""
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
    """The entries of these scopes that are true at a time; without a time, all that ever were; the
    last changed first."""
    found = [
        entry
        for journal in journals
        for entries in [journal.entries()]
        for run in entries.runs(at_ms)
        if is_wanted(entry := entries.entry(run, journal.scope), tags, metadata)
    ]
    return sorted(found, key=lambda entry: (entry.updated_ms, entry.seq), reverse=True)


def recall(
    journal: Journal, finder: Finder, asked: IndexQuery, wanted: Wanted
) -> list[MemoryEntry]:
    """The entries of one scope that answer a query."""
    if journal.is_empty() or not wanted.limit:
        return []
    entries = journal.glance(finder)
    hits: list[Hit] = []
    seen: set[str] = set()
    for found in finder.found(journal.id, asked):
        # A few more than the limit are needed for rivals, and all that are equal to the last.
        if len(hits) >= wanted.limit + SPARE and _equal((found, None)) != _equal(hits[-1]):
            break
        said = entries.run_at(found.seq)
        run = _valid_run(entries, said, wanted.at_ms)
        if said is None or run is None or run.entry in seen:
            continue
        if wanted.accepted and not run.first.is_accepted:
            continue
        seen.add(run.entry)
        entry = entries.entry(run, journal.scope)
        entry = replace(entry, score=found.strength, why=_why(entry, found, wanted.now_ms))
        if said.entry != run.entry:
            entry = replace(entry, why=f"changes {said.entry}; {entry.why}")
        if is_wanted(entry, wanted.tags, wanted.metadata):
            hits.append((found, entry))
    fitness = Fitness(asked.query)
    hits = [
        (replace(found, rank=found.rank * fitness.of(entry.content)), entry)
        if found.rank > 0
        else (found, entry)
        for found, entry in hits
    ]
    uses = finder.uses([entry.id for _, entry in hits])
    hits.sort(key=lambda hit: (hit[0].rank, _preference(hit[1], uses)), reverse=True)
    ordered = _preferred_first(_preferred_first(hits, _equal, uses), _rival, uses)
    question = stems_of(asked.query)
    telling = telling_words(asked.query, (entry.content for _, entry in ordered))
    ordered = _same_thing_first(ordered, entries, question, telling)
    likeness = Likeness(finder, journal.id)
    by_entry = {entry.id: found for found, entry in ordered}
    succession = Succession(entries, likeness, asked.query, wanted.at_ms, by_entry, telling)
    latest = _latest_first(ordered, entries, journal.scope, succession, wanted)
    out: list[MemoryEntry] = []
    score = 1.0
    for _, entry in latest[: wanted.limit]:  # scores never rise from one to the next
        score = min(score, max(0.0, entry.score))
        out.append(replace(entry, score=round(score, 4)))
    return out


def _latest_first(
    hits: Sequence[Hit], entries: Entries, scope: str, succession: Succession, wanted: Wanted
) -> list[Hit]:
    """The hits, with the successors of the first few before them: a successor answers as well as
    its predecessor."""
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


def _same_thing_first(
    hits: Sequence[Hit], entries: Entries, asked: frozenset[str], telling: frozenset[str]
) -> list[Hit]:
    """Puts hits about the thing in the question before hits about others of its kind; of two about
    it with the same kind of value, the later one comes first."""
    if not telling:
        return list(hits)
    stems = {entry.id: stems_of(entry.content) for _, entry in hits}
    ordered = sorted(hits, key=lambda hit: len(telling - stems[hit[1].id]))
    about = [hit for hit in ordered if telling <= stems[hit[1].id]]
    values: set[str] = set()
    for _, entry in hits:
        if (asked - telling) & stems[entry.id]:
            values |= stems[entry.id] - asked
    rare = {one for one in values if entries.sentences_with(one) * VALUE_RARITY <= entries.total}

    def says_a_value(hit: Hit) -> bool:
        rest = stems[hit[1].id] - asked
        return bool(rest & rare)

    places = [at for at, hit in enumerate(about) if says_a_value(hit)]
    latest = sorted(
        (about[at] for at in places), key=lambda hit: hit[1].valid_from_ms, reverse=True
    )
    for at, hit in zip(places, latest):
        about[at] = hit
    return [*about, *ordered[len(about) :]]


def _valid_run(entries: Entries, run: Run | None, at_ms: int) -> Run | None:
    """The entry itself if it is true at a time, else the one it moved to or was replaced by."""
    for _ in range(HEIRS_MAX):
        if run is None or run.holds_at(at_ms):
            return run
        heir = entries.run_at(run.heir) if run.until_ms <= at_ms and run.heir else None
        run = heir if heir is not None and (run.is_declared or heir.first.claim.left) else None
    return None


def _why(entry: MemoryEntry, found: Found, now_ms: int) -> str:
    """The reasons why an entry answers, for a person."""
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
        parts.append(f"other entries disagree: {others}{more}")
    return "; ".join(parts)


def _preferred_first(
    hits: Sequence[Hit], group_of: Callable[[Hit], object], uses: Mapping[str, int]
) -> list[Hit]:
    """The hits, each group reordered by preference within the places it has; hits without a group
    stay."""
    places: dict[object, list[int]] = {}
    for at, hit in enumerate(hits):
        group = group_of(hit)
        if group is not None:
            places.setdefault(group, []).append(at)
    out = list(hits)
    for group_places in places.values():
        ordered = sorted(
            (hits[at] for at in group_places),
            key=lambda hit: _preference(hit[1], uses),
            reverse=True,
        )
        for at, hit in zip(group_places, ordered):
            out[at] = hit
    return out


def _equal(hit: tuple[Found, object]) -> object:
    """The key of equally good hits: the same words of the query, and about the same rank. The
    cosine is not rounded like that: a sentence that is 0.05 nearer is better."""
    return hit[0].words, round(hit[0].rank, 1)


def _rival(hit: Hit) -> object:
    """The key of a hit and its equally good rivals; None without rivals."""
    _, entry = hit
    if not entry.rivals:
        return None
    return frozenset((entry.id, *entry.rivals)), round(entry.score, 1)


def _preference(entry: MemoryEntry, uses: Mapping[str, int]) -> tuple[int, int]:
    """Of equal entries the later one is preferred; use makes an entry younger."""
    used = min(USES_MAX, uses.get(entry.id, 0))
    return entry.valid_from_ms + used * WEEK_MS, entry.seq


QUERY_WORDS_MAX, CANDIDATES_MAX = 60, 40
SENTENCES_MAX, HITS_EACH = 60, 5  # sentences to search for, and hits of each
WORDS_NEAR = 0.15  # least cosine of words weighted by rarity; measured on the lives in bench
_WORD = regex(r"\w+")


def near(
    journal: Journal, finder: Finder, run: Run, limit: int, *, accepted: bool
) -> list[MemoryEntry]:
    """The true entries that may be about the same thing, the nearest first, with their nearness as
    score. With `accepted`, pending entries are left out."""
    words = _WORD.findall(run.versions[-1].body.content)[:QUERY_WORDS_MAX]
    if not words or not limit:
        return []
    entries = journal.glance(finder)
    asked = IndexQuery(query=" ".join(words), most=CANDIDATES_MAX)
    seqs = [found.seq for found in finder.found(journal.id, asked)]
    now_ms = journal.now_ms()
    known = {one.body.entry for one in run.versions} | set(run.replaces)
    runs = {one.first.seq: one for one in map(entries.run_at, seqs) if one is not None}
    others = [
        one
        for one in runs.values()
        if one.holds_at(now_ms)
        and one.entry not in known
        and (one.first.is_accepted or not accepted)
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
    """Up to `limit` true entries that may be about these sentences, without pending entries,
    because they are for a model."""
    entries, now_ms = journal.glance(finder), journal.now_ms()
    least = finder.least_near()
    known: dict[str, Run] = {}
    for sentence in islice((one for one in sentences if _WORD.search(one)), SENTENCES_MAX):
        words = " ".join(_WORD.findall(sentence)[:QUERY_WORDS_MAX])
        said = Run([Version(0, 0, Memory(entry="", content=sentence), claim_of(sentence))])
        for found in islice(
            finder.found(journal.id, IndexQuery(query=words, most=CANDIDATES_MAX)), HITS_EACH
        ):
            run = entries.run_at(found.seq)
            if run is None or not run.first.is_accepted or not run.holds_at(now_ms):
                continue
            shared = entries.shared(said, run, frozenset()).rest
            if shared >= WORDS_NEAR or (found.cosine is not None and found.cosine >= least):
                known.setdefault(run.entry, run)
    return [entries.entry(run, journal.scope) for run in islice(known.values(), limit)]
