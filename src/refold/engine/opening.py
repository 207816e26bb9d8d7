"""`refold.open`: opens a conversation by its id, in this project's store unless the caller names
another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike, fspath
from typing import Any

from refold.checked import checked
from refold.compaction.native import NativeCaller
from refold.config import Config
from refold.conversations.listing import id_by_name, id_for, names_checked
from refold.engine.context import Context
from refold.engine.metadata_and_config import SharedStore, shared_store
from refold.errors import Invalid, NotFound
from refold.log.stored_logs import open_id_checked
from refold.search.embedders import Embedder
from refold.settings.sources import default_store, loaded, remarks
from refold.stores import is_there, open_store, reading_store
from refold.stores.protocol import Store
from refold.strategies.registry import unknown_tables
from refold.writer.asker import Writer


@checked
def open(
    conversation: str | None = None,
    *,
    name: str | None = None,
    store: str | PathLike[str] | Store | None = None,
    model: str | None = None,
    system: Any = None,
    tools: list[Any] | None = None,
    window: int | None = None,
    config: Config | Mapping[str, Any] | None = None,
    counter: Callable[[str], int] | str | None = None,
    writer: Writer | None = None,
    native: NativeCaller | None = None,
    embedder: Embedder | str | bool | None = None,
    read_only: bool = False,
) -> Context:
    """Opens a conversation, new or known; nothing is written before the first append.

    `name` is another program's name for it, any text: opens the conversation with this name, or a
    new one under it. With an id as well, the conversation with that id gets the name. `store` is a
    URL (`sqlite:PATH`, `files:DIR`, `memory:`) or a store; by default `.refold/` of this project.
    `model` decides window, prices and wire format; `window` overrides. `config` overrides
    `refold.toml`, `[tool.refold]` and `REFOLD_*`. `counter` is a function from text to tokens, or a
    name: `exact`, `estimate`, a vocabulary. `writer` is the model that writes summaries: any
    callable from `refold.types.Request` to `refold.types.Answer`, such as `refold.endpoint`.
    `native` calls the provider to have it write compactions (`refold.types.NativeRequest`, the
    strategy `native`). `embedder` turns text into vectors for `search`, or names one
    (`bert:FOLDER`); by default the extra `semantic` or `semantic-large` if installed; False means
    none. With `read_only=True` the conversation must exist (else NotFound), nothing in the store's
    folder changes, and every write raises Denied.
    """
    if conversation is None and name is None:
        raise Invalid("no conversation is named", hint='refold.open("fix-login")')
    if conversation is not None:
        open_id_checked(conversation)
    if name is not None:
        names_checked([name])
    effective, _ = loaded(config)
    shared = _shared_store(store, read_only=read_only)
    opened = shared.store
    try:
        id = _conversation_id(opened, conversation, name, read_only=read_only)
        context = Context(
            opened,
            id,
            config=effective,
            model=model,
            system=system,
            tools=tools,
            window=window,
            counter=counter,
            writer=writer,
            native=native,
            embedder=embedder,
            remarks=[*remarks(config), *unknown_tables(effective.strategy)],
        )
        context._shared = shared
        if name is not None and name not in context.view.names:
            context.update(names=(*context.view.names, name))
        return context
    except BaseException:
        shared.release()
        raise


def _shared_store(store: str | PathLike[str] | Store | None, *, read_only: bool) -> SharedStore:
    """Opens the store with this name; a store object is used as it is, or wrapped for reading. It
    is held once."""
    if isinstance(store, PathLike):
        store = fspath(store)
    if store is None or isinstance(store, str):
        return shared_store(open_store(store or default_store(), read_only=read_only))
    opened = reading_store(store) if read_only else store
    return SharedStore(opened, is_ours=opened is not store).hold()


def _conversation_id(store: Store, id: str | None, name: str | None, *, read_only: bool) -> str:
    """The id of the conversation to open. Raises NotFound, with the store's URL, if it must exist
    and does not."""
    if read_only and not is_there(store):
        raise NotFound(f"there is no store {store.url}", hint="check its name")
    if id is None and name is not None:
        id = id_by_name(store, name) or id_for(store, name)
    assert id is not None
    if read_only:
        try:
            store.conversation(id)
        except NotFound as error:
            raise NotFound(f"{error.message} in {store.url}", hint=error.hint) from error
    return id
