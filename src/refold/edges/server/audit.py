"""The audit log: reads, erasures and administration, as notes in the server's own store.

An erasure is logged before it runs, and again with its result before it is answered: an entry
without a result was interrupted. The creation and revocation of tokens is in their own log, and
listed with the rest. Reads are collected and written each second, one note for each token and
conversation, so that reading stays cheap: a killed server loses the last second of reads. The log
never has contents. Neighbours: `app` writes, `refold token audit` shows.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold import decoding
from refold.core.codec import decode
from refold.core.model import Note
from refold.edges.server.access import Token, Tokens
from refold.edges.server.content_routes import Dropped, Forgot
from refold.edges.server.route import Route
from refold.errors import RefoldError
from refold.log.draft import Draft
from refold.log.log import Log
from refold.log.stored_logs import pages_of
from refold.stores.protocol import Store

KIND = "audit"


class Entry(Struct, frozen=True, kw_only=True):
    """One line of the audit log. `call` joins the entries before and after an erasure; `name` is
    the token's, from its own log."""

    at_ms: int
    token: str
    action: str
    route: str
    what: str = ""
    times: int = 1
    result: str = ""
    call: str = ""
    name: str = ""


class Audit:
    """Writes the audit log of all organizations, each in a log of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._reads: Counter[tuple[str, str, str, str]] = Counter()

    def read(self, org: str, entry: Entry) -> None:
        """Collects a read until the next `flush`."""
        with self._lock:
            self._reads[org, entry.token, entry.route, entry.what] += 1

    def write(self, org: str, entry: Entry) -> None:
        """Writes at once; durable when this returns."""
        self._append(org, [entry])

    def flush(self) -> None:
        """Writes the collected reads; after a failure, the next call writes them."""
        with self._lock:
            reads, self._reads = self._reads, Counter()
        now = time.time_ns() // 1_000_000
        by_org: dict[str, list[Entry]] = {}
        for (org, token, route, what), times in reads.items():
            entry = Entry(
                at_ms=now, token=token, action="read", route=route, what=what, times=times
            )
            by_org.setdefault(org, []).append(entry)
        try:
            for org in list(by_org):
                self._append(org, by_org[org])
                del by_org[org]
        except RefoldError:
            with self._lock:
                left = {key: times for key, times in reads.items() if key[0] in by_org}
                self._reads.update(left)
            raise

    def _append(self, org: str, entries: list[Entry]) -> None:
        notes = [Note(kind=KIND, data=msgspec.to_builtins(entry)) for entry in entries]
        drafts = [Draft(body=note, by="server") for note in notes]
        with self._lock:
            Log(self._store, log_of(org)).append(drafts)
            self._store.flush()


def log_of(org: str) -> str:
    return f"audit-{org}"


def entry_of(route: Route, path: Mapping[str, str], token: Token) -> Entry:
    """The entry for a call that is about to run."""
    return Entry(
        at_ms=time.time_ns() // 1_000_000,
        token=token.id,
        action=route.audit,
        route=route.name,
        what=path.get("id") or path.get("digest") or path.get("entry") or "",
        call=secrets.token_hex(4),
    )


def result_of(value: object) -> str:
    """The result for the audit log: `nothing` if the route had nothing to do."""
    match value:
        case Dropped(gone=False) | Forgot(entries=()):
            return "nothing"
        case _:
            return "done"


# --- reading ---


def entries_of(store: Store, org: str, *, limit: int) -> list[Entry]:
    """The newest lines of an organization's audit log, oldest first."""
    tokens = [token for token in Tokens(store).list() if token.org == org]
    names = {token.id: token.name for token in tokens}
    calls = [replace(entry, name=names.get(entry.token, "")) for entry in _calls(store, org, limit)]
    changes = [entry for token in tokens for entry in _changes_of(token)]
    return sorted([*calls, *changes], key=lambda entry: entry.at_ms)[-limit:]


def _calls(store: Store, org: str, limit: int) -> list[Entry]:
    """The logged calls. Of the two notes of an erasure, the later counts."""
    head = store.head(log_of(org))
    if head is None:
        return []
    entries: dict[str, Entry] = {}
    for page in pages_of(store, log_of(org), after=max(0, head - 2 * limit), last=head):
        for event in page:
            body = decode(event)
            if isinstance(body, Note) and body.kind == KIND:
                entry = decoding.convert(body.data, Entry)
                entries[entry.call or f"#{event.seq}"] = entry
    return list(entries.values())


def _changes_of(token: Token) -> Iterator[Entry]:
    """The creation and revocation of a token."""
    for action, at_ms in (("create", token.created_ms), ("revoke", token.revoked_ms)):
        if at_ms:
            what = f"{token.scope} token"
            yield Entry(
                at_ms=at_ms, token=token.id, action=action, route="", what=what, name=token.name
            )
