"""The active model: what a refusal taught about its window holds for it, and for no other."""

from __future__ import annotations

import pytest

import refold
from refold.core.model import Hide, Lesson
from refold.log.draft import Draft
from refold.log.log import Log
from refold.stores.in_memory import MemoryStore
from tests.refusals import Provider
from tests.turns import worked


def test_the_limit_in_the_error_holds_from_now_on():
    """C-82: maximum context length is 65536 → limit 65,536."""
    context = worked(model="gpt-4o", window=None)
    assert context.budget.window == 128_000
    assert context.recover("This model's maximum context length is 65536 tokens.")
    assert context.budget.window == 65_536
    assert context.budget.compact_at < 65_536
    context.update(model="gpt-4o", window=200_000)
    assert context.budget.window == 65_536


def test_a_limit_belongs_to_the_model_that_stated_it():
    """C-82, Y-84."""
    context = worked(model="gpt-4o", window=None)
    assert context.recover("This model's maximum context length is 65536 tokens.")
    context.update(model="claude-sonnet-4-5")
    assert context.budget.window > 65_536
    context.update(model="gpt-4o")
    assert context.budget.window == 65_536


@pytest.mark.parametrize("killed", [False, True])
def test_what_was_learnt_is_known_after_a_reopen_until_its_batch_is_reverted(tmp_path, killed):
    """C-82: by the bookmark or by the log."""
    url = f"sqlite:{tmp_path / 'x.db'}"
    context = worked(model="gpt-4o", window=None, store=url)
    for limit in (65_536, 70_000, 60_000):
        assert context.recover(f"This model's maximum context length is {limit} tokens.")
        for n in range(40):
            context.append({"role": "user", "content": f"more {n} " + "words and words " * 40})
    if not killed:
        context.close()
    again = refold.open("work", store=url, model="gpt-4o")
    assert again.budget.window == 60_000
    again.update(model="claude-sonnet-4-5")
    assert again.budget.window == 200_000
    again.update(model="gpt-4o")
    assert again.budget.window == 60_000
    again.undo(again.view.undoable[-1][1])
    assert again.budget.window == 65_536


def test_an_ordinary_compaction_teaches_nothing():
    context = worked()
    context.compact(target=2_000)
    assert context.view.lessons == {}


@pytest.mark.parametrize("limit", [-5, 0, 1, 255])
def test_a_log_that_teaches_an_absurd_limit_leaves_a_usable_one(limit):
    store = MemoryStore()
    context = worked(model="gpt-4o", store=store)
    slot = context.view.slots[2]
    lesson = Lesson(model="gpt-4o", limit=limit)
    edit = Hide(batch="b", span=slot.span, lesson=lesson)
    Log(store, context.id).append([Draft(body=edit, by="user")])
    assert context.view.lessons == {"gpt-4o": lesson}
    assert context.budget.window == 256


def test_a_larger_limit_than_the_window_teaches_nothing_about_it():
    context = worked(window=40_000)
    assert context.recover("maximum context length is 65536 tokens")
    assert context.budget.window == 40_000


def test_a_reserve_for_a_larger_window_leaves_room_in_the_learnt_one():
    context = worked(config={"reserve_tokens": 30_000})
    assert context.recover("maximum context length is 16384 tokens")
    assert 0 < context.budget.input_max < 16_384
    assert context.stats().current <= context.budget.input_max


def test_the_size_in_the_error_corrects_the_estimate_until_usage_is_reported():
    """C-82: the provider counts twice what we do."""
    context = worked()
    context.request("openai_chat")
    estimate = context.view.tokens
    stated = f"maximum context length is 30000 tokens. However, you requested {estimate * 2} tokens"
    assert context.recover(stated)
    assert context.budget.factor == pytest.approx(2.0)
    assert context.view.tokens * 2 <= context.budget.input_max
    context.record(Provider(100_000, per_sign=0.25).complete(context.request("openai_chat")))
    assert context.budget.factor < 1.5
