"""refold as a guest in a framework that owns the loop: folds each call, and records its answer.

`folded` mirrors the framework's list and returns the page of a request: the framework's own objects
for messages that are sent as they were appended, new ones for all others. `Guest` records an answer
on arrival, with the fingerprint of its later repetition in the list, so that nothing is written
twice and the last answer of a run is not lost; a failure after the model's answer is logged and
never reaches the agent. `Sessions` keeps the newest conversations open; a conversation's id is
derived from the framework's name for the session, so two processes write one log. Neighbours:
`engine.mirror`, `Context.page`, and every adapter.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import metadata
from os import PathLike
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

import refold
from refold import dialects
from refold.conversations.listing import id_for
from refold.core.model import Slot, ToolResult
from refold.dialects.native import takes_none
from refold.dialects.page import PageMessage, unsettled
from refold.dialects.protocol import GO_ON
from refold.settings.sources import default_store
from refold.types import Store

Own = TypeVar("Own")
Wire = dict[str, Any]

NO_OPTIONS: Mapping[str, Any] = {}

log = logging.getLogger("refold.adapters")
# Errors raised by unusual objects of a framework.
UNREADABLE = (refold.Invalid, ValueError, TypeError, LookupError, AttributeError)


class Sent(Struct, Generic[Own], frozen=True, kw_only=True):
    """A pending call: its page, and the end of its list in the log. `conversation` is empty for a
    list that is not in the log."""

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
    options: Mapping[str, Any] = NO_OPTIONS,
) -> Sent[Own]:
    """The page to send instead of these messages. `wire` renders a message of the framework in the
    dialect, `made` is the way back; `options` are those of the call that the page depends on. An
    unreadable list is sent unchanged, and logged: its provider can explain the fault better."""
    try:
        wires = [wire(message) for message in messages]
        seqs = context.mirror(wires, system=system, tools=tools).seqs
        context.request(dialect, **options)
    except UNREADABLE as error:
        return sent_unchanged(messages, error)
    view = context.view
    slots = {slot.seq: slot for slot in view.slots}
    index_of = {own: index for index, own in enumerate(seqs) if own}
    page = context.page(dialect)
    if page and wires[-1].get("role") == "assistant" and page[-1].message.get("content") == GO_ON:
        page.pop()  # the caller's prefill stays one
    shown = []
    for one in page:
        index = index_of.get(one.seqs)
        if index is not None and _is_unchanged(one, [slots[seq] for seq in one.seqs], dialect):
            shown.append(messages[index])
        else:
            shown.append(made(_with_thinking(one)))
    return Sent(
        shown=shown, wires=wires, conversation=context.id, last=newest(view), head=view.head
    )


_BOUND = re.compile(r"(>=|<)\s*([0-9.]+)")


def check_version(extra: str) -> None:
    """Checks the installed framework against the versions of refold's extra for it. Raises Invalid
    for an older one, whose hooks the adapter does not know and which would keep nothing; logs a
    warning for a newer one."""
    try:
        requirements = metadata.requires("refold") or []
    except metadata.PackageNotFoundError:
        return  # run from its sources
    for requirement in requirements:
        named, _, condition = requirement.partition(";")
        package = re.match(r"[\w.-]+", named)
        if package is None or f"'{extra}'" not in condition.replace('"', "'"):
            continue
        try:
            installed = metadata.version(package[0])
        except metadata.PackageNotFoundError:
            continue  # the import of the adapter says so
        what = f"{package[0]} {installed}"
        hint = f"pip install '{named.strip()}'"
        for sign, bound in _BOUND.findall(named):
            if sign == ">=" and _release(installed) < _release(bound):
                raise refold.Invalid(f"{what} is older than this adapter knows", hint=hint)
            if sign == "<" and _release(installed) >= _release(bound):
                log.warning("%s is newer than this adapter knows: %s", what, hint)


def _release(version: str) -> list[int]:
    """The numbers of a version, without zeros at the end: 2.66 for 2.66.0rc1."""
    beginning = re.match(r"[0-9.]*", version)
    numbers = [int(part) for part in (beginning[0] if beginning else "").split(".") if part]
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


def sent_unchanged(messages: Sequence[Own], error: Exception) -> Sent[Own]:
    """The unchanged list; logs a warning with the reason."""
    log.warning("the messages are sent unchanged, not folded: %s", error)
    return Sent(shown=list(messages))


def same(message: Own) -> Own:
    """The message itself, for a framework that uses a dialect's messages."""
    return message


def definitions(tools: Iterable[Any], wire: Callable[[Any], Any]) -> list[Any] | None:
    """The tools in the dialect, to count their tokens; None if there are none. An unreadable one is
    left out, because the framework itself sends it."""
    wires = []
    for tool in tools:
        try:
            wires.append(wire(tool))
        except UNREADABLE as error:
            log.info("a tool is not counted: %s", error)
    return wires or None


def thinking_options(call: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call to Anthropic on which its messages depend: the kind of thinking, but
    not its budget, which is for the caller to fit into a limit."""
    thinking = call.get("thinking")
    return {"thinking": {"type": thinking.get("type")}} if isinstance(thinking, Mapping) else {}


def newest(view: refold.View) -> int:
    """The seq of the newest message on the page."""
    return view.slots[-1].last if view.slots else 0


def _is_unchanged(shown: PageMessage, slots: Sequence[Slot], dialect: str) -> bool:
    """Whether a message on the page is as it was appended: without edits, with whole results, and
    without a repair by the page around it; thinking counts even if the dialect has no place for it.
    Compares with the log, because the framework's message may have what the log leaves out, such as
    reminders."""
    for slot in slots:
        has_stub = any(isinstance(one, ToolResult) and one.artifact for one in slot.message.blocks)
        if slot.edits or slot.summary or has_stub:
            return False
    appended = unsettled(slots, dialects.dialect(dialect), lambda _: True, takes_none)
    whole = [(one.message, one.thinking) for one in appended]
    return whole == [(shown.message, shown.thinking)]


def _with_thinking(one: PageMessage) -> Wire:
    """A message of the page, with valid thinking that its format has no place for among its parts,
    where frameworks have it."""
    if not one.thinking:
        return one.message
    content = one.message.get("content") or []
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**one.message, "content": [*one.thinking, *parts]}


# --- calls and answers ---

WAITING_MAX = 1_000  # older calls that never got an answer are dropped
# The answers of a call in the dialect, and its usage, None if unknown.
Answered = tuple[Sequence[Any], Any]
BESIDE = "both %s and refold shorten this history: turn one of them off"


class Guest:
    """The conversations of one framework. `settings` are those of `refold.open`; `model` defaults
    to the model of the call."""

    def __init__(self, dialect: str, store: Place, settings: Mapping[str, Any]) -> None:
        self.dialect, self.sessions = dialect, Sessions(store, settings)
        self._settings = settings
        self._warned: set[str] = set()  # managers of the host that were reported

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
        options: Mapping[str, Any] = NO_OPTIONS,
    ) -> Sent[Own]:
        """The page to send instead of the messages of the session `name`. If the store cannot be
        reached, they are sent unchanged."""
        try:
            with self.sessions.session(name) as context:
                if "model" not in self._settings:
                    context.update(model=model, window=self._settings.get("window"))
                used = dialect or self.dialect
                call = {"system": system, "tools": tools, "options": options}
                sent = folded(context, messages, wire, made, dialect=used, **call)
                return replace(sent, session=name)
        except (refold.Unavailable, refold.Conflict) as error:
            return sent_unchanged(messages, error)

    def take(self, sent: Sent[Own], read: Callable[[], Answered]) -> None:
        """Records the usage of a call, and its answers unless the list has grown in the meantime
        and so has them already."""
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
            warning = "%s: the answer is not recorded until it is repeated: %s"
            log.warning(warning, sent.session, error)

    def warn_of(self, managers: Iterable[str]) -> None:
        """Warns, once for each manager, that the host shortens the same history itself."""
        try:
            unreported = set(managers) - self._warned
        except UNREADABLE as error:
            log.debug("unknown whether the host shortens the history: %s", error)
            return
        self._warned |= unreported
        for manager in sorted(unreported):
            log.warning(BESIDE, manager)

    @contextmanager
    def _conversation(self, sent: Sent[Own]) -> Iterator[refold.Context]:
        """The conversation of a call; its session may have moved to another branch since."""
        with self.sessions.session(sent.session) as context:
            if context.id == sent.conversation:
                yield context
                return
            store = self.sessions.store
            with refold.open(sent.conversation, store=store, **self._settings) as branch:
                yield branch

    def close(self) -> None:
        """Closes the conversations, and the store if it was opened here."""
        self.sessions.close()


class Waiting(Generic[Own]):
    """Pending calls whose answers arrive through another hook, by the framework's ids."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, Sent[Own]] = OrderedDict()

    def add(self, call: str, sent: Sent[Own]) -> None:
        """Registers a pending call."""
        self._calls[call] = sent
        while len(self._calls) > WAITING_MAX:
            self._calls.popitem(last=False)

    def pop(self, call: str) -> Sent[Own] | None:
        """Removes and returns a pending call, or None."""
        return self._calls.pop(call, None)


# --- sessions ---

OPEN_MAX = 8  # most processes need one or two

Place = str | PathLike[str] | Store | None  # a store, as `refold.open` accepts it


class Sessions:
    """Conversations by the names of their sessions. `settings` are those of `refold.open`."""

    def __init__(self, store: Place, settings: Mapping[str, Any] | None = None) -> None:
        self._place, self._settings = store, settings or {}
        self._guard = threading.RLock()
        self._contexts: OrderedDict[str, refold.Context] = OrderedDict()

    @cached_property
    def store(self) -> Store:
        """The store, opened on first use unless the caller passed an open one."""
        if self._place is None or isinstance(self._place, str | PathLike):
            return refold.open_store(self._place or default_store())
        return self._place

    @contextmanager
    def session(self, name: str) -> Iterator[refold.Context]:
        """The conversation of that name, for one caller at a time."""
        with self._guard:
            context = self._contexts.pop(name, None)
            if context is None:
                id = id_for(self.store, name)
                context = refold.open(id, name=name, store=self.store, **self._settings)
            self._contexts[name] = context
            while len(self._contexts) > OPEN_MAX:
                self._contexts.popitem(last=False)[1].close()
            yield context

    def forget(self, name: str) -> None:
        """Closes a session, so that it can be deleted."""
        with self._guard:
            if name in self._contexts:
                self._contexts.pop(name).close()

    def close(self) -> None:
        """Closes all sessions, and the store if it was opened here."""
        with self._guard:
            for name in list(self._contexts):
                self.forget(name)
            opened = vars(self).pop("store", None)
            if opened is not None and opened is not self._place:
                opened.close()
