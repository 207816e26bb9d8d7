"""Verifies a store, and reports every fault with its conversation, event and file.

Four promises are checked: every event has its original body and its place in the chain; every
artifact exists and matches its digest; every bookmark equals a full fold; every page obeys the laws
and is accepted by every dialect. Nothing is changed, and the check continues after a damaged event.
Neighbours: `core.codec` computes digests and chains, `core.laws` has the laws.
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
from refold.core.active_events import switches
from refold.core.fold import Fold, folded
from refold.core.ids import (
    artifact_id,
)
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
from refold.dialects.page import Page
from refold.display import failure
from refold.errors import Corrupt, Denied, Invalid, NotFound, RefoldError, Unavailable
from refold.log.handles import references
from refold.log.stored_logs import (
    READ_EVENTS,
    conversations_and_memories,
    events_of,
    is_bound,
    is_memory,
    misnamed,
)
from refold.stores.protocol import Store

MISSING = "its content is missing"
PROBLEMS_MAX = 100  # per conversation; with more, the whole file is damaged, not single events

Part = Literal["store", "log", "artifact", "bookmark", "law"]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One problem and its position; `seq` is 0 if the problem does not concern a single event."""

    part: Part
    what: str
    conversation: str = ""
    seq: int = 0
    file: str = ""


class ArtifactCheck:
    """Checks the artifacts of a store. Each is read once, no matter how many events refer to it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.file = store.url
        self.faults: dict[str, str] = {}  # by digest; empty if the bytes are intact

    def fault(self, artifact: Artifact) -> str:
        """The fault in the bytes of an artifact; empty if they are intact."""
        digest = artifact.digest
        if digest not in self.faults:
            self.faults[digest] = self._fault(digest, artifact.size_bytes)
        return self.faults[digest]

    @property
    def found_count(self) -> int:
        """The number of checked artifacts whose bytes exist, intact or damaged."""
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
        """The file with these bytes; the store's own if that is unknown."""
        try:
            return self.store.location(digest) or self.file
        except RefoldError:
            return self.file


class LogCheck:
    """Checks one log. `possible_chains` are the acceptable chain values before the next event: the
    stored value and the correct one, so that a damaged value is reported once, for its own event
    and not for the next."""

    def __init__(self, artifact_check: ArtifactCheck, about: Conversation) -> None:
        self.artifact_check, self.about = artifact_check, about
        self.event_count = 0
        self.possible_chains: list[bytes] = [codec.ZERO]
        self.title = ""
        self.unknown_fields: list[tuple[int, str]] = []  # with the seqs of their events
        self.artifact_ids: set[str] = set()
        # The artifacts that tool results and texts refer to, each with the seq of the last one.
        self.ids_in_results: dict[str, int] = {}
        self.ids_in_texts: dict[str, int] = {}
        self.has_erased_artifact = False
        self._erased_ids: dict[int, str] = {}  # event ids by seq
        self._announced_seqs: set[int] = set()  # those with an erase event
        # A later cleanup event removes the entry.
        self.missing_by_digest: dict[str, Problem] = {}

    def problems(self) -> list[Problem]:
        """The problems of the log. The check ends once there are more than PROBLEMS_MAX."""
        problems: list[Problem] = []
        for step in self._steps():
            if isinstance(step, Event):
                self.event_count += 1
                problems += self._event_problems(step)
            else:
                # Without the lost event, the chain value of the next one cannot be checked.
                self.possible_chains = []
                problems.append(step)
            if len(problems) > PROBLEMS_MAX:
                return problems
        problems += self.missing_by_digest.values()
        problems += self._list_problems()
        problems += self._dangling(self.ids_in_results, "the result")
        return problems

    def _problem(self, part: Part, what: str, seq: int = 0, file: str = "") -> Problem:
        file = file or self.artifact_check.file
        return Problem(part=part, what=what, conversation=self.about.id, seq=seq, file=file)

    # --- reading ---

    def _steps(self) -> Iterator[Event | Problem]:
        """Every event of the log, with a problem in place of each missing or unreadable one."""
        head = self.about.head
        for after in range(0, head, READ_EVENTS):
            yield from self._page(after, min(after + READ_EVENTS, head))

    def _page(self, after: int, last: int) -> Iterator[Event | Problem]:
        """The events after `after` up to `last`, read one by one if one read of all fails."""
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
            # Every event can be read, so there must be garbage between them.
            yield self._problem("log", fault, last)

    def _single(self, seq: int) -> Event | Problem:
        try:
            events = self._read(seq - 1, seq)
        except Corrupt as error:
            return self._problem("log", f"cannot be read: {error.message}", seq)
        return events[0] if events else self._problem("log", "the event is missing", seq)

    def _read(self, after: int, last: int) -> list[Event]:
        store = self.artifact_check.store
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
            chains = [codec.chain_of(before, event) for before in self.possible_chains]
        except (struct.error, ValueError, OverflowError) as error:
            yield f"its envelope is damaged: {error}"
        if event.chain in chains or not self.possible_chains:
            self.possible_chains = [event.chain]
        else:
            self.possible_chains = [event.chain, *chains]
            yield "the chain is broken"

    def _learn(self, event: Event) -> None:
        """Decodes the body, and collects what the checks of the whole log need."""
        body = codec.decode(event)
        self.unknown_fields += [(event.seq, name) for name in codec.unknown_in(event)]
        if event.erased:
            self._erased_ids[event.seq] = event.id
            self.has_erased_artifact |= event.kind == "artifact"
        match body:
            case Erase(seq=seq):
                self._announced_seqs.add(seq)
            case Meta(title=str(title)):
                self.title = title
            case Artifact():
                self.artifact_ids.add(body.id)
            case Message():
                for block in body.blocks:
                    for id in references(text_of(block)):
                        self.ids_in_texts[id] = event.seq
                    if isinstance(block, ToolResult) and block.artifact:
                        self.ids_in_results[block.artifact] = event.seq
            case _:
                pass

    def _artifact_problems(self, event: Event) -> Iterator[Problem]:
        artifact = codec.decode(event) if event.kind == "artifact" else None
        if not isinstance(artifact, Artifact):
            return
        if is_cleanup(event):
            self.missing_by_digest.pop(artifact.digest, None)
            return
        fault = self.artifact_check.fault(artifact)
        if not fault and artifact_id(artifact.digest) != artifact.id:
            fault = "its id does not match its digest"
        if not fault:
            return
        file = self.artifact_check.location(artifact.digest)
        problem = self._problem("artifact", f"{artifact.id}: {fault}", event.seq, file)
        if fault == MISSING:
            self.missing_by_digest[artifact.digest] = problem
        else:
            yield problem

    # --- the whole log ---

    def unannounced_erasures(self, announced_ids: Callable[[], Set[str]]) -> list[Problem]:
        """Problems for erased events without an erase event, in this log or in another, such as the
        parent of a fork. `announced_ids` returns the ids of the events erased by any log."""
        erased = {
            seq: id for seq, id in self._erased_ids.items() if seq not in self._announced_seqs
        }
        announced = announced_ids() if erased else frozenset()
        what = "its body is gone, although no device asked for its erasure"
        return [
            self._problem("log", what, seq) for seq, id in erased.items() if id not in announced
        ]

    def _list_problems(self) -> Iterator[Problem]:
        """Problems for differences between the store's list of conversations and the log."""
        about = self.about
        if self.possible_chains and about.chain not in self.possible_chains:
            what = "its chain value differs from the store's value for the head"
            yield self._problem("log", what, about.head)
        if getattr(self.artifact_check.store, "lists_titles", True) and about.title != self.title:
            yield self._problem("store", "the title in the list differs from the title in the log")

    def remarks(self) -> list[Problem]:
        """Remarks on artifacts that are mentioned but not in the log, and on unknown fields."""
        ids = {id: seq for id, seq in self.ids_in_texts.items() if id not in self.ids_in_results}
        unknown = (
            self._problem("log", f"unknown {name}: written by a newer version", seq)
            for seq, name in self.unknown_fields
        )
        return [*islice(chain(self._dangling(ids, "the text"), unknown), PROBLEMS_MAX)]

    def _dangling(self, ids: dict[str, int], place: str) -> Iterator[Problem]:
        """Problems for ids whose artifact is not in the log; none if any artifact was erased."""
        if self.has_erased_artifact:
            return
        for id, seq in ids.items():
            if id not in self.artifact_ids:
                what = f"{place} refers to {id}, which is not in the log"
                yield self._problem("artifact", what, seq)


# A dialect may raise these for a block that no dialect produces; one odd conversation must not end
# the check of the others.
_RENDER_ERRORS = (AttributeError, LookupError, TypeError, ValueError)


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a verification. `remarks` are not damage: a message may refer to an artifact
    that never existed, and a tool may have a name that some provider refuses."""

    conversations: int
    events: int
    artifacts: int
    memories: int = 0
    problems: tuple[Problem, ...]
    remarks: tuple[Problem, ...] = ()


def verify(
    store: Store, conversation: str | None = None, *, erasures: bool = False
) -> Verification:
    """Checks one conversation or memory, or all of them. With `erasures`, also reports bodies that
    are gone without an erase event in any log."""
    store_check = _StoreCheck(store, erasures=erasures)
    try:
        if conversation is not None:
            store_check.check(conversation)
        else:
            for about in conversations_and_memories(store):
                store_check.check(about.id)
            for id in misnamed(store):
                store_check.note(
                    "store", f"{quoted(id)} is not an id: another program wrote this row"
                )
    except Corrupt as error:
        store_check.note("store", error.message)
    return store_check.report()


class _StoreCheck:
    """Checks conversations one by one, and collects their problems and counts."""

    def __init__(self, store: Store, *, erasures: bool) -> None:
        self.store, self.erasures = store, erasures
        self.artifact_check = ArtifactCheck(store)
        self.conversation_count = self.memory_count = self.event_count = 0
        self.problems: list[Problem] = []
        self.remarks: list[Problem] = []

    def report(self) -> Verification:
        return Verification(
            conversations=self.conversation_count,
            events=self.event_count,
            artifacts=self.artifact_check.found_count,
            memories=self.memory_count,
            problems=tuple(self.problems),
            remarks=tuple(self.remarks),
        )

    def note(self, part: Part, what: str, id: str = "") -> None:
        file = self.artifact_check.file
        self.problems.append(Problem(part=part, what=what, conversation=id, file=file))

    def check(self, id: str) -> None:
        """Checks one conversation, and adds its problems to those of the store."""
        try:
            self._check(id)
        except Corrupt as error:
            self.note("store", error.message, id)

    def _check(self, id: str) -> None:
        # The bookmark is read first: if another process appends in between, the head is the newer
        # of the two, never the bookmark.
        encoded = self.store.bookmark(id)
        about = self.store.conversation(id)
        if is_memory(id):
            self.memory_count += 1
        else:
            self.conversation_count += 1
        log_check = LogCheck(self.artifact_check, about)
        problems = log_check.problems()
        if self.erasures:
            problems += log_check.unannounced_erasures(lambda: self._announced_ids)
        self.event_count += log_check.event_count
        self.remarks += log_check.remarks()
        self.problems += problems[:PROBLEMS_MAX]
        if len(problems) > PROBLEMS_MAX:
            what = "there are more problems; the check of this conversation ended here"
            self.note("log", what, id)
        else:
            self._check_derived(about, encoded)

    @cached_property
    def _announced_ids(self) -> frozenset[str]:
        """The ids of the events that have an erase event in any log. Unreadable logs are left out:
        they are reported separately."""
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

    def _check_derived(self, about: Conversation, encoded: bytes | None) -> None:
        """Checks what is derived from the log: the page and the bookmark."""
        try:
            state = _fold(self.store, about)
        except Corrupt:
            # The event that cannot be folded has been reported, with its position.
            return
        view = state.view()
        for fault in page_faults(view):
            self.note("law", fault, about.id)
        self.remarks += (
            Problem(part="law", what=what, conversation=about.id, file=self.artifact_check.file)
            for name in dialects.DIALECTS
            for what in refusals(view, name)
        )
        if encoded is not None and not is_bound(encoded):
            for fault in self._bookmark_faults(about, encoded, state):
                self.note("bookmark", fault, about.id)

    def _bookmark_faults(self, about: Conversation, encoded: bytes, state: Fold) -> Iterator[str]:
        try:
            mark = bookmark.read(encoded)
        except ValueError:
            mark = None  # one of its strings is not valid UTF-8
        if mark is None:
            yield "the bookmark cannot be read; the next open makes a new one"
        elif not 0 < mark.head <= about.head:
            yield f"the bookmark is for event {mark.head}, but the log ends at {about.head}"
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
                yield f"{place} differs from the fold of the log in {', '.join(names)}"


def _fold(store: Store, about: Conversation) -> Fold:
    return folded(events_of(store, about), switches(events_of(store, about)))


def page_faults(view: View) -> list[str]:
    """The laws that the page breaks."""
    # A log may contain an empty message: rendering repairs it, and the dialects check the result.
    return [fault for fault in laws.broken(view) if not fault.endswith("is empty")]


def refusals(view: View, name: str) -> list[str]:
    """The reasons why a provider would refuse the page: the log is intact, but its caller appended
    something invalid. An empty page, as of a result without its call, is never sent."""
    if not view.slots:
        return []
    dialect = dialects.dialect(name)
    try:
        rendered = Page(dialect, bound=False).render(view)
        refused = [] if rendered.is_empty else dialect.check(rendered.request)
    except (RefoldError, *_RENDER_ERRORS) as error:
        return [f"the page cannot be rendered for {name}: {failure(error)}"]
    return [f"{name} would refuse the page: {fault}" for fault in refused]
