"""The protocol of a store: it keeps logs and artifacts, and never thinks.

A store returns exactly the events it was given, appends all of a batch or nothing, and raises only
errors of refold. An `append` that returned survives kill -9; after `flush` it survives power loss.
All methods may be called from several threads. One suite (`contract/`) checks every store.

Further protocols are for some stores only: syncing with another store (`SyncedStore`), hints
between the processes that share a place (`Hints`), and a search index beside the logs (`Terms`),
used by `search.store_index`, implemented by `postgres.search_index`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from msgspec import Struct

from refold.core.model import Conversation, Event
from refold.errors import Unavailable


class Recovery(Struct, frozen=True, kw_only=True):
    """A torn tail that was moved aside: its write was never acknowledged."""

    conversation: str
    file: str
    size_bytes: int


class Salvage(Struct, frozen=True, kw_only=True):
    """The content of a log that may be damaged: its events in stored order, inherited ones first,
    and a message for each unreadable piece. `parent_seq` is where the log leaves its parent; `copy`
    is a file with the whole broken store, if it had to be rebuilt to read this log."""

    pieces: tuple[Event | str, ...]
    parent: str = ""
    parent_seq: int = 0
    copy: str = ""


class Store(Protocol):
    """Keeps logs and artifacts. `url` names its place to a person, and opens it again if
    `open_store` knows the scheme."""

    url: str

    @property
    def recovered(self) -> Sequence[Recovery]:
        """The torn tails moved aside since the store was opened, oldest first."""

    def conversations(self, *, after: str = "", limit: int = 100) -> list[Conversation]:
        """A page of conversations by id, from the first above `after`."""

    def head(self, conversation: str) -> int | None:
        """The seq of the newest event; None if there is no such conversation."""

    def conversation(self, conversation: str) -> Conversation:
        """One conversation, or NotFound."""

    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        """Events with after < seq <= last, in order, at most `limit`. An unknown conversation is
        NotFound."""

    def append(self, conversation: str, events: Sequence[Event], *, expect: int) -> None:
        """Writes all events on top of head `expect`, or raises Conflict and writes none. Creates
        at expect=0."""

    def bookmark(self, conversation: str, *, at: int | None = None) -> bytes | None:
        """The latest bookmark; with `at`, the newest one kept for a position up to that seq, by the
        conversation or those it was forked from. None if it is missing or cannot be trusted."""

    def keep_bookmark(self, conversation: str, data: bytes, *, at: int | None = None) -> None:
        """Replaces the bookmark; with `at`, keeps another one for that seq. Bookmarks are
        disposable: a store may lose them at any time, and need not keep any for a position."""

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        """Keeps bytes once, streamed and hashed on the way; returns their sha256 in hex."""

    def get(self, digest: str) -> Iterator[bytes]:
        """The bytes, in chunks, or NotFound; Corrupt if they no longer match the digest."""

    def location(self, digest: str) -> str | None:
        """The path of the plain file with the bytes, which an agent can grep; None if the store has
        no such file. Open it with `disk.open_regular`."""

    def drop(self, digest: str, *, before_ms: int) -> bool:
        """Removes the bytes for all conversations, unless they were put, perhaps again, at or
        after that time. True once they are gone. The caller checks first that no conversation
        needs them: see `refold.artifacts.cleanup`."""

    def derived_path(self, name: str) -> str | None:
        """Path for a derived file of this name, such as a search index, for this store alone. The
        folder exists after the first write. None for a store without a place on this disk."""

    def fork(self, conversation: str, at: int, new: str) -> None:
        """Creates a conversation that shares the log up to `at`; reads below come from the
        parent."""

    def erase(self, conversation: str, seq: int) -> None:
        """Removes body and salt of one event from every file; the envelope stays."""

    def delete(self, conversation: str) -> None:
        """Removes the conversation. Conflict while forks still read from it."""

    def salvage(self, conversation: str) -> Salvage:
        """Everything readable of a log, however damaged it is; NotFound without one."""

    def rewrite(
        self, conversation: str, events: Sequence[Event], *, after: int, seen: Salvage
    ) -> str:
        """Replaces the conversation's own events by these, all or nothing. `after` is where it
        leaves its parent; 0 detaches it. The old log is kept in a file until an event of it is
        erased or it is deleted; returns that path, empty if the store has no place on this disk.
        Conflict if the log has changed since it was `seen`."""

    def flush(self) -> None:
        """Everything acknowledged so far survives power loss once this returns."""

    def close(self) -> None:
        """Flushes, and closes every file. A closed store may be closed again."""


class Overtaken(Unavailable):
    """Another writer appended to a log while a batch for it was being prepared: none of it is
    written."""


# --- a store that is synced with another ---


SyncState = Literal["pending", "synced", "forked", "blocked", "held"]
WAITING = ("pending", "blocked", "held")  # the states in which the two sides differ
SyncMark = tuple[int, int]  # changes with every sync of a store, in any process
Redact = Literal["", "append", "hold"]  # secrets: left, redacted before sealing, withheld
SyncListener = Callable[[str, int], None]  # a conversation and its newly transferred events


class Synced(Struct, frozen=True, kw_only=True):
    """Sync state of a conversation: `pending` events that the far store lacks, `synced`, `forked`
    into `fork`, `blocked` for a `reason`, or `held` because of a secret; and the progress of a sync
    on it, in events and contents."""

    conversation: str
    state: SyncState
    pending: int = 0
    pulled: int = 0
    pushed: int = 0
    contents: int = 0
    erased: int = 0
    fork: str = ""
    reason: str = ""


class SyncReport(Struct, frozen=True, kw_only=True):
    """Result of a sync: the conversations that it touched or that still differ, and the number of
    others, which are the `same` on both sides. `is_under_way`: another sync of this store is
    running, so this one did nothing. `reason` says why the far store could not be reached; if
    `is_refused`, access was denied, and a retry is pointless."""

    synced: tuple[Synced, ...] = ()
    same: int = 0
    is_under_way: bool = False
    reason: str = ""
    is_refused: bool = False

    @property
    def is_done(self) -> bool:
        """Whether both sides are the same."""
        is_waiting = any(one.state in WAITING for one in self.synced)
        return not (is_waiting or self.is_under_way or self.reason)


class Losses(Struct, frozen=True, kw_only=True):
    """Events missing in the far store that it had before, counted by conversation. `is_all`: every
    conversation is missing, as on a share that is not mounted."""

    events: dict[str, int]
    is_all: bool = False


class SyncStatus(Struct, frozen=True, kw_only=True):
    """Sync state of a store, without asking the far one: `at_ms` is the time of the last contact,
    `reason` the reason why it failed."""

    near: str
    far: str
    device: str
    at_ms: int = 0
    reason: str = ""
    conversations: tuple[Synced, ...] = ()


class Device(Struct, frozen=True, kw_only=True):
    """A device that syncs with a far store, and the hour of its last complete sync by its own
    clock. `is_here` marks this device."""

    name: str
    at_ms: int
    is_here: bool = False


class NewHeads(Struct, frozen=True, kw_only=True):
    """Changes in a far store: new heads by conversation, or `is_all` if the store cannot list them
    and all heads must be compared."""

    heads: dict[str, int]
    is_all: bool = False


class Listening(Protocol):
    """A stream of changes in a far store; another one can continue from `cursor`."""

    cursor: str

    def __iter__(self) -> Iterator[NewHeads]: ...

    def end(self) -> None:
        """Ends the stream, from any thread."""


class SyncedStore(Protocol):
    """The further methods of a store that is synced with another. `redact` says whether secrets are
    redacted before sealing, withheld, or left."""

    redact: Redact
    far_url: str

    @property
    def far(self) -> Store:
        """The far store, decrypted if there is a key."""

    def sync(
        self,
        ids: Sequence[str] = (),
        *,
        skip_blocked: bool = False,
        new_far: bool = False,
        takes_plain: bool = False,
        progress: SyncListener | None = None,
    ) -> SyncReport:
        """Makes both sides the same, for these conversations or all. `new_far` permits filling a
        far store that has lost everything. With a key, `takes_plain` accepts far events in plain
        text, which anyone could have written."""

    def encrypt_again(self) -> dict[str, str]:
        """Encrypts far events in plain text or by an older key with the newest key; returns what
        was outdated, by conversation. Conflict while the two sides differ."""

    def sync_status(self, ids: Sequence[str] = ()) -> SyncStatus:
        """Sync state of these conversations, or of all, as far as it is known here."""

    def losses(self, ids: Sequence[str] = (), *, besides: Set[str] = frozenset()) -> Losses:
        """Asks the far store for the heads of these conversations, or of all except `besides`, and
        returns the missing events. `sync_status` reports them from then on."""

    def devices(self) -> list[Device]:
        """The devices that sync with the far store, as of the last complete sync."""

    def forget_device(self, name: str) -> None:
        """Removes a device from the list, on all devices, until it syncs again. NotFound without a
        device of that name."""

    def sync_mark(self) -> SyncMark:
        """A value that changes with every sync of this store, in any process."""

    def last_sync(self, conversation: str) -> Synced | None:
        """State of a conversation after the last sync; None if it never took part in one."""

    def goes_on(self, conversation: str, head: int, chain: bytes) -> str:
        """The successor of a log that was read up to `head`, if a sync has replaced it: the id of
        the fork with the same events, or its own id to read it again; empty if nothing changed."""


# --- a store that knows what changed ---


class Changes(Struct, frozen=True, kw_only=True):
    """The conversations that may have changed, in the order of their last writing. The next call
    asks from `upto` on. With `has_deleted`, others may be gone, so ids must be compared."""

    upto: int
    conversations: tuple[Conversation, ...] = ()
    has_deleted: bool = False


class Changing(Protocol):
    """The further methods of a store that knows which conversations were written last, so that
    lists and indexes need not look at all of them. None: this database is of an older version."""

    def newest(
        self, *, after: Conversation | None = None, limit: int = 100
    ) -> list[Conversation] | None:
        """The conversations written last, by time and id; those after one in this order."""

    def changes(self, after: int, *, limit: int = 1_000) -> Changes | None:
        """The conversations that may have changed from a count on, oldest first; 0 is the
        beginning. The last one that changed is always among them."""

    def version(self) -> tuple[int, ...]:
        """A value that changes with every write to the store, by any process."""


# --- hints between the processes that share a place ---


class Hint(Struct, frozen=True):
    """A log of an org may have a new head; without a conversation, any log of the org may."""

    org: str
    conversation: str = ""
    head: int = 0


class HintReceiver(Protocol):
    """Receives the hints of other processes since it was opened."""

    def receive(self, wait_s: float) -> list[Hint]:
        """The next hints, as soon as there is one; empty after the wait. Unavailable once the
        connection is lost."""


class Hints(Protocol):
    """Hints between the processes that share a place. Delivery is not guaranteed: a hint only says
    where to look."""

    def publish(self, hints: Sequence[Hint]) -> None:
        """Sends hints to all receivers."""

    def receiver(self) -> AbstractContextManager[HintReceiver]:
        """A receiver for the block. Invalid if the connection can never deliver hints."""


# --- a search index beside the logs ---


class TermEntry(Struct, frozen=True, kw_only=True):
    """One entry of a search index: its position, its metadata and, when it is added, its terms with
    their offsets. Positions within a conversation and lane are consecutive."""

    conversation: str
    lane: int
    position: int
    seq: int
    at_ms: int
    words: int
    role: str
    tools: str
    author: str
    start: int
    asks: bool
    is_own: bool
    terms: Mapping[str, Sequence[int]] = {}


class TermMark(Struct, frozen=True, kw_only=True):
    """The indexed head of a conversation, and the conversation it was forked from."""

    head: int
    chain: bytes
    parent: str
    parent_seq: int


class TermLane(Struct, frozen=True, kw_only=True):
    """The number of entries in a lane, the sum of their lengths with borrowed context, and the
    lengths of the last two."""

    entries: int = 0
    context_words: float = 0.0
    last_words: tuple[int, ...] = ()


class Phrases(Struct, frozen=True):
    """Alternative sequences of terms; with `is_prefix`, the last term of each is a prefix."""

    phrases: tuple[tuple[str, ...], ...]
    is_prefix: bool = False


class TermQuery(Struct, frozen=True, kw_only=True):
    """A search query: all of these phrases, in these lanes, among the entries that pass the
    filters."""

    all_of: tuple[Phrases, ...]
    lanes: tuple[int, ...]
    role: str | None = None
    tool: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    without_own: bool = False


Scope = Mapping[str, int] | None  # conversations and their last seq to search; None: all
TermPlace = tuple[str, int, int]  # conversation, lane, position


class Terms(Protocol):
    """A search index that a store keeps with its logs: derived, and never used by an append. It
    matches and counts; `refold.search` ranks."""

    def marks(self, conversations: Sequence[str] | None = None) -> dict[str, TermMark]:
        """The indexed heads of these conversations, or of all."""

    def enter(self, conversation: str, mark: TermMark) -> None:
        """Registers a conversation, unless it is registered already."""

    def lanes(self, conversation: str) -> dict[int, TermLane]:
        """The lanes of a conversation."""

    def add(
        self,
        conversation: str,
        entries: Sequence[TermEntry],
        lanes: Mapping[int, TermLane],
        *,
        after: int,
        head: int,
        chain: bytes,
    ) -> bool:
        """Adds entries and moves the mark, all or nothing. False if the mark is not at `after`."""

    def forget(self, conversations: Sequence[str]) -> None:
        """Removes everything of these conversations."""

    def erase(self, conversation: str, seqs: Sequence[int]) -> None:
        """Removes the entries of these events."""

    def size(self, scope: Scope) -> tuple[int, float]:
        """The number of entries, and the sum of their lengths with borrowed context."""

    def authors(self, scope: Scope) -> dict[str, int]:
        """The number of entries by author."""

    def postings(self, sought: TermQuery, scope: Scope, most: int) -> list[tuple[TermPlace, int]]:
        """The newest matching entries, each with its number of matches."""

    def entries(self, places: Sequence[TermPlace]) -> list[TermEntry]:
        """The existing entries at these positions, without their terms."""
