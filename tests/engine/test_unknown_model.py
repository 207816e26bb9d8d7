"""Y-05: of a model that no table knows, it is said once which window is assumed."""

from __future__ import annotations

from typing import Any

import pytest

import refold
from tests.scripted import heard_by


def test_an_unknown_model_is_told_once_however_often_something_is_set() -> None:
    context = refold.open("work", store="memory:", model="nobody-knows")
    heard = heard_by(context)
    context.append({"role": "user", "content": "hi"})
    for n in range(3):
        context.update(title=f"title {n}")
        context.update(model="nobody-knows")
        context.append({"role": "user", "content": "more"})
    told = [notice.reason for notice in heard if notice.name == "unknown-model"]
    assert told == ["nobody-knows: a window of 128,000 is assumed"]
    context.update(model="another-nobody")
    context.update(model="gpt-4o")
    context.update(model="nobody-knows")
    context.request()
    told = [notice.reason for notice in heard if notice.name == "unknown-model"]
    assert [reason.partition(":")[0] for reason in told] == ["nobody-knows", "another-nobody"]


def told_by(heard: list[refold.Notice]) -> list[str]:
    return [notice.reason for notice in heard if notice.name == "unknown-model"]


def test_no_model_at_all_is_told_once_with_the_first_request() -> None:
    context = refold.open("work", store="memory:")
    heard = heard_by(context)
    context.update(title="work")
    context.append({"role": "user", "content": "hi"})
    assert told_by(heard) == []
    for _ in range(3):
        context.request()
    assert told_by(heard) == ["no model is named: a window of 128,000 is assumed"]


@pytest.mark.parametrize("given", [{"window": 8_000}, {"model": "gpt-4o"}])
def test_whoever_says_the_window_or_the_model_is_told_nothing(given: dict[str, Any]) -> None:
    for later in (False, True):
        context = refold.open("work", store="memory:", **({} if later else given))
        heard = heard_by(context)
        context.update(**given)
        context.append({"role": "user", "content": "hi"})
        context.request()
        assert told_by(heard) == []
