"""Verifying a store: every deviation, by conversation, event and file.

Four promises are checked. Every event has its original body and place in the chain; every artifact
is there and matches its digest; a bookmark equals a full fold; the page obeys the laws, in every
dialect. Nothing is changed or repaired, and a damaged event does not end the walk. `LogCheck` walks
one log, `verify` all. Neighbours: `core.codec` seals, `core.fold` and `core.laws` judge.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from functools import cached_property
from itertools import chain, islice
from typing import Literal

import msgspec
from msgspec.structs import replace

from refold import dialects
from refold.checked import quoted
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
from refold.log.trace import READ_EVENTS, conversations_and_memories, events_of, is_memory, misnamed
from refold.log.unfold import references
from refold.stores.protocol import Store

MISSING = "its content is missing"
PROBLEMS_MAX = 100  # per conversation; with more, the file is lost, not an event

Part = Literal["store", "log", "artifact", "bookmark", "law"]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One problem and its position; `seq` is 0 if it is not about one event."""

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
        self.faults: dict[str, str] = {}  # by digest; empty for an intact content

    def fault(self, artifact: Artifact) -> str:
        """The fault in the bytes of an artifact; empty if they are intact."""
        digest = artifact.digest
        if digest not in self.faults:
            self.faults[digest] = self._fault(digest, artifact.size_bytes)
        return self.faults[digest]

    @property
    def there(self) -> int:
        """The number of checked contents that exist."""
        return sum(fault != MISSING for fault in self.faults.values())

    def _fault(self, digest: str, size_bytes: int) -> str:
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
        """The file of a content, or else of the store."""
        try:
            return self.store.location(digest) or self.file
        except RefoldError:
            return self.file


class LogCheck:
    """The walk through one log. `befores` are the possible chain values before the next event: the
    stored one and the correct one, so that a damaged value is blamed on its own event, not on the
    next."""

    def __init__(self, contents: Contents, about: Conversation) -> None:
        self.contents, self.about = contents, about
        self.events = 0
        self.befores: list[bytes] = [codec.ZERO]
        self.title = ""
        self.newer: list[tuple[int, str]] = []  # seqs and names of unknown fields
        self.artifacts: set[str] = set()
        self.named: dict[str, int] = {}
        # Artifacts named in texts, and the seq of the last such text.
        self.mentioned: dict[str, int] = {}
        self.has_erased_artifact = False
        self._erased: dict[int, str] = {}  # the ids of erased events
        self._announced: set[int] = set()  # seqs with an erase event
        # By digest; a later cleanup event removes the entry.
        self.missing: dict[str, Problem] = {}

    def problems(self) -> list[Problem]:
        """The problems of the log; the walk ends a little after PROBLEMS_MAX."""
        problems: list[Problem] = []
        for step in self._steps():
            if isinstance(step, Event):
                self.events += 1
                problems += self._event_problems(step)
            else:
                # After a lost event, the chain cannot be checked.
                self.befores = []
                problems.append(step)
            if len(problems) > PROBLEMS_MAX:
                return problems
        problems += self.missing.values()
        problems += self._list_problems()
        problems += self._unknown(self.named, "the result")
        return problems

    def _problem(self, part: Part, what: str, seq: int = 0, file: str = "") -> Problem:
        file = file or self.contents.file
        return Problem(part=part, what=what, conversation=self.about.id, seq=seq, file=file)

    # --- reading ---

    def _steps(self) -> Iterator[Event | Problem]:
        """Every event of the log, or a problem for a missing or unreadable one."""
        head = self.about.head
        for after in range(0, head, READ_EVENTS):
            yield from self._page(after, min(after + READ_EVENTS, head))

    def _page(self, after: int, last: int) -> Iterator[Event | Problem]:
        """These events, read one by one if they cannot be read together."""
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
            # There is garbage between them.
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
        faults = list(self._seal_faults(event))
        if not faults:
            try:
                self._learn(event)
            except Corrupt as error:
                faults = [error.message]
        if faults:
            return [self._problem("log", fault, event.seq) for fault in faults]
        return list(self._artifact_problems(event))

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
        """Decodes the body, and collects what concerns the whole log."""
        body = codec.decode(event)
        self.newer += [(event.seq, name) for name in codec.unknown_in(event)]
        if event.erased:
            self._erased[event.seq] = event.id
            self.has_erased_artifact |= event.kind == "artifact"
        match body:
            case Erase(seq=seq):
                self._announced.add(seq)
            case Meta(title=str(title)):
                self.title = title
            case Artifact():
                self.artifacts.add(body.id)
            case Message():
                for block in body.blocks:
                    for id in references(text_of(block)):
                        self.mentioned[id] = event.seq
                    if isinstance(block, ToolResult) and block.artifact:
                        self.named[block.artifact] = event.seq
            case _:
                pass

    def _artifact_problems(self, event: Event) -> Iterator[Problem]:
        artifact = codec.decode(event) if event.kind == "artifact" else None
        if not isinstance(artifact, Artifact):
            return
        if is_cleanup(event):
            self.missing.pop(artifact.digest, None)
            return
        fault = self.contents.fault(artifact)
        if not fault and codec.artifact_id(artifact.digest) != artifact.id:
            fault = "its id does not match its digest"
        if not fault:
            return
        where = self.contents.location(artifact.digest)
        problem = self._problem("artifact", f"{artifact.id}: {fault}", event.seq, where)
        if fault == MISSING:
            self.missing[artifact.digest] = problem
        else:
            yield problem

    # --- the whole log ---

    def unannounced(self, elsewhere: Callable[[], Set[str]]) -> list[Problem]:
        """Problems for erased events without an erase event here; `elsewhere` returns the ids of
        events with one in another log, such as the parent of a fork."""
        silent = {seq: id for seq, id in self._erased.items() if seq not in self._announced}
        others = elsewhere() if silent else frozenset()
        what = "its body is gone, although no device asked for that"
        return [self._problem("log", what, seq) for seq, id in silent.items() if id not in others]

    def _list_problems(self) -> Iterator[Problem]:
        """Differences between the list of conversations and the log."""
        about = self.about
        if self.befores and about.chain not in self.befores:
            yield self._problem("log", "the head is not the one that the store names", about.head)
        if getattr(self.contents.store, "lists_titles", True) and about.title != self.title:
            yield self._problem("store", "the title in the list is not the one in the log")

    def remarks(self) -> list[Problem]:
        """Artifacts that a text names but the log does not have, and fields of a newer version."""
        names = {id: seq for id, seq in self.mentioned.items() if id not in self.named}
        newer = (
            self._problem("log", f"unknown {name}: a newer version wrote it", seq)
            for seq, name in self.newer
        )
        return [*islice(chain(self._unknown(names, "the text"), newer), PROBLEMS_MAX)]

    def _unknown(self, names: dict[str, int], place: str) -> Iterator[Problem]:
        """Problems for named artifacts that the log does not have; none if one was erased."""
        if self.has_erased_artifact:
            return
        for id, seq in names.items():
            if id not in self.artifacts:
                what = f"{place} names {id}, which the log does not have"
                yield self._problem("artifact", what, seq)


# Possible errors of a dialect for a block that no dialect makes: one odd conversation must not end
# the walk.
_ODD = (AttributeError, LookupError, TypeError, ValueError)


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a verification. `remarks` are not damage: a text may name an artifact that
    never existed, and a tool may have a name that no provider accepts."""

    conversations: int
    events: int
    artifacts: int
    memories: int = 0
    problems: tuple[Problem, ...]
    remarks: tuple[Problem, ...] = ()


def verify(
    store: Store, conversation: str | None = None, *, erasures: bool = False
) -> Verification:
    """Checks one conversation or memory, or all; with `erasures`, also for bodies that are gone
    without an erase event in any log."""
    walk = _StoreWalk(store, erasures=erasures)
    try:
        if conversation is not None:
            walk.check(conversation)
        else:
            for about in conversations_and_memories(store):
                walk.check(about.id)
            for id in misnamed(store):
                walk.note("store", f"{quoted(id)} is not an id: somebody else wrote this row")
    except Corrupt as error:
        walk.note("store", error.message)
    return walk.report()


class _StoreWalk:
    """The state between conversations: contents read so far, and counts."""

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
        # The bookmark is read before the head, so that it is not newer even if another process
        # appends meanwhile.
        kept = self.store.bookmark(id)
        about = self.store.conversation(id)
        if is_memory(id):
            self.memories += 1
        else:
            self.conversations += 1
        log = LogCheck(self.contents, about)
        problems = log.problems()
        if self.erasures:
            problems += log.unannounced(lambda: self._announced_ids)
        self.events += log.events
        self.remarks += log.remarks()
        self.problems += problems[:PROBLEMS_MAX]
        if len(problems) > PROBLEMS_MAX:
            self.note("log", "there is more; the check ended here", id)
        else:
            self._check_derived(about, kept)

    @cached_property
    def _announced_ids(self) -> frozenset[str]:
        """The ids of events with an erase event in any log. An unreadable log, which is reported
        separately, is left out."""
        found: set[str] = set()
        for about in conversations_and_memories(self.store):
            with suppress(RefoldError):
                ids: dict[int, str] = {}
                announced: set[str] = set()
                for event in events_of(self.store, self.store.conversation(about.id)):
                    ids[event.seq] = event.id
                    body = codec.decode(event) if event.kind == "erase" else None
                    if isinstance(body, Erase):
                        announced.add(ids.get(body.seq, ""))
                found |= announced
        return frozenset(found)

    def _check_derived(self, about: Conversation, kept: bytes | None) -> None:
        """Checks what is derived from the log: the page and the bookmark."""
        try:
            state = _fold(self.store, about)
        except Corrupt:
            # The unfoldable event has been reported, with its position.
            return
        view = state.view()
        for fault in page_faults(view):
            self.note("law", fault, about.id)
        self.remarks += (
            Problem(part="law", what=what, conversation=about.id, file=self.contents.file)
            for name in dialects.DIALECTS
            for what in refusals(view, name)
        )
        if kept is not None:
            for fault in self._bookmark_faults(about, kept, state):
                self.note("bookmark", fault, about.id)

    def _bookmark_faults(self, about: Conversation, kept: bytes, state: Fold) -> Iterator[str]:
        try:
            mark = bookmark.read(kept)
        except ValueError:
            mark = None  # a text in it is not UTF-8
        if mark is None:
            yield "the bookmark cannot be read; the next open makes a new one"
        elif not 0 < mark.head <= about.head:
            yield f"the bookmark is of event {mark.head}, the log ends at {about.head}"
        else:
            if mark.head < about.head:
                state = _fold(self.store, replace(about, head=mark.head))
            expected = bookmark.read(bookmark.kept(state))
            names = [
                name
                for name in mark.__struct_fields__
                if getattr(mark, name) != getattr(expected, name)
            ]
            if names:
                place = f"the bookmark at event {mark.head}"
                yield f"{place} is not what the log folds to: {', '.join(names)}"


def _fold(store: Store, about: Conversation) -> Fold:
    return folded(events_of(store, about), switches(events_of(store, about)))


def page_faults(view: View) -> list[str]:
    """The broken laws of the page."""
    # An empty message is allowed in a log, because rendering repairs it; the dialects check that.
    return [fault for fault in laws.broken(view) if not fault.endswith("is empty")]


def refusals(view: View, name: str) -> list[str]:
    """The refusals of a provider for the page: the log is whole, but has what its caller should not
    have given. An empty page, such as a result without its call, is never sent."""
    if not view.slots:
        return []
    dialect = dialects.dialect(name)
    try:
        rendered = Page(dialect, bound=False).render(view)
        refused = [] if rendered.is_empty else dialect.check(rendered.request)
    except (RefoldError, *_ODD) as error:
        return [f"the page cannot be rendered for {name}: {failure(error)}"]
    return [f"{name} would refuse the page: {fault}" for fault in refused]
