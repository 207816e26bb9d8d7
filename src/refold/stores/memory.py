"""A store that forgets: everything lies in dictionaries and is gone with the process.

It is the plainest statement of what a store does, and what tests use in place of a mock. A fork
keeps only its own events and reads the others from its parent, as every store does. One lock guards
all of it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from refold.core import codec
from refold.core.model import Conversation, Event
from refold.errors import Invalid, NotFound
from refold.stores import checks as door
from refold.stores.protocol import Recovery

CHUNK_BYTES = 256 * 1024


class _Log:
    """One conversation: its own events, and where it left its parent."""

    def __init__(
        self, parent: str = "", parent_seq: int = 0, at_ms: int = 0, title: str = ""
    ) -> None:
        self.parent, self.parent_seq, self.at_ms, self.title = parent, parent_seq, at_ms, title
        self.events: list[Event] = []
        self.bookmark: bytes | None = None

    @property
    def head(self) -> int:
        return self.parent_seq + len(self.events)


class MemoryStore:
    """Keeps logs and artifacts in memory; satisfies `Store`."""

    recovered: Sequence[Recovery] = ()  # memory has no tail to tear

    def __init__(self) -> None:
        self.url = "memory:"
        self._lock = threading.RLock()
        self._logs: dict[str, _Log] = {}
        # The chunks as they came, since joining them would hold them twice, and the time in ms when
        # they came last.
        self._contents: dict[str, tuple[tuple[bytes, ...], int]] = {}

    def conversations(self, *, after: str = "", limit: int = 100) -> list[Conversation]:
        with self._lock:
            ids = sorted(id for id in self._logs if id > after)
            return [self.conversation(id) for id in ids[: max(0, limit)]]

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
            head = self._log(conversation).head
            first = max(0, after) + 1
            end = min(head if last is None else min(last, head), first - 1 + max(0, limit))
            return self._span(conversation, first, end)

    def append(self, conversation: str, events: Sequence[Event], *, expect: int) -> None:
        door.append_checked(conversation, events, expect)
        if not events:
            return
        with self._lock:
            log = self._logs.get(conversation)
            head = log.head if log else 0
            if head != expect:
                if self._has(conversation, events, head):
                    return
                raise door.moved(conversation, expect, head)
            if log is None:
                log = self._logs[conversation] = _Log(at_ms=events[0].at_ms)
            log.events.extend(events)
            if (title := door.title_in(events)) is not None:
                log.title = title

    def bookmark(self, conversation: str) -> bytes | None:
        codec.conversation_checked(conversation)
        with self._lock:
            log = self._logs.get(conversation)
            return log.bookmark if log else None

    def keep_bookmark(self, conversation: str, data: bytes) -> None:
        with self._lock:
            self._log(conversation).bookmark = bytes(data)

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        hasher, kept = codec.content_hasher(), []
        try:
            for chunk in chunks:
                hasher.update(chunk)
                kept.append(bytes(chunk))
        except TypeError as error:
            raise Invalid(
                f"an artifact is made of bytes: {error}", hint="encode text first"
            ) from error
        digest: str = hasher.hexdigest()
        with self._lock:
            known = self._contents.get(digest)
            self._contents[digest] = (known[0] if known else tuple(kept), door.now_ms())
        return digest

    def get(self, digest: str) -> Iterator[bytes]:
        with self._lock:
            found = self._contents.get(door.digest_checked(digest))
        if found is None:
            raise NotFound(
                f"there is no artifact {codec.artifact_id(digest)}",
                hint="refold artifacts lists them",
            )
        return (
            part[at : at + CHUNK_BYTES]
            for part in found[0]
            for at in range(0, len(part), CHUNK_BYTES)
        )

    def location(self, digest: str) -> str | None:
        door.digest_checked(digest)
        return None

    def drop(self, digest: str, *, before_ms: int) -> bool:
        with self._lock:
            found = self._contents.get(door.digest_checked(digest))
            if found is not None and found[1] >= before_ms:
                return False
            self._contents.pop(digest, None)
            return True

    def fork(self, conversation: str, at: int, new: str) -> None:
        codec.conversation_checked(new)
        with self._lock:
            log = self._log(conversation)
            if new in self._logs:
                raise door.taken(new, self._logs[new].head)
            if not 1 <= at <= log.head:
                raise door.outside(conversation, at, log.head)
            renamed = door.title_in(self._span(conversation, at + 1, log.head)) is not None
            title = self._title(conversation, at) if renamed else log.title
            self._logs[new] = _Log(conversation, at, self._event(conversation, at).at_ms, title)

    def erase(self, conversation: str, seq: int) -> None:
        with self._lock:
            holder = self._holder(conversation, seq)
            log = self._logs[holder]
            place = seq - log.parent_seq - 1
            log.events[place] = msgspec.structs.replace(log.events[place], body=b"", salt=b"")
            for id in self._readers(holder):
                # A bookmark carries facts taken from bodies, as a title does. Both can be made
                # again.
                self._logs[id].bookmark = None
                self._logs[id].title = self._title(id, self._logs[id].head)

    def delete(self, conversation: str) -> None:
        with self._lock:
            log = self._log(conversation)
            for id, other in self._logs.items():
                if other.parent == conversation:
                    raise door.forked(conversation, id, log.head)
            del self._logs[conversation]

    def flush(self) -> None:
        """Nothing here outlives the process, so there is nothing to wait for."""

    def close(self) -> None:
        """Nothing is held outside the process."""

    def _log(self, conversation: str) -> _Log:
        log = self._logs.get(codec.conversation_checked(conversation))
        if log is None:
            raise door.unknown(conversation)
        return log

    def _holder(self, conversation: str, seq: int) -> str:
        """The conversation that holds the event: this one, or the ancestor it shares the event
        with."""
        log = self._log(conversation)
        if not 1 <= seq <= log.head:
            raise NotFound(
                f"{conversation!r} has no event {seq}", hint=f"its events are 1 to {log.head}"
            )
        while seq <= log.parent_seq:
            conversation, log = log.parent, self._logs[log.parent]
        return conversation

    def _event(self, conversation: str, seq: int) -> Event:
        log = self._logs[self._holder(conversation, seq)]
        return log.events[seq - log.parent_seq - 1]

    def _span(self, conversation: str, first: int, last: int) -> list[Event]:
        parts: list[list[Event]] = []
        log = self._logs[conversation]
        while first <= last:
            start = max(first, log.parent_seq + 1)
            parts.append(
                log.events[start - log.parent_seq - 1 : last - log.parent_seq]
                if start <= last
                else []
            )
            last = min(last, log.parent_seq)
            log = self._logs[log.parent] if last >= first else log
        return [event for part in reversed(parts) for event in part]

    def _has(self, conversation: str, events: Sequence[Event], head: int) -> bool:
        if events[-1].seq > head:
            return False
        kept = self._span(conversation, events[0].seq, events[-1].seq)
        return [event.chain for event in kept] == [event.chain for event in events]

    def _title(self, conversation: str, last: int) -> str:
        return door.title_in(self._span(conversation, 1, last)) or ""

    def _readers(self, conversation: str) -> set[str]:
        """The conversation and everything forked from it, directly or not."""
        found, fresh = {conversation}, {conversation}
        while fresh:
            fresh = {id for id, log in self._logs.items() if log.parent in fresh} - found
            found |= fresh
        return found
