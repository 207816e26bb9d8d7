"""A client that talks to the upstream in process, and repeats what it was told, as agents do."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any

from tests.real.proxy.strict.server import Upstream, answered
from tests.real.proxy.strict.settings import Settings
from tests.real.proxy.strict.wire import Json

MODEL = "claude-opus-5-5"
OLDER = "claude-opus-4-1"
HEADERS = {"x-api-key": "key", "anthropic-version": "2023-06-01"}


@dataclass
class Talk:
    """A conversation with the Messages API: `say` sends everything so far and one more message."""

    model: str = MODEL
    upstream: Upstream = field(default_factory=lambda: Upstream(Settings()))
    messages: list[Json] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=lambda: dict(HEADERS))
    beside: Json = field(default_factory=dict)

    def request(self, messages: list[Json] | None = None) -> Json:
        given = self.messages if messages is None else messages
        return {"model": self.model, "max_tokens": 4_096, "messages": given, **self.beside}

    def post(self, messages: list[Json] | None = None, path: str = "/v1/messages") -> Any:
        status, body = posted(self.upstream, path, self.request(messages), self.headers)
        return body if status == 200 else (status, body["error"])

    def say(self, content: Any, *answer: Any) -> Json:
        """What the upstream answers, which is kept for the next request."""
        self.upstream.script.add(*answer)
        self.messages.append({"role": "user", "content": content})
        reply = self.post()
        assert isinstance(reply, dict), reply
        self.messages.append({"role": "assistant", "content": reply["content"]})
        return reply

    def copy(self) -> list[Json]:
        return copy.deepcopy(self.messages)


def posted(upstream: Upstream, path: str, body: Json, headers: dict[str, str]) -> tuple[int, Any]:
    reply = answered(path, headers, json.dumps(body).encode(), upstream)
    return reply.status, json.loads(reply.pieces[0])


def thought(text: str) -> Json:
    return {"type": "thinking", "thinking": text}


def text(said: str) -> Json:
    return {"type": "text", "text": said}


def call(id: str, **input: Any) -> Json:
    return {"type": "tool_use", "id": id, "name": "read", "input": input}


def result(id: str, said: str = "fine") -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": said}


def worked(turns: int = 4, **chosen: Any) -> Talk:
    """A session that thinks and reads a file in every turn, and waits for the next request."""
    talk = Talk(**chosen)
    for turn in range(turns):
        talk.say(f"step {turn}", [thought(f"first {turn}"), call(f"c{turn}", path=f"{turn}.py")])
        said = [result(f"c{turn}", f"file {turn} " * 40)]
        talk.say(said, [thought(f"then {turn}"), text(f"done {turn}")])
    return talk
