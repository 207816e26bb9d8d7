"""Walks a store and reports what is not as it was written: which conversation, which event, which
file.

Four promises are checked. Every event has the body and the place in the chain that it was sealed
with; every artifact is there and matches its digest; a bookmark says what a full fold says; the
page obeys the laws, in every dialect. Nothing is changed or repaired. A damaged event does not end
the walk. Neighbours: `log_check` goes through one log, `core.fold` and `core.laws` judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import msgspec
from msgspec.structs import replace

from refold import dialects
from refold.conversations.log_check import PROBLEMS_MAX, Contents, LogCheck, Part, Problem
from refold.core import bookmark, codec, laws
from refold.core.fold import Fold, folded
from refold.core.model import Conversation, Erase, View
from refold.core.switches import switches
from refold.dialects.page import Page
from refold.display import failure
from refold.errors import Corrupt, RefoldError
from refold.log.reading import events_of, is_memory, kept_logs
from refold.stores.protocol import Store

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
