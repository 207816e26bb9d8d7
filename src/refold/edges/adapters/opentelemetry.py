"""OpenTelemetry: a span for each request, compaction, search and use of a memory.

    from refold.edges.adapters.opentelemetry import instrument
    instrument()

Names and attributes are those of the GenAI conventions, or else begin with `refold.`. A compaction
by a request is an event of the request's span, with its receipt. The model's call gets a span, with
its usage, only if `calls=True`, because an instrumented provider SDK already creates one.
Content (questions, memories, messages) leaves the process only if `content=True`. `instrument`
wraps methods, and `uninstrument` restores them, so an untraced process has no overhead. Neighbour:
`compaction.compactor`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Tracer, TracerProvider

import refold
from refold.compaction import compactor
from refold.core.codec import decode
from refold.core.model import Event, Text, ToolCall, ToolResult, Usage
from refold.core.plan import Receipt
from refold.edges.adapters.guest import check_version
from refold.engine.log_reader import ConversationSearch
from refold.memory.semantic import SemanticMemory
from refold.tokens.models import model_info

# Names of providers that are different in the conventions.
PROVIDERS = {"gemini": "gcp.gemini", "mistral": "mistral_ai", "xai": "x_ai"}
MEMORY_VERBS = {
    "store": "create_memory",
    "retrieve": "search_memory",
    "update": "update_memory",
    "forget": "delete_memory",
}
Method = Callable[..., Any]
Attributes = dict[str, str | int | float | bool]

_restorers: list[Callable[[], None]] = []


def instrument(
    tracer_provider: TracerProvider | None = None, *, calls: bool = False, content: bool = False
) -> None:
    """Traces all contexts and memories of this process from now on; replaces earlier settings."""
    check_version("opentelemetry")
    uninstrument()
    tracer = trace.get_tracer("refold", refold.__version__, tracer_provider)
    tracing = _Tracing(tracer, content=content)
    _wrap(refold.Context, "request", tracing.request)
    _wrap(refold.Context, "compact", tracing.compact)
    if calls:
        _wrap(refold.Context, "record", tracing.record)
        _wrap(refold.Context, "stream", tracing.stream)
    _wrap(ConversationSearch, "search", tracing.search)
    _wrap(compactor, compactor.announce_completion.__name__, tracing.compacted)
    for verb, operation in MEMORY_VERBS.items():
        _wrap(SemanticMemory, verb, functools.partial(tracing.memory, operation))


def uninstrument() -> None:
    """Stops tracing."""
    while _restorers:
        _restorers.pop()()


def _wrap(owner: Any, name: str, traced: Method) -> None:
    """Replaces a method by `traced`, which gets the method and its arguments."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        return traced(method, *arguments, **options)

    setattr(owner, name, wrapped)
    _restorers.append(lambda: setattr(owner, name, method))


class _Tracing:
    """Creates the spans. Each method gets the traced method and its arguments."""

    def __init__(self, tracer: Tracer, *, content: bool) -> None:
        self._tracer, self._content = tracer, content
        self._requested_ns: WeakKeyDictionary[refold.Context, int] = WeakKeyDictionary()

    def request(
        self, method: Method, context: refold.Context, *arguments: Any, **options: Any
    ) -> Any:
        with self._span("refold request", _identity(context)) as span:
            request = method(context, *arguments, **options)
            view = context.view
            span.set_attribute("refold.page.tokens", view.tokens)
            span.set_attribute("refold.page.messages", len(view.slots))
            span.set_attribute("refold.window.tokens", context.budget.window)
            if self._content:
                messages = []
                for message in (slot.message for slot in view.slots):
                    parts = [_part(block) for block in message.blocks]
                    messages.append({"role": message.role, "parts": parts})
                self._add_content(span, "gen_ai.input.messages", messages)
        self._requested_ns[context] = time.time_ns()
        return request

    def compact(
        self, method: Method, context: refold.Context, *arguments: Any, **options: Any
    ) -> Any:
        with self._span("refold compact", _identity(context)) as span:
            receipt = method(context, *arguments, **options)
            span.set_attributes(_of_receipt(receipt))
            return receipt

    def compacted(self, method: Method, log: Any, receipt: Receipt, bill: Any) -> Any:
        """Adds an applied compaction to the current span, as an event."""
        trace.get_current_span().add_event("refold.compaction", _of_receipt(receipt))
        return method(log, receipt, bill)

    def record(
        self, method: Method, context: refold.Context, *arguments: Any, **options: Any
    ) -> Any:
        events = method(context, *arguments, **options)
        self._call(context, events)
        return events

    def stream(self, method: Method, context: refold.Context, response: Any) -> Iterator[Any]:
        head = context.view.head
        yield from method(context, response)
        self._call(context, context.log.events(after=head))

    def search(self, method: Method, search: Any, query: str, **options: Any) -> Any:
        with self._span("retrieval", {"gen_ai.operation.name": "retrieval"}) as span:
            hits = method(search, query, **options)
            span.set_attribute("refold.search.snippets", len(hits))
            self._add_content(span, "gen_ai.retrieval.query.text", query)
            return hits

    def memory(
        self,
        operation: str,
        method: Method,
        memory: SemanticMemory,
        *arguments: Any,
        **options: Any,
    ) -> Any:
        attributes: Attributes = {"gen_ai.operation.name": operation}
        attributes["refold.memory.scope"] = memory.scope
        with self._span(operation, attributes) as span:
            answer = method(memory, *arguments, **options)
            if isinstance(answer, list):
                span.set_attribute("refold.memory.hits", len(answer))
            self._add_content(span, "refold.memory.entry", [*arguments, *options.values()])
            return answer

    def _span(self, name: str, attributes: Attributes) -> AbstractContextManager[Span]:
        span: AbstractContextManager[Span]
        span = self._tracer.start_as_current_span(name, attributes=attributes)
        return span

    def _add_content(self, span: Span, name: str, content: Any) -> None:
        if self._content:
            text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
            span.set_attribute(name, text)

    def _call(self, context: refold.Context, events: Iterable[Event]) -> None:
        """Creates the span of the model's call, from the request to the recording of its answer."""
        usages = [body for event in events if isinstance(body := decode(event), Usage)]
        requested_ns = self._requested_ns.pop(context, None)
        if not usages or requested_ns is None:
            return
        usage = usages[-1]
        attributes = {
            **_identity(context),
            "gen_ai.operation.name": "chat",
            "gen_ai.response.model": usage.model,
            "gen_ai.response.id": usage.response,
            "gen_ai.usage.input_tokens": usage.input,  # with cached tokens, as in refold
            "gen_ai.usage.output_tokens": usage.output,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
        }
        name, kind = f"chat {context.view.model}".strip(), SpanKind.CLIENT
        span = self._tracer.start_span(
            name, kind=kind, start_time=requested_ns, attributes=attributes
        )
        span.end()


def _identity(context: refold.Context) -> Attributes:
    model = context.view.model
    attributes: Attributes = {"gen_ai.conversation.id": context.id}
    if model:
        provider = model_info(model).provider
        attributes["gen_ai.request.model"] = model
        attributes["gen_ai.provider.name"] = PROVIDERS.get(provider, provider)
    return attributes


def _of_receipt(receipt: Receipt) -> Attributes:
    return {
        "refold.compaction.strategy": receipt.strategy,
        "refold.compaction.tokens_before": receipt.tokens_before,
        "refold.compaction.tokens_after": receipt.tokens_after,
        "refold.compaction.batch": receipt.batch,
    }


def _part(block: Any) -> dict[str, Any]:
    """A block in the conventions' shape for content."""
    match block:
        case Text(text):
            return {"type": "text", "content": text}
        case ToolCall():
            called = {"id": block.id, "name": block.name, "arguments": block.arguments}
            return {"type": "tool_call", **called}
        case ToolResult():
            texts = [part.text for part in block.content if isinstance(part, Text)]
            return {"type": "tool_call_response", "id": block.call, "response": "\n".join(texts)}
        case _:
            return {"type": type(block).__name__.lower()}
