"""A complete sync: every conversation of both sides, one after the other, one sync at a time.

The lists of both sides show which conversations differ; only those cost calls, and a few named ones
are queried alone. A failed conversation keeps its reason and delays no other: a failure that can
pass is retried after a random, growing pause, at least as long as the far store asks; any other
blocks the conversation until its sync is requested, or it changes. A far store that does not answer
three times in a row is left to the next sync.

Losses: the record has the last seq at which both sides were the same. A far log that lacks an event
up to there has lost it, however sound the rest is. Notes in which this device only confirms an
erasure may never have been sent, and are not missed.

Secrets: with `redact=hold`, and for old or foreign events with `redact=append`, outgoing events and
their contents are searched; the first secret withholds the conversation from the sync. Nothing is
changed on the way, because the chain covers the body. Neighbours: `conversation_sync` syncs one
conversation, `sync_record` keeps the state, `diverged_logs` compares two logs.
"""

from __future__ import annotations

import os
import random
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
from refold.redaction import secrets_in
from refold.redaction.redact import decoded
from refold.stores.hybrid import devices, diverged_logs, sync_record
from refold.stores.hybrid.conversation_sync import Exchange, Exchanged, all_conversations, pages
from refold.stores.hybrid.sync_record import ConversationState, Record
from refold.stores.protocol import Losses, Store, Synced, SyncReport, SyncState
from refold.system import disk, posix

TRIES_MAX = 3
PAUSE_S, PAUSE_S_MAX = 1.0, 60.0
ASKED_MAX = 20  # more conversations are listed instead of queried one by one
SILENT_MAX = 3  # after this many unanswered conversations the far store counts as down
NAMED_MAX = 3  # artifacts in a reason
NEW_FAR = "is it mounted? If it is new, or was emptied on purpose: refold sync --new-far"
T = TypeVar("T")


class Timing(Struct, frozen=True, kw_only=True):
    """The clock, the wait, and the randomness of a sync."""

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
        self._silent = 0

    def run(
        self, ids: Sequence[str] = (), *, skip_blocked: bool = False, new_far: bool = False
    ) -> SyncReport:
        """Syncs these conversations, or all; with `skip_blocked`, without those blocked before or
        deleted here. `new_far` permits filling a far store that has lost everything."""
        with _alone(self._near.derived_path("sync.lock")) as is_alone:
            if not is_alone:
                return SyncReport(is_under_way=True)
            with sync_record.locked(self._path):
                kept = sync_record.read(self._path, self._far_url)
                here = _listed(self._near, ids)
            deleted, seen = frozenset(kept.deleted), frozenset(kept.conversations)
            self._exchange.device_name = kept.device
            report = self._run(kept, here, ids, skip_blocked, new_far)
            if report.is_done and not ids:
                devices.confirm_sync(kept, self._path, self._far, self._timing.now_ms())
            kept.at_ms, kept.reason = self._timing.now_ms(), report.reason
            kept.is_refused = report.is_refused
            with sync_record.locked(self._path):
                now = sync_record.read(self._path, self._far_url)
                kept.deleted += [id for id in now.deleted if id not in deleted]
                for id in now.conversations.keys() - seen:
                    kept.conversations.setdefault(id, now.conversations[id])
                sync_record.write(self._path, kept)
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
            there = self._patiently(lambda: _listed(self._far, ids))
            if not ids:
                devices.learn(kept, self._far, there)
            there = devices.without(there)
            if not new_far:
                self._check_far(kept, there)
        except RefoldError as error:
            free = [about for about in here.values() if not _is_stuck(kept, about.id)]
            waiting = [self._keep_unsynced(kept, about.id, about, "") for about in free]
            is_refused = isinstance(error, Denied)
            synced = tuple(
                replace(one, state="blocked") if is_refused else one
                for one in waiting
                if one.pending
            )
            return SyncReport(synced=synced, reason=str(error), is_refused=is_refused)
        done: list[Synced] = []
        same = 0
        for id in sorted(ids) or self._all_ids(kept, here, there):
            near, far = here.get(id), there.get(id)
            is_same = near and far and (near.head, near.chain) == (far.head, far.chain)
            if is_same and not _missing(kept, id):
                self._keep_same(kept, here[id])
                same += 1
            elif not (skip_blocked and _is_skipped(kept, id, near, far)):
                done.append(self._sync_conversation(kept, id, near))
        return SyncReport(synced=tuple(done), same=same)

    def _check_far(self, kept: Record, there: Mapping[str, Conversation]) -> None:
        """Raises Unavailable if the far store has none of the shared conversations: it is probably
        a share that is not mounted, or a different store, rather than a new one."""
        shared = [id for id, state in kept.conversations.items() if state.head]
        if not shared or any(id in there for id in shared):
            return
        if diverged_logs.about(self._far, shared[-1]) is not None:
            return  # only a few were listed, and others exist
        gone = [id for id in shared if diverged_logs.about(self._near, id) is not None]
        if gone and _listed(self._far, ()).keys().isdisjoint(gone):
            for id in gone:
                state = kept.conversations[id]
                kept.conversations[id] = replace(state, lost=state.head)
            message = f"it has none of the {number(len(gone), 'conversation')} that it had"
            raise Unavailable(
                f"{message}: it is not the far store of the earlier syncs", hint=NEW_FAR
            )

    def _all_ids(
        self, kept: Record, here: Mapping[str, Conversation], there: Mapping[str, Conversation]
    ) -> list[str]:
        """Every conversation of either side, except those deleted here; the record forgets those
        that neither side has."""
        for id in [id for id in kept.conversations if id not in here and id not in there]:
            del kept.conversations[id]
        kept.deleted = [id for id in kept.deleted if id in there and id not in here]
        return sorted({*here, *there}.difference(kept.deleted))

    def _keep_same(self, kept: Record, about: Conversation) -> None:
        """Notes that both sides are the same."""
        old = kept.conversations.get(about.id)
        if old is None or old.state != "synced" or old.head != about.head or old.lost:
            same = Synced(conversation=about.id, state="synced")
            self._keep(kept, same, about.head, is_same=True)

    def _sync_conversation(self, kept: Record, id: str, about: Conversation | None) -> Synced:
        """Syncs one conversation; a failure becomes its reason."""
        if self._silent >= SILENT_MAX:
            return self._keep_unsynced(kept, id, about, "the far store does not answer")
        try:
            is_here = about is not None
            exchanged = self._patiently(
                lambda: self._exchange.sync(id, is_here=is_here, missing=_missing(kept, id))
            )
            self._silent = 0
        except Unavailable as error:
            self._silent += 1
            return self._keep_unsynced(kept, id, about, sentence(error))
        except RefoldError as error:
            state: SyncState = "held" if isinstance(error, Held) else "blocked"
            return self._keep_unsynced(kept, id, about, sentence(error), state)
        return self._done(kept, exchanged)

    def _done(self, kept: Record, exchanged: Exchanged) -> Synced:
        state: SyncState = "forked" if exchanged.fork else "synced"
        missing = exchanged.missing
        done = Synced(
            conversation=exchanged.conversation,
            state="pending" if missing else state,
            reason=_missing_reason(set(missing.values())) if missing else "",
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

    def _keep_unsynced(
        self,
        kept: Record,
        id: str,
        about: Conversation | None,
        reason: str,
        state: SyncState | None = None,
    ) -> Synced:
        """Records a conversation that was not synced. Its default state is "pending" if there is
        anything to send or a reason, else "synced"."""
        old = kept.conversations.get(id) or ConversationState(state="pending")
        pending = max(0, about.head - old.head) + old.lost if about else 0
        state = state or ("pending" if pending or reason else "synced")
        unsynced = Synced(conversation=id, state=state, pending=pending, reason=reason)
        return self._keep(kept, unsynced, old.head)

    def _keep(
        self,
        kept: Record,
        done: Synced,
        head: int,
        *,
        missing: tuple[int, ...] | None = None,
        is_same: bool = False,
    ) -> Synced:
        """Records the state of a conversation. Its fork stays recorded; so do missing artifacts
        until they are queried again, and lost events until both sides are the same."""
        old = kept.conversations.get(done.conversation)
        fork = done.fork or (old.fork if old else "")
        if missing is None:
            missing = _missing(kept, done.conversation)
        lost = old.lost if old and not is_same else 0
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
        """Does the work and retries after temporary failures; without retries if the far store did
        not answer before."""
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
def _alone(path: str | None) -> Iterator[bool]:
    """Whether no other sync of the near store is running, in this process or another. `path` is the
    lock file; None if the near store has no place on this disk."""
    if path is None:
        yield True
        return
    disk.make_folder(os.path.dirname(path))
    with sync_record.lock_file(path) as fd:
        yield posix.lock(fd, waits=False)


def _listed(store: Store, ids: Sequence[str]) -> dict[str, Conversation]:
    """These conversations of a store; all of them if no ids are given, or many."""
    if not ids or len(ids) > ASKED_MAX:
        return {about.id: about for about in all_conversations(store)}
    found = {}
    for id in ids:
        try:
            about = diverged_logs.about(store, id)
        except Unavailable:
            raise
        except RefoldError:
            continue  # the exchange meets it again and records the reason
        if about is not None:
            found[id] = about
    return found


def _missing(kept: Record, id: str) -> tuple[int, ...]:
    """The events of a conversation whose artifacts were on neither side."""
    state = kept.conversations.get(id)
    return state.missing if state else ()


def _missing_reason(ids: Set[str]) -> str:
    named = ", ".join(sorted(ids)[:NAMED_MAX])
    return f"{number(len(ids), 'artifact')} not there: {named}; each sync asks for it again"


def _is_skipped(
    kept: Record, id: str, here: Conversation | None, there: Conversation | None
) -> bool:
    """Whether an automatic sync skips a conversation: it is stuck, or was deleted here."""
    is_gone = here is None and (there is None or id in kept.deleted)
    return is_gone or _is_stuck(kept, id, here)


def _is_stuck(kept: Record, id: str, about: Conversation | None = None) -> bool:
    """Whether a conversation is blocked or held, and unchanged here since."""
    state = kept.conversations.get(id)
    if state is None or state.state not in ("blocked", "held"):
        return False
    return about is None or about.head == state.head + state.pending


# --- losses ---


def losses_in(
    near: Store, far: Store, kept: Record, ids: Sequence[str], besides: Set[str]
) -> Losses:
    """The missing events of the far store in these conversations, or in all except `besides`."""
    events: dict[str, int] = {}
    for id in _shared(kept, ids, besides):
        count = _lost_events(near, far, id, kept.conversations[id].head)
        if count:
            events[id] = count
    is_all = False
    if events:
        there = devices.without({about.id: about for about in all_conversations(far)})
        is_all = there.keys().isdisjoint(_shared(kept, (), frozenset()))
    return Losses(events=events, is_all=is_all)


def record_losses(kept: Record, losses: Losses, ids: Sequence[str], besides: Set[str]) -> None:
    """Sets the losses of these conversations in the record."""
    for id in _shared(kept, ids, besides):
        state = kept.conversations[id]
        kept.conversations[id] = replace(state, lost=losses.events.get(id, 0))


def _shared(kept: Record, ids: Sequence[str], besides: Set[str]) -> list[str]:
    """The conversations that both sides had."""
    return [
        id
        for id, state in kept.conversations.items()
        if state.head and id not in besides and (not ids or id in ids)
    ]


def _lost_events(near: Store, far: Store, id: str, head: int) -> int:
    """The number of events up to `head` that the far store has lost. A conversation that is missing
    here, or cannot be compared, counts 0: reading it raises the reason."""
    try:
        here = diverged_logs.about(near, id)
        if here is None:
            return 0
        there = diverged_logs.about(far, id) or Conversation(id=id, head=0, chain=codec.ZERO)
        common, last = diverged_logs.last_common(near, here, far, there), min(head, here.head)
        gone = (event for page in pages(near, id, common, last) for event in page)
        return 0 if all(map(diverged_logs.is_confirmation, gone)) else last - common
    except Unavailable:
        raise
    except RefoldError:
        return 0


# --- secrets ---


class Held(Denied):
    """A conversation is withheld from the sync because of a secret."""


HINT = "refold scan shows the finding; erase it, or sync without redact=hold"


def check_events(near: Store, events: Sequence[Event]) -> None:
    """Raises Held if an event or one of its contents has a secret."""
    for event in events:
        for text in _texts(event):
            _check(text, f"event {event.seq}")
    for artifact in diverged_logs.contents_of(events):
        try:
            content = b"".join(near.get(artifact.digest))
        except NotFound:
            continue
        _check(content.decode("utf-8", "replace"), artifact.id)


def _check(text: str, place: str) -> None:
    for secret in secrets_in(text):
        if secret.sure:
            message = f"{place} contains an apparent secret ({secret.kind}), and is held back"
            raise Held(message, hint=HINT)


def check_id(conversation: str) -> None:
    """Raises Invalid if the id of a new conversation has a secret: ids are visible everywhere."""
    if any(secret.sure for secret in secrets_in(conversation)):
        message = "the id of the conversation contains an apparent secret"
        raise Invalid(message, hint="choose another id; its title can say more")


def _texts(event: Event) -> Iterator[str]:
    yield event.by
    try:
        yield from _strings(msgspec.json.decode(event.body) if event.body else None)
    except (msgspec.DecodeError, ValueError, RecursionError):
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
