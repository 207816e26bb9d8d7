"""Thinking is sent under the very words it was thought under, or not at all.

Newer models bind what they thought to everything before it: system prompt, tools, and every
message, as it was said. Random stories with thinking on: answers with and without thinking, parallel
calls, requests in the middle of a loop, changed prompts and tools, compactions, undos and pins. Every
thinking block of every request must stand behind what stood before it when it was made.
"""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import refold
from refold.errors import RefoldError

MODEL = "claude-sonnet-5-5"
TOOLS = [
    {"name": name, "description": name, "input_schema": {"type": "object", "properties": {}}}
    for name in ("read", "run")
]
DEEDS = (
    "system", "tools", "note", "compact", "compact all", "undo", "redo", "say", "pin", "unpin",
    "hide", "clear", "restore", "restore to here",
)  # fmt: skip
# Deeds with each other, without a turn between them.
BACK_AND_FORTH = ("undo", "redo", "pin", "unpin", "hide", "take back")
Wire = dict[str, Any]

turns = st.lists(
    st.tuples(st.booleans(), st.integers(0, 2), st.sampled_from((*DEEDS, *[""] * 8))),
    min_size=1,
    max_size=25,
)


def plain(value: Any) -> Any:
    """The value without cache marks, and a text always as a list."""
    if isinstance(value, dict):
        held = {key: plain(one) for key, one in value.items() if key != "cache_control"}
        if isinstance(held.get("content"), str) and "role" in held:
            held["content"] = [{"type": "text", "text": held["content"]}]
        return held
    return [plain(one) for one in value] if isinstance(value, list) else value


class Story:
    def __init__(self, thinking: Wire) -> None:
        self.context = refold.open(
            "c", store="memory:", model=MODEL, window=24_000, system="S", tools=TOOLS
        )
        self.context.append({"role": "user", "content": "go"})
        self.thinking = thinking
        self.made: dict[str, str] = {}  # what stood before each thought, by its signature
        self.count = 0

    def turn(self, thinks: bool, calls: int, deed: str) -> None:
        request = plain(self.context.request("anthropic", thinking=self.thinking))
        self.check(request)
        self.count += 1
        number = self.count
        blocks: list[Wire] = []
        if thinks:
            signature = f"sig{number}"
            self.made[signature] = front(request, len(request["messages"]))
            blocks.append({"type": "thinking", "thinking": "hm", "signature": signature})
        for at in range(calls):
            blocks.append({"type": "tool_use", "id": f"t{number}-{at}", "name": "run", "input": {}})
        if not calls:
            blocks.append({"type": "text", "text": f"done {number}"})
        self.record(blocks, calls)
        for at in range(calls):
            self.context.append_result(f"t{number}-{at}", f"line {number}\n" * 20)
        if not calls:
            self.context.append({"role": "user", "content": f"next {number}"})
        self.do(deed)

    def record(self, blocks: list[Wire], calls: int) -> None:
        usage = {"input_tokens": self.context.stats().current, "output_tokens": 5}
        self.context.record(
            {
                "id": f"m{self.count}",
                "type": "message",
                "role": "assistant",
                "model": MODEL,
                "stop_reason": "tool_use" if calls else "end_turn",
                "content": blocks,
                "usage": usage,
            }
        )

    def do(self, deed: str) -> None:
        match deed:
            case "system":
                self.context.update(system=f"S{self.count}")
            case "tools":
                self.context.update(tools=TOOLS[:: 1 if self.count % 2 else -1])
            case "note":
                self.context.append({"role": "system", "content": f"note {self.count}"})
            case "compact":
                self.context.compact("gist")
            case "undo":
                self.context.undo()
            case "redo":
                self.context.redo()
            case "compact all":
                self.context.compact("gist", target=100)
            case "take back":
                self.context.restore(max(1, self.context.view.head - 9))
                self.context.undo()
            case "hide":
                with suppress(RefoldError):  # a pin, or the latest request
                    self.context.hide(self.said(3))
            case "clear":
                self.context.clear()
                self.context.append({"role": "user", "content": f"anew {self.count}"})
            case "restore":
                self.context.restore(max(1, self.context.view.head - 9))
                self.context.append({"role": "user", "content": f"from here {self.count}"})
            case "restore to here":
                self.context.restore(self.context.view.head)
            case "say":
                self.context.append({"role": "user", "content": f"also {self.count}"})
            case "pin":
                self.context.pin(self.said(7))
            case "unpin":
                self.context.pin(self.said(7), on=False)

    def said(self, step: int) -> int:
        """One of the messages of the log, another one at every turn."""
        events = [*self.context.log.events()]
        seqs = [event.seq for event in events if event.kind == "message"]
        return seqs[self.count * step % len(seqs)]

    def check(self, request: Wire) -> None:
        for at, message in enumerate(request["messages"]):
            for block in message["content"] if message["role"] == "assistant" else ():
                if block["type"] == "thinking":
                    assert front(request, at) == self.made[block["signature"]]


def front(request: Wire, at: int) -> str:
    """Everything before a message."""
    return json.dumps([request.get("system"), request.get("tools"), request["messages"][:at]])


@pytest.mark.parametrize(
    "thinking", [{"type": "adaptive"}, {"type": "enabled", "budget_tokens": 1_024}]
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(turns)
def test_thinking_stands_under_what_it_was_thought_under(thinking, story):
    told = Story(thinking)
    for thinks, calls, deed in story:
        told.turn(thinks, calls, deed)
    told.check(plain(told.context.request(thinking=told.thinking)))


@pytest.mark.parametrize("deeds", [*product(BACK_AND_FORTH, repeat=3)], ids=" ".join)
def test_thinking_goes_back_and_forth_with_its_page(deeds):
    told = Story({"type": "adaptive"})
    for _ in range(4):
        told.context.append({"role": "user", "content": "a long line\n" * 90})
        told.turn(thinks=False, calls=0, deed="")
    told.turn(thinks=True, calls=0, deed="compact all")
    told.turn(thinks=True, calls=0, deed="")
    for deed in deeds:
        told.do(deed)
    told.turn(thinks=True, calls=0, deed="redo")
    told.check(plain(told.context.request(thinking=told.thinking)))


@pytest.mark.parametrize("model", ["gpt-5", "gemini-3-pro-preview"])
def test_a_model_of_another_provider_may_stand_for_one_that_binds_its_thinking(model):
    """A restore takes the model back; the caller may go on with the later one by itself."""
    told = Story({"type": "adaptive"})
    told.context.update(model=model)
    for _ in range(4):
        told.turn(thinks=True, calls=0, deed="")
    told.context.hide(told.context.view.slots[2].seq)
    request = plain(told.context.request("anthropic", thinking=told.thinking))
    told.check(request)
    assert json.dumps(request).count('"signature"') == 1


@pytest.mark.parametrize("calls", [0, 2])
def test_an_undo_gives_back_the_page_with_its_thinking_byte_for_byte(calls):
    told = Story({"type": "adaptive"})
    for _ in range(12):
        told.turn(True, calls, "")
    before = told.context.request(thinking=told.thinking)
    assert json.dumps(before).count('"signature"') == 12
    told.context.compact("gist")
    compacted = told.context.request(thinking=told.thinking)
    assert json.dumps(compacted).count('"signature"') < 12
    told.context.undo()
    assert plain(told.context.request(thinking=told.thinking)) == plain(before)
    told.context.redo()
    assert plain(told.context.request(thinking=told.thinking)) == plain(compacted)


FRONTS = st.lists(
    st.tuples(
        st.sampled_from(
            [{"system": "S"}, {"system": "S2"}, {"tools": TOOLS}, {"tools": TOOLS[:1]}]
        ),
        st.sampled_from(["request", "turn", "undo", ""]),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=60, deadline=None)
@given(FRONTS, st.booleans())
def test_a_system_prompt_and_tools_that_return_give_back_the_request(updates, is_reopened):
    told = Story({"type": "adaptive"})
    told.context = refold.open("c", store="memory:", model=MODEL, system="S", tools=TOOLS)
    told.context.append({"role": "user", "content": "go"})
    for _ in range(3):
        told.turn(True, 1, "")
    before = plain(told.context.request(thinking=told.thinking))
    assert json.dumps(before).count('"signature"') == 3
    said = len(before["messages"])
    for update, deed in updates:
        told.context.update(**update)
        if deed == "request":
            told.check(plain(told.context.request(thinking=told.thinking)))
        elif deed == "turn":
            told.turn(True, 0, "")
        elif deed == "undo" and told.context.compact("hide", target=100).batch:
            told.context.undo()
    told.context.update(system="S", tools=TOOLS)
    context = told.context
    if is_reopened:
        context.request()
        context = refold.open("c", store=context._open.store)
    after = plain(context.request(thinking=told.thinking))
    told.check(after)
    assert after == {**before, "messages": [*before["messages"], *after["messages"][said:]]}


def test_an_edit_in_the_middle_leaves_what_was_thought_before_it():
    told = Story({"type": "adaptive"})
    for _ in range(6):
        told.turn(True, 0, "")
    said = [slot.seq for slot in told.context.view.slots]
    told.context.hide(said[6])  # the fourth thing that the user said
    request = plain(told.context.request(thinking=told.thinking))
    told.check(request)
    assert json.dumps(request).count('"signature"') == 3


def test_a_loop_that_was_said_as_text_stays_text_once_it_is_closed():
    told = Story({"type": "adaptive"})
    told.turn(False, 1, "")  # another model's call: said as text from now on
    told.turn(True, 0, "")  # thought under that, and the loop is closed
    request = plain(told.context.request(thinking=told.thinking))
    told.check(request)
    assert any(
        block["type"] == "thinking" for one in request["messages"] for block in one["content"]
    )


@pytest.mark.parametrize("deeds", [("compact", "pin"), ("pin", "compact", "unpin")])
def test_a_pin_that_changes_an_edited_page_ends_what_was_thought_under_it(deeds):
    told = Story({"type": "adaptive"})
    for _ in range(14):
        told.turn(thinks=False, calls=0, deed="")
    first = [event.seq for event in told.context.log.events() if event.kind == "message"][6]
    for deed in deeds:
        match deed:
            case "compact":
                assert told.context.compact("hide", target=100).batch
            case "pin":
                told.context.pin(first)
            case "unpin":
                told.context.pin(first, on=False)
        told.turn(thinks=True, calls=0, deed="")
    told.check(plain(told.context.request(thinking=told.thinking)))


@pytest.mark.parametrize("is_edited", [True, False])
def test_a_reply_that_is_mirrored_after_an_edit_was_thought_before_it(is_edited):
    told = Story({"type": "adaptive"})
    history = [{"role": "user", "content": f"{at}\n" + "line\n" * 50} for at in range(9)]
    told.context = refold.open("m", store="memory:", model=MODEL, system="S", tools=TOOLS)
    told.context.mirror(history)
    request = plain(told.context.request(thinking=told.thinking))
    told.made["sig"] = front(request, len(request["messages"]))
    head = told.context.view.head
    if is_edited:
        told.context.hide(told.said(0) + 2)
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    reply = {"role": "assistant", "content": [thought, {"type": "text", "text": "done"}]}
    told.context.mirror([*history, reply, {"role": "user", "content": "next"}], upto=head)
    request = plain(told.context.request(thinking=told.thinking))
    told.check(request)
    thinks = any(one["type"] == "thinking" for one in request["messages"][-2]["content"])
    assert thinks != is_edited
