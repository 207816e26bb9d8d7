"""Context: the one object an agent loop holds. It wires the parts together and decides nothing.

`append` and `record` write to the log; `request` folds it into a valid page that fits. Threads may
share a `Context`: the open log has the one lock, and listeners are called with no lock held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

from refold.artifacts.artifacts import ArtifactReader, Artifacts, clean_configured
from refold.artifacts.intake import Intake
from refold.checked import checked
from refold.compaction.active_model import ActiveModel
from refold.compaction.compactor import BEFORE_COMPACTION, Compactor, Hook
from refold.compaction.native import NativeCaller
from refold.config import Config
from refold.conversations.listing import names_checked
from refold.core.budget import Budget
from refold.core.model import Checkpoint, Event, Meta, Span, Totals, View
from refold.core.plan import Plan, Receipt
from refold.dialects.input import plain_value
from refold.dialects.page import PageMessage, Rendered
from refold.dialects.tools import distinct, plain_system, plain_tools
from refold.display import number
from refold.engine import forks, log_reader
from refold.engine.log_reader import ConversationSearch, Filters, LogReader
from refold.engine.metadata_and_config import SharedStore, changes, check_config
from refold.engine.mirror import Mirror, Mirrored
from refold.engine.pages import Pages
from refold.engine.recorder import OnError, Recorder
from refold.engine.stats import Stats, inherited, stats_of
from refold.errors import Invalid
from refold.log import undo
from refold.log.notes import stamp, write_note
from refold.log.notices import Listener
from refold.log.open_log import OpenLog
from refold.search.embedders import Embedder
from refold.stores.protocol import Store
from refold.system.disk import Moment, happened_ms
from refold.tokens.counter import Count
from refold.writer.asker import Writer

if TYPE_CHECKING:
    from refold.engine.conversation_memory import Extraction, ShownMemories
    from refold.engine.file_versions import FileVersions
    from refold.engine.toolbox import Toolbox
    from refold.log.handles import Unfolded
    from refold.log.restore_points import Restored
    from refold.log.undo import Undone
    from refold.memory.semantic import SemanticMemory
    from refold.search.snippets import Hit


class Context:
    """One conversation, held open. Use `refold.open`; close it, or use it in a `with` block."""

    @checked
    def __init__(
        self,
        store: Store,
        conversation: str,
        *,
        config: Config | None = None,
        model: str | None = None,
        system: Any = None,
        tools: list[Any] | None = None,
        window: int | None = None,
        counter: Count | str | None = None,
        writer: Writer | None = None,
        native: NativeCaller | None = None,
        embedder: Embedder | str | bool | None = None,
        owns_store: bool = False,
        remarks: Sequence[str] = (),
    ) -> None:
        self.config = check_config(config or Config(), embedder)
        self._open = OpenLog(store, conversation, self.config, counter=counter, model=model)
        self._shared = SharedStore(store, is_ours=owns_store).hold()
        self._writer, self._native, self._embedder = writer, native, embedder
        self._model = ActiveModel(self._open)
        self._compactor = Compactor(self._open, self._model, writer, native)
        self._intake = Intake(self._open)
        self._pages = Pages(self._open, self._model, self._compactor)
        self._requests = self._pages.requests
        self._recorder = Recorder(self._open, self._model, self._intake, self._requests)
        self._search = ConversationSearch(self._open, embedder)
        self._reader = ArtifactReader(self._open)
        self.artifacts = Artifacts(self._open, self._reader)
        self.log = LogReader(self._open, self._compactor)
        self._mirror = Mirror(self._open, self._recorder, self._pages)
        self._model.changed += [self._compactor.reconsider, self._resize, self._pages.clear]
        self._open.settled = self._model.follow
        self._open.moved += [self._recorder.keys.forget, self._reader.move]
        self._open.moved += [self._compactor.move, self._pages.move, self._move]
        self.update(model=model, window=window, system=system, tools=tools)
        if self._extracts:
            self._extraction.follow()
        self._open.opening = self._open.pending
        if self._open.counter.note:
            self._open.notify("counter-missing", self._open.counter.note)
        for remark in remarks:
            self._open.notify("setting-unused", remark)

    @property
    def id(self) -> str:
        """The id of the conversation; `mirror` may have continued in a fork."""
        return self._open.id

    def _move(self) -> None:
        vars(self).pop("_inherited", None)
        if "_extraction" in vars(self):
            self._extraction.move()
        if "memory" in vars(self):
            self.memory.conversation = self.id

    def _resize(self) -> None:
        self._intake.resize(self._model.budget.window, bound=self._model.info.thinking_bound)

    @checked
    def update(
        self,
        *,
        model: str | None = None,
        window: int | None = None,
        system: Any = None,
        tools: list[Any] | None = None,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: dict[str, Any] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        """Sets the model, its window, the system prompt, tools, title, tags, your own metadata, or
        the names by which other programs know the conversation. Limits follow at once; changes are
        written with the next append or request, or at the end."""
        system, tools = plain_system(system), distinct(plain_tools(tools))
        with self._open.guard:
            if not all(value is None for value in (system, tools, title, tags, metadata, names)):
                self._open.check_writable()
            self._model.take(model or self._open.metadata.model, window)
            self._model.warn_unknown()
            given = Meta(
                model=model or None,
                title=title,
                tags=None if tags is None else tuple(tags),
                metadata=metadata,
                names=None if names is None else names_checked(names),
                windows=self._model.given_windows(window),
            )
            self._open.pending = changes(self._open, given, system, tools)

    # --- writing ---

    @checked
    def append(
        self, message: Any, *, by: str | None = None, at: Moment | None = None, key: str = ""
    ) -> list[Event]:
        """Appends a message in any provider's shape, an SDK object or a `Message`; or a list of
        them, all parsed before the first is written. Never waits, compacts, or refuses a message
        for its size: a tool result larger than half the window (or than `offload_tokens`) is stored
        as an artifact and shown as a stub. `at` is when it happened, if not now. A message with a
        known `key` is not appended again. For a history that grows or changes in another program's
        hands, use `mirror`."""
        if isinstance(message, list | tuple):
            if at is not None or key:
                raise Invalid("a list takes no key and no time", hint="append them one by one")
            return self._recorder.extend(message, by)
        return self._recorder.append(message, by, stamp(at, key))

    @checked
    def append_result(
        self,
        call: str,
        output: Any,
        *,
        is_error: bool = False,
        name: str = "",
        task: str | int | None = None,
        query: str | None = None,
        mime: str = "",
        on_error: OnError = "raise",
        at: Moment | None = None,
        key: str = "",
    ) -> list[Event]:
        """Appends the result of a tool call: text, bytes (images and PDFs are recognized; `mime`
        names other types), a provider's content parts, or JSON data. `task` and `query` group
        outputs. Raises Invalid for values that cannot be stored; with `on_error="degrade"`, stores
        their `repr`. `at` and `key` as in `append`."""
        return self._recorder.append_result(
            call,
            output,
            mime=mime,
            on_error=on_error,
            is_error=is_error,
            name=name,
            task="" if task is None else str(task),
            query=query or "",
            key=key,
            stamp=stamp(at, key),
        )

    @checked
    def record(
        self,
        response: Any = None,
        *,
        usage: Any = None,
        upto: int | None = None,
        at: Moment | None = None,
    ) -> list[Event]:
        """Appends a provider's reply and its usage. Recording the same response again changes
        nothing. `usage` without a response is usage that arrived separately, in the provider's
        shape. `upto` names the answered request by the last seq it showed."""
        return self._recorder.record(response, usage=usage, upto=upto, at_ms=happened_ms(at))

    @checked
    def note(
        self,
        kind: str,
        data: Any = None,
        *,
        by: str = "user",
        at: Moment | None = None,
        key: str = "",
    ) -> list[Event]:
        """Stores JSON data in the log that the model never sees; `context.log.notes` returns it.
        `at` and `key` as in `append`."""
        keys, data = self._recorder.keys, plain_value(data)
        return write_note(self._open, keys, kind, data, by=by, stamp=stamp(at, key))

    @checked
    def mirror(
        self,
        messages: Sequence[Any],
        *,
        system: Any = None,
        tools: list[Any] | None = None,
        inner: Mapping[int, Sequence[Any]] | None = None,
        upto: int | None = None,
    ) -> Mirrored:
        """Follows a history that another program owns: pass its whole list, as often as you like.
        New messages are appended, a change in the last two messages or the last answer amends them,
        and any other difference forks: this context continues in the fork, or in the branch that
        has the list. Nothing is written twice. `inner` maps a place in the list to messages that
        its owner has not seen. `upto` is the head shown by the request that the new reply answers
        (by default the newest): its thinking is dropped if the page changed since."""
        self._mirror.take_front(system, tools)
        upto = self._requests.head if upto is None else upto
        return self._mirror.take(messages, inner or {}, upto)

    @checked
    def stream(self, response: Iterable[Any]) -> Iterator[Any]:
        """Passes on the chunks of a raw stream; records the reply at its end, complete or not."""
        self._open.check_writable()
        return self._recorder.stream(response, self._requests.match(self._open.state.head))

    # --- the page ---

    @overload
    def request(self, /, dialect: str | None = None, *, raw: Literal[True]) -> Rendered: ...
    @overload
    def request(
        self, /, dialect: str | None = None, *, raw: Literal[False] = False, **overrides: Any
    ) -> dict[str, Any]: ...
    @checked
    def request(
        self, /, dialect: str | None = None, *, raw: bool = False, **overrides: Any
    ) -> dict[str, Any] | Rendered:
        """The keyword arguments of the provider's next call: valid, fitting, with cache marks, the
        model and, where the provider demands it, the length limit of the answer. Your own
        `overrides` come last. Compacts when due. `raw` returns the rendered page with a report of
        the content this dialect cannot express and of repairs to the order, without `overrides`."""
        if raw:
            return self._pages.render(dialect)
        return self._pages.request(dialect, overrides, lambda: self._memories.show())

    @checked
    def page(
        self, dialect: str | None = None, *, settle: bool = True, at: int | str | None = None
    ) -> list[PageMessage]:
        """The messages on the page, now or `at` a place, for your own loop; writes nothing.
        `settle=False` leaves open calls open and inserts nothing."""
        return self._pages.page(dialect, settle=settle, at=at)

    @property
    def view(self) -> View:
        """The page as a value: slots, sums, pins, usage, and everything set by `update`."""
        with self._open.reading():
            return self._open.view()

    @property
    def budget(self) -> Budget:
        """The current window, reserve and thresholds."""
        return self._model.budget

    def stats(self) -> Stats:
        """Current size, due action, breakdown, counts, billed totals, cost."""
        return stats_of(self._open, self._model, self._reader.count(), self._inherited)

    @cached_property
    def _inherited(self) -> Totals:
        return inherited(self._open)

    def count(self, message: Any) -> int:
        """The tokens of a message, or of a string or blocks alone, as the provider counts them."""
        is_content, recorder = isinstance(message, str | list), self._recorder
        return recorder.count_content(message) if is_content else recorder.count(message)

    # --- compaction ---

    @checked
    def plan(
        self,
        /,
        *strategies: str,
        target: int | None = None,
        task: str = "",
        ahead: bool = False,
        **settings: Any,
    ) -> Plan:
        """What `compact` would do, and its price. Changes nothing. With `ahead`, it is the next
        automatic compaction instead (empty below the warning level), and the writer or provider is
        asked now: call it while nobody waits. If the page stays, the next due request uses it."""
        if ahead:
            return self._compactor.prepare()
        with self._open.reading():
            job = self._compactor.jobs.job(strategies, target=target, task=task, settings=settings)
            return self._compactor.plan(job)

    @checked
    def compact(
        self,
        /,
        *strategies: str,
        target: int | None = None,
        task: str = "",
        instructions: str = "",
        span: tuple[int | str, int | str] | None = None,
        summary: str = "",
        author: str = "user",
        expect: int | None = None,
        **settings: Any,
    ) -> Receipt:
        """Makes the page shorter, as one batch that `undo` takes back. Without names, runs the
        ladder. `instructions` are for the writer, if there is one. A `summary` that another
        `author` wrote replaces the messages of `span` (41 or `#41`, first and last), the
        latest request included; pins stay. With `expect`, the head at which you decided (also in
        `undo`, `redo`, `restore`, `clear`, `hide` and `pin`), Conflict if the log has moved on."""
        if (span is None) == bool(summary):
            raise Invalid("span and summary belong together", hint="pass both or neither")
        with self._open.deciding(expect):
            if span is not None:
                first, last = map(undo.seq_of, span)
                return self._compactor.take_over(Span(first, last), summary, author)
            self._open.check_writable()
            job = self._compactor.jobs.job(
                strategies, target=target, task=task, settings=settings, instructions=instructions
            )
        return self._compactor.compact(job, expect)

    def recover(self, error: Any) -> bool:
        """Handles a failed call. True if the provider refused the page as too long: the limit is
        learned and the page much shorter, so call again. OverBudget if it is refused twice."""
        from refold.compaction.overflow import recovered

        shown = self._requests.newest_head
        return recovered(self._open, self._model, self._compactor, error, shown=shown)

    # --- undo and restore ---

    @checked
    def undo(
        self,
        batch: str = "",
        *,
        files: bool = False,
        root: str | Path = ".",
        expect: int | None = None,
    ) -> Undone:
        """Switches off the newest active compaction or restore, or `batch`, however old; undoing
        again goes one step further back. Messages that later batches cover stay off the page, and
        `covered_by` lists these. Returns what was undone; falsy if there was nothing. If the page
        would not fit, the oldest messages are hidden, as the batch `made_room`. With `files`, an
        undone restore also restores the files inside `root`."""
        undone = log_reader.undo(self._open, self._model, self._compactor, batch, expect)
        return self.files._with_undo(undone, root, expect) if files else undone

    @checked
    def redo(
        self, *, files: bool = False, root: str | Path = ".", expect: int | None = None
    ) -> Undone:
        """Reinstates the step that was undone last; falsy without one. `files` as in `undo`."""
        redone = log_reader.redo(self._open, self._model, expect)
        return self.files._with_undo(redone, root, expect) if files else redone

    @checked
    def checkpoint(self, name: str = "") -> int:
        """Names the current position of the log, and returns its seq. `restore` takes both."""
        with self._open.reading() as state:
            mark = Checkpoint(name=name or f"checkpoint-{state.head}", seq=state.head)
            self._open.append([self._open.draft(mark)])
            return mark.seq

    @checked
    def restore(
        self,
        to: int | float | str | Moment,
        *,
        dry_run: bool = False,
        files: bool | Sequence[str] = False,
        root: str | Path = ".",
        expect: int | None = None,
    ) -> Restored:
        """Takes the page back to a seq, a checkpoint or a time (a datetime, ISO text, seconds or
        milliseconds since 1970); `undo` reverses it. Returns the requests and model calls that it
        switches off, and the files that tool calls changed since; these stay as they are on disk,
        unless `files` is True or names those inside `root`. A dry run changes nothing."""
        restored = log_reader.restore(self._open, self.config, to, dry_run=dry_run, expect=expect)
        if not files:
            return restored
        return self.files._with_restore(restored, files, root, dry_run=dry_run, expect=expect)

    @checked
    def clear(
        self, *, checkpoint: str = "", backup: str | Path | None = None, expect: int | None = None
    ) -> None:
        """Takes all but the system prompt, tools and pins off the page, as one batch. `checkpoint`
        names the position before; `backup` is a new file for an export, without which it stays."""
        with self._open.deciding(expect):
            if backup is not None:
                self.log.export(backup, force=False)
            self._open.write(lambda state: undo.clearing(state, checkpoint))

    @checked
    def hide(
        self, first: int | str, last: int | str | None = None, *, expect: int | None = None
    ) -> Receipt:
        """Takes chosen messages (41 or `#41`, up to `last`) off the page with their tool pairs, as
        one batch. Pins and the latest request are refused."""
        with self._open.deciding(expect):
            return self._compactor.hide(undo.span_named(self._open.log, first, last))

    @checked
    def pin(self, seq: int | str, *, on: bool = True, expect: int | None = None) -> None:
        """Keeps a message (41 or `#41`), with its tool pair, on the page verbatim through every
        compaction; `on=False` releases it."""
        self._open.write(lambda _: undo.pinning(self._open.log, seq, on=on), expect)

    # --- finding ---

    @checked
    def unfold(
        self,
        handle: str | int,
        *,
        level: Literal["line", "paragraph", "full"] = "full",
        lines: tuple[int, int] | None = None,
    ) -> Unfolded:
        """The originals behind a handle: `#41`, `#41-58`, `art-…`; or a `line` or `paragraph` of
        their summary, or of the messages if there is none."""
        from refold.log.handles import unfolded

        with self._open.reading():
            named = self._reader.named(str(handle))
            return unfolded(self._open.log, named, str(handle), level=level, lines=lines)

    @checked
    def search(
        self, query: str, *, limit: int = 10, everywhere: bool = False, **filters: Unpack[Filters]
    ) -> list[Hit]:
        """The best hits, on the page or off it: `.seq`, `.snippet`, `.score`. `"…"` makes a phrase.
        Filters: role, tool, kind, since, until; `newest=True` returns the newest hits with all
        words. `everywhere` searches the whole store."""
        return self._search.search(query, limit=limit, everywhere=everywhere, **filters)

    @cached_property
    def toolbox(self) -> Toolbox:
        """Tools that give the model access to messages no longer on its page."""
        from refold.engine.toolbox import Toolbox

        return Toolbox(
            self._open,
            self._model,
            self._intake,
            artifacts=self.artifacts,
            reader=self._reader,
            search=self._search,
            memory=lambda: self.memory,
        )

    @cached_property
    def _memories(self) -> ShownMemories:
        from refold.engine.conversation_memory import ShownMemories

        return ShownMemories(self._open, self._model, self._intake, lambda: self.memory)

    @property
    def _extracts(self) -> bool:
        """Whether facts are taken from this conversation."""
        return self._open.config.memory_extract != "off" and not self._open.is_read_only

    @cached_property
    def _extraction(self) -> Extraction:
        from refold.engine.conversation_memory import Extraction

        return Extraction(self._open, lambda: self.memory, self._compactor.asker)

    @cached_property
    def memory(self) -> SemanticMemory:
        """Memory entries of this project and of the user."""
        from refold.engine.conversation_memory import memory_of

        return memory_of(self._open, forks.memory_scope(self.view.metadata), self._embedder)

    @cached_property
    def files(self) -> FileVersions:
        """Versions of files before tools changed them."""
        from refold.engine.file_versions import FileVersions

        keys = self._recorder.keys
        return FileVersions(self._open, self._model, self.artifacts, self._reader, keys)

    @checked
    def on(self, name: str, listener: Listener | Hook) -> Callable[[], None]:
        """Calls the listener with every notice of that name (`*`: all). `before-compaction` calls
        it with the plan before each compaction: it may return instructions for the writer, or a
        `Veto`. Returns a function that ends the subscription."""
        if name == BEFORE_COMPACTION:
            return self._compactor.hook(cast(Hook, listener))
        return self._open.notices.on(name, cast(Listener, listener))

    @checked
    def handover(self, *ids: str, tokens: int = 2_000, show: bool = False) -> str:
        """What these conversations of the store (by default all others) settled and left open, each
        point with its source. It is made by code; `show` also puts it on this page, as data."""
        from refold.engine.handover import handed_to

        return handed_to(self._open, self._intake, ids, tokens=tokens, show=show)

    @checked
    def fork(self, id: str, *, at: int | str | None = None) -> Context:
        """A new conversation that shares this log up to `at` (41, `#41`; the head by default)."""
        return forks.fork(self, id, at)

    @checked
    def spawn(
        self,
        id: str,
        *,
        task: str,
        summary: str | None = None,
        artifacts: Sequence[str] = (),
        model: str | None = None,
        memory: str = "",
    ) -> Context:
        """A conversation for a sub-agent, in the same store. It gets the task, a summary (by
        default the ledger, which quotes your requests) and the named artifacts, and sees no other
        message. Its memories go to the scope `memory` (`agent.NAME`), or to the whole project."""
        return forks.spawn(
            self, id, task, summary=summary, artifacts=artifacts, model=model, memory=memory
        )

    def flush(self) -> None:
        """Makes everything appended so far survive power loss."""
        with self._open.guard:
            self._open.check_open()
            self._open.write_pending()
            self._open.store.flush()

    def close(self) -> None:
        """Stores the bookmark, flushes, and releases the store. Closing twice is fine."""
        with self._open.guard:
            if self._open.closed:
                return

            def finish() -> None:
                if self._extracts and self._open.state.slots:
                    self._extraction.extract()
                if not self._open.is_read_only:
                    clean_configured(self.artifacts, self._open)
                self._search.close()

            try:
                self._open.close(finish)
            finally:
                if "memory" in vars(self):
                    self.memory.close()
                self._shared.release()

    def __repr__(self) -> str:
        messages = number(sum(self._open.state.counts.values()), "message")
        return f"<Context {self.id!r}: {messages} in {self._open.store.url}>"

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
