"""What an import wrote of one session, counted over all its tries.

Somebody else may write to the log meanwhile: then an import begins again, and knows what it wrote
before that. What only waited to be written was not. Neighbours: `follow` counts, `importer` keeps a
tally per session and reports it.
"""

from __future__ import annotations


class Tally:
    """Counts of messages: `new`, `restored` (a rewound session took them back) and `erased` (left
    out, since they may be what was erased). `left_at` is the seq at which the log was before
    something was taken off; `again` are the keys of what is written once more, since a message
    grew, and `grown_at` is the seq at which the log was before that. `unsaid` are the keys of what
    counts as new and is a note, since it was not understood."""

    def __init__(self) -> None:
        self.new = self.restored = self.erased = 0
        self.left_at = self.grown_at = 0
        self.again: set[str] = set()
        self.unsaid: set[str] = set()
        self._written = 0  # events, when something was counted last
        self._forget_waiting()

    def _forget_waiting(self) -> None:
        self._new, self._erased = 0, 0
        self._again: set[str] = set()

    def count(self, key: str, written: int) -> None:
        """Counts what waits to be written, while so many events were."""
        self._settle(written)
        if key in self.again:
            self.again.remove(key)
            self._again.add(key)
        else:
            self.new += 1
            self._new += 1

    def leave_out(self, written: int) -> None:
        """Counts a message whose stand-in waits to be written."""
        self._settle(written)
        self.erased += 1
        self._erased += 1

    def take_back(self, count: int, left_at: int) -> None:
        """Counts what was taken off; the log was at this seq before."""
        self.restored += count
        self.left_at = left_at

    def end(self) -> None:
        """The file is at its end: what it no longer has was taken back."""
        if self.again:
            self.take_back(len(self.again), self.left_at or self.grown_at)
            self.again.clear()

    def stop(self, written: int) -> None:
        """Nothing more is written in this try: what still waits does not count."""
        self._settle(written)
        self.new -= self._new
        self.erased -= self._erased
        self.again |= self._again
        self._forget_waiting()
        self._written = 0

    def _settle(self, written: int) -> None:
        if written != self._written:
            self._forget_waiting()
            self._written = written
