"""The values everything is made of: events and their bodies, blocks, edits, slots and the view.

All are frozen. Constructors do not validate; decoding does, once, at the door (`codec`). Positions
are always `seq`, ranges are `first`/`last`, both inclusive. Neighbours: `codec` turns these into
bytes, `fold` into a view.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

Role = Literal["system", "user", "assistant", "tool"]
ORIGIN = "$origin"  # in the metadata of a result that is listed like an artifact: its `Origin`
CLEANER = "cleaner"  # who writes an artifact's event again when its bytes are cleaned up
COMPACT_TOOL = "refold_compact"  # by which a model asks for a compaction at the end of its turn
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")


class Event(Struct, frozen=True, kw_only=True):
    """One immutable fact of a log. `body` and `salt` are empty once the event is erased; the
    envelope stays."""

    seq: int
    id: str
    at_ms: int
    by: str
    kind: str
    body: bytes
    salt: bytes
    digest: bytes
    chain: bytes
    tokens: int = 0
    counter: str = ""

    @property
    def erased(self) -> bool:
        return not self.salt

    def __repr__(self) -> str:
        return f"<Event #{self.seq} {self.kind} by {self.by}, {self.tokens:,} tokens>"


def is_cleanup(event: Event) -> bool:
    """Whether the event says that an artifact's bytes are gone: it names the artifact again, and
    its author is the cleaner."""
    return event.by == CLEANER and event.kind == "artifact"


class Conversation(Struct, frozen=True, kw_only=True):
    """What a store knows of a conversation without reading its log. A fork names its parent and
    where it left. `tags`, `metadata` and `names` are left to those who list conversations."""

    id: str
    head: int
    chain: bytes
    title: str = ""
    parent: str = ""
    parent_seq: int = 0
    at_ms: int = 0
    updated_ms: int = 0
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()


class Span(Struct, frozen=True):
    """A run of the log, both ends inclusive."""

    first: int
    last: int

    def __contains__(self, seq: int) -> bool:
        return self.first <= seq <= self.last

    def __str__(self) -> str:
        return f"#{self.first}" if self.first == self.last else f"#{self.first}-{self.last}"


# --- blocks: what a message is made of ---


class Text(Struct, frozen=True, tag="text", tag_field="type", omit_defaults=True):
    text: str


class Thinking(Struct, frozen=True, tag="thinking", tag_field="type", omit_defaults=True):
    """Reasoning the provider wants back unaltered; `data` is its encrypted form where the text
    is withheld."""

    text: str = ""
    signature: str = ""
    data: str = ""


class ToolCall(Struct, frozen=True, tag="tool_call", tag_field="type", omit_defaults=True):
    """`arguments` is kept in the shape it came in: the provider's own text (perhaps not even
    JSON) or an object. `is_complete` is False where an answer was cut off in them."""

    id: str
    name: str
    arguments: str | dict[str, Any] = ""
    is_complete: bool = True


class Media(Struct, frozen=True, tag="media", tag_field="type", omit_defaults=True):
    """An image, document or sound: inline base64 `data`, or a `url`, or a provider's `file` id."""

    media: str
    mime: str = ""
    data: str = ""
    url: str = ""
    file: str = ""
    name: str = ""
    detail: str = ""


class Opaque(Struct, frozen=True, tag="opaque", tag_field="type", omit_defaults=True):
    """What we carry without understanding: a provider's unknown block (`raw`), or text that JSON
    cannot hold (`data`: its bytes, UTF-8 with surrogates). `text` is how it may be shown."""

    raw: Any = None
    data: bytes = b""
    text: str = ""


class ToolResult(Struct, frozen=True, tag="tool_result", tag_field="type", omit_defaults=True):
    """The answer to the call `call`. When the output was large, `artifact` names its whole bytes
    and the content is the stub that stands for them."""

    call: str
    content: tuple[Text | Media | Opaque, ...] = ()
    is_error: bool = False
    name: str = ""
    artifact: str = ""


Block = Text | Thinking | ToolCall | ToolResult | Media | Opaque


# --- bodies: what an event says; the event's kind is the tag ---


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A role and its blocks. `dialect` is the wire format it came in; `form` is kept only where
    that dialect's usual form of these blocks would not give the original back exactly. `key` is
    the caller's own name for it: a message whose key the log holds is not appended again. `ids`
    are those of the lines of a file that it came from; they stay when it is erased."""

    role: Role
    blocks: tuple[Block, ...] = ()
    dialect: str = ""
    form: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    key: str = ""
    ids: tuple[str, ...] = ()


# In the metadata of thinking that came late: the head that its request showed; 0 if others spoke
# before it came.
UPTO = "$upto"
MIRRORED = "front:"  # begins the key of a message that stands in a list which somebody else owns
ENDLESS = 2**63 - 1  # behind every seq there can be
MEMORIES = "$memories"  # in the metadata of a message that shows memories: the ids of the entries


def shows_memories(message: Message) -> bool:
    """Whether a message only repeats what is remembered: nobody said it here."""
    return MEMORIES in message.metadata


ADDED = "$added"  # in the metadata of a message that shows what was put on the page: the artifact


def is_shown(message: Message) -> bool:
    """Whether a message only shows something, memories or what was added: it asks for nothing."""
    return ADDED in message.metadata or shows_memories(message)


MOMENT = "@"  # what an id of a line begins with that is the time at which it was written


class Note(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that is no message and never on the page: a guest's own state, progress, a
    snapshot. `kind` is the guest's name for it, `key` and `ids` as in a message."""

    kind: str
    data: Any = None
    key: str = ""
    ids: tuple[str, ...] = ()


ERASED_NOTE = "refold.erased"  # by which a device says that it erased what another asked for
DEVICE_NOTE = "refold.device"  # by which a device says that it synced with a far store
DEVICE_PREFIX = "refold.device."  # how the ids of logs begin, in far stores, that hold such notes
# Who wrote a note that only devices with a key can read, and its kind.
ENCRYPTED = "refold.encrypted"
MEMORY_PREFIX = "memory."  # how the ids of logs begin that hold memories, not conversations
Trust = Literal["user", "model", "tool", "import"]


class Memory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of an entry of a memory: what it says, from when to when that is true (0: until
    it changes), who said it (`trust`) and where (`source`: a conversation and a seq). `closed` says
    that it is true no longer; `replaces` are entries that are not true any more since this is.
    `state` is `waiting` or `rejected` before and after a person looked at it, and `forgotten` once
    its words are erased: `seal` then knows them again."""

    entry: str
    version: int = 1
    content: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    trust: Trust = "user"
    source: tuple[str, int] | None = None
    valid_from_ms: int = 0
    valid_until_ms: int = 0
    closed: bool = False
    state: Literal["", "waiting", "rejected", "forgotten"] = ""
    seal: str = ""
    replaces: tuple[str, ...] = ()


class Origin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where an artifact came from."""

    tool: str = ""
    arguments: str = ""
    arguments_hash: str = ""
    description: str = ""
    task: str = ""
    query: str = ""


ArtifactType = Literal["file", "search_result", "command_output", "custom"]


class Artifact(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Bytes kept once by digest; `id` follows from the digest, so a reference never breaks."""

    id: str
    digest: str
    type: ArtifactType = "custom"
    name: str = ""
    mime: str = "text/plain"
    size_bytes: int = 0
    size_chars: int = 0
    lines: int = 0
    origin: Origin = Origin()


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one call was billed, and `upto`: the head that its request showed. `input` counts
    everything read, cached or not; `replied` says that the answer is the event just before this
    one; `counted` is our own count of the request, 0 where it was not written down; `estimated`
    says that the provider said nothing and the numbers are ours."""

    response: str = ""
    model: str = ""
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    upto: int = 0
    replied: bool = False
    cost: float | None = None
    counted: int = 0
    estimated: bool = False


class Lesson(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model's refusal of a page taught: its input limit, and how many tokens it counted
    per token of our estimate. `page` is the newest message that the refused page had, `upto` the
    head it showed."""

    model: str
    limit: int
    factor: float | None = None
    page: int = 0
    upto: int = 0


# What a batch of edits is for, where it is no ordinary compaction; its first edit says so: room
# that an undo made necessary, messages a person chose, an empty page, a compaction made elsewhere,
# one that the provider wrote.
MADE_ROOM, BY_HAND, CLEARED, ADOPTED, NATIVE = "room", "hand", "clear", "adopt", "native"


class Replace(
    Struct, frozen=True, kw_only=True, tag="replace", tag_field="type", omit_defaults=True
):
    """Show a block shortened: by the line ranges of the original that stay (`keep`), or by a
    notice (`text`)."""

    batch: str
    seq: int
    block: int
    keep: tuple[Span, ...] | None = None
    text: str = ""
    reason: str = ""
    lesson: Lesson | None = None
    purpose: str = ""


class Hide(Struct, frozen=True, kw_only=True, tag="hide", tag_field="type", omit_defaults=True):
    """Leave a span out, with an optional notice in its place."""

    batch: str
    span: Span
    notice: str = ""
    reason: str = ""
    lesson: Lesson | None = None
    purpose: str = ""


FactKind = Literal[
    "request", "constraint", "decision", "todo", "file", "error", "command", "artifact"
]
FileState = Literal["read", "created", "modified", "deleted"]
TodoState = Literal["open", "done", "cancelled"]
ErrorState = Literal["open", "resolved"]


class Fact(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of the ledger, taken by code. `kind` is a `FactKind`; `state` is that of a file, a
    to-do or an error, the outcome of a command (`ok`, `failed`, `exit 1`), or `user` where a user
    said it. Both are open strings here: a log written by a newer version may hold others."""

    kind: str
    text: str
    seq: int
    state: str = ""


class Quote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Lines of one message, word for word; `source` is the file or command that a result is of."""

    seq: int
    role: Role
    lines: tuple[str, ...]
    source: str = ""


class Prose(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a writer said of a span, and lines of the ledger for what it did not name."""

    words: str
    span: Span
    added: tuple[str, ...] = ()


class GistNotes(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a gist knew: how many messages it had seen, how the names it kept were used, and
    whether it had too little room."""

    now: int = 0
    names: dict[str, list[int]] = field(default_factory=dict)
    starved: bool = False


class SummaryNotes(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a summary counted: the messages it stands for, how often each tool was called in them,
    and the notable calls."""

    messages: int = 0
    tools: dict[str, int] = field(default_factory=dict)
    uses: dict[str, list[str]] = field(default_factory=dict)


class Native(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a provider's model wrote for a span: messages that only its own dialect can say."""

    dialect: str
    model: str
    messages: list[Any]


class Summarize(
    Struct, frozen=True, kw_only=True, tag="summarize", tag_field="type", omit_defaults=True
):
    """Show a span by its parts, which `summary_text` joins: `files` that were read again, `prose`
    by a writer, a `text` by code, and `quotes`; or by `native`, where that can be said. `line` is
    its one-line form; `facts` are what the ledger learnt; `gist` or `counted` is for later ones."""

    batch: str
    span: Span
    text: str
    line: str = ""
    facts: tuple[Fact, ...] = ()
    files: str = ""
    prose: Prose | None = None
    quotes: tuple[Quote, ...] = ()
    gist: GistNotes | None = None
    counted: SummaryNotes | None = None
    native: Native | None = None
    reason: str = ""
    lesson: Lesson | None = None
    purpose: str = ""


Edit = Replace | Hide | Summarize


class Revert(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Switches off a batch of edits, or the restore or revert written at `seq`."""

    batch: str = ""
    seq: int = 0


class Restore(Struct, frozen=True, kw_only=True):
    """The page goes back to what it was at `seq`."""

    seq: int


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A name for a position."""

    name: str
    seq: int


class Meta(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is true of the conversation as a whole; only what changed is present. `windows` are
    those given by hand, in tokens, by the model they were given for; `names` are what others call
    the conversation. A system prompt or a list of tools that an event of this log has said before
    is named by that event: `system_seq`, `tools_seq`."""

    title: str | None = None
    tags: tuple[str, ...] | None = None
    model: str | None = None
    system: Any = None
    tools: list[Any] | None = None
    metadata: dict[str, Any] | None = None
    windows: dict[str, int] | None = None
    names: tuple[str, ...] | None = None
    system_seq: int | None = None
    tools_seq: int | None = None


class Pin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The message at `seq`, with its tool pair, stays on the page verbatim until it is unpinned."""

    seq: int
    on: bool = True


class Erase(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of `seq` is gone for good; its role and tool ids stay, so that the page keeps its
    shape, and the ids of its lines in a file, so that it is known there again."""

    seq: int
    role: Role = "user"
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


Body = (
    Message | Note | Memory | Artifact | Usage | Edit | Revert | Restore | Checkpoint | Meta | Pin
    | Erase
)  # fmt: skip


# --- the page ---


class Applied(Struct, frozen=True, array_like=True):
    """An edit on a slot: the seq of its event, the block it replaced (-1: the whole span), the
    tokens it added."""

    seq: int
    block: int = -1
    tokens: int = 0


class Slot(Struct, frozen=True):
    """One place in the view: a message as shown, the span of the log it stands for, its tokens,
    its edits. `summary` is the edit that a summary in its place came from."""

    seq: int
    last: int
    message: Message
    tokens: int
    edits: tuple[Applied, ...] = ()
    summary: Summarize | None = None

    @property
    def span(self) -> Span:
        return Span(self.seq, self.last)

    @property
    def standin(self) -> bool:
        """True where a notice or summary stands for a span; such a slot is never a user's own
        request."""
        return bool(self.edits) and self.edits[0].block < 0


class Anchor(Struct, frozen=True, array_like=True):
    """The provider's last word on size: `tokens` it reported, for a page that we had estimated
    at `page`."""

    tokens: int
    page: int
    upto: int


class Totals(Struct, frozen=True, array_like=True):
    """What was billed; only grows."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: float = 0.0
    unpriced: int = 0

    @property
    def total(self) -> int:
        """All tokens: read, from the cache or not, and written."""
        return self.input + self.output


class Era(Struct, frozen=True, kw_only=True):
    """The heads from `since` to the next era. What was thought then is shown under the same words
    now before the seq `until`; before `until_native`, where what the provider wrote itself is
    sent."""

    since: int
    until: int = ENDLESS
    until_native: int = ENDLESS


class View(Struct, frozen=True, kw_only=True):
    """What the model will be sent, before rendering, and what is known of the whole
    conversation."""

    head: int = 0
    chain: bytes = bytes(16)
    slots: tuple[Slot, ...] = ()
    system: Any = None
    tools: list[Any] | None = None
    system_tokens: int = 0
    tools_tokens: int = 0
    slot_tokens: int = 0
    title: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    model: str = ""
    pins: frozenset[int] = frozenset()
    request: int = 0
    anchor: Anchor | None = None
    totals: Totals = Totals()
    calibration: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    checkpoints: dict[str, int] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    undoable: tuple[tuple[int, str], ...] = ()
    lessons: dict[str, Lesson] = field(default_factory=dict)
    changed_at: int = 0  # the seq of the newest event that changed what stood before it
    eras: tuple[Era, ...] = (Era(since=0),)
    first_at_ms: int = 0
    updated_ms: int = 0

    @property
    def tokens(self) -> int:
        """The whole estimate: system prompt, tools and every slot."""
        return self.system_tokens + self.tools_tokens + self.slot_tokens
