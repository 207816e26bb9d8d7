"""The Context for async callers: a generic wrapper that runs every call in a worker thread.

    context = await refold.aio.open("fix-login", model="claude-sonnet-5-5")
    await context.append({"role": "user", "content": "Fix the login test"})
    response = await client.messages.create(**await context.request())

Every method is awaited, with the types of the wrapped one; so are properties that read the log
(`await context.view`), and parts have wrappers of their own (`await context.artifacts.list()`).
Listeners, hooks, writers and embedders may be coroutine functions: they run on the caller's loop. A
canceled call still finishes in its thread, so no write is left incomplete. Neighbour: `engine`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from itertools import islice
from typing import Any, Concatenate, ParamSpec, TypeVar

from refold.artifacts.artifacts import Artifacts
from refold.checked import checked
from refold.config import Config
from refold.core.budget import Budget
from refold.core.model import Event, View
from refold.dialects.streams import awaited
from refold.engine import opening
from refold.engine.context import Context
from refold.engine.file_versions import FileVersions
from refold.engine.log_reader import LogReader
from refold.engine.recorder import CALLER
from refold.engine.toolbox import Toolbox
from refold.log.log import PAGE_EVENTS
from refold.memory.semantic import SemanticMemory
from refold.memory.semantic import open_memory as _open_memory

__all__ = [
    "AsyncArtifacts", "AsyncContext", "AsyncFileVersions", "AsyncLogReader", "AsyncMemory",
    "AsyncToolbox", "open", "open_memory",
]  # fmt: skip

P = ParamSpec("P")
T = TypeVar("T")
Wrapped = TypeVar("Wrapped")


class _Async:
    """The base class of all wrappers."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped


def _threaded(
    method: Callable[Concatenate[Wrapped, P], T],
) -> Callable[Concatenate[_Async, P], Coroutine[Any, Any, T]]:
    """The method as a coroutine function that runs it in a worker thread."""

    async def threaded(self: _Async, /, *args: P.args, **given: P.kwargs) -> T:
        return await _run(getattr(self._wrapped, method.__name__), args, given)

    functools.update_wrapper(threaded, method)
    return threaded


def _threaded_context(
    method: Callable[Concatenate[Context, P], Context],
) -> Callable[Concatenate[_Async, P], Coroutine[Any, Any, AsyncContext]]:
    """The same for a method that returns another context, which is wrapped too."""

    async def threaded(self: _Async, /, *args: P.args, **given: P.kwargs) -> AsyncContext:
        return AsyncContext(await _run(getattr(self._wrapped, method.__name__), args, given))

    functools.update_wrapper(threaded, method)
    return threaded


async def _run(call: Callable[..., T], args: Sequence[Any], given: Mapping[str, Any]) -> T:
    """Runs the call in a worker thread, after reading asynchronous streams among its arguments."""
    loop = asyncio.get_running_loop()
    CALLER.set(id(asyncio.current_task()))
    positional = [_bridged(loop, await awaited(value)) for value in args]
    named = {name: _bridged(loop, value) for name, value in given.items()}
    return await asyncio.to_thread(call, *positional, **named)


def _bridged(loop: asyncio.AbstractEventLoop, value: Any) -> Any:
    """Turns a coroutine function into a plain one that waits, in its thread, until the loop has run
    it; returns other values unchanged."""
    if not callable(value):
        return value
    if not any(map(inspect.iscoroutinefunction, (value, type(value).__call__))):
        return value

    @functools.wraps(value, updated=())
    def bridged(*args: Any, **given: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(value(*args, **given), loop).result()

    return bridged


class AsyncLogReader(_Async):
    """`context.log`, awaited."""

    points = _threaded(LogReader.points)
    batches = _threaded(LogReader.batches)
    states = _threaded(LogReader.states)
    notes = _threaded(LogReader.notes)
    diff = _threaded(LogReader.diff)
    why = _threaded(LogReader.why)
    scores = _threaded(LogReader.scores)
    rehearse = _threaded(LogReader.rehearse)
    export = _threaded(LogReader.export)
    exported = _threaded(LogReader.exported)

    async def events(self, *, after: int = 0, limit: int | None = None) -> AsyncIterator[Event]:
        """All events after a seq up to the head, read a page at a time; with `limit`, the first of
        them."""
        events = await asyncio.to_thread(self._wrapped.events, after=after, limit=limit)
        while page := await asyncio.to_thread(list, islice(events, PAGE_EVENTS)):
            for event in page:
                yield event


class AsyncArtifacts(_Async):
    """`context.artifacts`, awaited."""

    put = _threaded(Artifacts.put)
    list = _threaded(Artifacts.list)
    select = _threaded(Artifacts.select)
    value = _threaded(Artifacts.value)
    lines = _threaded(Artifacts.lines)
    grep = _threaded(Artifacts.grep)
    clean = _threaded(Artifacts.clean)
    remove = _threaded(Artifacts.remove)
    remove_all = _threaded(Artifacts.remove_all)


class AsyncFileVersions(_Async):
    """`context.files`, awaited."""

    keep = _threaded(FileVersions.keep)
    diff = _threaded(FileVersions.diff)
    changes = _threaded(FileVersions.changes)
    put_back = _threaded(FileVersions.put_back)
    refresh = _threaded(FileVersions.refresh)


class AsyncMemory(_Async):
    """`context.memory`, awaited."""

    store = _threaded(SemanticMemory.store)
    retrieve = _threaded(SemanticMemory.retrieve)
    update = _threaded(SemanticMemory.update)
    forget = _threaded(SemanticMemory.forget)
    list = _threaded(SemanticMemory.list)
    history = _threaded(SemanticMemory.history)
    near = _threaded(SemanticMemory.near)
    ids = _threaded(SemanticMemory.ids)
    log = _threaded(SemanticMemory.log)
    revert = _threaded(SemanticMemory.revert)
    export = _threaded(SemanticMemory.export)
    import_lines = _threaded(SemanticMemory.import_lines)
    reindex = _threaded(SemanticMemory.reindex)
    is_empty = _threaded(SemanticMemory.is_empty)
    take = _threaded(SemanticMemory.take)
    known_of = _threaded(SemanticMemory.known_of)
    inbox = _threaded(SemanticMemory.inbox)
    accept = _threaded(SemanticMemory.accept)
    reject = _threaded(SemanticMemory.reject)
    close = _threaded(SemanticMemory.close)


class AsyncToolbox(_Async):
    """`context.toolbox`, awaited."""

    add_memory = _threaded(Toolbox.add_memory)
    tools = _threaded(Toolbox.tools)
    call = _threaded(Toolbox.call)


class AsyncContext(_Async):
    """A `Context` whose methods are awaited."""

    _wrapped: Context

    append = _threaded(Context.append)
    append_result = _threaded(Context.append_result)
    mirror = _threaded(Context.mirror)
    record = _threaded(Context.record)
    note = _threaded(Context.note)
    recover = _threaded(Context.recover)
    request = _threaded(Context.request)
    page = _threaded(Context.page)
    stats = _threaded(Context.stats)
    count = _threaded(Context.count)
    plan = _threaded(Context.plan)
    compact = _threaded(Context.compact)
    undo = _threaded(Context.undo)
    redo = _threaded(Context.redo)
    checkpoint = _threaded(Context.checkpoint)
    restore = _threaded(Context.restore)
    clear = _threaded(Context.clear)
    hide = _threaded(Context.hide)
    pin = _threaded(Context.pin)
    unfold = _threaded(Context.unfold)
    search = _threaded(Context.search)
    update = _threaded(Context.update)
    on = _threaded(Context.on)
    flush = _threaded(Context.flush)
    close = _threaded(Context.close)
    handover = _threaded(Context.handover)
    fork = _threaded_context(Context.fork)
    spawn = _threaded_context(Context.spawn)

    @checked
    def stream(self, response: AsyncIterable[Any]) -> AsyncIterator[Any]:
        """Yields the chunks of a provider's raw stream, and records the reply when it ends or
        fails."""
        self._wrapped._open.check_writable()
        return self._streamed(response)

    async def _streamed(self, response: AsyncIterable[Any]) -> AsyncIterator[Any]:
        CALLER.set(id(asyncio.current_task()))
        context = self._wrapped
        shown = context._requests.match(context._open.state.head)
        chunks: list[Any] = []
        try:
            async for chunk in response:
                chunks.append(chunk)
                yield chunk
        finally:
            if chunks:
                await self.record(chunks, upto=shown)

    @property
    def id(self) -> str:
        return self._wrapped.id

    @property
    def config(self) -> Config:
        return self._wrapped.config

    @functools.cached_property
    def log(self) -> AsyncLogReader:
        """Reads the log of the conversation."""
        return AsyncLogReader(self._wrapped.log)

    @functools.cached_property
    def artifacts(self) -> AsyncArtifacts:
        """Large outputs and other stored content."""
        return AsyncArtifacts(self._wrapped.artifacts)

    @functools.cached_property
    def files(self) -> AsyncFileVersions:
        """Versions of files before tools changed them."""
        return AsyncFileVersions(self._wrapped.files)

    @functools.cached_property
    def memory(self) -> AsyncMemory:
        """The memory that outlives conversations."""
        return AsyncMemory(self._wrapped.memory)

    @functools.cached_property
    def toolbox(self) -> AsyncToolbox:
        """Tools that give the model access to hidden messages."""
        return AsyncToolbox(self._wrapped.toolbox)

    @property
    def view(self) -> Coroutine[Any, Any, View]:
        """The page as a value."""
        return asyncio.to_thread(getattr, self._wrapped, "view")

    @property
    def budget(self) -> Coroutine[Any, Any, Budget]:
        """The current window, reserve and thresholds."""
        return asyncio.to_thread(getattr, self._wrapped, "budget")

    async def __aenter__(self) -> AsyncContext:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _opener(function: Callable[P, Context]) -> Callable[P, Coroutine[Any, Any, AsyncContext]]:
    """A function that opens a context, as a coroutine function that returns it wrapped."""

    async def opener(*args: P.args, **given: P.kwargs) -> AsyncContext:
        return AsyncContext(await _run(function, args, given))

    functools.update_wrapper(opener, function)
    return opener


async def open_memory(*args: Any, **given: Any) -> AsyncMemory:
    """`refold.open_memory`, awaited."""
    return AsyncMemory(await _run(_open_memory, args, given))


open = _opener(opening.open)
