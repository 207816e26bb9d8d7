"""refold inside a framework that owns the loop: a call is folded on its way out, its answer kept.

The framework repeats an answer in its next list, if there is one; it is kept when it comes, under
the front that its repetition has, so nothing is written twice and the last answer of a run is not
missing. A list that went on meanwhile has its answer already. What fails here after the model has
answered is logged and never reaches the agent; that a manager of the host's own is at work, too, is
said once. Neighbours: `folding` makes the page, `sessions`
holds the conversations, every adapter of a list brings its framework's objects.

The page for a framework that owns the history: its own messages wherever nothing was folded.

The list is mirrored, the request decides whether a compaction is due, and what stands on the page
is given as places in the framework's list, or as messages of ours where an edit stands. As long as
nothing was folded, the framework is told so and sends what it has. Neighbours: `engine.mirror`
follows the list, `Context.page` names the seqs, the adapters turn messages of ours into objects of
their framework, `guest` keeps what is answered.

The sessions of a framework that are held open: one store, a conversation for each session.

A framework names its sessions as it likes; the id of the conversation follows from that name, and
the name is kept with it, so `refold list` shows it and two processes write one log. Only the newest
stay open. Neighbours: every adapter; `engine.opening` opens one.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from os import PathLike
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

import refold
from refold.conversations.listing import id_for
from refold.settings.sources import default_store
from refold.types import Store

Own = TypeVar("Own")
Wire = dict[str, Any]

log = logging.getLogger("refold.adapters")
# What is raised where an object of a framework is not what it usually is.
UNREADABLE = (refold.Invalid, ValueError, TypeError, LookupError, AttributeError)


class Sent(Struct, Generic[Own], frozen=True, kw_only=True):
    """A call under way: what is sent for it, and where its list ends in the log. `conversation` is
    empty for a list that is not in the log."""

    shown: list[Own]
    session: str = ""
    wires: list[Any] = []
    conversation: str = ""
    last: int = 0  # the seq of the newest message
    head: int = 0


def folded(
    context: refold.Context,
    messages: Sequence[Own],
    wire: Callable[[Own], Any],
    made: Callable[[Wire], Own],
    *,
    dialect: str,
    system: Any = None,
    tools: list[Any] | None = None,
) -> Sent[Own]:
    """What to send instead of these messages. `wire` gives a message of the framework in the
    dialect, `made` makes one of it. A list that cannot be read is sent as it is, and logged: what
    is wrong with it, its provider says better."""
    try:
        wires = [wire(one) for one in messages]
        mirrored = context.mirror(wires, system=system, tools=tools)
        context.request(dialect)
    except UNREADABLE as error:
        return sent_as_they_are(messages, error)
    view = context.view
    if _is_own(view, mirrored.seqs, wires):
        shown = list(messages)
    else:
        shown = _shown(context, messages, wires, made, dialect, mirrored.seqs)
    return Sent(
        shown=shown, wires=wires, conversation=context.id, last=newest(view), head=view.head
    )


def sent_as_they_are(messages: Sequence[Own], error: Exception) -> Sent[Own]:
    """The very list, and a warning that says why."""
    log.warning("the messages are sent as they are, not folded: %s", error)
    return Sent(shown=list(messages))


def same(message: Own) -> Own:
    """For a framework whose messages are those of a dialect."""
    return message


def definitions(tools: Iterable[Any], wire: Callable[[Any], Any]) -> list[Any] | None:
    """The tools in the dialect; None if there are none. One that cannot be read is left out: the
    framework sends it, here it would only be counted."""
    read = []
    for tool in tools:
        try:
            read.append(wire(tool))
        except UNREADABLE as error:
            log.info("a tool is not counted: %s", error)
    return read or None


def newest(view: refold.View) -> int:
    """The seq of the newest message on the page."""
    return view.slots[-1].last if view.slots else 0


def _shown(
    context: refold.Context,
    messages: Sequence[Own],
    wires: Sequence[Any],
    made: Callable[[Wire], Own],
    dialect: str,
    seqs: Sequence[tuple[int, ...]],
) -> list[Own]:
    """The page, in the framework's own messages wherever no edit is on them."""
    shown, untouched = [], _untouched(context, seqs)
    for one in context.page(dialect):
        place = untouched.get(one.seqs)
        if place is None or (_thinks(wires[place]) and one.message != wires[place]):
            shown.append(made(one.message))
        else:
            shown.append(messages[place])
    return shown


def _is_own(view: refold.View, seqs: Sequence[tuple[int, ...]], wires: Sequence[Any]) -> bool:
    """Whether the page is the framework's own list: no edit stands on it, none of its messages was
    taken off, and there is no thinking of a time when that was otherwise."""
    there = {slot.seq for slot in view.slots}
    is_edited = any(slot.edits or slot.summary for slot in view.slots)
    if is_edited or not all(map(there.issuperset, seqs)):
        return False
    return not view.undoable or not any(map(_thinks, wires))


def _untouched(
    context: refold.Context, seqs: Sequence[tuple[int, ...]]
) -> dict[tuple[int, ...], int]:
    """Seqs → the place in the list, for messages that no edit is on."""
    whole = {slot.seq for slot in context.view.slots if not slot.edits and not slot.summary}
    return {one: place for place, one in enumerate(seqs) if one and whole.issuperset(one)}


def _thinks(wire: Any) -> bool:
    """Whether a message has thinking, which a page that changed before it may have lost."""
    parts = wire.get("content") if isinstance(wire, dict) else None
    kinds = {part.get("type") for part in parts or () if isinstance(part, dict)}
    return bool(kinds & {"thinking", "redacted_thinking", "reasoning"})


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


OPEN_MAX = 8  # one or two is the usual number

Place = str | PathLike[str] | Store | None  # what `refold.open` takes as a store


class Sessions:
    """Conversations by the names of their sessions. `settings` are those of `refold.open`."""

    def __init__(self, store: Place, settings: Mapping[str, Any] | None = None) -> None:
        self._place, self._settings = store, settings or {}
        self._guard = threading.RLock()
        self._contexts: OrderedDict[str, refold.Context] = OrderedDict()

    @cached_property
    def store(self) -> Store:
        """The store that was given, or the one that is named, opened when it is first used."""
        if self._place is None or isinstance(self._place, str | PathLike):
            return refold.open_store(self._place or default_store())
        return self._place

    @contextmanager
    def session(self, name: str) -> Iterator[refold.Context]:
        """The conversation of that name, for one caller at a time."""
        with self._guard:
            context = self._contexts.pop(name, None) or self._open(name)
            self._contexts[name] = context
            while len(self._contexts) > OPEN_MAX:
                self._contexts.popitem(last=False)[1].close()
            yield context

    def _open(self, name: str) -> refold.Context:
        id = id_for(self.store, name)
        return refold.open(id, name=name, store=self.store, **self._settings)

    def forget(self, name: str) -> None:
        """Lets go of a session that is to be deleted."""
        with self._guard:
            if name in self._contexts:
                self._contexts.pop(name).close()

    def close(self) -> None:
        """Lets go of all, and of the store if it was opened here."""
        with self._guard:
            for name in list(self._contexts):
                self.forget(name)
            opened = vars(self).pop("store", None)
            if opened is not None and opened is not self._place:
                opened.close()
