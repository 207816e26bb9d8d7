"""Renders the page: makes room first if a compaction is due, then renders in the dialect.

Rendered pages are kept per dialect, so a page that only grew costs no more than its growth.
Neighbours: `dialects.page` renders, `compaction` makes room and knows the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from refold import dialects
from refold.compaction.active_model import ActiveModel
from refold.compaction.compactor import Compactor
from refold.core.laws import thinking_check
from refold.dialects.native import is_shown
from refold.dialects.page import Page, PageMessage, Rendered, unsettled
from refold.engine.recorder import PendingRequests
from refold.errors import Invalid, OverBudget
from refold.log.open_log import OpenLog

PREPARE_TRIES_MAX = 5


class Pages:
    """Renders the page of one open log, and remembers which heads it showed."""

    def __init__(self, log: OpenLog, model: ActiveModel, compactor: Compactor) -> None:
        self._log, self._model, self._compactor = log, model, compactor
        self._pages: dict[tuple[str, bool], Page] = {}
        self._requested: str | None = None  # the dialect of the last request
        self.requests = PendingRequests(log.state.head)

    def request(
        self, dialect: str | None, overrides: Mapping[str, Any], before: Callable[[], None]
    ) -> dict[str, Any]:
        """The whole call, the caller's own keywords last. `before` runs with the lock held, after
        other writers' events are read and before room is made."""
        name = self._model.dialect(dialect)
        self._model.ask(overrides, name)
        rendered = self.render(dialect, before)
        wire = dialects.dialect(self._model.dialect(dialect))
        output_max = None if wire.output_limit in overrides else self._model.output_max
        call = wire.with_keywords(rendered.request, overrides)
        return wire.finished(call, output_max=output_max)

    def page(self, dialect: str | None, *, settle: bool, at: int | str | None) -> list[PageMessage]:
        """The messages on the page, or on the page at a place, each with its slots, by default in
        the dialect of the last request. Compacts and writes nothing."""
        dialect = dialect or self._requested
        with self._log.reading() as state:
            view = state.view() if at is None else self._log.view_at(at)
            # An earlier page must not displace the rendered parts of the newest one.
            page = (
                self._page(dialect)
                if at is None
                else self._model.page(self._model.dialect(dialect))
            )
            if settle:
                call = {**self._model.call_fields(page.dialect), **self._model.keywords}
                return page.shown(view, call)
            native = is_shown(view.slots, page.takes)
            keeps_thinking = thinking_check(view, bound=page.bound, native=native)
            return unsettled(view.slots, page.dialect, keeps_thinking, page.takes)

    def _page(self, dialect: str | None) -> Page:
        name = self._model.dialect(dialect)
        key = name, self._model.is_bound(name)
        if key not in self._pages:
            self._pages[key] = self._model.page(name)
        return self._pages[key]

    def render(self, dialect: str | None, before: Callable[[], None] | None = None) -> Rendered:
        """The request for a page that fits, durable once this returns. A read-only log is rendered
        as it is."""
        if self._log.is_read_only:
            with self._log.reading():
                return self._show(dialect)
        # Another thread may undo a compaction, or append, between making room and rendering: then
        # room is made again.
        for _ in range(PREPARE_TRIES_MAX):
            with self._log.guard:
                self._log.catch_up()
                if before is not None:
                    before()
                self._log.settle()
                if self._log.pending:
                    self._log.append([])
                self._model.warn_unknown(is_asked=True)
                if not self._compactor.is_due() and self._model.fits():
                    return self._show(dialect)
            self._compactor.compact_if_due()
        with self._log.guard:
            if self._model.may_be_sent():
                return self._show(dialect)
            budget, current = self._model.load
            self._log.notices.watch(current, budget)
        hint = (
            "shorten the system prompt, the tools or the pins, or use a model with a larger window"
        )
        if not self._log.config.auto:
            hint = f"automatic compaction is off (auto=False): compact the page, or {hint}"
        raise OverBudget(
            f"the page has {current:,} tokens, but a request may have {budget.input_max:,}"
            f" of a window of {budget.window:,}",
            hint=hint,
        )

    def _show(self, dialect: str | None) -> Rendered:
        view = self._log.state.view()
        page = self._page(dialect)
        rendered = page.render(view)
        if rendered.is_empty:
            raise Invalid("there is no message on the page", hint="append a user message")
        call = {**self._model.call_fields(page.dialect), **rendered.request}
        self.requests.add(view.head)
        self._requested = dialect
        # Every possible compaction has been done: a page that is still full deserves a warning.
        budget, current = self._model.load
        if current >= budget.warn_at:
            self._log.notices.watch(current, budget)
        self._log.sync("turn")
        return replace(rendered, request=call)

    def clear(self) -> None:
        """Drops rendered pages, and the dialect of the last request: they were for another
        model."""
        self._pages.clear()
        self._requested = None

    def move(self) -> None:
        """Starts over for another log."""
        self.clear()
        self.requests.reset(self._log.state.head)
