"""A near store that is synced with a far one: `hybrid:NEAR?far=URL`.

It is its near store for every read and write; nothing far is touched on the way of an append. A
conversation that is unknown near and known far is fetched when it is first asked for, with the same
ids and chains; a far store that does not answer then is not asked again for a while, so that work
goes on without it. `sync` makes both sides the same. A log that a sync has replaced is told to
whoever holds it open (`goes_on`), and an append that was sealed for the old one is refused.
Neighbours: `exchange` and `rounds` sync, `address` reads the URL, `worker` syncs by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from refold.core import codec
from refold.core.model import Conversation, Event
from refold.errors import Denied, Invalid, NotFound, RefoldError, Unavailable
from refold.stores import checks, erase_events
from refold.stores.hybrid import devices, record
from refold.stores.hybrid import rounds as hold
from refold.stores.hybrid.exchange import Exchange, all_conversations
from refold.stores.hybrid.record import Moves
from refold.stores.hybrid.rounds import Rounds, Timing
from refold.stores.hybrid.worker import Worker
from refold.stores.protocol import (
    WAITING,
    Device,
    Listening,
    Losses,
    Recovery,
    Redact,
    Salvage,
    Store,
    Synced,
    SyncListener,
    SyncMark,
    SyncReport,
    SyncStatus,
)

if TYPE_CHECKING:
    from refold.stores.encrypted.store import EncryptedStore

SILENCE_S = 30.0  # so long a far store that did not answer is not asked for what is unknown
FAR_STORE = "far store"
T = TypeVar("T")


class HybridStore:
    """Keeps logs and artifacts near, and syncs them; satisfies `Store`. `far` opens the far store
    when it is needed first."""

    def __init__(
        self,
        near: Store,
        far: Callable[[], Store],
        *,
        url: str,
        far_url: str = "",
        sync_s: float = 0.0,
        listens: bool = False,
        redact: Redact = "",
        read_only: bool = False,
        timing: Timing | None = None,
    ) -> None:
        self.url, self.near, self.far_url = url, near, far_url
        self._append_near = near.append
        self._open_far = far
        self.redact, self._timing = redact, timing
        self._check = partial(hold.check_events, near) if redact else None
        self._read_only = read_only
        self.moves = Moves(near.derived_path("sync-moves.jsonl"), read_only=read_only)
        self._silent_until = 0.0
        listen = self._listen if listens else None
        work = partial(Worker, self._sync_quietly, listen=listen, is_news=self._is_news)
        self._worker = work(sync_s) if sync_s > 0 else None

    @property
    def recovered(self) -> Sequence[Recovery]:
        return self.near.recovered

    @property
    def path(self) -> str:
        """Where the near store lies, if it lies in a file or folder."""
        return getattr(self.near, "path", "") or getattr(self.near, "root", "")

    @property
    def far(self) -> Store:
        if self._far is not None:
            return self._far
        opened = self._open_far()
        # Another thread may have been faster.
        far: Store = self.__dict__.setdefault(FAR_STORE, opened)
        if far is not opened:
            opened.close()
        return far

    @property
    def _far(self) -> Store | None:
        """The far store, if it was needed yet."""
        return self.__dict__.get(FAR_STORE)

    # --- syncing ---

    def sync(
        self,
        ids: Sequence[str] = (),
        *,
        skip_blocked: bool = False,
        new_far: bool = False,
        takes_plain: bool = False,
        progress: SyncListener | None = None,
    ) -> SyncReport:
        """Makes both sides the same, for these conversations or all."""
        if self._read_only:
            said = f"cannot sync: {self.near.url} is open for reading only"
            raise Denied(said, hint="open it without read_only=True to sync")
        far = self.encrypted().taking_plain() if takes_plain else self.far
        exchange = Exchange(self.near, far, self.moves, check=self._check, progress=progress)
        rounds = Rounds(self.near, far, exchange, far_url=self.far_url, timing=self._timing)
        report = rounds.run(ids, skip_blocked=skip_blocked, new_far=new_far)
        keep: Callable[[], None] | None = getattr(far, "keep_known", None)
        if keep is not None:
            keep()
        return report

    def encrypted(self) -> EncryptedStore:
        """The far store as one with a key; Invalid if it has none."""
        from refold.stores.encrypted.store import EncryptedStore

        if not isinstance(self.far, EncryptedStore):
            raise Invalid(
                f"{self.far_url} is synced without a key", hint="add &key=FILE to the URL"
            )
        return self.far

    def encrypt_again(self) -> dict[str, str]:
        """Encrypts again what lies far in plain text or by an older key; what was, by id."""
        from refold.stores.encrypted.renewal import renew

        return renew(self.near, self.encrypted(), lambda: self.sync(new_far=True))

    def _sync_quietly(self, ids: Sequence[str]) -> bool:
        """A sync that nobody waits for; its reasons stand in the record."""
        return self.sync(ids, skip_blocked=True).is_done

    def _listen(self, cursor: str) -> Listening:
        listen: Callable[[str], Listening] = self.far.listen  # type: ignore[attr-defined]
        return listen(cursor)

    def _is_news(self, conversation: str, head: int) -> bool:
        """Whether a head that the far store told of is unknown here, and of interest."""
        near_head = self.near.head(conversation)
        if near_head is None:
            return conversation not in self._record().deleted
        return near_head != head

    def sync_status(self, ids: Sequence[str] = ()) -> SyncStatus:
        """How these conversations stand, or all, without asking the far store; what is only there
        and could not be fetched is among them."""
        kept = self._record()
        found = [self._stands(id, kept) for id in ids] if ids else self._all_stand(kept)
        return SyncStatus(
            near=self.near.url,
            far=self.far_url,
            device=kept.device,
            at_ms=kept.at_ms,
            reason=kept.reason,
            conversations=tuple(found),
        )

    def losses(self, ids: Sequence[str] = (), *, besides: Set[str] = frozenset()) -> Losses:
        """What the far store had of these conversations, or of all, and has no more."""
        found = hold.found(self.near, self.far, self._record(), ids, besides)
        if not self._read_only:
            with record.locked(self._record_path):
                kept = self._record()
                hold.note(kept, found, ids, besides)
                record.write(self._record_path, kept)
        return found

    def _stands(self, id: str, kept: record.Record) -> Synced:
        try:
            return record.standing(self.near.conversation(id), kept)
        except NotFound:
            stood = record.stood(id, kept)
            if stood is None or stood.state not in WAITING:
                raise
            return stood

    def _all_stand(self, kept: record.Record) -> list[Synced]:
        found = {about.id: record.standing(about, kept) for about in all_conversations(self.near)}
        for id in kept.conversations.keys() - found.keys() - set(kept.deleted):
            stood = record.stood(id, kept)
            if stood is not None and stood.state in WAITING:
                found[id] = stood
        return [found[id] for id in sorted(found)]

    def devices(self) -> list[Device]:
        """The devices that sync with the far store, as the last whole sync found them."""
        kept = self._record()
        return [
            Device(name=one.name, at_ms=one.at_ms, is_here=one.name == kept.device)
            for one in devices.listed(kept)
        ]

    def forget_device(self, name: str) -> None:
        """Lists a device no more, anywhere, until it syncs again."""
        with record.locked(self._record_path):
            kept = self._record()
            devices.forget(kept, self.far, name, checks.now_ms())
            record.write(self._record_path, kept)

    def sync_mark(self) -> SyncMark:
        return record.mark(self._record_path)

    def stood(self, conversation: str) -> Synced | None:
        return record.stood(conversation, self._record())

    @property
    def _record_path(self) -> str | None:
        return self.near.derived_path("sync.json")

    def _record(self) -> record.Record:
        return record.read(self._record_path, self.far_url)

    def goes_on(self, conversation: str, head: int, chain: bytes) -> str:
        """The conversation in which a log goes on that was read up to `head`, if a sync has put
        another in its place since; empty if it goes on as it is."""
        forks = self.moves.of(conversation)
        if not forks or not head or self._has(conversation, head, chain):
            return ""
        return next((fork for fork in forks if self._has(fork, head, chain)), conversation)

    def _has(self, conversation: str, seq: int, chain: bytes) -> bool:
        try:
            found = self.near.read(conversation, after=seq - 1, last=seq, limit=1)
        except NotFound:
            return False
        return bool(found) and found[0].chain == chain

    # --- logs ---

    def conversations(self, *, after: str = "", limit: int = 100) -> list[Conversation]:
        return self.near.conversations(after=after, limit=limit)

    def head(self, conversation: str) -> int | None:
        head = self.near.head(conversation)
        if head is None and self._ask_far(lambda far: self._fetch(far, conversation)):
            head = self.near.head(conversation)
        return head

    def conversation(self, conversation: str) -> Conversation:
        return self._fetched(conversation, lambda: self.near.conversation(conversation))

    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        try:
            return self.near.read(conversation, after=after, last=last, limit=limit)
        except NotFound:
            return self._fetched(
                conversation,
                lambda: self.near.read(conversation, after=after, last=last, limit=limit),
            )

    def append(self, conversation: str, events: Sequence[Event], *, expect: int) -> None:
        if not expect and self.redact:
            hold.check_id(conversation)
        moves = self.moves
        is_replaced = moves.enter(conversation)
        try:
            if is_replaced and expect:
                self._check_top(conversation, events, expect)
            self._append_near(conversation, events, expect=expect)
        finally:
            moves.leave()
        if self._worker is not None:
            self._worker.wake(conversation)

    def _check_top(self, conversation: str, events: Sequence[Event], expect: int) -> None:
        """Conflict if the events were not sealed on top of the log as it is now."""
        found = self.near.read(conversation, after=expect - 1, last=expect, limit=1)
        if found and events and not codec.continues(events[0], found[0].chain):
            kept = self.near.read(conversation, after=expect, limit=len(events))
            if not (len(kept) == len(events) and checks.is_repeat(kept, events)):
                raise checks.moved(conversation, expect, self.near.conversation(conversation).head)

    def bookmark(self, conversation: str) -> bytes | None:
        if self._worker is not None:
            self._worker.begin()  # whoever opens a conversation wants to hear of others
        return self.near.bookmark(conversation)

    def keep_bookmark(self, conversation: str, data: bytes) -> None:
        self.near.keep_bookmark(conversation, data)

    def fork(self, conversation: str, at: int, new: str) -> None:
        if self.redact:
            hold.check_id(new)
        self._fetched(conversation, lambda: self.near.fork(conversation, at, new))

    def erase(self, conversation: str, seq: int) -> None:
        self._fetched(conversation, lambda: self.near.erase(conversation, seq))

    def erase_many(self, conversation: str, seqs: Sequence[int]) -> None:
        """Several events of a log at once, where the near store can."""
        self._fetched(conversation, lambda: erase_events(self.near, conversation, seqs))

    def delete(self, conversation: str) -> None:
        self._fetched(conversation, lambda: self._delete_near(conversation))

    def _delete_near(self, conversation: str) -> None:
        """Deletes, and notes it, so that no sync fetches it again."""
        with record.locked(self._record_path):
            self.near.delete(conversation)
            kept = self._record()
            kept.deleted.append(conversation)
            record.write(self._record_path, kept)

    def salvage(self, conversation: str) -> Salvage:
        return self._fetched(conversation, lambda: self.near.salvage(conversation))

    def rewrite(
        self, conversation: str, events: Sequence[Event], *, after: int, seen: Salvage
    ) -> str:
        return self.near.rewrite(conversation, events, after=after, seen=seen)

    # --- contents ---

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        return self.near.put(chunks, suffix=suffix)

    def get(self, digest: str) -> Iterator[bytes]:
        try:
            return self.near.get(digest)
        except NotFound:
            if not self._ask_far(lambda far: self.near.put(far.get(digest))):
                raise
            return self.near.get(digest)

    def location(self, digest: str) -> str | None:
        return self.near.location(digest)

    def drop(self, digest: str, *, before_ms: int) -> bool:
        return self.near.drop(digest, before_ms=before_ms)

    def derived_path(self, name: str) -> str | None:
        return self.near.derived_path(name)

    # --- what is unknown near ---

    def _fetched(self, conversation: str, work: Callable[[], T]) -> T:
        """What a near call gives, after the conversation was fetched if it is unknown near."""
        try:
            return work()
        except NotFound:
            if not self._ask_far(lambda far: self._fetch(far, conversation)):
                raise
            return work()

    def _fetch(self, far: Store, conversation: str) -> None:
        known = far.conversation(conversation)
        if conversation in self._record().deleted:
            raise checks.unknown(known.id)
        exchanged = Exchange(self.near, far, self.moves, check=self._check).sync(conversation)
        with record.locked(self._record_path):
            kept = self._record()
            state = record.ConversationState(
                state="synced", head=exchanged.head, missing=tuple(exchanged.missing)
            )
            kept.conversations[conversation] = state
            record.write(self._record_path, kept)

    def _ask_far(self, ask: Callable[[Store], object]) -> bool:
        """Whether the far store had what is unknown near, and it is here now."""
        if self._read_only or time.monotonic() < self._silent_until:
            return False
        try:
            ask(self.far)
        except Unavailable:
            self._silent_until = time.monotonic() + SILENCE_S
            return False
        except RefoldError:
            return False  # the next sync says why
        return True

    # --- the end ---

    def flush(self) -> None:
        self.near.flush()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self.near.close()
        self.moves.close()
        if self._far is not None:
            self._far.close()
