"""`refold stats --cost`: what was billed, and why the provider read again what it could have cached."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import refold
from tests.edges.cli.rooms import as_json, run

pytestmark = pytest.mark.usefixtures("alone")
START = datetime(2026, 11, 17, 9, 0, tzinfo=UTC)
TOOL = {"name": "run", "description": "Runs.", "input_schema": {"type": "object"}}


class Talk:
    """A conversation whose calls are billed as the provider would."""

    def __init__(self, context: refold.Context) -> None:
        self.context, self.at, self.count = context, START, 0

    def call(
        self,
        *,
        cached: bool,
        model: str = "claude-sonnet-4-5",
        after_s: int = 10,
        meanwhile: Callable[[refold.Context], object] | None = None,
    ) -> None:
        self.at += timedelta(seconds=after_s)
        self.count += 1
        self.context.append({"role": "user", "content": "word " * 2_000}, at=self.at)
        self.context.request()
        size = self.context.stats().current
        read = size - 2_100 if cached else 0
        if meanwhile is not None:
            meanwhile(self.context)
        self.context.record(
            {
                "id": f"m{self.count}",
                "type": "message",
                "role": "assistant",
                "model": model,
                "content": [{"type": "text", "text": "yes"}],
                "stop_reason": "end_turn",
                "usage": {
                    "input_tokens": size - read,
                    "cache_read_input_tokens": read,
                    "output_tokens": 5,
                },
            },
            at=self.at,
        )


def bill(url: str, talk: Any) -> Any:
    with refold.open("talk", store=url, model="claude-sonnet-4-5", system="Be brief") as context:
        made = Talk(context)
        made.call(cached=False)
        made.call(cached=True)
        talk(made)
    return as_json("stats", "--cost", "talk")


def test_a_prefix_that_held_never_broke(url: str) -> None:
    found = bill(url, lambda talk: talk.call(cached=True))
    assert found["breaks"] == [] and found["broken"] == 0
    [one] = found["models"]
    assert one["calls"] == 3 and found["cost"] == pytest.approx(one["cost"])
    assert found["cost"] == pytest.approx(as_json("stats", "talk")["cost"])
    assert "The cached prefix never broke." in run("stats", "--cost", "talk").stdout


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda talk: talk.context.compact("hide", target=2_500), "compaction by hide (#"),
        (lambda talk: talk.context.update(system="Be long"), "another system prompt (#"),
        (lambda talk: talk.context.update(tools=[TOOL]), "other tools (#"),
        (lambda talk: None, "not known; the provider did not have it"),
    ],
)
def test_a_break_says_why_and_what_it_cost(url: str, change: Any, why: str) -> None:
    def talk(made: Talk) -> None:
        made.call(cached=True)
        change(made)
        made.call(cached=False)

    found = bill(url, talk)
    [broken] = found["breaks"]
    assert broken["why"].startswith(why) and broken["tokens"] >= 1_024
    # Sonnet: 3.00 dollars for a million tokens, 0.30 from the cache.
    assert broken["cost"] == pytest.approx(broken["tokens"] * 2.7e-6)
    text = run("stats", "--cost", "talk").stdout
    assert "The cached prefix broke 1 time, which cost $0." in text and why in text


def test_a_change_while_the_model_answered_is_a_reason_at_the_next_call(url: str) -> None:
    def talk(made: Talk) -> None:
        made.call(cached=True, meanwhile=lambda context: context.restore(context.view.head - 1))
        made.call(cached=False)

    [found] = bill(url, talk)["breaks"]
    assert "the page was restored" in found["why"]


def test_a_pause_and_another_model_are_reasons(url: str) -> None:
    def talk(made: Talk) -> None:
        made.call(cached=False, after_s=3_600)
        made.call(cached=False, model="claude-opus-4-5")

    pause, model = bill(url, talk)["breaks"]
    assert pause["why"] == "a pause of 60 minutes: the cache had expired"
    assert model["why"] == "another model (claude-opus-4-5)"


def test_where_nothing_was_billed_or_cached_it_says_so(url: str) -> None:
    assert "No call used the provider's cache." in run("stats", "--cost", "fix-login").stdout
    with refold.open("quiet", store=url) as context:
        context.append({"role": "user", "content": "hello"})
    assert run("stats", "--cost", "quiet").stdout == "No call was billed.\n"


def test_tools_are_listed_in_every_shape_with_their_share(url: str) -> None:
    tools = [
        TOOL,
        {"type": "function", "function": {"name": "read", "description": "Reads.\nMuch."}},
    ]
    with refold.open("tools", store=url, tools=tools) as context:
        context.append({"role": "user", "content": "hello"})
    found = as_json("stats", "--tools", "tools")
    assert [(one["name"], one["description"][:5]) for one in found["tools"]] == [
        ("read", "Reads"),
        ("run", "Runs."),
    ]
    assert 0 < sum(one["tokens"] for one in found["tools"]) <= found["tokens"]
    assert "in every request." in run("stats", "--tools", "tools").stdout
    assert (
        run("stats", "--tools", "fix-login").stdout
        == "No tools of this conversation are recorded.\n"
    )


def test_tools_that_nobody_called_in_a_project_are_counted_and_priced(url: str) -> None:
    tools = [{**TOOL, "name": name, "description": name * 40} for name in ("run", "read", "grep")]
    for id, called in (("first", "grep"), ("second", "run")):
        with refold.open(id, store=url, tools=tools, model="claude-opus-4-5") as context:
            context.update(metadata={"cwd": "/work/shop"})
            context.append({"role": "user", "content": "hello"})
            block = {"type": "tool_use", "id": f"{id}-1", "name": called, "input": {}}
            context.append({"role": "assistant", "content": [block]})
            context.append_result(f"{id}-1", "done")
            Talk(context).call(cached=False)
    found = as_json("stats", "--tools", "second")
    counts = {one["name"]: (one["calls"], one["project_calls"]) for one in found["tools"]}
    assert counts == {"run": (1, 1), "read": (0, 0), "grep": (0, 1)}
    [read] = [one for one in found["tools"] if one["name"] == "read"]
    assert found["unused"] == read["tokens"] > 0
    assert found["unused_cost"] == pytest.approx(found["unused"] * 5.0 / 1e6)  # not cached
    assert "1 tool never called in this project" in run("stats", "--tools", "second").stdout


def test_a_call_whose_report_names_no_model_was_made_with_the_conversations(url: str) -> None:
    with refold.open("plain", store=url, model="gpt-4o") as context:
        context.append({"role": "user", "content": "hi"})
        context.request()
        said = {"role": "assistant", "content": "hello"}
        choice = {"index": 0, "message": said, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 2}
        context.record({"object": "chat.completion", "choices": [choice], "usage": usage})
    [bill] = as_json("stats", "--cost", "plain")["models"]
    assert bill["model"] == "gpt-4o"
