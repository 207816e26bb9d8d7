"""The past of an open conversation, as `context.log` offers it: events, points to go back to, what
differs between two, why a message is as it is, and exports.

Nothing here writes to the log. Neighbours: `log.points`, `log.trace` and `conversations` do the
work.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

from refold.checked import checked
from refold.core.model import Event
from refold.errors import Invalid
from refold.log.open_log import OpenLog
from refold.log.undo import restoring

if TYPE_CHECKING:
    from refold.log.batches import Batch
    from refold.log.notes import Noted
    from refold.log.points import Difference, Point
    from refold.log.trace import Trace


class Shown(TypedDict):
    """What an export shows."""

    secrets: bool | None
    emails: bool


class LogReader:
    """Reads one open log."""

    def __init__(self, log: OpenLog) -> None:
        self._log = log

    @checked
    def events(self, *, after: int = 0, limit: int = 1_000) -> list[Event]:
        """The log itself, a page at a time."""
        for name, value in (("after", after), ("limit", limit)):
            if value < 0:
                raise Invalid(f"{name} is {value}", hint="give a number from 0")
        with self._log.guard:
            self._log.check_open()
            if self._log.state.head == 0:
                return []
            return self._log.store.read(self._log.id, after=after, limit=limit)

    @checked
    def points(self, *, every: int = 10, keep: int = 5, hours: float = 24.0) -> list[Point]:
        """Where `restore` can go, newest first: checkpoints by name, every so many messages, and
        before each compaction, undo and restore. Those without a name are listed for so many
        hours, the newest `keep` forever; any other seq can be restored as well."""
        from refold.log.points import points_of

        with self._log.reading() as state:
            events = self._log.log.read() if state.head else ()
            now_ms = self._log.log.clock()
            return points_of(events, now_ms, every=every, keep=keep, hours=hours)

    def batches(self) -> list[Batch]:
        """Every compaction, oldest first: its id for `revert`, its strategy, the size of the page
        before and after it, and whether it still stands."""
        from refold.log.batches import batches_of

        with self._log.reading() as state:
            return batches_of(self._log.log.read() if state.head else ())

    @checked
    def notes(self, kind: str = "", *, after: int = 0) -> list[Noted]:
        """What `note` kept and no restore has switched off, oldest first; of one kind, if it is
        named, and of those after a seq."""
        from refold.log.notes import notes_of

        with self._log.reading() as state:
            return notes_of(self._log.log, kind, after) if state.head else []

    @checked
    def diff(self, first: int | str, last: int | str | None = None) -> Difference:
        """How the page at one point (a seq or a checkpoint) differs from the page at another;
        `last` is the head unless it is given."""
        from refold.log.points import difference

        with self._log.reading() as state:
            start = restoring(state, first).seq
            end = state.head if last is None else restoring(state, last).seq
            return difference(self._log.log, start, end, self._log.config)

    @checked
    def why(self, seq: int) -> list[Trace]:
        """Every event that hid, changed, pinned or brought back a message, or changed the file it
        shows, oldest first, with its time and reason."""
        from refold.log.trace import traced

        with self._log.reading():
            return traced(self._log.log, seq, self._log.config)

    @checked
    def export(self, path: str | Path, *, secrets: bool | None = None, force: bool = True) -> None:
        """Writes the conversation to a file, by its ending: `.json` is complete and can be
        imported again, `.md` is for reading, without secrets. `secrets=True` leaves them in;
        `False` takes them out of `.json` as well, which is another log then. Without `force`, a
        file that exists is a Conflict."""
        from refold.conversations.exporter import export_file

        with self._log.guard:
            self._log.check_open()
            shown = self._shown(secrets)
            export_file(self._log.store, self._log.id, str(path), force=force, **shown)

    @checked
    def exported(
        self, format: Literal["json", "markdown"] = "json", *, secrets: bool | None = None
    ) -> str:
        """What `export` writes, as a text."""
        from refold.conversations.exporter import chunks_of

        with self._log.guard:
            self._log.check_open()
            chunks = chunks_of(self._log.store, self._log.id, format, **self._shown(secrets))
            return b"".join(chunks).decode()

    def _shown(self, secrets: bool | None) -> Shown:
        """What an export shows, where the caller does not say."""
        from refold.redaction import is_redacted, takes_emails

        redact = self._log.config.redact
        shown = True if secrets is None and not is_redacted(redact, "exports") else secrets
        return {"secrets": shown, "emails": takes_emails(redact)}
