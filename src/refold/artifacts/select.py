"""Which artifacts a query needs: the best by their words, within bounds, each with the reason.

An embedder adds what says the same in other words, and a model may be the judge; one that fails
leaves the ranking as it is, and the reason says so. Neighbours: `artifacts` asks, `word_ranking`
has the words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from statistics import fmean, pstdev

from msgspec import Struct
from msgspec.structs import replace

from refold.artifacts.listing import StoredArtifact
from refold.artifacts.word_ranking import Contents, Selected, ranked_by_words, sample
from refold.core.model import Artifact
from refold.display import failure
from refold.errors import Invalid
from refold.search.embedders import Embedder, chosen
from refold.search.rank import VECTOR_WEIGHT

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
