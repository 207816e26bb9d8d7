"""A Context and its outputs: tools in the loop, and cleaned-up contents in verify, export,
import and close."""

from __future__ import annotations

import os
import time

import pytest

import refold
from refold.conversations.exporter import chunks_of
from refold.conversations.importer import import_document
from refold.conversations.verifier import verify
from refold.errors import NotFound
from refold.stores import open_store
from tests.toolruns import clean, forget_page, long, opened, ran


@pytest.mark.parametrize("by_append_result", [True, False])
def test_what_our_tools_give_is_never_a_stub(by_append_result):
    """Issue 5: not even where every other output is moved out, in whatever shape the result
    comes back."""
    context = refold.open("work", store="memory:", window=24_000, config={"offload_tokens": 5})
    id = ran(context, "\n".join(f"line {n}" for n in range(9_000)))
    context.update(tools=context.toolbox.tools("anthropic"))
    context.append({"role": "user", "content": "look"})
    call = {"type": "tool_use", "id": "t1", "name": "refold_unfold", "input": {"handle": id}}
    context.append({"role": "assistant", "content": [call]})
    answer = context.toolbox.call("refold_unfold", {"handle": id})
    if by_append_result:
        context.append_result("t1", answer)
    else:
        context.append(
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": answer}],
            }
        )
    assert [artifact.id for artifact in context.artifacts.list()] == [id]
    assert "#" in context.toolbox.call("refold_search", '{"query": "look"}')


@pytest.fixture
def cleaned_up(tmp_path):
    """A store with a conversation of two outputs, the first of them cleaned up."""
    store = open_store(f"sqlite:{tmp_path}/refold.db")
    context = opened(store)
    gone = ran(context, long("first"))
    forget_page(context)
    kept = ran(context, long("second"))
    assert [item.artifact.id for item in clean(store, keep_count=0).removed] == [gone]
    yield store, context, gone, kept
    store.close()


def test_a_cleanup_is_no_damage(cleaned_up):
    """T-19: verify knows it; what is missing without one is still reported."""
    store, context, gone, kept = cleaned_up
    assert [artifact.id for artifact in context.artifacts.list()] == [gone, kept]
    assert verify(store).problems == ()
    os.unlink(store.location(context.artifacts.list()[1].artifact.digest))
    assert [(problem.part, kept in problem.what) for problem in verify(store).problems] == [
        ("artifact", True)
    ]


def test_an_export_goes_without_what_was_cleaned_up(cleaned_up, tmp_path):
    store, _, gone, kept = cleaned_up
    document = b"".join(chunks_of(store, "work", "json"))
    other = open_store(f"sqlite:{tmp_path}/other/refold.db")
    import_document(other, document)
    assert verify(other).problems == ()
    twin = refold.Context(other, "work")
    assert twin.unfold(kept).content == long("second").encode()
    with pytest.raises(NotFound, match="was cleaned up on"):
        twin.unfold(gone)
    assert "Cleaned up on 20" in b"".join(chunks_of(store, "work", "markdown")).decode()
    other.close()


def test_closing_cleans_up_by_the_configuration(tmp_path):
    """T-19: at the end of a session, within the bounds; what is new stays until the next time."""
    given = {
        "store": f"sqlite:{tmp_path}/refold.db",
        "config": {"offload_tokens": 50, "artifacts_count": 0},
    }
    with refold.open("work", **given) as context:
        id = ran(context, long("first"))
        forget_page(context)
    with refold.open("work", **given) as context:
        assert context.unfold(id).content
        context._open.log.clock = lambda: time.time_ns() // 1_000_000 + 3_600_000
    with (
        refold.open("work", **given) as context,
        pytest.raises(NotFound, match="was cleaned up on"),
    ):
        context.unfold(id)
