"""Routes of artifacts, of plain messages, of search, and of memory.

Artifacts are streamed both ways: the digest is made on the way in and checked on the way out. The
plain forms of the hybrid storage design (conversations, messages and artifacts as JSON objects) are
for clients without a log of their own. A message may have any provider's shape and has a key, so
that repeating it writes nothing and gives the first answer again; the server opens the conversation
like any other program (`Context`). The user's own memory is on the user's machine and has no route.
Neighbours: `logs` serves refold's own clients, `search` and `memory` do the work.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from refold.config import Config
from refold.core.codec import artifact_id
from refold.core.model import ArtifactType
from refold.core.switches import switches
from refold.edges.server.logs import BASE, Count
from refold.edges.server.route import Call, Chunks, Route
from refold.engine.context import Context
from refold.errors import Corrupt, Invalid
from refold.log.notes import keyed
from refold.log.trace import open_id_checked, pages_of
from refold.memory.entry import MemoryEntry
from refold.memory.semantic import SemanticMemory
from refold.search.searcher import Searcher
from refold.search.snippets import Hit

SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,16}")


class PutQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    suffix: Annotated[str, Meta(pattern=f"^{SUFFIX.pattern}$")] = ".bin"


class Kept(Struct, frozen=True, kw_only=True):
    """What was kept, by its sha256 in hex."""

    digest: str


class DropQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    before_ms: Annotated[int, Meta(ge=0)]


class Dropped(Struct, frozen=True, kw_only=True):
    gone: bool


def put(call: Call) -> Kept:
    suffix = call.asked(PutQuery).suffix
    return Kept(digest=call.store.put(call.chunks, suffix=suffix))


def get(call: Call) -> Chunks:
    """Streams an artifact, after reading it once: damage found at the end could only break the
    connection, which looks like a network failure."""
    digest = call.path["digest"]
    try:
        for _ in call.store.get(digest):
            pass
    except Corrupt as error:
        said = f"the artifact {artifact_id(digest)} is damaged on the server"
        hint = (
            "refold verify there; a device that has it sends it with the next event that names it"
        )
        raise Corrupt(said, hint=hint) from error
    return Chunks(call.store.get(digest))


def drop(call: Call) -> Dropped:
    before_ms = call.asked(DropQuery).before_ms
    return Dropped(gone=call.store.drop(call.path["digest"], before_ms=before_ms))


ROUTES = [
    Route(
        method="POST",
        path=f"{BASE}/artifacts",
        summary="Keep bytes, streamed; gives their digest.",
        level="write",
        run=put,
        query=PutQuery,
        body="bytes",
        gives=Kept,
        streams=True,
    ),
    Route(
        method="GET",
        path=f"{BASE}/artifacts/{{digest}}",
        summary="Read the bytes of a digest.",
        level="read",
        run=get,
        gives="bytes",
        audit="read",
    ),
    Route(
        method="DELETE",
        path=f"{BASE}/artifacts/{{digest}}",
        summary="Remove bytes, unless they were put again since.",
        level="write",
        run=drop,
        query=DropQuery,
        gives=Dropped,
        audit="erase",
    ),
]


MESSAGES_MAX = 1_000
CONTENT_CHARS_MAX = 8 * 1024 * 1024


class ConversationBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`id` is chosen by the client, so that a second try makes no second conversation."""

    id: str
    title: Annotated[str, Meta(max_length=1_000)] | None = None
    model: Annotated[str, Meta(max_length=200)] | None = None
    tags: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


class Created(Struct, frozen=True, kw_only=True):
    id: str
    head: int


class MessageBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`key` is the client's own name for the message, one for each message; under a key that is
    there nothing is written, whatever the message says, and `written` says so. `at_ms` is when it
    happened."""

    message: dict[str, Any]
    key: Annotated[str, Meta(min_length=1, max_length=500)]
    at_ms: Count | None = None


class Appended(Struct, frozen=True, kw_only=True):
    """The seqs of the message under its key, and whether this call wrote them: not if the key was
    there already."""

    seqs: list[int]
    head: int
    written: bool


class MessagesQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=MESSAGES_MAX)] = 100
    after: Count = 0


class Shown(Struct, frozen=True, kw_only=True):
    """A message on the page, and the events it came from."""

    seqs: tuple[int, ...]
    message: dict[str, Any]


class Messages(Struct, frozen=True, kw_only=True):
    messages: list[Shown]


class ArtifactBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`content` is text, or base64 if `encoding` says so."""

    name: Annotated[str, Meta(max_length=1_000)]
    content: Annotated[str, Meta(max_length=CONTENT_CHARS_MAX)]
    type: ArtifactType | None = None
    encoding: Literal["text", "base64"] = "text"
    mime: Annotated[str, Meta(max_length=200)] | None = None


class ArtifactKept(Struct, frozen=True, kw_only=True):
    id: str
    digest: str
    size_bytes: int


def _opened(call: Call, id: str) -> Context:
    return Context(call.store, open_id_checked(id), config=Config(auto=False, durability="append"))


def create(call: Call) -> Created:
    given = call.given(ConversationBody)
    with _opened(call, given.id) as context:
        context.update(
            title=given.title or given.id,
            model=given.model,
            tags=given.tags or None,
            metadata=given.metadata or None,
        )
        if not context.view.head:
            context.note("created", {"by": call.token.name if call.token else ""}, key="created")
        context.flush()
        return Created(id=context.id, head=context.view.head)


def append_message(call: Call) -> Appended:
    given = call.given(MessageBody)
    with _opened(call, call.id) as context:
        events = context.append(given.message, key=given.key, at=given.at_ms)
        head = context.view.head
    seqs = [seq for seq, _ in keyed(events)] or _seqs_under(call, given.key, head)
    return Appended(seqs=seqs, head=head, written=bool(events))


def _seqs_under(call: Call, key: str, head: int) -> list[int]:
    """Where the log has a key; what a restore switched off does not count."""
    log = [event for page in pages_of(call.store, call.id, last=head) for event in page]
    off = switches(log).off
    return [seq for seq, known in keyed(log) if known == key and seq not in off]


def messages(call: Call) -> Messages:
    asked = call.asked(MessagesQuery)
    call.store.conversation(call.id)
    with _opened(call, call.id) as context:
        page = [one for one in context.page() if not one.seqs or max(one.seqs) > asked.after]
    shown = [Shown(seqs=one.seqs, message=one.message) for one in page[: asked.limit]]
    return Messages(messages=shown)


def keep_artifact(call: Call) -> ArtifactKept:
    given = call.given(ArtifactBody)
    content: str | bytes = given.content
    if given.encoding == "base64":
        try:
            content = base64.b64decode(given.content, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Invalid(f"content is not base64: {error}") from error
    with _opened(call, call.id) as context:
        kept = context.artifacts.put(content, name=given.name, type=given.type, mime=given.mime)
    return ArtifactKept(id=kept.id, digest=kept.digest, size_bytes=kept.size_bytes)


FORMS_ROUTES = [
    Route(
        method="POST",
        path=f"{BASE}/conversations",
        summary="Create a conversation; one that is there is updated.",
        level="write",
        run=create,
        body=ConversationBody,
        gives=Created,
    ),
    Route(
        method="POST",
        path=f"{BASE}/conversations/{{id}}/messages",
        summary="Append a message in any provider's shape, once for its key.",
        level="write",
        run=append_message,
        body=MessageBody,
        gives=Appended,
    ),
    Route(
        method="GET",
        path=f"{BASE}/conversations/{{id}}/messages",
        summary="Read the page: the messages as a model would read them.",
        level="read",
        run=messages,
        query=MessagesQuery,
        gives=Messages,
        audit="read",
    ),
    Route(
        method="POST",
        path=f"{BASE}/conversations/{{id}}/artifacts",
        summary="Keep an artifact of a conversation.",
        level="write",
        run=keep_artifact,
        body=ArtifactBody,
        gives=ArtifactKept,
    ),
]


LIMIT_MAX = 100
TEXT_MAX = 10_000
Text = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)]
Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX)]


class SearchQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    q: Text
    limit: Limit = 10
    conversation: str | None = None
    role: str | None = None
    tool: str | None = None
    since: Count | None = None
    until: Count | None = None


class Found(Struct, frozen=True, kw_only=True):
    hits: list[Hit]


class MemoryQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    q: Annotated[str, Meta(max_length=TEXT_MAX)] = ""
    limit: Limit = 10
    scope: Annotated[str, Meta(max_length=100)] = "project"
    as_of: Count | None = None


class Remembered(Struct, frozen=True, kw_only=True):
    entries: list[MemoryEntry]


class MemoryBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    content: Text
    tags: list[str] = field(default_factory=list)
    scope: Annotated[str, Meta(max_length=100)] = "project"
    replaces: list[str] = field(default_factory=list)


class ScopeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    scope: Annotated[str, Meta(max_length=100)] = "project"


class Forgot(Struct, frozen=True, kw_only=True):
    entries: tuple[str, ...]


def search(call: Call) -> Found:
    asked = call.asked(SearchQuery)
    searcher = Searcher(call.store, embedder=False)
    try:
        hits = searcher.search(
            asked.q,
            limit=asked.limit,
            conversation=asked.conversation,
            role=asked.role,
            tool=asked.tool,
            since=asked.since,
            until=asked.until,
        )
    finally:
        searcher.close()
    return Found(hits=hits)


def _memory(call: Call, scope: str) -> SemanticMemory:
    """The memory of the organization; Invalid for the user's, which is not on the server."""
    if scope.lower() == "user":
        raise Invalid("the memory of a user is on the user's machine", hint="scope=project")
    return SemanticMemory(call.store, scope=scope, embedder=False)


def recall(call: Call) -> Remembered:
    asked = call.asked(MemoryQuery)
    memory = _memory(call, asked.scope)
    try:
        if not asked.q.strip():
            found = memory.list(limit=asked.limit, scope=asked.scope, as_of=asked.as_of)
        else:
            found = memory.retrieve(asked.q, asked.limit, scope=asked.scope, as_of=asked.as_of)
    finally:
        memory.close()
    return Remembered(entries=found)


def remember(call: Call) -> MemoryEntry:
    given = call.given(MemoryBody)
    memory = _memory(call, given.scope)
    try:
        return memory.store(
            given.content, tags=given.tags, scope=given.scope, replaces=given.replaces
        )
    finally:
        memory.close()


def forget(call: Call) -> Forgot:
    memory = _memory(call, call.asked(ScopeQuery).scope)
    try:
        return Forgot(entries=memory.forget(call.path["entry"]).entries)
    finally:
        memory.close()


FINDING_ROUTES = [
    Route(
        method="GET",
        path=f"{BASE}/search",
        summary="Find messages and artifacts by what they say.",
        level="read",
        run=search,
        query=SearchQuery,
        gives=Found,
        audit="read",
    ),
    Route(
        method="GET",
        path=f"{BASE}/memory",
        summary="Find or list what is remembered across conversations.",
        level="read",
        run=recall,
        query=MemoryQuery,
        gives=Remembered,
        audit="read",
    ),
    Route(
        method="POST",
        path=f"{BASE}/memory",
        summary="Remember something across conversations.",
        level="write",
        run=remember,
        body=MemoryBody,
        gives=MemoryEntry,
    ),
    Route(
        method="DELETE",
        path=f"{BASE}/memory/{{entry}}",
        summary="Erase what is remembered for good.",
        level="write",
        run=forget,
        query=ScopeQuery,
        gives=Forgot,
        audit="erase",
    ),
]
