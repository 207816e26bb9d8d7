"""A scripted model that has refold's tools and uses them, and a client that must not notice."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from tests.real.proxy.agent import Agent, tool_loop, turns
from tests.real.proxy.strict.script import Answer, Play

Json = dict[str, Any]
HANDLE = re.compile(r"refold_unfold (#\d+(?:-\d+)?|art-[0-9a-z]+)")
OURS = ("refold_search", "refold_unfold", "refold_grep", "refold_artifacts")


@dataclass
class Model:
    """Goes through a tool loop, and looks something up now and then: every `often` turns, with so
    many calls at once, alone or beside the client's. `again` asks once more after each answer."""

    count: int
    often: int = 3
    at_once: int = 1
    is_mixed: bool = False
    rounds: int = 1
    chars: int = 3_000
    piece_s: float = 0.0
    looked_up: list[str] = field(default_factory=list)
    loop: list[Json] = field(init=False)

    def __post_init__(self) -> None:
        self.loop = tool_loop(self.count, self.chars)
        self._turns = list(turns(self.loop))

    def __call__(self, request: Json) -> Play:
        assert {one["name"] for one in request["tools"]} >= set(OURS)
        done = self._done(request)
        said = self._turns[done][1]
        asked = self._asked_since(request)
        if done % self.often or asked >= self.rounds or (self.is_mixed and asked):
            return Answer(said, piece_s=self.piece_s)
        calls = self._lookups(request, done, asked)
        head = [
            {"type": "thinking", "thinking": f"What was it? {done}.{asked}"},
            {"type": "text", "text": f"I look that up. {done}.{asked}"},
        ]
        mixed = [one for one in said if one["type"] == "tool_use"] if self.is_mixed else []
        return Answer([*head, *calls, *mixed], piece_s=self.piece_s)

    def _done(self, request: Json) -> int:
        """How many of the client's calls were answered."""
        found = [
            int(block["tool_use_id"][-4:])
            for message in request["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "tool_result" and block["tool_use_id"].startswith("toolu_")
        ]
        return found[-1] + 1 if found else 0

    def _asked_since(self, request: Json) -> int:
        """How often our tools were called since."""
        count = 0
        for message in request["messages"]:
            blocks = message["content"] if isinstance(message["content"], list) else []
            if any(one.get("tool_use_id", "").startswith("toolu_") for one in blocks):
                count = 0
            if any(one["type"] == "tool_use" and one["name"] in OURS for one in blocks):
                count += 1
        return count

    def _lookups(self, request: Json, done: int, asked: int) -> list[Json]:
        handles = HANDLE.findall(json.dumps(request["messages"]))
        calls: list[tuple[str, Json]] = [("refold_search", {"query": "function_1"})]
        if handles:
            calls = [("refold_unfold", {"handle": handles[-1]}), *calls]
        self.looked_up += [name for name, _ in calls[: self.at_once]]
        return [
            {"type": "tool_use", "id": f"own_{done}_{asked}_{number}", "name": name, "input": given}
            for number, (name, given) in enumerate(calls[: self.at_once])
        ]


def work(agent: Agent, model: Model) -> None:
    """The client's side of the loop; what it gets are its own calls, and no word of ours."""
    for said, answer in turns(model.loop):
        agent.talk += said
        content = agent.ask()
        assert not any(name in json.dumps(content) for name in OURS)
        calls = [one for one in content if one["type"] == "tool_use"]
        assert calls == [one for one in answer if one["type"] == "tool_use"]
        agent.talk.append({"role": "assistant", "content": content})


def results(request: Json) -> list[str]:
    """What our tools gave, as it stands in a request."""
    return [
        str(block["content"])
        for message in request["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result" and block["tool_use_id"].startswith("own_")
    ]
