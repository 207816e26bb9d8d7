"""`refold.open`: a conversation by its id, in the store of this project unless another is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from refold.checked import checked
from refold.config import Config
from refold.core.codec import conversation_checked
from refold.engine.context import Context
from refold.search.embedders import Embedder
from refold.settings.sources import default_store, loaded, remarks
from refold.stores import open_store
from refold.stores.protocol import Store
from refold.strategies.registry import unknown_tables
from refold.writer.asker import Writer


@checked
def open(
    conversation: str,
    *,
    store: str | Store | None = None,
    model: str | None = None,
    system: Any = None,
    tools: list[Any] | None = None,
    window: int | None = None,
    config: Config | Mapping[str, Any] | None = None,
    counter: Callable[[str], int] | str | None = None,
    writer: Writer | None = None,
    embedder: Embedder | bool | None = None,
) -> Context:
    """Opens a conversation, new or known; nothing is written before the first append.

    `store` is a URL (`sqlite:PATH`, `files:DIR`, `memory:`) or a store; without one, `.refold/` of
    this project. `model` decides window, prices and wire format; `window` overrides. `config`
    overrides `refold.toml`, `[tool.refold]` and `REFOLD_*`. `counter` is a function from text to
    tokens, or a name: `exact`, `estimate`, a vocabulary. `writer` is the model that puts what is
    compacted in words: any callable from `refold.types.Request` to `refold.types.Answer`, such as
    `refold.endpoint`. `embedder` makes vectors of texts for `search`; without one, the extra
    `semantic` does if it is installed, and False means none.
    """
    conversation_checked(conversation)
    effective, _ = loaded(config)
    given = {
        "model": model,
        "system": system,
        "tools": tools,
        "window": window,
        "counter": counter,
        "writer": writer,
        "embedder": embedder,
        "remarks": [*remarks(config), *unknown_tables(effective.strategy)],
    }
    if store is None or isinstance(store, str):
        opened = open_store(store or default_store())
        return Context(opened, conversation, config=effective, owns_store=True, **given)
    return Context(store, conversation, config=effective, **given)
