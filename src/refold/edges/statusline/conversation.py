"""The status line of a conversation of ours, from its folded log: opened for reading, nothing is
written, and nothing is imported that only compacts or renders."""

from __future__ import annotations

from refold import __version__
from refold.compaction.limits import budget_of
from refold.config import config_for
from refold.conversations.listing import id_of
from refold.core.budget import Budget, current_tokens
from refold.core.fold import Fold
from refold.core.model import ADOPTED, NATIVE
from refold.edges.displays.phrases import percent_of
from refold.edges.statusline.parts import (
    cache_part,
    context_part,
    cost_part,
    joined,
    name_part,
)
from refold.log.log import Log
from refold.settings.sources import default_store, loaded_for
from refold.stores import is_there, open_store
from refold.stores.protocol import Store
from refold.tokens.models import model_info

PRODUCT = "refold"


def conversation_line(name: str, url: str, *, short: bool, color: bool) -> str:
    """The line of the conversation of that name (`@1` for the newest); empty if there is none."""
    store = open_store(url or default_store(), read_only=True)
    try:
        if not is_there(store):
            return ""
        return _line(store, id_of(store, name), short=short, color=color)
    finally:
        store.close()


def _line(store: Store, id: str, *, short: bool, color: bool) -> str:
    state = Log(store, store.conversation(id).id).state
    budget = _budget(state)
    used = current_tokens(state, budget.factor)
    parts = [context_part(used, budget.window, short=short)]
    if not short:
        model = name_part(state.meta.model or "unknown model")
        urgent = "refold compact soon" if used >= budget.warn_at else ""
        parts = [f"{PRODUCT} v{__version__}", model, *parts, *_bill(state), urgent]
    return joined(parts, percent_of(used, budget.window), color=color)


def _budget(state: Fold) -> Budget:
    info = model_info(state.meta.model or None)
    config = config_for(loaded_for(state.meta.metadata or {}), (state.meta.model or "", info.name))
    return budget_of(state, config, info)


def _bill(state: Fold) -> list[str]:
    totals = state.totals
    cost = None if totals.unpriced or not totals.calls else totals.cost
    batches = [batch for _, batch in state.undoable if batch]
    purposes = [state.purposes.get(batch, ADOPTED) for batch in batches]
    compactions = sum(purpose in (ADOPTED, NATIVE) for purpose in purposes)
    noun = "compaction" if compactions == 1 else "compactions"
    return [
        cost_part(cost),
        cache_part(totals.cache_read, totals.input),
        f"{compactions} {noun}" if compactions else "",
    ]
