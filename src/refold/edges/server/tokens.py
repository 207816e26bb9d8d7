"""Tokens: who may call what, until when.

A token is shown once, when it is created; what is kept is its digest, as a note in the server's own
log, and so is its revocation. Every server follows that log (`follow`, each second), so a
revocation holds everywhere at once, and asking for a token reads nothing. A token is looked up by
its whole digest and compared in constant time. Neighbours: `app` asks for every call, the command
`token` creates and revokes.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from typing import Literal

import msgspec
from msgspec import Struct

from refold import decoding
from refold.checked import quoted
from refold.core.codec import decode
from refold.core.model import Note
from refold.edges.server.orgs import org_checked
from refold.edges.server.route import RANK, Level
from refold.errors import Invalid, NotFound
from refold.log.draft import Draft
from refold.log.log import Log
from refold.log.reading import pages_of
from refold.stores.protocol import Store

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
