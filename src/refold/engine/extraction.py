"""Facts of messages that a compaction took off the page go into the memory, if that is wanted.

`memory_extract` is `off`, `keep`, or `ask`: then they wait in the inbox until a person accepts
them. It happens after the compaction, with no lock held, and a failure is told and costs nothing
else. Neighbours: `memory.extraction` reads the messages, `memory.semantic` keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from refold.core.codec import decode
from refold.core.model import Message
from refold.errors import RefoldError, sentence
from refold.log.notices import Notice
from refold.log.open_log import OpenLog
from refold.memory.extraction import taken_from

if TYPE_CHECKING:
    from refold.memory.semantic import SemanticMemory


class Extraction:
    """Takes facts from one open log, from where it stopped last."""

    def __init__(self, log: OpenLog, memory: Callable[[], SemanticMemory]) -> None:
        self._log, self._memory = log, memory
        self._upto = 0
        if log.config.memory_extract != "off" and not log.is_read_only:
            log.notices.on("compaction-complete", self._extract)

    def move(self) -> None:
        """The log is another one now; what was taken before is known by its words."""
        self._upto = 0

    def _extract(self, notice: Notice) -> None:
        try:
            taken = taken_from(self._hidden())
            self._memory().take(taken, waits=self._log.config.memory_extract == "ask")
        except RefoldError as error:
            self._log.notify("memory-failed", sentence(error))

    def _hidden(self) -> Iterator[tuple[int, Message]]:
        """The messages that the page no longer shows as they came, from where this stopped."""
        with self._log.reading() as state:
            shown = {slot.seq for slot in state.slots if not slot.standin}
            first = min((seq for seq in shown if seq > self._upto), default=state.head + 1)
            events = list(self._log.log.read(self._upto, state.head))
        for event in events:
            body = decode(event) if event.kind == "message" and event.seq not in shown else None
            if isinstance(body, Message):
                yield event.seq, body
        self._upto = first - 1
