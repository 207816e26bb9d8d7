"""The entries of one session on their way to its conversation: nothing is written before somebody
speaks, and what is no message is told each time and not counted.

A session without a message leaves no conversation behind. What the log has as a note, since it was
not understood, is known again like any message: the follower passes over it, and it is told again
here. Neighbours: `follow` writes, `importer` has one of these per session, `known` what there is.
"""

from __future__ import annotations

from typing import Any

from refold.core.codec import decode
from refold.core.model import Note
from refold.edges.importers.entry import UNREAD, Entry, Said, Summed, Unread
from refold.edges.importers.follow import Follower
from refold.edges.importers.known import events_of
from refold.edges.importers.parts import named, written
from refold.engine.context import Context
from refold.errors import Invalid

WAITING_MAX = 10_000  # entries before the first message; then they are written without one
TOO_LARGE = "not kept: it is too large for a message"
_NOT_KEPT = "not kept: "
_MARK = f'"{UNREAD}"'.encode()  # in every note of this kind


class Intake:
    """Hands entries to a follower. `own` is what a new conversation is told of its session first;
    `unread` tells what is no message, however often it is imported."""

    def __init__(self, follower: Follower, own: dict[str, Any]) -> None:
        self.follower, self._own = follower, own
        context = follower.context
        is_new = not context.log.events(limit=1)
        self._waiting: list[Entry] | None = [] if is_new else None
        self._kept = {} if is_new else _kept_as_notes(context)
        self._unsaid: set[str] = set()
        if not is_new:
            self._describe()

    @property
    def messages(self) -> int:
        """How many messages the file has; what was not understood is none."""
        return self.follower.messages - len(self._unsaid)

    @property
    def new(self) -> int:
        """How many of them were written now."""
        tally = self.follower.tally
        return max(0, tally.new - len(tally.unsaid))

    @property
    def unread(self) -> list[Unread]:
        if not self._waiting:
            return self.follower.unread
        told = (self._told(entry) for entry in self._waiting)
        return [*self.follower.unread, *(one for one in told if one is not None)]

    def take(self, entry: Entry) -> None:
        """Takes an entry; those before the first message wait for it."""
        if self._waiting is None:
            self._take(entry)
            return
        self._waiting.append(entry)
        if not self._speaks(entry) and len(self._waiting) < WAITING_MAX:
            return
        waiting, self._waiting = self._waiting, None
        self._describe()
        for one in waiting:
            self._take(one)

    def finish(self) -> None:
        """Writes what still waits for more; nothing of a session in which nobody spoke."""
        if self._waiting is None:
            self.follower.finish()

    def close(self) -> None:
        self.follower.close()

    def _describe(self) -> None:
        if self._own:
            self.follower.describe(self._own)

    def _take(self, entry: Entry) -> None:
        told = len(self.follower.unread)
        self.follower.take(entry)
        if not isinstance(entry, Said):
            return
        said, news = named(entry), self.follower.unread[told:]
        is_kept = written(said) in self._kept
        if not news and not is_kept:
            return
        reason = self._why_not(said)
        if any(one.reason.startswith(_NOT_KEPT) for one in news) or self._kept.get(written(said)):
            reason = reason or TOO_LARGE
        if reason is None:
            return  # the news is of something else
        self._unsaid.add(said.key)
        if news:
            self.follower.tally.unsaid.add(said.key)
        else:
            self.follower.unread.append(Unread(line=said.line, reason=reason))

    def _speaks(self, entry: Entry) -> bool:
        return isinstance(entry, Summed) or (isinstance(entry, Said) and not self._why_not(entry))

    def _told(self, entry: Entry) -> Unread | None:
        if isinstance(entry, Unread):
            return entry
        reason = self._why_not(entry) if isinstance(entry, Said) else None
        return Unread(line=entry.line, reason=reason) if reason else None

    def _why_not(self, said: Said) -> str | None:
        """Why a message is none; None if it is one."""
        try:
            self.follower.context._recorder.parse(said.message)
        except Invalid as error:
            return f"{error.message}; {error.hint}"
        return None


def _kept_as_notes(context: Context) -> dict[str, bool]:
    """The keys of what the log has as notes in the place of messages, and whether not even their
    content could be kept."""
    kept: dict[str, bool] = {}
    for event in events_of(context):
        note = decode(event) if event.kind == "note" and _MARK in event.body else None
        if isinstance(note, Note) and note.kind == UNREAD:
            kept[note.key] = note.data is None
    return kept
