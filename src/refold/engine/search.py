"""Search in a conversation that is held open, or in all conversations of its store.

The index is opened when it is first asked. Neighbour: `search.searcher` does the work.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

from refold.checked import quoted
from refold.display import suggestion
from refold.errors import Invalid
from refold.log.notices import NoticeName
from refold.log.open_log import OpenLog
from refold.search.embedders import Embedder, check_embedder
from refold.system.moments import Moment

if TYPE_CHECKING:
    from refold.search.hits import Hit
    from refold.search.searcher import Searcher


class Filters(TypedDict, total=False):
    """What narrows a search. `newest` gives the newest places that hold all words instead of the
    best; times are milliseconds or datetimes."""

    newest: bool
    role: str | None
    tool: str | None
    kind: str | None
    since: Moment | None
    until: Moment | None


def _check_names(filters: Filters) -> None:
    for name in filters:
        if name not in Filters.__annotations__:
            hint = suggestion(name, Filters.__annotations__)
            raise Invalid(f"search has no filter {quoted(name)}", hint=hint)


class ConversationSearch:
    """Asks the index of one open log's store."""

    def __init__(self, log: OpenLog, embedder: Embedder | str | bool | None) -> None:
        check_embedder(embedder)
        self._log, self._embedder = log, embedder

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        everywhere: bool = False,
        **filters: Unpack[Filters],
    ) -> list[Hit]:
        """The places that answer a query best."""
        self._log.check_open()
        _check_names(filters)
        if not isinstance(everywhere, bool):
            raise Invalid(f"everywhere={quoted(everywhere)} is neither True nor False")
        if not everywhere and not self._log.state.head:
            from refold.search.searcher import question_of

            question_of(query, limit=limit, **filters)  # a wrong one is wrong here, too
            return []
        try:
            place = None if everywhere else self._log.id
            return self._searcher.search(query, limit=limit, conversation=place, **filters)
        finally:
            self._log.notices.tell()

    def close(self) -> None:
        """Lets the index catch up with the conversation, and lets go of it."""
        self._searcher.close(conversation=self._log.id)

    @cached_property
    def _searcher(self) -> Searcher:
        from refold.search.searcher import Searcher

        return Searcher(self._log.store, embedder=self._embedder, tell=self._notify)

    def _notify(self, name: str, reason: str) -> None:
        # Without the lock of the log: the searcher speaks while it holds its own.
        self._log.notify(cast(NoticeName, name), reason)
