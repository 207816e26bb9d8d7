"""The page, rendered: room is made first if that is due, then one renderer per dialect does its
work.

What was rendered before is kept, so a page that only grew costs its growth. Neighbours:
`dialects.page` renders, `compaction` makes room and says for which model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from refold import dialects
from refold.compaction.active_model import ActiveModel
from refold.compaction.compactor import Compactor
from refold.core.budget import current_tokens
from refold.core.laws import thinking
from refold.dialects import openai_chat
from refold.dialects.native import is_shown
from refold.dialects.openai_chat.render import alternating
from refold.dialects.page import Page, PageMessage, PageMessages, Rendered
from refold.engine.replies import PendingRequests
from refold.errors import Invalid, OverBudget
from refold.log.open_log import OpenLog

PREPARE_TRIES_MAX = 5


def _add_nothing() -> None:
    """The page is shown as it is."""


class Pages:
    """Renders the page of one open log, and keeps what it showed."""

    def __init__(self, log: OpenLog, model: ActiveModel, compactor: Compactor) -> None:
        self._log, self._model, self._compactor = log, model, compactor
        self._pages: dict[str, Page] = {}
        self._messages: dict[tuple[str, bool], PageMessages] = {}
        self.asked = PendingRequests(log.state.head)

    def request(
        self, dialect: str | None, overrides: Mapping[str, Any], before: Callable[[], None]
    ) -> dict[str, Any]:
        """The whole call, with the caller's own keywords last. `before` is called with the lock
        held, once others' events are read and before there is made room."""
        self._model.keywords = overrides
        rendered = self.render(dialect, before)
        spoken = dialects.dialect(self._model.dialect(dialect))
        is_given = spoken.output_limit in overrides
        most = None if is_given else self._model.output_max
        return spoken.finished({**rendered.request, **overrides}, output_max=most)

    def page(self, dialect: str | None, *, settle: bool) -> list[PageMessage]:
        """The messages on the page, each with the slots it came from. Nothing is compacted or
        written."""
        with self._log.reading() as state:
            view = state.view()
            spoken = dialects.dialect(self._model.dialect(dialect))
            takes = self._model.takes(spoken.name)
            native = is_shown(view.slots, takes)
            stands = thinking(view, bound=self._model.info.thinking_bound, native=native)
            key = spoken.name, settle
            if key not in self._messages:
                self._messages[key] = PageMessages(spoken, settle=settle, takes=takes)
            return self._messages[key].of(view.slots, stands)

    def render(self, dialect: str | None, before: Callable[[], None] = _add_nothing) -> Rendered:
        """The request for a page that fits, durable once this returns."""
        if self._log.is_read_only:
            return self._preview(dialect)
        # Another thread may undo a compaction, or append, between making room and rendering: then
        # room is made again.
        for _ in range(PREPARE_TRIES_MAX):
            with self._log.guard:
                self._prepare(before)
                if not self._compactor.is_due() and self._model.fits():
                    return self._show(dialect)
            self._compactor.compact_if_due()
        with self._log.guard:
            if self._model.may_be_sent():
                return self._show(dialect)
            current, budget = self._model.current, self._model.budget
            self._log.notices.watch(current, budget)
        raise OverBudget(
            f"the page has {current:,} tokens, but a request may have {budget.input_max:,}"
            f" of a window of {budget.window:,}",
            hint=self._advice(),
        )

    def _advice(self) -> str:
        """What to do about a page that is too large."""
        advice = (
            "shorten the system prompt, the tools or the pins, or use a model with a larger window"
        )
        if self._log.config.auto:
            return advice
        return f"automatic compaction is off (auto=False): call compact(); or {advice}"

    def _preview(self, dialect: str | None) -> Rendered:
        """The request for the page as the log has it: whoever only reads makes no room."""
        with self._log.reading():
            return self._show(dialect)

    def _prepare(self, before: Callable[[], None]) -> None:
        """What must have happened before a page is rendered: others' events read, our own
        written."""
        self._log.catch_up()
        before()
        self._log.settle()
        if self._log.pending:
            self._log.append([])
        self._model.tell_unknown(is_asked=True)

    def _show(self, dialect: str | None) -> Rendered:
        view = self._log.state.view()
        page = self._page(self._model.dialect(dialect))
        rendered = page.render(view)
        if rendered.is_empty:
            raise Invalid("there is no message on the page", hint="append a user message")
        call = {**self._model.call_fields(page.dialect), **rendered.request}
        if page.dialect.name == openai_chat.name and self._alternates():
            call = alternating(call)
        rendered = replace(rendered, request=call)
        self.asked.ask(view.head)
        # Whatever a compaction could do has been done: a page that is still full is worth a word.
        budget = self._model.budget
        self._log.notices.watch(current_tokens(self._log.state, budget.factor), budget)
        self._log.sync("turn")
        return rendered

    def _alternates(self) -> bool:
        """Whether roles take turns: as configured, else for a named model that no table knows."""
        configured = self._log.config.alternate_roles
        is_local = bool(self._log.state.meta.model) and not self._model.info.known
        return is_local if configured is None else configured

    def _page(self, dialect: str) -> Page:
        if dialect not in self._pages:
            self._pages[dialect] = self._model.page(dialect)
        return self._pages[dialect]

    def clear(self) -> None:
        """Forgets what was rendered, because it was for another model."""
        self._pages.clear()
        self._messages.clear()

    def move(self) -> None:
        """The log is another one now, and nothing of it was shown yet."""
        self.clear()
        self.asked.move(self._log.state.head)
