"""An entry of a memory as a caller sees it, and how its id is made.

One event of a memory, and an entry as it stood for a while. Neighbour: `fold` makes them.

What a caller gives an entry, checked before anything is written.

What of the fold of a memory's log retrieve needs, without bodies: so the first question of a
process does not read the whole log.

The fold is maps from what is claimed, said or ended to the events that do so. A bookmark keeps them
as two columns, by hashes of the keys and by seq, and an event is read and its claim made again when
somebody asks for its key. So it has no words. It is kept in the index, made again when the log has
grown by much, and thrown away when something is forgotten. Neighbours: `fold` has the maps,
`journal` opens and keeps bookmarks.
"""

from __future__ import annotations

import secrets
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from refold import decoding
from refold.checked import quoted
from refold.core.model import Memory, Trust
from refold.display import is_text
from refold.errors import Invalid
from refold.memory.claim import Claim

ID_PREFIX, ID_BYTES = "mem-", 8


def new_id() -> str:
    """The id of a new entry."""
    return f"{ID_PREFIX}{secrets.token_hex(ID_BYTES)}"


def is_whole(id: str) -> bool:
    """Whether an id is one that a memory gives itself, and not the beginning of one."""
    digits = id.removeprefix(ID_PREFIX)
    is_long = id.startswith(ID_PREFIX) and len(digits) == 2 * ID_BYTES
    return is_long and set(digits) <= set("0123456789abcdef")


class MemoryEntry(Struct, frozen=True, kw_only=True):
    """One thing that is remembered. `score` says how well it answers, from 0 to 1, and `why` by
    what; `count` how often it was said. It is true from `valid_from_ms` on, and until
    `valid_until_ms` unless that is None. `rivals` are entries that say something else about the
    same, or replaced the same: code cannot tell which of them holds. `replaces` are entries that
    ended because somebody said that this one replaces them; as long as it waits in the inbox, they
    are still true. It `waits` while no person has accepted what only a tool, an import or a rule
    said: no model is shown it.
    `source` is a conversation and a seq."""

    id: str
    content: str
    scope: str = "project"
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    score: float = 1.0
    why: str = ""
    count: int = 1
    version: int = 1
    trust: Trust = "user"
    source: tuple[str, int] | None = None
    created_ms: int = 0
    updated_ms: int = 0
    valid_from_ms: int = 0
    valid_until_ms: int | None = None
    rivals: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    waits: bool = False
    seq: int = 0  # of the newest event that it is made of, in the log of its scope

    @property
    def created(self) -> datetime:
        """When it was first said."""
        return datetime.fromtimestamp(self.created_ms / 1_000, UTC)

    @property
    def updated(self) -> datetime:
        """When it was said or changed last."""
        return datetime.fromtimestamp(self.updated_ms / 1_000, UTC)

    @property
    def is_current(self) -> bool:
        """Whether nothing has ended it."""
        return self.valid_until_ms is None


class Forgotten(Struct, frozen=True, kw_only=True):
    """What `forget` did: the entries whose words are gone, how many events of theirs were erased,
    how many messages that showed them, and how many summaries of those. `mentions` are messages
    that say the same words and stay: a conversation and a seq. `out_of_reach` says what else may
    still have them."""

    entries: tuple[str, ...] = ()
    events: int = 0
    messages: int = 0
    summaries: int = 0
    mentions: tuple[tuple[str, int], ...] = ()
    out_of_reach: tuple[str, ...] = ("earlier exports", "backups of the files")

    def __add__(self, other: Forgotten) -> Forgotten:
        """Both together."""
        return Forgotten(
            entries=self.entries + other.entries,
            events=self.events + other.events,
            messages=self.messages + other.messages,
            summaries=self.summaries + other.summaries,
            mentions=tuple(dict.fromkeys(self.mentions + other.mentions)),
            out_of_reach=tuple(dict.fromkeys(self.out_of_reach + other.out_of_reach)),
        )


FOREVER_MS = 1 << 62
TRUSTED: tuple[Trust, ...] = ("user", "model", "tool", "import")  # most first
ACCEPTED: tuple[Trust, ...] = ("user", "model")  # the others wait until a person accepts them


class Version(Struct, frozen=True, gc=False):
    """One event: where it stands, when it was written, what it says and claims."""

    seq: int
    at_ms: int
    body: Memory
    claim: Claim

    @property
    def from_ms(self) -> int:
        """From when it is true: as given, else from when it was said."""
        return self.body.valid_from_ms or self.at_ms

    @property
    def is_accepted(self) -> bool:
        return self.body.trust in ACCEPTED


class Run(Struct):
    """One entry as it stood for a while: the version that began it, and what was merged into it.
    `until_ms` is FOREVER_MS while nothing ended it; `heir` is the seq of what did, `is_told` if
    somebody said that it does."""

    versions: list[Version]
    until_ms: int = FOREVER_MS
    heir: int = 0
    is_told: bool = False

    @property
    def first(self) -> Version:
        return self.versions[0]

    @property
    def entry(self) -> str:
        return self.first.body.entry

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(tag for one in self.versions for tag in one.body.tags))

    @property
    def metadata(self) -> dict[str, Any]:
        """That of all versions; where they differ, the later one's."""
        return {key: one for each in self.versions for key, one in each.body.metadata.items()}

    @property
    def version(self) -> int:
        """The number of its own newest version, not of one that was merged into it."""
        newest = self.versions[-1].body
        if newest.entry == self.entry:
            return newest.version
        return max(one.body.version for one in self.versions if one.body.entry == self.entry)

    @property
    def trust(self) -> Trust:
        """That of the one who is trusted most among those who said it."""
        return min((one.body.trust for one in self.versions), key=TRUSTED.index)

    @property
    def replaces(self) -> tuple[str, ...]:
        """The entries that are so no longer since this is."""
        return tuple(dict.fromkeys(id for one in self.versions for id in one.body.replaces))

    def holds_at(self, at_ms: int) -> bool:
        return self.first.from_ms <= at_ms < self.until_ms

    def shown(self, **more: Any) -> MemoryEntry:
        """It as a caller sees it, with what only the fold knows."""
        newest = self.versions[-1]
        given = dict[str, Any](
            id=self.entry,
            content=newest.body.content,
            tags=self.tags,
            metadata=self.metadata,
            count=len({one.body.entry for one in self.versions}),
            version=self.version,
            trust=self.trust,
            source=next((one.body.source for one in self.versions if one.body.source), None),
            updated_ms=newest.at_ms,
            valid_from_ms=self.first.from_ms,
            valid_until_ms=None if self.until_ms == FOREVER_MS else self.until_ms,
            replaces=self.replaces,
            waits=not self.first.is_accepted,
            seq=newest.seq,
        )
        return MemoryEntry(**(given | more))

    def end(self, by: Version, *, is_told: bool = False) -> None:
        """Ends it by something else, if that was so before it ended. What is told to replace it
        may have been so before it was: then it never was."""
        until_ms = max(by.from_ms, self.first.from_ms) if is_told else by.from_ms
        if until_ms < self.until_ms:
            self.until_ms, self.heir, self.is_told = until_ms, by.seq, is_told

    def says_the_same(self, other: Version) -> bool:
        """Whether a version is one that is merged into this, and cannot end it."""
        is_alike = self.first.is_accepted == other.is_accepted
        return is_alike and is_same(self.first.claim, other.claim)


def is_same(one: Claim, other: Claim) -> bool:
    """Whether two claims say the same of the same."""
    if one.about != other.about:
        return False
    return one.value == other.value if one.about else one.said == other.said


CONTENT_CHARS_MAX, TAG_CHARS_MAX, TAGS_MAX = 20_000, 100, 50


def content_checked(content: str) -> str:
    """The text of an entry, without space around it; Invalid if it is empty, too long, or cannot
    be written."""
    text = content.strip()
    if not text or len(text) > CONTENT_CHARS_MAX:
        said = f"the content has {len(text):,} characters"
        raise Invalid(said, hint=f"from 1 to {CONTENT_CHARS_MAX:,}; keep long texts as artifacts")
    if not is_text(text):
        raise Invalid("the content holds half a character", hint="give text that UTF-8 can hold")
    return text


def tags_checked(tags: Sequence[str]) -> tuple[str, ...]:
    """The tags, each once."""
    out = tuple(dict.fromkeys(tags))
    if len(out) > TAGS_MAX:
        raise Invalid(f"{len(out)} tags are too many", hint=f"at most {TAGS_MAX}")
    for tag in out:
        if not tag.strip() or len(tag) > TAG_CHARS_MAX or not is_text(tag):
            hint = f"a text of 1 to {TAG_CHARS_MAX} characters"
            raise Invalid(f"{quoted(tag)} is not a tag", hint=hint)
    return out


def source_checked(
    source: int | tuple[str, int] | None, conversation: str
) -> tuple[str, int] | None:
    """Where an entry was said: a seq alone is one of the conversation that the memory is of."""
    if source is None or isinstance(source, tuple):
        return source
    if not conversation:
        raise Invalid(
            f"source={source} names no conversation", hint="give a conversation and a seq"
        )
    return conversation, source


FORMAT = 2
Key = TypeVar("Key")
Value = TypeVar("Value")
Row = tuple[str, str, int]  # a map, a key of it, and a seq


class Bookmark(Struct, frozen=True, kw_only=True):
    """The state at the event `head`, whose chain is `chain`; `forgotten` are ids of entries."""

    format: int = FORMAT
    head: int
    chain: bytes
    forgotten: list[str]
    total: int
    places: bytes
    seqs: bytes


def packed(
    rows: Iterable[Row], *, head: int, chain: bytes, forgotten: Iterable[str], total: int
) -> bytes:
    """A bookmark as it is kept."""
    ordered = sorted((_place(map, key), seq) for map, key, seq in rows)
    return msgspec.msgpack.encode(
        Bookmark(
            head=head,
            chain=chain,
            forgotten=list(forgotten),
            total=total,
            places=array("q", (place for place, _ in ordered)).tobytes(),
            seqs=array("q", (seq for _, seq in ordered)).tobytes(),
        )
    )


def unpacked(kept: bytes) -> Bookmark | None:
    """A bookmark as it was kept; None if it is damaged or of another version of refold."""
    try:
        found = decoding.packed_decoder(Bookmark).decode(kept)
    except msgspec.MsgspecError:
        return None
    is_whole = len(found.places) == len(found.seqs) and len(found.seqs) % 8 == 0
    return found if found.format == FORMAT and is_whole else None


class Places:
    """The columns of a bookmark."""

    def __init__(self, bookmark: Bookmark) -> None:
        self._places, self._seqs = array("q"), array("q")
        self._places.frombytes(bookmark.places)
        self._seqs.frombytes(bookmark.seqs)

    def seqs(self, map: str, key: str) -> Iterator[int]:
        """The seqs at a key of a map, rising."""
        place = _place(map, key)
        at = bisect_left(self._places, place)
        while at < len(self._places) and self._places[at] == place:
            yield self._seqs[at]
            at += 1


def _place(map: str, key: str) -> int:
    digest = blake2b(f"{map} {key}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


class Loaded(dict[Key, Value]):
    """A map that loads what is at a key when somebody first asks for it, so it has every key."""

    def __init__(self, load: Callable[[Key], Value]) -> None:
        super().__init__()
        self._load = load

    def __missing__(self, key: Key) -> Value:
        value = self[key] = self._load(key)
        return value

    def get(self, key: Key, default: object = None) -> Value:
        return self[key]

    def setdefault(self, key: Key, default: object = None) -> Value:
        return self[key]

    def __bool__(self) -> bool:
        return True
