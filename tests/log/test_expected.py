"""An act that was decided at one head is refused once the log has moved on; and an undone
compaction names those that still cover its messages."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

import refold
from refold.core.model import Event
from refold.errors import Conflict
from refold.stores.in_memory import MemoryStore
from tests.turns import opened, talk, work

Act = Callable[[refold.Context, int | None], object]

ACTS: dict[str, Act] = {
    "pin": lambda context, expect: context.pin(2, expect=expect),
    "unpin": lambda context, expect: context.pin(2, on=False, expect=expect),
    "hide": lambda context, expect: context.hide(2, 3, expect=expect),
    "undo": lambda context, expect: context.undo(expect=expect),
    "undo a batch": lambda context, expect: context.undo(_batch(context), expect=expect),
    "redo": lambda context, expect: context.redo(expect=expect),
    "restore": lambda context, expect: context.restore(4, expect=expect),
    "clear": lambda context, expect: context.clear(expect=expect),
    "compact": lambda context, expect: context.compact(target=600, expect=expect),
    "compact a span": lambda context, expect: context.compact(
        span=(_message(context),) * 2, summary="a summary", expect=expect
    ),
}


def _batch(context: refold.Context) -> str:
    return next(batch.id for batch in context.log.batches() if batch.live)


def _message(context: refold.Context) -> int:
    return [slot.seq for slot in context.view.slots if not slot.standin][-2]


class Racing(MemoryStore):
    """Another writer appends just before an append of ours."""

    race: Callable[[], object] | None = None

    def append(self, conversation: str, events: list[Event], *, expect: int) -> None:  # type: ignore[override]
        if self.race is not None:
            race, self.race = self.race, None
            race()
        super().append(conversation, events, expect=expect)


def prepared(store: MemoryStore) -> refold.Context:
    """A conversation in which every act changes something."""
    context = opened(store)  # type: ignore[arg-type]
    talk(context, 12, size=900)
    context.compact(target=1_500)
    context.hide(context.view.slots[-4].seq)
    context.undo()
    return context


def test_every_act_can_expect_a_head() -> None:
    acts = {act.split()[0] for act in ACTS} - {"unpin"}
    takes = {
        name
        for name in dir(refold.Context)
        if callable(getattr(refold.Context, name)) and not name.startswith("__")
        if "expect" in inspect.signature(getattr(refold.Context, name)).parameters
    }
    assert takes == acts


@pytest.mark.parametrize("act", ACTS)
def test_an_act_that_expects_the_head_is_done(act: str) -> None:
    context = prepared(MemoryStore())
    if act == "unpin":
        context.pin(2)
    head = context.view.head
    ACTS[act](context, head)
    assert context.view.head > head


@pytest.mark.parametrize("act", ACTS)
def test_an_act_is_refused_after_the_log_moved_on(act: str) -> None:
    context = prepared(store := MemoryStore())
    head = context.view.head
    other = opened(store)  # type: ignore[arg-type]
    other.append({"role": "user", "content": "news"})
    with pytest.raises(Conflict, match=f"at #{head + 1}, .*#{head}") as refused:
        ACTS[act](context, head)
    assert refused.value.head == context.view.head == head + 1
    assert "nothing was changed" in refused.value.hint
    ACTS[act](context, None)  # without it, acts of several writers go on as before


@pytest.mark.parametrize("act", ACTS)
def test_a_writer_that_comes_in_between_makes_no_difference(act: str) -> None:
    context = prepared(store := Racing())
    if act == "unpin":
        context.pin(2)
    other = opened(store)  # type: ignore[arg-type]
    head = context.view.head
    store.race = lambda: other.append({"role": "user", "content": "news"})
    with pytest.raises(Conflict, match=f"#{head}"):
        ACTS[act](context, head)
    assert context.view.head == head + 1
    context.append({"role": "user", "content": "and on"})
    assert context.view.head == head + 2


def test_undoing_an_older_compaction_names_those_that_cover_it() -> None:
    context = opened()
    batches = []
    for _ in range(4):
        talk(context, 8, size=900)
        batches.append(context.compact("gist", target=1_500).batch)
    page = context.page()
    assert [batch.covered_by for batch in context.log.batches()] == [*batches[1:], ""]
    undone = context.undo(batches[1])
    assert undone.covered_by == (*batches[2:],)
    assert context.page() == page and undone.tokens_after == undone.tokens_before
    assert context.undo(batches[3]).covered_by == ()
    assert context.undo(batches[2]).covered_by == ()
    assert len(context.page()) > len(page)
    live = [batch for batch in context.log.batches() if batch.live]
    assert [(batch.id, batch.covered_by) for batch in live] == [(batches[0], "")]


def test_a_compaction_of_other_messages_covers_nothing() -> None:
    context = opened()
    work(context, 6, size=3)
    seqs = [slot.seq for slot in context.view.slots]
    first = context.hide(seqs[0], seqs[1]).batch
    context.hide(seqs[4], seqs[5])
    assert context.undo(first).covered_by == ()
