"""Every artifact of a conversation with its origin, known from the log without reading a content.

An artifact's event describes it. The same event again, written by the cleaner, records the removal
of its bytes; a later one by any other author, that they are back. In between only a few numbers per
artifact are held (`ArtifactIndex`); the rest is read from the log, page by page, on access
(`Listing`). Neighbours: `intake` keeps artifacts, `artifacts` shows them.
"""

from __future__ import annotations

import hashlib
import unicodedata
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import overload
from zlib import crc32

import msgspec
from msgspec import Struct

from refold import decoding
from refold.artifacts.intake import count_lines, type_of_output
from refold.core.codec import decode
from refold.core.model import ORIGIN, Artifact, Event, Message, Origin, is_cleanup
from refold.errors import NotFound
from refold.log.handles import body_text
from refold.log.log import Log, near_runs
from refold.patterns import regex

CHARS_PER_TOKEN = 4
PAGE_EVENTS = 500
HELD_MAX = 10_000  # artifacts that a list may hold; a longer one reads them on access
SUGGESTED = 1_000  # newest artifacts that are searched for the nearest to an unknown id
_QUERY_ID = regex(r"q_[0-9a-f]{16}")


class StoredArtifact(Struct, frozen=True, kw_only=True):
    """One artifact in the log. `cleaned_ms` is the time when its bytes were removed, 0 if they are
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
        """The approximate size of the whole text on a page; 0 for binary content."""
        return -(-self.artifact.size_chars // CHARS_PER_TOKEN)


def is_in_log(artifact: Artifact) -> bool:
    """Whether an output is in the log itself, in a message: it was small, and has a task or a
    query. It has the message's handle."""
    return artifact.digest.startswith("#")


def _output_in(event: Event, message: Message) -> Artifact | None:
    """A result in the log as an artifact without bytes of its own; None if its origin is not
    ours."""
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
    """The id of a query, given as its text or its id."""
    return query if _QUERY_ID.fullmatch(query) else hash_query(query)


class Listing(Sequence[StoredArtifact]):
    """Artifacts in log order, read from the log on access."""

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
        for stored in self._read([seq]):
            return stored
        raise NotFound(f"the artifact at #{seq} was erased", hint="list the artifacts again")

    def __repr__(self) -> str:
        return f"<{len(self):,} artifacts of {self._log.conversation!r}>"

    def held(self) -> Sequence[StoredArtifact]:
        """The artifacts themselves, if they are few: such a list does not change when the log grows
        or is closed."""
        return [*self] if len(self) <= HELD_MAX else self

    def _read(self, seqs: Sequence[int]) -> Iterator[StoredArtifact]:
        """These artifacts, in this order, page by page, without those erased meanwhile."""
        for at in range(0, len(seqs), PAGE_EVENTS):
            page = seqs[at : at + PAGE_EVENTS]
            named = {event.seq: (event, body) for event, body in _artifacts_at(self._log, page)}
            for seq in page:
                if seq in named:
                    event, artifact = named[seq]
                    yield StoredArtifact(
                        artifact=artifact,
                        seq=seq,
                        at_ms=event.at_ms,
                        by=event.by,
                        cleaned_ms=self._cleaned.get(_key(artifact.id), 0),
                    )


class ArtifactIndex:
    """A compact index of a conversation's artifacts.

    A long-running agent may keep a million artifacts in one conversation. As objects they would
    take a gigabyte, and reading all their events for each question takes seconds. So each is six
    numbers in packed arrays, 25 bytes: the seq of its event, a hash of its id, whether the store
    has it, and checksums of its task, query and tool. These find every candidate, and its event has
    the rest. `refresh` reads the new events. Not locked: its owner uses it from one thread at a
    time.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._clear()

    def _clear(self) -> None:
        self._seqs = array("I")  # a log with four billion events is not one
        self._keys = array("Q")
        self._kept = array("b")  # whether it has bytes in the store
        self._checksums = {name: array("I") for name in ("task", "query", "tool")}
        self._cleaned: dict[int, int] = {}  # keys, and the time of the removal
        self._events_read = self._last_seq = 0
        self._counted = 0, 0  # the number of events read, and the count then

    def refresh(self) -> None:
        """Reads the new events of artifacts that were kept or cleaned up."""
        known, read = self._log.state.artifacts, self._events_read
        # An erased event shifts the others.
        if read and (len(known) < read or known[read - 1] != self._last_seq):
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

    def _is_put(self, row: int, event: Event, artifact: Artifact) -> bool:
        """Takes in one event; returns whether it takes a row, which a clean-up does not."""
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
        """The number of artifacts that still have their bytes. The same content kept again is the
        same artifact, with the same handle."""
        if self._counted[0] != self._events_read:
            different = set(self._keys).difference(self._cleaned)
            in_log = self._kept.count(0)
            self._counted = self._events_read, len(different) - in_log
        return self._counted[1]

    def listing(self) -> Listing:
        """All artifacts."""
        return Listing(self._log, self._seqs[:], dict(self._cleaned))

    def stored(self) -> Listing:
        """The artifacts with bytes in the store."""
        rows = (row for row, is_kept in enumerate(self._kept) if is_kept)
        seqs = array("I", (self._seqs[row] for row in rows))
        return Listing(self._log, seqs, dict(self._cleaned))

    def grouped(self, **wanted: str) -> Listing:
        """The artifacts of a task, a query (by its id), a tool."""
        rows: Sequence[int] = range(len(self._seqs))
        for name, value in wanted.items():
            checksums, checksum = self._checksums[name], _checksum(value)
            rows = [row for row in rows if checksums[row] == checksum]
        candidates = array("I", (self._seqs[row] for row in rows))
        seqs = array("I")
        for stored in Listing(self._log, candidates, self._cleaned):
            origin = stored.artifact.origin
            if all(_group(origin, name) == value for name, value in wanted.items()):
                seqs.append(stored.seq)
        return Listing(self._log, seqs, dict(self._cleaned))

    def named(self, id: str) -> list[Artifact]:
        """The artifact of that id; for an unknown one the newest others, as suggestions."""
        try:
            row = self._keys.index(_key(id))
        except ValueError:
            listing = self.listing()[-SUGGESTED:]
        else:
            listing = self.listing()[row : row + 1]
        return [stored.artifact for stored in listing]


def listed(log: Log) -> Listing:
    """All artifacts of a log with bytes in the store. Reads their events and nothing else."""
    index = ArtifactIndex(log)
    index.refresh()
    return index.stored()


def _artifacts_at(log: Log, seqs: Sequence[int]) -> Iterator[tuple[Event, Artifact]]:
    """The artifacts in the events at these seqs."""
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


def _group(origin: Origin, name: str) -> str:
    """The task, query or tool of an artifact; a query by its id."""
    value: str = getattr(origin, name)
    return query_id(value) if name == "query" and value else value


def _checksum(text: str) -> int:
    return crc32(text.encode("utf-8", "surrogatepass"))


def _key(id: str) -> int:
    """A hash of an id: two of a million are equal in one of 40 million conversations."""
    digest = hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest)
