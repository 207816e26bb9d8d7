"""The values of the web view: one method for each route, from one store.

The store is opened for reading, so that looking leaves no trace in any log; only search keeps its
own index beside the store, as `refold search` does, and an act that a person has confirmed opens it
for writing. A few conversations stay open. Used in one thread. Neighbours: `overview`,
`conversation`; `app` sends what these return.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from refold.conversations.listing import FOLDER, described, title_of
from refold.display import visible
from refold.edges.ui import acts, overview
from refold.edges.ui.conversation import Conversation, short_folder
from refold.edges.ui.readable import safe
from refold.edges.ui.saved import saved_page
from refold.engine.context import Context
from refold.errors import Denied, Invalid, NotFound
from refold.log.stored_logs import conversations, is_memory
from refold.redaction import redacted
from refold.search.searcher import Searcher
from refold.search.upkeep import index_path
from refold.settings.sources import loaded_for
from refold.stores import is_writable, open_store, terms_of, version_of
from refold.stores.protocol import Store

OPEN_MAX = 4
SESSIONS_MAX, HITS_EACH, QUERY_CHARS = 30, 6, 1_000

Given = dict[str, str]


class Answers:
    """Answers questions about one store."""

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        self._url = url
        self._acts = not read_only and is_writable(url)
        self.store: Store = open_store(url, read_only=True)
        self._open: OrderedDict[str, Conversation] = OrderedDict()
        self._usage = overview.Usage()
        self._heads: tuple[object, dict[str, int]] = (None, {})
        self._searching: tuple[Store, Searcher] | None = None

    def close(self) -> None:
        self.store.close()

    def close_search(self) -> None:
        if self._searching is not None:
            store, searcher = self._searching
            searcher.close()
            store.close()

    # --- the store ---

    def heads(self) -> dict[str, int]:
        """The head of every conversation; read again only if the store has changed."""
        version = version_of(self.store)
        if version is None or self._heads[0] != version:
            self._heads = (version, {about.id: about.head for about in conversations(self.store)})
        return self._heads[1]

    def overview(self, given: Given) -> dict[str, Any]:
        rows = overview.rows(self.store)
        found = [] if rows else overview.found()
        return {"store": visible(self.store.url), "sessions": rows, "found": found}

    def usage(self, given: Given) -> dict[str, Any]:
        return {"days": self._usage.days(self.store)}

    def find(self, given: Given) -> dict[str, Any]:
        """The best places, by conversation. Uses a store of its own."""
        query = given.get("q", "").strip()
        if not query or len(query) > QUERY_CHARS:
            raise Invalid(f"a search has 1 to {QUERY_CHARS:,} characters")
        if self._searching is None:
            store = open_store(self._url, read_only=True)
            self._searching = store, Searcher(store, path=_index_of(self._url))
        store, searcher = self._searching
        hits = searcher.search(query, limit=SESSIONS_MAX, each=HITS_EACH)
        found: dict[str, dict[str, Any]] = {}
        for hit in hits:
            if is_memory(hit.conversation):
                continue
            if hit.conversation not in found:
                about = described(store, store.conversation(hit.conversation))
                title = title_of(store, about.id, about.title)
                found[about.id] = {
                    "id": about.id,
                    "title": visible(redacted(title)),
                    "project": visible(short_folder(about.metadata.get(FOLDER))),
                    "hits": [],
                }
            found[hit.conversation]["hits"].append(
                {
                    "seq": hit.seq,
                    "kind": hit.kind,
                    "role": hit.role,
                    "tool": visible(hit.tool),
                    "at_ms": hit.at_ms,
                    "hidden": hit.hidden,
                    "parts": [(safe(text, redacted), is_match) for text, is_match in _parts(hit)],
                }
            )
        is_cut = len(found) >= SESSIONS_MAX
        return {"query": visible(query), "sessions": list(found.values()), "cut": is_cut}

    # --- one conversation ---

    def conversation(self, given: Given) -> dict[str, Any]:
        columns = self._opened(given).columns(_number(given, "after", 0))
        return {**columns, "acts": self._acts}

    def lines(self, given: Given) -> list[str]:
        return self._opened(given).lines(_number(given, "from", 0), _number(given, "count", 100))

    def message(self, given: Given) -> dict[str, Any]:
        secrets = given.get("secrets") == "1"
        return self._opened(given).message(_number(given, "seq"), secrets=secrets)

    def shown(self, given: Given) -> dict[str, Any]:
        return self._opened(given).shown(_number(given, "seq"), _number(given, "at"))

    def standin(self, given: Given) -> dict[str, Any]:
        return self._opened(given).standin(_number(given, "seq"))

    def why(self, given: Given) -> list[dict[str, Any]]:
        return self._opened(given).why(_number(given, "seq"))

    def window(self, given: Given) -> dict[str, Any]:
        return self._opened(given).window()

    def ledger(self, given: Given) -> list[dict[str, Any]]:
        return self._opened(given).ledger()

    def save(self, given: Given) -> str:
        """The conversation as one file."""
        return saved_page(self._opened(given))

    def rehearse(self, given: Given, body: bytes) -> dict[str, Any]:
        """The price of an act."""
        opened, act = self._opened(given), acts.act_of(body)
        self._check_acts()
        return acts.rehearsed(opened.context, act)

    def do(self, given: Given, body: bytes) -> dict[str, Any]:
        """Does an act at the head of its rehearsal. Conflict if the log has grown since."""
        opened, act = self._opened(given), acts.act_of(body)
        self._check_acts()
        store = open_store(self._url)
        try:
            with Context(store, opened.id, config=opened.context.config) as context:
                acts.do(context, act)
                return {"head": context.view.head}
        finally:
            store.close()

    def _check_acts(self) -> None:
        if not self._acts:
            raise Denied("this view only reads", hint="start it without --read-only")

    def _opened(self, given: Given) -> Conversation:
        """The open conversation. NotFound if the store does not have it."""
        id = given["id"]
        if is_memory(id) or self.store.head(id) is None:
            self._open.pop(id, None)
            raise NotFound(f"there is no conversation {id}")
        if id not in self._open:
            about = described(self.store, self.store.conversation(id))
            config = loaded_for(about.metadata)
            self._open[id] = Conversation(Context(self.store, id, config=config))
            while len(self._open) > OPEN_MAX:
                self._open.popitem(last=False)
        self._open.move_to_end(id)
        return self._open[id]


def _index_of(url: str) -> str | None:
    """The path of the index beside the store, if it may be written there."""
    if not is_writable(url):
        return None
    store = open_store(url)
    try:
        return index_path(store) if terms_of(store) is None else None
    finally:
        store.close()


def _parts(hit: Any) -> list[tuple[str, bool]]:
    """The snippet in parts, each with whether it is a match."""
    parts, at = [], 0
    for start, end in hit.marks:
        parts += [(hit.snippet[at:start], False), (hit.snippet[start:end], True)]
        at = end
    return [part for part in [*parts, (hit.snippet[at:], False)] if part[0]]


def _number(given: Given, name: str, default: int | None = None) -> int:
    text = given.get(name, "" if default is None else str(default))
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise Invalid(f"{name} must be a number")
    return int(text)
