"""Events of a memory's log that answer a query: the ranking of `search`, over an index of its own.

The index is a disposable file beside the store (`memory.db`), derived from the logs; it also counts
how often an entry was used. A hit shares words with the query, or has a vector near the query's.
`Fitness` judges an answer by its form: a `when` asks for a time, a question about `me` for a
sentence of the speaker's; this raises the rank a little, for English only. `measured` finds the
lowest meaningful cosine: 3.3 deviations above the noise, so that 19 of 20 questions without an
answer find nothing among some hundred facts. Neighbours: `search` ranks, `recall` turns hits into
the hits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import sqrt
from statistics import fmean, pstdev

from msgspec import Struct
from msgspec.structs import replace

from refold.memory.claim import DAYS_AND_MONTHS, NUMBER_WORDS
from refold.memory.synonyms import SYNONYM_WEIGHT, Synonyms, reworded
from refold.memory.vector_stores import ExternalVectors, external_store
from refold.patterns import regex
from refold.search import database, index_query, rank, words
from refold.search.embedders import Embedder, Transformer, Vector, chosen, is_additive, name_of
from refold.search.index import Index, Range, carried, range_of
from refold.search.rank import inverse_document_frequency
from refold.search.snippets import Filters
from refold.search.upkeep import FAILURES, Progress, Tell, Upkeep, VectorUpkeep, retried
from refold.search.vectors import guarded, numbers
from refold.search.words import Query, Term
from refold.stores.protocol import Store

INDEX = "memory.db"
WAIT_S = 5.0
WORDS_WHOLE = 12  # a longer query is not expected to share all its words with an answer
EVENTS_MAX = 1_000_000  # events to index at once
UNKNOWN_THRESHOLD = 0.7  # if the embedder fails, and its vectors are not used either
FILTERS = Filters(kinds=("message",))


class Found(Struct, frozen=True):
    """An event that answers a query: its rank among all, its strength from 0 to 1, its cosine if it
    has a vector, and its words of the query."""

    seq: int
    rank: float
    strength: float
    cosine: float | None
    words: tuple[str, ...]


class IndexQuery(Struct, frozen=True, kw_only=True):
    """A query to the index, with the least strength of a hit if given, and the number of hits to
    look at closely."""

    query: str
    threshold: float | None = None
    most: int = 300


class Finder:
    """Searches the memories of one store. `tell(name, reason)` receives notices for the user."""

    def __init__(
        self,
        store: Store,
        *,
        embedder: Embedder | str | bool | None = None,
        tell: Tell,
        vectors: str = "",
    ) -> None:
        self._embedder = chosen(embedder)
        path = store.derived_path(INDEX) or database.MEMORY
        self._upkeep = Upkeep(store, path, tell=tell, standalone=True)
        self._external = external_store(vectors, store, self._embedder)
        kind = partial(ExternalVectors, external=self._external) if self._external else None
        self._vectors = VectorUpkeep(store, self._embedder, tell=tell, kind=kind)
        self._synonyms: Synonyms | None = None

    @retried
    def found(self, log: str, asked: IndexQuery) -> Iterable[Found]:
        """The events of a log that answer, the best first, evaluated lazily."""
        with self._upkeep.index() as index:
            self._upkeep.freshen(index, [log], EVENTS_MAX)
            mark = index.mark(log)
            query = words.query_of(reworded(asked.query), index.stems)
            if self._synonyms is None:
                self._synonyms = Synonyms(index.stems)
            query = self._synonyms.weighed(query)
            if mark is None or not query.all_terms:
                return ()
            return self._ranked(
                index, query, self._synonyms.of(query), (range_of(mark.number),), asked
            )

    def _ranked(
        self,
        index: Index,
        query: Query,
        alike: Mapping[str, Term],
        ranges: Sequence[Range],
        asked: IndexQuery,
    ) -> Iterable[Found]:
        wider = replace(query, terms=(*query.terms, *alike.values()))
        with database.limited(index.connection, WAIT_S):
            matches = index_query.matches(index, wider, ranges, FILTERS)
            scored = index_query.scored(index, wider, matches, ranges, FILTERS)
        least = self._threshold(index) if asked.threshold is None else asked.threshold
        # An embedder of sentences gets the whole query; only an embedder of words weighs them.
        weighs = isinstance(self._embedder, Transformer) or is_additive(self._embedder)
        weighed = matches if weighs else ()
        compared = self._vectors.compared(index, query, weighed, scored, ranges, least=least)
        with database.limited(index.connection, WAIT_S):
            allowed = index_query.allowed(index, compared.scores, query.required, ranges, FILTERS)
            total, _ = index.size(ranges)
            best = rank.best({id: compared.scores[id] for id in allowed}, asked.most)
            seqs = dict(index.rows(_SEQS, (carried(id for id, _ in best),)))
        weights = _weights(query, alike, matches, total)
        candidates = (
            _matches(seqs[id], score, compared.cosines.get(id), id, weights, least)
            for id, score in best
            if id in seqs
        )
        threshold = asked.threshold
        if threshold is None:
            return (one for one in candidates if one.strength > 0)
        return (one for one in candidates if one.strength >= threshold)

    def _threshold(self, index: Index) -> float:
        """The lowest meaningful cosine: the embedder's own, or as measured at its first use."""
        if self._embedder is None or not self._vectors.is_ready():
            return UNKNOWN_THRESHOLD
        own = getattr(self._embedder, "threshold", None)
        if own is not None:
            return float(own)
        fact = f"threshold {name_of(self._embedder)}"
        known = index.rows(_FACT, (fact,))
        if known:
            return float(known[0][0])
        try:
            with guarded():
                threshold = measured(self._embedder)
        except FAILURES as error:
            self._vectors.pause(error)
            return UNKNOWN_THRESHOLD
        if index.is_writable:
            index.connection.execute(_SET_FACT, (fact, str(threshold)))
        return threshold

    @retried
    def means(self, log: str, seqs: Sequence[int]) -> dict[int, Vector]:
        """One vector of length one for each of these events; none without an embedder."""
        if self._embedder is None:
            return {}
        with self._upkeep.index() as index:
            ids = index.messages_of(log, seqs)
            vectors = self._vectors.means(index, list(ids.values()))
        return {seq: vectors[id] for seq, id in ids.items() if id in vectors}

    @property
    def adds_words(self) -> bool:
        """Whether the vector of a text is only the mean of its words' vectors."""
        return is_additive(self._embedder)

    def least_near(self) -> float:
        """The lowest meaningful cosine."""
        with self._upkeep.index() as index:
            return self._threshold(index)

    # --- bookmarks of the fold ---

    @retried
    def bookmark(self, log: str) -> bytes | None:
        """The bookmark of a log, if the index has one."""
        with self._upkeep.index() as index:
            rows = index.rows(_BOOKMARK, (log,))
        return bytes(rows[0][0]) if rows else None

    @retried
    def keep_bookmark(self, log: str, kept: bytes) -> None:
        """Stores a bookmark, if the index can be written."""
        with self._upkeep.index() as index, self._upkeep.told_if_unavailable():
            if index.is_writable:
                index.connection.execute(_KEEP_BOOKMARK, (log, kept))

    # --- notes and use ---

    @retried
    def note(self, name: str) -> int:
        """A number noted in the index; 0 if there is none."""
        with self._upkeep.index() as index:
            rows = index.rows(_FACT, (name,))
        return int(rows[0][0]) if rows else 0

    @retried
    def keep_note(self, name: str, value: int) -> None:
        """Notes a number, if the index can be written."""
        with self._upkeep.index() as index:
            if index.is_writable:
                index.connection.execute(_SET_FACT, (name, str(value)))

    @retried
    def uses(self, entries: Sequence[str]) -> dict[str, int]:
        """The number of times each of these entries was used as an answer."""
        names = [f"used {id}" for id in entries]
        marks = ",".join("?" * len(names))
        with self._upkeep.index() as index:
            query = f"SELECT name, value FROM facts WHERE name IN ({marks})"
            rows = index.rows(query, tuple(names))
        return {name.removeprefix("used "): int(value) for name, value in rows}

    @retried
    def count_use(self, entries: Iterable[str]) -> None:
        """Counts a use of these entries, if the index can be written."""
        with self._upkeep.index() as index:
            if index.is_writable:
                index.connection.executemany(_USED, [(f"used {id}",) for id in entries])

    # --- erasing and rebuilding ---

    @retried
    def erase(self, log: str, seqs: Sequence[int], entries: Sequence[str]) -> None:
        """Removes these events from the index, if there is one."""
        if not self._upkeep.has_file():
            self._upkeep.close()
            return
        with self._upkeep.index() as index:
            index.connection.execute("DELETE FROM bookmarks WHERE log = ?", (log,))
            self._vectors.remove(index, index.ids_of(log, seqs))
            index.erase(log, seqs)
            names = [(f"used {id}",) for id in entries]
            index.connection.executemany("DELETE FROM facts WHERE name = ?", names)

    @retried
    def rebuild(self, logs: Sequence[str], progress: Progress | None) -> None:
        """Discards the index and builds it again, with all vectors."""
        with self._upkeep.index(rebuild=True) as index:
            self._upkeep.freshen(index, logs, EVENTS_MAX)
            self._vectors.complete(index, progress or (lambda done, total: None), 0)

    def close(self) -> None:
        self._upkeep.close()
        if self._external is not None:
            self._external.close()


_KEEP_BOOKMARK = "INSERT OR REPLACE INTO bookmarks VALUES (?, ?)"
_BOOKMARK = "SELECT kept FROM bookmarks WHERE log = ?"
_FACT = "SELECT value FROM facts WHERE name = ?"
_SET_FACT = "INSERT OR REPLACE INTO facts VALUES (?, ?)"
_SEQS = "SELECT id, seq FROM entries WHERE id IN carray(?)"
_USED = """
INSERT INTO facts VALUES (?, '1')
ON CONFLICT(name) DO UPDATE SET value = CAST(value AS INTEGER) + 1
"""


class _Weight(Struct, frozen=True):
    """One word of the query: the entries with it, the entries with a synonym, and its share of the
    whole."""

    word: str
    holders: Mapping[int, int]
    alike: Mapping[int, int]
    share: float

    def held_by(self, id: int) -> float:
        if id in self.holders:
            return self.share
        return self.share * SYNONYM_WEIGHT if id in self.alike else 0.0

    def shown_for(self, id: int) -> str:
        return self.word if id in self.holders else f"like {self.word}"


def _weights(
    query: Query, alike: Mapping[str, Term], matches: Sequence[rank.Matches], total: int
) -> list[_Weight]:
    """The single words of a query by rarity: a word in every entry counts half as much as a word in
    only one."""
    rarest = inverse_document_frequency(1, total) or 1.0
    own, others = matches[: len(query.terms)], matches[len(query.terms) :]
    found = {text: one.occurrences for text, one in zip(alike, others)}
    singles = [pair for pair in zip(query.terms, own) if " " not in pair[0].text]
    shares = [
        term.weight
        * (0.5 + 0.5 * min(1.0, inverse_document_frequency(one.entries, total) / rarest))
        for term, one in singles
    ]
    weight = sum(term.weight for term, _ in singles)
    return [
        _Weight(term.text, one.occurrences, found.get(term.text, {}), share / weight)
        for (term, one), share in zip(singles, shares)
    ]


def _matches(
    seq: int, score: float, cosine: float | None, id: int, weights: Sequence[_Weight], least: float
) -> Found:
    held = [one for one in weights if one.held_by(id)]
    near = cosine if cosine is not None and cosine >= least else 0.0
    # Every entry shares only a small part of a long request, so beyond some words its length counts
    # less.
    held_share = sum(one.held_by(id) for one in held) * sqrt(max(1.0, len(weights) / WORDS_WHOLE))
    strength = min(1.0, max(held_share, near))
    return Found(seq, score, strength, cosine, tuple(one.shown_for(id) for one in held))


KIND_BONUS, OWN_BONUS = 0.15, 0.1
_TIMES = (
    r"\d{1,2}:\d\d|(?:19|20)\d\d|noon|midnight|weekends?|every (?:day|week|month|year)|daily|weekly"
    r"|monthly|yearly|spring|summer|autumn|winter|mornings?|evenings?|afternoons?|nights?"
)
# Kinds of questions, and the form of their answers. The first match counts.
_KINDS = (
    (
        re.compile(r"\bwho(?:m|se)?\b", re.IGNORECASE),
        # A name: a capital inside the sentence, or two words with one at its beginning.
        re.compile(r"(?<=[\w,;] )(?!I\b)[A-ZÀ-Þ]\w*|^[A-ZÀ-Þ]\w+ [A-ZÀ-Þ]\w+|\b(?:Mr|Mrs|Ms|Dr)\b"),
    ),
    (
        re.compile(
            r"\b(?:when|what time"
            r"|(?:which|what) (?:weekday|day|evening|morning|month|year|date))\b",
            re.IGNORECASE,
        ),
        re.compile(rf"\b(?:(?:{'|'.join(DAYS_AND_MONTHS)})s?|{_TIMES})\b", re.IGNORECASE),
    ),
    (
        re.compile(r"\bwhy\b", re.IGNORECASE),
        re.compile(r"\b(?:because|since|so that|due to|reason)\b", re.IGNORECASE),
    ),
    (
        re.compile(
            r"\bhow (?:much|many|long|tall|heavy|old|deep|big|high|far|fast|often|expensive)\b"
            r"|\b(?:number|port|size|version|temperature|cost|price|pay)\b",
            re.IGNORECASE,
        ),
        re.compile(rf"\d|\b(?:{'|'.join(NUMBER_WORDS)})\b", re.IGNORECASE),
    ),
)
_ASKS = regex(
    r"^\s*(?:who|what|when|where|why|which|how|do|does|did|is|are|was|were|am|can|could|should|will"
    r"|would|have|has|had|may|must)(?:m|se|['’]s)?\b|\?\s*$",
    re.IGNORECASE,
)
_MINE = regex(r"\b(?:i|my|me|mine)\b", re.IGNORECASE)
_OURS = regex(r"\b(?:we|our|us|ours)\b", re.IGNORECASE)


class Fitness:
    """The form of the answer to a question."""

    def __init__(self, question: str) -> None:
        held = (held for asked, held in _KINDS if asked.search(question))
        self._held = next(held, None)
        self.is_question = bool(_ASKS.search(question))
        self._is_mine = bool(_MINE.search(question))
        self._is_ours = bool(_OURS.search(question))

    def is_kind(self, content: str) -> bool:
        """Whether a sentence has the kind of value that the question asks for, if known."""
        return bool(self._held and self._held.search(content))

    def of(self, content: str) -> float:
        """The factor for the rank of a sentence."""
        is_mine, is_ours = bool(_MINE.search(content)), bool(_OURS.search(content))
        # About the speaker, as the question is; "we" includes "me".
        is_own = is_mine if self._is_mine else self._is_ours and (is_ours or is_mine)
        return 1.0 + KIND_BONUS * self.is_kind(content) + OWN_BONUS * is_own


NOISE_DEVIATIONS = 3.3
LEAST, MOST = 0.05, 0.95
# The threshold for an embedder with one vector, or none, for all of these sentences: it was made
# for other text, and nothing can be measured.
USUAL, TOLD_APART = 0.7, 1e-6
PAIRS = (
    ("My manager is Helena Prata", "Who is my boss?"),
    ("We keep two ginger kittens", "Which pets do we have?"),
    ("The staging database listens on port 6432", "How do I connect to postgres?"),
    ("Walnuts give me a rash", "What must I not eat?"),
    ("The rent went up to 1,080 euros", "How expensive is our flat?"),
    ("Deployments are frozen over Christmas", "When may we not release?"),
    ("Tomas plays the cello on Thursdays", "Which instrument does he practise?"),
    ("Ana moved to Porto in September", "In which city does she live?"),
    ("Logs are kept for ninety days", "How long is the retention?"),
    ("The passport runs out in November", "When do I need new travel papers?"),
    ("Pull requests need two reviewers", "How many people must approve a change?"),
    ("I take the tram at seven", "How do I get to work?"),
    ("Grandma turns eighty in May", "When is her birthday?"),
    ("The garden gate sticks when it rains", "What needs to be repaired outside?"),
    ("Our mascot is a purple octopus", "What is the symbol of the team?"),
    ("He earned a degree in chemistry", "What did he study?"),
    ("Backups run every night at three", "When is the data copied?"),
    ("The spare key lies under the fern", "How can a guest get in?"),
    ("Tests are written before the code", "Which order do we work in?"),
    ("She swims a mile each morning", "What sport does she do?"),
)


def measured(embedder: Embedder) -> float:
    """The lowest meaningful cosine for an embedder. Each question in `PAIRS` asks for its own fact;
    its cosines with all other facts are the noise."""
    arithmetic = numbers()
    texts = [fact for fact, _ in PAIRS] + [question for _, question in PAIRS]
    rows = [
        arithmetic.unit_sum([row], [1.0]) for row in arithmetic.rows(embedder(texts), len(texts))
    ]
    facts, questions = rows[: len(PAIRS)], rows[len(PAIRS) :]
    noise = [
        sum(map(float.__mul__, map(float, one), map(float, other)))
        for at, one in enumerate(questions)
        for where, other in enumerate(facts)
        if at != where and one is not None and other is not None
    ]
    if not noise or max(noise) - min(noise) < TOLD_APART:
        return USUAL
    return min(MOST, max(LEAST, fmean(noise) + NOISE_DEVIATIONS * pstdev(noise)))
