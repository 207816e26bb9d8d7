"""The clause about everything at once: random steps on a store and on a plain dictionary, compared
after each.

The model shares nothing with any store: a log is a list of one-element lists, a fork copies the
outer list, so an erased event is empty for all who share it. Hypothesis is imported when the clause
runs, not before.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from refold.core import codec
from refold.core.model import Event, Meta
from refold.errors import Conflict, Invalid, NotFound
from refold.stores.contract.kit import Make, collector, refused, sealed
from refold.stores.protocol import Store

CLAUSES, clause = collector()

EXAMPLES = 40
STEPS = 30
IDS = ("a", "b", "B", "c.d", "e-1")


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
        titles = [
            codec.decode(event)
            for event in self.events(id)
            if event.kind == "meta" and not event.erased
        ]
        return next(
            (
                body.title
                for body in reversed(titles)
                if isinstance(body, Meta) and body.title is not None
            ),
            "",
        )


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
        events = self.model.events(id)[first : first + count] if id in self.model.logs else []
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
        # Whether a bookmark of another branch goes too is the store's choice: it is made again when
        # it is missing.
        for reader in self.model.logs:
            if self.store.bookmark(reader) is None:
                self.model.marks.pop(reader, None)
        assert not any(
            any(cell is own for own in self.model.logs[reader]) for reader in self.model.marks
        )

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
        found = {conversation.id: conversation for conversation in self.store.conversations()}
        assert list(found) == sorted(self.model.logs)
        for id, conversation in found.items():
            events = self.model.events(id)
            assert self.store.read(id) == events
            assert (conversation.head, conversation.chain) == (len(events), events[-1].chain)
            assert (conversation.parent, conversation.parent_seq) == self.model.parents.get(
                id, ("", 0)
            )
            assert conversation.title == self.model.title(id)
            assert self.store.bookmark(id) == self.model.marks.get(id)
            assert self.store.conversation(id) == conversation
        for content in self.model.contents:
            assert b"".join(self.store.get(hashlib.sha256(content).hexdigest())) == content


def _machine(make: Make) -> Any:
    """The steps as hypothesis wants them."""
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

    ids = st.sampled_from(IDS)
    seqs = st.integers(-1, 8)
    titles = st.one_of(
        st.none(), st.text(max_size=5, alphabet=st.characters(exclude_categories=["Cs"]))
    )
    metas = titles.map(lambda title: codec.encode(Meta(title=title)))

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.pair = Pair(make)

        @rule(
            id=ids, bodies=st.lists(st.binary(max_size=3_000), max_size=4), behind=st.integers(0, 2)
        )
        def append(self, id: str, bodies: list[bytes], behind: int) -> None:
            self.pair.append(id, bodies, "message", behind)

        @rule(id=ids, bodies=st.lists(metas, max_size=2))
        def append_meta(self, id: str, bodies: list[bytes]) -> None:
            self.pair.append(id, bodies, "meta", 0)

        @rule(id=ids, first=st.integers(0, 5), count=st.integers(1, 3))
        def repeat(self, id: str, first: int, count: int) -> None:
            self.pair.repeat(id, first, count)

        @rule(id=ids, at=seqs, new=ids)
        def fork(self, id: str, at: int, new: str) -> None:
            self.pair.fork(id, at, new)

        @rule(id=ids, seq=seqs)
        def erase(self, id: str, seq: int) -> None:
            self.pair.erase(id, seq)

        @rule(id=ids)
        def delete(self, id: str) -> None:
            self.pair.delete(id)

        @rule(id=ids, mark=st.binary(max_size=50))
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

    return Machine


@clause
def random_steps_leave_what_a_plain_dictionary_would_hold(make: Make) -> None:
    from hypothesis import HealthCheck, settings
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        _machine(make),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
