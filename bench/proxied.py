"""What the proxy sends, without HTTP: a client that repeats its whole list at every call, handed to
the proxy's observer, and the provider's usage back.

As a policy it stands beside the library in the measure of `fidelity`: the same sessions, budgets
and needs, once held by the caller's own `Context` and once behind a base URL. Neighbours: `talks`
has the clients, `proxy` measures whole processes, `proxy_pages` makes tables of this.
"""

from __future__ import annotations

from typing import Any

import msgspec

import refold
from bench.sessions import Message, tokens_of_all
from bench.talks import MessagesTalk, Talk, spoken
from refold.core.model import Usage
from refold.edges.proxy.book import Book, Folding
from refold.edges.proxy.limits import Limits
from refold.edges.proxy.observer import Observer, Taken
from refold.edges.proxy.route import target_of


class Passage:
    """A proxy that folds into this window, with nothing on either side of it."""

    def __init__(self, path: bytes, window: int, **config: Any) -> None:
        folding = Folding(folds=True, window=window, config=config)
        self._book = Book(refold.open_store("memory:"), folding, Limits())
        self._observer = Observer(self._book)
        self._target = target_of("POST", path, ())
        self._taken: Taken | None = None

    def sent(self, body: bytes) -> bytes:
        """What goes up for a call."""
        asked = self._observer.read(body, self._target)
        assert asked is not None
        self._taken = self._observer.take(asked)
        if self._taken is None or self._taken.body is None:
            return body
        return self._taken.body

    def answered(self, tokens: int) -> None:
        """The provider answered, and billed so many tokens for what went up."""
        if self._taken is not None and self._taken.held is not None:
            self._taken.answered()
            self._observer.finish(self._taken, Usage(input=tokens, output=1), None)

    def close(self) -> None:
        self._book.close()


class Proxied:
    """The proxy as a policy: each turn's list goes in, and what is sent for it is the prompt."""

    def __init__(self, **config: Any) -> None:
        self.config = {"reserve_tokens": 0, **config}

    def start(self, budget: int) -> None:
        self.talk: Talk = MessagesTalk()
        self.passage = Passage(self.talk.path, budget, **self.config)

    def observe(self, message: Message) -> None:
        self.talk.take(message)

    def prompt(self) -> list[Message]:
        body = msgspec.json.decode(self.passage.sent(self.talk.body()))
        messages = [said for wire in body["messages"] for said in spoken(wire)]
        prompt = [*self.talk.system, *messages]
        self.passage.answered(tokens_of_all(prompt))
        return prompt
