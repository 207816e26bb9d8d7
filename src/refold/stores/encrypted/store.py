"""A far store whose operator can read nothing: events and contents are encrypted on their way there
and decrypted on their way back.

To a sync it is a store like any other, with the near ids, seqs and chains; what lies behind it is
one too, of notes that say nothing. What comes back is checked: an event stands where it was sent
to, in a log whose near chain holds. What lies there in plain text is taken in only where the near
store has the same, or where the caller said so: else a server could put its own words into a log.
Neighbours: `event` and `content` encrypt, `stores.hybrid` syncs with it.

What was learnt of an encrypted far store, so that it need not be read again: which near chain a
far log ends with, and where it keeps an artifact.

It lies in `sync-encrypted.json` beside the near store. All of it stands in the far logs, encrypted;
a file that is lost costs a read for each conversation, and contents that were dropped near cannot
be fetched again until the event that names them is. That it is there says that the near store was
synced with a key. Neighbours: `store` asks and adds, `hybrid.address` asks whether it is there.
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
from refold.core import codec
from refold.core.model import Conversation, Event
from refold.errors import Conflict, Corrupt, Denied, NotFound, RefoldError
from refold.stores import checks
from refold.stores.encrypted import event as content
from refold.stores.encrypted import keys as cipher
from refold.stores.encrypted.event import Opened, encrypted, is_encrypted, opened
from refold.stores.encrypted.keys import Keys
from refold.stores.hybrid import tails
from refold.stores.protocol import Listening, Recovery, Salvage, Store
from refold.system import disk

BOOKMARKS = b"refold bookmark"  # what a key is derived for
SPOOL_BYTES = 8 * 1024 * 1024  # of a content in memory, while it is hashed before it is sent
ANY_TIME_MS = 2**52  # nobody puts it again, and the clock there may be ahead
TAKE_PLAIN = "refold sync --take-plain takes it in; refold sync key apply encrypts it there"


class EncryptedStore:
    """Satisfies `Store`. `keys` reads the key file when it is needed first; `near` is the store
    that this one is synced with."""

    recovered: Sequence[Recovery] = ()
    lists_titles = False  # the far store knows none, and one that it names is not believed

    def __init__(self, far: Store, keys: Callable[[], Keys], *, near: Store) -> None:
        self.url, self.far, self._near = far.url, far, near
        self._read_keys, self._takes_plain = keys, False
        self._heads: dict[str, tuple[int, bytes]] = {}  # of far logs, as they were seen last
        self._path = near.derived_path(NAME)
        self._is_news = False
        self.plain: dict[str, set[int]] = {}  # events that were read in plain text, by log

    def taking_plain(self) -> EncryptedStore:
        """The same store, which takes in what lies there in plain text."""
        self._is_news = bool(self._known)  # what the other learns is written by this one
        other = copy.copy(self)
        other._takes_plain = True
        return other

    @cached_property
    def keys(self) -> Keys:
        return self._read_keys()

    @cached_property
    def _known(self) -> KnownChains:
        return read(self._path)

    # --- logs ---

    def conversations(self, *, after: str = "", limit: int = 100) -> list[Conversation]:
        """All of them, once the keys are read; one that cannot be decrypted has the far chain,
        which no near log has: whoever reads it is told why."""
        found = self.far.conversations(after=after, limit=limit) if self.keys else []
        return [self._listed(about) for about in found]

    def _listed(self, about: Conversation) -> Conversation:
        try:
            return self._opened_about(about)
        except (Corrupt, Denied):
            return replace(about, title="")

    def head(self, conversation: str) -> int | None:
        return self.far.head(conversation)

    def conversation(self, conversation: str) -> Conversation:
        return self._opened_about(self.far.conversation(conversation))

    def _opened_about(self, about: Conversation) -> Conversation:
        self._heads[about.id] = about.head, about.chain
        far, near = self._known.ends.get(about.id, (b"", b""))
        if far != about.chain:
            [newest] = self._read(about.id, about.head - 1, about.head, 1)
            near = newest.chain
            self._keep_end(about.id, about.chain, near)
        return replace(about, chain=near, title="")

    def _keep_end(self, id: str, far: bytes, near: bytes) -> None:
        self._known.ends[id] = far, near
        self._is_news = True

    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        return self._read(conversation, after, last, limit)

    def _read(self, id: str, after: int, last: int | None, limit: int) -> list[Event]:
        found = self.far.read(id, after=after, last=last, limit=limit)
        plain = [event for event in found if not is_encrypted(event)]
        self.plain.setdefault(id, set()).update(one.seq for one in plain if not one.erased)
        self._check_plain(id, plain)
        pairs = [(event, self._opened(id, event)) for event in found]
        self._check_homes(id, [opened for _, opened in pairs if opened is not None])
        return [event if opened is None else opened.event for event, opened in pairs]

    def _opened(self, id: str, event: Event) -> Opened | None:
        """The near event; None for one that lies there as it is. Notes where its artifact lies."""
        found = None
        if is_encrypted(event):
            found = opened(event, self.keys, f"{self.url}: {id}: event {event.seq}")
        for artifact in tails.contents_of([found.event if found else event]):
            there = found.envelope.content if found else artifact.digest
            if there:
                self._keep_content(artifact.digest, there)
        return found

    def _check_homes(self, id: str, events: Sequence[Opened]) -> None:
        """Corrupt if an event was sent to a log of which this one is no fork after it."""
        reach: dict[str, int] | None = None
        for one in events:
            home, seq = one.envelope.conversation, one.event.seq
            if home == id:
                continue
            reach = reach if reach is not None else self._reach(id)
            if seq > reach.get(home, 0):
                said = f"{self.url}: {id}: event {seq} was sent to the conversation {home!r}"
                raise Corrupt(said, hint="somebody else put it there, so it is not taken")

    def _reach(self, id: str) -> dict[str, int]:
        """Up to which event a log reads from each of those that it was forked from."""
        reach: dict[str, int] = {}
        about = self.far.conversation(id)
        last = about.head
        while about.parent and about.parent not in reach:
            last = reach[about.parent] = min(last, about.parent_seq)
            about = self.far.conversation(about.parent)
        return reach

    def _check_plain(self, id: str, plain: Sequence[Event]) -> None:
        """Denied if events in plain text are not those that are known near."""
        if self._takes_plain or not plain:
            return
        for event in plain:
            if not self._is_near(id, event):
                said = f"{self.url}: {id}: event {event.seq} is there in plain text, so that"
                raise Denied(f"{said} anybody there may have written it", hint=TAKE_PLAIN)

    def _is_near(self, id: str, event: Event) -> bool:
        try:
            same = self._near.read(id, after=event.seq - 1, last=event.seq, limit=1)
        except NotFound:
            return False
        return bool(same) and same[0].chain == event.chain

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
        """The far chain at the head `expect`, on top of which these events go; None if they are
        there already. Conflict if the far log does not end there."""
        head, chain = self._heads.get(id, (0, codec.ZERO))
        if head == expect and head:
            return chain
        about = tails.about(self.far, id)
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
        """Whatever can be read and decrypted; a text in the place of what cannot."""
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
        """Denied: a far log is not repaired by whoever only has its key."""
        said = f"{conversation} is encrypted in {self.url}, and is not repaired there"
        raise Denied(said, hint="repair it near; delete it there, and sync again")

    # --- what is derived ---

    def bookmark(self, conversation: str) -> bytes | None:
        hidden = self.far.bookmark(conversation)
        if hidden is None:
            return None
        for key in self.keys.keys:
            try:
                return cipher.decrypt(key.derived(BOOKMARKS), hidden, conversation.encode())
            except cipher.Changed:
                continue  # of another key, or made by somebody else: it can be made again
        return None

    def keep_bookmark(self, conversation: str, data: bytes) -> None:
        secret = self.keys.newest.derived(BOOKMARKS)
        hidden = cipher.encrypt(secret, bytes(data), conversation.encode())
        self.far.keep_bookmark(conversation, hidden)

    def derived_path(self, name: str) -> str | None:
        """None: what is derived of a far store that nobody may read lies beside the near one."""
        return None

    # --- contents ---

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        """Encrypts the bytes and keeps them far. They are hashed first: their key follows from
        their digest."""
        hasher = codec.content_hasher()
        with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as file:
            try:
                for chunk in chunks:
                    hasher.update(chunk)
                    file.write(chunk)
            except TypeError as error:
                raise checks.not_bytes(error) from error
            file.seek(0)
            digest = str(hasher.hexdigest())
            there = self.far.put(content.content_encrypted(file, digest, self.keys.newest))
        self._keep_content(digest, there)
        return digest

    def get(self, digest: str) -> Iterator[bytes]:
        there = self._place_of(digest)
        if there is None:
            raise checks.no_artifact(digest)
        what = f"{self.url}: the artifact {codec.artifact_id(digest)}"
        try:
            chunks = self.far.get(there)
        except Corrupt as error:
            raise Corrupt(f"{what} is damaged there: {error.message}", hint=error.hint) from error
        if there == digest:
            return chunks
        return content.decrypted(chunks, digest, self.keys, what)

    def location(self, digest: str) -> str | None:
        """None: no file there holds the bytes as they are."""
        codec.digest_checked(digest)
        return None

    def drop(self, digest: str, *, before_ms: int) -> bool:
        there = self._place_of(digest)
        return there is None or self.far.drop(there, before_ms=before_ms)

    def drop_place(self, place: str, digest: str) -> None:
        """Drops what lies in one place of the far store, where the content of this digest, if it is
        known, is to lie no more; Conflict if it stays."""
        if not self.far.drop(place, before_ms=ANY_TIME_MS):
            said = f"{self.url}: the artifact {codec.artifact_id(place)} is still there"
            raise Conflict(said, head=0, hint="apply the key again")
        if self._known.contents.get(digest) == place:
            del self._known.contents[digest]

    def _place_of(self, digest: str) -> str | None:
        """Where the far store keeps a content. It is never asked for a digest that it did not see:
        a digest tells whoever guesses a content that the guess is right."""
        return self._known.contents.get(codec.digest_checked(digest))

    def learn_place(self, id: str, seq: int, digest: str) -> None:
        """Finds where a content lies whose event is known near: that stands in the far envelope,
        also once the event is erased. Whoever asks whether it is there must not be told no because
        nobody remembers where."""
        if self._place_of(digest) is not None:
            return
        for event in self.far.read(id, after=seq - 1, last=seq, limit=1):
            found = self._opened(id, event)
            there = digest if found is None else found.envelope.content
            if there:
                self._keep_content(digest, there)

    def _content_of(self, event: Event) -> str:
        named = [self._place_of(artifact.digest) for artifact in tails.contents_of([event])]
        return named[0] or "" if named else ""

    def _keep_content(self, digest: str, there: str) -> None:
        if self._known.contents.get(digest) != there:
            self._known.contents[digest] = there
            self._is_news = True

    # --- the rest ---

    def listen(self, cursor: str = "") -> Listening:
        """What the far store tells of; ids and heads are the near ones."""
        listen: Callable[[str], Listening] = self.far.listen  # type: ignore[attr-defined]
        return listen(cursor)

    def flush(self) -> None:
        self.far.flush()
        self.keep_known()

    def close(self) -> None:
        self.keep_known()
        self.far.close()

    def keep_known(self) -> None:
        """Writes what was learnt, so that the next process need not read it again."""
        if self._is_news:
            self._is_news = False
            write(self._path, self._known)


NAME = "sync-encrypted.json"


class KnownChains(Struct, kw_only=True):
    """By conversation the far chain and the near one that it stands for; by digest of a content
    its digest in the far store, the same where it lies there as it is."""

    ends: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)


def is_kept(path: str | None) -> bool:
    """Whether the near store was synced with a key, also if nothing can be read of it."""
    return path is not None and os.path.lexists(path)


def read(path: str | None) -> KnownChains:
    """What is known; nothing where the file is lost."""
    try:
        with disk.open_regular(path or "") as file:
            return decoding.decode(file.read(), KnownChains)
    except (OSError, RefoldError, msgspec.DecodeError, UnicodeDecodeError):
        return KnownChains()


def write(path: str | None, known: KnownChains) -> None:
    """Adds what is known to what others keep there, where there is a place for it; that it cannot
    costs nothing more than a lost file does."""
    if path is None or not os.path.isdir(os.path.dirname(path)):
        return
    kept = read(path)
    kept.ends |= known.ends
    kept.contents |= known.contents
    with suppress(OSError):
        disk.replace_file(path, msgspec.json.encode(kept))
