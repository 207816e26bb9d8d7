"""The same Context for async callers: one generic wrapper, which runs every call in a worker
thread.

    context = await refold.aio.open("fix-login", model="claude-sonnet-4-5")
    await context.append({"role": "user", "content": "Fix the login test"})
    response = await client.messages.create(max_tokens=4096, **await context.request())

What is a method there is awaited here, a property too (`await context.view`), and a plain value
stays one. Listeners, hooks, writers and embedders may be coroutine functions: they run on the loop
of the caller. A call that was cancelled while it waited still comes to its end in its thread;
nothing is left half-written. Neighbour: `engine`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any

from refold.engine import opening
from refold.engine.context import Context


async def open(conversation: str, **given: Any) -> AsyncContext:
    """`refold.open`, awaited. Takes the same arguments."""
    bridged = functools.partial(_bridged, asyncio.get_running_loop())
    given = {name: bridged(value) for name, value in given.items()}
    return AsyncContext(await asyncio.to_thread(opening.open, conversation, **given))


class AsyncContext:
    """A `Context` whose methods are awaited."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if isinstance(getattr(Context, name, None), property):
            return asyncio.to_thread(getattr, self._context, name)
        value = getattr(self._context, name)
        return _threaded(value) if callable(value) else value

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._context) if not name.startswith("_")]

    async def __aenter__(self) -> AsyncContext:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._context.close)


def _threaded(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method as a coroutine function. A context that it gives back comes wrapped, too."""

    @functools.wraps(method)
    async def threaded(*args: Any, **given: Any) -> Any:
        bridged = functools.partial(_bridged, asyncio.get_running_loop())
        given = {name: bridged(value) for name, value in given.items()}
        result = await asyncio.to_thread(method, *map(bridged, args), **given)
        return AsyncContext(result) if isinstance(result, Context) else result

    return threaded


def _bridged(loop: asyncio.AbstractEventLoop, value: Any) -> Any:
    """A coroutine function as a plain one that waits, in its thread, until the loop has run it;
    else the value."""
    if not callable(value) or not any(
        map(inspect.iscoroutinefunction, (value, type(value).__call__))
    ):
        return value

    @functools.wraps(value, updated=())
    def bridged(*args: Any, **given: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(value(*args, **given), loop).result()

    return bridged
