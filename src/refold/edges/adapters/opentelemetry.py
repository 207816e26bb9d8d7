"""OpenTelemetry: a span for each request, compaction, search and use of a memory.

    from refold.edges.adapters.opentelemetry import instrument
    instrument()

Names and attributes are those of the GenAI conventions where they have one, and `refold.…` where
they have none. A compaction that a request brings about is an event of the request's span, with its
receipt. The model's call itself is the caller's: its span, with the usage, is made only if
`calls=True`, because whoever traces the provider's SDK has it already. Contents (questions,
memories, messages) leave the process only if `content=True`. Nothing costs anything until
`instrument` is called: it puts itself around methods, and `uninstrument` takes that back.
Neighbours: `compaction.announcements` tells of compactions.
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
from refold.core.model import Event, Message, Text, ToolCall, ToolResult, Usage
from refold.core.plan import Receipt
from refold.engine.log_reader import ConversationSearch
from refold.memory.semantic import SemanticMemory
from refold.tokens.models import model_info

# The conventions' names of providers, where they differ from ours.
PROVIDERS = {"gemini": "gcp.gemini", "mistral": "mistral_ai", "xai": "x_ai"}
MEMORY_VERBS = {
    "store": "create_memory",
    "retrieve": "search_memory",
    "update": "update_memory",
    "forget": "delete_memory",
}
Method = Callable[..., Any]
Attributes = dict[str, str | int | float | bool]

_taken_back: list[Callable[[], None]] = []


def instrument(
    tracer_provider: TracerProvider | None = None, *, calls: bool = False, content: bool = False
) -> None:
    """Traces all contexts and memories of this process from now on; a second call changes how."""
    uninstrument()
    tracer = trace.get_tracer("refold", refold.__version__, tracer_provider)
    tracing = _Tracing(tracer, content=content)
    _put_around(refold.Context, "request", tracing.request)
    _put_around(refold.Context, "compact", tracing.compact)
    if calls:
        _put_around(refold.Context, "record", tracing.record)
        _put_around(refold.Context, "stream", tracing.stream)
    _put_around(ConversationSearch, "search", tracing.search)
    _put_around(compactor, "complete", tracing.compacted)
    for verb, operation in MEMORY_VERBS.items():
        _put_around(SemanticMemory, verb, functools.partial(tracing.memory, operation))


def uninstrument() -> None:
    """Traces no longer."""
    while _taken_back:
        _taken_back.pop()()


def _put_around(owner: Any, name: str, traced: Method) -> None:
    """Has calls of a method go through `traced`, which is given the method and its arguments."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def around(*given: Any, **named: Any) -> Any:
        return traced(method, *given, **named)

    setattr(owner, name, around)
    _taken_back.append(lambda: setattr(owner, name, method))


class _Tracing:
    """Makes the spans. Each method is called with the traced one and its arguments."""

    def __init__(self, tracer: Tracer, *, content: bool) -> None:
        self._tracer, self._content = tracer, content
        self._asked_ns: WeakKeyDictionary[refold.Context, int] = WeakKeyDictionary()

    def request(self, method: Method, context: refold.Context, *given: Any, **named: Any) -> Any:
        with self._span("refold request", _identity(context)) as span:
            request = method(context, *given, **named)
            self._describe_page(span, context)
        self._asked_ns[context] = time.time_ns()
        return request

    def compact(self, method: Method, context: refold.Context, *given: Any, **named: Any) -> Any:
        with self._span("refold compact", _identity(context)) as span:
            receipt = method(context, *given, **named)
            span.set_attributes(_of_receipt(receipt))
            return receipt

    def compacted(self, method: Method, log: Any, receipt: Receipt, bill: Any) -> Any:
        """A compaction was carried out: an event of whatever span is open."""
        trace.get_current_span().add_event("refold.compaction", _of_receipt(receipt))
        return method(log, receipt, bill)

    def record(self, method: Method, context: refold.Context, *given: Any, **named: Any) -> Any:
        events = method(context, *given, **named)
        self._call(context, events)
        return events

    def stream(self, method: Method, context: refold.Context, response: Any) -> Iterator[Any]:
        head = context.view.head
        yield from method(context, response)
        self._call(context, context.log.events(after=head))

    def search(self, method: Method, search: Any, query: str, **named: Any) -> Any:
        with self._span("retrieval", {"gen_ai.operation.name": "retrieval"}) as span:
            hits = method(search, query, **named)
            span.set_attribute("refold.search.snippets", len(hits))
            self._tell(span, "gen_ai.retrieval.query.text", query)
            return hits

    def memory(
        self, operation: str, method: Method, memory: SemanticMemory, *given: Any, **named: Any
    ) -> Any:
        about: Attributes = {"gen_ai.operation.name": operation}
        about["refold.memory.scope"] = memory.scope
        with self._span(operation, about) as span:
            answer = method(memory, *given, **named)
            if isinstance(answer, list):
                span.set_attribute("refold.memory.hits", len(answer))
            self._tell(span, "refold.memory.entry", [*given, *named.values()])
            return answer

    # --- what spans have in common ---

    def _span(self, name: str, attributes: Attributes) -> AbstractContextManager[Span]:
        span: AbstractContextManager[Span]
        span = self._tracer.start_as_current_span(name, attributes=attributes)
        return span

    def _tell(self, span: Span, name: str, content: Any) -> None:
        if self._content:
            told = content if isinstance(content, str) else msgspec.json.encode(content).decode()
            span.set_attribute(name, told)

    def _describe_page(self, span: Span, context: refold.Context) -> None:
        view = context.view
        span.set_attribute("refold.page.tokens", view.tokens)
        span.set_attribute("refold.page.messages", len(view.slots))
        span.set_attribute("refold.window.tokens", context.budget.window)
        if self._content:
            shown = [_content_of(slot.message) for slot in view.slots]
            self._tell(span, "gen_ai.input.messages", shown)

    def _call(self, context: refold.Context, events: Iterable[Event]) -> None:
        """The span of the model's call: from the request until its answer was recorded."""
        usages = [body for event in events if isinstance(body := decode(event), Usage)]
        asked_ns = self._asked_ns.pop(context, None)
        if not usages or asked_ns is None:
            return
        about = _identity(context) | {"gen_ai.operation.name": "chat"} | _of_usage(usages[-1])
        name = f"chat {context.view.model}".strip()
        kind = SpanKind.CLIENT
        self._tracer.start_span(name, kind=kind, start_time=asked_ns, attributes=about).end()


def _identity(context: refold.Context) -> Attributes:
    model = context.view.model
    about: Attributes = {"gen_ai.conversation.id": context.id}
    if model:
        provider = model_info(model).provider
        about["gen_ai.request.model"] = model
        about["gen_ai.provider.name"] = PROVIDERS.get(provider, provider)
    return about


def _of_receipt(receipt: Receipt) -> Attributes:
    return {
        "refold.compaction.strategy": receipt.strategy,
        "refold.compaction.tokens_before": receipt.tokens_before,
        "refold.compaction.tokens_after": receipt.tokens_after,
        "refold.compaction.batch": receipt.batch,
    }


def _of_usage(usage: Usage) -> Attributes:
    """The conventions count cached tokens among those read, and so do we."""
    return {
        "gen_ai.response.model": usage.model,
        "gen_ai.response.id": usage.response,
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
    }


def _content_of(message: Message) -> dict[str, Any]:
    """A message in the shape that the conventions have for contents."""
    return {"role": message.role, "parts": [_part(block) for block in message.blocks]}


def _part(block: Any) -> dict[str, Any]:
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
