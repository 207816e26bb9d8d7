"""A store that forgets: everything lies in dictionaries and is gone with the process.

It is the plainest statement of what a store does, and what tests use in place of a mock. A fork
keeps only its own events and reads the others from its parent, as in every store. One lock guards
all of it. Neighbours: `protocol` says what a store is, `checks` what it refuses.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from refold.core import codec
from refold.core.model import Conversation, Event
from refold.stores import checks
from refold.stores.protocol import Recovery, Salvage

CHUNK_BYTES = 256 * 1024


class _Log:
    """One conversation: its own events, and where it left its parent."""

    def __init__(
        self, parent: str = "", parent_seq: int = 0, at_ms: int = 0, title: str = ""
    ) -> None:
        self.parent, self.parent_seq = parent, parent_seq
        self.at_ms, self.title = at_ms, title
        self.events: list[Event] = []
        self.bookmark: bytes | None = None

    @property
    def head(self) -> int:
        return self.parent_seq + len(self.events)

    def own(self, first: int, last: int) -> list[Event]:
        """The events from `first` to `last` that lie here and not in the parent."""
        start = max(first, self.parent_seq + 1)
        if start > last:
            return []
        return self.events[start - self.parent_seq - 1 : last - self.parent_seq]


class _Content:
    """The chunks as they came, since joining them would hold them twice, and when they came
    last."""

    def __init__(self, chunks: tuple[bytes, ...]) -> None:
        self.chunks = chunks
        self.put_ms = 0


class MemoryStore:
    """Keeps logs and artifacts in memory; satisfies `Store`."""

    recovered: Sequence[Recovery] = ()  # memory has no tail to tear

    def __init__(self) -> None:
        self.url = "memory:"
        self._lock = threading.RLock()
        self._logs: dict[str, _Log] = {}
        self._contents: dict[str, _Content] = {}

    # --- logs ---

    def conversations(self, *, after: str = "", limit: int = 100) -> list[Conversation]:
        with self._lock:
            ids = sorted(id for id in self._logs if id > after)
            return [self.conversation(id) for id in ids[: max(0, limit)]]

    def head(self, conversation: str) -> int | None:
        codec.conversation_checked(conversation)
        with self._lock:
            log = self._logs.get(conversation)
            return log.head if log else None

    def conversation(self, conversation: str) -> Conversation:
        with self._lock:
            log = self._log(conversation)
            newest = self._event(conversation, log.head)
            return Conversation(
                id=conversation,
                head=log.head,
                chain=newest.chain,
                title=log.title,
                parent=log.parent,
                parent_seq=log.parent_seq,
                at_ms=log.at_ms,
                updated_ms=newest.at_ms,
            )

    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        with self._lock:
            end = self._log(conversation).head
            after = max(0, after)
            if last is not None:
                end = min(last, end)
            return self._span(conversation, after + 1, min(end, after + max(0, limit)))

    def append(self, conversation: str, events: Sequence[Event], *, expect: int) -> None:
        checks.check_append(conversation, events, expect)
        if not events:
            return
        with self._lock:
            log = self._logs.get(conversation) or _Log(at_ms=events[0].at_ms)
            if log.head != expect:
                if self._has(conversation, events, log.head):
                    return
                raise checks.moved(conversation, expect, log.head)
            self._logs[conversation] = log
            log.events.extend(events)
            title = checks.title_in(events)
            if title is not None:
                log.title = title

    def bookmark(self, conversation: str) -> bytes | None:
        codec.conversation_checked(conversation)
        with self._lock:
            log = self._logs.get(conversation)
            return log.bookmark if log else None

    def keep_bookmark(self, conversation: str, data: bytes) -> None:
        with self._lock:
            self._log(conversation).bookmark = bytes(data)

    # --- contents ---

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        digest, content = _taken(chunks)
        with self._lock:
            kept = self._contents.setdefault(digest, content)
            kept.put_ms = checks.now_ms()
        return digest

    def get(self, digest: str) -> Iterator[bytes]:
        with self._lock:
            found = self._contents.get(codec.digest_checked(digest))
        if found is None:
            raise checks.no_artifact(digest)
        return _bounded_chunks(found.chunks)

    def location(self, digest: str) -> str | None:
        codec.digest_checked(digest)
        return None

    def drop(self, digest: str, *, before_ms: int) -> bool:
        with self._lock:
            found = self._contents.get(codec.digest_checked(digest))
            if found is not None and found.put_ms >= before_ms:
                return False
            self._contents.pop(digest, None)
            return True

    def derived_path(self, name: str) -> str | None:
        """None: nothing of this store lies on a disk."""
        return None

    # --- forks, and removing ---

    def fork(self, conversation: str, at: int, new: str) -> None:
        codec.conversation_checked(new)
        with self._lock:
            log = self._log(conversation)
            if new in self._logs:
                raise checks.taken(new, self._logs[new].head)
            if not 1 <= at <= log.head:
                raise checks.outside(conversation, at, log.head)
            at_ms = self._event(conversation, at).at_ms
            self._logs[new] = _Log(conversation, at, at_ms, self._title_at(conversation, at))

    def erase(self, conversation: str, seq: int) -> None:
        with self._lock:
            holder = self._holder(conversation, seq)
            log = self._logs[holder]
            place = seq - log.parent_seq - 1
            log.events[place] = msgspec.structs.replace(log.events[place], body=b"", salt=b"")
            # A bookmark carries facts taken from bodies, as a title does. Both can be made again.
            for id in self._readers(holder):
                reader = self._logs[id]
                reader.bookmark, reader.title = None, self._title(id, reader.head)

    def delete(self, conversation: str) -> None:
        with self._lock:
            log = self._log(conversation)
            for id, other in self._logs.items():
                if other.parent == conversation:
                    raise checks.forked(conversation, id, log.head)
            del self._logs[conversation]

    # --- repair ---

    def salvage(self, conversation: str) -> Salvage:
        with self._lock:
            log = self._log(conversation)
            pieces = tuple(self._span(conversation, 1, log.head))
            return Salvage(pieces=pieces, parent=log.parent, parent_seq=log.parent_seq)

    def rewrite(
        self, conversation: str, events: Sequence[Event], *, after: int, seen: Salvage
    ) -> str:
        with self._lock:
            log = self._log(conversation)
            if self.salvage(conversation) != seen:
                raise checks.written_meanwhile(conversation, log.head)
            begun_ms = log.at_ms if after or not events else events[0].at_ms
            new = _Log(log.parent if after else "", after, begun_ms)
            new.events = list(events)
            self._logs[conversation] = new
            for id in self._readers(conversation):
                reader = self._logs[id]
                reader.bookmark, reader.title = None, self._title(id, reader.head)
            if not new.head:
                del self._logs[conversation]
            return ""

    # --- the end ---

    def flush(self) -> None:
        """Nothing here outlives the process, so there is nothing to wait for."""

    def close(self) -> None:
        """Nothing is held outside the process."""

    # --- who holds which event ---

    def _log(self, conversation: str) -> _Log:
        log = self._logs.get(codec.conversation_checked(conversation))
        if log is None:
            raise checks.unknown(conversation)
        return log

    def _holder(self, conversation: str, seq: int) -> str:
        """The conversation that holds the event: this one, or the ancestor it shares the event
        with."""
        log = self._log(conversation)
        if not 1 <= seq <= log.head:
            raise checks.no_event(conversation, seq, log.head)
        while seq <= log.parent_seq:
            conversation = log.parent
            log = self._logs[conversation]
        return conversation

    def _event(self, conversation: str, seq: int) -> Event:
        log = self._logs[self._holder(conversation, seq)]
        return log.events[seq - log.parent_seq - 1]

    def _span(self, conversation: str, first: int, last: int) -> list[Event]:
        parts: list[list[Event]] = []
        log = self._logs[conversation]
        while first <= last:
            parts.append(log.own(first, last))
            last = min(last, log.parent_seq)
            if last >= first:
                log = self._logs[log.parent]
        return [event for part in reversed(parts) for event in part]

    def _has(self, conversation: str, events: Sequence[Event], head: int) -> bool:
        first, last = events[0].seq, events[-1].seq
        return last <= head and checks.is_repeat(self._span(conversation, first, last), events)

    def _title_at(self, conversation: str, at: int) -> str:
        """The title that the conversation had at that event; looked for only if it got another
        one since."""
        log = self._logs[conversation]
        since = checks.title_in(self._span(conversation, at + 1, log.head))
        return log.title if since is None else self._title(conversation, at)

    def _title(self, conversation: str, last: int) -> str:
        return checks.title_in(self._span(conversation, 1, last)) or ""

    def _readers(self, conversation: str) -> set[str]:
        """The conversation and everything forked from it, directly or not."""
        found: set[str] = set()
        fresh = {conversation}
        while fresh:
            found |= fresh
            fresh = {id for id, log in self._logs.items() if log.parent in fresh}
        return found


def _taken(chunks: Iterable[bytes]) -> tuple[str, _Content]:
    """The digest of a content, and the content, taken from a stream."""
    hasher, kept = codec.content_hasher(), []
    try:
        for chunk in chunks:
            hasher.update(chunk)
            kept.append(bytes(chunk))
    except TypeError as error:
        raise checks.not_bytes(error) from error
    return hasher.hexdigest(), _Content(tuple(kept))


def _bounded_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, in chunks that are not too large."""
    for chunk in chunks:
        for at in range(0, len(chunk), CHUNK_BYTES):
            yield chunk[at : at + CHUNK_BYTES]
