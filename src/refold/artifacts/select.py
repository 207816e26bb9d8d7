"""Which artifacts a query needs: the best by their words, within bounds, each with the reason.

An embedder adds what says the same in other words, and a model may be the judge; one that fails
leaves the ranking as it is, and the reason says so. Neighbours: `artifacts` asks, `word_ranking`
has the words.

Artifacts ranked by the words that they share with a query.

Words come from what the tool was asked (its description and arguments) and from the beginning and
the end of what it gave; `login` finds `/src/auth/login.ts`, `file` finds `readFile`, and
`authentication` a little of `auth/`. The score is BM25 as a share of the best that a text could
have: 1 is every word, often. Neighbours: `select` asks, `strategies.terms` has the words,
`search.bm25` the formula.
"""

from __future__ import annotations

import os
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from statistics import fmean, pstdev
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from refold.artifacts.listing import StoredArtifact
from refold.core.model import Artifact
from refold.display import failure
from refold.errors import Corrupt, Invalid, NotFound
from refold.search.embedders import Embedder, chosen
from refold.search.rank import VECTOR_WEIGHT, Formula, add_term, inverse_document_frequency
from refold.strategies.brief import words
from refold.system import disk

HEAD_BYTES, TAIL_BYTES = 8_192, 4_096
SAMPLED_MAX = 1_000  # artifacts, the newest: the others are known by what the tool was asked
MATCHES_MAX = 10_000  # that are held at a time; of more, the best by what is known until then
ASKED_WEIGHT, SIMILAR_WEIGHT, SIMILAR_CHARS = 2.0, 0.4, 4
# Tool output repeats itself more than talk does, and is of very different lengths.
BM25 = Formula(saturation=1.2, length_share=0.5)
_PUNCTUATION = ".,;:!?\"'()[]{}"


class Selected(Struct, frozen=True, kw_only=True):
    """An artifact, its score from 0 to 1, the words of the query that it matches, and why it is
    here."""

    artifact: StoredArtifact
    score: float = 0.0
    matched: tuple[str, ...] = ()
    why: str = ""


class Contents(Protocol):
    """Where contents are read from: a store, or what stands for one."""

    def get(self, digest: str) -> Iterator[bytes]: ...

    def location(self, digest: str) -> str | None: ...


def ranked_by_words(
    store: Contents, artifacts: Sequence[StoredArtifact], query: str
) -> list[Selected]:
    """The artifacts that have a word of the query, best first."""
    ranking = _Ranking(_terms(query))
    if not ranking.terms:
        return []
    first_sampled = len(artifacts) - SAMPLED_MAX
    for at, one in enumerate(artifacts):
        if not one.cleaned_ms:
            is_sampled = at >= first_sampled
            ranking.add(one, _artifact_words(store, one.artifact, sampled=is_sampled))
    return [_selected(score, one, ranking.terms) for score, one in ranking.scored()]


class _ArtifactTerms(Struct, frozen=True):
    """The words of an artifact: what the tool was asked and what it gave."""

    asked: Tally[str]
    given: Tally[str]

    @property
    def size(self) -> int:
        return self.asked.total() + self.given.total()


class _Match(Struct, frozen=True):
    """An artifact that has words of the query: which, how often, and how long its text is."""

    artifact: StoredArtifact
    counts: dict[str, float]
    size: int
    why: str


class _Ranking:
    """The artifacts that have a word of the query. They are gone through one by one: of those that
    do not match, and of very many that do, only what the ranking needs of them is held."""

    def __init__(self, terms: dict[str, str]) -> None:
        self.terms = terms
        self._matches: list[_Match] = []
        self._holding = Tally[str]()  # in how many texts each term occurs
        self._texts = self._words = 0

    def add(self, artifact: StoredArtifact, text: _ArtifactTerms) -> None:
        self._texts += 1
        self._words += text.size
        counts = {term: count for term in self.terms if (count := _count(text, term))}
        if not counts:
            return
        self._holding.update(counts.keys())
        why = _why(counts, self.terms, text)
        self._matches.append(_Match(artifact, counts, text.size, why))
        if len(self._matches) >= 2 * MATCHES_MAX:
            self._matches = [one for _, one in self.scored()[:MATCHES_MAX]]

    def scored(self) -> list[tuple[float, _Match]]:
        """The matches with their scores, best first, the newer of two equals before the older."""
        weights = self._weights()
        best = BM25.most(sum(weights.values()))
        scores = self._scores(weights)
        scored = [(round(scores[at] / best, 4), one) for at, one in enumerate(self._matches)]
        return sorted(scored, key=lambda pair: (-pair[0], -pair[1].artifact.seq))

    def _weights(self) -> dict[str, float]:
        # A word that occurs nowhere says as much as one that occurs once: a text without it is not
        # a full match.
        return {
            term: inverse_document_frequency(max(1, self._holding[term]), self._texts)
            for term in self.terms
        }

    def _scores(self, weights: Mapping[str, float]) -> dict[int, float]:
        mean = max(1.0, self._words / max(1, self._texts))
        norms = {at: BM25.norm(one.size, mean) for at, one in enumerate(self._matches)}
        scores: defaultdict[int, float] = defaultdict(float)
        for term, weight in weights.items():
            add_term(scores, self._counts(term), norms, BM25.most(weight))
        return scores

    def _counts(self, term: str) -> dict[int, float]:
        """How often the matches have a term, those that do."""
        matches = enumerate(self._matches)
        return {at: one.counts[term] for at, one in matches if term in one.counts}


def _selected(score: float, match: _Match, terms: dict[str, str]) -> Selected:
    matched = _as_asked(match.counts, terms)
    return Selected(artifact=match.artifact, score=score, matched=matched, why=match.why)


def _terms(query: str) -> dict[str, str]:
    """The words to look for, each with the form in which the query has it."""
    terms: dict[str, str] = {}
    for given in query.split():
        parts = words(given)
        for word in parts:
            terms.setdefault(word, given.strip(_PUNCTUATION) if len(parts) == 1 else word)
    return terms


def _count(text: _ArtifactTerms, term: str) -> float:
    exact = ASKED_WEIGHT * text.asked[term] + text.given[term]
    if exact:
        return exact
    return SIMILAR_WEIGHT if any(_similar(term, other) for other in text.asked) else 0.0


def _similar(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= SIMILAR_CHARS and long.startswith(short)


def _why(counts: dict[str, float], terms: dict[str, str], text: _ArtifactTerms) -> str:
    """Which words of the query were found where."""
    asked = [term for term in counts if text.asked[term]]
    given = [term for term in counts if text.given[term]]
    similar = [term for term in counts if not (text.asked[term] or text.given[term])]
    parts = []
    if asked:
        parts.append(f"{_list_as_asked(asked, terms)} in what the tool was asked")
    if given:
        parts.append(f"{_list_as_asked(given, terms)} in what it gave")
    if similar:
        parts.append(f"something like {_list_as_asked(similar, terms)}")
    return "; ".join(parts)


def _list_as_asked(found: Iterable[str], terms: dict[str, str]) -> str:
    return ", ".join(_as_asked(found, terms))


def _as_asked(found: Iterable[str], terms: dict[str, str]) -> tuple[str, ...]:
    """The words as the query has them, each once."""
    return tuple(dict.fromkeys(terms[term] for term in found))


def _artifact_words(store: Contents, artifact: Artifact, *, sampled: bool) -> _ArtifactTerms:
    """The words of an artifact; of one that is not sampled, only what the tool was asked."""
    parts = sample(store, artifact) if sampled else ()
    given = " ".join(part.decode("utf-8", "replace") for part in parts)
    return _ArtifactTerms(Tally(words(_query_texts(artifact))), Tally(words(given)))


def _query_texts(artifact: Artifact) -> str:
    """What the tool was asked, each text once."""
    origin = artifact.origin
    texts = (artifact.name, origin.description, origin.arguments, origin.tool)
    return " ".join(dict.fromkeys(texts))


def sample(store: Contents, artifact: Artifact) -> Iterator[bytes]:
    """The beginning of a content, and its end where that can be had without reading what lies
    between."""
    try:
        path = store.location(artifact.digest)
        if path is None:
            yield next(iter(store.get(artifact.digest)), b"")[:HEAD_BYTES]
            return
        with disk.open_regular(path, artifact.size_bytes) as file:
            yield file.read(HEAD_BYTES)
            if artifact.size_bytes > HEAD_BYTES:
                file.seek(max(HEAD_BYTES, artifact.size_bytes - TAIL_BYTES), os.SEEK_SET)
                yield file.read(TAIL_BYTES)
    except (OSError, NotFound, Corrupt):
        # `refold verify` reports what is missing or damaged; the others are ranked all the same.
        return


JUDGED_MAX = 50
EMBEDDED_MAX, EMBEDDED_CHARS = 200, 2_000
# Above the mean, for what has no word of the query; of two, the nearer one has 1.
NEAR_DEVIATIONS = 0.9


class Bounds(Struct, frozen=True, kw_only=True):
    """How much may be selected; None means any."""

    limit: int | None = 10
    score_min: float = 0.0
    tokens_max: int | None = None


Judge = Callable[[str, Sequence[Selected]], Sequence[str]]
"""Given the query and the best candidates, the ids of the relevant ones, most relevant first."""


def selected(
    store: Contents,
    artifacts: Sequence[StoredArtifact],
    query: str,
    bounds: Bounds,
    judge: Judge | None = None,
    embedder: Embedder | str | bool | None = None,
) -> list[Selected]:
    """The artifacts that match, best first, the newer of two equals before the older. Where none
    does, the newest that fit, in their order. Those whose bytes were cleaned up are left out."""
    _check(bounds)
    ranked = ranked_by_words(store, artifacts, query)
    asked = None if embedder is None else chosen(embedder)
    if asked is not None and query.strip():
        ranked = _fused(store, artifacts, query, ranked, asked)
    if not ranked:
        return _newest(artifacts, bounds) if bounds.score_min <= 0 else []
    good = [one for one in ranked if one.score >= bounds.score_min]
    if judge is not None:
        good = _judged(good, query, judge)
    return _fitting(good, bounds)


def _check(bounds: Bounds) -> None:
    if (bounds.limit or 0) < 0 or (bounds.tokens_max or 0) < 0:
        raise Invalid(
            f"a bound is negative: {bounds}", hint="give numbers that are not negative, or None"
        )


def _newest(artifacts: Sequence[StoredArtifact], bounds: Bounds) -> list[Selected]:
    why = "nothing matches the query; it is among the newest"
    newest = (Selected(artifact=one, why=why) for one in _kept_newest_first(artifacts))
    return _fitting(newest, bounds)[::-1]


def _kept_newest_first(artifacts: Sequence[StoredArtifact]) -> Iterator[StoredArtifact]:
    """The artifacts that still have their bytes."""
    return (one for one in reversed(artifacts) if not one.cleaned_ms)


def _fitting(ranked: Iterable[Selected], bounds: Bounds) -> list[Selected]:
    """The first of them, leaving out those for which there is no room."""
    taken: list[Selected] = []
    used = 0
    for one in ranked:
        if bounds.limit is not None and len(taken) >= bounds.limit:
            break
        tokens = one.artifact.tokens
        if bounds.tokens_max is None or used + tokens <= bounds.tokens_max:
            used += tokens
            taken.append(one)
    return taken


# --- a judge ---


def _judged(ranked: list[Selected], query: str, judge: Judge) -> list[Selected]:
    """The candidates that the judge names, in its order; ids that are none of them are left
    out."""
    # Of one content that was kept twice, the better one is the candidate.
    candidates = {one.artifact.id: one for one in reversed(ranked[:JUDGED_MAX])}
    try:
        ids = judge(query, list(reversed(candidates.values())))
        chosen = _chosen(candidates, dict.fromkeys(ids))
    except Exception as error:  # noqa: BLE001 - a judge is the caller's code and may raise anything
        return _with_failure(ranked, "judge", error)
    return [replace(one, why=f"chosen by the judge; {one.why}") for one in chosen]


def _chosen(candidates: Mapping[str, Selected], ids: Iterable[str]) -> list[Selected]:
    """The candidates of these ids. A judge may make an id up, but not all of them."""
    named = list(ids)
    known = [candidates[id] for id in named if id in candidates]
    if named and not known:
        raise LookupError("it named none of the candidates")
    return known


def _with_failure(ranked: list[Selected], who: str, error: Exception) -> list[Selected]:
    """The ranking as it was, with the reason why nobody changed it."""
    reason = f"; the {who} failed: {failure(error)}"
    return [replace(one, why=one.why + reason) for one in ranked]


# --- an embedder ---


def _fused(
    store: Contents,
    artifacts: Sequence[StoredArtifact],
    query: str,
    ranked: list[Selected],
    embedder: Embedder,
) -> list[Selected]:
    """The ranking by words and by nearness together. What has no word of the query is taken in
    if it stands out. Only the best by words and the newest of the others are compared."""
    compared = [*ranked[:EMBEDDED_MAX], *_newest_others(artifacts, ranked)]
    if not compared:
        return ranked
    texts = [_text_to_embed(store, one.artifact.artifact) for one in compared]
    try:
        near = _nearness(embedder, query, texts)
    except Exception as error:  # noqa: BLE001 - the caller's code may raise anything
        return _with_failure(ranked, "embedder", error)
    least = _least_near(near, embedder)
    fused = [_with_nearness(one, 0.0) for one in ranked[EMBEDDED_MAX:]]
    for one, cosine in zip(compared, near):
        if one.matched or cosine >= least:
            fused.append(_with_nearness(one, cosine))
    return sorted(fused, key=lambda one: (-one.score, -one.artifact.seq))


def _newest_others(
    artifacts: Sequence[StoredArtifact], ranked: Iterable[Selected]
) -> list[Selected]:
    """The newest artifacts that are not among those ranked."""
    known = {one.artifact.seq for one in ranked}
    others = (one for one in _kept_newest_first(artifacts) if one.seq not in known)
    return [Selected(artifact=one) for one in islice(others, EMBEDDED_MAX)]


def _text_to_embed(store: Contents, artifact: Artifact) -> str:
    given = b"\n".join(sample(store, artifact))[: 4 * EMBEDDED_CHARS].decode("utf-8", "replace")
    return f"{artifact.name}\n{given}"[:EMBEDDED_CHARS]


def _nearness(embedder: Embedder, query: str, texts: list[str]) -> list[float]:
    """The cosines of the texts with the query."""
    import numpy

    vectors = numpy.asarray(embedder([query, *texts]), dtype=numpy.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts) + 1 or not numpy.isfinite(vectors).all():
        raise Invalid(
            f"it gave {vectors.shape} for {len(texts) + 1} texts",
            hint="one finite vector for each text",
        )
    units = vectors / numpy.maximum(numpy.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return [float(cosine) for cosine in units[1:] @ units[0]]


def _least_near(near: list[float], embedder: Embedder) -> float:
    """How near something must be that has no word of the query."""
    known = getattr(embedder, "threshold", None)
    if known is not None:
        return float(known)
    return fmean(near) + NEAR_DEVIATIONS * pstdev(near)


def _with_nearness(one: Selected, cosine: float) -> Selected:
    score = (one.score + VECTOR_WEIGHT * max(0.0, cosine)) / (1 + VECTOR_WEIGHT)
    reasons = [one.why] if one.why else []
    if cosine > 0:
        reasons.append(f"{round(100 * cosine)} % alike in meaning")
    return replace(one, score=round(score, 4), why="; ".join(reasons))
