"""The search index of an org in the database: terms with their offsets, as `tsvector`.

PostgreSQL's own parser is not used: terms come from `refold.search`, the same as in a local index,
so both find the same. A term begins with a mark of its org, so that an index lookup never walks
through the terms of another org. Limits of `tsvector`: offsets above 16,383 are clamped, 256 are
kept per term, and terms beyond a megabyte are left out. Neighbours: `statements`, `protocol.Terms`.
"""

from __future__ import annotations

import hashlib
from bisect import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from refold.stores import checks
from refold.stores.postgres import schema, statements
from refold.stores.postgres.connections import Connections, Link, Way
from refold.stores.postgres.log import Place
from refold.stores.protocol import (
    Phrases,
    Scope,
    TermEntry,
    TermLane,
    TermMark,
    TermPlace,
    TermQuery,
)

PLACE_MAX, PLACES_MAX, TERM_CHARS_MAX, VECTOR_BYTES_MAX = 16_383, 255, 200, 900_000
MANY, ANALYZED_SHARE = 200, 0.1
# Results of `ts_rank` by number of occurrences, each lowered halfway to the one before: floats of
# the server have seven digits.
_SUMS = list(accumulate(0.1 / 1.64493406685 / number**2 for number in range(1, 257)))
_RANKS = [(before + rank) / 2 for before, rank in zip([0.0, *_SUMS], _SUMS)]
_FORGET = (
    statements.FORGET_ENTRIES,
    statements.FORGET_AUTHORS,
    statements.FORGET_LANES,
    statements.FORGET_MARK,
)


def forget(link: Link, place: Place) -> None:
    """Removes a conversation from the index, inside the caller's transaction."""
    for statement in _FORGET:
        link.ask(statement, place.named())


def erase(link: Link, place: Place, seqs: Sequence[int]) -> None:
    """Removes the entries of these events."""
    link.ask(statements.ERASE_ENTRIES, place.named(seqs=list(seqs)))


class PostgresTerms:
    """The index of one org; satisfies `protocol.Terms`."""

    def __init__(self, connections: Connections, org: str) -> None:
        self._connections, self._org = connections, org
        self._mark = hashlib.sha256(org.encode()).hexdigest()[:6]

    # --- indexed heads ---

    def marks(self, conversations: Sequence[str] | None = None) -> dict[str, TermMark]:
        ids = None if conversations is None else list(conversations)
        rows = self._rows(statements.MARKS, conversations=ids)
        return {
            id: TermMark(head=head, chain=chain, parent=parent, parent_seq=seq)
            for id, head, chain, parent, seq in rows
        }

    def enter(self, conversation: str, mark: TermMark) -> None:
        values = Place(self._org, conversation).named(
            head=mark.head, chain=mark.chain, parent=mark.parent, parent_seq=mark.parent_seq
        )
        self._connections.run(lambda link: link.ask(statements.ENTER_MARK, values))

    def lanes(self, conversation: str) -> dict[int, TermLane]:
        rows = self._rows(statements.LANES, conversation=conversation)
        return {
            lane: TermLane(entries=entries, context_words=words, last_words=tuple(last))
            for lane, entries, words, last in rows
        }

    # --- adding and removing ---

    def add(
        self,
        conversation: str,
        entries: Sequence[TermEntry],
        lanes: Mapping[int, TermLane],
        *,
        after: int,
        head: int,
        chain: bytes,
    ) -> bool:
        place = Place(self._org, conversation)
        moved = place.named(after=after, head=head, chain=chain)

        def add(link: Link) -> bool:
            if not link.ask(statements.MOVE_MARK, moved).rowcount:
                return False
            for lane, grown in lanes.items():
                link.ask(statements.SET_LANE, place.named(**_lane_values(lane, grown)))
            for author, count in Counter(one.author for one in entries if one.author).items():
                values = place.named(author=author.encode(), entries=count)
                link.ask(statements.COUNT_AUTHOR, values)
            if entries:
                link.ask(statements.ADD_ENTRIES, place.named(**self._columns(entries)))
            return True

        is_added = self._connections.run(add)
        if is_added and len(entries) >= MANY:
            self._connections.run(lambda link: link.execute(schema.CLEAN), way=Way.ALONE)
            if len(entries) >= ANALYZED_SHARE * self.size(None)[0]:
                self._connections.run(lambda link: link.execute(schema.ANALYZE), way=Way.ALONE)
        return is_added

    def _columns(self, entries: Sequence[TermEntry]) -> dict[str, list[Any]]:
        """Entries as the array parameters of a statement."""
        names = ("lane", "position", "seq", "at_ms", "words", "start", "asks", "is_own")
        columns = {name: [getattr(one, name) for one in entries] for name in names}
        for name in ("role", "tools", "author"):
            columns[name] = [getattr(one, name).encode() for one in entries]
        columns["terms"] = [self._vector(one.terms) for one in entries]
        return columns

    def forget(self, conversations: Sequence[str]) -> None:
        def forget_all(link: Link) -> None:
            for id in conversations:
                forget(link, Place(self._org, id))

        self._connections.run(forget_all)

    def erase(self, conversation: str, seqs: Sequence[int]) -> None:
        place = Place(self._org, conversation)
        self._connections.run(lambda link: erase(link, place, seqs))

    # --- querying ---

    def size(self, scope: Scope) -> tuple[int, float]:
        rows = self._rows(statements.SIZE, conversations=None if scope is None else list(scope))
        return (rows[0][0], rows[0][1]) if rows else (0, 0.0)

    def authors(self, scope: Scope) -> dict[str, int]:
        ids = None if scope is None else list(scope)
        rows = self._rows(statements.AUTHORS, conversations=ids)
        return {author.decode(): entries for author, entries in rows}

    def postings(self, sought: TermQuery, scope: Scope, most: int) -> list[tuple[TermPlace, int]]:
        rows = self._rows(
            statements.POSTINGS,
            sought=" & ".join(f"({self._query(one)})" for one in sought.all_of),
            counted=[_quoted(self._lexeme(term)) for one in sought.all_of for term in _single(one)],
            lanes=list(sought.lanes),
            role=_bytes(sought.role),
            tool=_bytes(sought.tool),
            since_ms=sought.since_ms,
            until_ms=sought.until_ms,
            without_own=sought.without_own,
            conversations=None if scope is None else list(scope),
            lasts=None if scope is None else [checks.bounded(last) for last in scope.values()],
            most=most,
        )
        return [
            ((conversation, lane, place), sum(map(occurrences, ranks)) or 1)
            for conversation, lane, place, ranks in rows
        ]

    def entries(self, places: Sequence[TermPlace]) -> list[TermEntry]:
        rows = self._rows(
            statements.ENTRIES,
            conversations=[place[0] for place in places],
            lane=[place[1] for place in places],
            places=[place[2] for place in places],
        )
        return [_entry(row) for row in rows]

    def _rows(self, statement: str, **values: Any) -> list[Any]:
        values["org"] = self._org
        rows: list[Any] = self._connections.read(
            lambda link: link.ask(statement, values).fetchall(), list
        )
        return rows

    # --- terms ---

    def _lexeme(self, term: str) -> str:
        """The stored form of a term: ASCII, whatever the encoding of the database."""
        shown = term if term.isascii() else f"x{term.encode().hex()}"
        if len(shown) > TERM_CHARS_MAX:
            shown = f"{shown[:TERM_CHARS_MAX]}{hashlib.sha256(shown.encode()).hexdigest()}"
        return f"{self._mark}{shown}"

    def _vector(self, terms: Mapping[str, Sequence[int]]) -> str:
        """The text form of a tsvector."""
        parts: list[str] = []
        size = 0
        for term, places in terms.items():
            lexeme = self._lexeme(term)
            size += len(lexeme) + 2 * min(len(places), PLACES_MAX) + 8
            if size <= VECTOR_BYTES_MAX:
                kept = sorted({min(place, PLACE_MAX) for place in places})[:PLACES_MAX]
                parts.append(f"{_quoted(lexeme)}:{','.join(map(str, kept))}")
        return " ".join(parts)

    def _query(self, sought: Phrases) -> str:
        """The text form of a tsquery."""
        phrases = [[_quoted(self._lexeme(term)) for term in one] for one in sought.phrases]
        if sought.is_prefix:
            phrases = [[*terms[:-1], f"{terms[-1]}:*"] for terms in phrases]
        return " | ".join(f"({' <-> '.join(terms)})" for terms in phrases)


def occurrences(rank: float) -> int:
    """Number of occurrences of a term from its `ts_rank`, a sum of that many inverse squares."""
    return bisect(_RANKS, rank)


def _single(sought: Phrases) -> list[str]:
    """The terms whose occurrences are counted: single and complete ones."""
    return [] if sought.is_prefix else [one[0] for one in sought.phrases if len(one) == 1]


def _quoted(lexeme: str) -> str:
    doubled = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _lane_values(lane: int, grown: TermLane) -> dict[str, Any]:
    return {"lane": lane, "entries": grown.entries, "context_words": grown.context_words}


def _entry(row: Any) -> TermEntry:
    conversation, lane, position, seq, at_ms, words, role, tools, author, start, asks, own = row
    return TermEntry(
        conversation=conversation,
        lane=lane,
        position=position,
        seq=seq,
        at_ms=at_ms,
        words=words,
        role=role.decode(),
        tools=tools.decode(),
        author=author.decode(),
        start=start,
        asks=asks,
        is_own=own,
    )
