"""Which page a reply answers: the heads that requests showed, until their replies come.

Threads that share a context, and tasks of an event loop, each ask and are answered for themselves.
Who brings a reply without having asked has that of the newest request. A reply that was appended by
hand leaves its request where it is, for the usage that may come apart; but whatever is appended
after it ends it. Neighbours: `pages` makes requests, `recorder` takes replies, `late` says what of
them still stands.

A reply that comes to a log which grew while it was made.

Somebody edited the page meanwhile, or spoke: what the model thought stands under the page that its
request showed. The log keeps that head with the thinking (`UPTO`), and the law of thinking goes by
it; 0 where others spoke before the reply, or where the request ended with words that a dialect put
there because an answer came last: no page has the thinking where it was thought. So that nobody can
write in between unseen, a reply is written on top of the log that was looked at, or looked at
again. Neighbours: `asked` knows what was shown, `core.laws` leaves thinking out.
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

CALLERS_MAX = 100  # requests whose reply never came are forgotten at some time
# Who calls, where that is no thread of its own: `aio` works in any thread that is free.
CALLER: ContextVar[int | None] = ContextVar("caller", default=None)


class _Request:
    """One that waits: for its reply, or only for what it was billed."""

    def __init__(self, head: int) -> None:
        self.head, self.is_replied, self.is_over = head, False, False


class PendingRequests:
    """The requests of one context. `shown` is the head that the newest of them showed."""

    def __init__(self, head: int) -> None:
        self.move(head)

    def move(self, head: int) -> None:
        """The log is another one, and nothing of it was shown yet."""
        self._waiting: dict[int, _Request] = {}  # by who asked, the newest last
        self.shown = head

    def ask(self, head: int) -> None:
        """A request showed the log up to this head."""
        waiting = {who: one for who, one in self._waiting.items() if who != _caller()}
        newest = list(waiting.items())[1 - CALLERS_MAX :]
        self._waiting = {**dict(newest), _caller(): _Request(head)}
        self.shown = head

    @property
    def waiting(self) -> int | None:
        """The head that the request showed which was not recorded as answered yet."""
        request = self._newest()
        return None if request is None else request.head

    @property
    def unanswered(self) -> int | None:
        """The same, if no reply to it was appended by hand either."""
        request = self._newest()
        return None if request is None or request.is_over else request.head

    def take(self, head: int) -> int:
        """The head that the request showed which is answered now. Without a request since the
        last reply, the caller made its own from everything there is, which is `head`."""
        request = self._newest()
        if request is None:
            return head
        self._waiting = {who: one for who, one in self._waiting.items() if one is not request}
        return request.head

    def follow(self, *, is_reply: bool) -> None:
        """Something was appended by hand: a reply, or a part of one, or what comes after it."""
        request = self._newest()
        if request is not None:
            request.is_over = request.is_over or (request.is_replied and not is_reply)
            request.is_replied = request.is_replied or is_reply

    def _newest(self) -> _Request | None:
        """What the caller asked last; what anybody did if that is nothing."""
        own = self._waiting.get(_caller())
        return own or next(reversed(self._waiting.values()), None)


def _caller() -> int:
    return CALLER.get() or threading.get_ident()


Late = Callable[[Message], Message]


def thinks(message: Message) -> bool:
    return any(isinstance(block, Thinking) for block in message.blocks)


def append_reply(
    log: OpenLog, shown: int, make: Callable[[Late], Sequence[Draft]], at_ms: int | None = None
) -> list[Event]:
    """Appends what `make` gives for a request that showed the log up to `shown`: it is handed
    what marks a message that came late. Asked with the lock held and the log read."""
    for _ in range(TRIES_MAX):
        drafts = make(_marker(log, shown))
        if not drafts:
            return []
        if events := log.append(drafts, fresh=lambda _: False, at_ms=at_ms):
            return events
    said = f"{log.id}: other writers were faster {TRIES_MAX} times"
    raise Conflict(said, head=log.state.head, hint="try again")


def without_late_marker(message: Message) -> Message:
    """The message without what says that it came late."""
    if UPTO not in message.metadata:
        return message
    rest = {name: value for name, value in message.metadata.items() if name != UPTO}
    return replace(message, metadata=rest)


def _marker(log: OpenLog, shown: int) -> Late:
    slots = log.sums.slots
    is_asked = not slots or (slots[-1].last <= shown and not _is_finished(slots[-1].message))
    # A system message that stands alone is said by the user, until somebody speaks.
    stands = is_asked and (not slots or any(slot.message.role != "system" for slot in slots))
    is_late = log.sums.head > shown or bool(log.pending) or not stands

    def mark(message: Message) -> Message:
        if not is_late or not thinks(message):
            return message
        return replace(message, metadata={**message.metadata, UPTO: shown if stands else 0})

    return mark


def _is_finished(message: Message) -> bool:
    """Whether this is an answer that its model would not go on with by itself."""
    return message.role == "assistant" and all(
        isinstance(block, Text | Thinking) for block in message.blocks[-1:]
    )
