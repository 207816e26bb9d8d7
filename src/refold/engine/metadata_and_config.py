"""Metadata updates of a conversation, the check of its configuration, and its shared store.

`changes` drafts only values that differ from the log and from pending updates. The system prompt
and the tools are events of their own, because each is counted; if the log already has it, the draft
names the seq of its event, so each is stored once, however often a caller switches. `check_config`
checks the names of strategies, dialects and kinds of tools, which `config` cannot know, as soon as
there is a configuration and not only when a page is full. The last context that holds a
`SharedStore` closes it. Neighbours: `context`, `refold doctor`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from typing import Any

from refold.config import Config, config_from, config_under, given_values
from refold.core.fold import merged
from refold.core.model import Meta
from refold.dialects import dialect
from refold.ledger.tools import configured
from refold.log.draft import Draft
from refold.log.notes import meta_redacted, value_redacted
from refold.log.open_log import OpenLog
from refold.search.embedders import Embedder
from refold.stores import is_current
from refold.stores.protocol import Store
from refold.strategies.registry import check_ladder, check_tables
from refold.system.process_fork import watch
from refold.tokens.counter import count_system, count_tools


def changes(log: OpenLog, given: Meta, system: Any, tools: list[Any] | None) -> list[Draft]:
    """The pending drafts, and drafts of all given values that differ from the log."""
    if log.redacts:
        given, system, tools = meta_redacted(given), value_redacted(system), value_redacted(tools)
    state, drafts = log.sums, list(log.pending)
    known = log.metadata
    if merged(known, given) != known:
        drafts.append(log.draft(given))
    if system is not None:
        drafts = [draft for draft in drafts if not _sets(draft, "system", "system_seq")]
        if not _is_same(system, state.meta.system):
            seq = _seq_of(state.systems, system)
            meta = Meta(system=system) if seq is None else Meta(system_seq=seq)
            drafts.append(log.draft(meta, count_system(system, log.counter)))
    if tools is not None:
        drafts = [draft for draft in drafts if not _sets(draft, "tools", "tools_seq")]
        if not _is_same(tools, state.meta.tools):
            seq = _seq_of(state.toolsets, tools)
            meta = Meta(tools=tools) if seq is None else Meta(tools_seq=seq)
            drafts.append(log.draft(meta, count_tools(tools, log.counter)))
    return drafts


def _sets(draft: Draft, *fields: str) -> bool:
    """Whether a draft sets one of these metadata fields."""
    body = draft.body
    return isinstance(body, Meta) and any(getattr(body, field) is not None for field in fields)


def _seq_of(contents: Mapping[int, Any], wanted: Any) -> int | None:
    """The seq of the event with exactly this content, if the fold still has it."""
    return next((seq for seq, value in contents.items() if _is_same(value, wanted)), None)


def _is_same(value: Any, other: Any) -> bool:
    """Whether both are sent as the same bytes: 1 is not True, and keys have an order."""
    return bool(value == other) and repr(value) == repr(other)


def check_config(config: Config, embedder: Embedder | str | bool | None = None) -> Config:
    """Returns the configuration if its values are in their bounds and its names are known; else
    raises Invalid, with the nearest name."""
    effective = config_from(given_values(config))
    for one in (effective, *(config_under(effective, [name]) for name in effective.models)):
        check_ladder(one.ladder)
        check_tables(one.strategy)
        for entry in one.tool_kinds.values():
            configured(entry)
        if one.dialect is not None:
            dialect(one.dialect)
    if config.memory_vectors or config.memory_embedder:
        from refold.memory.semantic import settings_of

        settings_of(config, embedder)  # an unknown name is an error now, not in a request
    return config


class SharedStore:
    """Counts the holders of a store. A store that the caller opened is the caller's to close."""

    def __init__(self, store: Store, *, is_ours: bool) -> None:
        self.store, self._is_ours = store, is_ours
        self._holders = 0

    def hold(self) -> SharedStore:
        with _open.lock:
            self._holders += 1
        return self

    def release(self) -> None:
        """Closes the store after the last holder, if refold opened it."""
        with _open.lock:
            self._holders -= 1
            is_last = self._holders == 0
            if is_last and _open.by_url.get(self.store.url) is self:
                del _open.by_url[self.store.url]
        if is_last and self._is_ours:
            self.store.close()


class _OpenStores:
    """The databases that this process holds open, by URL."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.by_url: weakref.WeakValueDictionary[str, SharedStore] = weakref.WeakValueDictionary()
        watch(self)

    def before_fork(self) -> None:
        """Nothing to release."""

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self.lock = threading.Lock()  # its holder may be a thread of the parent


_open = _OpenStores()


def shared_store(store: Store) -> SharedStore:
    """The store just opened, held once. For a database that this process holds open already, the
    store that has it: a thousand conversations share one connection."""
    if not is_current(store):
        return SharedStore(store, is_ours=True).hold()
    with _open.lock:
        known = _open.by_url.get(store.url)
        if known is None or not is_current(known.store):
            known = _open.by_url[store.url] = SharedStore(store, is_ours=True)
        known._holders += 1
        return known
