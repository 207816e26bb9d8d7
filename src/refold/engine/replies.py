"""Matches replies to requests: which page a reply answers, and what still holds if the log grew.

Each thread and each asyncio task has its own pending request; a reply from a caller without one is
matched to the newest. A reply appended by hand leaves its request pending, because its usage may
arrive separately; the next append after it closes the request. Thinking in a late reply is stored
with the head its request showed (`UPTO`), or with 0 if no page holds it where it was thought:
others spoke before the reply, or the dialect ended the request with words of its own. The law of
thinking (`core.laws`) reads that. Neighbours: `pages` adds requests, `recorder` matches replies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar

from msgspec.structs import replace

from refold.core.model import UPTO, Event, Message, Text, Thinking
from refold.errors import Conflict
from refold.log.draft import Draft
from refold.log.log import TRIES_MAX
from refold.log.open_log import OpenLog

PENDING_MAX = 100  # older requests that never got a reply are dropped
# The caller, if it is not a thread of its own: `aio` runs in any free thread.
CALLER: ContextVar[int | None] = ContextVar("caller", default=None)


class _Request:
    """A request that waits for its reply, or only for its usage."""

    def __init__(self, head: int) -> None:
        self.head, self.is_replied, self.is_closed = head, False, False


class PendingRequests:
    """The pending requests of one context. `newest_head` is the head that the newest showed."""

    def __init__(self, head: int) -> None:
        self.reset(head)

    def reset(self, head: int) -> None:
        """Starts over for another log."""
        self._pending: dict[int, _Request] = {}  # by caller, the newest last
        self.newest_head = head

    def add(self, head: int) -> None:
        """Registers a request built from the log up to `head`."""
        caller = _caller()
        # A new dict each time: other threads may be looking at the old one.
        others = [item for item in self._pending.items() if item[0] != caller]
        self._pending = {**dict(others[1 - PENDING_MAX :]), caller: _Request(head)}
        self.newest_head = head

    @property
    def head(self) -> int | None:
        """Log position of the newest unrecorded request, or None."""
        request = self._newest()
        return None if request is None else request.head

    @property
    def head_without_manual_reply(self) -> int | None:
        """The same, or None if a reply to it was appended by hand."""
        request = self._newest()
        return None if request is None or request.is_closed else request.head

    def match(self, head: int) -> int:
        """Returns the position that the reply answers, and removes that request. Without a pending
        request, the caller built its own from the whole log, up to `head`."""
        request = self._newest()
        if request is None:
            return head
        self._pending = {key: one for key, one in self._pending.items() if one is not request}
        return request.head

    def note_manual_append(self, *, is_reply: bool) -> None:
        """Follows a manual append: a reply, or part of one, or whatever comes after it."""
        request = self._newest()
        if request is not None:
            request.is_closed = request.is_closed or (request.is_replied and not is_reply)
            request.is_replied = request.is_replied or is_reply

    def _newest(self) -> _Request | None:
        if not self._pending:
            return None
        own = self._pending.get(_caller())
        return own or next(reversed(self._pending.values()), None)


def _caller() -> int:
    return CALLER.get() or threading.get_ident()


MarkLate = Callable[[Message], Message]


def thinks(message: Message) -> bool:
    return any(isinstance(block, Thinking) for block in message.blocks)


def append_reply(
    log: OpenLog,
    shown: int,
    drafts_of: Callable[[MarkLate], Sequence[Draft]],
    at_ms: int | None = None,
) -> list[Event]:
    """Appends the drafts of a reply to the request that showed the log up to `shown`. `drafts_of`
    gets the function that marks a late message. Called with the lock held and the log read; nobody
    can write unseen between reading and writing."""
    for _ in range(TRIES_MAX):
        drafts = drafts_of(_marker(log, shown))
        if not drafts:
            return []
        if events := log.append(drafts, fresh=lambda _: False, at_ms=at_ms):
            return events
    message = f"{log.id}: other writers were faster {TRIES_MAX} times"
    raise Conflict(message, head=log.state.head, hint="try again")


def without_late_marker(message: Message) -> Message:
    """The message without its late marker."""
    if UPTO not in message.metadata:
        return message
    rest = {name: value for name, value in message.metadata.items() if name != UPTO}
    return replace(message, metadata=rest)


def _marker(log: OpenLog, shown: int) -> MarkLate:
    """The function that adds the late marker to a message, if the log has changed since."""
    slots = log.sums.slots
    last = slots[-1] if slots else None
    # A model would not continue an answer that ends in text or thinking.
    is_finished = last is not None and (
        last.message.role == "assistant"
        and all(isinstance(block, Text | Thinking) for block in last.message.blocks[-1:])
    )
    is_asked = last is None or (last.last <= shown and not is_finished)
    # A lone system message is spoken by the user until somebody says something.
    holds = is_asked and (not slots or any(slot.message.role != "system" for slot in slots))
    is_late = log.sums.head > shown or bool(log.pending) or not holds

    def mark(message: Message) -> Message:
        if not is_late or not thinks(message):
            return message
        return replace(message, metadata={**message.metadata, UPTO: shown if holds else 0})

    return mark
