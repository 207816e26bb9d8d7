"""What the proxy sends, without HTTP: a client that repeats its whole list at every call, handed to
the proxy's observer, and the provider's usage back. A provider that counts more than the budget refuses the call, as
real ones do, and the proxy makes room once.

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
from refold.compaction.limits import WISH_FROM
from refold.core.model import Usage
from refold.edges.proxy.conversation_registry import ConversationRegistry
from refold.edges.proxy.folding import Folding
from refold.edges.proxy.observer import ObservedCall, Observer
from refold.edges.proxy.upstream import Limits, target_of


class Passage:
    """A proxy that folds into this window, or only observes, with nothing on either side of it."""

    def __init__(self, path: bytes, window: int, *, folds: bool = True, **config: Any) -> None:
        folding = Folding(folds=folds, window=window, config=config)
        self.store = refold.open_store("memory:")
        self._book = ConversationRegistry(self.store, folding, Limits())
        self._observer = Observer(self._book)
        self._target = target_of("POST", path, ())
        self._taken: ObservedCall | None = None

    def sent(self, body: bytes) -> bytes:
        """What goes up for a call."""
        asked = self._observer.read(body, self._target)
        assert asked is not None
        self._taken = self._observer.take(asked)
        if self._taken is None or self._taken.body is None:
            return body
        return self._taken.body

    def sent_again(self, tokens: int, limit: int) -> bytes | None:
        """What goes up after the provider refused so many tokens; None if nothing helps."""
        if self._taken is None:
            return None
        says = f"prompt is too long: {tokens} tokens > {limit} maximum"
        error = {"type": "invalid_request_error", "message": says}
        answer = msgspec.json.encode({"type": "error", "error": error})
        self._taken = self._observer.recover(self._taken, 400, answer)
        return None if self._taken is None else self._taken.body

    def answered(self, tokens: int) -> None:
        """The provider answered, and billed so many tokens for what went up."""
        self.billed(Usage(input=tokens, output=1))

    def billed(self, usage: Usage) -> None:
        """The provider answered, and billed this for what went up."""
        if self._taken is not None and self._taken.held is not None:
            self._taken.answered()
            self._observer.finish(self._taken, usage, None)

    def close(self) -> None:
        self._book.close()


class Proxied:
    """The proxy as a policy: each turn's list goes in, and what is sent for it is the prompt."""

    def __init__(self, **config: Any) -> None:
        self.config = config

    def start(self, budget: int) -> None:
        """A large window is one below the model's own; of a small one, too, all is for the list,
        as it is for the library."""
        self.budget = budget
        usual = {} if budget >= WISH_FROM else {"reserve_tokens": 0}
        self.talk: Talk = MessagesTalk()
        self.passage = Passage(self.talk.path, budget, **{**usual, **self.config})

    def observe(self, message: Message) -> None:
        self.talk.take(message)

    def prompt(self) -> list[Message]:
        prompt = self._said(self.passage.sent(self.talk.body()))
        tokens = tokens_of_all(prompt)
        if tokens > self.budget and (again := self.passage.sent_again(tokens, self.budget)):
            prompt = self._said(again)
        self.passage.answered(tokens_of_all(prompt))
        return prompt

    def _said(self, body: bytes) -> list[Message]:
        wires = msgspec.json.decode(body)["messages"]
        return [*self.talk.system, *(said for wire in wires for said in spoken(wire))]
