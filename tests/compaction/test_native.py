"""A compaction that the provider writes: an edit like any other, beside an upstream that signs and
refuses as the providers do."""

from __future__ import annotations

from typing import Any

import pytest

import refold
from refold.types import NativeRequest
from tests.real.proxy.strict.server import Upstream
from tests.real.proxy.strict.settings import Settings
from tests.real.proxy.strict.talks import HEADERS, call, posted, text, thought

Json = dict[str, Any]
WINDOW = 24_000
CLAUDE, GPT = "claude-opus-5-5", "gpt-5"
KEY = {**HEADERS, "authorization": "Bearer key"}
LADDER = ("native", "dedup", "gist", "hide")
SUMMARY = "The user wants the login mended; three files were read."


class Refused(Exception):
    """The upstream refused a call."""


class Session:
    """A tool loop with an upstream, and a caller that asks it for compactions."""

    def __init__(self, model: str = CLAUDE, **given: Any) -> None:
        self.upstream = Upstream(Settings(window=WINDOW))
        self.asked: list[NativeRequest] = []
        self.notices: list[refold.Notice] = []
        self.model = model
        self.ladder = given.pop("ladder", LADDER)
        given.setdefault("native", self.compacted)
        self.context = refold.open(
            "work", store="memory:", model=model, window=WINDOW, config={"ladder": self.ladder},
            **given,
        )  # fmt: skip
        self.context.on("*", self.notices.append)
        self.turns = 0

    def compacted(self, request: NativeRequest) -> Json:
        self.asked.append(request)
        if request.dialect == "anthropic":
            self.upstream.script.add(SUMMARY)
        path = "/v1/messages" if request.dialect == "anthropic" else "/v1/responses/compact"
        return self.post(path, request.call)

    def post(self, path: str, body: Json) -> Json:
        betas = ",".join(body.get("betas", []))
        headers = {**KEY, "anthropic-beta": betas}
        plain = {key: value for key, value in body.items() if key != "betas"}
        status, answer = posted(self.upstream, path, plain, headers)
        if status != 200:
            raise Refused(str(answer))
        return answer

    def send(self, said: Any) -> None:
        """One request, answered with this."""
        is_claude = self.model == CLAUDE
        dialect = "anthropic" if is_claude else "openai_responses"
        beside = {"thinking": {"type": "adaptive"}} if is_claude else {"store": False}
        request = self.context.request(dialect, **beside)
        self.upstream.script.add(said)
        answer = self.post("/v1/messages" if is_claude else "/v1/responses", request)
        self.context.record(answer)

    def work(self, turns: int, lines: int = 120) -> None:
        """A user's request and a tool loop that thinks before every call."""
        self.context.append({"role": "user", "content": "Mend the login. " * 3})
        for _ in range(turns):
            id = f"c{self.turns}"
            self.turns += 1
            self.send(says(self.model, id))
            self.context.append_result(id, f"{id}: a line of output\n" * lines)
        self.send(says(self.model, ""))

    @property
    def failures(self) -> list[str]:
        return [one.reason for one in self.notices if one.name == "compaction-failed"]


def says(model: str, id: str) -> list[Json]:
    """Thinking, and a call of this id or the last words."""
    if model == CLAUDE:
        rest = [call(id, path="a.py")] if id else [text("Done.")]
        return [thought(f"I look at {id}."), *rest]
    said = [{"type": "output_text", "text": "Done.", "annotations": []}]
    last: Json = {"type": "message", "role": "assistant", "content": said}
    if id:
        last = {"type": "function_call", "call_id": id, "name": "read", "arguments": "{}"}
    return [{"type": "reasoning", "summary": []}, last]


def blocks(request: Json) -> list[Json]:
    return [block for message in request["messages"] for block in message["content"]
            if isinstance(block, dict)]  # fmt: skip


@pytest.mark.parametrize("model", [CLAUDE, GPT])
def test_a_long_loop_is_compacted_by_the_provider_and_nothing_is_refused(model: str) -> None:
    session = Session(model)
    session.work(70)
    assert session.failures == [] and session.upstream.refusals == []
    assert len(session.asked) >= 2
    strategies = {batch.strategy for batch in session.context.log.batches()}
    assert strategies == {"native"}
