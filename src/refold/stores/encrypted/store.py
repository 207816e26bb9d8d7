"""A far store whose operator can read nothing: events and contents are encrypted on the way there
and decrypted on the way back.

To a sync it is a store like any other, with the near ids, seqs and chains; the wrapped far store
has notes without readable content. Everything that comes back is checked: an event must be in the
log it was sent to, and the near chain must be valid. Far events in plain text are accepted only if
the near store has the same, or the caller permits it: otherwise a server could write into a log.

`sync-encrypted.json` beside the near store caches the near chain of each far log, and where each
artifact is. The far logs have all of it, encrypted; a lost file costs a read for each conversation,
and contents dropped near cannot be fetched again until their event is. Its existence says that the
near store was synced with a key. Neighbours: `encrypted_event` encrypts, `stores.hybrid` syncs.
"""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from refold import decoding
from refold.core import codec, ids
from refold.core.model import Conversation, Event
from refold.errors import Conflict, Corrupt, Denied, NotFound, RefoldError
from refold.stores import checks
from refold.stores.encrypted import keys as cipher
from refold.stores.encrypted.encrypted_event import (
    Opened,
    content_decrypted,
    content_encrypted,
    encrypted,
    is_encrypted,
    opened,
)
from refold.stores.encrypted.keys import Keys
from refold.stores.hybrid import diverged_logs
from refold.stores.protocol import Listening, Recovery, Salvage, Store
from refold.system import disk

BOOKMARKS = b"refold bookmark"  # the purpose of a derived key
SPOOL_BYTES = 8 * 1024 * 1024  # of a content in memory, while it is hashed before sending
ANY_TIME_MS = 2**52  # later than any far clock
TAKE_PLAIN = "refold sync --take-plain takes it in; refold sync key apply encrypts it there"


@checks.checked_store
class EncryptedStore:
    """An encrypted far store; satisfies `Store`. `keys` reads the key file at its first use; `near`
    is the other side of the sync."""

    recovered: Sequence[Recovery] = ()
    lists_titles = False  # the far store has none that could be trusted

    def __init__(self, far: Store, keys: Callable[[], Keys], *, near: Store) -> None:
        self.url, self.far, self._near = far.url, far, near
        self._read_keys, self._takes_plain = keys, False
        self._heads: dict[str, tuple[int, bytes]] = {}  # last known heads and chains of far logs
        self._path = near.derived_path(NAME)
        self._has_news = False
        self.plain: dict[str, set[int]] = {}  # events read in plain text, by log

    def taking_plain(self) -> EncryptedStore:
        """The same store, which accepts far events in plain text."""
        self._has_news = bool(self.known)  # this store writes the cache of both
        other = copy.copy(self)
        other._takes_plain = True
        return other

    @cached_property
    def keys(self) -> Keys:
        return self._read_keys()

    @cached_property
    def known(self) -> KnownChains:
        return read(self._path)

    # --- logs ---

    def conversations(self, *, after: str = "", limit: int = 100) -> list[Conversation]:
        """A page of conversations. One that cannot be decrypted has the far chain, which no near
        log has: reading it raises the reason."""
        listed = []
        for about in self.far.conversations(after=after, limit=limit) if self.keys else []:
            try:
                listed.append(self._opened_about(about))
            except (Corrupt, Denied):
                listed.append(replace(about, title=""))
        return listed

    def head(self, conversation: str) -> int | None:
        return self.far.head(conversation)

    def conversation(self, conversation: str) -> Conversation:
        return self._opened_about(self.far.conversation(conversation))

    def _opened_about(self, about: Conversation) -> Conversation:
        self._heads[about.id] = about.head, about.chain
        far, near = self.known.ends.get(about.id, (b"", b""))
        if far != about.chain:
            [newest] = self._read(about.id, about.head - 1, about.head, 1)
            near = newest.chain
            self._keep_end(about.id, about.chain, near)
        return replace(about, chain=near, title="")

    def _keep_end(self, id: str, far: bytes, near: bytes) -> None:
        self.known.ends[id] = far, near
        self._has_news = True

    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        return self._read(conversation, after, last, limit)

    def _read(self, id: str, after: int, last: int | None, limit: int) -> list[Event]:
        events = self.far.read(id, after=after, last=last, limit=limit)
        plain = [event for event in events if not is_encrypted(event)]
        self.plain.setdefault(id, set()).update(one.seq for one in plain if not one.erased)
        self._check_plain(id, plain)
        pairs = [(event, self._opened(id, event)) for event in events]
        self._check_homes(id, [opened for _, opened in pairs if opened is not None])
        return [event if opened is None else opened.event for event, opened in pairs]

    def _opened(self, id: str, event: Event) -> Opened | None:
        """The near event; None for one in plain text. Caches the place of its artifact."""
        found = None
        if is_encrypted(event):
            found = opened(event, self.keys, f"{self.url}: {id}: event {event.seq}")
        for artifact in diverged_logs.contents_of([found.event if found else event]):
            there = found.envelope.content if found else artifact.digest
            if there:
                self._keep_content(artifact.digest, there)
        return found

    def _check_homes(self, id: str, events: Sequence[Opened]) -> None:
        """Raises Corrupt for an event of another log, unless this log shares it as a fork."""
        reach: dict[str, int] | None = None
        for one in events:
            home, seq = one.envelope.conversation, one.event.seq
            if home == id:
                continue
            reach = reach if reach is not None else self._reach(id)
            if seq > reach.get(home, 0):
                message = f"{self.url}: {id}: event {seq} was sent to the conversation {home!r}"
                raise Corrupt(message, hint="another program put it there, so it is not used")

    def _reach(self, id: str) -> dict[str, int]:
        """The last event that a log shares with each of its ancestors."""
        reach: dict[str, int] = {}
        about = self.far.conversation(id)
        last = about.head
        while about.parent and about.parent not in reach:
            last = reach[about.parent] = min(last, about.parent_seq)
            about = self.far.conversation(about.parent)
        return reach

    def _check_plain(self, id: str, plain: Sequence[Event]) -> None:
        """Raises Denied for events in plain text that the near store does not have."""
        if self._takes_plain:
            return
        for event in plain:
            near: list[Event] = []
            with suppress(NotFound):
                near = self._near.read(id, after=event.seq - 1, last=event.seq, limit=1)
            if not near or near[0].chain != event.chain:
                message = f"{self.url}: {id}: event {event.seq} is there in plain text, so that"
                raise Denied(f"{message} anyone there may have written it", hint=TAKE_PLAIN)

    def append(self, conversation: str, events: Sequence[Event], *, expect: int) -> None:
        checks.check_append(conversation, events, expect)
        if not events:
            return
        before = self._end(conversation, expect, events)
        if before is None:
            return
        sent: list[Event] = []
        for event in events:
            there = self._content_of(event)
            sent.append(encrypted(event, before, self.keys.newest, conversation, content=there))
            before = sent[-1].chain
        self.far.append(conversation, sent, expect=expect)
        self._heads[conversation] = sent[-1].seq, before
        self._keep_end(conversation, before, events[-1].chain)

    def _end(self, id: str, expect: int, events: Sequence[Event]) -> bytes | None:
        """The far chain at the head `expect`; None if the far log has these events already.
        Conflict if it has another head."""
        head, chain = self._heads.get(id, (0, codec.ZERO))
        if head == expect and head:
            return chain
        about = diverged_logs.about(self.far, id)
        head, chain = (about.head, about.chain) if about else (0, codec.ZERO)
        if head == expect:
            return chain
        kept = self._read(id, expect, events[-1].seq, len(events)) if expect < head else []
        if not checks.is_repeat(kept, events):
            raise checks.moved(id, expect, head)
        return None

    def fork(self, conversation: str, at: int, new: str) -> None:
        self.far.fork(conversation, at, new)

    def erase(self, conversation: str, seq: int) -> None:
        self.far.erase(conversation, seq)

    def delete(self, conversation: str) -> None:
        self.far.delete(conversation)
        self._heads.pop(conversation, None)

    def salvage(self, conversation: str) -> Salvage:
        """All pieces that can be read and decrypted, and a message for each of the others."""
        seen = self.far.salvage(conversation)
        pieces = tuple(self._piece(conversation, piece) for piece in seen.pieces)
        return Salvage(pieces=pieces, parent=seen.parent, parent_seq=seen.parent_seq)

    def _piece(self, id: str, piece: Event | str) -> Event | str:
        try:
            found = None if isinstance(piece, str) else self._opened(id, piece)
        except RefoldError as error:
            return error.message
        return piece if found is None else found.event

    def rewrite(
        self, conversation: str, events: Sequence[Event], *, after: int, seen: Salvage
    ) -> str:
        """Denied: an encrypted log is not repaired from here."""
        message = f"{conversation} is encrypted in {self.url}, and is not repaired there"
        raise Denied(message, hint="repair it near; delete it there, and sync again")

    # --- derived data ---

    def bookmark(self, conversation: str, *, at: int | None = None) -> bytes | None:
        if at is not None:
            return None
        hidden = self.far.bookmark(conversation)
        if hidden is None:
            return None
        for key in self.keys.keys:
            try:
                return cipher.decrypt(key.derived(BOOKMARKS), hidden, conversation.encode())
            except cipher.Changed:
                continue  # encrypted with another key, or forged: a bookmark is disposable
        return None

    def keep_bookmark(self, conversation: str, data: bytes, *, at: int | None = None) -> None:
        if at is not None:
            return
        secret = self.keys.newest.derived(BOOKMARKS)
        hidden = cipher.encrypt(secret, bytes(data), conversation.encode())
        self.far.keep_bookmark(conversation, hidden)

    def derived_path(self, name: str) -> str | None:
        """None: derived files are beside the near store."""
        return None

    # --- contents ---

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        """Encrypts the bytes and sends them. They are hashed first: their key is derived from their
        digest."""
        hasher = ids.content_hasher()
        with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as file:
            try:
                for chunk in chunks:
                    hasher.update(chunk)
                    file.write(chunk)
            except TypeError as error:
                raise checks.not_bytes(error) from error
            file.seek(0)
            digest = str(hasher.hexdigest())
            there = self.far.put(content_encrypted(file, digest, self.keys.newest))
        self._keep_content(digest, there)
        return digest

    def get(self, digest: str) -> Iterator[bytes]:
        there = self._place_of(digest)
        if there is None:
            raise checks.no_artifact(digest)
        what = f"{self.url}: the artifact {ids.artifact_id(digest)}"
        try:
            chunks = self.far.get(there)
        except Corrupt as error:
            raise Corrupt(f"{what} is damaged there: {error.message}", hint=error.hint) from error
        if there == digest:
            return chunks
        return content_decrypted(chunks, digest, self.keys, what)

    def location(self, digest: str) -> str | None:
        """None: no far file has the plain bytes."""
        ids.digest_checked(digest)
        return None

    def drop(self, digest: str, *, before_ms: int) -> bool:
        there = self._place_of(digest)
        return there is None or self.far.drop(there, before_ms=before_ms)

    def drop_place(self, place: str, digest: str) -> None:
        """Drops a far content by its place, and forgets the place of `digest`, if known; Conflict
        if the content stays."""
        if not self.far.drop(place, before_ms=ANY_TIME_MS):
            message = f"{self.url}: the artifact {ids.artifact_id(place)} is still there"
            raise Conflict(message, head=0, hint="apply the key again")
        if self.known.contents.get(digest) == place:
            del self.known.contents[digest]

    def _place_of(self, digest: str) -> str | None:
        """The far digest of a content; None if unknown. The far store never sees the near digest:
        it would confirm a guess of the content."""
        return self.known.contents.get(ids.digest_checked(digest))

    def learn_place(self, id: str, seq: int, digest: str) -> None:
        """Finds the place of a content in the far envelope of its event, also after the event is
        erased. A lost cache must not make the content look absent."""
        if self._place_of(digest) is not None:
            return
        for event in self.far.read(id, after=seq - 1, last=seq, limit=1):
            found = self._opened(id, event)
            there = digest if found is None else found.envelope.content
            if there:
                self._keep_content(digest, there)

    def _content_of(self, event: Event) -> str:
        named = [self._place_of(artifact.digest) for artifact in diverged_logs.contents_of([event])]
        return named[0] or "" if named else ""

    def _keep_content(self, digest: str, there: str) -> None:
        if self.known.contents.get(digest) != there:
            self.known.contents[digest] = there
            self._has_news = True

    # --- the rest ---

    def listen(self, cursor: str = "") -> Listening:
        """The stream of changes of the far store; ids and heads are the near ones."""
        listen: Callable[[str], Listening] = self.far.listen  # type: ignore[attr-defined]
        return listen(cursor)

    def flush(self) -> None:
        self.far.flush()
        self.keep_known()

    def close(self) -> None:
        self.keep_known()
        self.far.close()

    def keep_known(self) -> None:
        """Writes the cache, so that the next process need not read the logs again."""
        if self._has_news:
            self._has_news = False
            write(self._path, self.known)


# --- the cache file ---

NAME = "sync-encrypted.json"


class KnownChains(Struct, kw_only=True):
    """By conversation, the far chain and its near chain; by near digest of a content, its far
    digest, which is the same if it is there in plain text."""

    ends: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)


def is_kept(path: str | None) -> bool:
    """Whether the cache file exists, readable or not: the near store was synced with a key."""
    return path is not None and os.path.lexists(path)


def read(path: str | None) -> KnownChains:
    """The cache; empty if the file is missing or unreadable."""
    try:
        with disk.open_regular(path or "") as file:
            return decoding.decode(file.read(), KnownChains)
    except (OSError, RefoldError, msgspec.DecodeError, UnicodeDecodeError):
        return KnownChains()


def write(path: str | None, known: KnownChains) -> None:
    """Merges into the cache file, if the near store has a folder; a failure costs no more than a
    lost file."""
    if path is None or not os.path.isdir(os.path.dirname(path)):
        return
    kept = read(path)
    kept.ends |= known.ends
    kept.contents |= known.contents
    with suppress(OSError):
        disk.replace_file(path, msgspec.json.encode(kept))
