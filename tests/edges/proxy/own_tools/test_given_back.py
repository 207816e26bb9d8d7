"""However a client gives an answer back, what was said inside is sent again at every call: every
request begins with the messages of the one before it."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refold.dialects import assemble
from refold.edges.endpoints.client import objects
from refold.edges.proxy.body import LISTS
from refold.edges.proxy.own_tools import tools
from tests.edges.proxy.kit import Provider, Running, with_proxy
from tests.edges.proxy.own_tools.test_seen import DIALECTS, response_of, streamed

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
    if dialect == "openai_responses":
        return [one for one in said if one["type"] != "reasoning"]
    key = {"anthropic": "content", "gemini": "parts"}.get(dialect)
    if key is None:
        return said
    [message] = said
    kept = [one for one in message[key] if not (one.get("thought") or "thinking" in one)]
    return [{**message, key: kept}]


WAYS: list[Way] = [as_it_came, by_chunks, contents_by_chunks, texts_joined, without_thoughts]
# An answer in another form is written anew, and thinking is left out: the front breaks there.
FRONT_WAYS = [as_it_came, by_chunks, contents_by_chunks]


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
    """What the provider was sent in these turns, and in one more; all in one conversation."""
    provider = Provider()
    talk = Talk(dialect, provider, way, streams=streams)

    async def work(running: Running) -> None:
        for rounds in [*turns, [[("text", "Done.")]]]:
            await talk.turn(running, rounds)
        assert len(running.kept()) == 1

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
@example(
    [[[("text", "I look."), ("thought", "Hm."), ("own", "#1")], [("text", "So.")] * 2]],
    without_thoughts,
    False,
)
@example(
    [[[("thought", "Hm."), ("own", "#1")], [("thought", "Hm."), ("text", "So.")]]] * 2,
    without_thoughts,
    True,
)
def test_every_request_has_all_that_was_said_inside(
    dialect: str, turns: list[list[Said]], way: Way, streams: bool
) -> None:
    counts = list(map(own_calls, talked(dialect, turns, way, streams=streams)))
    said = sum(kind == "own" for rounds in turns for one in rounds for kind, _ in one)
    names = 2 if dialect == "gemini" else 1  # what a call gave has its name, too
    assert counts == sorted(counts) and counts[-1] == said * names


def assert_fronts_hold(requests: list[list[Json]]) -> None:
    for before, now in pairwise(requests):
        assert now[: len(before)] == before


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=12, deadline=None)
@given(st.lists(turn, min_size=1, max_size=3), st.sampled_from(FRONT_WAYS), st.booleans())
def test_every_request_begins_with_the_one_before_it(
    dialect: str, turns: list[list[Said]], way: Way, streams: bool
) -> None:
    assert_fronts_hold(talked(dialect, turns, way, streams=streams))


LOOKS: Said = [("text", "I look."), ("own", "#1")]
THINKS: Said = [("thought", "Hm."), ("own", "#1")]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("said", [LOOKS, THINKS])
def test_gemini_keeps_rounds_however_the_chunks_come_back(way: Way, said: Said) -> None:
    turns: list[list[Said]] = [[[("call", "x")]], [said, said, [("text", "So."), ("call", "y")]]]
    requests = talked("gemini", turns, way, streams=True)
    assert len(requests[-1]) == 9
    if way in FRONT_WAYS:
        assert_fronts_hold(requests)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_clients_older_messages_stand_as_they_came(dialect: str, streams: bool) -> None:
    """Parallel calls before their results, ids of items, a content that is null."""
    both: Said = [("call", "x"), ("call", "y")]
    turns: list[list[Said]] = [[both], [[("own", "#1"), ("own", "#2")], both], [both]]
    requests = talked(dialect, turns, as_it_came, streams=streams)
    assert_fronts_hold(requests)
    [_, first, *_] = requests
    if dialect == "openai_chat":
        assert first[1]["content"] is None or streams
    if dialect == "openai_responses":
        kinds = [one.get("type") for one in first[1:]]
        assert kinds == ["function_call"] * 2 + ["function_call_output"] * 2
        assert all("id" in one for one in first[1:3])


ROUNDS_MAX = 8
OWN: Said = [("own", "#1")]
NO_ANSWERS: list[list[Said]] = [[OWN] * (ROUNDS_MAX + 1), [LOOKS] * (ROUNDS_MAX + 1)]


@pytest.mark.parametrize("rounds", NO_ANSWERS)
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("way", FRONT_WAYS)
def test_an_answer_that_says_nothing_is_explained_and_keeps_its_rounds(
    dialect: str, streams: bool, rounds: list[Said], way: Way
) -> None:
    provider = Provider()
    talk = Talk(dialect, provider, way, streams=streams)
    before: list[Said] = [[("call", "x")]]
    done: list[Said] = [[("text", "Done.")]]

    async def work(running: Running) -> list[Json]:
        return [await talk.turn(running, one) for one in (before, rounds, done, done)]

    _, got, *_ = with_proxy(work, tools=True, provider=provider)
    assert tools.SILENT in json.dumps(got)
    requests = sent(provider, dialect)
    assert tools.SILENT not in json.dumps(requests)
    assert_fronts_hold(requests)


def blocks_of(messages: list[Json]) -> list[Any]:
    """What is said, in its order: a message of the user's may grow by what he says next."""
    said = (one.get("parts") or one.get("content") or one for one in messages)
    return [part for one in said for part in (one if isinstance(one, list) else [one])]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_empty_answer_after_rounds_is_explained_and_keeps_them(dialect: str) -> None:
    provider = Provider()
    talk = Talk(dialect, provider, as_it_came, streams=False)
    turns: list[list[Said]] = [[[("call", "x")]], [OWN, []], [[("text", "Done.")]]]

    async def work(running: Running) -> list[Json]:
        return [await talk.turn(running, one) for one in turns]

    _, got, *_ = with_proxy(work, tools=True, provider=provider)
    assert tools.SILENT in json.dumps(got)
    *_, before, last = map(blocks_of, sent(provider, dialect))
    assert last[: len(before)] == before and tools.SILENT not in json.dumps(last)
