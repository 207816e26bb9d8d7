"""What `update` set is seen at once, though it is written with the next append."""

from __future__ import annotations

import pytest

import refold
from refold.errors import Invalid, OverBudget
from refold.stores import open_store


def test_what_was_set_is_seen_before_it_is_written() -> None:
    context = refold.open("c", store="memory:", model="gpt-4o")
    context.append({"role": "user", "content": "hi"})
    head = context.view.head
    context.update(title="Hello", tags=["a"], metadata={"k": 1}, model="gpt-4.1")
    view = context.view
    assert (view.title, view.tags, view.metadata, view.model) == (
        "Hello",
        ("a",),
        {"k": 1},
        "gpt-4.1",
    )
    assert (context.stats().title, context.stats().model) == ("Hello", "gpt-4.1")
    assert view.head == head
    context.append({"role": "user", "content": "more"})
    assert (context.view.title, context.view.model) == ("Hello", "gpt-4.1")


def test_an_unknown_model_is_told_once() -> None:
    context = refold.open("c", store="memory:")
    told: list[str] = []
    context.on("unknown-model", lambda notice: told.append(notice.reason))
    context.update(model="mine-1")
    context.update(title="a")
    context.append({"role": "user", "content": "hi"})
    context.compact("gist", target=1)
    context.update(tags=["b"])
    context.update(model="mine-2")
    assert [reason.partition(":")[0] for reason in told] == ["mine-1", "mine-2"]


def test_a_page_that_is_too_large_names_compact_where_nothing_compacts_by_itself() -> None:
    config = {"auto": False}
    context = refold.open("c", store="memory:", window=2_000, counter=len, config=config)
    for n in range(30):
        context.append({"role": "user", "content": f"question {n} " + "words " * 30})
    with pytest.raises(OverBudget, match="compact the page"):
        context.request()


def test_a_handle_names_a_place_to_fork_from_and_a_span_to_adopt() -> None:
    context = refold.open("c", store="memory:")
    for n in range(4):
        context.append({"role": "user", "content": f"question {n}"})
        context.append({"role": "assistant", "content": f"answer {n}"})
    assert [slot.seq for slot in context.fork("d", at="#2").view.slots] == [1, 2]
    assert context.compact(span=("#2", "#5"), summary="what was said", author="me").batch


def test_what_is_printed_is_one_line() -> None:
    context = refold.open("c", store="memory:")
    [event] = context.append({"role": "user", "content": "hi"})
    assert repr(context) == "<Context 'c': 1 message in memory:>"
    assert repr(event).startswith("<Event #1 message by user, ")
    assert repr(context.compact()).startswith("<Receipt: nothing changed (")
    for n in range(9):
        context.append({"role": "user", "content": f"question {n} " + "words " * 90})
        context.append({"role": "assistant", "content": f"answer {n} " + "words " * 90})
    receipt = context.compact("gist", target=200)
    assert repr(receipt).startswith(f"<Receipt {receipt.batch}: gist, ")


@pytest.mark.parametrize("name", ["compacted", "compact", "compaction"])
def test_a_notice_is_suggested_by_its_first_word(name: str) -> None:
    context = refold.open("c", store="memory:")
    with pytest.raises(Invalid, match="compaction-complete"):
        context.on(name, print)


def test_who_only_reads_leaves_the_log_as_it_is(tmp_path):
    url = f"sqlite:{tmp_path}/x.db"
    with refold.open("c", store=url, model="gpt-4o") as context:
        context.append({"role": "user", "content": "hello"})
    before = open_store(url).read("c")
    with refold.open("c", store=url, model="gpt-4o-mini", window=50_000, system="new") as context:
        assert context.view.slots
        context.stats()
    assert open_store(url).read("c") == before
    # What somebody says afterwards, or sets by hand, takes it along.
    with refold.open("c", store=url, window=50_000) as context:
        context.update(window=50_000)
    after = open_store(url).read("c")
    assert len(after) == len(before) + 1
    with refold.open("c", store=url, window=60_000) as context:
        context.append({"role": "user", "content": "x"})
    assert len(open_store(url).read("c")) == len(after) + 2
