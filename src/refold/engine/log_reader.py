"""Reads and undoes the past of an open conversation: `context.log`, undo and redo, search.

An undo that makes the page too large removes its oldest messages, as a batch that the result names;
a redo restores exactly the page on which the undo was requested. Both start over if other writers
compacted or went back in the meantime. The search index is opened at first use. Neighbours:
`log.restore_points`, `log.message_history`, `log.undo`, `compaction.compactor`, `search.searcher`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain, permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

from msgspec import Struct
from msgspec.structs import replace

from refold.checked import checked, quoted
from refold.compaction.active_model import ActiveModel
from refold.compaction.compactor import Compactor
from refold.config import Config
from refold.conversations.listing import (
    FOLDER,
    IMPORTED,
    PART_OF,
    is_below,
    meta_of,
    title_of,
)
from refold.core.active_events import ControlLog, switched
from refold.core.fold import Fold
from refold.core.laws import thinking_check
from refold.core.model import Event, Hide, Restore, Revert, Thinking
from refold.dialects.native import is_shown
from refold.display import suggestion
from refold.errors import Conflict, Denied, Invalid
from refold.log.log import PAGE_EVENTS, TRIES_MAX
from refold.log.notes import keyed
from refold.log.notices import NoticeName
from refold.log.open_log import OpenLog
from refold.log.undo import (
    Change,
    Undone,
    covering,
    recent_history,
    redoing,
    restoring,
    reverting,
    undoing,
)
from refold.redaction import redacted
from refold.search.embedders import Embedder, check_embedder
from refold.search.snippets import Hit, grouped
from refold.system.disk import Moment

if TYPE_CHECKING:
    from refold.engine.context import Context
    from refold.engine.rehearsal import Rehearsal
    from refold.log.message_history import Trace
    from refold.log.message_states import Batch, States, StateWalk
    from refold.log.notes import Noted
    from refold.log.restore_points import Difference, Point, Restored
    from refold.search.searcher import Searcher
    from refold.strategies.importance import Score


Act = Literal["pin", "unpin", "hide", "undo", "redo", "restore", "clear", "compact"]


class ExportRedaction(TypedDict):
    """Redaction options of an export."""

    secrets: bool | None
    emails: bool


class LogReader:
    """Reads one open log."""

    def __init__(self, log: OpenLog, compactor: Compactor) -> None:
        self._log, self._compactor = log, compactor
        self._walk: StateWalk | None = None

    @checked
    def events(self, *, after: int = 0, limit: int | None = None) -> Iterator[Event]:
        """All events after a seq up to the head at the time of the call, read a page at a time;
        with `limit`, the first of them."""
        for name, value in (("after", after), ("limit", limit or 0)):
            if value < 0:
                raise Invalid(f"{name} is {value}", hint="pass a number from 0")
        first = self._page(after, None, PAGE_EVENTS if limit is None else min(PAGE_EVENTS, limit))
        if len(first) < PAGE_EVENTS or limit == PAGE_EVENTS:
            return iter(first)
        # Events that the caller appends while it reads must not make the log endless.
        head = self._log.store.conversation(self._log.id).head
        last = head if limit is None else min(head, first[-1].seq + limit - len(first))
        return chain(first, self._pages(first[-1].seq, last))

    def _pages(self, after: int, last: int) -> Iterator[Event]:
        while page := self._page(after, last, PAGE_EVENTS) if after < last else []:
            yield from page
            after = page[-1].seq

    def _page(self, after: int, last: int | None, limit: int) -> list[Event]:
        with self._log.guard:
            self._log.check_open()
            if self._log.state.head == 0:
                return []
            return self._log.store.read(self._log.id, after=after, last=last, limit=limit)

    @checked
    def points(self, *, every: int = 10, keep: int = 5, hours: float = 24.0) -> list[Point]:
        """Restore points, newest first: checkpoints by name, one for `every` messages, and one
        before each compaction, undo and restore. Unnamed points are listed for `hours`, the newest
        `keep` always; any other seq can be restored, too."""
        from refold.log.restore_points import points_of

        with self._log.reading() as state:
            events = self._log.log.read() if state.head else ()
            now_ms = self._log.log.clock()
            return points_of(events, now_ms, every=every, keep=keep, hours=hours)

    def batches(self) -> list[Batch]:
        """Every compaction, oldest first: its id for `undo`, its strategy, the size of the page
        before and after, and whether it is active."""
        with self._log.reading():
            return self._walked().batches()

    @checked
    def states(self, *, after: int = 0) -> States:
        """The state of every message: whole, shortened, quoted, hidden, rewound or erased, as
        changes over time, with the stand-ins and sizes of the page; `after` leaves out changes
        known at that head. The first call reads the log once, later calls only new events."""
        with self._log.reading() as state:
            if not 0 <= after <= state.head:
                what = f"there is no place #{after} in the log"
                raise Invalid(what, hint=f"the log goes from 0 to {state.head}")
            return self._walked().states(after)

    def _walked(self) -> StateWalk:
        """The walk over the log, at its head."""
        from refold.log.message_states import StateWalk

        self._walk = StateWalk.continued(self._walk, self._log.log)
        return self._walk

    @checked
    def notes(self, kind: str = "", *, after: int = 0) -> list[Noted]:
        """Active notes after a seq, oldest first; `kind` selects one kind."""
        from refold.log.notes import notes_of

        with self._log.reading() as state:
            return notes_of(self._log.log, kind, after) if state.head else []

    @checked
    def diff(self, first: int | str, last: int | str | None = None) -> Difference:
        """How the page at one point (a seq or a checkpoint) differs from the page at another;
        `last` is the head unless it is given."""
        from refold.log.restore_points import difference

        with self._log.reading() as state:
            start = restoring(state, first).seq
            end = state.head if last is None else restoring(state, last).seq
            return difference(self._log.log, start, end, self._log.config)

    @checked
    def why(self, seq: int) -> list[Trace]:
        """Every event that hid, changed, pinned or brought back a message, or changed the file it
        shows, oldest first, with its time and reason."""
        from refold.log.message_history import message_history

        with self._log.reading():
            return message_history(self._log.log, seq, self._log.config)

    @checked
    def scores(self, /, *, task: str = "", **settings: Any) -> list[Score]:
        """The value of every message on the page, from 0 to 1, with its factors, and whether the
        strategy `importance` would remove it under these settings."""
        from refold.compaction.planning import scored

        with self._log.reading() as state:
            job = self._compactor.jobs.job(("importance",), task=task, settings=settings)
            return scored(state, job)

    @checked
    def export(self, path: str | Path, *, secrets: bool | None = None, force: bool = True) -> None:
        """Writes the conversation to a file, by its ending: `.json` is complete and can be imported
        again, `.md` is for reading, without secrets. `secrets=True` leaves them in; `False` removes
        them from `.json` as well, which makes it another log. Without `force`, a file that exists
        is a Conflict."""
        from refold.conversations.exporter import export_file

        with self._log.guard:
            self._log.check_open()
            options = self._redaction(secrets)
            export_file(self._log.store, self._log.id, str(path), force=force, **options)

    @checked
    def exported(
        self, format: Literal["json", "markdown"] = "json", *, secrets: bool | None = None
    ) -> str:
        """The exported conversation as a string."""
        from refold.conversations.exporter import chunks_of

        with self._log.guard:
            self._log.check_open()
            chunks = chunks_of(self._log.store, self._log.id, format, **self._redaction(secrets))
            return b"".join(chunks).decode()

    @checked
    def rehearse(self, act: Act, /, *what: Moment, **settings: Any) -> Rehearsal:
        """The effect and the price of an act, tried on this log without writing anything: `pin`,
        `unpin` or `hide` (a message; `hide` also a first and a last one), `undo` (nothing, or
        batches in this order), `redo`, `restore` (a place), `clear`, or `compact` (strategies, and
        the settings of `Context.compact`). Then do it with `expect` at the returned `head`. No
        writer, provider or listener is called, so a summary has the size of its draft."""
        from refold.engine.rehearsal import rehearsed

        with self._log.reading():
            return rehearsed(self._log, act, what, settings)

    def _redaction(self, secrets: bool | None) -> ExportRedaction:
        """Redaction options, with the configured value as the default."""
        from refold.redaction import is_redacted, takes_emails

        redact = self._log.config.redact
        shown = True if secrets is None and not is_redacted(redact, "exports") else secrets
        return {"secrets": shown, "emails": takes_emails(redact)}


Choose = Callable[[ControlLog], tuple[Change, list[Revert]]]


def undo(
    log: OpenLog, model: ActiveModel, compactor: Compactor, batch: str, expect: int | None
) -> Undone:
    """Switches off the newest active compaction or restore, or one batch, however old."""
    with log.deciding(expect) as state:
        if batch:
            return _reverted(log, model, state, batch)
        undone = _switched(log, model, _to_undo)
        if not undone:
            return undone
        whole = model.current
        room = compactor.make_room()
        bodies = (body for _, body in log.state.controls.all()) if room else ()
        spans = (body.span for body in bodies if isinstance(body, Hide) and body.batch == room)
        return replace(
            undone,
            made_room=room,
            tokens_after=model.current,
            tokens_whole=whole,
            left_out=tuple(spans),
            refused_thinking=_refused_thinking(log, model),
        )


def _reverted(log: OpenLog, model: ActiveModel, state: Fold, batch: str) -> Undone:
    before, purpose = model.current, state.purposes.get(batch, "")
    draft = log.draft(reverting(state, batch))
    covered_by = covering(state.controls.all(), batch)
    log.append([draft])
    return Undone(
        batch=batch,
        kind="compaction",
        purpose=purpose,
        tokens_before=before,
        tokens_after=model.current,
        refused_thinking=_refused_thinking(log, model),
        covered_by=covered_by,
    )


def restore(
    log: OpenLog,
    config: Config,
    to: int | float | str | Moment,
    *,
    dry_run: bool,
    expect: int | None,
) -> Restored:
    """Takes the page back to a position; a dry run only reports what that would switch off. At the
    current head nothing is written: that would end all thinking, and no undo would take it back."""
    from refold.log.restore_points import restored, seq_or_name

    with log.deciding(expect) as state:
        seq = restoring(state, seq_or_name(log.log, to)).seq
        planned = restored(log.log, seq, config)
        if not dry_run and seq < state.head:
            log.append([log.draft(Restore(seq=seq))])
    return planned


def end_thinking(context: Context) -> None:
    """Ends the thinking so far, after another program's list replaced the page: what the thinking
    was bound to is unknown. It is a restore to the head, which changes nothing else."""
    log = context._open
    with log.deciding(None) as state:
        log.append([log.draft(Restore(seq=state.head))])


def redo(log: OpenLog, model: ActiveModel, expect: int | None) -> Undone:
    """Reinstates the last undone step."""
    with log.deciding(expect):
        return _switched(log, model, _to_redo)


def _to_undo(controls: ControlLog) -> tuple[Change, list[Revert]]:
    past = recent_history(controls)
    return past.active[-1] if past.active else Change(), undoing(past)


def _to_redo(controls: ControlLog) -> tuple[Change, list[Revert]]:
    past = recent_history(controls, undone=True)
    return past.undone[-1] if past.undone else Change(), redoing(past)


def _switched(log: OpenLog, model: ActiveModel, choose: Choose) -> Undone:
    """Appends the chosen reverts; starts over if other writers changed the history."""
    for _ in range(TRIES_MAX):
        change, reverts = choose(log.state.controls)
        if not reverts:
            return Undone()
        if change.kind == "restore" and reverts[-1].seq == change.seq:
            reverts = [*_written_again(log, change.seq, reverts), *reverts]
        before, changes = model.current, list(log.state.undoable)
        drafts = [log.draft(revert) for revert in reverts]
        if log.append(drafts, fresh=partial(_is_unchanged, changes)):
            return Undone(
                batch=change.batch,
                seq=change.seq,
                kind=change.kind,
                purpose=change.purpose,
                tokens_before=before,
                tokens_after=model.current,
                # The file writes of a step follow its own event in the log.
                files_at=0 if change.batch else change.undone_at or change.seq,
                refused_thinking=_refused_thinking(log, model),
            )
    message = f"{log.id}: others compacted it or went back {TRIES_MAX} times meanwhile"
    raise Conflict(message, head=log.state.head, hint="try again")


def _written_again(log: OpenLog, restore: int, reverts: Sequence[Revert]) -> list[Revert]:
    """Reverts messages written again under their keys after a restore: undoing it brings back the
    originals, and the page would have both."""
    head = log.state.head
    off = switched([*log.state.controls.all(), *enumerate(reverts, head + 1)]).off

    def active(after: int, last: int) -> list[tuple[int, str]]:
        messages = (event for event in log.log.read(after, last) if event.kind == "message")
        return [(seq, key) for seq, key in keyed(messages) if seq not in off]

    later = active(restore, head)
    before = {key for _, key in active(0, restore - 1)} if later else ()
    return [Revert(seq=seq) for seq, key in later if key in before]


def _is_unchanged(changes: list[tuple[int, str]], state: Fold) -> bool:
    return state.undoable == changes


def _refused_thinking(log: OpenLog, model: ActiveModel) -> tuple[int, ...]:
    """The messages on the page whose thinking the model would refuse."""
    if not model.info.thinking_bound:
        return ()
    view = log.state.view()
    native = is_shown(view.slots, model.takes(model.dialect(None)))
    is_valid = thinking_check(view, bound=True, native=native)
    return tuple(
        slot.seq
        for slot in view.slots
        if any(isinstance(block, Thinking) for block in slot.message.blocks) and not is_valid(slot)
    )


class Filters(TypedDict, total=False):
    """Filters of a search. `newest` returns the newest hits with all words instead of the best;
    times are milliseconds or datetimes."""

    newest: bool
    role: str | None
    tool: str | None
    kind: str | None
    since: Moment | None
    until: Moment | None


SPARE_HITS = 3  # some hits may be in other folders


class FoundConversation(Struct, frozen=True, kw_only=True):
    """The hits in one conversation."""

    title: str
    is_imported: bool
    hits: tuple[Hit, ...]


class ConversationSearch:
    """Searches the index of one open log's store."""

    def __init__(self, log: OpenLog, embedder: Embedder | str | bool | None) -> None:
        check_embedder(embedder)
        self._log, self._embedder = log, embedder

    def search(
        self, query: str, *, limit: int = 10, everywhere: bool = False, **filters: Unpack[Filters]
    ) -> list[Hit]:
        """The best hits for a query."""
        self._log.check_open()
        for name in filters:
            if name not in Filters.__annotations__:
                hint = suggestion(name, Filters.__annotations__)
                raise Invalid(f"search has no filter {quoted(name)}", hint=hint)
        if not isinstance(everywhere, bool):
            raise Invalid(f"everywhere={quoted(everywhere)} is neither True nor False")
        if not everywhere and not self._log.state.head:
            from refold.search.searcher import question_of

            question_of(query, limit=limit, **filters)  # raises Invalid for a bad query
            return []
        from refold.redaction import is_redacted

        try:
            searched = None if everywhere else self._log.id
            redacts = is_redacted(self._log.config.redact, "summaries")
            return self._searcher.search(
                query, limit=limit, conversation=searched, redacts=redacts, **filters
            )
        finally:
            self._log.notices.tell()

    def in_project(self, query: str, limit: int) -> list[FoundConversation]:
        """The best hits in all conversations of this store, without secrets and without
        conversations of other folders. A sub-agent sees only what was handed over to it."""
        own = self._log.metadata.metadata or {}
        if PART_OF in own:
            raise Denied("a sub-agent sees its own conversation only", hint="scope: conversation")
        store, found = self._log.store, list[FoundConversation]()
        try:
            hits = self._searcher.search(query, limit=SPARE_HITS * limit)
        finally:
            self._log.notices.tell()
        left = limit
        for group in grouped(hits):
            meta = meta_of(store, store.conversation(group[0].conversation))
            about = meta.metadata or {}
            folders = [str(one.get(FOLDER) or "") for one in (own, about)]
            if all(folders) and not any(is_below(*pair) for pair in permutations(folders)):
                continue
            title = title_of(store, group[0].conversation, meta.title or "")
            hits_shown = tuple(group[:left])
            found.append(
                FoundConversation(
                    title=redacted(title), is_imported=IMPORTED in about, hits=hits_shown
                )
            )
            left -= len(hits_shown)
            if not left:
                break
        return found

    def close(self) -> None:
        """Brings the index up to date with the conversation, and closes it."""
        self._searcher.close(conversation=self._log.id)

    @cached_property
    def _searcher(self) -> Searcher:
        from refold.search.searcher import Searcher

        return Searcher(self._log.store, embedder=self._embedder, tell=self._notify)

    def _notify(self, name: str, reason: str) -> None:
        # Without the lock of the log: the searcher holds its own lock when it reports.
        self._log.notify(cast(NoticeName, name), reason)
