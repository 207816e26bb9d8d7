"""A store on a team's server: `https://HOST/ORG`.

An append that returned is durable on the server, so `flush` has nothing to do. The server compares
and appends under the lock of the conversation, and an append may be repeated: the chain of an event
identifies it. A list is bounded over all its pages. Contents are hashed on both sides. Derived
files (a search index) are in the user's cache folder, in a folder for this server. Neighbours:
`client` calls, `edges.server` has the routes.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from refold.checked import quoted
from refold.core import codec
from refold.core.ids import (
    conversation_checked,
    digest_checked,
)
from refold.core.model import Conversation, Event
from refold.errors import Corrupt, Invalid, NotFound, Unavailable
from refold.stores import checks, event_lines
from refold.stores.protocol import Listening, Recovery, Salvage
from refold.stores.remote.client import ANSWER_BYTES_MAX, DEADLINE_S, Client, Seq, place_checked

EVENTS_MAX = 1_000  # in one answer
BATCH_MAX = 10_000  # in one append
BATCH_BYTES_MAX = 16 * 1024 * 1024
LIST_MAX = 1_000
LISTED_MAX = 100_000  # conversations in all pages of one list
LISTED_S_MAX = 300.0  # for all of its answers
LISTS_MAX = 16  # lists under way at a time; beyond, the oldest is listed from the start


Moment = Annotated[int, Meta(ge=0, le=(1 << 53))]


class About(Struct, kw_only=True):
    id: str
    head: Seq
    chain: Annotated[str, Meta(pattern=rf"^[0-9a-f]{{{2 * len(codec.ZERO)}}}\Z")]
    title: str = ""
    parent: str = ""
    parent_seq: Seq = 0
    at_ms: Moment = 0
    updated_ms: Moment = 0


class Listed(Struct, kw_only=True):
    conversations: list[About]


class Kept(Struct, kw_only=True):
    digest: str


class Dropped(Struct, kw_only=True):
    gone: bool


class Pieces(Struct, kw_only=True):
    pieces: list[str | dict[str, str]]
    parent: str = ""
    parent_seq: Seq = 0


class Rewritten(Struct, kw_only=True):
    kept: str


@checks.checked_store
class RemoteStore:
    """Keeps logs and artifacts on a server; satisfies `Store`."""

    recovered: Sequence[Recovery] = ()  # the server sees to its own disk

    def __init__(self, url: str, *, deadline_s: float = DEADLINE_S) -> None:
        self.url = place_checked(url)
        self.client = Client(self.url, deadline_s=deadline_s)
        self._closed = False
        # By the id that the next page begins after: the conversations listed so far, and the time.
        self._lists: dict[str, tuple[int, float]] = {}

    # --- logs ---

    def conversations(self, *, after: str = "", limit: int = 100) -> list[Conversation]:
        self._check_open()
        if limit <= 0:
            return []
        most = min(limit, LIST_MAX)
        query = {"after": after, "limit": most}
        listed, taken_s = self._lists.pop(after, (0, 0.0))
        began_s = time.monotonic()
        page = self.client.value(Listed, "GET", "conversations", query=query).conversations
        ids = [after, *(one.id for one in page)]
        if len(page) > most or any(before >= id for before, id in pairwise(ids)):
            raise self.client.not_understood(f"{len(page)} conversations that do not ascend")
        listed, taken_s = listed + len(page), taken_s + time.monotonic() - began_s
        if listed > LISTED_MAX or taken_s > LISTED_S_MAX:
            problem = f"the list of {self.url} does not end: {listed:,} conversations so far"
            hint = f"the limits are {LISTED_MAX:,} and {LISTED_S_MAX:.0f} s; name a conversation"
            raise Unavailable(problem, hint=hint)
        if page:
            self._lists[page[-1].id] = listed, taken_s
            if len(self._lists) > LISTS_MAX:
                del self._lists[next(iter(self._lists))]
        return list(map(self._conversation, page))

    def head(self, conversation: str) -> int | None:
        try:
            return self.conversation(conversation).head
        except NotFound:
            return None

    def conversation(self, conversation: str) -> Conversation:
        about = self.client.value(About, "GET", self._path(conversation))
        if about.id != conversation:
            raise self.client.not_understood(f"another conversation, {quoted(about.id, 80)}")
        return self._conversation(about)

    def _conversation(self, about: About) -> Conversation:
        try:
            id, parent = conversation_checked(about.id), about.parent
            if parent:
                conversation_checked(parent)
        except Invalid as error:
            raise self.client.not_understood(error.message) from error
        return Conversation(
            id=id,
            head=about.head,
            chain=bytes.fromhex(about.chain),
            title=about.title,
            parent=parent,
            parent_seq=about.parent_seq,
            at_ms=about.at_ms,
            updated_ms=about.updated_ms,
        )

    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        path = self._path(conversation)
        events: list[Event] = []
        after, limit = checks.bounded(after), checks.bounded(limit)
        size = 0
        while True:
            query = {"after": after, "limit": min(limit - len(events), EVENTS_MAX)}
            if last is not None:
                query["last"] = checks.bounded(last)
            answer = self.client.call("GET", f"{path}/events", query=query)
            page = event_lines.events_in(answer, most=EVENTS_MAX)
            seqs = [after, *(event.seq for event in page)]
            is_beyond = len(page) > query["limit"] or seqs[-1] > max(after, query.get("last", inf))
            if is_beyond or any(before >= seq for before, seq in pairwise(seqs)):
                raise self.client.not_understood(f"other events of {conversation} than asked")
            events += page
            size += len(answer)
            # A page may be short: the reader asks for what comes after it.
            if not page or len(events) >= limit or size > ANSWER_BYTES_MAX:
                return events
            after = page[-1].seq

    def append(self, conversation: str, events: Sequence[Event], *, expect: int) -> None:
        self._check_open()
        checks.check_append(conversation, events, expect)
        batch = event_lines.batch_of(events) if events else b""
        if len(events) > BATCH_MAX or len(batch) > BATCH_BYTES_MAX:
            message = f"{len(events):,} events of {len(batch):,} bytes do not go in one batch"
            raise Invalid(
                message, hint=f"at most {BATCH_MAX:,} events and {BATCH_BYTES_MAX:,} bytes"
            )
        path = f"{self._path(conversation)}/events"
        self.client.call("POST", path, query={"expect": expect}, body=batch)

    def bookmark(self, conversation: str, *, at: int | None = None) -> bytes | None:
        if at is not None:
            return None
        path = f"{self._path(conversation)}/bookmark"
        try:
            return self.client.call("GET", path)
        except NotFound:
            return None

    def keep_bookmark(self, conversation: str, data: bytes, *, at: int | None = None) -> None:
        if at is not None:
            return
        path = f"{self._path(conversation)}/bookmark"
        self.client.call("PUT", path, body=data)

    def fork(self, conversation: str, at: int, new: str) -> None:
        conversation_checked(new)
        body = msgspec.json.encode({"at": at, "new": new})
        self.client.call("POST", f"{self._path(conversation)}/fork", body=body, repeats=False)

    def erase(self, conversation: str, seq: int) -> None:
        body = msgspec.json.encode({"seq": seq})
        self.client.call("POST", f"{self._path(conversation)}/erase", body=body)

    def delete(self, conversation: str) -> None:
        self.client.call("DELETE", self._path(conversation), repeats=False)

    def salvage(self, conversation: str) -> Salvage:
        seen = self.client.value(Pieces, "GET", f"{self._path(conversation)}/salvage")
        pieces = tuple(map(_piece, seen.pieces))
        return Salvage(pieces=pieces, parent=seen.parent, parent_seq=seen.parent_seq)

    def rewrite(
        self, conversation: str, events: Sequence[Event], *, after: int, seen: Salvage
    ) -> str:
        given = {
            "events": [event_lines.line_of(event).decode() for event in events],
            "after": after,
            "seen": {
                "pieces": [_sent(piece) for piece in seen.pieces],
                "parent": seen.parent,
                "parent_seq": seen.parent_seq,
            },
        }
        path = f"{self._path(conversation)}/rewrite"
        body = msgspec.json.encode(given)
        return self.client.value(Rewritten, "POST", path, body=body, repeats=False).kept

    # --- contents ---

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        self._check_open()
        hasher = hashlib.sha256()

        def hashed() -> Iterator[bytes]:
            for chunk in chunks:
                try:
                    hasher.update(chunk)
                except TypeError as error:
                    raise checks.not_bytes(error) from error
                yield chunk

        kept = self.client.send("artifacts", hashed(), {"suffix": suffix}, Kept)
        if kept.digest != hasher.hexdigest():
            raise Corrupt(f"{self.url} kept other bytes than were sent", hint="put them again")
        return kept.digest

    def get(self, digest: str) -> Iterator[bytes]:
        self._check_open()
        digest_checked(digest)
        return self._checked(digest, self.client.chunks(f"artifacts/{digest}"))

    def _checked(self, digest: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
        hasher = hashlib.sha256()
        for chunk in chunks:
            hasher.update(chunk)
            yield chunk
        if hasher.hexdigest() != digest:
            raise Corrupt(f"{self.url}: {digest} is not what came", hint="get it again")

    def location(self, digest: str) -> str | None:
        digest_checked(digest)
        return None

    def drop(self, digest: str, *, before_ms: int) -> bool:
        self._check_open()
        digest_checked(digest)
        query = {"before_ms": max(0, before_ms)}
        return self.client.value(Dropped, "DELETE", f"artifacts/{digest}", query=query).gone

    def derived_path(self, name: str) -> str | None:
        cache = os.environ.get("XDG_CACHE_HOME", "")
        root = cache if os.path.isabs(cache) else os.path.expanduser("~/.cache")
        folder = hashlib.sha256(self.url.encode()).hexdigest()[:16]
        place = os.path.join(root, "refold", folder)
        try:
            os.makedirs(place, mode=0o700, exist_ok=True)
        except OSError:
            return None
        return os.path.join(place, name)

    def listen(self, cursor: str = "") -> Listening:
        """A stream of the changes after a cursor."""
        self._check_open()
        return self.client.listen("feed", cursor)

    # --- the end ---

    def flush(self) -> None:
        self._check_open()

    def close(self) -> None:
        self._closed = True
        self.client.close()

    def _check_open(self) -> None:
        if self._closed:
            raise checks.closed(self.url)

    def _path(self, conversation: str) -> str:
        self._check_open()
        return f"conversations/{conversation_checked(conversation)}"


def _piece(piece: str | dict[str, str]) -> Event | str:
    return (
        piece.get("fault", "") if isinstance(piece, dict) else event_lines.event_of(piece.encode())
    )


def _sent(piece: Event | str) -> str | dict[str, str]:
    return {"fault": piece} if isinstance(piece, str) else event_lines.line_of(piece).decode()
