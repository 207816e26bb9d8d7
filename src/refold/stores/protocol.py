"""What a store is: it keeps logs and artifacts, and never thinks.

One contract suite (`contract/`) holds for all of them. A store gives back the exact events it was
given, appends all of a batch or nothing, and raises only errors of the family. `append` that
returned survives kill -9; after `flush` it survives power loss. All methods may be called from
several threads.

What a store that finds words itself offers to search: entries of terms, and questions to them.

Only a store that a team shares has this: one index for all, kept where the logs are. Neighbours:
`protocol` is what every store is, `search.served` asks, `postgres.terms` answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from msgspec import Struct

from refold.core.model import Conversation, Event
from refold.errors import Unavailable


class Recovery(Struct, frozen=True, kw_only=True):
    """A torn tail that was moved aside: nobody was ever told that it had been written."""

    conversation: str
    file: str
    size_bytes: int


class Salvage(Struct, frozen=True, kw_only=True):
    """What lies in the place of a log that may be damaged: events in the order in which they lie,
    those of ancestors first, and a text in the place of what is not an event. `parent_seq` is
    where the log leaves its parent; `copy` is a file with what the whole store was, where it had to
    be written again before this log could be read."""

    pieces: tuple[Event | str, ...]
    parent: str = ""
    parent_seq: int = 0
    copy: str = ""


class Store(Protocol):
    """Keeps logs and artifacts. `url` names its place to a person, and opens it again where
    `open_store` knows the scheme."""

    url: str

    @property
    def recovered(self) -> Sequence[Recovery]:
        """What this store had to move aside since it was opened, oldest first."""
        ...

    def conversations(self, *, after: str = "", limit: int = 100) -> list[Conversation]:
        """Conversations by id, those above `after`."""
        ...

    def head(self, conversation: str) -> int | None:
        """The seq of the newest event; None if there is no such conversation."""
        ...

    def conversation(self, conversation: str) -> Conversation:
        """One conversation, or NotFound."""
        ...

    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        """Events with after < seq <= last, in order, at most `limit`. An unknown conversation is
        NotFound."""
        ...

    def append(self, conversation: str, events: Sequence[Event], *, expect: int) -> None:
        """Writes all events on top of head `expect`, or raises Conflict and writes none. Creates
        at expect=0."""
        ...

    def bookmark(self, conversation: str) -> bytes | None:
        """The bookmark that was kept last; None if there is none, or none that can be trusted."""
        ...

    def keep_bookmark(self, conversation: str, data: bytes) -> None:
        """Replaces the bookmark. It may be lost at any time: it can be made again."""
        ...

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        """Keeps bytes once, streamed and hashed on the way; gives their sha256 in hex."""
        ...

    def get(self, digest: str) -> Iterator[bytes]:
        """The bytes, in chunks, or NotFound; Corrupt if they no longer match the digest."""
        ...

    def location(self, digest: str) -> str | None:
        """The path of the plain file that holds the bytes, where there is one: an agent can grep
        it itself. Whoever reads it opens it by `disk.open_regular`."""
        ...

    def drop(self, digest: str, *, before_ms: int) -> bool:
        """Removes the bytes for all conversations, unless they were put, perhaps again, at or
        after that time. True once they are gone. Whether anybody still needs them is for the
        caller to know: see `refold.artifacts.cleanup`."""
        ...

    def derived_path(self, name: str) -> str | None:
        """Where a derived file of this name may lie, such as a search index: a path that belongs
        to this store alone. The folder is there once the store was written to. None for a store
        that has no place on this disk."""
        ...

    def fork(self, conversation: str, at: int, new: str) -> None:
        """A new conversation that shares the log up to `at`; reads below come from the parent."""
        ...

    def erase(self, conversation: str, seq: int) -> None:
        """Removes body and salt of one event, everywhere they are kept; the envelope stays."""
        ...

    def delete(self, conversation: str) -> None:
        """Removes the conversation. Conflict while forks still read from it."""
        ...

    def salvage(self, conversation: str) -> Salvage:
        """Whatever can be read of a log, however damaged it is; NotFound if there is none."""
        ...

    def rewrite(
        self, conversation: str, events: Sequence[Event], *, after: int, seen: Salvage
    ) -> str:
        """Puts these events in the place of the conversation's own, all or nothing. `after` is
        where it leaves its parent; at 0 it has none any more. What was there is kept in a file,
        until the conversation is erased from or deleted; gives its path, empty where the store
        has no place on this disk. Conflict if the log is no longer as it was `seen`."""
        ...

    def flush(self) -> None:
        """Everything acknowledged so far survives power loss once this returns."""
        ...

    def close(self) -> None:
        """Flushes, and lets go of every file. A closed store may be closed again."""
        ...


# --- what is written in batches ---


class Overtaken(Unavailable):
    """Somebody else wrote to a log while a batch for it was made: none of the batch is written."""


# --- a store that is synced with another ---


SyncState = Literal["pending", "synced", "forked", "blocked", "held"]
WAITING = ("pending", "blocked", "held")  # the states in which both sides are not the same
SyncMark = tuple[int, int]  # another one after every sync of a store, by whomever
Redact = Literal["", "append", "hold"]  # what becomes of secrets in a log that is shared
SyncListener = Callable[[str, int], None]  # a conversation, and how many more events went over


class Synced(Struct, frozen=True, kw_only=True):
    """How a conversation stands: `pending` events that the far store has not, `synced`, `forked`
    into `fork`, `blocked` for a `reason`, or `held` back because it has a secret; and what a sync
    did for it."""

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
    """What a sync did: the conversations that it touched or that are not the same on both sides,
    and how many others are. `is_under_way`: another sync of this store runs, and this one did
    nothing. `reason` says why the far store could not be asked; if it `is_refused`, the far
    store let nobody in, and trying again changes nothing."""

    synced: tuple[Synced, ...] = ()
    same: int = 0
    is_under_way: bool = False
    reason: str = ""
    is_refused: bool = False

    @property
    def is_done(self) -> bool:
        """Whether both sides are the same."""
        waiting = any(one.state in WAITING for one in self.synced)
        return not (waiting or self.is_under_way or self.reason)


class Losses(Struct, frozen=True, kw_only=True):
    """How many events the far store had, by conversation, and has no more. `is_all`: it has no
    conversation that it had, as a share that is not mounted has none."""

    events: dict[str, int]
    is_all: bool = False


class SyncStatus(Struct, frozen=True, kw_only=True):
    """How a store stands without asking the far one: `at_ms` is when it was asked last, `reason`
    why that failed."""

    near: str
    far: str
    device: str
    at_ms: int = 0
    reason: str = ""
    conversations: tuple[Synced, ...] = ()


class Device(Struct, frozen=True, kw_only=True):
    """A device that syncs with a far store: when it synced everything last, by its own clock, to
    the hour. `is_here` says that it is this one."""

    name: str
    at_ms: int
    is_here: bool = False


class NewHeads(Struct, frozen=True, kw_only=True):
    """What a far store says has changed: new heads by conversation, or `is_all` where it cannot
    say, and all heads are to be compared."""

    heads: dict[str, int]
    is_all: bool = False


class Listening(Protocol):
    """What a far store says while somebody listens; `cursor` is where another listening goes on."""

    cursor: str

    def __iter__(self) -> Iterator[NewHeads]: ...

    def end(self) -> None:
        """Ends the listening, from any thread."""
        ...


class SyncedStore(Protocol):
    """What a store that is synced with another does besides. `redact` says what becomes of
    secrets: they are taken out before they are sealed, held back, or left."""

    redact: Redact
    far_url: str

    @property
    def far(self) -> Store:
        """The far store, decrypted where there is a key."""
        ...

    def sync(
        self,
        ids: Sequence[str] = (),
        *,
        skip_blocked: bool = False,
        new_far: bool = False,
        takes_plain: bool = False,
        progress: SyncListener | None = None,
    ) -> SyncReport:
        """Makes both sides the same, for these conversations or all. `new_far` says that the far
        store may have lost all that it had: without it, such a one is not filled again. With a
        key, `takes_plain` takes in what lies there in plain text, which anybody could have
        written."""
        ...

    def encrypt_again(self) -> dict[str, str]:
        """Encrypts again, with the newest key, what lies far in plain text or by an older one;
        gives what was, by conversation. Conflict while the two sides are not the same."""
        ...

    def sync_status(self, ids: Sequence[str] = ()) -> SyncStatus:
        """How these conversations stand, or all, as far as that is known here."""
        ...

    def losses(self, ids: Sequence[str] = (), *, besides: Set[str] = frozenset()) -> Losses:
        """Asks the far store for the ends of these conversations, or of all besides some, and says
        what it had of them and has no more. `sync_status` says so, too, from then on."""
        ...

    def devices(self) -> list[Device]:
        """The devices that sync with the far store, as the last whole sync found them."""
        ...

    def forget_device(self, name: str) -> None:
        """Lists a device no more, anywhere, until it syncs again. NotFound if none is listed by
        that name."""
        ...

    def sync_mark(self) -> SyncMark:
        """Another value after every sync of this store, by whomever."""
        ...

    def stood(self, conversation: str) -> Synced | None:
        """How the last sync left a conversation; None if none has."""
        ...

    def goes_on(self, conversation: str, head: int, chain: bytes) -> str:
        """The conversation in which a log goes on that was read up to `head`, where a sync has put
        another in its place; empty if it goes on as it is, its own id if it is to be read again."""
        ...


# --- a store that keeps its search index itself ---


class Hint(Struct, frozen=True):
    """A log of an org may have a new head. Without a conversation: some log of the org may."""

    org: str
    conversation: str = ""
    head: int = 0


class Ear(Protocol):
    """Hears hints, from when it was given."""

    def heard(self, wait_s: float) -> list[Hint]:
        """What others told, as soon as one did; nothing after so long. Unavailable once the way
        is lost."""
        ...


class Hints(Protocol):
    """What all who use one place tell each other. Nothing is promised: a hint says where to
    look."""

    def tell(self, hints: Sequence[Hint]) -> None:
        """Tells everybody else who hears."""
        ...

    def hearing(self) -> AbstractContextManager[Ear]:
        """An ear, for as long as the block lasts. Invalid if nothing can ever be heard this
        way."""
        ...


class TermEntry(Struct, frozen=True, kw_only=True):
    """One entry of a search index: where it stands, what is known of it, and, on the way in, the
    terms it has with their places. Entries of one conversation and lane have positions that count
    up; neighbours are beside each other."""

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
    """How far a conversation is in a search index, and what it was forked from."""

    head: int
    chain: bytes
    parent: str
    parent_seq: int


class TermLane(Struct, frozen=True, kw_only=True):
    """How many entries a lane has had, the sum of their lengths with what they borrow, and the
    lengths of its last two."""

    entries: int = 0
    context_words: float = 0.0
    last_words: tuple[int, ...] = ()


class Phrases(Struct, frozen=True):
    """Any of these, each a sequence of terms; the last of them perhaps only as a beginning."""

    phrases: tuple[tuple[str, ...], ...]
    is_prefix: bool = False


class Sought(Struct, frozen=True, kw_only=True):
    """What is looked for: all of these, in these lanes, of those entries that pass."""

    all_of: tuple[Phrases, ...]
    lanes: tuple[int, ...]
    role: str | None = None
    tool: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    without_own: bool = False


Scope = Mapping[str, int] | None  # conversations and their last seq to look at; None: everywhere
TermPlace = tuple[str, int, int]  # conversation, lane, position


class Terms(Protocol):
    """A search index that a store keeps beside its logs: derived, and never asked by an append. It
    matches and counts; what is found, and in which order, is for `refold.search` to say."""

    def marks(self, conversations: Sequence[str] | None = None) -> dict[str, TermMark]:
        """How far these conversations are, or all of them."""
        ...

    def enter(self, conversation: str, mark: TermMark) -> None:
        """Makes a conversation known, unless it is."""
        ...

    def lanes(self, conversation: str) -> dict[int, TermLane]:
        """The lanes of a conversation."""
        ...

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
        ...

    def forget(self, conversations: Sequence[str]) -> None:
        """Removes everything of these conversations."""
        ...

    def erase(self, conversation: str, seqs: Sequence[int]) -> None:
        """Removes the entries of these events."""
        ...

    def size(self, scope: Scope) -> tuple[int, float]:
        """How many entries there are, and the sum of their lengths with what they borrow."""
        ...

    def authors(self, scope: Scope) -> dict[str, int]:
        """Who speaks, and how often."""
        ...

    def postings(self, sought: Sought, scope: Scope, most: int) -> list[tuple[TermPlace, int]]:
        """The newest entries that match, and how often."""
        ...

    def entries(self, places: Sequence[TermPlace]) -> list[TermEntry]:
        """Those entries that there are, without their terms."""
        ...
