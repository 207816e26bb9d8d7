"""A whole sync: every conversation of both sides, one after the other, one sync at a time.

The lists of both sides say which conversations differ; only those cost calls, and where few are
named only those are asked for. A conversation that
fails keeps its reason and delays no other: what may pass is tried again after a pause that grows,
never the same twice, and at least as long as the far store asks; what will not pass is blocked and
shown, and tried again when somebody asks for it, or when it has changed. A far store that does not
answer three times in a row is left for the next sync. Neighbours: `exchange` does one conversation,
`record` remembers.

What a far store had and has no more: conversations, or their ends.

The record says up to where both sides were the same. A far log that has not all of that has lost
it, however whole the rest is: a check that reads only what lies there cannot see it. What only
says that this device erased something may never have been sent, and is not missed.
Neighbours: `record` keeps what was found, `rounds` sends it again, `tails` compares two logs.

Keeps a conversation with secrets near: `redact=hold` in the URL of a synced store, and what was
sealed elsewhere or before where secrets are taken out (`redact=append`).

What is about to leave is looked at, events and the contents that they name; the first secret stops
the conversation, which is then held with its place and stays as it is. Nothing is changed on the
way, because the chain covers the body. Neighbours: `exchange` asks before it sends.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold.core import codec
from refold.core.model import Conversation, Event
from refold.display import number
from refold.errors import Denied, Invalid, NotFound, RefoldError, Unavailable, sentence
from refold.redaction import found as find_found
from refold.redaction.redact import decoded
from refold.stores.hybrid import devices, record
from refold.stores.hybrid import tails as erasure
from refold.stores.hybrid.exchange import Exchange, Exchanged, all_conversations, pages
from refold.stores.hybrid.record import ConversationState, Record
from refold.stores.protocol import Losses, Store, Synced, SyncReport, SyncState
from refold.system import disk

TRIES_MAX = 3
PAUSE_S, PAUSE_S_MAX = 1.0, 60.0
ASKED_MAX = 20  # so many conversations are asked for one by one
SILENT_MAX = 3  # so many conversations without an answer, and the far store is down
NAMED_MAX = 3  # artifacts in a reason
NEW_FAR = "is it mounted? If it is new, or was emptied on purpose: refold sync --new-far"
T = TypeVar("T")


class Timing(Struct, frozen=True, kw_only=True):
    """The clock, and how to wait."""

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    wait: Callable[[float], object] = time.sleep
    share: Callable[[], float] = random.random


class Rounds:
    """Syncs the conversations of a near and a far store."""

    def __init__(
        self,
        near: Store,
        far: Store,
        exchange: Exchange,
        *,
        far_url: str = "",
        timing: Timing | None = None,
    ) -> None:
        self._near, self._far, self._exchange = near, far, exchange
        self._far_url = far_url
        self._timing = timing or Timing()
        self._busy = threading.Lock()
        self._silent = 0

    def run(
        self, ids: Sequence[str] = (), *, skip_blocked: bool = False, new_far: bool = False
    ) -> SyncReport:
        """Syncs these conversations, or all; if asked, without those that were blocked before, or
        deleted here. `new_far` says that the far store may have lost all that it had."""
        with self._alone() as is_alone:
            if not is_alone:
                return SyncReport(is_under_way=True)
            with record.locked(self._path):
                kept = record.read(self._path, self._far_url)
                here = _known(self._near, ids)
            deleted, seen = frozenset(kept.deleted), frozenset(kept.conversations)
            self._exchange.device_name = kept.device
            report = self._run(kept, here, ids, skip_blocked, new_far)
            if report.is_done and not ids:
                devices.tell(kept, self._path, self._far, self._timing.now_ms())
            kept.at_ms, kept.reason = self._timing.now_ms(), report.reason
            kept.is_refused = report.is_refused
            with record.locked(self._path):
                now = record.read(self._path, self._far_url)
                kept.deleted += [id for id in now.deleted if id not in deleted]
                for id in now.conversations.keys() - seen:
                    kept.conversations.setdefault(id, now.conversations[id])
                record.write(self._path, kept)
            return report

    @property
    def _path(self) -> str | None:
        return self._near.derived_path("sync.json")

    def _run(
        self,
        kept: Record,
        here: Mapping[str, Conversation],
        ids: Sequence[str],
        skip_blocked: bool,
        new_far: bool,
    ) -> SyncReport:
        self._silent = 0
        try:
            there = self._patiently(lambda: _known(self._far, ids))
            if not ids:
                devices.learn(kept, self._far, there)
            there = devices.without(there)
            if not new_far:
                self._check_far(kept, there)
        except RefoldError as error:
            free = [about for about in here.values() if not _is_stuck(kept, about.id)]
            waiting = [self._waiting(kept, about, "") for about in free]
            is_refused = isinstance(error, Denied)
            found = [
                replace(one, state="blocked") if is_refused else one
                for one in waiting
                if one.pending
            ]
            return SyncReport(synced=tuple(found), reason=str(error), is_refused=is_refused)
        done: list[Synced] = []
        same = 0
        for id in sorted(ids) or self._all_ids(kept, here, there):
            if _is_same(here.get(id), there.get(id)) and not _missing(kept, id):
                self._keep_same(kept, here[id])
                same += 1
            elif not (skip_blocked and _is_left(kept, id, here.get(id), there.get(id))):
                done.append(self._one(kept, id, here.get(id)))
        return SyncReport(synced=tuple(done), same=same)

    def _check_far(self, kept: Record, there: Mapping[str, Conversation]) -> None:
        """Unavailable if the far store has nothing of what both sides shared: a share that is not
        mounted, or another store in its place, is not a new one that waits to be filled."""
        shared = [id for id, known in kept.conversations.items() if known.head]
        if not shared or any(id in there for id in shared):
            return
        if erasure.about(self._far, shared[-1]) is not None:
            return  # few were asked for, and others are there
        gone = [id for id in shared if erasure.about(self._near, id) is not None]
        if gone and _known(self._far, ()).keys().isdisjoint(gone):
            for id in gone:
                known = kept.conversations[id]
                kept.conversations[id] = replace(known, lost=known.head)
            said = f"it has none of the {number(len(gone), 'conversation')} that it had"
            raise Unavailable(f"{said}: it is not the far store that is known here", hint=NEW_FAR)

    def _all_ids(
        self, kept: Record, here: Mapping[str, Conversation], there: Mapping[str, Conversation]
    ) -> list[str]:
        """Every conversation of either side but those that were deleted here; what neither side
        has is forgotten."""
        for id in [id for id in kept.conversations if id not in here and id not in there]:
            del kept.conversations[id]
        kept.deleted = [id for id in kept.deleted if id in there and id not in here]
        return sorted({*here, *there}.difference(kept.deleted))

    def _keep_same(self, kept: Record, about: Conversation) -> None:
        """Notes that both sides are the same."""
        known = kept.conversations.get(about.id)
        if known is None or known.state != "synced" or known.head != about.head or known.lost:
            same = Synced(conversation=about.id, state="synced")
            self._keep(kept, same, about.head, is_same=True)

    def _one(self, kept: Record, id: str, about: Conversation | None) -> Synced:
        """One conversation; whatever it fails of is kept as the reason."""
        if self._silent >= SILENT_MAX:
            return self._waiting(kept, about, "the far store does not answer", id)
        try:
            is_here = about is not None
            exchanged = self._patiently(
                lambda: self._exchange.sync(id, is_here=is_here, missing=_missing(kept, id))
            )
            self._silent = 0
        except Unavailable as error:
            self._silent += 1
            return self._waiting(kept, about, sentence(error), id)
        except RefoldError as error:
            state: SyncState = "held" if isinstance(error, Held) else "blocked"
            return self._stuck(kept, id, about, state, sentence(error))
        return self._done(kept, exchanged)

    def _done(self, kept: Record, exchanged: Exchanged) -> Synced:
        state: SyncState = "forked" if exchanged.fork else "synced"
        missing = exchanged.missing
        done = Synced(
            conversation=exchanged.conversation,
            state="pending" if missing else state,
            reason=_lost(set(missing.values())) if missing else "",
            pulled=exchanged.pulled,
            pushed=exchanged.pushed,
            contents=exchanged.contents,
            erased=exchanged.erased,
            fork=exchanged.fork,
        )
        if exchanged.fork:
            fork = Synced(conversation=exchanged.fork, state="synced")
            self._keep(kept, fork, exchanged.fork_head, is_same=True)
        return self._keep(kept, done, exchanged.head, missing=tuple(missing), is_same=True)

    def _waiting(
        self, kept: Record, about: Conversation | None, reason: str, id: str = ""
    ) -> Synced:
        id = about.id if about else id
        head, pending = _to_send(kept, id, about)
        state: SyncState = "pending" if pending or reason else "synced"
        waiting = Synced(conversation=id, state=state, pending=pending, reason=reason)
        return self._keep(kept, waiting, head)

    def _stuck(
        self, kept: Record, id: str, about: Conversation | None, state: SyncState, reason: str
    ) -> Synced:
        head, pending = _to_send(kept, id, about)
        done = Synced(conversation=id, state=state, pending=pending, reason=reason)
        return self._keep(kept, done, head)

    def _keep(
        self,
        kept: Record,
        done: Synced,
        head: int,
        *,
        missing: tuple[int, ...] | None = None,
        is_same: bool = False,
    ) -> Synced:
        """Notes how a conversation stands; what it was forked into stays known, and so does what is
        missing until it was asked for again, and what is lost until both sides are the same."""
        known = kept.conversations.get(done.conversation)
        fork = done.fork or (known.fork if known else "")
        if missing is None:
            missing = _missing(kept, done.conversation)
        lost = known.lost if known and not is_same else 0
        kept.conversations[done.conversation] = ConversationState(
            state=done.state,
            pending=max(0, done.pending - lost),
            head=head,
            fork=fork,
            reason=done.reason,
            at_ms=self._timing.now_ms(),
            missing=missing,
            lost=lost,
        )
        return done

    # --- waiting ---

    def _patiently(self, work: Callable[[], T]) -> T:
        """The work, tried again while it may pass; once only if the far store was silent before."""
        number = 0
        while True:
            try:
                return work()
            except Unavailable as error:
                number += 1
                if number >= TRIES_MAX or self._silent:
                    raise
                longest = min(PAUSE_S_MAX, PAUSE_S * 2**number)
                pause_s = max(error.retry_after_s or 0.0, longest * self._timing.share())
                self._timing.wait(min(pause_s, PAUSE_S_MAX))

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Whether no other sync of the near store runs, in this process or another."""
        if not self._busy.acquire(blocking=False):
            yield False
            return
        try:
            with _file_lock(self._near.derived_path("sync.lock")) as is_ours:
                yield is_ours
        finally:
            self._busy.release()


@contextmanager
def _file_lock(path: str | None) -> Iterator[bool]:
    if path is None:
        yield True
        return
    disk.make_folder(os.path.dirname(path))
    with record.lock_file(path) as fd:
        yield disk.try_lock(fd)


def _known(store: Store, ids: Sequence[str]) -> dict[str, Conversation]:
    """What a store knows of these conversations, or of all where they are none, or many."""
    if not ids or len(ids) > ASKED_MAX:
        return {about.id: about for about in all_conversations(store)}
    found = {}
    for id in ids:
        try:
            about = erasure.about(store, id)
        except Unavailable:
            raise
        except RefoldError:
            continue  # the exchange meets it again, and its reason is kept
        if about is not None:
            found[id] = about
    return found


def _is_same(here: Conversation | None, there: Conversation | None) -> bool:
    if here is None or there is None:
        return False
    return (here.head, here.chain) == (there.head, there.chain)


def _missing(kept: Record, id: str) -> tuple[int, ...]:
    """The events of a conversation whose artifacts were on neither side."""
    known = kept.conversations.get(id)
    return known.missing if known else ()


def _to_send(kept: Record, id: str, about: Conversation | None) -> tuple[int, int]:
    """Up to where both sides were the same, and how many events the far store is known to lack."""
    known = kept.conversations.get(id) or ConversationState(state="pending")
    return known.head, max(0, about.head - known.head) + known.lost if about else 0


def _lost(ids: Set[str]) -> str:
    named = ", ".join(sorted(ids)[:NAMED_MAX])
    said = f"{number(len(ids), 'artifact')} not there: {named}"
    return f"{said}; asked for again by each sync"


def _is_left(kept: Record, id: str, here: Conversation | None, there: Conversation | None) -> bool:
    """Whether nothing is done for a conversation that nobody asked for: it is stuck, or was deleted
    here since it changed."""
    is_gone = here is None and (there is None or id in kept.deleted)
    return is_gone or _is_stuck(kept, id, here)


def _is_stuck(kept: Record, id: str, about: Conversation | None = None) -> bool:
    """Whether a conversation is blocked or held, and nothing was done about it here since."""
    known = kept.conversations.get(id)
    if known is None or known.state not in ("blocked", "held"):
        return False
    return about is None or about.head == known.head + known.pending


def found(near: Store, far: Store, kept: Record, ids: Sequence[str], besides: Set[str]) -> Losses:
    """What the far store has no more of these conversations, or of all, besides some."""
    events: dict[str, int] = {}
    for id in _shared(kept, ids, besides):
        count = _losses_lost(near, far, id, kept.conversations[id].head)
        if count:
            events[id] = count
    return Losses(events=events, is_all=bool(events) and _is_all(far, kept))


def note(kept: Record, losses: Losses, ids: Sequence[str], besides: Set[str]) -> None:
    """Puts what was found into the record, and takes out what is there again."""
    for id in _shared(kept, ids, besides):
        known = kept.conversations[id]
        kept.conversations[id] = replace(known, lost=losses.events.get(id, 0))


def _shared(kept: Record, ids: Sequence[str], besides: Set[str]) -> list[str]:
    """The conversations that both sides had."""
    return [
        id
        for id, known in kept.conversations.items()
        if known.head and id not in besides and (not ids or id in ids)
    ]


def _losses_lost(near: Store, far: Store, id: str, head: int) -> int:
    """How many of the events up to `head` the far store has no more. What is not here, or cannot
    be compared, is not counted: reading it says why."""
    try:
        here = erasure.about(near, id)
        if here is None:
            return 0
        there = erasure.about(far, id) or Conversation(id=id, head=0, chain=codec.ZERO)
        common, last = erasure.last_common(near, here, far, there), min(head, here.head)
        gone = (event for page in pages(near, id, common, last) for event in page)
        return 0 if all(map(erasure.is_confirmation, gone)) else last - common
    except Unavailable:
        raise
    except RefoldError:
        return 0


def _is_all(far: Store, kept: Record) -> bool:
    there = devices.without({about.id: about for about in all_conversations(far)})
    return there.keys().isdisjoint(_shared(kept, (), frozenset()))


class Held(Denied):
    """A conversation stays near, because it has a secret."""


HINT = "refold scan shows what was found; erase it, or sync without redact=hold"


def check_events(near: Store, events: Sequence[Event]) -> None:
    """Held if an event, or a content that one names, holds a secret."""
    for event in events:
        for text in _texts(event):
            _check(text, f"event {event.seq}")
    for artifact in erasure.contents_of(events):
        try:
            content = b"".join(near.get(artifact.digest))
        except NotFound:
            continue
        _check(content.decode("utf-8", "replace"), artifact.id)


def _check(text: str, place: str) -> None:
    for secret in find_found(text):
        if secret.sure:
            said = f"{place} holds what looks like a secret ({secret.kind}), and is held back"
            raise Held(said, hint=HINT)


def check_id(conversation: str) -> None:
    """Invalid if the id of a new conversation holds a secret: it is the name of it everywhere."""
    if any(secret.sure for secret in find_found(conversation)):
        said = "the id of the conversation holds what looks like a secret"
        raise Invalid(said, hint="give it another id; its title can say more")


def _texts(event: Event) -> Iterator[str]:
    yield event.by
    try:
        yield from _strings(msgspec.json.decode(event.body) if event.body else None)
    except msgspec.DecodeError:
        yield event.body.decode("utf-8", "replace")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _strings(inner)
            if name == "data" and isinstance(inner, str):
                yield decoded(inner) or ""
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
