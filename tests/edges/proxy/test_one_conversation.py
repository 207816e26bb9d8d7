"""One conversation of a client is one conversation in the list, however its calls come: streamed or
not, at once after the answer, asked again, left in the middle, or in other words."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from refold.edges.proxy.savings import sums
from refold.edges.proxy.upstream import Answer
from tests.edges.proxy.kit import MODEL, TOOLS, Message, Provider, Running, result, user, with_proxy
from tests.edges.proxy.test_replies import CASES, FIRST, JSON, STREAM, TEXT, events, said

RETRY = "x-stainless-retry-count"
SESSION = {"x-claude-code-session-id": "11112222-3333"}


class Turn(Struct, frozen=True, kw_only=True):
    """How one turn of a client goes: whether it is streamed, what becomes of its first tries, how
    its answer is repeated, and whether the next call comes at once."""

    streams: bool = False
    tries: tuple[str, ...] = ()
    words: str = "as it came"
    calls: bool = False
    at_once: bool = True
    restarts: bool = False


class Talking(Provider):
    """Never says the same twice; holds an answer back where the client is to leave."""

    def __init__(self) -> None:
        super().__init__()
        self.turn, self.said = Turn(), 0
        self.holds_at = ""  # where the next answer stays for good
        self.fails = False
        self.is_held = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        self.said += 1
        response = response_of(self.turn, self.said)
        is_stream = self.turn.streams
        body = events_of(response) if is_stream else json.dumps(response).encode()
        kind = b"text/event-stream" if is_stream else b"application/json"
        status = 529 if self.fails else 200
        await self._hold("nothing")
        headers = [(b"content-type", kind)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        half = len(body) // 2
        await send({"type": "http.response.body", "body": body[:half], "more_body": True})
        await self._hold("half")
        await send({"type": "http.response.body", "body": body[half:]})

    async def _hold(self, place: str) -> None:
        if self.holds_at == place:
            self.is_held.set()
            await asyncio.sleep(3600)


def response_of(turn: Turn, number: int) -> Message:
    content: list[Message] = [
        {"type": "thinking", "thinking": f"hm {number}", "signature": f"sig{number}"},
        {"type": "text", "text": f"I say {number}. "},
    ]
    if turn.calls:
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": {"a": 1}}
        content.append(use)
    return {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": MODEL,
        "content": content, "stop_reason": "tool_use" if turn.calls else "end_turn",
        "usage": {"input_tokens": 60, "output_tokens": 2},
    }  # fmt: skip


def events_of(response: Message) -> bytes:
    """The same as a stream."""
    events: list[Message] = [{"type": "message_start", "message": {**response, "content": []}}]
    for at, block in enumerate(response["content"]):
        begun, delta = block, None
        if block["type"] == "text":
            begun = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        if block["type"] == "tool_use":
            begun = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events.append({"type": "content_block_start", "index": at, "content_block": begun})
        if delta is not None:
            events.append({"type": "content_block_delta", "index": at, "delta": delta})
        events.append({"type": "content_block_stop", "index": at})
    stopped = {"stop_reason": response["stop_reason"]}
    events.append({"type": "message_delta", "delta": stopped, "usage": {"output_tokens": 2}})
    events.append({"type": "message_stop"})
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)


WORDS = {
    "as it came": lambda content: content,
    "with empty fields": lambda content: [
        {**one, "citations": None} if one["type"] == "text" else one for one in content
    ],
    "without thinking": lambda content: [one for one in content if one["type"] != "thinking"],
    "without space": lambda content: [
        {**one, "text": one["text"].strip()} if one["type"] == "text" else one for one in content
    ],
    "cut": lambda content: [
        {**one, "text": one["text"][:3]} if one["type"] == "text" else one for one in content
    ],
}


class Client:
    """Goes on with what it got, in its own words."""

    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers
        self.talk: list[Message] = [user("Find out why the login fails.")]

    async def go(self, running: Running, turn: Turn) -> None:
        provider: Any = running.provider
        provider.turn = turn
        for number, what in enumerate((*turn.tries, "")):
            retried = {RETRY: str(number)} if number else {}
            provider.holds_at = what if what in ("nothing", "half") else ""
            provider.fails = what == "failed"
            provider.is_held = asyncio.Event()
            calling = asyncio.ensure_future(self._post(running, retried, turn))
            if provider.holds_at:
                await provider.is_held.wait()
                calling.cancel()
                await asyncio.gather(calling, return_exceptions=True)
            else:
                await calling
        response = response_of(turn, provider.said)
        content = WORDS[turn.words](response["content"])
        self.talk = [*self.talk, {"role": "assistant", "content": content}]
        self.talk.append(result(provider.said, "ok") if turn.calls else user("Go on."))
        if not turn.at_once:
            await running.settled()

    async def _post(self, running: Running, retried: dict[str, str], turn: Turn) -> None:
        body = {"model": MODEL, "max_tokens": 9, "tools": TOOLS, "stream": turn.streams}
        body |= {"messages": self.talk}
        headers = {**self.headers, **retried}
        await running.client.post("/anthropic/v1/messages", json=body, headers=headers)


def list_of(running: Running) -> list[list[str]]:
    """The conversations in the list, each by what it says."""
    return [
        [
            getattr(block, "text", "").strip()
            for slot in running.view(id).slots
            for block in slot.message.blocks
            if getattr(block, "text", "") and not hasattr(block, "signature")
        ]
        for id in running.kept()
    ]


def texts(talk: list[Message]) -> list[str]:
    said = []
    for message in talk:
        content = message["content"]
        blocks = [{"text": content}] if isinstance(content, str) else content
        said += [block["text"].strip() for block in blocks if "text" in block]
    return said


def listed(turns: list[Turn], headers: dict[str, str], **given: Any) -> None:
    """Lets a client talk, through proxies one after the other, and looks at the list."""

    client = Client(headers)
    provider = Talking()
    parts: list[list[Turn]] = [[]]
    for turn in turns:
        parts[-1].append(turn)
        if turn.restarts:
            parts.append([])

    async def work(running: Running) -> None:
        for turn in parts[0]:
            await client.go(running, turn)
        await running.settled()

    async def look(running: Running) -> list[list[str]]:
        return list_of(running)

    with TemporaryDirectory() as folder:
        store = f"sqlite:{Path(folder) / 'x.db'}"
        while parts:
            with_proxy(work, store=store, provider=provider, **given)
            parts.pop(0)
        conversations = with_proxy(look, store=store)
    assert len(conversations) == 1
    said = texts(client.talk[:-1])
    [kept] = conversations
    assert kept[: len(said) - 1] == said[:-1]


tries = st.lists(st.sampled_from(["whole", "nothing", "half", "failed"]), max_size=2)
turns = st.builds(
    Turn,
    streams=st.booleans(),
    tries=tries.map(tuple),
    words=st.sampled_from(sorted(WORDS)),
    calls=st.booleans(),
    at_once=st.booleans(),
    restarts=st.booleans(),
)
PHASES = [Phase.explicit, Phase.generate]  # a schedule that fails says enough as it is
MODES: list[dict[str, Any]] = [{}, {"folds": True}, {"tools": True}]


@pytest.mark.parametrize("given_", MODES, ids=["observing", "folding", "tools"])
@settings(max_examples=25, deadline=None, phases=PHASES)
@given(schedule=st.lists(turns, min_size=2, max_size=5), has_session=st.booleans())
def test_a_conversation_is_one_in_the_list_whatever_calls_it_makes(
    given_: dict[str, Any], schedule: list[Turn], has_session: bool
) -> None:
    listed(schedule, SESSION if has_session else {}, **given_)


# --- named cases ---


def reworded(messages: list[Message]) -> list[Message]:
    """An answer as a client may repeat it: with a space less or more, and with empty fields."""
    text = json.dumps(messages).replace(TEXT, f"{TEXT}\\n")
    return [{**one, "note": None} if "parts" not in one else one for one in json.loads(text)]


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_first_answer_that_comes_back_in_other_words_begins_nothing_new(
    name: str, is_stream: bool, at_once: bool
) -> None:
    path, body, whole, stream, repeated = CASES[name]
    body = {"model": MODEL, "tools": TOOLS, **body}
    [key] = {"messages", "input", "contents"} & body.keys()
    answered = events(stream) if is_stream else json.dumps(whole).encode()

    async def work(running: Running) -> list[list[str]]:
        for more in ([], [*reworded(repeated), *body[key]]):
            running.provider.answers.append((200, STREAM if is_stream else JSON, answered))
            await running.client.post(path, json={**body, key: [*body[key], *more]})
            if not at_once:
                await running.settled()
        await running.settled()
        return list_of(running)

    assert with_proxy(work, folds=True) == [[FIRST["content"], TEXT, FIRST["content"]]]


class Waiting(Provider):
    """Answers nobody before so many have asked."""

    def __init__(self, parties: int) -> None:
        super().__init__()
        self.parties = asyncio.Barrier(parties)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.parties.wait()
        await super().__call__(scope, receive, send)


def begun(headers: dict[str, str], *, together: bool) -> list[list[str]]:
    """The list after two calls with the same first words, which are answered otherwise."""

    async def work(running: Running) -> list[list[str]]:
        running.provider.answers += [said("One."), said("Two.")]
        calls = [running.messages([user("hi")], headers=headers) for _ in range(2)]
        if together:
            await asyncio.gather(*calls)
        else:
            for call in calls:
                await call
        return sorted(list_of(running))

    return with_proxy(work, provider=Waiting(2 if together else 1))


def test_a_session_that_asks_the_same_again_once_it_is_answered_is_one() -> None:
    assert begun(SESSION, together=False) == [["hi", "Two."]]


def test_agents_of_one_session_that_ask_the_same_at_the_same_time_are_two() -> None:
    assert begun(SESSION, together=True) == [["hi", "One."], ["hi", "Two."]]


def test_programs_that_say_nothing_of_themselves_and_ask_the_same_are_two() -> None:
    assert begun({}, together=False) == [["hi", "One."], ["hi", "Two."]]


def test_a_call_is_billed_even_if_its_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that has read the whole answer may leave before the connection is closed."""

    async def work(running: Running) -> int:
        usage = {"input_tokens": 60, "output_tokens": 2}
        content = [{"type": "text", "text": "Yes."}]
        whole = {"type": "message", "role": "assistant", "stop_reason": "end_turn", "usage": usage}
        answered = json.dumps({**whole, "content": content}).encode()
        running.provider.answers += [(200, JSON, answered)] * 2
        talk = [user("hi"), {"role": "assistant", "content": content}, user("Go on.")]
        await running.messages(talk[:1])
        monkeypatch.setattr(Answer, "close", cut_off)
        await running.messages(talk)
        [line] = sums(running.book.store)
        return line.calls

    assert with_proxy(work) == 2


async def cut_off(answer: Answer) -> None:
    raise asyncio.CancelledError


def test_what_an_answer_that_came_late_was_billed_is_in_the_report() -> None:
    async def work(running: Running) -> int:
        talk = [user("hi"), {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]}]
        usage = {"input_tokens": 60, "output_tokens": 2}
        whole = {"type": "message", "stop_reason": "end_turn", "usage": usage, **talk[1]}
        running.provider.answers += [(200, JSON, json.dumps(whole).encode())] * 2
        body = {"model": MODEL, "tools": TOOLS}
        for messages in (talk[:1], [*talk, user("Go on.")]):
            await running.client.post("/v1/messages", json={**body, "messages": messages})
        await running.settled()
        [line] = sums(running.book.store)
        return line.calls

    assert with_proxy(work) == 2
