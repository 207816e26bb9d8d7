"""The clause about everything at once: random steps on a store and on a plain dictionary, compared
after each.

The model shares nothing with any store: a log is a list of one-element lists, a fork copies the
outer list, so an erased event is empty for all who share it. Neighbour: `machine` chooses the steps
with hypothesis, and is imported when the clause runs, not before.
"""

from __future__ import annotations

import hashlib

import msgspec

from refold.core import codec
from refold.core.model import Conversation, Event, Meta
from refold.errors import Conflict, Invalid, NotFound
from refold.stores.contract.kit import Make, collector, refused, sealed
from refold.stores.protocol import Store

CLAUSES, clause = collector()


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
        """Whether a bookmark of another branch goes as well is the store's choice: it is made
        again when it is missing."""
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


@clause
def random_steps_leave_what_a_plain_dictionary_would_hold(make: Make) -> None:
    from refold.stores.contract import machine

    machine.run(make)
