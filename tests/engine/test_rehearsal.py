"""Rehearsals: an act costs what was rehearsed, and rehearsing writes nothing."""

from __future__ import annotations

import copy
from pathlib import Path
from random import Random
from typing import Any

import pytest

import refold
from refold.core.plan import price_of
from refold.engine.log_reader import Act
from refold.engine.rehearsal import COUNTS, perform
from refold.errors import Conflict, Invalid, NotFound, RefoldError
from refold.stores import open_store
from refold.stores.in_memory import MemoryStore, TrialStore
from tests.engine.test_read_only import listing
from tests.stores.places import url_in
from tests.stories import ARRANGEMENTS, Story
from tests.turns import talk, work

SEEDS = range(12)
SYSTEM = "You answer in one line."


def drawn(context: refold.Context, chance: Random, acts: list[Act]) -> tuple[Act, list[Any]]:
    """An act on this page: possible, or refused."""
    view, act = context.view, chance.choice(acts)
    seqs = [slot.seq for slot in view.slots] or [1]
    batches = [batch for _, batch in view.undoable if batch]
    match act:
        case "pin" | "unpin" | "hide":
            return act, [chance.choice(seqs)]
        case "restore":
            return act, [chance.randint(1, view.head)]
        case "undo":
            return act, chance.choice([[], batches[-1:], batches[:1], batches[::-1]])
    return act, []


def in_memory(store: Any) -> Any:
    assert isinstance(store, MemoryStore)
    return copy.deepcopy((store.logs, store.contents))


@pytest.mark.parametrize("seed", SEEDS)
def test_an_act_costs_what_was_rehearsed(seed: int) -> None:
    chance = Random(seed)
    story = Story(seed, chance.choice(list(ARRANGEMENTS.values())))
    # A writer is not asked by a rehearsal, so a compaction would have other summaries.
    acts = [act for act in COUNTS if story.given["writer"] is None or act != "compact"]
    steps = [story.grow, story.compact, *(chance.choice(story.steps()) for _ in range(10))]
    for step in steps:
        step()
        context = story.context
        for _ in range(3):
            act, what = drawn(context, chance, acts)
            before, kept = context.view, in_memory(story.store)
            is_expired = context._model.moment().is_expired(context._open.state)
            try:
                tried = context.log.rehearse(act, *what)
            except RefoldError as error:
                assert in_memory(story.store) == kept
                with pytest.raises(type(error)):
                    perform(context, act, what, expect=before.head)
                continue
            assert in_memory(story.store) == kept and context.view == before
            perform(context, act, what, expect=tried.head)
            after, told = context.view, (seed, act, what)
            assert tried.tokens_after == context.stats().current, told
            assert tried.slots_after == len(after.slots), told
            assert tried.changes_page == (before.slots != after.slots), told
            assert tried.is_due == (context.stats().due == "compact"), told
            whole = [
                {slot.seq for slot in one.slots if not slot.standin} for one in (before, after)
            ]
            assert set(tried.leaving) == whole[0] - whole[1], told
            assert set(tried.returning) == whole[1] - whole[0], told
            per_token = None
            if tried.price.cost_dollars is not None and tried.price.cost_tokens:
                per_token = tried.price.cost_dollars / tried.price.cost_tokens
            price = price_of(before, after, per_token=per_token, expired=is_expired)
            assert tried.price.rewritten_tokens == price.rewritten_tokens, told
            assert tried.price.kept_upto == price.kept_upto, told
            assert tried.price.cost_tokens == price.cost_tokens, told
            if not context.view.slots or act in ("clear", "hide", "restore"):
                context.append({"role": "user", "content": "Go on."})


@pytest.mark.parametrize("kind", ["sqlite", "files"])
@pytest.mark.parametrize("read_only", [False, True])
def test_no_byte_of_a_store_changes(kind: str, read_only: bool, tmp_path: Path) -> None:
    url = url_in(tmp_path, kind)
    with refold.open("work", store=url, window=24_000, embedder=False) as context:
        work(context, 30)
        context.compact()
        talk(context, 5)
        head = context.view.head
    with refold.open("work", store=url, read_only=read_only, embedder=False) as context:
        before = listing(tmp_path, beside=True)
        for act in COUNTS:
            what = {"pin": [head], "unpin": [head], "hide": [head - 4], "restore": [head // 2]}
            tried = context.log.rehearse(act, *what.get(act, []))
            assert tried.head == head
            assert listing(tmp_path, beside=True) == before, act


def test_the_price_says_where_the_cache_breaks_and_what_comes_back() -> None:
    context = refold.open("work", store="memory:", model="claude-sonnet-4-5", system=SYSTEM)
    talk(context, 10)
    first, *_, last = [slot.seq for slot in context.view.slots]
    tried = context.log.rehearse("hide", first, first + 3)
    assert tried.leaving == (first, first + 1, first + 2, first + 3) and not tried.returning
    assert tried.breaks_at == 0
    assert tried.request_dollars and tried.later_dollars and tried.later_dollars < 0
    kept = context.log.rehearse("pin", last)
    assert kept.breaks_at is None and not kept.changes_page and kept.price.cost_dollars == 0
    assert kept.request_dollars and kept.later_dollars == 0
    assert kept.request_dollars < tried.request_dollars
    middle = [slot.seq for slot in context.view.slots][6]
    assert context.log.rehearse("hide", middle).breaks_at == middle
    # A page that only ends earlier is in the cache as it is.
    earlier = context.log.rehearse("restore", last - 2)
    assert earlier.breaks_at is None and earlier.leaving == (last - 1, last)
    batch = context.hide(first, first + 3).batch
    assert context.log.rehearse("undo", batch).returning == tried.leaving


def test_a_restored_system_prompt_breaks_the_whole_cache() -> None:
    context = refold.open("work", store="memory:", model="claude-sonnet-4-5", system=SYSTEM)
    talk(context, 3)
    head = context.view.head
    context.update(system=SYSTEM * 2)
    talk(context, 1)
    tried = context.log.rehearse("restore", head)
    assert tried.breaks_at == 0 and tried.price.kept_messages == 0
    context.restore(head)
    assert tried.price.rewritten_tokens == context.view.tokens


def test_metadata_that_waits_to_be_written_counts() -> None:
    context = refold.open("work", store="memory:", window=50_000)
    talk(context, 3)
    context.update(window=9_000, model="gpt-4o", system=SYSTEM)
    pending = list(context._open.pending)
    tried = context.log.rehearse("pin", context.view.slots[0].seq)
    assert tried.window == 9_000 and tried.tokens_after == context.stats().current
    assert context._open.pending == pending


def test_an_act_after_other_writers_is_a_conflict() -> None:
    store = open_store("memory:")
    with refold.open("work", store=store) as context, refold.open("work", store=store) as other:
        talk(context, 3)
        tried = context.log.rehearse("clear")
        talk(other, 1)
        with pytest.raises(Conflict):
            context.clear(expect=tried.head)
        assert context.log.rehearse("clear").head > tried.head


@pytest.mark.parametrize(
    ("act", "what", "given"),
    [("pin", [], {}), ("hide", [1, 2, 3], {}), ("redo", [1], {}), ("undo", [], {"target": 3}),
     ("erase", [1], {}), ("compact", [], {"no_such_setting": 1}), ("compact", ["no-such"], {})],
)  # fmt: skip
def test_what_is_no_act_is_refused(act: Any, what: list[Any], given: dict[str, Any]) -> None:
    context = refold.open("work", store="memory:")
    talk(context, 2)
    with pytest.raises((Invalid, NotFound)):
        context.log.rehearse(act, *what, **given)


def test_nothing_to_undo_is_falsy_and_an_empty_log_can_be_rehearsed() -> None:
    context = refold.open("work", store="memory:")
    assert not context.log.rehearse("undo").undone and context.log.rehearse("compact").head == 0
    talk(context, 2)
    assert not context.log.rehearse("redo").undone


def test_a_trial_reads_the_real_contents_and_keeps_its_own() -> None:
    real = open_store("memory:")
    digest = real.put([b"real"])
    with refold.open("work", store=real) as context:
        talk(context, 2)
        head = context.view.head
        trial = TrialStore(real, "work", head)
        talk(context, 1)
        own = trial.put([b"own"])
        assert b"".join(trial.get(digest)) == b"real" and b"".join(trial.get(own)) == b"own"
        with pytest.raises(NotFound):
            real.get(own)
        assert trial.head("work") == head and trial.conversation("work").head == head
        assert trial.read("work") == real.read("work", last=head)
