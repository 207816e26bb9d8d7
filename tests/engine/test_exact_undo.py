"""Undo, redo, restore and fork give back the very request that was sent before.

Every dialect plays generated stories with every kind of thinking that it has. Models that do not
bind their thinking get back equal requests. Models that do may lose thinking, and only that of the
messages which the result names.
"""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.core.model import Thinking
from refold.stores import open_store

Wire = dict[str, Any]

# dialect, model, kind of thinking
CASES = [
    ("anthropic", "claude-sonnet-4-5", "signed"),
    ("anthropic", "claude-sonnet-4-5", "redacted"),
    ("anthropic", "claude-sonnet-4-5", "unsigned"),
    ("anthropic", "claude-sonnet-4-5", "none"),
    ("anthropic", "claude-opus-5-5", "signed"),
    ("anthropic", "claude-opus-5-5", "redacted"),
    ("openai_responses", "gpt-5", "encrypted"),
    ("openai_responses", "gpt-5", "stored"),
    ("openai_responses", "gpt-5", "none"),
    ("openai_chat", "deepseek-reasoner", "unsigned"),
    ("openai_chat", "gpt-4o", "none"),
    ("gemini", "gemini-2.5-pro", "signed"),
    ("gemini", "gemini-2.5-pro", "unsigned"),
    ("gemini", "gemini-2.5-pro", "none"),
]
RESULT = "\n".join(f"part {part}: {part * 37 % 991} kg" for part in range(40))


def reply(dialect: str, kind: str, number: int, *, calls: bool) -> Wire:
    """A reply in a provider's format, with thinking of one kind."""
    text, thought = f"Crate {number} weighs {number * 37} kg.", f"thought {number}"
    match dialect:
        case "anthropic":
            block = {
                "signed": {"type": "thinking", "thinking": "hm", "signature": thought},
                "redacted": {"type": "redacted_thinking", "data": thought},
                "unsigned": {"type": "thinking", "thinking": thought, "signature": ""},
            }.get(kind)
            call = {"type": "tool_use", "id": f"c{number}", "name": "weigh", "input": {}}
            said = call if calls else {"type": "text", "text": text}
            blocks = [block, said] if block else [said]
            return {
                "id": f"msg{number}",
                "type": "message",
                "role": "assistant",
                "content": blocks,
                "stop_reason": "tool_use" if calls else "end_turn",
                "usage": {"input_tokens": 900, "output_tokens": 20},
            }
        case "openai_responses":
            item = {"type": "reasoning", "id": f"rs{number}", "summary": []}
            if kind == "encrypted":
                item["encrypted_content"] = thought
            content = [{"type": "output_text", "text": text, "annotations": []}]
            answer = {
                "type": "message",
                "id": f"msg{number}",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
            call = {
                "type": "function_call",
                "id": f"fc{number}",
                "call_id": f"c{number}",
                "name": "weigh",
                "arguments": "{}",
            }
            said = call if calls else answer
            output = [said] if kind == "none" else [item, said]
            return {"id": f"resp{number}", "object": "response", "output": output}
        case "openai_chat":
            message: Wire = {"role": "assistant", "content": None if calls else text}
            if kind == "unsigned":
                message["reasoning_content"] = thought
            if calls:
                function = {"name": "weigh", "arguments": "{}"}
                message["tool_calls"] = [
                    {"id": f"c{number}", "type": "function", "function": function}
                ]
            finish = "tool_calls" if calls else "stop"
            choice = {"index": 0, "message": message, "finish_reason": finish}
            return {"id": f"chat{number}", "object": "chat.completion", "choices": [choice]}
        case _:
            part: Wire = {"text": text}
            if calls:
                part = {"functionCall": {"id": f"c{number}", "name": "weigh", "args": {}}}
            if kind == "signed":
                part["thoughtSignature"] = thought.encode().hex()
            parts = [part]
            if kind == "unsigned":
                parts.insert(0, {"text": thought, "thought": True})
            return {"candidates": [{"content": {"role": "model", "parts": parts}}]}


class Story:
    """A conversation with two writers on one store, and the requests it sends."""

    def __init__(self, dialect: str, model: str, kind: str) -> None:
        self.dialect, self.model, self.kind = dialect, model, kind
        self.store = open_store("memory:")
        self.context, self.other = self._opened("story"), self._opened("story")
        self.numbers = count(1)
        self.turn(self.context)

    def _opened(self, id: str) -> refold.Context:
        config = refold.Config(dialect=self.dialect, auto=False)
        return refold.Context(self.store, id, model=self.model, window=60_000, config=config)

    def request(self) -> Wire:
        request: Wire = self.context.request()
        assert refold.dialects.dialect(self.dialect).check(request) == []
        return request

    def turn(self, context: refold.Context, *, is_open: bool = False) -> None:
        """A request of the user, a call, its result and, unless the loop stays open, the answer."""
        number = next(self.numbers)
        context.append({"role": "user", "content": f"Weigh crate {number}"})
        context.request()
        context.record(reply(self.dialect, self.kind, number, calls=True))
        context.append_result(f"c{number}", RESULT)
        if not is_open:
            context.request()
            context.record(reply(self.dialect, self.kind, next(self.numbers), calls=False))

    def compact(self, context: refold.Context) -> bool:
        return bool(context.compact(target=300).batch)

    def check(self, before: Wire, refused: tuple[int, ...] = ()) -> None:
        """The request is the one from before, but for the thinking of these messages."""
        after = self.request()
        if not refused:
            assert after == before
            return
        assert self.model == "claude-opus-5-5"
        lost = thoughts(before) - thoughts(after)
        assert lost <= {
            block.signature or block.data
            for slot in self.context.view.slots
            if slot.seq in refused
            for block in slot.message.blocks
            if isinstance(block, Thinking)
        }

    # --- round trips ---

    def compact_and_undo(self) -> None:
        before = self.request()
        if self.compact(self.context):
            self.check(before, self.context.undo().refused_thinking)

    def compact_continue_undo_redo(self) -> None:
        if self.compact(self.context):
            self.turn(self.context)
            before = self.request()
            self.context.undo()
            self.check(before, self.context.redo().refused_thinking)

    def undo_and_redo(self) -> None:
        before = self.request()
        if self.context.undo():
            self.check(before, self.context.redo().refused_thinking)

    def continue_and_restore(self) -> None:
        before, head = self.request(), self.context.view.head
        self.turn(self.context, is_open=True)
        self.context.restore(head)
        self.check(before)

    def restore_to_the_head(self) -> None:
        before = self.request()
        self.context.restore(self.context.view.head)
        self.check(before)

    def restore_and_undo(self) -> None:
        before = self.request()
        self.context.restore(self.context.view.head // 2)
        self.check(before, self.context.undo().refused_thinking)

    def restore_continue_undo_redo(self) -> None:
        self.context.restore(self.context.view.head * 2 // 3)
        self.turn(self.context)
        before = self.request()
        self.context.undo()
        self.check(before, self.context.redo().refused_thinking)

    def fork(self) -> None:
        before = self.request()
        fork = self.context.fork(f"fork-{next(self.numbers)}")
        assert fork.request() == before
        fork.close()

    def other_writer_compacts(self) -> None:
        before = self.request()
        if self.compact(self.other):
            self.request()
            self.check(before, self.context.undo().refused_thinking)

    def other_writer_undoes(self) -> None:
        before = self.request()
        if self.compact(self.context):
            self.check(before, self.other.undo().refused_thinking)


def thoughts(request: Wire) -> set[str]:
    """The signatures in an Anthropic request."""
    blocks = [
        block
        for message in request["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    return {block.get("signature") or block.get("data") or "" for block in blocks} - {""}


TRIPS = [
    Story.compact_and_undo,
    Story.compact_continue_undo_redo,
    Story.undo_and_redo,
    Story.continue_and_restore,
    Story.restore_to_the_head,
    Story.restore_and_undo,
    Story.restore_continue_undo_redo,
    Story.fork,
    Story.other_writer_compacts,
    Story.other_writer_undoes,
]
STEPS = [
    *TRIPS,
    *[lambda story: story.turn(story.context)] * 3,
    lambda story: story.turn(story.context, is_open=True),
    lambda story: story.turn(story.other),
    lambda story: story.compact(story.context),
    lambda story: story.context.undo(),
]


@pytest.mark.parametrize("case", CASES, ids="-".join)
@settings(max_examples=12)
@given(steps=st.lists(st.sampled_from(STEPS), max_size=8))
def test_going_back_sends_what_was_sent_before(
    case: tuple[str, str, str], steps: list[Any]
) -> None:
    story = Story(*case)
    for step in steps:
        step(story)
    for trip in TRIPS:
        trip(story)


@pytest.mark.parametrize("case", [case for case in CASES if case[1] != "claude-opus-5-5"])
def test_no_thinking_is_lost_where_the_model_does_not_bind_it(case: tuple[str, str, str]) -> None:
    story = Story(*case)
    for _ in range(6):
        story.turn(story.context)
    before = json.dumps(story.request())
    story.compact(story.context)
    assert story.context.undo().refused_thinking == ()
    assert json.dumps(story.request()) == before


def test_thinking_that_a_model_refuses_is_named_by_the_undo() -> None:
    """Thinking from after the compaction was written under a page that the undo replaces."""
    story = Story("anthropic", "claude-opus-5-5", "signed")
    for _ in range(4):
        story.turn(story.context)
    story.compact(story.context)
    story.turn(story.context)
    refused = story.context.undo().refused_thinking
    newest = [slot.seq for slot in story.context.view.slots if slot.message.role == "assistant"]
    assert refused == tuple(newest[-2:])
