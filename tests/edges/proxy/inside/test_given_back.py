"""However a client gives an answer back, what was said inside is sent again at every call: every
request begins with the messages of the one before it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.dialects import assemble
from refold.edges.endpoints.server_events import objects
from refold.edges.proxy.body import LISTS
from tests.edges.proxy.inside.test_seen import DIALECTS, response_of, streamed
from tests.edges.proxy.kit import Provider, Running, with_proxy

Json = dict[str, Any]
Said = list[tuple[str, str]]
PATHS = {
    "anthropic": "/anthropic/v1/messages",
    "gemini": "/gemini/v1beta/models/gemini-3-pro:generateContent",
    "openai_chat": "/openai/v1/chat/completions",
    "openai_responses": "/openai/v1/responses",
}
SCHEMA = {"type": "object", "properties": {"handle": {"type": "string"}}}
TOOLS: dict[str, list[Json]] = {
    "anthropic": [{"name": "read", "input_schema": SCHEMA}],
    "gemini": [{"functionDeclarations": [{"name": "read", "parameters": SCHEMA}]}],
    "openai_chat": [{"type": "function", "function": {"name": "read", "parameters": SCHEMA}}],
    "openai_responses": [{"type": "function", "name": "read", "parameters": SCHEMA}],
}


# --- a client ---


def words(dialect: str, text: str) -> Json:
    if dialect == "gemini":
        return {"role": "user", "parts": [{"text": text}]}
    return {"role": "user", "content": text}


def chunk_parts(raw: bytes) -> list[Json]:
    """The parts of a streamed content, each as it came."""
    said = [one["candidates"][0] for one in objects([raw]) if one.get("candidates")]
    return [part for one in said for part in one["content"]["parts"]]


def answer(dialect: str, response: Json) -> list[Json]:
    """An answer as most clients give it back."""
    if dialect == "anthropic":
        return [{"role": "assistant", "content": response["content"]}]
    if dialect == "gemini":
        return [response["candidates"][0]["content"]]
    if dialect == "openai_chat":
        message = response["choices"][0]["message"]
        names = ("role", "content", "tool_calls")
        return [{name: message[name] for name in names if name in message}]
    return list(response["output"])


def results(dialect: str, said: list[Json]) -> list[Json]:
    """What the client's tools give for the calls in an answer, all of them after it."""
    if dialect == "openai_responses":
        ids = [one["call_id"] for one in said if one["type"] == "function_call"]
        return [{"type": "function_call_output", "call_id": id, "output": f"o {id}"} for id in ids]
    if dialect == "openai_chat":
        ids = [one["id"] for message in said for one in message.get("tool_calls") or ()]
        return [{"role": "tool", "tool_call_id": id, "content": f"o {id}"} for id in ids]
    if dialect == "gemini":
        parts = [
            {"functionResponse": {"name": "read", "response": {"output": "x"}}}
            for content in said
            for part in content["parts"]
            if "functionCall" in part
        ]
        return [{"role": "user", "parts": parts}] if parts else []
    blocks = [
        {"type": "tool_result", "tool_use_id": one["id"], "content": "x"}
        for message in said
        for one in message["content"]
        if one["type"] == "tool_use"
    ]
    return [{"role": "user", "content": blocks}] if blocks else []


Way = Callable[[str, bytes, Json], list[Json]]


def as_it_came(dialect: str, raw: bytes, response: Json) -> list[Json]:
    return answer(dialect, response)


def by_chunks(dialect: str, raw: bytes, response: Json) -> list[Json]:
    """One part for each chunk; for others than Gemini, the one answer."""
    if dialect != "gemini" or not raw.startswith(b"data:"):
        return answer(dialect, response)
    return [{"role": "model", "parts": chunk_parts(raw)}]


def contents_by_chunks(dialect: str, raw: bytes, response: Json) -> list[Json]:
    if dialect != "gemini" or not raw.startswith(b"data:"):
        return answer(dialect, response)
    return [{"role": "model", "parts": [part]} for part in chunk_parts(raw)]


def texts_joined(dialect: str, raw: bytes, response: Json) -> list[Json]:
    """All texts as one before everything else, without spaces at its ends."""
    said = answer(dialect, response)
    key = {"anthropic": "content", "gemini": "parts"}.get(dialect)
    if key is None:
        return said
    [message] = said
    texts = [one for one in message[key] if "text" in one and not one.get("thought")]
    rest = [one for one in message[key] if one not in texts]
    if not texts:
        return said
    whole = {**texts[0], "text": "\n".join(one["text"] for one in texts).strip()}
    return [{**message, key: [whole, *rest]}]


def without_thoughts(dialect: str, raw: bytes, response: Json) -> list[Json]:
    said = answer(dialect, response)
    key = {"anthropic": "content", "gemini": "parts"}.get(dialect)
    if key is None:
        return said
    [message] = said
    kept = [one for one in message[key] if not (one.get("thought") or "thinking" in one)]
    return [{**message, key: kept}]


WAYS: list[Way] = [as_it_came, by_chunks, contents_by_chunks, texts_joined, without_thoughts]


# --- a conversation ---


class Talk:
    """A conversation of one client with a provider that says what it is told to."""

    def __init__(self, dialect: str, provider: Provider, way: Way, *, streams: bool) -> None:
        self.dialect, self.provider, self.way, self.streams = dialect, provider, way, streams
        self.messages = [words(dialect, "Find out why the login fails.")]
        self.number = 0

    def _play(self, rounds: list[Said]) -> None:
        for said in rounds:
            self.number += 1
            response = response_of(self.dialect, said, self.number)
            body = json.dumps(response).encode()
            kind = "application/json"
            if self.streams:
                body, kind = streamed(self.dialect, response), "text/event-stream"
            self.provider.answers.append((200, {"content-type": kind}, body))

    async def turn(self, running: Running, rounds: list[Said]) -> Json:
        """One call of the client, which the provider answers in so many rounds."""
        self._play(rounds)
        given = {LISTS[self.dialect]: self.messages, "tools": TOOLS[self.dialect]}
        path = PATHS[self.dialect]
        if self.dialect != "gemini":
            given |= {"model": "gpt-5", "stream": self.streams}
        elif self.streams:
            path = path.replace("generateContent", "streamGenerateContent?alt=sse")
        got = await running.client.post(path, json=given)
        await running.settled()
        assert not self.provider.answers and got.status_code == 200
        response: Json = assemble(objects([got.content])) if self.streams else got.json()
        said = self.way(self.dialect, got.content, response)
        self.messages = [*self.messages, *said]
        more = results(self.dialect, said)
        self.messages += more or [words(self.dialect, f"Go on, {self.number}.")]
        return response


def sent(provider: Provider, dialect: str) -> list[list[Json]]:
    return [json.loads(body)[LISTS[dialect]] for body in provider.bodies]


def talked(dialect: str, turns: list[list[Said]], way: Way, *, streams: bool) -> list[list[Json]]:
    """What the provider was sent in these turns, and in one more."""
    provider = Provider()
    talk = Talk(dialect, provider, way, streams=streams)

    async def work(running: Running) -> None:
        for rounds in [*turns, [[("text", "Done.")]]]:
            await talk.turn(running, rounds)

    with_proxy(work, tools=True, provider=provider)
    return sent(provider, dialect)


texts = st.sampled_from(["I look.", "a b", " So.\n", "é"])
spoken = st.lists(st.tuples(st.sampled_from(["text", "thought"]), texts), max_size=3)
calls = st.lists(st.tuples(st.just("call"), st.sampled_from(["x", "y"])), max_size=3)
owns = st.lists(st.tuples(st.just("own"), st.just("#1")), min_size=1, max_size=2)
inside = st.builds(lambda said, made: said + made, spoken, owns)
ends = st.builds(
    lambda said, made: [*said, *made] if made else [*said, ("text", "So.")], spoken, calls
)
turn = st.builds(lambda rounds, end: [*rounds, end], st.lists(inside, max_size=2), ends)


def own_calls(messages: list[Json]) -> int:
    return json.dumps(messages).count('"refold_unfold"')


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=12, deadline=None)
@given(st.lists(turn, min_size=1, max_size=3), st.sampled_from(WAYS), st.booleans())
def test_every_request_has_all_that_was_said_inside(
    dialect: str, turns: list[list[Said]], way: Way, streams: bool
) -> None:
    counts = list(map(own_calls, talked(dialect, turns, way, streams=streams)))
    said = sum(kind == "own" for rounds in turns for one in rounds for kind, _ in one)
    names = 2 if dialect == "gemini" else 1  # what a call gave has its name, too
    assert counts == sorted(counts) and counts[-1] == said * names


LOOKS: Said = [("text", "I look."), ("own", "#1")]
THINKS: Said = [("thought", "Hm."), ("own", "#1")]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("said", [LOOKS, THINKS])
def test_gemini_keeps_rounds_however_the_chunks_come_back(way: Way, said: Said) -> None:
    turns: list[list[Said]] = [[[("call", "x")]], [said, said, [("text", "So."), ("call", "y")]]]
    requests = talked("gemini", turns, way, streams=True)
    assert len(requests[-1]) == 9
