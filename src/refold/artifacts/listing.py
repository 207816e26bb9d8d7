"""Every artifact of a conversation with where it came from, known from the log without reading a
content.

An artifact's event says what it is. The same event once more, written by the cleaner, says that its
bytes were cleaned up then; a later one by anybody else, that they are there again. Between two
questions only a few numbers are kept of each (`Shelf`), so that a million outputs take little
memory; what they are is read from the log page by page, by who goes through them (`Listing`).
Neighbours: `offload` keeps outputs, `outputs` shows them.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload
from zlib import crc32

from msgspec import Struct

from refold.core.codec import decode
from refold.core.model import Artifact, Event, Origin, is_cleanup
from refold.errors import NotFound
from refold.log.log import Log, near_runs

CHARS_PER_TOKEN = 4
PAGE_EVENTS = 500
HELD_MAX = 10_000  # outputs that a list may hold; a longer one reads them when they are looked at
SUGGESTED = 1_000  # outputs, the newest, among which the nearest to an unknown id is looked for
_QUERY_ID = re.compile(r"q_[0-9a-f]{16}")


class Output(Struct, frozen=True, kw_only=True):
    """One artifact as the log names it. `cleaned_ms` is when its bytes were cleaned up, 0 if
    they are there."""

    artifact: Artifact
    seq: int
    at_ms: int
    by: str
    cleaned_ms: int = 0

    @property
    def id(self) -> str:
        return self.artifact.id

    @property
    def tokens(self) -> int:
        """What the whole text would cost on a page, roughly; bytes that are no text have none to
        show."""
        return -(-self.artifact.size_chars // CHARS_PER_TOKEN)


def hash_query(text: str) -> str:
    """The id of a query: equal for texts that differ only in case, outer blanks or Unicode form
    (T-10)."""
    plain = unicodedata.normalize("NFC", text).strip().lower()
    return "q_" + hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def query_id(query: str) -> str:
    """The id of a query that is given as its text or as its id already."""
    return query if _QUERY_ID.fullmatch(query) else hash_query(query)


class Listing(Sequence[Output]):
    """Outputs in the order in which they were kept, read from the log when they are looked at."""

    def __init__(self, log: Log, seqs: Sequence[int], cleaned: Mapping[int, int]) -> None:
        self._log, self._seqs, self._cleaned = log, seqs, cleaned

    def __len__(self) -> int:
        return len(self._seqs)

    def __iter__(self) -> Iterator[Output]:
        return self._outputs(self._seqs)

    def __reversed__(self) -> Iterator[Output]:
        return self._outputs(self._seqs[::-1])

    @overload
    def __getitem__(self, at: int) -> Output: ...
    @overload
    def __getitem__(self, at: slice) -> Listing: ...
    def __getitem__(self, at: int | slice) -> Output | Listing:
        if isinstance(at, slice):
            return Listing(self._log, self._seqs[at], self._cleaned)
        seq = self._seqs[at]
        found = next(self._outputs([seq]), None)
        if found is None:
            raise NotFound(f"the output at #{seq} was erased", hint="list the outputs again")
        return found

    def __repr__(self) -> str:
        return f"<{len(self):,} outputs of {self._log.conversation!r}>"

    def held(self) -> Sequence[Output]:
        """The outputs themselves, if they are few: such a list stays what it is when the log
        goes on or is closed."""
        return [*self] if len(self) <= HELD_MAX else self

    def _outputs(self, seqs: Sequence[int]) -> Iterator[Output]:
        """These outputs, in this order, page by page; one that was erased meanwhile is left out."""
        for at in range(0, len(seqs), PAGE_EVENTS):
            page = seqs[at : at + PAGE_EVENTS]
            found = {event.seq: (event, body) for event, body in _artifacts(self._log, page)}
            for event, body in (found[seq] for seq in page if seq in found):
                cleaned = self._cleaned.get(_key(body.id), 0)
                yield Output(
                    artifact=body, seq=event.seq, at_ms=event.at_ms, by=event.by, cleaned_ms=cleaned
                )


class Shelf:
    """What is known of a conversation's outputs between two questions: 28 bytes of each.
    `refresh` reads the events that came since. Not locked: its owner sees to it that one thread
    at a time uses it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._clear()

    def _clear(self) -> None:
        self._seqs, self._keys = array("q"), array("Q")
        # Of the names by which outputs are grouped only a checksum: it says which are worth
        # reading.
        self._groups = {name: array("I") for name in ("task", "query", "tool")}
        self._cleaned: dict[int, int] = {}
        self._taken = self._last = 0

    def refresh(self) -> None:
        known = self._log.state.artifacts
        if self._taken and (len(known) < self._taken or known[self._taken - 1] != self._last):
            self._clear()  # an event was erased; the others have moved up
        for at in range(self._taken, len(known), PAGE_EVENTS):
            page = known[at : at + PAGE_EVENTS]
            for event, artifact in list(_artifacts(self._log, page)):
                self._take(event, artifact)
            self._taken, self._last = at + len(page), page[-1]

    def _take(self, event: Event, artifact: Artifact) -> None:
        key = _key(artifact.id)
        if is_cleanup(event):
            self._cleaned[key] = event.at_ms
            return
        self._cleaned.pop(key, None)
        self._seqs.append(event.seq)
        self._keys.append(key)
        for name, sums in self._groups.items():
            sums.append(_checksum(_group(artifact.origin, name)))

    def count(self) -> int:
        """How many outputs have their bytes still."""
        return len(self._keys) - (
            sum(key in self._cleaned for key in self._keys) if self._cleaned else 0
        )

    def listing(self) -> Listing:
        """All outputs."""
        return Listing(self._log, self._seqs[:], dict(self._cleaned))

    def grouped(self, **wanted: str) -> Listing:
        """The outputs of a task, a query (by its id), a tool."""
        rows: Iterable[int] = range(len(self._seqs))
        for name, value in wanted.items():
            sums, sought = self._groups[name], _checksum(value)
            rows = [row for row in rows if sums[row] == sought]
        likely = Listing(self._log, array("q", (self._seqs[row] for row in rows)), self._cleaned)
        sure = (
            one.seq
            for one in likely
            if all(_group(one.artifact.origin, n) == v for n, v in wanted.items())
        )
        return Listing(self._log, array("q", sure), dict(self._cleaned))

    def named(self, id: str) -> list[Artifact]:
        """The artifact of that id; of an unknown one the newest others, for who looks for the
        nearest."""
        try:
            row = self._keys.index(_key(id))
        except ValueError:
            return [one.artifact for one in self.listing()[-SUGGESTED:]]
        return [one.artifact for one in self.listing()[row : row + 1]]


def listed(log: Log) -> Listing:
    """All outputs of a log as it is now. Reads their events and nothing else."""
    shelf = Shelf(log)
    shelf.refresh()
    return shelf.listing()


def _artifacts(log: Log, seqs: Sequence[int]) -> Iterator[tuple[Event, Artifact]]:
    """The artifacts that the events at these seqs name."""
    wanted = set(seqs)
    for first, last in near_runs(seqs):
        for event in log.read(first - 1, last):
            body = decode(event) if event.seq in wanted else None
            if isinstance(body, Artifact):
                yield event, body


def _group(origin: Origin, name: str) -> str:
    """By what an output is grouped; a query by its id."""
    value: str = getattr(origin, name)
    return query_id(value) if name == "query" and value else value


def _checksum(text: str) -> int:
    return crc32(text.encode("utf-8", "surrogatepass"))


def _key(id: str) -> int:
    """A number that stands for an id: two of a million are the same once in 40 million
    conversations."""
    return int.from_bytes(
        hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    )
