"""The values of refold: events and their bodies, blocks, edits, slots and the view.

All are frozen. Constructors do not validate; decoding does, once, at the door (`codec`). Positions
are always `seq`, ranges are `first`/`last`, both inclusive. Neighbours: `codec` turns these into
bytes, `fold` into a view.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

Role = Literal["system", "user", "assistant", "tool"]
ORIGIN = "$origin"  # metadata key of a result that is listed like an artifact: its `Origin`
CLEANER = "cleaner"  # author of the second event of an artifact, when its bytes are cleaned up
COMPACT_TOOL = "refold_compact"  # the model's tool to ask for a compaction at the end of its turn
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
    """Whether the event records the cleanup of an artifact's bytes: the cleaner names the artifact
    again."""
    return event.by == CLEANER and event.kind == "artifact"


class Conversation(Struct, frozen=True, kw_only=True):
    """A store's record of a conversation, without its log. A fork has its parent and the seq where
    it left. `tags`, `metadata` and `names` are filled in only by callers that list
    conversations."""

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


# --- blocks of a message ---


class Text(Struct, frozen=True, tag="text", tag_field="type", omit_defaults=True):
    text: str


class Thinking(Struct, frozen=True, tag="thinking", tag_field="type", omit_defaults=True):
    """Reasoning that must go back to the provider unaltered; `data` is its encrypted form if the
    text is withheld."""

    text: str = ""
    signature: str = ""
    data: str = ""


class ToolCall(Struct, frozen=True, tag="tool_call", tag_field="type", omit_defaults=True):
    """`arguments` has its original form: the provider's text (perhaps not even JSON) or an object.
    `is_complete` is False if the answer was cut off inside them."""

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
    """Content that refold does not interpret: a provider's unknown block (`raw`), or text that JSON
    cannot carry (`data`: its bytes, UTF-8 with surrogates). `text` is its readable form."""

    raw: Any = None
    data: bytes = b""
    text: str = ""


class ToolResult(Struct, frozen=True, tag="tool_result", tag_field="type", omit_defaults=True):
    """The answer to the call `call`. For a large output, `artifact` names all its bytes, and the
    content is a stub."""

    call: str
    content: tuple[Text | Media | Opaque, ...] = ()
    is_error: bool = False
    name: str = ""
    artifact: str = ""


Block = Text | Thinking | ToolCall | ToolResult | Media | Opaque


# --- bodies of events; the event's kind is the tag ---


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A role and its blocks. `dialect` is its original wire format; `form` is kept only if that
    dialect's usual form of these blocks would not reproduce the original exactly. `key` is the
    caller's own name for it: a message with a key in the log is not appended again. `ids` are the
    ids of its lines in an imported file; they stay when it is erased."""

    role: Role
    blocks: tuple[Block, ...] = ()
    dialect: str = ""
    form: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    key: str = ""
    ids: tuple[str, ...] = ()


# Metadata key of a stale reply with thinking: the head of its request; 0 if other messages came
# in between.
UPTO = "$upto"
MIRRORED = "front:"  # prefix of the key of a message in an external history
ENDLESS = 2**63 - 1  # after every possible seq
MEMORIES = "$memories"  # metadata key of a message that shows memories: the ids of the entries
ADDED = "$added"  # metadata key of a message that shows added content: the artifact
MOMENT = "@"  # prefix of a line id that is the time of its writing


def shows_memories(message: Message) -> bool:
    """Whether a message only shows memories."""
    return MEMORIES in message.metadata


def is_shown(message: Message) -> bool:
    """Whether a message only shows memories or added content, and asks for nothing."""
    return ADDED in message.metadata or shows_memories(message)


class Note(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event separate from the messages, never on the page: a host's own state, progress, a
    snapshot. `kind` is the host's name for it, `key` and `ids` as in a message."""

    kind: str
    data: Any = None
    key: str = ""
    ids: tuple[str, ...] = ()


ERASED_NOTE = "refold.erased"  # a device's note that it carried out another device's erasure
DEVICE_NOTE = "refold.device"  # a device's note that it synced with a far store
DEVICE_PREFIX = "refold.device."  # prefix of the ids of logs with such notes, in far stores
# Author and kind of a note that only devices with a key can read.
ENCRYPTED = "refold.encrypted"
MEMORY_PREFIX = "memory."  # prefix of the ids of logs that hold memories
Trust = Literal["user", "model", "tool", "import"]


class Memory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of a memory entry: its content, its period of validity (0: until it changes), the
    origin of the claim (`trust`) and its `source` (a conversation and a seq). `closed` entries are
    no longer true; `replaces` lists entries that this one made obsolete. `state` is `waiting` for a
    pending entry, `rejected` after a person's review, and `forgotten` once its text is erased:
    `seal` then recognizes it."""

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
    """The usage of one call; `upto`: the head at its request. `input`: all tokens read, cached or
    not; `replied`: the answer is the event just before; `counted`: our own count of the request, or
    0; `estimated`: the numbers are ours; `cache_write_1h`: what is kept for an hour."""

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
    cache_write_1h: int = 0


class Lesson(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limit learned from a model's refusal of a page, its tokens per token of our estimate, the
    newest message of the refused page (`page`), and the head at its request (`upto`)."""

    model: str
    limit: int
    factor: float | None = None
    page: int = 0
    upto: int = 0


# Purpose of a batch, in its first edit, unless it is an ordinary compaction: room after an undo,
# messages hidden by a person, a cleared page, an external compaction, a native compaction.
MADE_ROOM, BY_HAND, CLEARED, ADOPTED, NATIVE = "room", "hand", "clear", "adopt", "native"


class Replace(
    Struct, frozen=True, kw_only=True, tag="replace", tag_field="type", omit_defaults=True
):
    """Shows a block shortened: to line ranges of the original (`keep`), or to a notice (`text`)."""

    batch: str
    seq: int
    block: int
    keep: tuple[Span, ...] | None = None
    text: str = ""
    reason: str = ""
    lesson: Lesson | None = None
    purpose: str = ""


class Hide(Struct, frozen=True, kw_only=True, tag="hide", tag_field="type", omit_defaults=True):
    """Hides a span, with an optional notice instead."""

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
    """One entry of the ledger, extracted by code. `kind` is a `FactKind`; `state` is the state of a
    file, a to-do or an error, the outcome of a command (`ok`, `failed`, `exit 1`), or `user` for a
    user's statement. Both are open strings: a log of a newer version may contain others."""

    kind: str
    text: str
    seq: int
    state: str = ""


class Quote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Lines of one message, verbatim; `source` is the file or command of a result."""

    seq: int
    role: Role
    lines: tuple[str, ...]
    source: str = ""


class Prose(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A writer's text on a span, and ledger lines for facts that it does not mention."""

    words: str
    span: Span
    added: tuple[str, ...] = ()


class GistNotes(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of a gist for later ones: the number of messages seen, the uses of the names it kept,
    and whether it had too little room."""

    now: int = 0
    names: dict[str, list[int]] = field(default_factory=dict)
    starved: bool = False


class SummaryNotes(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Counts of a summary for later ones: its messages, the calls of each tool, and notable
    calls."""

    messages: int = 0
    tools: dict[str, int] = field(default_factory=dict)
    uses: dict[str, list[str]] = field(default_factory=dict)


class Native(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A provider's native summary of a span: messages that exist only in its own dialect."""

    dialect: str
    model: str
    messages: list[Any]


class Summarize(
    Struct, frozen=True, kw_only=True, tag="summarize", tag_field="type", omit_defaults=True
):
    """Shows a span as a summary of several parts, which `summary_text` joins: `files` that were
    read again, `prose` by a writer, a `text` by code, and `quotes`; or as `native`, in its own
    dialect. `line` is its one-line form, `facts` are new ledger entries, `gist` or `counted` are
    for later summaries."""

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
    """Switches off a batch of edits, or the event at `seq`."""

    batch: str = ""
    seq: int = 0


class Restore(Struct, frozen=True, kw_only=True):
    """Takes the page back to its state at `seq`."""

    seq: int


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A name for a position."""

    name: str
    seq: int


class Meta(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Metadata of the conversation; only changed fields are set. `windows` are windows given by
    hand, in tokens, by model; `names` are the conversation's names in other programs. A system
    prompt or list of tools that is in the log already is referred to by its event (`system_seq`,
    `tools_seq`)."""

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
    """Keeps the message at `seq`, with its tool pair, on the page verbatim until it is
    unpinned."""

    seq: int
    on: bool = True


class Erase(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Deletes the body of `seq` for good. Its role and tool ids stay, so that the page keeps its
    shape, and the ids of its lines in a file and of its `session`, so that a new import recognizes
    it. The event has the time of the one before it; `erased_ms` is the time of the erasure."""

    seq: int
    role: Role = "user"
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    session: str = ""
    erased_ms: int = 0


Body = (
    Message | Note | Memory | Artifact | Usage | Edit | Revert | Restore | Checkpoint | Meta | Pin
    | Erase
)  # fmt: skip


# --- the page ---


class Applied(Struct, frozen=True, array_like=True):
    """An edit on a slot: the seq of its event, the replaced block (-1: the whole span), and the
    tokens added."""

    seq: int
    block: int = -1
    tokens: int = 0


class Slot(Struct, frozen=True):
    """One place in the view: a message as shown, its span of the log, its tokens and edits.
    `summary` is the edit behind a summary."""

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
        """Whether this is a notice or summary of a span, and so never a user's own request."""
        return bool(self.edits) and self.edits[0].block < 0


class Anchor(Struct, frozen=True, array_like=True):
    """The provider's last report of size: `tokens`, for a page that we had estimated at `page`."""

    tokens: int
    page: int
    upto: int


class Totals(Struct, frozen=True, array_like=True):
    """Totals of all usage, and the size of the largest request (`peak`); they only grow."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: float = 0.0
    unpriced: int = 0
    peak: int = 0

    @property
    def total(self) -> int:
        """All tokens read (cached or not) and written."""
        return self.input + self.output


class Era(Struct, frozen=True, kw_only=True):
    """The heads from `since` to the next era. Thinking of that time is valid before the seq
    `until`; before `until_native` if native summaries are sent. `front` has the seqs of the system
    prompt and the tools of that time: thinking is valid only under the same ones."""

    since: int
    front: tuple[int, int] = (0, 0)
    until: int = ENDLESS
    until_native: int = ENDLESS


class View(Struct, frozen=True, kw_only=True):
    """The page before rendering, with the metadata and totals of the conversation."""

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
    changed_at: int = 0  # the newest event that changed an earlier part of the page
    eras: tuple[Era, ...] = (Era(since=0),)
    first_at_ms: int = 0
    updated_ms: int = 0

    @property
    def tokens(self) -> int:
        """The estimated size of the page: system prompt, tools and all slots."""
        return self.system_tokens + self.tools_tokens + self.slot_tokens
