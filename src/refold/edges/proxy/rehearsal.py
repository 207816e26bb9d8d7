"""A short conversation through a proxy in memory, before any thread works.

What is loaded late is loaded then, so that no agent waits for it. And msgspec learns our types
then: it reads a type at its first use, and if two threads do that at once, one takes a type that is
half read for whole, and the process ends without a word. Neighbours: `serve` calls this once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from refold.config import Config
from refold.core.model import Usage
from refold.edges.proxy.book import Book, Folding
from refold.edges.proxy.limits import Limits
from refold.edges.proxy.observer import Observer
from refold.edges.proxy.route import target_of
from refold.stores import open_store
from refold.strategies.registry import strategy

_TOOLS = [{"name": "read", "input_schema": {"type": "object"}}]
_CALL = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
_RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "text"}
_MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "Read."},
    {"role": "assistant", "content": [_CALL]},
    {"role": "user", "content": [_RESULT]},
    {"role": "assistant", "content": "Read it."},
    {"role": "user", "content": "Go on."},
]


def rehearse() -> None:
    """Loads what calls need, and lets msgspec read every type of ours."""
    for name in Config().ladder:
        strategy(name)
    book = Book(open_store("memory:"), Folding(folds=True), Limits())
    observer = Observer(book)
    for length in (3, 5, 5):
        _call(observer, _MESSAGES[:length])
        for held in book.let_all_go():
            held.close()
    book.close()
    for kind in _kinds(Struct):
        if kind.__module__.startswith("refold."):
            # Some name types that are only there for whoever checks types: these are never read.
            with suppress(NameError, TypeError):
                msgspec.json.Decoder(kind)


def _call(observer: Observer, messages: list[dict[str, Any]]) -> None:
    said = {"model": "claude-opus-5-5", "tools": _TOOLS, "messages": messages}
    target = target_of("POST", b"/v1/messages", ())
    asked = observer.read(msgspec.json.encode(said), target, "")
    taken = None if asked is None else observer.take(asked)
    if taken is not None:
        observer.finish(taken, Usage(input=10, output=1), None)


def _kinds(kind: type[Struct]) -> Iterator[type[Struct]]:
    for one in kind.__subclasses__():
        yield one
        yield from _kinds(one)
