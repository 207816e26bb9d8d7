"""Walks a store and reports what is not as it was written: which conversation, which event, which
file.

Four promises are checked. Every event has the body and the place in the chain that it was sealed
with; every artifact is there and matches its digest; a bookmark says what a full fold says; the
page obeys the laws, in every dialect. Nothing is changed or repaired. A damaged event does not end
the walk. Neighbours: `log_check` goes through one log, `core.fold` and `core.laws` judge.

Goes through one log, event by event, and gives what is wrong with it.

Each event must have the body and the place in the chain that it was sealed with, and each artifact
that it names must be there and match its digest. A damaged event does not end the walk. Neighbours:
`core.codec` seals, `verifier` walks a whole store and checks what follows from a log.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Set
from functools import cached_property
from itertools import chain, islice
from typing import Literal

import msgspec
from msgspec.structs import replace

from refold import dialects
from refold.core import bookmark, codec, laws
from refold.core.fold import Fold, folded
from refold.core.model import (
    Artifact,
    Conversation,
    Erase,
    Event,
    Message,
    Meta,
    ToolResult,
    View,
    is_cleanup,
)
from refold.core.shortened import text_of
from refold.core.switches import switches
from refold.dialects.page import Page
from refold.display import failure
from refold.errors import Corrupt, Denied, Invalid, NotFound, RefoldError, Unavailable
from refold.log.trace import READ_EVENTS, events_of, is_memory, kept_logs
from refold.log.unfold import references
from refold.stores.protocol import Store

MISSING = "its content is missing"
PROBLEMS_MAX = 100  # per conversation: whoever has more has lost the file, not an event

Part = Literal["store", "log", "artifact", "bookmark", "law"]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong, and its place: `seq` is 0 where it is not about one event."""

    part: Part
    what: str
    conversation: str = ""
    seq: int = 0
    file: str = ""


class Contents:
    """The artifacts of a store. Each content is read once, however many events name it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.file = store.url
        self.faults: dict[str, str] = {}  # by digest; empty if nothing is wrong

    def fault(self, artifact: Artifact) -> str:
        """What is wrong with the bytes of an artifact."""
        digest = artifact.digest
        if digest not in self.faults:
            self.faults[digest] = self._read(digest, artifact.size_bytes)
        return self.faults[digest]

    @property
    def there(self) -> int:
        """How many of the contents that were asked for have their bytes."""
        return sum(fault != MISSING for fault in self.faults.values())

    def _read(self, digest: str, size_bytes: int) -> str:
        try:
            size = sum(len(chunk) for chunk in self.store.get(digest))
        except NotFound:
            return MISSING
        except (Corrupt, Invalid) as error:
            return f"its content is damaged: {error.message}"
        except (Denied, Unavailable) as error:
            return f"its content cannot be read: {error.message}"
        return "" if size == size_bytes else f"its content has {size:,} bytes, not {size_bytes:,}"

    def location(self, digest: str) -> str:
        """The file of a content, or that of the store."""
        try:
            return self.store.location(digest) or self.file
        except RefoldError:
            return self.file


class LogCheck:
    """The walk through one log. `befores` are the chain values that the next event may follow:
    the stored one, and what it should have been, so that a damaged chain value is blamed on its
    own event and not on the next."""

    def __init__(self, contents: Contents, about: Conversation) -> None:
        self.contents, self.about = contents, about
        self.events = 0
        self.befores: list[bytes] = [codec.ZERO]
        self.title = ""
        self.newer: list[tuple[int, str]] = []  # what this version does not know, and where
        self.artifacts: set[str] = set()
        self.named: dict[str, int] = {}
        # Artifacts that a text names, and where it does so for the last time.
        self.mentioned: dict[str, int] = {}
        self.has_erased_artifact = False
        self._erased: dict[int, str] = {}  # the ids of erased events
        self._asked: set[int] = set()  # what events say is erased
        # By digest, unless the log says later that the content was cleaned up.
        self.missing: dict[str, Problem] = {}

    def problems(self) -> list[Problem]:
        """What is wrong with the log; the walk ends a little after PROBLEMS_MAX."""
        problems: list[Problem] = []
        for step in self._steps():
            problems += self._step_problems(step)
            if len(problems) > PROBLEMS_MAX:
                return problems
        return [*problems, *self._end_problems()]

    def _step_problems(self, step: Event | Problem) -> list[Problem]:
        if isinstance(step, Event):
            self.events += 1
            return self._event_problems(step)
        # What follows an event that is lost cannot be tied to what came before it.
        self.befores = []
        return [step]

    def _problem(self, part: Part, what: str, seq: int = 0, file: str = "") -> Problem:
        file = file or self.contents.file
        return Problem(part=part, what=what, conversation=self.about.id, seq=seq, file=file)

    # --- reading ---

    def _steps(self) -> Iterator[Event | Problem]:
        """Every event of the log; a problem in the place of one that is missing or cannot be
        read."""
        head = self.about.head
        for after in range(0, head, READ_EVENTS):
            yield from self._page(after, min(after + READ_EVENTS, head))

    def _page(self, after: int, last: int) -> Iterator[Event | Problem]:
        """These events; one by one if they cannot be read in a row."""
        fault = ""
        try:
            events = self._read(after, last)
        except Corrupt as error:
            events, fault = [], f"cannot be read: {error.message}"
        if len(events) == last - after:
            yield from events
            return
        steps = [self._single(seq) for seq in range(after + 1, last + 1)]
        yield from steps
        if fault and all(isinstance(step, Event) for step in steps):
            # Something else lies between them.
            yield self._problem("log", fault, last)

    def _single(self, seq: int) -> Event | Problem:
        try:
            events = self._read(seq - 1, seq)
        except Corrupt as error:
            return self._problem("log", f"cannot be read: {error.message}", seq)
        return events[0] if events else self._problem("log", "the event is missing", seq)

    def _read(self, after: int, last: int) -> list[Event]:
        store = self.contents.store
        return store.read(self.about.id, after=after, last=last, limit=last - after)

    # --- one event ---

    def _event_problems(self, event: Event) -> list[Problem]:
        faults = list(self._seal_faults(event)) or self._body_faults(event)
        if faults:
            return [self._problem("log", fault, event.seq) for fault in faults]
        return list(self._artifact_problems(event))

    def _body_faults(self, event: Event) -> list[str]:
        """What is wrong with the body of a sealed event; what it says is remembered."""
        try:
            self._learn(event)
        except Corrupt as error:
            return [error.message]
        return []

    def _seal_faults(self, event: Event) -> Iterator[str]:
        if not event.erased and codec.digest_of(event.salt, event.body) != event.digest:
            yield "its body does not match its digest"
        chains: list[bytes] = []
        try:
            chains = [codec.chain_of(before, event) for before in self.befores]
        except (struct.error, ValueError, OverflowError) as error:
            yield f"its envelope is damaged: {error}"
        if event.chain in chains or not self.befores:
            self.befores = [event.chain]
        else:
            self.befores = [event.chain, *chains]
            yield "the chain is broken"

    def _learn(self, event: Event) -> None:
        """Decodes the body, and remembers what the log says as a whole."""
        body = codec.decode(event)
        self.newer += [(event.seq, name) for name in codec.unknown_in(event)]
        if event.erased:
            self._erased[event.seq] = event.id
            self.has_erased_artifact |= event.kind == "artifact"
        match body:
            case Erase(seq=seq):
                self._asked.add(seq)
            case Meta(title=str(title)):
                self.title = title
            case Artifact():
                self.artifacts.add(body.id)
            case Message():
                self._learn_names(body, event.seq)
            case _:
                pass

    def _learn_names(self, message: Message, seq: int) -> None:
        """Remembers the artifacts that a message names, in its texts and as its results."""
        for block in message.blocks:
            for id in references(text_of(block)):
                self.mentioned[id] = seq
            if isinstance(block, ToolResult) and block.artifact:
                self.named[block.artifact] = seq

    def _artifact_problems(self, event: Event) -> Iterator[Problem]:
        artifact = codec.decode(event) if event.kind == "artifact" else None
        if not isinstance(artifact, Artifact):
            return
        if is_cleanup(event):
            self.missing.pop(artifact.digest, None)
            return
        fault = self._artifact_fault(artifact)
        if not fault:
            return
        where = self.contents.location(artifact.digest)
        problem = self._problem("artifact", f"{artifact.id}: {fault}", event.seq, where)
        if fault == MISSING:
            self.missing[artifact.digest] = problem
        else:
            yield problem

    def _artifact_fault(self, artifact: Artifact) -> str:
        fault = self.contents.fault(artifact)
        if not fault and codec.artifact_id(artifact.digest) != artifact.id:
            return "its id does not match its digest"
        return fault

    # --- the whole log ---

    def _end_problems(self) -> Iterator[Problem]:
        """What shows only at the end of the log."""
        yield from self.missing.values()
        yield from self._list_problems()
        yield from self._unknown(self.named, "the result")

    def unasked(self, asked: Callable[[], Set[str]]) -> list[Problem]:
        """The events whose bodies are gone though no log says so: `asked` gives the ids of those of
        which another one does, such as that of which this one was forked later."""
        silent = {seq: id for seq, id in self._erased.items() if seq not in self._asked}
        others = asked() if silent else frozenset()
        what = "its body is gone, although no device asked for that"
        return [self._problem("log", what, seq) for seq, id in silent.items() if id not in others]

    def _list_problems(self) -> Iterator[Problem]:
        """Where the list of conversations says something else than the log."""
        about = self.about
        if self.befores and about.chain not in self.befores:
            yield self._problem("log", "the head is not the one that the store names", about.head)
        if getattr(self.contents.store, "lists_titles", True) and about.title != self.title:
            yield self._problem("store", "the title in the list is not the one in the log")

    def remarks(self) -> list[Problem]:
        """The artifacts that a text names and the log does not have, and what a newer version
        wrote."""
        names = {id: seq for id, seq in self.mentioned.items() if id not in self.named}
        newer = (
            self._problem("log", f"unknown {name}: a newer version wrote it", seq)
            for seq, name in self.newer
        )
        return [*islice(chain(self._unknown(names, "the text"), newer), PROBLEMS_MAX)]

    def _unknown(self, names: dict[str, int], place: str) -> Iterator[Problem]:
        """The named artifacts that the log does not have. Nothing is known of erased ones."""
        if self.has_erased_artifact:
            return
        for id, seq in names.items():
            if id not in self.artifacts:
                what = f"{place} names {id}, which the log does not have"
                yield self._problem("artifact", what, seq)


# What a dialect may raise over a block that no dialect would have made: one odd conversation must
# not end the walk through all others.
_ODD = (AttributeError, LookupError, TypeError, ValueError)


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What was walked, and what was found. `remarks` are not damage: a text may name what there
    never was."""

    conversations: int
    events: int
    artifacts: int
    memories: int = 0
    problems: tuple[Problem, ...]
    remarks: tuple[Problem, ...] = ()


def verify(
    store: Store, conversation: str | None = None, *, erasures: bool = False
) -> Verification:
    """The report on one conversation or memory, or on all that the store has; `erasures` also of
    bodies that are gone though no log says so."""
    walk = _StoreWalk(store, erasures=erasures)
    try:
        for id in _ids(store) if conversation is None else [conversation]:
            walk.check(id)
    except Corrupt as error:
        walk.note("store", error.message)
    return walk.report()


def _ids(store: Store) -> Iterator[str]:
    return (about.id for about in kept_logs(store))


class _StoreWalk:
    """What is remembered between conversations: contents that were read once, and the counts."""

    def __init__(self, store: Store, *, erasures: bool) -> None:
        self.store, self.erasures = store, erasures
        self.contents = Contents(store)
        self.conversations = self.memories = self.events = 0
        self.problems: list[Problem] = []
        self.remarks: list[Problem] = []

    def report(self) -> Verification:
        return Verification(
            conversations=self.conversations,
            events=self.events,
            artifacts=self.contents.there,
            memories=self.memories,
            problems=tuple(self.problems),
            remarks=tuple(self.remarks),
        )

    def note(self, part: Part, what: str, id: str = "") -> None:
        file = self.contents.file
        self.problems.append(Problem(part=part, what=what, conversation=id, file=file))

    def check(self, id: str) -> None:
        """Checks one conversation, and notes its problems."""
        try:
            self._check(id)
        except Corrupt as error:
            self.note("store", error.message, id)

    def _check(self, id: str) -> None:
        # The bookmark is read before the head, so it is not younger than the head even if another
        # process appends meanwhile.
        kept = self.store.bookmark(id)
        about = self.store.conversation(id)
        if is_memory(id):
            self.memories += 1
        else:
            self.conversations += 1
        log = LogCheck(self.contents, about)
        problems = log.problems()
        if self.erasures:
            problems += log.unasked(lambda: self._asked)
        self.events += log.events
        self.remarks += log.remarks()
        self.problems += problems[:PROBLEMS_MAX]
        if len(problems) > PROBLEMS_MAX:
            self.note("log", "there is more; the check ended here", id)
        else:
            self._check_derived(about, kept)

    @cached_property
    def _asked(self) -> frozenset[str]:
        """The ids of the events that any log says are erased. A log that cannot be read is left
        out: it is reported by itself."""
        found: set[str] = set()
        for id in _ids(self.store):
            try:
                found |= _asked_in(self.store, id)
            except RefoldError:
                continue
        return frozenset(found)

    def _check_derived(self, about: Conversation, kept: bytes | None) -> None:
        """Checks what follows from the log: the page and the bookmark."""
        try:
            state = _fold(self.store, about)
        except Corrupt:
            # The event that cannot be folded has been reported, with its place.
            return
        self._note_all("law", page_faults(state.view()), about.id)
        if kept is not None:
            self._note_all("bookmark", self._bookmark_faults(about, kept, state), about.id)

    def _note_all(self, part: Part, faults: Iterable[str], id: str) -> None:
        for fault in faults:
            self.note(part, fault, id)

    def _bookmark_faults(self, about: Conversation, kept: bytes, state: Fold) -> Iterator[str]:
        mark = _bookmark(kept)
        if mark is None:
            yield "the bookmark cannot be read; the next open makes a new one"
        elif not 0 < mark.head <= about.head:
            yield f"the bookmark is of event {mark.head}, the log ends at {about.head}"
        else:
            if mark.head < about.head:
                state = _fold(self.store, replace(about, head=mark.head))
            names = _differences(mark, bookmark.read(bookmark.kept(state)))
            if names:
                place = f"the bookmark at event {mark.head}"
                yield f"{place} is not what the log folds to: {', '.join(names)}"


def _asked_in(store: Store, id: str) -> set[str]:
    ids: dict[int, str] = {}
    found: set[str] = set()
    for event in events_of(store, store.conversation(id)):
        ids[event.seq] = event.id
        body = codec.decode(event) if event.kind == "erase" else None
        if isinstance(body, Erase):
            found.add(ids.get(body.seq, ""))
    return found


def _bookmark(kept: bytes) -> bookmark.Bookmark | None:
    try:
        return bookmark.read(kept)
    except ValueError:
        # A text in it is not UTF-8.
        return None


def _differences(mark: bookmark.Bookmark, expected: bookmark.Bookmark | None) -> list[str]:
    """The fields in which a bookmark is not the expected one."""
    fields = mark.__struct_fields__
    return [name for name in fields if getattr(mark, name) != getattr(expected, name)]


def _fold(store: Store, about: Conversation) -> Fold:
    return folded(events_of(store, about), switches(events_of(store, about)))


def page_faults(view: View) -> list[str]:
    """Every law that the page breaks, and what each provider would refuse in it."""
    if not view.slots:
        return []
    faults = _law_faults(view)
    for name in dialects.DIALECTS:
        faults += _refusals(view, name)
    return faults


def _law_faults(view: View) -> list[str]:
    # An empty message may be in a log, because rendering repairs it; whether it did is asked of
    # the dialects.
    return [fault for fault in laws.broken(view) if not fault.endswith("is empty")]


def _refusals(view: View, name: str) -> list[str]:
    """What a provider would refuse in the page. One that shows nothing, such as a result without
    its call, is never sent."""
    spoken = dialects.dialect(name)
    try:
        rendered = Page(spoken, bound=False).render(view)
        refused = [] if rendered.is_empty else spoken.check(rendered.request)
    except (RefoldError, *_ODD) as error:
        return [f"the page cannot be rendered for {name}: {failure(error)}"]
    return [f"{name} would refuse the page: {fault}" for fault in refused]
