"""Going back and holding on, as a `Context` offers it: undo, revert, restore, checkpoints, clear,
pins.

Nothing is taken out of the log: each of these appends what the fold then obeys. `Context` is built
on this, as this is on `shortening`. Neighbours: `history` says what is to be written, `points` what
there is to go back to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from refold.core.model import Body, Checkpoint, Event, Restore
from refold.engine.shortening import Shortening
from refold.log import undo as history

if TYPE_CHECKING:
    from refold.log.log import Draft
    from refold.log.points import Restored


class Returning(Shortening):
    """What can be taken back, in a conversation that is held open."""

    def revert(self, batch: str) -> None:
        """Switches a compaction off: its slots are on the page again as they were."""
        self._decided(lambda: [history.reverting(self._log.state, batch)])

    def undo(self) -> bool:
        """Switches off the newest compaction or restore; undoing again redoes it. False if there
        is nothing."""
        return bool(
            self._decided(lambda: [body] if (body := history.undoing(self._log.state)) else [])
        )

    def clear(self) -> None:
        """Takes everything but the system prompt, the tools and the pins off the page, as one
        batch; `undo` brings it back."""
        self._decided(lambda: history.clearing(self._log.state))

    def checkpoint(self, name: str = "") -> int:
        """Names the position the log is at; gives its seq. Every seq can be restored without a
        name, too."""
        with self._guard:
            self._catch_up()
            seq = self._log.state.head
            self._append([self._desk.draft(Checkpoint(name=name or f"checkpoint-{seq}", seq=seq))])
            return seq

    def restore(self, to: int | str) -> Restored:
        """Takes the page back to what it was at a seq or checkpoint. The log keeps everything;
        `undo` comes back. Gives what that switched off, and the files that tool calls changed
        behind the point: on disk they stay."""
        with self._guard:
            planned = self.plan_restore(to)
            self._append([self._desk.draft(Restore(seq=planned.seq))])
            return planned

    def pin(self, seq: int) -> None:
        """Keeps a message, with its tool pair, on the page verbatim through every compaction."""
        self._decided(lambda: history.pinning(self._log, seq, on=True))

    def unpin(self, seq: int) -> None:
        """Lets a compaction take the message again."""
        self._decided(lambda: history.pinning(self._log, seq, on=False))

    def _decided(self, bodies: Callable[[], Sequence[Body]]) -> list[Event]:
        """Appends what follows from the log as it is now."""
        with self._guard:
            self._catch_up()
            drafts = [self._desk.draft(body) for body in bodies()]
            return self._append(drafts) if drafts else []

    def _append(self, drafts: Sequence[Draft]) -> list[Event]:
        raise NotImplementedError
