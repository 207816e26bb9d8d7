"""Context: the one object an agent loop holds, and the one place where the rooms meet.

`append` and `record` write to the log; `request` folds it into a page that fits and is valid;
everything that makes the page shorter is an edit in the log and can be undone. A `Context` may be
shared by threads: one lock guards the log, and listeners are called with no lock held. Here is what
writes and what is sent; `returning` goes back, `shortening` has compaction, `past` what can be
asked. Neighbours: `log` (the log and its fold), `page` (the request), `offload` (large outputs).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from msgspec.structs import asdict, replace

from refold import dialects
from refold.artifacts import offload
from refold.artifacts.intake import Desk
from refold.compaction.compactor import Compactor
from refold.compaction.recovery import Recovery
from refold.config import Config
from refold.core.budget import current_tokens
from refold.core.codec import conversation_checked
from refold.core.model import Artifact, Event, Message, Meta, Origin, View
from refold.dialects.page import Page, Rendered
from refold.engine import spawn as handover
from refold.engine.returning import Returning
from refold.engine.stats import Stats, stats_of
from refold.errors import Conflict, NotFound, OverBudget, RefoldError
from refold.log import undo as history
from refold.log.log import Draft, Log
from refold.log.notices import Guard, Listener, Notices
from refold.redaction import redactor
from refold.search.embedders import Embedder
from refold.stores.protocol import Store
from refold.tokens import counter as counters
from refold.tokens import models
from refold.tokens.choice import counter_for
from refold.writer.asker import Writer

PREPARE_TRIES_MAX = 3


class Context(Returning):
    """One conversation, held open. Use `refold.open`; close it, or use it in a `with` block."""

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
        counter: Callable[[str], int] | str | None = None,
        writer: Writer | None = None,
        embedder: Embedder | bool | None = None,
        owns_store: bool = False,
        remarks: Sequence[str] = (),
    ) -> None:
        self.conversation = conversation_checked(conversation)
        self.config = config or Config()
        self._store, self._owns_store = store, owns_store
        self._notices = Notices(redactor(self.config.redact, "logs"))
        self._guard = Guard(self._notices.tell)
        self._log = Log(store, conversation)
        self._counter = counter_for(counter, model or self._log.state.meta.model)
        self._desk = Desk(store, self.config, self._counter, self._log.call, self._notices.add)
        self._pages: dict[str, Page] = {}
        self._pending: list[Draft] = []
        self._shown = self._log.state.head  # the head that the last request showed
        self._recovery = Recovery(self.config, self._log.state)
        self._mended = 0  # how many torn tails have been spoken of
        self._writer, self._embedder = writer, embedder
        self._compactor = Compactor(
            self._log,
            self._desk,
            self._notices,
            self._guard,
            budget=lambda: self.budget,
            per_token=self._per_token,
            writer=writer,
        )
        self.use(model=model, window=window, system=system, tools=tools)
        if self._counter.note:
            self._notices.add("counter-missing", reason=self._counter.note)
        for remark in remarks:
            self._notices.add("setting-unused", reason=remark)

    # --- what the conversation is about ---

    def use(
        self,
        *,
        model: str | None = None,
        window: int | None = None,
        system: Any = None,
        tools: list[Any] | None = None,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """Sets the model, its window, the system prompt, the tools, title, tags or metadata of
        your own from here on; limits follow at once. Only what changed is written, with the next
        append or request, or at the end."""
        with self._guard:
            known = self._log.state.meta
            self._window = window if window is not None else getattr(self, "_window", None)
            self._take_model(model or known.model)
            draft = self._desk.draft
            if not self._model.known and not self._window and (model or known.model):
                self._notices.add(
                    "unknown-model",
                    reason=f"{model or known.model}: a window of 128,000 is assumed",
                )
            tagged = tuple(tags) if tags is not None else None
            given = Meta(model=model or None, title=title, tags=tagged, metadata=metadata)
            if any(
                value not in (None, getattr(known, name)) for name, value in asdict(given).items()
            ):
                self._pending.append(draft(given))
            if system is not None and system != known.system:
                self._pending.append(
                    draft(Meta(system=system), counters.count_system(system, self._counter))
                )
            if tools is not None and tools != known.tools:
                self._pending.append(
                    draft(Meta(tools=tools), counters.count_tools(tools, self._counter))
                )

    def _take_model(self, name: str | None) -> None:
        self._named = name
        self._model = models.model_info(name or None)
        self._pages.clear()
        self._resize()

    def _follow(self) -> None:
        """The model that the log names now: another writer may have changed it, and a restore
        takes it back."""
        name = self._log.state.meta.model
        if name != self._named and not any(
            isinstance(d.body, Meta) and d.body.model for d in self._pending
        ):
            self._take_model(name)

    # --- writing ---

    def append(self, message: Any, *, by: str | None = None) -> list[Event]:
        """Appends a message in any provider's shape, an SDK object, or a `Message`. Never waits,
        compacts or refuses for size: a tool result larger than the window, or than
        `offload_tokens` if that is set, is kept whole as an artifact and shown as a stub.
        `append_result` shows stubs from a smaller size on."""
        parsed = (
            [message]
            if isinstance(message, Message)
            else dialects.parse(message, self._dialect_name())
        )
        with self._guard:
            answers = [dialects.answering(one, self._log.calling) for one in parsed]
            return self._append([draft for one in answers for draft in self._desk.message(one, by)])

    def append_result(
        self,
        call: str,
        output: Any,
        *,
        is_error: bool = False,
        name: str = "",
        task: str = "",
        query: str = "",
        on_error: str = "raise",
    ) -> list[Event]:
        """Appends what a tool call gave: text, bytes, or data (see `encoding`). `task` and
        `query` group large outputs. What cannot be written is Invalid, or kept as its `repr`
        with `on_error="degrade"`."""
        with self._guard:
            self._check_open()
            text = offload.output_text(output, on_error=on_error)
            return self._append(
                self._desk.result(call, text, is_error=is_error, name=name, task=task, query=query)
            )

    def record(self, response: Any) -> list[Event]:
        """Appends a provider's reply and its usage. Recording the same response again changes
        nothing."""
        reply = dialects.reply(response, self._dialect_name())
        with self._guard:
            self._catch_up()
            usage = reply.usage
            if usage is not None and usage.response and usage.response in self._log.state.responses:
                return []
            drafts = self._desk.message(reply.message, "model")
            if usage is not None:
                priced = models.model_info(usage.model or self._model.name)
                cost = models.cost(priced if priced.known else self._model, usage)
                drafts.append(
                    Draft(
                        body=replace(usage, upto=self._shown, replied=True, cost=cost), by="model"
                    )
                )
            events = self._append(drafts)
            self._sync("turn")
            return events

    def _append(self, drafts: Sequence[Draft]) -> list[Event]:
        self._check_open()
        pending, self._pending = self._pending, []
        try:
            events = self._log.append([*pending, *drafts])
        except BaseException:
            self._pending = pending
            raise
        self._follow()
        if self.config.checkpoint_every:
            self._mark(sum(event.kind == "message" for event in events))
        self._sync("append")
        self._tell_mended()
        self._compactor.watch()
        return events[len(pending) :]

    def _mark(self, messages: int) -> None:
        mark = history.checkpointing(self._log.state, messages, self.config.checkpoint_every)
        if mark is not None:
            self._log.append([self._desk.draft(mark)])

    def store_artifact(
        self,
        content: Any,
        *,
        name: str,
        type: str = "custom",
        mime: str | None = None,
        origin: Origin | None = None,
    ) -> Artifact:
        """Keeps text, bytes, or data (as JSON) with the conversation; `artifact://ID` in any
        text refers to them. Without a `mime` it follows from the bytes and the ending of the
        name."""
        with self._guard:
            self._check_open()
            content = content if isinstance(content, bytes) else offload.output_text(content)
            artifact = offload.kept(
                self._store, content, name=name, type=type, mime=mime, origin=origin or Origin()
            )
            self._append([self._desk.draft(artifact)])
            return artifact

    # --- the page ---

    def request(self, dialect: str | None = None) -> dict[str, Any]:
        """The keyword arguments of the provider's next call: valid, fitting, with cache marks.
        Compacts when due."""
        return self.rendered(dialect).request

    def rendered(self, dialect: str | None = None) -> Rendered:
        """The request, with what could not be said in this dialect and what had to be put in
        order."""
        # Another thread may undo a compaction, or append, between making room and rendering: then
        # room is made again.
        for _ in range(PREPARE_TRIES_MAX):
            with self._guard:
                self._prepare()
                if not self._compactor.is_due() and self._fits():
                    return self._show(dialect or self._dialect_name())
            self._compactor.relieve()
        with self._guard:
            if self._fits():
                return self._show(dialect or self._dialect_name())
            current, window = (
                current_tokens(self._log.state, self.budget.factor),
                self.budget.window,
            )
        raise OverBudget(
            f"the page has {current:,} tokens, the window {window:,}",
            hint="shorten the system prompt, the tools or the pins, or use a model with a larger window",
        )

    def _prepare(self) -> None:
        """What must have happened before a page is rendered: others' events read, our own
        written."""
        self._catch_up()
        self._follow()
        self._tell_mended()
        if self._pending:
            self._append([])
        self._compactor.watch()

    def _show(self, dialect: str) -> Rendered:
        view = self._log.state.view()
        rendered = self._page(dialect).render(view, cache=self.config.cache)
        self._shown = view.head
        self._sync("turn")
        return rendered

    def _page(self, dialect: str) -> Page:
        if dialect not in self._pages:
            self._pages[dialect] = Page(dialects.dialect(dialect), bound=self._model.thinking_bound)
        return self._pages[dialect]

    @property
    def view(self) -> View:
        """The page as a value: slots, sums, pins, usage."""
        with self._guard:
            self._catch_up()
            return self._log.state.view()

    def stats(self) -> Stats:
        """The numbers: current size, breakdown, counts, billed totals, cost."""
        with self._guard:
            view, now = self.view, self._log.clock()
            return stats_of(
                view,
                self.budget,
                conversation=self.conversation,
                model=self._model.name,
                artifacts=self.outputs.count(),
                now_ms=now,
                inherited=self._inherited,
            )

    # --- other conversations ---

    def fork(self, new: str, *, at: int | None = None) -> Context:
        """A new conversation that shares this log up to `at` (the head) and then goes its own
        way."""
        with self._guard:
            self._catch_up()
            self._store.fork(
                self.conversation,
                self._log.state.head if at is None else at,
                conversation_checked(new),
            )
            twin = self._sibling(new)
            twin._recovery.lessons.update(self._recovery.lessons)
            twin.use(title=f"Fork of {self._log.state.meta.title or self.conversation}")
            return twin

    def spawn(
        self,
        new: str,
        *,
        task: str,
        summary: str | None = None,
        artifacts: Sequence[str] = (),
        model: str | None = None,
    ) -> Context:
        """A conversation for another agent, in the same store. It is told the task, a summary
        (the ledger, unless one is given) and the artifacts named here; it never sees a message
        of this conversation."""
        with self._guard:
            self._catch_up()
            given = handover.chosen(self.artifacts(), artifacts)
            opening = handover.handed_over(
                self.conversation,
                self._log.state.view(),
                self.config,
                summary=summary,
                artifacts=given,
            )
            child = self._sibling(new, model=model or self._model.name)
            if head := child._log.state.head:
                raise Conflict(
                    f"there is a conversation {new!r} already", head=head, hint="choose another id"
                )
            child._append([*map(self._desk.draft, given), *self._desk.message(opening, "refold")])
        child.append({"role": "user", "content": task})
        return child

    def _sibling(self, id: str, model: str | None = None) -> Context:
        """Another conversation of the same store, held with the same settings."""
        return Context(
            self._store,
            id,
            config=self.config,
            model=model,
            window=self._window,
            counter=self._counter,
            writer=self._writer,
            embedder=self._embedder,
        )

    # --- listeners ---

    def on(self, name: str, listener: Listener) -> Callable[[], None]:
        """Calls the listener with every notice of that name (`*`: all). Gives the function that
        ends it."""
        return self._notices.on(name, listener)

    # --- the end ---

    def flush(self) -> None:
        """What was appended so far survives power loss once this returns."""
        with self._guard:
            self._check_open()
            self._write_pending()
            self._store.flush()

    def close(self) -> None:
        """Keeps the bookmark, syncs, and lets go of the store. Closing twice is fine, and so is
        closing a conversation that was deleted meanwhile."""
        with self._guard:
            if self._closed:
                return
            try:
                if self._log.state.head:
                    self._write_pending()
                    self._clean_up()
                    self._log.keep_bookmark()
                    self._searcher.close(conversation=self.conversation)
                self._store.flush()
            except NotFound:
                if not self._is_deleted():
                    raise
            finally:
                self._closed = True
                if self._owns_store:
                    self._store.close()

    def _is_deleted(self) -> bool:
        try:
            self._store.conversation(self.conversation)
        except NotFound:
            return True
        return False

    def _write_pending(self) -> None:
        """Writes what `use` set; a conversation that has nothing else yet is not begun by that."""
        if self._pending and self._log.state.head:
            self._append([])

    def _clean_up(self) -> None:
        """Removes old outputs, if the configuration says how many may stay. A failure is said
        and stops nothing."""
        config = self.config
        if config.outputs_days is config.outputs_bytes is config.outputs_count is None:
            return
        try:
            self.outputs.clean_as(config)
        except RefoldError as error:
            self._notices.add("cleanup-failed", reason=str(error))

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- inside ---

    def _tell_mended(self) -> None:
        """Says which torn tails the store has moved aside."""
        mended = self._store.recovered
        for one in mended[self._mended :] if len(mended) > self._mended else ():
            if one.conversation == self.conversation:
                reason = f"{one.size_bytes:,} bytes that no append had acknowledged were moved to {one.file}"
                self._notices.add("storage-recovered", reason=reason)
        self._mended = len(mended)

    def _sync(self, moment: str) -> None:
        if self.config.durability == moment or (
            moment == "turn" and self.config.durability == "append"
        ):
            self._store.flush()
