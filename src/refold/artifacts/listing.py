"""Every artifact of a conversation with where it came from, known from the log without reading a
content.

An artifact's event says what it is. The same event once more, written by the cleaner, says that its
bytes were removed then; a later one by anybody else, that they are there again. Between two
questions only a few numbers of each artifact are held (`ArtifactIndex`); what it is is read from
the log, page by page, when somebody looks at it (`Listing`). Neighbours: `offload` keeps artifacts,
`reader` and `artifacts` show them.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload
from zlib import crc32

import msgspec
from msgspec import Struct

from refold import decoding
from refold.artifacts.intake import count_lines, type_of_output
from refold.core.codec import decode
from refold.core.model import ORIGIN, Artifact, Event, Message, Origin, is_cleanup
from refold.errors import NotFound
from refold.log.log import Log, near_runs
from refold.log.unfold import body_text

CHARS_PER_TOKEN = 4
PAGE_EVENTS = 500
HELD_MAX = 10_000  # artifacts that a list may hold; a longer one reads them when they are looked at
SUGGESTED = 1_000  # artifacts, the newest, in which the nearest to an unknown id is looked for
_QUERY_ID = re.compile(r"q_[0-9a-f]{16}")


class StoredArtifact(Struct, frozen=True, kw_only=True):
    """One artifact as the log names it. `cleaned_ms` is when its bytes were removed, 0 if they are
    there."""

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
        """What the whole text would cost on a page, roughly; bytes that are not text have none to
        show."""
        return -(-self.artifact.size_chars // CHARS_PER_TOKEN)


def is_in_log(artifact: Artifact) -> bool:
    """Whether an output stands in the log itself, in a message: it was small, and has a task or a
    query. Its handle is that of the message."""
    return artifact.digest.startswith("#")


def _output_in(event: Event, message: Message) -> Artifact | None:
    """A result that stands in the log, as an artifact without bytes of its own; None if its origin
    was written by somebody else."""
    try:
        origin = decoding.convert(message.metadata[ORIGIN], Origin)
    except msgspec.ValidationError:
        return None
    text = body_text(message)
    handle = f"#{event.seq}"
    return Artifact(
        id=handle,
        digest=handle,
        type=type_of_output(origin),
        name=origin.description or "output",
        mime=message.metadata.get("mime") or "text/plain",
        size_bytes=len(text.encode("utf-8", "surrogatepass")),
        size_chars=len(text),
        lines=count_lines(text),
        origin=origin,
    )


def hash_query(text: str) -> str:
    """The id of a query: equal for texts that differ only in case, outer blanks or Unicode form."""
    plain = unicodedata.normalize("NFC", text).strip().lower()
    return "q_" + hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def query_id(query: str) -> str:
    """The id of a query that is given as its text or as its id already."""
    return query if _QUERY_ID.fullmatch(query) else hash_query(query)


class Listing(Sequence[StoredArtifact]):
    """Artifacts in the order in which they were kept, read from the log when they are looked
    at."""

    def __init__(self, log: Log, seqs: Sequence[int], cleaned: Mapping[int, int]) -> None:
        self._log, self._seqs, self._cleaned = log, seqs, cleaned

    def __len__(self) -> int:
        return len(self._seqs)

    def __iter__(self) -> Iterator[StoredArtifact]:
        return self._read(self._seqs)

    def __reversed__(self) -> Iterator[StoredArtifact]:
        return self._read(self._seqs[::-1])

    @overload
    def __getitem__(self, at: int) -> StoredArtifact: ...
    @overload
    def __getitem__(self, at: slice) -> Listing: ...
    def __getitem__(self, at: int | slice) -> StoredArtifact | Listing:
        if isinstance(at, slice):
            return Listing(self._log, self._seqs[at], self._cleaned)
        seq = self._seqs[at]
        for found in self._read([seq]):
            return found
        raise NotFound(f"the artifact at #{seq} was erased", hint="list the artifacts again")

    def __repr__(self) -> str:
        return f"<{len(self):,} artifacts of {self._log.conversation!r}>"

    def held(self) -> Sequence[StoredArtifact]:
        """The artifacts themselves, if they are few: such a list stays what it is when the log
        goes on or is closed."""
        return [*self] if len(self) <= HELD_MAX else self

    def _read(self, seqs: Sequence[int]) -> Iterator[StoredArtifact]:
        """These artifacts, in this order, page by page; one that was erased meanwhile is left
        out."""
        for at in range(0, len(seqs), PAGE_EVENTS):
            yield from self._page(seqs[at : at + PAGE_EVENTS])

    def _page(self, seqs: Sequence[int]) -> Iterator[StoredArtifact]:
        named = _artifacts_at(self._log, seqs)
        found = {event.seq: self._stored(event, artifact) for event, artifact in named}
        return (found[seq] for seq in seqs if seq in found)

    def _stored(self, event: Event, artifact: Artifact) -> StoredArtifact:
        return StoredArtifact(
            artifact=artifact,
            seq=event.seq,
            at_ms=event.at_ms,
            by=event.by,
            cleaned_ms=self._cleaned.get(_key(artifact.id), 0),
        )


class ArtifactIndex:
    """What is known of a conversation's artifacts between two questions.

    A long-running agent may keep a million artifacts in one conversation. As objects they would
    take a gigabyte, and reading all their events for each question takes seconds. So each is six
    numbers in packed arrays, 25 bytes: the seq of its event, a hash of its id, whether the store
    has it, and checksums of its task, query and tool. These find every candidate; what a candidate
    really is, its event says. `refresh` reads the events that came since. Not locked: its owner
    sees to it that one thread at a time uses it.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._clear()

    def _clear(self) -> None:
        self._seqs = array("I")  # a log with four billion events is not one
        self._keys = array("Q")
        self._kept = array("b")  # whether it has bytes in the store
        self._checksums = {name: array("I") for name in ("task", "query", "tool")}
        self._cleaned: dict[int, int] = {}  # keys, and when the bytes were removed
        self._events_read = self._last_seq = 0
        self._counted = 0, 0  # after how many events, and how many there were then

    def refresh(self) -> None:
        """Reads the events of the artifacts that were kept or cleaned up since the last time."""
        known = self._log.state.artifacts
        if self._was_shortened(known):
            self._clear()
        row = len(self._seqs)
        # Room is made once: arrays that grow in turns leave holes as large as themselves.
        for column in self._columns():
            column.frombytes(bytes(column.itemsize * (len(known) - self._events_read)))
        try:
            for at in range(self._events_read, len(known), PAGE_EVENTS):
                page = known[at : at + PAGE_EVENTS]
                for event, artifact in list(_artifacts_at(self._log, page)):
                    row += self._is_put(row, event, artifact)
                self._events_read, self._last_seq = at + len(page), page[-1]
        finally:
            for column in self._columns():
                del column[row:]

    def _columns(self) -> tuple[array[int], ...]:
        return self._seqs, self._keys, self._kept, *self._checksums.values()

    def _was_shortened(self, known: Sequence[int]) -> bool:
        """Whether an event was erased: the seqs of the others have moved up."""
        if not self._events_read:
            return False
        return len(known) < self._events_read or known[self._events_read - 1] != self._last_seq

    def _is_put(self, row: int, event: Event, artifact: Artifact) -> bool:
        """Takes in what one event says; gives whether it takes a row, which a clean-up does not."""
        key = _key(artifact.id)
        if is_cleanup(event):
            self._cleaned[key] = event.at_ms
            return False
        self._cleaned.pop(key, None)
        self._seqs[row], self._keys[row] = event.seq, key
        self._kept[row] = not is_in_log(artifact)
        for name, checksums in self._checksums.items():
            checksums[row] = _checksum(_group(artifact.origin, name))
        return True

    def count(self) -> int:
        """How many artifacts still have their bytes. The same content kept again is the same
        artifact: it has the same handle."""
        if self._counted[0] != self._events_read:
            different = set(self._keys).difference(self._cleaned)
            in_log = self._kept.count(0)
            self._counted = self._events_read, len(different) - in_log
        return self._counted[1]

    def listing(self) -> Listing:
        """All artifacts."""
        return Listing(self._log, self._seqs[:], dict(self._cleaned))

    def stored(self) -> Listing:
        """The artifacts that have bytes in the store."""
        rows = (row for row, is_kept in enumerate(self._kept) if is_kept)
        seqs = array("I", (self._seqs[row] for row in rows))
        return Listing(self._log, seqs, dict(self._cleaned))

    def grouped(self, **wanted: str) -> Listing:
        """The artifacts of a task, a query (by its id), a tool."""
        sure = array("I")
        for one in Listing(self._log, self._candidates(wanted), self._cleaned):
            if _is_in_groups(one.artifact.origin, wanted):
                sure.append(one.seq)
        return Listing(self._log, sure, dict(self._cleaned))

    def _candidates(self, wanted: Mapping[str, str]) -> array[int]:
        """The seqs of the artifacts whose checksums are those of the wanted groups."""
        rows: Sequence[int] = range(len(self._seqs))
        for name, value in wanted.items():
            rows = _rows_with(self._checksums[name], _checksum(value), rows)
        return array("I", (self._seqs[row] for row in rows))

    def named(self, id: str) -> list[Artifact]:
        """The artifact of that id; of an unknown one the newest others, among which the nearest
        can be suggested."""
        try:
            row = self._keys.index(_key(id))
        except ValueError:
            found = self.listing()[-SUGGESTED:]
        else:
            found = self.listing()[row : row + 1]
        return [one.artifact for one in found]


def listed(log: Log) -> Listing:
    """All artifacts of a log that have bytes in the store. Reads their events and nothing else."""
    index = ArtifactIndex(log)
    index.refresh()
    return index.stored()


def _artifacts_at(log: Log, seqs: Sequence[int]) -> Iterator[tuple[Event, Artifact]]:
    """The artifacts that the events at these seqs name."""
    wanted = set(seqs)
    for first, last in near_runs(seqs):
        for event in log.read(first - 1, last):
            body = decode(event) if event.seq in wanted else None
            if isinstance(body, Artifact):
                yield event, body
            elif isinstance(body, Message) and ORIGIN in body.metadata:
                output = _output_in(event, body)
                if output is not None:
                    yield event, output


def _rows_with(checksums: Sequence[int], wanted: int, rows: Iterable[int]) -> list[int]:
    """Those of the rows that have the wanted checksum."""
    return [row for row in rows if checksums[row] == wanted]


def _group(origin: Origin, name: str) -> str:
    """The name of the task, query or tool by which an artifact is grouped; a query by its id."""
    value: str = getattr(origin, name)
    return query_id(value) if name == "query" and value else value


def _is_in_groups(origin: Origin, wanted: Mapping[str, str]) -> bool:
    """Whether an artifact is of the wanted task, query and tool."""
    return all(_group(origin, name) == value for name, value in wanted.items())


def _checksum(text: str) -> int:
    return crc32(text.encode("utf-8", "surrogatepass"))


def _key(id: str) -> int:
    """A number that stands for an id: two of a million are the same once in 40 million
    conversations."""
    digest = hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest)
