"""Routes of artifacts, messages, search and memory.

Artifacts are streamed both ways: the digest is computed on the way in and verified on the way out.
Conversations, messages and artifacts as JSON objects are for clients without a log of their own. A
message may have any provider's shape and has a key, so that sending it again writes nothing and
returns the same answer; the server opens the conversation like any other program (`Context`). A
user's own memory stays on the user's machine and has no route. Neighbours: `log_routes` serves
refold's own clients, `search` and `memory` do the work.
"""

from __future__ import annotations

import base64
import binascii
import re
from contextlib import closing
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from refold.config import Config
from refold.core.active_events import switches
from refold.core.ids import artifact_id
from refold.core.model import ArtifactType, Role
from refold.edges.server.log_routes import BASE, Count
from refold.edges.server.route import Call, Chunks, Id, MemoryScope, Routes
from refold.engine.context import Context
from refold.errors import Corrupt, Invalid
from refold.log.notes import keyed
from refold.log.stored_logs import open_id_checked, pages_of
from refold.memory.entry import MemoryEntry
from refold.memory.semantic import SemanticMemory
from refold.search.searcher import Searcher
from refold.search.snippets import Hit

SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,16}")
ROUTES = Routes()


class PutQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    suffix: Annotated[str, Meta(pattern=f"^{SUFFIX.pattern}$")] = ".bin"


class Kept(Struct, frozen=True, kw_only=True):
    """The sha256 of a stored artifact, in hex."""

    digest: str


class DropQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    before_ms: Annotated[int, Meta(ge=0)]


class Dropped(Struct, frozen=True, kw_only=True):
    gone: bool


@ROUTES.add(
    "POST", f"{BASE}/artifacts", "write", query=PutQuery, body="bytes", gives=Kept, streams=True
)
def put(call: Call) -> Kept:
    """Store bytes, streamed; returns their digest."""
    suffix = call.parsed_query(PutQuery).suffix
    return Kept(digest=call.store.put(call.chunks, suffix=suffix))


@ROUTES.add("GET", f"{BASE}/artifacts/{{digest}}", "read", gives="bytes", audit="read")
def get(call: Call) -> Chunks:
    """Read the bytes with a digest."""
    # Read once before streaming: damage found at the end could only break the connection, which
    # looks like a network failure.
    digest = call.path["digest"]
    try:
        for _ in call.store.get(digest):
            pass
    except Corrupt as error:
        hint = (
            "run refold verify there; a device with a copy sends it with the next event naming it"
        )
        message = f"the artifact {artifact_id(digest)} is damaged on the server"
        raise Corrupt(message, hint=hint) from error
    return Chunks(call.store.get(digest))


@ROUTES.add(
    "DELETE", f"{BASE}/artifacts/{{digest}}", "write", query=DropQuery, gives=Dropped, audit="erase"
)
def drop(call: Call) -> Dropped:
    """Remove bytes, unless they were put again since."""
    before_ms = call.parsed_query(DropQuery).before_ms
    return Dropped(gone=call.store.drop(call.path["digest"], before_ms=before_ms))


MESSAGES_MAX = 1_000
CONTENT_CHARS_MAX = 8 * 1024 * 1024


class ConversationBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`id` is chosen by the client, so that a retry does not create a second conversation."""

    id: Id
    title: Annotated[str, Meta(max_length=1_000)] | None = None
    model: Annotated[str, Meta(max_length=200)] | None = None
    tags: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


class Created(Struct, frozen=True, kw_only=True):
    id: str
    head: int


class MessageBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`key` is the client's own name for the message, unique in its conversation; nothing is
    written under a known key, whatever the message, and `written` is false. `at_ms` is the
    message's time."""

    message: dict[str, Any]
    key: Annotated[str, Meta(min_length=1, max_length=500)]
    at_ms: Count | None = None


class Appended(Struct, frozen=True, kw_only=True):
    """The seqs of the message under its key, and whether this call wrote them."""

    seqs: list[int]
    head: int
    written: bool


class MessagesQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=MESSAGES_MAX)] = 100
    after: Count = 0


class Shown(Struct, frozen=True, kw_only=True):
    """A message on the page, with the seqs of its events."""

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


@ROUTES.add("POST", f"{BASE}/conversations", "write", body=ConversationBody, gives=Created)
def create(call: Call) -> Created:
    """Create a conversation, or update an existing one."""
    body = call.parsed_body(ConversationBody)
    with _opened(call, body.id) as context:
        context.update(
            title=body.title or body.id,
            model=body.model,
            tags=body.tags or None,
            metadata=body.metadata or None,
        )
        if not context.view.head:
            context.note("created", {"by": call.token.name if call.token else ""}, key="created")
        context.flush()
        return Created(id=context.id, head=context.view.head)


@ROUTES.add(
    "POST", f"{BASE}/conversations/{{id}}/messages", "write", body=MessageBody, gives=Appended
)
def append_message(call: Call) -> Appended:
    """Append a message in any provider's shape, once for its key."""
    body = call.parsed_body(MessageBody)
    with _opened(call, call.id) as context:
        events = context.append(body.message, key=body.key, at=body.at_ms)
        head = context.view.head
    seqs = [seq for seq, _ in keyed(events)] or _seqs_under(call, body.key, head)
    return Appended(seqs=seqs, head=head, written=bool(events))


def _seqs_under(call: Call, key: str, head: int) -> list[int]:
    """The seqs under a key in the log, without those that a restore switched off."""
    log = [event for page in pages_of(call.store, call.id, last=head) for event in page]
    off = switches(log).off
    return [seq for seq, known in keyed(log) if known == key and seq not in off]


@ROUTES.add(
    "GET",
    f"{BASE}/conversations/{{id}}/messages",
    "read",
    query=MessagesQuery,
    gives=Messages,
    audit="read",
)
def messages(call: Call) -> Messages:
    """Read the page: the messages as a model would read them."""
    query = call.parsed_query(MessagesQuery)
    call.store.conversation(call.id)
    with _opened(call, call.id) as context:
        page = [row for row in context.page() if not row.seqs or max(row.seqs) > query.after]
    shown = [Shown(seqs=row.seqs, message=row.message) for row in page[: query.limit]]
    return Messages(messages=shown)


@ROUTES.add(
    "POST", f"{BASE}/conversations/{{id}}/artifacts", "write", body=ArtifactBody, gives=ArtifactKept
)
def keep_artifact(call: Call) -> ArtifactKept:
    """Store an artifact of a conversation."""
    body = call.parsed_body(ArtifactBody)
    content: str | bytes = body.content
    if body.encoding == "base64":
        try:
            content = base64.b64decode(body.content, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Invalid(f"content is not base64: {error}") from error
    with _opened(call, call.id) as context:
        kept = context.artifacts.put(content, name=body.name, type=body.type, mime=body.mime)
    return ArtifactKept(id=kept.id, digest=kept.digest, size_bytes=kept.size_bytes)


LIMIT_MAX = 100
TEXT_MAX = 10_000
Text = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)]
Tag = Annotated[str, Meta(min_length=1, max_length=100)]
Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX)]


class SearchQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    q: Text
    limit: Limit = 10
    conversation: Id | None = None
    role: Role | None = None
    tool: str | None = None
    since: Count | None = None
    until: Count | None = None


class Found(Struct, frozen=True, kw_only=True):
    hits: list[Hit]


class MemoryQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    q: Annotated[str, Meta(max_length=TEXT_MAX)] = ""
    limit: Limit = 10
    scope: MemoryScope = "project"
    as_of: Count | None = None


class Remembered(Struct, frozen=True, kw_only=True):
    """Memory entries; `more` says whether the list, or the answer to a query, has further ones."""

    entries: list[MemoryEntry]
    more: bool = False


class MemoryBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    content: Text
    tags: Annotated[list[Tag], Meta(max_length=50)] = field(default_factory=list)
    scope: MemoryScope = "project"
    replaces: Annotated[list[str], Meta(max_length=50)] = field(default_factory=list)


class ScopeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    scope: MemoryScope = "project"


class Forgot(Struct, frozen=True, kw_only=True):
    entries: tuple[str, ...]


@ROUTES.add("GET", f"{BASE}/search", "read", query=SearchQuery, gives=Found, audit="read")
def search(call: Call) -> Found:
    """Find messages and artifacts by their content."""
    query = call.parsed_query(SearchQuery)
    with closing(Searcher(call.store, embedder=False)) as searcher:
        hits = searcher.search(
            query.q,
            limit=query.limit,
            conversation=query.conversation,
            role=query.role,
            tool=query.tool,
            since=query.since,
            until=query.until,
        )
    return Found(hits=hits)


def _memory(call: Call, scope: str) -> closing[SemanticMemory]:
    """The organization's memory; Invalid for a user's, which is not on the server."""
    if scope.lower() == "user":
        raise Invalid("a user's memory is on the user's machine", hint="use scope=project")
    return closing(SemanticMemory(call.store, scope=scope, embedder=False))


@ROUTES.add("GET", f"{BASE}/memory", "read", query=MemoryQuery, gives=Remembered, audit="read")
def recall(call: Call) -> Remembered:
    """Find or list memories shared by all conversations."""
    query = call.parsed_query(MemoryQuery)
    most = query.limit + 1
    with _memory(call, query.scope) as memory:
        if not query.q.strip():
            found = memory.list(limit=most, scope=query.scope, as_of=query.as_of)
        else:
            found = memory.retrieve(query.q, most, scope=query.scope, as_of=query.as_of)
    return Remembered(entries=found[: query.limit], more=len(found) > query.limit)


@ROUTES.add("POST", f"{BASE}/memory", "write", body=MemoryBody, gives=MemoryEntry)
def remember(call: Call) -> MemoryEntry:
    """Add a memory shared by all conversations."""
    body = call.parsed_body(MemoryBody)
    with _memory(call, body.scope) as memory:
        return memory.store(body.content, tags=body.tags, scope=body.scope, replaces=body.replaces)


@ROUTES.add(
    "DELETE", f"{BASE}/memory/{{entry}}", "write", query=ScopeQuery, gives=Forgot, audit="erase"
)
def forget(call: Call) -> Forgot:
    """Permanently erase a memory."""
    with _memory(call, call.parsed_query(ScopeQuery).scope) as memory:
        return Forgot(entries=memory.forget(call.path["entry"]).entries)
