"""refold inside a framework that owns the loop: a call is folded on its way out, its answer kept.

The framework repeats an answer in its next list, if there is one; it is kept when it comes, under
the front that its repetition has, so nothing is written twice and the last answer of a run is not
missing. A list that went on meanwhile has its answer already. What fails here after the model has
answered is logged and never reaches the agent; that a manager of the host's own is at work, too, is
said once. Neighbours: `folding` makes the page, `sessions`
holds the conversations, every adapter of a list brings its framework's objects.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic

from msgspec.structs import replace

import refold
from refold.edges.adapters.folding import (
    UNREADABLE,
    Own,
    Sent,
    Wire,
    folded,
    log,
    newest,
    sent_as_they_are,
)
from refold.edges.adapters.sessions import Place, Sessions

WAITING_MAX = 1_000  # calls whose answer never came are forgotten at some time
# The answers of a call in the dialect, and what it was billed: None if nobody said.
Answered = tuple[Sequence[Any], Any]
BESIDE = "%s shortens this history as well as refold: one is enough, leave the other out"


class Guest:
    """The conversations of one framework. `settings` are those of `refold.open`; without `model`,
    the model that a call names counts."""

    def __init__(self, dialect: str, store: Place, settings: Mapping[str, Any]) -> None:
        self.dialect, self.sessions = dialect, Sessions(store, settings)
        self._settings = settings
        self._told: set[str] = set()  # managers of the host that were spoken of

    def fold(
        self,
        name: str,
        messages: Sequence[Own],
        wire: Callable[[Own], Any],
        made: Callable[[Wire], Own],
        *,
        model: str | None = None,
        system: Any = None,
        tools: list[Any] | None = None,
        dialect: str = "",
    ) -> Sent[Own]:
        """What to send instead of these messages, which are those of the session `name`. While the
        store cannot be reached, they are sent as they are."""
        try:
            with self.sessions.session(name) as context:
                if "model" not in self._settings:
                    context.update(model=model, window=self._settings.get("window"))
                spoken = dialect or self.dialect
                sent = folded(
                    context, messages, wire, made, dialect=spoken, system=system, tools=tools
                )
                return replace(sent, session=name)
        except (refold.Unavailable, refold.Conflict) as error:
            return sent_as_they_are(messages, error)

    def take(self, sent: Sent[Own], read: Callable[[], Answered]) -> None:
        """Keeps what `read` says a call was billed, and its answers unless the list went on
        meanwhile."""
        if not sent.conversation:
            return
        try:
            answers, usage = read()
            with self._conversation(sent) as context:
                if usage is not None:
                    context.record(usage=usage, upto=sent.head)
                if answers and newest(context.view) == sent.last:
                    context.mirror([*sent.wires, *answers], upto=sent.head)
        except (refold.RefoldError, *UNREADABLE) as error:
            said = "%s: the answer is not kept before it is repeated: %s"
            log.warning(said, sent.session, error)

    def warn_of(self, managers: Iterable[str]) -> None:
        """Says, once of each, that the host shortens the same history itself."""
        try:
            found = set(managers) - self._told
        except UNREADABLE as error:
            log.debug("whether the host shortens the history is not known: %s", error)
            return
        self._told |= found
        for manager in sorted(found):
            log.warning(BESIDE, manager)

    @contextmanager
    def _conversation(self, sent: Sent[Own]) -> Iterator[refold.Context]:
        """The conversation of a call, which its session may have left for another branch."""
        with self.sessions.session(sent.session) as context:
            if context.id == sent.conversation:
                yield context
                return
            store = self.sessions.store
            with refold.open(sent.conversation, store=store, **self._settings) as branch:
                yield branch

    def close(self) -> None:
        """Lets go of the conversations, and of the store if it was opened here."""
        self.sessions.close()


class Waiting(Generic[Own]):
    """Calls whose answers come through another door of the framework, by its own names for them."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, Sent[Own]] = OrderedDict()

    def add(self, call: str, sent: Sent[Own]) -> None:
        """A call is under way."""
        self._calls[call] = sent
        while len(self._calls) > WAITING_MAX:
            self._calls.popitem(last=False)

    def pop(self, call: str) -> Sent[Own] | None:
        """The call; None if nobody waits for it."""
        return self._calls.pop(call, None)
