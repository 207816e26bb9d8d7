"""A near store that is synced with a far one: `hybrid:NEAR?far=URL`.

Every read and write goes to the near store; an append makes no far call. A conversation that only
the far store has is fetched at its first use, with the same ids and chains; a far store that does
not answer then is left alone for a while, so that work continues without it. `sync` makes both
sides the same. The holder of a log that a sync has replaced learns its successor (`goes_on`), and
an append sealed for the old log is refused. Neighbours: `conversation_sync` and `full_sync` sync,
`address` parses the URL, `automatic_sync` syncs automatically.
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
from refold.stores.hybrid import devices, full_sync, sync_record
from refold.stores.hybrid.automatic_sync import Worker
from refold.stores.hybrid.conversation_sync import Exchange, all_conversations
from refold.stores.hybrid.full_sync import Rounds, Timing
from refold.stores.hybrid.sync_record import Moves
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

SILENCE_S = 30.0  # no fetches for this time after a far store did not answer
FAR_STORE = "far store"
T = TypeVar("T")


@checks.checked_store
class HybridStore:
    """Keeps logs and artifacts near, and syncs them; satisfies `Store`. `far` opens the far store
    at its first use."""

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
        self._check = partial(full_sync.check_events, near) if redact else None
        self._read_only = read_only
        self.moves = Moves(near.derived_path("sync-moves.jsonl"), read_only=read_only)
        self._silent_until = 0.0
        self.worker: Worker | None = None
        if sync_s > 0:
            self.worker = Worker(
                lambda ids: self.sync(ids, skip_blocked=True).is_done,
                sync_s,
                listen=self._listen if listens else None,
                is_news=self._is_news,
            )

    @property
    def recovered(self) -> Sequence[Recovery]:
        return self.near.recovered

    @property
    def path(self) -> str:
        """The path of the near store, if it has one."""
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
        """The far store, if it is open."""
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
            message = f"cannot sync: {self.near.url} is open for reading only"
            raise Denied(message, hint="open it without read_only=True to sync")
        far = self.encrypted().taking_plain() if takes_plain else self.far
        exchange = Exchange(self.near, far, self.moves, check=self._check, progress=progress)
        sync = Rounds(self.near, far, exchange, far_url=self.far_url, timing=self._timing)
        report = sync.run(ids, skip_blocked=skip_blocked, new_far=new_far)
        keep: Callable[[], None] | None = getattr(far, "keep_known", None)
        if keep is not None:
            keep()
        return report

    def encrypted(self) -> EncryptedStore:
        """The far store, which must be encrypted; Invalid without a key."""
        from refold.stores.encrypted.store import EncryptedStore

        if not isinstance(self.far, EncryptedStore):
            raise Invalid(
                f"{self.far_url} is synced without a key", hint="add &key=FILE to the URL"
            )
        return self.far

    def encrypt_again(self) -> dict[str, str]:
        """Encrypts far events in plain text or by an older key with the newest key; returns what
        was outdated, by conversation."""
        from refold.stores.encrypted.key_rotation import renew

        return renew(self.near, self.encrypted(), lambda: self.sync(new_far=True))

    def _listen(self, cursor: str) -> Listening:
        listen: Callable[[str], Listening] = self.far.listen  # type: ignore[attr-defined]
        return listen(cursor)

    def _is_news(self, conversation: str, head: int) -> bool:
        """Whether a head announced by the far store is new here and wanted."""
        near_head = self.near.head(conversation)
        if near_head is None:
            return conversation not in self._record().deleted
        return near_head != head

    def sync_status(self, ids: Sequence[str] = ()) -> SyncStatus:
        """The sync state of these conversations, or of all, without asking the far store; includes
        those that could not be fetched."""
        kept = self._record()
        states = [self._state_of(id, kept) for id in ids] if ids else self._states(kept)
        return SyncStatus(
            near=self.near.url,
            far=self.far_url,
            device=kept.device,
            at_ms=kept.at_ms,
            reason=kept.reason,
            conversations=tuple(states),
        )

    def losses(self, ids: Sequence[str] = (), *, besides: Set[str] = frozenset()) -> Losses:
        """The events of these conversations, or of all, that the far store has lost."""
        losses = full_sync.losses_in(self.near, self.far, self._record(), ids, besides)
        if not self._read_only:
            with sync_record.locked(self._record_path):
                kept = self._record()
                full_sync.record_losses(kept, losses, ids, besides)
                sync_record.write(self._record_path, kept)
        return losses

    def _state_of(self, id: str, kept: sync_record.Record) -> Synced:
        try:
            return sync_record.current_state(self.near.conversation(id), kept)
        except NotFound:
            last = sync_record.last_state(id, kept)
            if last is None or last.state not in WAITING:
                raise
            return last

    def _states(self, kept: sync_record.Record) -> list[Synced]:
        near = all_conversations(self.near)
        states = {about.id: sync_record.current_state(about, kept) for about in near}
        for id in kept.conversations.keys() - states.keys() - set(kept.deleted):
            last = sync_record.last_state(id, kept)
            if last is not None and last.state in WAITING:
                states[id] = last
        return [states[id] for id in sorted(states)]

    def devices(self) -> list[Device]:
        """The devices that sync with the far store, as of the last complete sync."""
        kept = self._record()
        listed = [
            Device(name=one.name, at_ms=one.at_ms, is_here=one.name == kept.device)
            for one in kept.devices.values()
            if not one.is_forgotten
        ]
        return sorted(listed, key=lambda one: (-one.at_ms, one.name))

    def forget_device(self, name: str) -> None:
        """Removes a device from the list, on all devices, until it syncs again."""
        with sync_record.locked(self._record_path):
            kept = self._record()
            devices.forget(kept, self.far, name, checks.now_ms())
            sync_record.write(self._record_path, kept)

    def sync_mark(self) -> SyncMark:
        return sync_record.mark(self._record_path)

    def last_sync(self, conversation: str) -> Synced | None:
        return sync_record.last_state(conversation, self._record())

    @property
    def _record_path(self) -> str | None:
        return self.near.derived_path("sync.json")

    def _record(self) -> sync_record.Record:
        return sync_record.read(self._record_path, self.far_url)

    def goes_on(self, conversation: str, head: int, chain: bytes) -> str:
        """The successor of a log that was read up to `head`, if a sync has replaced it since; empty
        otherwise."""
        forks = self.moves.successors(conversation)
        if not forks or not head or self._has(conversation, head, chain):
            return ""
        return next((fork for fork in forks if self._has(fork, head, chain)), conversation)

    def _has(self, conversation: str, seq: int, chain: bytes) -> bool:
        try:
            events = self.near.read(conversation, after=seq - 1, last=seq, limit=1)
        except NotFound:
            return False
        return bool(events) and events[0].chain == chain

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
        return self._fetched(
            conversation, lambda: self.near.read(conversation, after=after, last=last, limit=limit)
        )

    def append(self, conversation: str, events: Sequence[Event], *, expect: int) -> None:
        if not expect and self.redact:
            full_sync.check_id(conversation)
        moves = self.moves
        is_replaced = moves.enter(conversation)
        try:
            if is_replaced and expect:
                self._check_top(conversation, events, expect)
            self._append_near(conversation, events, expect=expect)
        finally:
            moves.leave()
        if self.worker is not None:
            self.worker.wake(conversation)

    def _check_top(self, conversation: str, events: Sequence[Event], expect: int) -> None:
        """Raises Conflict unless the events were sealed on top of the current log."""
        top = self.near.read(conversation, after=expect - 1, last=expect, limit=1)
        if top and events and not codec.continues(events[0], top[0].chain):
            kept = self.near.read(conversation, after=expect, limit=len(events))
            if not (len(kept) == len(events) and checks.is_repeat(kept, events)):
                raise checks.moved(conversation, expect, self.near.conversation(conversation).head)

    def bookmark(self, conversation: str, *, at: int | None = None) -> bytes | None:
        if self.worker is not None:
            self.worker.begin()  # opening a conversation starts the automatic sync
        return self.near.bookmark(conversation, at=at)

    def keep_bookmark(self, conversation: str, data: bytes, *, at: int | None = None) -> None:
        self.near.keep_bookmark(conversation, data, at=at)

    def fork(self, conversation: str, at: int, new: str) -> None:
        if self.redact:
            full_sync.check_id(new)
        self._fetched(conversation, lambda: self.near.fork(conversation, at, new))

    def erase(self, conversation: str, seq: int) -> None:
        self._fetched(conversation, lambda: self.near.erase(conversation, seq))

    def erase_many(self, conversation: str, seqs: Sequence[int]) -> None:
        """Erases several events of a log, all at once if the near store can."""
        self._fetched(conversation, lambda: erase_events(self.near, conversation, seqs))

    def delete(self, conversation: str) -> None:
        self._fetched(conversation, lambda: self._delete_near(conversation))

    def _delete_near(self, conversation: str) -> None:
        """Deletes the conversation and records that, so that no sync fetches it again."""
        with sync_record.locked(self._record_path):
            self.near.delete(conversation)
            kept = self._record()
            kept.deleted.append(conversation)
            sync_record.write(self._record_path, kept)

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

    # --- fetching ---

    def _fetched(self, conversation: str, work: Callable[[], T]) -> T:
        """Calls the near store, after fetching the conversation if it is unknown there."""
        try:
            return work()
        except NotFound:
            if not self._ask_far(lambda far: self._fetch(far, conversation)):
                raise
            return work()

    def _fetch(self, far: Store, conversation: str) -> None:
        if far.head(conversation) is None or conversation in self._record().deleted:
            raise checks.unknown(conversation)
        exchanged = Exchange(self.near, far, self.moves, check=self._check).sync(conversation)
        with sync_record.locked(self._record_path):
            kept = self._record()
            state = sync_record.ConversationState(
                state="synced", head=exchanged.head, missing=tuple(exchanged.missing)
            )
            kept.conversations[conversation] = state
            sync_record.write(self._record_path, kept)

    def _ask_far(self, ask: Callable[[Store], object]) -> bool:
        """Fetches a missing conversation or content. Returns whether the far store had it."""
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
        if self.worker is not None:
            self.worker.close()
        self.near.close()
        self.moves.close()
        if self._far is not None:
            self._far.close()
