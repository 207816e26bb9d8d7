"""The same model and client over OpenAI's two APIs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

import httpx

from refold.dialects import assemble
from tests.real.proxy.agent import Agent
from tests.real.proxy.own_tools import HANDLE, OURS, Json
from tests.real.proxy.strict.script import Answer, Play

TEXT = "def function_{0}(): return {0}\n"
CHAT_TOOLS = [
    {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}},
]
ITEM_TOOLS = [{"type": "function", "name": "read", "parameters": {"type": "object"}}]


@dataclass
class ChatAgent(Agent):
    """Chat Completions, streamed with the usage."""

    path: ClassVar[str] = "/v1/chat/completions"
    headers: ClassVar[dict[str, str]] = {"authorization": "Bearer k"}
    model: str = "gpt-5.5"

    def request(self) -> Json:
        fields = {"model": self.model, "tools": CHAT_TOOLS, "messages": list(self.talk)}
        return {**fields, "stream": self.streams, "stream_options": {"include_usage": True}}

    def _content(self, response: httpx.Response) -> list[Json]:
        whole = _whole(response) if self.streams else response.json()
        message = whole["choices"][0]["message"]
        return [{key: value for key, value in message.items() if value is not None}]

    def calls(self, answer: list[Json]) -> list[tuple[str, str]]:
        [message] = answer
        return [(one["id"], one["function"]["name"]) for one in message.get("tool_calls", [])]

    def result(self, id: str, text: str) -> Json:
        return {"role": "tool", "tool_call_id": id, "content": text}


@dataclass
class ItemAgent(ChatAgent):
    """Responses, with nothing kept there."""

    path: ClassVar[str] = "/v1/responses"

    def request(self) -> Json:
        fields = {"model": self.model, "tools": ITEM_TOOLS, "store": False}
        include = ["reasoning.encrypted_content"]
        return {**fields, "include": include, "stream": self.streams, "input": list(self.talk)}

    def _content(self, response: httpx.Response) -> list[Json]:
        whole = _whole(response) if self.streams else response.json()
        return list(whole["output"])

    def calls(self, answer: list[Json]) -> list[tuple[str, str]]:
        return [(one["call_id"], one["name"]) for one in answer if one["type"] == "function_call"]

    def result(self, id: str, text: str) -> Json:
        return {"type": "function_call_output", "call_id": id, "output": text}


@dataclass
class PlainItemAgent(ItemAgent):
    """Repeats answers without their reasoning, and so without ids."""

    def _content(self, response: httpx.Response) -> list[Json]:
        said = [one for one in super()._content(response) if one["type"] != "reasoning"]
        return [{key: value for key, value in one.items() if key != "id"} for one in said]


CLIENTS = {"chat": ChatAgent, "items": ItemAgent, "items without reasoning": PlainItemAgent}


def _whole(response: httpx.Response) -> Json:
    lines = response.text.splitlines()
    return assemble([json.loads(one[5:]) for one in lines if one.startswith("data: {")])


@dataclass
class OpenAIModel:
    """Reads a file a turn, and looks something up every third time."""

    dialect: str
    count: int
    is_mixed: bool = False
    rounds: int = 1
    looked_up: list[str] = field(default_factory=list)

    def __call__(self, request: Json) -> Play:
        names = {(one.get("function") or one)["name"] for one in request["tools"]}
        assert names == {"read", *OURS}
        given = request["messages"] if self.dialect == "chat" else request["input"]
        ids = [one["tool_call_id" if self.dialect == "chat" else "call_id"] for one in given
               if one.get("role") == "tool" or one.get("type") == "function_call_output"]  # fmt: skip
        theirs = [id for id in ids if id.startswith("read_")]
        done = int(theirs[-1][5:]) + 1 if theirs else 0
        asked = sum(id.startswith(f"own_{done}_") for id in ids)
        if done == self.count:
            return Answer(self._said("Done.", []))
        read = (f"read_{done}", "read", {"path": f"f{done}.py"})
        if done % 3 or asked >= self.rounds or (self.is_mixed and f"own_{done}_0" in ids):
            return Answer(self._said("", [read]))
        handles = HANDLE.findall(json.dumps(given))
        wish = ("refold_unfold", {"handle": handles[-1]}) if handles else None
        name, arguments = wish or ("refold_search", {"query": "function_0"})
        self.looked_up.append(name)
        own = (f"own_{done}_{asked}", name, arguments)
        return Answer(self._said("I look that up.", [own, *([read] if self.is_mixed else [])]))

    def _said(self, text: str, calls: list[tuple[str, str, Json]]) -> Any:
        if self.dialect == "chat":
            made = [
                {
                    "id": id,
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(given)},
                }
                for id, name, given in calls
            ]
            message: Json = {"role": "assistant", "content": text or None}
            return message | ({"tool_calls": made} if made else {})
        items: list[Json] = [{"type": "reasoning", "summary": []}]
        if text:
            content = [{"type": "output_text", "text": text, "annotations": []}]
            items.append({"type": "message", "role": "assistant", "content": content})
        return items + [
            {"type": "function_call", "call_id": id, "name": name, "arguments": json.dumps(given)}
            for id, name, given in calls
        ]


def work_openai(agent: ChatAgent, model: OpenAIModel) -> None:
    agent.talk.append({"role": "user", "content": "Find out why the login fails."})
    for number in range(model.count + 1):
        answer = agent.ask()
        assert not any(name in json.dumps(answer) for name in OURS)
        calls = agent.calls(answer)
        assert calls == ([(f"read_{number}", "read")] if number < model.count else [])
        agent.talk += answer
        agent.talk += [agent.result(id, TEXT.format(number) * 200) for id, _ in calls]
