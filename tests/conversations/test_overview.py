"""The overview of a store agrees with every opened conversation, and reads no log for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.conversations import Overview
from refold.conversations.overview import overview_of
from refold.errors import Invalid
from refold.stores import open_store

MODEL = "claude-sonnet-4-5"
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.integers(1, 400)),
        st.tuples(st.just("report"), st.integers(0, 3_000)),
        st.sampled_from([("compact", 0), ("undo", 0), ("close", 0)]),
    ),
    min_size=1,
    max_size=25,
)


@given(steps=STEPS)
def test_a_row_agrees_with_the_opened_conversation(steps):
    store = open_store("memory:")
    context = refold.open("work", store=store, model=MODEL, writer=None)
    for step, size in steps:
        if step == "say":
            context.append({"role": "user", "content": "word " * size})
        elif step == "report" and context.view.slots:
            context.request()
            context.record(
                {"role": "assistant", "content": "yes"},
                usage={"input_tokens": size, "output_tokens": 5},
            )
        elif step == "compact":
            context.compact(target=200)
        elif step == "undo" and context.log.batches():
            context.undo()
        elif step == "close":
            context.close()
            context = refold.open("work", store=store, model=MODEL, writer=None)
    stats = context.stats()
    found = refold.conversations.list(store)
    if not context.view.head:
        assert found == []
        return
    [row] = found
    assert isinstance(row, Overview)
    assert (row.messages, row.tokens) == (stats.messages, stats.current)
    assert (row.peak, row.calls) == (stats.billed.peak, stats.billed.calls)
    assert row.cost == stats.cost
    assert (row.window, row.model, row.label) == (stats.window, MODEL, stats.title)
    assert row == refold.conversations.find(store, "work")


def test_the_peak_is_the_largest_reported_request():
    store = open_store("memory:")
    with refold.open("work", store=store, model=MODEL) as context:
        for size in (900, 4_000, 1_200):
            context.append({"role": "user", "content": "word " * 900})
            context.request()
            usage = {"input_tokens": size, "output_tokens": 5}
            context.record({"role": "assistant", "content": "yes"}, usage=usage)
    [row] = refold.conversations.list(store)
    assert row.peak == 4_000
    assert row.peak_fill == 4_000 / row.window


@pytest.mark.parametrize("reported", [0, 900, 4_000, 90_000])
def test_a_reported_request_is_the_peak_whatever_the_page_counts(reported):
    store = open_store("memory:")
    with refold.open("c", store=store, model="claude-sonnet-4-5") as context:
        context.append({"role": "user", "content": "word " * 8_000})
        if reported:
            usage = refold.Usage(input=reported, estimated=True)
            context.record({"role": "assistant", "content": "Yes."}, usage=usage)
    row = overview_of(store, store.conversation("c"))
    assert row.tokens is not None and row.tokens > 5_000
    assert row.peak_tokens == (reported or row.tokens)


class CountingStore:
    """Counts the events that are read through it."""

    def __init__(self, store):
        self.store, self.events = store, 0

    def __getattr__(self, name):
        return getattr(self.store, name)

    def read(self, conversation, **bounds):
        events = self.store.read(conversation, **bounds)
        self.events += len(events)
        return events


def test_a_row_reads_no_more_of_a_long_log_than_its_first_words():
    counting = CountingStore(open_store("memory:"))
    for id, messages in (("short", 5), ("long", 500)):
        with refold.open(id, store=counting.store) as context:
            for number in range(messages):
                context.append({"role": "user", "content": f"message {number}"})
        context.close()
    reads = []
    for id in ("short", "long"):
        counting.events = 0
        row = overview_of(counting, counting.conversation(id))
        reads.append(counting.events)
    assert row.messages == 500
    assert reads[1] <= reads[0]


def test_a_row_says_where_a_conversation_comes_from():
    store = open_store("memory:")
    with refold.open("parent", store=store) as parent:
        parent.update(metadata={"cwd": "/work/shop", "imported": "codex"})
        parent.append({"role": "user", "content": "Mend the basket"})
        parent.spawn("child", task="Look for the test").close()
        parent.fork("fork").close()
    rows = {row.id: row for row in refold.conversations.list(store)}
    assert (rows["parent"].project, rows["parent"].agent) == ("/work/shop", "codex")
    assert (rows["child"].part_of, rows["child"].parent) == ("parent", "")
    assert (rows["fork"].part_of, rows["fork"].parent) == ("", "parent")
    assert rows["parent"].label == "Mend the basket"


def test_a_list_has_a_limit():
    store = open_store("memory:")
    for number in range(5):
        with refold.open(f"c{number}", store=store) as context:
            context.append({"role": "user", "content": "hello"})
    all = [row.id for row in refold.conversations.list(store)]
    assert [row.id for row in refold.conversations.list(store, limit=2)] == all[:2]
    with pytest.raises(Invalid):
        refold.conversations.list(store, limit=-1)
