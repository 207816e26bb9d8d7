"""What an update of a conversation writes: only what differs from what the log says, and from what
an earlier update will still write.

The system prompt and the tools are events of their own, because each is counted. One that the log
has said before is named by the event that said it, so that it is kept once, however often a caller
goes back and forth. Neighbour: `context`.

A configuration is checked as a whole when it is given, not when a page is full.

`config` knows the bounds of values; the names in them (strategies, dialects, kinds of tools) are
known in rooms above it, so they are checked here. Neighbours: `Context` checks what it is given,
`refold doctor` what the settings say.

A store that several contexts hold: the last one that lets go of it closes it.

A context that opened its store itself hands it on to its forks and children; whichever of them is
closed first must not close it under the others. Neighbour: `engine.context`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from refold.config import Config, config_from, config_under, given_values
from refold.core.fold import merged
from refold.core.model import Meta
from refold.dialects import dialect
from refold.ledger.tools import configured
from refold.log.draft import Draft
from refold.log.notes import meta_redacted, value_redacted
from refold.log.open_log import OpenLog
from refold.stores.protocol import Store
from refold.strategies.registry import check_ladder, check_tables
from refold.tokens.counter import count_system, count_tools


def changes(log: OpenLog, given: Meta, system: Any, tools: list[Any] | None) -> list[Draft]:
    """The drafts that make the log say what was given, with those that were pending."""
    if log.redacts:
        given, system, tools = meta_redacted(given), value_redacted(system), value_redacted(tools)
    state, drafts = log.sums, list(log.pending)
    known = log.metadata
    if merged(known, given) != known:
        drafts.append(log.draft(given))
    if system is not None:
        drafts = _without(drafts, _sets_system)
        if not _is_same(system, state.meta.system):
            seq = _said_at(state.systems, system)
            said = Meta(system=system) if seq is None else Meta(system_seq=seq)
            drafts.append(log.draft(said, count_system(system, log.counter)))
    if tools is not None:
        drafts = _without(drafts, _sets_tools)
        if not _is_same(tools, state.meta.tools):
            seq = _said_at(state.toolsets, tools)
            said = Meta(tools=tools) if seq is None else Meta(tools_seq=seq)
            drafts.append(log.draft(said, count_tools(tools, log.counter)))
    return drafts


def _without(drafts: list[Draft], is_replaced: Callable[[Meta], bool]) -> list[Draft]:
    """The drafts but for those that nobody has seen and that something else replaces now."""
    return [
        draft for draft in drafts if not (isinstance(draft.body, Meta) and is_replaced(draft.body))
    ]


def _sets_system(meta: Meta) -> bool:
    return meta.system is not None or meta.system_seq is not None


def _sets_tools(meta: Meta) -> bool:
    return meta.tools is not None or meta.tools_seq is not None


def _said_at(contents: Mapping[int, Any], wanted: Any) -> int | None:
    """The seq of the event that says exactly this, if the log has one at hand."""
    return next((seq for seq, value in contents.items() if _is_same(value, wanted)), None)


def _is_same(value: Any, other: Any) -> bool:
    """Whether both are sent as the same bytes: 1 is not True, and keys have an order."""
    return bool(value == other) and repr(value) == repr(other)


def check_config(config: Config) -> Config:
    """The configuration, if all of its values are in their bounds and all of its names are known;
    else Invalid, with the nearest name."""
    effective = config_from(given_values(config))
    for one in (effective, *(config_under(effective, [name]) for name in effective.models)):
        _check_names(one)
    return config


def _check_names(config: Config) -> None:
    check_ladder(config.ladder)
    check_tables(config.strategy)
    for entry in config.tool_kinds.values():
        configured(entry)
    if config.dialect is not None:
        dialect(config.dialect)


class SharedStore:
    """How many hold a store. One that the caller opened is the caller's to close."""

    def __init__(self, store: Store, *, is_ours: bool) -> None:
        self._store, self._is_ours = store, is_ours
        self._lock = threading.Lock()
        self._holders = 0

    def hold(self) -> SharedStore:
        with self._lock:
            self._holders += 1
        return self

    def release(self) -> None:
        """Closes the store if nobody else holds it."""
        with self._lock:
            self._holders -= 1
            is_last = self._holders == 0
        if is_last and self._is_ours:
            self._store.close()
