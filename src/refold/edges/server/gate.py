"""Who may call: the names that this server goes by, and the tokens.

What is decided here is decided on the route that was found and on the bytes of the headers, for
every call in the same way. Neighbours: `app` asks for each call, `tokens` knows the tokens.

Tokens: who may call what, until when.

A token is shown once, when it is created; what is kept is its digest, as a note in the server's own
log, and so is its revocation. Every server follows that log (`follow`, each second), so a
revocation holds everywhere at once, and asking for a token reads nothing. A token is looked up by
its whole digest and compared in constant time. Neighbours: `app` asks for every call, the command
`token` creates and revokes.

Organizations: each has a store of its own, so no question of one can touch what is another's.

On SQLite that is a database file for each, in one folder; on PostgreSQL a column that every key
begins with. The server's own logs (tokens, the audit log) lie in one more, whose name no URL can
spell. Neighbours: `stores` open what is named here.

What callers send, read within limits of size, of time, and of what all callers hold at once.

A caller that is slow costs no thread and is not counted as work: only the bytes that it has sent
are. An artifact goes to a temporary file while it comes, so that its size needs no memory. What
does not fit is refused by its Content-Length, before it is read. Neighbours: `app` asks for bodies.
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
from typing import IO, Any, Literal

import msgspec
from msgspec import Struct

from refold import decoding
from refold.checked import quoted
from refold.core.codec import decode
from refold.core.model import Event, Note
from refold.edges.server.commit import Ends
from refold.edges.server.limits import Buckets, Busy, Flood, Limits
from refold.edges.server.observability import Metrics
from refold.edges.server.route import RANK, Level, Route
from refold.errors import Denied, Invalid, NotFound, RefoldError, Unavailable
from refold.log.draft import Draft
from refold.log.log import Log
from refold.log.trace import pages_of
from refold.redaction import redacted
from refold.stores import is_on_this_disk, open_orgs
from refold.stores.protocol import Store

GateScope = MutableMapping[str, Any]
HEADERS = "refold.headers"
_DECIDING = frozenset({
    b"host", b"origin", b"authorization", b"accept", b"content-length", b"content-encoding",
    b"transfer-encoding",
})  # fmt: skip
_IN_URL = re.compile(rb"(?:^|&)[a-z_-]*token=|rft_[A-Za-z0-9_-]{20}", re.IGNORECASE)


class Unauthorized(RefoldError):
    """There is no token, or none that is valid."""

    code = "unauthorized"


class Gate:
    """Lets calls in, or says why not."""

    def __init__(
        self, tokens: Tokens, limits: Limits, metrics: Metrics, hosts: frozenset[str]
    ) -> None:
        self._tokens, self._metrics, self._hosts = tokens, metrics, hosts
        self._calls = Buckets(limits.calls_per_s, limits.burst)
        self._open_calls = Buckets(limits.open_calls_per_s, 2 * limits.open_calls_per_s)
        self._guesses = Buckets(limits.wrong_tokens_per_minute / 60, limits.wrong_tokens_per_minute)

    def check_origin(self, scope: GateScope) -> None:
        """Denied for a name that is not this server's, or a page of another: browsers send both,
        and neither belongs to a client of ours."""
        headers = scope[HEADERS]
        if self._hosts and _host_of(headers.get(b"host", b"")) not in self._hosts:
            self._metrics.refused["host"] += 1
            raise Denied("this server does not go by that name", hint="refold serve --name")
        origin = headers.get(b"origin")
        if origin is not None and _host_of(origin.partition(b"://")[2]) not in self._hosts:
            self._metrics.refused["origin"] += 1
            raise Denied("calls from web pages are not served")

    def check_open(self, scope: GateScope) -> None:
        """Flood if an address makes too many calls that need no token."""
        try:
            self._open_calls.take(_client_of(scope))
        except Busy as error:
            self._metrics.refused["open"] += 1
            raise Flood(error.message, retry_after_s=error.retry_after_s) from error

    def find(self, scope: GateScope) -> Token | None:
        """The token of a call, whatever its state; None if none like it was ever created."""
        return self._tokens.find(_secret_of(scope))

    def allowed(self, token: Token | None, scope: GateScope, route: Route, org: str) -> Token:
        """The token of a call, if it allows the route. One of another organization is told what a
        stranger is told: there is nothing."""
        if token is None:
            raise self._unknown(_client_of(scope))
        self._check_state(token)
        scope["refold.token"] = token.id
        if token.org != org:
            raise NotFound("there is no such organization for this token")
        if not token.allows(route.level):
            said = f"the token may {token.scope}, but this needs {route.level}"
            raise Denied(said, hint="use a token with more rights")
        self._calls.take(token.id)
        return token

    def _unknown(self, client: str) -> RefoldError:
        """What a guess is told. Only guesses are counted: many people call from one address, and
        neither a valid token nor one that has ended says anything about the others there."""
        self._metrics.refused["token"] += 1
        try:
            self._guesses.take(client)
        except Busy as error:
            return Busy("too many unknown tokens", retry_after_s=error.retry_after_s)
        return _unauthorized("unknown")

    def _check_state(self, token: Token) -> None:
        state = token.state(time.time_ns() // 1_000_000)
        if state != "valid":
            self._metrics.refused["token"] += 1
            raise _unauthorized(state)

    def check_still_valid(self, token: Token) -> None:
        """Unauthorized if the token has ended since it was let in."""
        now = self._tokens.by_id.get(token.id)
        state = "unknown" if now is None else now.state(time.time_ns() // 1_000_000)
        if state != "valid":
            raise _unauthorized(state)


def _unauthorized(state: str) -> Unauthorized:
    return Unauthorized(f"the token is {state}", hint="refold token create makes a new one")


def _client_of(scope: GateScope) -> str:
    return str((scope.get("client") or ("unknown",))[0])


def headers_of(scope: GateScope) -> dict[bytes, bytes]:
    """The headers that something is decided by; Invalid if one of them stands twice, or if two of
    them say how long the body is: which one counts is anybody's guess."""
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _DECIDING:
            if name in found:
                raise Invalid(f"{name.decode()} occurs more than once")
            found[name] = value
    if b"content-length" in found and b"transfer-encoding" in found:
        raise Invalid("the length of the body is said twice", hint="send Content-Length alone")
    return found


def _host_of(text: bytes) -> str:
    """The name in a Host or Origin, without its port."""
    name = text.decode("latin-1").lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0].partition("/")[0]


def _secret_of(scope: GateScope) -> str:
    """The token of a call. It is a header, alone; in a URL it would stand in logs."""
    query = scope.get("query_string", b"")
    if query and _IN_URL.search(query):
        said = "a token does not belong in a URL, where it is logged"
        raise Invalid(said, hint="revoke it, and send the next as Authorization: Bearer …")
    found = scope[HEADERS].get(b"authorization")
    if found is None:
        raise Unauthorized("there is no token", hint="send Authorization: Bearer …")
    scheme, _, secret = found.decode("latin-1").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise Unauthorized("the authorization is not a token", hint="Authorization: Bearer …")
    return str(secret)


LOG = "tokens"
PREFIX = "rft_"
BYTES = 32
NAME_CHARS_MAX = 100
DAYS_MAX = 3_650
Scope = Literal["read", "write", "admin"]
State = Literal["valid", "expired", "revoked"]


class Token(Struct, frozen=True, kw_only=True):
    """What is known of a token. `id` names it in lists and logs; nobody can call with it."""

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
    """The tokens of one server, as far as its log was followed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._by_digest: dict[str, Token] = {}
        self.by_id: dict[str, Token] = {}
        self._head = 0

    # --- asking ---

    def find(self, secret: str) -> Token | None:
        """The token of which this is the secret, whatever its state; None if there is none."""
        digest = digest_of(secret)
        token = self._by_digest.get(digest)
        if token is None or not hmac.compare_digest(token.digest, digest):
            return None
        return token

    def list(self) -> list[Token]:
        """All tokens, oldest first, revoked ones among them."""
        self.follow()
        return list(self.by_id.values())

    # --- changing ---

    def create(
        self, org: str, scope: Scope, *, name: str = "", days: float | None = None
    ) -> tuple[Token, str]:
        """A new token, and its secret, which nobody can show again."""
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
        """Ends a token for good. NotFound if there is none of that id."""
        known = {token.id: token for token in self.list()}
        if id not in known:
            raise NotFound(
                f"there is no token {quoted(id, 80)}", hint="refold token list shows them"
            )
        token = msgspec.structs.replace(known[id], revoked_ms=_now_ms())
        self._write(token)
        return token

    def _write(self, token: Token) -> None:
        draft = Draft(body=Note(kind="token", data=msgspec.to_builtins(token)), by="server")
        Log(self._store, LOG).append([draft])
        self._store.flush()
        self.follow()

    # --- following the log ---

    def follow(self) -> None:
        """Reads what other servers and the shell wrote."""
        with self._lock:
            try:
                head = self._store.conversation(LOG).head
            except NotFound:
                return
            for page in pages_of(self._store, LOG, after=self._head, last=head):
                for event in page:
                    body = decode(event)
                    if isinstance(body, Note) and body.kind == "token":
                        self._take(decoding.convert(body.data, Token))
                self._head = page[-1].seq

    def _take(self, token: Token) -> None:
        self._by_digest[token.digest] = self.by_id[token.id] = token


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


SCHEMES = ("sqlite", "files", "postgresql", "postgres")
ORG = re.compile(r"[a-z0-9][a-z0-9-]{0,38}")
OWN = "server.own"


def org_checked(org: str) -> str:
    """The name itself; Invalid if no organization can have it."""
    if not isinstance(org, str) or not ORG.fullmatch(org):
        hint = "1 to 39 small letters, digits and dashes, such as acme"
        raise Invalid(f"{quoted(org, 80)} is not the name of an organization", hint=hint)
    return org


def place_checked(place: str) -> str:
    """The place itself; Invalid if it cannot hold organizations."""
    scheme, _, rest = place.partition(":")
    if scheme not in SCHEMES or not rest:
        said = f"a server cannot keep its organizations in {quoted(redacted(place), 200)}"
        raise Invalid(said, hint="sqlite:FOLDER, or postgresql://USER@HOST/DATABASE")
    if scheme in ("sqlite", "files") and os.path.isfile(os.path.expanduser(rest)):
        said = f"{quoted(rest)} is a file; a server has one for each organization"
        raise Invalid(
            said, hint="refold export --to STORE brings conversations into an organization"
        )
    return place


class Orgs:
    """Opens the store of an organization when it is first asked for: only somebody with a token
    of that organization comes so far, so there are never more than were created. `workers` are the
    processes of this server: each has its share of the connections that the place allows.
    `appended` is told how many events were appended, in the thread that did it."""

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
        """Whether writes of several conversations share one sync: they share one file."""
        return is_on_this_disk(self.place)

    def store(self, org: str) -> Store:
        """The store of an organization."""
        return self._opened(org_checked(org))

    def ends(self, org: str) -> Ends:
        """How the logs of an organization end, as far as this process wrote them."""
        store = self.store(org)
        with self._lock:
            return self._ends.setdefault(org, Ends(store))

    @property
    def own(self) -> Store:
        """The store of the server itself."""
        return self._opened(OWN)

    def _opened(self, org: str) -> Store:
        with self._lock:
            store = self._open.get(org)
            if store is None:
                store = self._open[org] = self._opener(org)
                if org != OWN:
                    self._count_appends(store)
            return store

    def _count_appends(self, store: Store) -> None:
        """Whichever route appends, and however: it is counted where all of them meet."""
        append = store.append

        def counted(conversation: str, events: Sequence[Event], *, expect: int) -> None:
            append(conversation, events, expect=expect)
            if self.appended is not None:
                self.appended(len(events))

        store.append = counted  # type: ignore[method-assign]

    def known(self) -> list[str]:
        """The organizations that are open here, for the metrics."""
        with self._lock:
            return [org for org in self._open if org != OWN]

    def close(self) -> None:
        with self._lock:
            for store in self._open.values():
                store.close()
            self._open.clear()


BodiesScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

IN_MEMORY_BYTES = 1024 * 1024
CHUNK_BYTES = 256 * 1024


class TooLarge(RefoldError):
    """More than this server takes."""

    code = "too-large"


class Bodies:
    """Reads the bodies of one server's calls, and knows how much of them is held."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.held_bytes = 0

    async def whole(self, scope: BodiesScope, receive: Receive) -> bytes:
        """The whole body. It counts as held until `release`."""
        most = self._limits.body_bytes
        _check_length(scope, most)
        parts: list[bytes] = []
        size = 0

        def take(part: bytes) -> None:
            nonlocal size
            size += len(part)
            self.held_bytes += len(part)
            parts.append(part)
            if size > most:
                raise TooLarge(f"a body of more than {most:,} bytes")
            if self.held_bytes > self._limits.held_bytes:
                raise Busy("too many bytes are being taken in", retry_after_s=1.0)

        try:
            await _each_part(receive, self._limits.body_s, take)
        except BaseException:
            self.held_bytes -= size
            raise
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def release(self, body: bytes) -> None:
        """The body is no longer held."""
        self.held_bytes -= len(body)

    @asynccontextmanager
    async def spooled(self, scope: BodiesScope, receive: Receive) -> AsyncIterator[Iterator[bytes]]:
        """The body in chunks, once all of it is here."""
        most = self._limits.artifact_bytes
        _check_length(scope, most)
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as file:

            def take(part: bytes) -> None:
                # A part has at most 64 KB, and goes to the page cache: no thread is worth it.
                file.write(part)
                if file.tell() > most:
                    raise TooLarge(f"an artifact of more than {most:,} bytes")

            await _each_part(receive, self._limits.upload_s, take)
            file.seek(0)
            yield _chunks(file)


async def _each_part(receive: Receive, within_s: float, take: Callable[[bytes], None]) -> None:
    """Gives the parts of a body to `take`, all of them within the time."""
    try:
        async with asyncio.timeout(within_s):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Invalid("the caller left before the body was whole")
                take(message.get("body", b""))
                more = message.get("more_body", False)
    except TimeoutError:
        raise Unavailable("the body came too slowly", retry_after_s=1.0) from None


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _check_length(scope: BodiesScope, most: int) -> None:
    headers = scope[HEADERS]
    if b"content-encoding" in headers:
        raise Invalid("the body is encoded", hint="send it plain")
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length[:19]) > most:
        raise TooLarge(f"a body of {length[:19].decode()} bytes is over {most:,}")
