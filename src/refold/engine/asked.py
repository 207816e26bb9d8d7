"""Which page a reply answers: the heads that requests showed, until their replies come.

Threads that share a context, and tasks of an event loop, each ask and are answered for themselves.
Who brings a reply without having asked has that of the newest request. A reply that was appended by
hand leaves its request where it is, for the usage that may come apart; but whatever is appended
after it ends it. Neighbours: `pages` makes requests, `recorder` takes replies, `late` says what of
them still stands.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar

CALLERS_MAX = 100  # requests whose reply never came are forgotten at some time
# Who calls, where that is no thread of its own: `aio` works in any thread that is free.
CALLER: ContextVar[int | None] = ContextVar("caller", default=None)


class _Request:
    """One that waits: for its reply, or only for what it was billed."""

    def __init__(self, head: int) -> None:
        self.head, self.is_replied, self.is_over = head, False, False


class Asked:
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
