"""Spans as OpenTelemetry's real SDK collects them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import refold
from refold import aio
from refold.edges.adapters.opentelemetry import instrument, uninstrument

MODEL = "claude-sonnet-5-5"
SECRET_WORD = "heliotrope"


@pytest.fixture
def exporter():
    collected = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(collected))
    collected.provider = provider
    yield collected
    uninstrument()


@pytest.fixture
def context(tmp_path):
    with refold.open("a", store=f"sqlite:{tmp_path}/a.db", model=MODEL, window=16_000) as opened:
        yield opened


def talk(context, turns: int = 3, words: int = 4) -> None:
    for turn in range(turns):
        text = f"question {turn} about the {SECRET_WORD} " * words
        context.append({"role": "user", "content": text})
        context.append({"role": "assistant", "content": f"answer {turn} " * words})


def answer(text: str = "Because of the clock.") -> dict[str, object]:
    usage = {"input_tokens": 10, "output_tokens": 7, "cache_read_input_tokens": 90}
    usage["cache_creation_input_tokens"] = 0
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL}
    return message | {"content": [{"type": "text", "text": text}], "usage": usage}


def named(exporter, name: str):
    return [span for span in exporter.get_finished_spans() if span.name == name]


def test_a_request_tells_how_full_the_page_is(exporter, context):
    instrument(exporter.provider)
    talk(context)
    context.request()
    [span] = named(exporter, "refold request")
    assert span.attributes["gen_ai.conversation.id"] == "a"
    assert span.attributes["gen_ai.request.model"] == MODEL
    assert span.attributes["gen_ai.provider.name"] == "anthropic"
    assert span.attributes["refold.page.messages"] == 6
    assert span.attributes["refold.page.tokens"] == context.view.tokens
    assert span.attributes["refold.window.tokens"] == 16_000


def test_a_compaction_is_an_event_of_the_span_it_happens_in(exporter, context):
    instrument(exporter.provider)
    talk(context, turns=60, words=60)
    context.request()
    [span] = named(exporter, "refold request")
    [event] = [event for event in span.events if event.name == "refold.compaction"]
    [batch] = context.log.batches()
    assert event.attributes["refold.compaction.batch"] == batch.id
    assert (
        event.attributes["refold.compaction.tokens_after"]
        < event.attributes["refold.compaction.tokens_before"]
    )


def test_a_compaction_by_hand_has_a_span(exporter, context):
    instrument(exporter.provider)
    talk(context, turns=20, words=30)
    receipt = context.compact(target=2_000)
    [span] = named(exporter, "refold compact")
    assert span.attributes["refold.compaction.tokens_after"] == receipt.tokens_after


def test_searches_of_the_caller_and_of_the_model_are_traced(exporter, context):
    instrument(exporter.provider)
    talk(context)
    context.search("question")
    tool = context.toolbox
    tool.call("refold_search", {"query": "question"})
    spans = named(exporter, "retrieval")
    assert len(spans) == 2
    assert all(span.attributes["refold.search.snippets"] > 0 for span in spans)


def test_memory_has_the_operations_of_the_conventions(exporter, context):
    instrument(exporter.provider)
    entry = context.memory.store("The port is 6432")
    context.memory.retrieve("port")
    context.memory.update(entry.id, "The port is 7432")
    context.memory.forget(entry.id)
    for operation in ("create_memory", "search_memory", "update_memory", "delete_memory"):
        [span] = named(exporter, operation)
        assert span.attributes["gen_ai.operation.name"] == operation


def test_no_content_leaves_unless_it_is_asked_for(exporter, context):
    instrument(exporter.provider)
    talk(context)
    context.request()
    context.search(SECRET_WORD)
    context.memory.store(f"the word is {SECRET_WORD}")
    context.memory.retrieve(SECRET_WORD)
    assert SECRET_WORD not in "".join(span.to_json() for span in exporter.get_finished_spans())
    instrument(exporter.provider, content=True)
    context.request()
    context.search(SECRET_WORD)
    shown = json.loads(named(exporter, "refold request")[-1].attributes["gen_ai.input.messages"])
    assert shown[0]["role"] == "user"
    assert SECRET_WORD in shown[0]["parts"][0]["content"]
    asked = named(exporter, "retrieval")[-1].attributes["gen_ai.retrieval.query.text"]
    assert asked == SECRET_WORD


@pytest.mark.parametrize("way", ["record", "stream"])
def test_calls_are_traced_on_wish_with_their_usage(exporter, context, way):
    instrument(exporter.provider, calls=True)
    talk(context, turns=1)
    context.append({"role": "user", "content": "and now?"})
    context.request()
    if way == "record":
        context.record(answer())
    else:
        list(context.stream(chunks()))
    [span] = named(exporter, f"chat {MODEL}")
    assert span.kind is SpanKind.CLIENT
    assert span.attributes["gen_ai.usage.input_tokens"] == 100
    assert span.attributes["gen_ai.usage.output_tokens"] == 7
    assert span.attributes["gen_ai.usage.cache_read.input_tokens"] == 90
    assert span.start_time >= named(exporter, "refold request")[0].end_time


def chunks():
    told = answer("")
    yield {"type": "message_start", "message": told | {"content": []}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}
    yield {"type": "content_block_stop", "index": 0}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 7},
    }
    yield {"type": "message_stop"}


def test_an_error_is_that_of_the_span_and_still_raised(exporter, context):
    instrument(exporter.provider)
    with pytest.raises(refold.Invalid):
        context.search("x", limit=-1)
    [span] = named(exporter, "retrieval")
    assert span.status.status_code is StatusCode.ERROR


def test_spans_hang_together_also_in_async_code(exporter, tmp_path):
    instrument(exporter.provider)
    tracer = trace.get_tracer("test", tracer_provider=exporter.provider)

    async def loop() -> None:
        async with await aio.open("a", store=f"sqlite:{tmp_path}/a.db", model=MODEL) as context:
            await context.append({"role": "user", "content": "hi"})
            with tracer.start_as_current_span("turn"):
                await context.request()

    asyncio.run(loop())
    [span], [turn] = named(exporter, "refold request"), named(exporter, "turn")
    assert span.parent.span_id == turn.context.span_id


def test_nothing_is_traced_twice_or_after_the_end(exporter, context):
    instrument(exporter.provider)
    instrument(exporter.provider)
    talk(context)
    context.request()
    assert len(named(exporter, "refold request")) == 1
    uninstrument()
    context.request()
    assert len(named(exporter, "refold request")) == 1


def test_the_guide_works_when_pasted():
    code = 'from tests.real.guides import run_guide; run_guide("opentelemetry.md")'
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert '"name": "refold request"' in done.stdout
