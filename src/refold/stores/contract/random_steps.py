"""Random steps on a store and on a plain dictionary, compared after each.

The model shares nothing with any store: a log is a list of one-element lists, and a fork copies the
outer list, so an erased event is empty in every log that shares it. Importing this imports
hypothesis, so the package does it only when the clause runs.
"""

from __future__ import annotations

import hashlib

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from refold.core import codec
from refold.core.model import Conversation, Event, Meta
from refold.errors import Conflict, Invalid, NotFound
from refold.stores.contract.kit import Make, refused, sealed
from refold.stores.protocol import Store


class Model:
    """What a store should hold, kept in the plainest way there is."""

    def __init__(self) -> None:
        self.logs: dict[str, list[list[Event]]] = {}
        self.parents: dict[str, tuple[str, int]] = {}
        self.marks: dict[str, bytes] = {}
        self.contents: set[bytes] = set()

    def events(self, id: str) -> list[Event]:
        return [cell[0] for cell in self.logs[id]]

    def title(self, id: str) -> str:
        for event in reversed(self.events(id)):
            if event.kind == "meta" and not event.erased:
                body = codec.decode(event)
                if isinstance(body, Meta) and body.title is not None:
                    return body.title
        return ""


class Pair:
    """A store and its model, moved by the same steps."""

    def __init__(self, make: Make) -> None:
        self.place = make()
        self.store: Store = self.place.open()
        self.model = Model()

    def append(self, id: str, bodies: list[bytes], kind: str, behind: int) -> None:
        log = self.model.logs.get(id, [])
        expect = max(0, len(log) - behind)
        events = sealed(log[expect - 1][0] if expect else None, bodies, kind=kind)
        if behind and bodies and expect != len(log):
            with refused(Conflict) as refusal:
                self.store.append(id, events, expect=expect)
            assert getattr(refusal.error, "head", None) == len(log)
            return
        self.store.append(id, events, expect=expect)
        if events:
            self.model.logs[id] = log + [[event] for event in events]

    def repeat(self, id: str, first: int, count: int) -> None:
        if id not in self.model.logs:
            return
        events = self.model.events(id)[first : first + count]
        if events:
            self.store.append(id, events, expect=events[0].seq - 1)

    def fork(self, id: str, at: int, new: str) -> None:
        log = self.model.logs.get(id)
        if log is None:
            with refused(NotFound):
                self.store.fork(id, at, new)
        elif new in self.model.logs:
            with refused(Conflict):
                self.store.fork(id, at, new)
        elif not 1 <= at <= len(log):
            with refused(Invalid):
                self.store.fork(id, at, new)
        else:
            self.store.fork(id, at, new)
            self.model.logs[new] = log[:at]
            self.model.parents[new] = (id, at)

    def erase(self, id: str, seq: int) -> None:
        log = self.model.logs.get(id, [])
        if not 1 <= seq <= len(log):
            with refused(NotFound):
                self.store.erase(id, seq)
            return
        self.store.erase(id, seq)
        cell = log[seq - 1]
        cell[0] = msgspec.structs.replace(cell[0], body=b"", salt=b"")
        self._drop_lost_marks()
        for reader in self.model.marks:
            assert not any(cell is own for own in self.model.logs[reader])

    def _drop_lost_marks(self) -> None:
        """Whether a bookmark of another branch is removed as well is the store's choice: it is
        created again when it is missing."""
        for reader in self.model.logs:
            if self.store.bookmark(reader) is None:
                self.model.marks.pop(reader, None)

    def delete(self, id: str) -> None:
        if id not in self.model.logs:
            with refused(NotFound):
                self.store.delete(id)
        elif any(parent == id for parent, _ in self.model.parents.values()):
            with refused(Conflict):
                self.store.delete(id)
        else:
            self.store.delete(id)
            del self.model.logs[id]
            self.model.parents.pop(id, None)
            self.model.marks.pop(id, None)

    def mark(self, id: str, mark: bytes) -> None:
        if id not in self.model.logs:
            with refused(NotFound):
                self.store.keep_bookmark(id, mark)
        else:
            self.store.keep_bookmark(id, mark)
            self.model.marks[id] = mark

    def put(self, content: bytes) -> None:
        assert self.store.put([content[:3], content[3:]]) == hashlib.sha256(content).hexdigest()
        self.model.contents.add(content)

    def reopen(self) -> None:
        if self.place.url:
            self.store.close()
            self.store = self.place.open()

    def compare(self) -> None:
        """Asserts that the store holds what the model holds."""
        found = self.store.conversations()
        assert [conversation.id for conversation in found] == sorted(self.model.logs)
        for conversation in found:
            self._compare_one(conversation)
        for content in self.model.contents:
            assert b"".join(self.store.get(hashlib.sha256(content).hexdigest())) == content

    def _compare_one(self, found: Conversation) -> None:
        events = self.model.events(found.id)
        assert self.store.read(found.id) == events
        assert (found.head, found.chain) == (len(events), events[-1].chain)
        assert (found.parent, found.parent_seq) == self.model.parents.get(found.id, ("", 0))
        assert found.title == self.model.title(found.id)
        assert self.store.bookmark(found.id) == self.model.marks.get(found.id)
        assert self.store.conversation(found.id) == found
        assert self.store.head(found.id) == found.head


EXAMPLES = 40
STEPS = 30
IDS = st.sampled_from(("a", "b", "B", "c.d", "e-1"))
SEQS = st.integers(-1, 8)
TITLES = st.none() | st.text(max_size=5, alphabet=st.characters(exclude_categories=["Cs"]))
BODIES = st.lists(st.binary(max_size=3_000), max_size=4)


def run(make: Make) -> None:
    """Takes random steps on stores of this place, and compares after each."""

    class PlacedMachine(Machine):
        def __init__(self) -> None:
            super().__init__(make)

    run_state_machine_as_test(
        PlacedMachine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


class Machine(RuleBasedStateMachine):
    """One store and its model, moved by steps that hypothesis chooses."""

    def __init__(self, make: Make) -> None:
        super().__init__()
        self.pair = Pair(make)

    @rule(id=IDS, bodies=BODIES, behind=st.integers(0, 2))
    def append(self, id: str, bodies: list[bytes], behind: int) -> None:
        self.pair.append(id, bodies, "message", behind)

    @rule(id=IDS, titles=st.lists(TITLES, max_size=2))
    def append_meta(self, id: str, titles: list[str | None]) -> None:
        bodies = [codec.encode(Meta(title=title)) for title in titles]
        self.pair.append(id, bodies, "meta", 0)

    @rule(id=IDS, first=st.integers(0, 5), count=st.integers(1, 3))
    def repeat(self, id: str, first: int, count: int) -> None:
        self.pair.repeat(id, first, count)

    @rule(id=IDS, at=SEQS, new=IDS)
    def fork(self, id: str, at: int, new: str) -> None:
        self.pair.fork(id, at, new)

    @rule(id=IDS, seq=SEQS)
    def erase(self, id: str, seq: int) -> None:
        self.pair.erase(id, seq)

    @rule(id=IDS)
    def delete(self, id: str) -> None:
        self.pair.delete(id)

    @rule(id=IDS, mark=st.binary(max_size=50))
    def mark(self, id: str, mark: bytes) -> None:
        self.pair.mark(id, mark)

    @rule(content=st.binary(max_size=20))
    def put(self, content: bytes) -> None:
        self.pair.put(content)

    @rule()
    def reopen(self) -> None:
        self.pair.reopen()

    @invariant()
    def same(self) -> None:
        self.pair.compare()

    def teardown(self) -> None:
        self.pair.store.close()
