"""Facts of messages that a compaction took off the page go into the memory, if that is wanted.

`memory_extract` is `off`, `keep`, or `ask`: then they wait in the inbox until a person accepts
them. Rules read every message that left the page; a writer is asked once more about those that
left it just now, and shown what is known of the same: it may say what a fact replaces. To-dos are
what the ledger knows, and end when they are done. It happens after the compaction, with no lock
held, and a failure is told and costs nothing else. Neighbours: `memory.extraction` and
`writer.facts` read the messages, `memory.semantic` keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from refold.core.codec import decode
from refold.core.fold import Fold
from refold.core.model import Fact, Message, Slot, Trust, Usage, is_shown
from refold.display import number
from refold.errors import RefoldError, sentence
from refold.ledger.ledger import facts_of
from refold.ledger.sentences import own_text, sentences
from refold.log.log import runs
from refold.log.notices import Notice
from refold.log.open_log import OpenLog
from refold.memory.extraction import Taken, may_be_kept, taken_from
from refold.writer import facts
from refold.writer.accept import Rejected
from refold.writer.asker import Asker

if TYPE_CHECKING:
    from refold.memory.semantic import SemanticMemory

TODO = "To do: "


class Extraction:
    """Takes facts from one open log, from where it stopped last."""

    def __init__(
        self, log: OpenLog, memory: Callable[[], SemanticMemory], asker: Asker | None = None
    ) -> None:
        self._log, self._memory, self._asker = log, memory, asker
        self._upto = 0
        self._left: set[int] = set()  # messages up to there that the page still showed
        # A writer is asked about what leaves the page from now on, never about a whole old log.
        self._opened_at, self._shown_then = log.state.head, _shown(log.state)
        if log.config.memory_extract != "off" and not log.is_read_only:
            log.notices.on("compaction-complete", self._extract)

    def move(self) -> None:
        """The log is another one now; what was taken before is known by its words."""
        self._upto = 0

    def _extract(self, notice: Notice) -> None:
        try:
            hidden = self._hidden()
            taken = taken_from((slot.seq, slot.message) for slot in hidden)
            by_writer, usage = self._by_writer(hidden)
            todos = self._todos()
            taken += [*by_writer, *_open_todos(todos)]
            ended = [TODO + one.text for one in todos if one.state != "open"]
            waits = self._log.config.memory_extract == "ask"
            most = self._log.config.memory_entries
            new = self._memory().take(taken, waits=waits, ended=ended, entries_max=most)
        except RefoldError as error:
            self._log.notify("memory-failed", sentence(error))
            return
        if new or usage:
            self._tell(new, usage)

    def _tell(self, new: int, usage: Sequence[Usage]) -> None:
        used = {
            "calls": len(usage),
            "input": sum(one.input for one in usage),
            "output": sum(one.output for one in usage),
        }
        waits = self._log.config.memory_extract == "ask"
        what = f"{new} {'wait in the inbox' if waits else 'remembered'}"
        notice = Notice(name="memory-extracted", reason=what, details={"new": new, **used})
        with self._log.guard:
            self._log.notices.add(notice)

    def _hidden(self) -> list[Slot]:
        """The messages that the page no longer shows as they came, each once."""
        with self._log.reading() as state:
            shown = _shown(state)
            events = list(self._log.log.read(self._upto, state.head))
            for span in runs(self._left - shown):
                events += self._log.log.read(span.first - 1, span.last)
        found: list[Slot] = []
        for event in sorted(events, key=lambda event: event.seq):
            body = decode(event) if event.kind == "message" and event.seq not in shown else None
            if isinstance(body, Message):
                found.append(Slot(event.seq, event.seq, body, event.tokens))
        self._upto = max((self._upto, *(slot.seq for slot in found)))
        self._left = {seq for seq in shown if seq <= self._upto}
        return found

    def _by_writer(self, hidden: Sequence[Slot]) -> tuple[list[Taken], list[Usage]]:
        """What the writer finds in the messages that left the page just now."""
        asker = self._asker
        new = [slot for slot in hidden if self._is_new(slot)]
        if asker is None or asker.resting or not new or self._log.config.writer_wait_s <= 0:
            return [], []
        try:
            found, usage = facts.noted(asker, new, self._log.config.writer_wait_s, self._known)
        except Rejected as error:
            self._log.notify("memory-failed", f"the writer: {error}")
            return [], []
        if unshown := {id for one in found for id in one.unshown}:
            said = (
                f"{number(len(unshown), 'id')} that it was not shown: nothing is replaced by that"
            )
            self._log.notify("memory-failed", f"the writer named {said}")
        return [_taken(one) for one in found if may_be_kept(one.sentence)], usage

    def _known(self, slots: Sequence[Slot]) -> list[facts.Known]:
        """What is remembered of what these messages say themselves; long texts are left out."""
        said = [one for slot in slots for one in sentences(own_text(slot.message))]
        found = [one for one in self._memory().known_of(said) if may_be_kept(one.content)]
        return [facts.Known(one.id, one.content) for one in found]

    def _is_new(self, slot: Slot) -> bool:
        """Whether a message left the page since this was opened; what only shows
        memories or a file is nothing that was said."""
        is_recent = slot.seq > self._opened_at or slot.seq in self._shown_then
        return is_recent and not is_shown(slot.message)

    def _todos(self) -> list[Fact]:
        """The to-dos that the ledger knows, as they are now: what the page still shows may have
        ended one."""
        with self._log.reading() as state:
            known = {fact.text: fact for fact in state.facts.values() if _is_todo(fact)}
            slots = [slot for slot in state.slots if not slot.standin]
        if not known:
            return []
        later = facts_of(slots, self._log.config, tuple(known.values()))
        known.update((fact.text, fact) for fact in later if _is_todo(fact))
        return list(known.values())


def _shown(state: Fold) -> set[int]:
    """The messages that the page shows as they came."""
    return {slot.seq for slot in state.slots if not slot.standin}


def _taken(noted: facts.Noted) -> Taken:
    trust: Trust = "tool" if noted.by_tool else "model"
    return Taken(noted.sentence, noted.seq, trust, noted.kind, noted.replaces)


def _is_todo(fact: Fact) -> bool:
    return fact.kind == "todo"


def _open_todos(todos: Sequence[Fact]) -> list[Taken]:
    found = [
        Taken(TODO + one.text, one.seq, "model", "todo") for one in todos if one.state == "open"
    ]
    return [one for one in found if may_be_kept(one.content)]
