"""Which outputs a query needs: ranked by the words they share with it, within bounds, each with the
reason.

Words come from what the tool was asked (its description and arguments) and from the beginning and
the end of what it gave; `login` finds `/src/auth/login.ts`, `file` finds `readFile`, and
`authentication` a little of `auth/`. The score is BM25 as a share of the best that a text could
have: 1 is every word, often. An embedder adds what says the same in other words, and a model may be
the judge; one that fails leaves the ranking as it is, and the reason says so. Neighbours: `outputs`
asks, `strategies.words` has the words.
"""

from __future__ import annotations

import os
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from statistics import fmean, pstdev

from msgspec import Struct
from msgspec.structs import replace

from refold import disk
from refold.artifacts.listing import Output
from refold.core.model import Artifact
from refold.errors import Corrupt, Invalid, NotFound
from refold.search.embedders import Embedder
from refold.search.rank import VECTOR_WEIGHT
from refold.stores.protocol import Store
from refold.strategies.terms import weight, words

HEAD_BYTES, TAIL_BYTES = 8_192, 4_096
SAMPLED_MAX = 1_000  # outputs, the newest: the others are known by what the tool was asked
MATCHES_MAX = 10_000  # that are held at a time; of more, the best by what is known until then
JUDGED_MAX = 50
ASKED_WEIGHT, SIMILAR_WEIGHT, SIMILAR_CHARS = 2.0, 0.4, 4
SATURATION, LENGTH_SHARE = 1.2, 0.5
EMBEDDED_MAX, EMBEDDED_CHARS = 200, 2_000
NEAR_DEVIATIONS = (
    0.9  # above the mean, for what has no word of the query; of two, the nearer one has 1
)


class Bounds(Struct, frozen=True, kw_only=True):
    """How much may be selected; None means any."""

    limit: int | None = 10
    score_min: float = 0.0
    tokens_max: int | None = None


class Selected(Struct, frozen=True, kw_only=True):
    """An output, its score from 0 to 1, the words of the query that it matches, and why it is
    here."""

    output: Output
    score: float = 0.0
    matched: tuple[str, ...] = ()
    why: str = ""


Judge = Callable[[str, Sequence[Selected]], Sequence[str]]
"""Given the query and the best candidates, the ids of those that are relevant, the most relevant first."""


def selected(
    store: Store,
    outputs: Sequence[Output],
    query: str,
    bounds: Bounds,
    judge: Judge | None = None,
    embedder: Embedder | None = None,
) -> list[Selected]:
    """The outputs that match, best first, the newer of two equals before the older. Where none
    does, the newest that fit, in their order. Those whose bytes were cleaned up are left out."""
    if (bounds.limit or 0) < 0 or (bounds.tokens_max or 0) < 0:
        raise Invalid(
            f"a bound is negative: {bounds}", hint="give numbers that are not negative, or None"
        )
    ranked = _ranked(store, outputs, query)
    if embedder is not None and query.strip():
        ranked = _fused(store, outputs, query, ranked, embedder)
    if not ranked:
        why = "nothing matches the query; it is among the newest"
        newest = (Selected(output=one, why=why) for one in reversed(outputs) if not one.cleaned_ms)
        return _fitting(newest, bounds)[::-1] if bounds.score_min <= 0 else []
    good = [one for one in ranked if one.score >= bounds.score_min]
    return _fitting(_judged(good, query, judge) if judge else good, bounds)


def _fitting(ranked: Iterable[Selected], bounds: Bounds) -> list[Selected]:
    """The first of them, leaving out those for which there is no room."""
    taken: list[Selected] = []
    room = bounds.tokens_max
    for one in ranked:
        if bounds.limit is not None and len(taken) >= bounds.limit:
            break
        if room is not None and one.output.tokens > room:
            continue
        room = None if room is None else room - one.output.tokens
        taken.append(one)
    return taken


# --- a judge ---


def _judged(ranked: list[Selected], query: str, judge: Judge) -> list[Selected]:
    """The candidates that the judge names, in its order."""
    candidates = {one.output.id: one for one in reversed(ranked[:JUDGED_MAX])}
    try:
        chosen = [
            candidates[id]
            for id in dict.fromkeys(judge(query, list(reversed(candidates.values()))))
        ]
    except Exception as error:  # noqa: BLE001 - a judge is the caller's code and may raise anything
        reason = f"; the judge failed: {type(error).__name__}: {error}"
        return [replace(one, why=one.why + reason) for one in ranked]
    return [replace(one, why=f"chosen by the judge; {one.why}") for one in chosen]


# --- an embedder ---


def _fused(
    store: Store, outputs: Sequence[Output], query: str, ranked: list[Selected], embedder: Embedder
) -> list[Selected]:
    """The ranking by words and by nearness together. What has no word of the query is taken in
    if it stands out. Only the best by words and the newest of the others are compared."""
    known = {one.output.seq: one for one in ranked}
    newest = (one for one in reversed(outputs) if not one.cleaned_ms and one.seq not in known)
    others = [Selected(output=one) for one in islice(newest, EMBEDDED_MAX)]
    compared = [*ranked[:EMBEDDED_MAX], *others]
    texts = [_words_of(store, one.output.artifact) for one in compared]
    try:
        near = _nearness(embedder, query, texts)
    except Exception as error:  # noqa: BLE001 - an embedder is the caller's code and may raise anything
        reason = f"; the embedder failed: {type(error).__name__}: {error}"
        return [replace(one, why=one.why + reason) for one in ranked]
    least = _least(near, embedder)
    joined = [
        _joined(one, cosine)
        for one, cosine in zip(compared, near)
        if one.matched or cosine >= least
    ]
    joined += [_joined(one, 0.0) for one in ranked[EMBEDDED_MAX:]]
    return sorted(joined, key=lambda one: (-one.score, -one.output.seq))


def _words_of(store: Store, artifact: Artifact) -> str:
    given = b"\n".join(_sample(store, artifact))[: 4 * EMBEDDED_CHARS].decode("utf-8", "replace")
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


def _least(near: list[float], embedder: Embedder) -> float:
    """How near something must be that has no word of the query."""
    known = getattr(embedder, "threshold", None)
    return (
        float(known)
        if known is not None
        else fmean(near or [0.0]) + NEAR_DEVIATIONS * pstdev(near or [0.0])
    )


def _joined(one: Selected, cosine: float) -> Selected:
    score = round((one.score + VECTOR_WEIGHT * max(0.0, cosine)) / (1 + VECTOR_WEIGHT), 4)
    near = f"{round(100 * cosine)} % alike in meaning" if cosine > 0 else ""
    return replace(one, score=score, why="; ".join(filter(None, (one.why, near))))


# --- the ranking ---


class _Text(Struct, frozen=True):
    """The words of an output: those of the question and those of the answer."""

    asked: Tally[str]
    given: Tally[str]

    @property
    def size(self) -> int:
        return self.asked.total() + self.given.total()


class _Match(Struct, frozen=True):
    """An output that has words of the query: which, how often, and how long its text is."""

    output: Output
    counts: dict[str, float]
    size: int
    why: str


def _ranked(store: Store, outputs: Sequence[Output], query: str) -> list[Selected]:
    """The outputs that have a word of the query, best first. They are gone through one by one:
    of those that do not match, and of very many that do, only what the ranking needs of them is
    kept."""
    terms = _terms(query)
    matches, holding, total, words_all = list[_Match](), Tally[str](), 0, 0
    first_sampled = len(outputs) - SAMPLED_MAX
    for at, one in enumerate(outputs if terms else ()):
        if one.cleaned_ms:
            continue
        text = _text(store, one.artifact, sampled=at >= first_sampled)
        total, words_all = total + 1, words_all + text.size
        counts = {term: count for term in terms if (count := _count(text, term))}
        if counts:
            holding.update(counts.keys())
            matches.append(_Match(one, counts, text.size, _why(counts, terms, text)))
            if len(matches) >= 2 * MATCHES_MAX:
                matches = _best(matches, _weights(terms, holding, total), words_all / total)[
                    :MATCHES_MAX
                ]
    weights = _weights(terms, holding, total)
    mean, best = max(1.0, words_all / max(1, total)), sum(weights.values()) * (SATURATION + 1)
    return [
        Selected(
            output=one.output,
            score=round(_score(one.counts, weights, one.size / mean) / best, 4),
            matched=_said(one.counts, terms),
            why=one.why,
        )
        for one in _best(matches, weights, mean)
    ]


def _weights(terms: Iterable[str], holding: Tally[str], total: int) -> dict[str, float]:
    # A word that stands nowhere says as much as one that stands once: a text without it is no full
    # match.
    return {term: weight(max(1, holding[term]), total) for term in terms}


def _best(matches: list[_Match], weights: dict[str, float], mean: float) -> list[_Match]:
    """Best first, the newer of two equals before the older."""
    best = sum(weights.values()) * (SATURATION + 1)
    scores = {
        id(one): round(_score(one.counts, weights, one.size / max(1.0, mean)) / best, 4)
        for one in matches
    }
    return sorted(matches, key=lambda one: (-scores[id(one)], -one.output.seq))


def _terms(query: str) -> dict[str, str]:
    """The words to look for, each with the form in which the query has it."""
    terms: dict[str, str] = {}
    for given in query.split():
        parts = words(given)
        for word in parts:
            terms.setdefault(word, given.strip(".,;:!?\"'()[]{}") if len(parts) == 1 else word)
    return terms


def _count(text: _Text, term: str) -> float:
    exact = ASKED_WEIGHT * text.asked[term] + text.given[term]
    return exact or (SIMILAR_WEIGHT if any(_similar(term, other) for other in text.asked) else 0.0)


def _similar(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= SIMILAR_CHARS and long.startswith(short)


def _score(counts: dict[str, float], weights: dict[str, float], length: float) -> float:
    norm = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length)
    return sum(
        weights[term] * count * (SATURATION + 1) / (count + norm) for term, count in counts.items()
    )


def _why(counts: dict[str, float], terms: dict[str, str], text: _Text) -> str:
    parts = []
    for where, tally in (("what the tool was asked", text.asked), ("what it gave", text.given)):
        if here := _said([term for term in counts if tally[term]], terms):
            parts.append(f"{', '.join(here)} in {where}")
    similar = _said([term for term in counts if not (text.asked[term] or text.given[term])], terms)
    return "; ".join([*parts, *([f"something like {', '.join(similar)}"] if similar else [])])


def _said(found: Iterable[str], terms: dict[str, str]) -> tuple[str, ...]:
    """The words as the query has them, each once."""
    return tuple(dict.fromkeys(terms[term] for term in found))


def _text(store: Store, artifact: Artifact, *, sampled: bool) -> _Text:
    origin = artifact.origin
    asked = " ".join({artifact.name: 0, origin.description: 0, origin.arguments: 0, origin.tool: 0})
    sample = (
        " ".join(part.decode("utf-8", "replace") for part in _sample(store, artifact))
        if sampled
        else ""
    )
    return _Text(Tally(words(asked)), Tally(words(sample)))


def _sample(store: Store, artifact: Artifact) -> Iterator[bytes]:
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
        # What is missing or damaged is for `refold verify` to report; the others are ranked all the
        # same.
        return
