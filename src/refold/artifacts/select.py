"""The artifacts that a query needs: the best by their words, within bounds, each with the reason.

Words come from the tool's input (description and arguments) and from the beginning and the end of
its output; `login` finds `/src/auth/login.ts`, `file` finds `readFile`, and `authentication` a
little of `auth/`. The score is BM25 as a share of the best possible one: 1 is every word, often. An
embedder adds artifacts of similar meaning, and a model may be the judge; a failing one leaves the
ranking as it is, and the reason says so. Neighbours: `artifacts` asks, `strategies.word_stems`
splits words, `search.rank` has the formula.
"""

from __future__ import annotations

import os
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from refold.strategies.word_stems import words
from refold.system import disk

HEAD_BYTES, TAIL_BYTES = 8_192, 4_096
SAMPLED_MAX = 1_000  # newest artifacts that are read; older ones count by the tool's input alone
MATCHES_MAX = 10_000  # held at a time; of more, the best so far
ASKED_WEIGHT, SIMILAR_WEIGHT, SIMILAR_CHARS = 2.0, 0.4, 4
JUDGED_MAX = 50
EMBEDDED_MAX, EMBEDDED_CHARS = 200, 2_000
# Above the mean: the nearness of artifacts without a word of the query.
NEAR_DEVIATIONS = 0.9
# Tool output repeats itself more than talk does, and is of very different lengths.
BM25 = Formula(saturation=1.2, length_share=0.5)
_PUNCTUATION = ".,;:!?\"'()[]{}"


class Selected(Struct, frozen=True, kw_only=True):
    """An artifact, its score from 0 to 1, the matched words of the query, and the reason for its
    selection."""

    artifact: StoredArtifact
    score: float = 0.0
    matched: tuple[str, ...] = ()
    why: str = ""


class Contents(Protocol):
    """A source of contents: a store, or a substitute."""

    def get(self, digest: str) -> Iterator[bytes]: ...

    def location(self, digest: str) -> str | None: ...


def ranked_by_words(
    store: Contents, artifacts: Sequence[StoredArtifact], query: str
) -> list[Selected]:
    """The artifacts with a word of the query, best first."""
    terms: dict[str, str] = {}  # the words to look for, each with its form in the query
    for word in query.split():
        parts = words(word)
        for part in parts:
            terms.setdefault(part, word.strip(_PUNCTUATION) if len(parts) == 1 else part)
    if not terms:
        return []
    ranking = _Ranking(terms)
    first_sampled = len(artifacts) - SAMPLED_MAX
    for at, stored in enumerate(artifacts):
        if not stored.cleaned_ms:
            artifact, origin = stored.artifact, stored.artifact.origin
            asked = (artifact.name, origin.description, origin.arguments, origin.tool)
            pieces = sample(store, artifact) if at >= first_sampled else ()
            given = " ".join(piece.decode("utf-8", "replace") for piece in pieces)
            asked_words = Tally(words(" ".join(dict.fromkeys(asked))))
            ranking.add(stored, _ArtifactTerms(asked_words, Tally(words(given))))
    return [
        Selected(
            artifact=match.artifact,
            score=score,
            matched=ranking.in_query(match.counts),
            why=match.why,
        )
        for score, match in ranking.scored()
    ]


class _ArtifactTerms(Struct, frozen=True):
    """The words of an artifact: of the tool's input and of its output."""

    asked: Tally[str]
    given: Tally[str]

    @property
    def size(self) -> int:
        return self.asked.total() + self.given.total()

    def count(self, term: str) -> float:
        exact = ASKED_WEIGHT * self.asked[term] + self.given[term]
        if exact:
            return exact
        for other in self.asked:
            short, long = sorted((term, other), key=len)
            if len(short) >= SIMILAR_CHARS and long.startswith(short):
                return SIMILAR_WEIGHT
        return 0.0


class _Match(Struct, frozen=True):
    """An artifact with words of the query: their counts, and the length of its text."""

    artifact: StoredArtifact
    counts: dict[str, float]
    size: int
    why: str


class _Ranking:
    """The artifacts with a word of the query. They are added one by one, and only the data needed
    for the ranking is held, of very many matches only the best."""

    def __init__(self, terms: dict[str, str]) -> None:
        self.terms = terms
        self._matches: list[_Match] = []
        self._holding = Tally[str]()  # the number of texts with each term
        self._texts = self._words = 0

    def add(self, artifact: StoredArtifact, text: _ArtifactTerms) -> None:
        self._texts += 1
        self._words += text.size
        counts = {term: count for term in self.terms if (count := text.count(term))}
        if not counts:
            return
        self._holding.update(counts.keys())
        self._matches.append(_Match(artifact, counts, text.size, self._why(counts, text)))
        if len(self._matches) >= 2 * MATCHES_MAX:
            self._matches = [match for _, match in self.scored()[:MATCHES_MAX]]

    def _why(self, counts: dict[str, float], text: _ArtifactTerms) -> str:
        """The words of the query, and where they were found."""
        asked = [term for term in counts if text.asked[term]]
        given = [term for term in counts if text.given[term]]
        similar = [term for term in counts if not (text.asked[term] or text.given[term])]
        reasons = []
        if asked:
            reasons.append(f"{', '.join(self.in_query(asked))} in what the tool was asked")
        if given:
            reasons.append(f"{', '.join(self.in_query(given))} in its output")
        if similar:
            reasons.append(f"something like {', '.join(self.in_query(similar))}")
        return "; ".join(reasons)

    def in_query(self, terms: Iterable[str]) -> tuple[str, ...]:
        """The terms in the query's own form, each once."""
        return tuple(dict.fromkeys(self.terms[term] for term in terms))

    def scored(self) -> list[tuple[float, _Match]]:
        """The matches with their scores, best first, the newer of two equals before the older."""
        # A word without any match counts like one with a single match: text without it is not a
        # full match.
        weights = {
            term: inverse_document_frequency(max(1, self._holding[term]), self._texts)
            for term in self.terms
        }
        mean = max(1.0, self._words / max(1, self._texts))
        norms = {at: BM25.norm(match.size, mean) for at, match in enumerate(self._matches)}
        scores: defaultdict[int, float] = defaultdict(float)
        for term, weight in weights.items():
            matches = enumerate(self._matches)
            counts = {at: match.counts[term] for at, match in matches if term in match.counts}
            add_term(scores, counts, norms, BM25.most(weight))
        best = BM25.most(sum(weights.values()))
        scored = [(round(scores[at] / best, 4), match) for at, match in enumerate(self._matches)]
        return sorted(scored, key=lambda pair: (-pair[0], -pair[1].artifact.seq))


def sample(store: Contents, artifact: Artifact) -> Iterator[bytes]:
    """The beginning of a content, and its end if that does not require reading everything."""
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
        # `refold verify` reports missing and damaged contents; the others are ranked all the same.
        return


class Bounds(Struct, frozen=True, kw_only=True):
    """The limits of a selection; None means no limit."""

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
    """The artifacts that match, best first, the newer of two equals before the older. If none
    does, the newest that fit, in their order. Cleaned-up artifacts are left out."""
    if (bounds.limit or 0) < 0 or (bounds.tokens_max or 0) < 0:
        raise Invalid(
            f"a bound is negative: {bounds}", hint="pass numbers that are not negative, or None"
        )
    ranked = ranked_by_words(store, artifacts, query)
    asked = None if embedder is None else chosen(embedder)
    if asked is not None and query.strip():
        ranked = _fused(store, artifacts, query, ranked, asked)
    if not ranked:
        if bounds.score_min > 0:
            return []
        why = "nothing matches the query; it is among the newest"
        newest = (Selected(artifact=stored, why=why) for stored in _kept_newest_first(artifacts))
        return _fitting(newest, bounds)[::-1]
    good = [one for one in ranked if one.score >= bounds.score_min]
    if judge is not None:
        good = _judged(good, query, judge)
    return _fitting(good, bounds)


def _kept_newest_first(artifacts: Sequence[StoredArtifact]) -> Iterator[StoredArtifact]:
    """The artifacts that still have their bytes."""
    return (one for one in reversed(artifacts) if not one.cleaned_ms)


def _fitting(ranked: Iterable[Selected], bounds: Bounds) -> list[Selected]:
    """The first artifacts that fit, skipping those that are too large."""
    fitting: list[Selected] = []
    used = 0
    for one in ranked:
        if bounds.limit is not None and len(fitting) >= bounds.limit:
            break
        tokens = one.artifact.tokens
        if bounds.tokens_max is None or used + tokens <= bounds.tokens_max:
            used += tokens
            fitting.append(one)
    return fitting


# --- a judge ---


def _judged(ranked: list[Selected], query: str, judge: Judge) -> list[Selected]:
    """The candidates that the judge names, in its order. A judge may invent some ids, but not all
    of them."""
    # If the same content was kept twice, the better match is the candidate.
    candidates = {one.artifact.id: one for one in reversed(ranked[:JUDGED_MAX])}
    try:
        ids = dict.fromkeys(judge(query, list(reversed(candidates.values()))))
        relevant = [candidates[id] for id in ids if id in candidates]
        if ids and not relevant:
            raise LookupError("it named none of the candidates")
    except Exception as error:  # noqa: BLE001 - a judge is the caller's code and may raise anything
        return _with_failure(ranked, "judge", error)
    return [replace(one, why=f"chosen by the judge; {one.why}") for one in relevant]


def _with_failure(ranked: list[Selected], who: str, error: Exception) -> list[Selected]:
    """The unchanged ranking, with the failure as a reason."""
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
    """The ranking by words and by nearness together. An artifact without a word of the query is
    included if it is near enough. Only the best by words and the newest of the others are
    compared."""
    ranked_seqs = {one.artifact.seq for one in ranked}
    others = (one for one in _kept_newest_first(artifacts) if one.seq not in ranked_seqs)
    newest = [Selected(artifact=stored) for stored in islice(others, EMBEDDED_MAX)]
    compared = [*ranked[:EMBEDDED_MAX], *newest]
    if not compared:
        return ranked
    texts: list[str] = []
    for one in compared:
        artifact = one.artifact.artifact
        content = b"\n".join(sample(store, artifact))[: 4 * EMBEDDED_CHARS]
        texts.append(f"{artifact.name}\n{content.decode('utf-8', 'replace')}"[:EMBEDDED_CHARS])
    try:
        near = _nearness(embedder, query, texts)
    except Exception as error:  # noqa: BLE001 - the caller's code may raise anything
        return _with_failure(ranked, "embedder", error)
    threshold = getattr(embedder, "threshold", None)
    if threshold is None:
        threshold = fmean(near) + NEAR_DEVIATIONS * pstdev(near)
    fused = [_with_nearness(one, 0.0) for one in ranked[EMBEDDED_MAX:]]
    for one, cosine in zip(compared, near):
        if one.matched or cosine >= float(threshold):
            fused.append(_with_nearness(one, cosine))
    return sorted(fused, key=lambda one: (-one.score, -one.artifact.seq))


def _nearness(embedder: Embedder, query: str, texts: list[str]) -> list[float]:
    """The cosine similarity of each text to the query."""
    import numpy

    vectors = numpy.asarray(embedder([query, *texts]), dtype=numpy.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts) + 1 or not numpy.isfinite(vectors).all():
        raise Invalid(
            f"it returned {vectors.shape} for {len(texts) + 1} texts",
            hint="one finite vector for each text",
        )
    units = vectors / numpy.maximum(numpy.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return [float(cosine) for cosine in units[1:] @ units[0]]


def _with_nearness(one: Selected, cosine: float) -> Selected:
    score = (one.score + VECTOR_WEIGHT * max(0.0, cosine)) / (1 + VECTOR_WEIGHT)
    reasons = [one.why] if one.why else []
    if cosine > 0:
        reasons.append(f"{round(100 * cosine)} % alike in meaning")
    return replace(one, score=round(score, 4), why="; ".join(reasons))
