"""The checks in front of every route: host names, tokens, organizations, and the size of bodies.

Permission is decided on the matched route and the bytes of the headers, for every call in the same
way. A token is shown once, when it is created; its digest is stored as a note in the server's own
log, and so is its revocation. Every server follows that log each second, so a revocation takes
effect everywhere, and checking a token reads nothing. A token is found by its complete digest and
compared in constant time.

Each organization has its own store: on SQLite a database file, on PostgreSQL a column that every
key begins with. The server's own logs (tokens, audit) are in a further store, with a name that no
URL can contain.

Bodies are read within limits of size, of time, and of the bytes held for all callers. A slow caller
costs no thread and does not count as work. An artifact goes to a temporary file while it arrives. A
body that is too large is refused by its Content-Length, before it is read. Neighbours: `app` asks
for each call, the command `token` creates and revokes, `stores` opens the stores.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import secrets
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec import Struct

from refold import decoding
from refold.checked import quoted
from refold.core.codec import decode
from refold.core.model import Event, Note
from refold.edges.local_access import Unauthorized, host_of
from refold.edges.server.group_commit import Ends
from refold.edges.server.observability import Metrics
from refold.edges.server.rate_limits import Buckets, Busy, Flood, Limits
from refold.errors import Denied, Invalid, NotFound, RefoldError, Unavailable
from refold.log.draft import Draft
from refold.log.log import Log
from refold.log.stored_logs import pages_of
from refold.redaction import redacted
from refold.stores import is_on_this_disk, open_orgs
from refold.stores.protocol import Store

Level = Literal["open", "read", "write", "admin"]
RANK: dict[str, int] = {"open": 0, "read": 1, "write": 2, "admin": 3}
AsgiScope = MutableMapping[str, Any]
HEADERS = "refold.headers"
_DECIDING = frozenset({
    b"host", b"origin", b"authorization", b"accept", b"content-length", b"content-encoding",
    b"transfer-encoding",
})  # fmt: skip
_IN_URL = re.compile(rb"(?:^|&)[a-z_-]*token=|rft_[A-Za-z0-9_-]{20}", re.IGNORECASE)


class Gate:
    """Admits calls, or raises the reason for a refusal."""

    def __init__(
        self, tokens: Tokens, limits: Limits, metrics: Metrics, hosts: frozenset[str]
    ) -> None:
        self._tokens, self._metrics, self._hosts = tokens, metrics, hosts
        self._calls = Buckets(limits.calls_per_s, limits.burst)
        self._open_calls = Buckets(limits.open_calls_per_s, 2 * limits.open_calls_per_s)
        self.guesses = Buckets(limits.wrong_tokens_per_minute / 60, limits.wrong_tokens_per_minute)

    def check_origin(self, scope: AsgiScope) -> None:
        """Raises Denied for a foreign host name, or a foreign web page as the origin. Only browsers
        send these, never a refold client."""
        headers = scope[HEADERS]
        if self._hosts and host_of(headers.get(b"host", b"")) not in self._hosts:
            self._metrics.refused["host"] += 1
            raise Denied("unknown host name", hint="refold serve --name")
        origin = headers.get(b"origin")
        if origin is not None and host_of(origin.partition(b"://")[2]) not in self._hosts:
            self._metrics.refused["origin"] += 1
            raise Denied("calls from web pages are not served")

    def check_open(self, scope: AsgiScope) -> None:
        """Raises Flood if an address makes too many calls without a token."""
        try:
            self._open_calls.take(client_of(scope))
        except Busy as error:
            self._metrics.refused["open"] += 1
            raise Flood(error.message, retry_after_s=error.retry_after_s) from error

    def find(self, scope: AsgiScope) -> Token | None:
        """The token of a call, whatever its state; None if it is unknown."""
        return self._tokens.find(_secret_of(scope))

    def allowed(
        self, token: Token | None, scope: AsgiScope, level: Level, org: str, *, is_limited: bool
    ) -> Token:
        """The token of a call, if it permits the level. NotFound for a token of another
        organization."""
        if token is None:
            raise self._unknown(client_of(scope))
        state = token.state(_now_ms())
        if state != "valid":
            self._metrics.refused["token"] += 1
            raise _unauthorized(state)
        scope["refold.token"] = token.id
        if token.org != org:
            raise NotFound("the token does not belong to this organization")
        if not token.allows(level):
            message = f"the token may {token.scope}, but this needs {level}"
            raise Denied(message, hint="use a token with more rights")
        if is_limited:
            self._calls.take(token.id)
        return token

    def _unknown(self, client: str) -> RefoldError:
        """The error for an unknown token. Only unknown tokens are counted: many people may share
        one address, and a valid or expired token says nothing about the others there."""
        self._metrics.refused["token"] += 1
        try:
            self.guesses.take(client)
        except Busy as error:
            return Busy("too many unknown tokens", retry_after_s=error.retry_after_s)
        return _unauthorized("unknown")

    def check_still_valid(self, token: Token) -> None:
        """Raises Unauthorized if the token has ended since its call was admitted."""
        now = self._tokens.by_id.get(token.id)
        state = "unknown" if now is None else now.state(_now_ms())
        if state != "valid":
            raise _unauthorized(state)


def _unauthorized(state: str) -> Unauthorized:
    return Unauthorized(f"the token is {state}", hint="create a new one with refold token create")


def client_of(scope: AsgiScope) -> str:
    return str((scope.get("client") or ("unknown",))[0])


HEADERS_MAX, HEADERS_BYTES_MAX = 100, 32 * 1024
TARGET_BYTES_MAX = 128 * 1024  # room for the longest search


class Ambiguous(Invalid):
    """A call whose end is not certain. The connection is closed: what follows on it may be a part
    of the body that a proxy in front let through."""


class HeadersTooLarge(RefoldError):
    """The headers are larger than this server accepts. The connection is closed."""

    code = "headers-too-large"


class TargetTooLong(RefoldError):
    """The URL is longer than this server accepts. The connection is closed."""

    code = "url-too-long"


def headers_of(scope: AsgiScope) -> dict[bytes, bytes]:
    """The headers that matter; Ambiguous if one occurs twice, or if two state the length of the
    body. Raises an error if there are too many headers, or if they or the URL are too long."""
    given = scope["headers"]
    size = sum(len(name) + len(value) for name, value in given)
    if len(given) > HEADERS_MAX or size > HEADERS_BYTES_MAX:
        hint = f"at most {HEADERS_MAX} headers of {HEADERS_BYTES_MAX:,} bytes together"
        raise HeadersTooLarge(f"{len(given)} headers of {size:,} bytes", hint=hint)
    size = len(scope.get("raw_path") or b"") + len(scope.get("query_string", b""))
    if size > TARGET_BYTES_MAX:
        raise TargetTooLong(f"a URL of {size:,} bytes", hint=f"at most {TARGET_BYTES_MAX:,}")
    found: dict[bytes, bytes] = {}
    for name, value in given:
        if name in _DECIDING:
            if name in found:
                raise Ambiguous(f"{name.decode()} occurs more than once")
            found[name] = value
    if b"content-length" in found and b"transfer-encoding" in found:
        raise Ambiguous("the length of the body is stated twice", hint="send Content-Length alone")
    return found


def _secret_of(scope: AsgiScope) -> str:
    """The secret of a call, from a header: in a URL it would appear in logs."""
    query = scope.get("query_string", b"")
    if query and _IN_URL.search(query):
        message = "a token in a URL would be logged"
        raise Invalid(message, hint="revoke it, and send a new one as Authorization: Bearer …")
    header = scope[HEADERS].get(b"authorization")
    if header is None:
        raise Unauthorized("there is no token", hint="send Authorization: Bearer …")
    scheme, _, secret = header.decode("latin-1").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise Unauthorized("the authorization is not a token", hint="Authorization: Bearer …")
    return str(secret)


# --- tokens ---

LOG = "tokens"
PREFIX = "rft_"
BYTES = 32
NAME_CHARS_MAX = 100
DAYS_MAX = 3_650
Scope = Literal["read", "write", "admin"]
State = Literal["valid", "expired", "revoked"]


class Token(Struct, frozen=True, kw_only=True):
    """A token without its secret. `id` names it in lists and logs; it permits nothing."""

    id: str
    digest: str
    org: str
    scope: Scope
    name: str = ""
    created_ms: int = 0
    expires_ms: int = 0
    revoked_ms: int = 0

    def state(self, now_ms: int) -> State:
        if self.revoked_ms:
            return "revoked"
        return "expired" if self.expires_ms and now_ms >= self.expires_ms else "valid"

    def allows(self, level: Level) -> bool:
        return RANK[self.scope] >= RANK[level]


class Tokens:
    """The tokens of one server, as of the last `follow`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._by_digest: dict[str, Token] = {}
        self.by_id: dict[str, Token] = {}
        self._head = 0

    # --- reading ---

    def find(self, secret: str) -> Token | None:
        """The token with this secret, whatever its state; None if it is unknown."""
        digest = digest_of(secret)
        token = self._by_digest.get(digest)
        if token is None or not hmac.compare_digest(token.digest, digest):
            return None
        return token

    def list(self) -> list[Token]:
        """All tokens, revoked ones included, oldest first."""
        self.follow()
        return list(self.by_id.values())

    # --- changing ---

    def create(
        self, org: str, scope: Scope, *, name: str = "", days: float | None = None
    ) -> tuple[Token, str]:
        """A new token, and its secret, which cannot be shown again."""
        org_checked(org)
        if len(name) > NAME_CHARS_MAX:
            raise Invalid(f"a name of {len(name)} characters", hint=f"at most {NAME_CHARS_MAX}")
        if days is not None and not 0 < days <= DAYS_MAX:
            raise Invalid(f"{days} days", hint=f"more than 0, at most {DAYS_MAX:,}")
        secret = PREFIX + secrets.token_urlsafe(BYTES)
        now = _now_ms()
        token = Token(
            id=f"tok-{secrets.token_hex(5)}",
            digest=digest_of(secret),
            org=org,
            scope=scope,
            name=name,
            created_ms=now,
            expires_ms=0 if days is None else now + int(days * 86_400_000),
        )
        self._write(token)
        return token, secret

    def revoke(self, id: str) -> Token:
        """Ends a token permanently. Raises NotFound if no token has that id."""
        tokens = {token.id: token for token in self.list()}
        if id not in tokens:
            raise NotFound(f"unknown token {quoted(id, 80)}", hint="see refold token list")
        token = msgspec.structs.replace(tokens[id], revoked_ms=_now_ms())
        self._write(token)
        return token

    def _write(self, token: Token) -> None:
        draft = Draft(body=Note(kind="token", data=msgspec.to_builtins(token)), by="server")
        Log(self._store, LOG).append([draft])
        self._store.flush()
        self.follow()

    # --- following the log ---

    def follow(self) -> None:
        """Reads the changes that other servers and the shell wrote."""
        with self._lock:
            head = self._store.head(LOG)
            if head is None:
                return
            for page in pages_of(self._store, LOG, after=self._head, last=head):
                for event in page:
                    body = decode(event)
                    if isinstance(body, Note) and body.kind == "token":
                        token = decoding.convert(body.data, Token)
                        self._by_digest[token.digest] = self.by_id[token.id] = token
                self._head = page[-1].seq


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# --- organizations ---

SCHEMES = ("sqlite", "files", "postgresql", "postgres")
ORG = re.compile(r"[a-z0-9][a-z0-9-]{0,38}")
OWN = "server.own"


def org_checked(org: str) -> str:
    """Returns the name; raises Invalid if it is not a valid organization name."""
    if not isinstance(org, str) or not ORG.fullmatch(org):
        hint = "use 1 to 39 lowercase letters, digits and dashes, such as acme"
        raise Invalid(f"{quoted(org, 80)} is not the name of an organization", hint=hint)
    return org


def place_checked(place: str) -> str:
    """Returns the place; raises Invalid if it cannot hold organizations."""
    scheme, _, rest = place.partition(":")
    if scheme not in SCHEMES or not rest:
        message = f"a server cannot keep its organizations in {quoted(redacted(place), 200)}"
        raise Invalid(message, hint="sqlite:FOLDER, or postgresql://USER@HOST/DATABASE")
    if scheme in ("sqlite", "files") and os.path.isfile(os.path.expanduser(rest)):
        message = f"{quoted(rest)} is a file; a server has one file for each organization"
        raise Invalid(message, hint="refold export --to brings conversations into an organization")
    return place


class Orgs:
    """Opens the store of an organization at its first use. Only calls with one of its tokens get
    here, so the number of open stores is bounded. `workers` is the number of processes, which share
    the connections of the place. `appended` is called with the number of events after each append,
    in the thread of the append."""

    def __init__(
        self, place: str, *, workers: int = 1, appended: Callable[[int], None] | None = None
    ) -> None:
        self.place = place_checked(place)
        self._opener = open_orgs(self.place, processes=workers)
        self.appended = appended
        self._lock = threading.Lock()
        self._open: dict[str, Store] = {}
        self._ends: dict[str, Ends] = {}

    @property
    def shown_place(self) -> str:
        """The place without its password."""
        return redacted(self.place)

    @property
    def is_local(self) -> bool:
        """Whether the conversations share a file, so that several appends can share one sync."""
        return is_on_this_disk(self.place)

    def store(self, org: str) -> Store:
        """The store of an organization."""
        return self._opened(org_checked(org))

    def ends(self, org: str) -> Ends:
        """The cached ends of the logs that this process wrote for an organization."""
        store = self.store(org)
        with self._lock:
            return self._ends.setdefault(org, Ends(store))

    @property
    def own(self) -> Store:
        """The store of the server itself."""
        return self._opened(OWN)

    def opened(self) -> list[Store]:
        """The stores of the organizations that were called."""
        with self._lock:
            return [store for org, store in self._open.items() if org != OWN]

    def _opened(self, org: str) -> Store:
        with self._lock:
            store = self._open.get(org)
            if store is None:
                store = self._open[org] = self._opener(org)
                if org != OWN:
                    # All routes append through the store, so appends are counted here.
                    self._count_appends(store)
            return store

    def _count_appends(self, store: Store) -> None:
        append = store.append

        def counted(conversation: str, events: Sequence[Event], *, expect: int) -> None:
            append(conversation, events, expect=expect)
            if self.appended is not None:
                self.appended(len(events))

        store.append = counted  # type: ignore[method-assign]

    def close(self) -> None:
        with self._lock:
            for store in self._open.values():
                store.close()
            self._open.clear()


# --- bodies ---

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

IN_MEMORY_BYTES = 1024 * 1024
CHUNK_BYTES = 256 * 1024


class TooLarge(RefoldError):
    """The body is larger than this server accepts."""

    code = "too-large"


class Slow(Unavailable):
    """The body did not arrive in time. The connection is closed, since its rest may still come."""


class Bodies:
    """Reads the bodies of one server's calls, and counts the bytes held in memory."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.held_bytes = 0

    async def whole(self, scope: AsgiScope, receive: Receive) -> bytes:
        """The complete body. It counts as held until `release`."""
        most = self._limits.body_bytes
        _check_length(scope, most)
        chunks: list[bytes] = []
        size = 0

        def take(chunk: bytes) -> None:
            nonlocal size
            size += len(chunk)
            self.held_bytes += len(chunk)
            chunks.append(chunk)
            if size > most:
                raise TooLarge(f"a body of more than {most:,} bytes")
            if self.held_bytes > self._limits.held_bytes:
                raise Busy("too many request bytes in memory", retry_after_s=1.0)

        try:
            await _each_chunk(receive, self._limits.body_s, take)
        except BaseException:
            self.held_bytes -= size
            raise
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def release(self, body: bytes) -> None:
        """Stops counting a body as held."""
        self.held_bytes -= len(body)

    @asynccontextmanager
    async def spooled(self, scope: AsgiScope, receive: Receive) -> AsyncIterator[Iterator[bytes]]:
        """The body in chunks, once it is complete."""
        most = self._limits.artifact_bytes
        _check_length(scope, most)
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as file:

            def take(chunk: bytes) -> None:
                # At most 64 KB, into the page cache: not worth a thread.
                file.write(chunk)
                if file.tell() > most:
                    raise TooLarge(f"an artifact of more than {most:,} bytes")

            await _each_chunk(receive, self._limits.upload_s, take)
            file.seek(0)
            yield iter(partial(file.read, CHUNK_BYTES), b"")


async def _each_chunk(receive: Receive, within_s: float, take: Callable[[bytes], None]) -> None:
    """Passes the chunks of a body to `take`, all within the time."""
    try:
        async with asyncio.timeout(within_s):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Invalid("the caller left before the body was complete")
                take(message.get("body", b""))
                more = message.get("more_body", False)
    except TimeoutError:
        raise Slow("the body arrived too slowly", retry_after_s=1.0) from None


def _check_length(scope: AsgiScope, most: int) -> None:
    headers = scope[HEADERS]
    if b"content-encoding" in headers:
        raise Invalid("the body has a content encoding", hint="send it without")
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length[:19]) > most:
        raise TooLarge(f"a body of {length[:19].decode()} bytes is over {most:,}")
