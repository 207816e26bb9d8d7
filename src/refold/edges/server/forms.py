"""Routes in the plain forms of the hybrid storage design: conversations, messages and artifacts as
JSON objects, for clients that have no log of their own.

A message may have any provider's shape and comes under a key, so that sending it again writes
nothing and is told what the first call was told. Here the server opens the conversation like any
other program does (`Context`). Neighbours: `logs` is what refold's own clients use.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from refold.config import Config
from refold.core.model import ArtifactType
from refold.core.switches import switches
from refold.edges.server.logs import BASE, Count
from refold.edges.server.route import Call, Route
from refold.engine.context import Context
from refold.errors import Invalid
from refold.log.keys import keyed
from refold.log.reading import open_id_checked, pages_of

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


ROUTES = [
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
