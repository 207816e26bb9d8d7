"""A store that forgets: everything is in dictionaries and gone with the process.

It is the plainest implementation of a store, and what tests use instead of a mock. A fork has only
its own events and reads the others from its parent, as in every store. One lock guards everything.
`TrialStore` puts such a log on top of one in another store, which it never writes to. Neighbours:
`protocol` defines a store, `checks` validates input.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from refold.core.ids import (
    content_hasher,
    conversation_checked,
    digest_checked,
)
from refold.core.model import Conversation, Event
from refold.stores import checks
from refold.stores.protocol import Recovery, Salvage, Store

CHUNK_BYTES = 256 * 1024


class MemoryLog(msgspec.Struct):
    """One conversation: its own events, and the seq at which it left its parent."""

    parent: str = ""
    parent_seq: int = 0
    at_ms: int = 0
    title: str = ""
    events: list[Event] = []
    bookmark: bytes | None = None
    bookmarks: dict[int, bytes] = {}  # by place

    @property
    def head(self) -> int:
        return self.parent_seq + len(self.events)

    def own(self, first: int, last: int) -> list[Event]:
        """The conversation's own events from `first` to `last`, without its parent's."""
        start = max(first, self.parent_seq + 1)
        if start > last:
            return []
        return self.events[start - self.parent_seq - 1 : last - self.parent_seq]


class MemoryContent(msgspec.Struct):
    """The chunks as they came, since joining them would need twice the memory, and the time of the
    last put."""

    chunks: tuple[bytes, ...]
    put_ms: int = 0


@checks.checked_store
class MemoryStore:
    """Keeps logs and artifacts in memory; satisfies `Store`."""

    recovered: Sequence[Recovery] = ()  # memory has no tail to tear

    def __init__(self) -> None:
        self.url = "memory:"
        self._lock = threading.RLock()
        self.logs: dict[str, MemoryLog] = {}
        self.contents: dict[str, MemoryContent] = {}

    # --- logs ---

    def conversations(self, *, after: str = "", limit: int = 100) -> list[Conversation]:
        with self._lock:
            ids = sorted(id for id in self.logs if id > after)
            return [self.conversation(id) for id in ids[: max(0, limit)]]

    def head(self, conversation: str) -> int | None:
        conversation_checked(conversation)
        with self._lock:
            log = self.logs.get(conversation)
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
            log = self.logs.get(conversation) or MemoryLog(at_ms=events[0].at_ms)
            if log.head != expect:
                first, last = events[0].seq, events[-1].seq
                kept = self._span(conversation, first, last) if last <= log.head else []
                if checks.is_repeat(kept, events):
                    return
                raise checks.moved(conversation, expect, log.head)
            self.logs[conversation] = log
            log.events.extend(events)
            title = checks.title_in(events)
            if title is not None:
                log.title = title

    def bookmark(self, conversation: str, *, at: int | None = None) -> bytes | None:
        conversation_checked(conversation)
        with self._lock:
            log = self.logs.get(conversation)
            if log is None or at is None:
                return log.bookmark if log else None
            while True:
                seqs = [seq for seq in log.bookmarks if seq <= at]
                if seqs or not log.parent:
                    return log.bookmarks[max(seqs)] if seqs else None
                at, log = min(at, log.parent_seq), self.logs[log.parent]

    def keep_bookmark(self, conversation: str, data: bytes, *, at: int | None = None) -> None:
        with self._lock:
            log = self._log(conversation)
            if at is None:
                log.bookmark = bytes(data)
            else:
                log.bookmarks[at] = bytes(data)

    # --- contents ---

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        hasher, kept = content_hasher(), []
        try:
            for chunk in chunks:
                hasher.update(chunk)
                kept.append(bytes(chunk))
        except TypeError as error:
            raise checks.not_bytes(error) from error
        digest = hasher.hexdigest()
        with self._lock:
            content = self.contents.setdefault(digest, MemoryContent(tuple(kept)))
            content.put_ms = checks.now_ms()
        return digest

    def get(self, digest: str) -> Iterator[bytes]:
        with self._lock:
            content = self.contents.get(digest_checked(digest))
        if content is None:
            raise checks.no_artifact(digest)
        return (
            chunk[at : at + CHUNK_BYTES]
            for chunk in content.chunks
            for at in range(0, len(chunk), CHUNK_BYTES)
        )

    def location(self, digest: str) -> str | None:
        digest_checked(digest)
        return None

    def drop(self, digest: str, *, before_ms: int) -> bool:
        with self._lock:
            content = self.contents.get(digest_checked(digest))
            if content is not None and content.put_ms >= before_ms:
                return False
            self.contents.pop(digest, None)
            return True

    def derived_path(self, name: str) -> str | None:
        """None: this store has no place on a disk."""
        return None

    # --- forks, and removing ---

    def fork(self, conversation: str, at: int, new: str) -> None:
        conversation_checked(new)
        with self._lock:
            log = self._log(conversation)
            if new in self.logs:
                raise checks.taken(new, self.logs[new].head)
            if not 1 <= at <= log.head:
                raise checks.outside(conversation, at, log.head)
            at_ms, title = self._event(conversation, at).at_ms, log.title
            if checks.title_in(self._span(conversation, at + 1, log.head)) is not None:
                title = self._title(conversation, at)
            self.logs[new] = MemoryLog(conversation, at, at_ms, title)

    def erase(self, conversation: str, seq: int) -> None:
        with self._lock:
            holder = self._holder(conversation, seq)
            log = self.logs[holder]
            index = seq - log.parent_seq - 1
            log.events[index] = msgspec.structs.replace(log.events[index], body=b"", salt=b"")
            self._forget_derived(holder)

    def delete(self, conversation: str) -> None:
        with self._lock:
            log = self._log(conversation)
            for id, other in self.logs.items():
                if other.parent == conversation:
                    raise checks.forked(conversation, id, log.head)
            del self.logs[conversation]

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
            parent = log.parent if after else ""
            new = MemoryLog(parent, after, begun_ms, events=list(events))
            self.logs[conversation] = new
            self._forget_derived(conversation)
            if not new.head:
                del self.logs[conversation]
            return ""

    # --- the end ---

    def flush(self) -> None:
        """Nothing here outlives the process, so there is nothing to wait for."""

    def close(self) -> None:
        """Nothing is held outside the process."""

    # --- events and their holders ---

    def _log(self, conversation: str) -> MemoryLog:
        log = self.logs.get(conversation_checked(conversation))
        if log is None:
            raise checks.unknown(conversation)
        return log

    def _holder(self, conversation: str, seq: int) -> str:
        """The conversation that holds the event: this one, or an ancestor."""
        log = self._log(conversation)
        if not 1 <= seq <= log.head:
            raise checks.no_event(conversation, seq, log.head)
        while seq <= log.parent_seq:
            conversation = log.parent
            log = self.logs[conversation]
        return conversation

    def _event(self, conversation: str, seq: int) -> Event:
        log = self.logs[self._holder(conversation, seq)]
        return log.events[seq - log.parent_seq - 1]

    def _span(self, conversation: str, first: int, last: int) -> list[Event]:
        spans: list[list[Event]] = []
        log = self.logs[conversation]
        while first <= last:
            spans.append(log.own(first, last))
            last = min(last, log.parent_seq)
            if last >= first:
                log = self.logs[log.parent]
        return [event for span in reversed(spans) for event in span]

    def _title(self, conversation: str, last: int) -> str:
        return checks.title_in(self._span(conversation, 1, last)) or ""

    def _forget_derived(self, holder: str) -> None:
        """Drops the bookmarks of the conversation and of all its forks, and derives their titles
        again: both have facts from bodies."""
        readers = {holder}
        while readers:
            for id in readers:
                log = self.logs[id]
                log.bookmark, log.bookmarks, log.title = None, {}, self._title(id, log.head)
            readers = {id for id, log in self.logs.items() if log.parent in readers}


class TrialStore(MemoryStore):
    """One conversation of another store, up to a head: its events and contents are read there, and
    everything that is written stays in memory. Later events of that log are not seen."""

    def __init__(self, store: Store, conversation: str, head: int) -> None:
        super().__init__()
        self._store = store
        if head:
            title = store.conversation(conversation).title
            self.logs[conversation] = MemoryLog(parent_seq=head, title=title)

    def conversation(self, conversation: str) -> Conversation:
        about = super().conversation(conversation)
        if not self.logs[conversation].parent_seq:
            return about
        real = self._store.conversation(conversation)
        return msgspec.structs.replace(
            about, parent=real.parent, parent_seq=real.parent_seq, at_ms=real.at_ms
        )

    def bookmark(self, conversation: str, *, at: int | None = None) -> bytes | None:
        data = super().bookmark(conversation, at=at)
        if data is not None or conversation not in self.logs:
            return data
        return self._store.bookmark(conversation, at=at)

    def get(self, digest: str) -> Iterator[bytes]:
        return super().get(digest) if digest in self.contents else self._store.get(digest)

    def _event(self, conversation: str, seq: int) -> Event:
        return self._span(conversation, seq, seq)[0]

    def _span(self, conversation: str, first: int, last: int) -> list[Event]:
        log = self.logs[conversation]
        events: list[Event] = []
        end = min(last, log.parent_seq)
        while first + len(events) <= end:
            after = first + len(events) - 1
            page = self._store.read(conversation, after=after, last=end, limit=end - after)
            if not page:
                raise checks.no_event(conversation, after + 1, after)
            events += page
        return events + log.own(first, last)
