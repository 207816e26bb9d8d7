"""Walks a store and says what is not as it was written: which conversation, which event, which
file.

Four promises are checked. Every event has the body and the place in the chain that it was sealed
with; every artifact is there and matches its digest; a bookmark says what a full fold says; the
page obeys the laws, in every dialect. Nothing is changed or mended. A damaged event does not end
the walk. Neighbours: `codec` seals, `fold` and `laws` judge.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Literal

import msgspec
from msgspec.structs import replace

from refold import dialects
from refold.core import bookmark, codec, laws
from refold.core.fold import Fold, folded, switches, text_of
from refold.core.model import (
    CLEANER,
    Artifact,
    Conversation,
    Event,
    Message,
    Meta,
    ToolResult,
    View,
)
from refold.dialects.page import Page
from refold.errors import Corrupt, Invalid, NotFound, RefoldError
from refold.log.reading import events_of
from refold.log.unfold import references
from refold.stores.protocol import Store

READ_EVENTS = 500
LIST_CONVERSATIONS = 100
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


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What was walked, and what was found. `remarks` are no damage: a text may name what there
    never was."""

    conversations: int
    events: int
    artifacts: int
    problems: tuple[Problem, ...]
    remarks: tuple[Problem, ...] = ()


def verified(store: Store, conversation: str | None = None) -> Report:
    """The report on one conversation, or on all that the store has."""
    walk = _Walk(store)
    problems: list[Problem] = []
    try:
        for id in _ids(store) if conversation is None else [conversation]:
            problems += walk.problems(id)
    except Corrupt as error:
        problems.append(Problem(part="store", what=str(error), file=walk.file))
    return Report(
        conversations=walk.conversations,
        events=walk.events,
        artifacts=len(walk.contents),
        problems=tuple(problems),
        remarks=tuple(walk.remarks),
    )


def _ids(store: Store) -> Iterator[str]:
    after = ""
    while page := store.conversations(after=after, limit=LIST_CONVERSATIONS):
        yield from (about.id for about in page)
        after = page[-1].id


class _Walk:
    """What is remembered between conversations: contents that were read once, and the counts."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.file = store.url.removeprefix("sqlite:")
        self.conversations = self.events = 0
        self.remarks: list[Problem] = []
        self.contents: dict[
            str, str
        ] = {}  # what is wrong with a content, by its digest; empty if nothing is

    def problems(self, id: str) -> list[Problem]:
        try:
            return self._conversation(id)
        except Corrupt as error:
            return [Problem(part="store", what=str(error), conversation=id, file=self.file)]

    def _conversation(self, id: str) -> list[Problem]:
        # The bookmark is read before the head: what another process appends meanwhile makes it no
        # younger.
        kept = self.store.bookmark(id)
        about = self.store.conversation(id)
        self.conversations += 1
        log = _Log(self, about)
        found = log.problems()
        self.remarks += log.remarks()
        if len(found) > PROBLEMS_MAX:
            more = Problem(
                part="log",
                what="there is more; the walk ended here",
                conversation=id,
                file=self.file,
            )
            return [*found[:PROBLEMS_MAX], more]
        return [*found, *self._derived(about, kept)]

    def _derived(self, about: Conversation, kept: bytes | None) -> Iterator[Problem]:
        """What is wrong with that which follows from the log: the bookmark and the page."""
        try:
            state = _fold(self.store, about)
        except Corrupt:
            # The event that cannot be folded has been reported, with its place.
            return
        faults: list[tuple[Part, str]] = [("law", fault) for fault in page_faults(state.view())]
        if kept is not None:
            faults += [("bookmark", fault) for fault in self._bookmark_faults(about, kept, state)]
        for part, what in faults:
            yield Problem(part=part, what=what, conversation=about.id, file=self.file)

    def _bookmark_faults(self, about: Conversation, kept: bytes, state: Fold) -> Iterator[str]:
        try:
            mark = bookmark.read(kept)
        except ValueError:
            # A text in it is not UTF-8.
            mark = None
        if mark is None:
            yield "the bookmark cannot be read; it is made anew by the next open"
        elif not 0 < mark.head <= about.head:
            yield f"the bookmark is of event {mark.head}, the log ends at {about.head}"
        else:
            if mark.head < about.head:
                state = _fold(self.store, replace(about, head=mark.head))
            expected = bookmark.read(bookmark.kept(state))
            names = [n for n in mark.__struct_fields__ if getattr(mark, n) != getattr(expected, n)]
            if names:
                yield f"the bookmark at event {mark.head} is not what the log folds to: {', '.join(names)}"

    def content_fault(self, artifact: Artifact) -> str:
        """What is wrong with the bytes of an artifact; each content is read once."""
        digest = artifact.digest
        if digest not in self.contents:
            self.contents[digest] = self._read_content(digest, artifact.size_bytes)
        return self.contents[digest]

    def _read_content(self, digest: str, size_bytes: int) -> str:
        try:
            size = sum(len(chunk) for chunk in self.store.get(digest))
        except NotFound:
            return MISSING
        except (Corrupt, Invalid) as error:
            return f"its content is damaged: {error}"
        return "" if size == size_bytes else f"its content has {size:,} bytes, not {size_bytes:,}"

    def location(self, digest: str) -> str:
        try:
            return self.store.location(digest) or self.file
        except RefoldError:
            return self.file


def _fold(store: Store, about: Conversation) -> Fold:
    return folded(events_of(store, about), switches(events_of(store, about)))


def page_faults(view: View) -> list[str]:
    """Every law that the page breaks, and what each provider would refuse in it."""
    if not view.slots:
        return []
    # An empty message may stand in a log, because rendering mends it; whether it did is asked of
    # the dialects.
    found = [fault for fault in laws.broken(view) if not fault.endswith("is empty")]
    for name in dialects.DIALECTS:
        spoken = dialects.dialect(name)
        try:
            request = Page(spoken, bound=False).render(view, cache=True).request
        except RefoldError as error:
            found.append(f"the page has no form in {name}: {error}")
        else:
            found += [f"{name} would refuse the page: {fault}" for fault in spoken.check(request)]
    return found


class _Log:
    """The walk through one log. `befores` are the chain values that the next event may stand on:
    the stored one, and what it should have been, so that a damaged chain value is blamed on its
    own event and not on the next."""

    def __init__(self, walk: _Walk, about: Conversation) -> None:
        self.walk, self.about = walk, about
        self.befores: list[bytes] = [codec.ZERO]
        self.title = ""
        self.artifacts: set[str] = set()
        self.named: dict[str, int] = {}
        self.mentioned: dict[
            str, int
        ] = {}  # artifacts that a text names, and where it does so for the last time
        self.has_erased_artifact = False
        self.missing: dict[
            str, Problem
        ] = {}  # by digest, unless the log says later that the content was cleaned up

    def problems(self) -> list[Problem]:
        found: list[Problem] = []
        for step in self._steps():
            if isinstance(step, Event):
                self.walk.events += 1
                found += self._event(step)
            else:
                # What follows an event that is lost cannot be tied to what came before it.
                self.befores = []
                found.append(step)
            if len(found) > PROBLEMS_MAX:
                return found
        return [*found, *self._whole()]

    def _steps(self) -> Iterator[Event | Problem]:
        """Every event of the log; a problem where there is none, or none that can be read."""
        after = 0
        while after < self.about.head:
            last = min(after + READ_EVENTS, self.about.head)
            fault: Corrupt | None = None
            try:
                events = self.walk.store.read(
                    self.about.id, after=after, last=last, limit=READ_EVENTS
                )
            except Corrupt as error:
                events, fault = [], error
            whole = len(events) == last - after
            steps: list[Event | Problem] = (
                [*events] if whole else [*map(self._one, range(after + 1, last + 1))]
            )
            yield from steps
            if fault is not None and all(isinstance(step, Event) for step in steps):
                # Each is found by itself, and yet they cannot be read in a row: something else lies
                # between them.
                yield self._problem("log", f"cannot be read: {fault}", last)
            after = last

    def _one(self, seq: int) -> Event | Problem:
        try:
            events = self.walk.store.read(self.about.id, after=seq - 1, last=seq, limit=1)
        except Corrupt as error:
            return self._problem("log", f"cannot be read: {error}", seq)
        return events[0] if events else self._problem("log", "the event is missing", seq)

    def _event(self, event: Event) -> Iterator[Problem]:
        faults = list(self._seal_faults(event))
        if not faults:
            try:
                self._learn(event)
            except Corrupt as error:
                faults.append(str(error))
        yield from (self._problem("log", fault, event.seq) for fault in faults)
        yield from self._artifact_problems(event) if not faults else ()

    def _seal_faults(self, event: Event) -> Iterator[str]:
        if not event.erased and codec.digest_of(event.salt, event.body) != event.digest:
            yield "its body does not match its digest"
        try:
            chains = [
                codec.chain_of(
                    before, event.seq, event.id, event.at_ms, event.by, event.kind, event.digest
                )
                for before in self.befores
            ]
        except (struct.error, ValueError, OverflowError) as error:
            yield f"its envelope is damaged: {error}"
            chains = []
        is_tied = event.chain in chains or not self.befores
        self.befores = [event.chain] if is_tied else [event.chain, *chains]
        if not is_tied:
            yield "the chain is broken"

    def _learn(self, event: Event) -> None:
        """Decodes the body, and remembers what the log says as a whole."""
        body = codec.decode(event)
        self.has_erased_artifact |= event.erased and event.kind == "artifact"
        match body:
            case Meta(title=str(title)):
                self.title = title
            case Artifact():
                self.artifacts.add(body.id)
            case Message():
                texts = (text_of(block) for block in body.blocks)
                self.mentioned.update((id, event.seq) for text in texts for id in references(text))
                results = (
                    block
                    for block in body.blocks
                    if isinstance(block, ToolResult) and block.artifact
                )
                self.named.update({result.artifact: event.seq for result in results})
            case _:
                pass

    def _artifact_problems(self, event: Event) -> Iterator[Problem]:
        artifact = codec.decode(event) if event.kind == "artifact" else None
        if not isinstance(artifact, Artifact):
            return
        if event.by == CLEANER:
            self.missing.pop(artifact.digest, None)
            return
        fault = self.walk.content_fault(artifact)
        if not fault and codec.artifact_id(artifact.digest) != artifact.id:
            fault = "its id does not follow from its digest"
        if fault:
            where = self.walk.location(artifact.digest)
            problem = self._problem("artifact", f"{artifact.id}: {fault}", event.seq, where)
            if fault == MISSING:
                self.missing[artifact.digest] = problem
            else:
                yield problem

    def _whole(self) -> Iterator[Problem]:
        """What only shows at the end of the log."""
        yield from self.missing.values()
        if self.befores and self.about.chain not in self.befores:
            yield self._problem(
                "log", "the head is not the one that the store names", self.about.head
            )
        if self.about.title != self.title:
            yield self._problem("store", "the title in the list is not the one in the log")
        missing = (
            {}
            if self.has_erased_artifact
            else {k: v for k, v in self.named.items() if k not in self.artifacts}
        )
        for artifact, seq in missing.items():
            yield self._problem(
                "artifact", f"the result names {artifact}, which the log does not have", seq
            )

    def remarks(self) -> list[Problem]:
        """The artifacts that a text names and the log does not have. Nothing is known of those
        that were erased."""
        if self.has_erased_artifact:
            return []
        missing = {
            id: seq
            for id, seq in self.mentioned.items()
            if id not in self.artifacts and id not in self.named
        }
        said = (
            (f"the text names {id}, which the log does not have", seq)
            for id, seq in missing.items()
        )
        return [self._problem("artifact", what, seq) for what, seq in islice(said, PROBLEMS_MAX)]

    def _problem(self, part: Part, what: str, seq: int = 0, file: str = "") -> Problem:
        return Problem(
            part=part, what=what, conversation=self.about.id, seq=seq, file=file or self.walk.file
        )
