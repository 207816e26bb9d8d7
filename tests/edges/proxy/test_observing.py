"""Which conversation a call belongs to, what is kept of it, and what it says it could save."""

from __future__ import annotations

import json
from typing import Any

import pytest

import refold
from refold.edges.commands.proxy import with_forecast
from refold.edges.proxy.body import answered_upto, has_one_answer
from refold.edges.proxy.conversation_registry import ConversationRegistry
from refold.edges.proxy.observer import Observer
from refold.edges.proxy.savings import NOTE, Sum, sums
from refold.edges.proxy.upstream import Limits
from tests.edges.proxy.kit import (
    MODEL,
    TOOLS,
    Provider,
    Running,
    answer,
    call,
    loop,
    result,
    user,
    with_proxy,
)

TALK = [user("Fix the login."), answer("Where is it?"), user("In src/login.py.")]


def texts(view: Any) -> list[str]:
    return [getattr(block, "text", "") for slot in view.slots for block in slot.message.blocks]


# --- what is a conversation ---


@pytest.mark.parametrize(
    ("messages", "fields"),
    [
        ([user("quota")], {"max_tokens": 1, "tools": []}),
        ([user("Write a title for this session.")], {"tools": []}),
        ([user("Warmup")], {}),
        ([user("title"), answer("{")], {"tools": []}),
    ],
    ids=["probe", "title", "first words", "prefill"],
)
def test_a_list_without_an_answer_passes_unlogged(
    messages: list[Any], fields: dict[str, Any]
) -> None:
    async def work(running: Running) -> list[str]:
        await running.messages(messages, **fields)
        return running.kept()

    assert with_proxy(work) == []


def test_a_list_that_comes_back_with_an_answer_is_kept_whole() -> None:
    async def work(running: Running) -> tuple[list[str], Any]:
        await running.messages(TALK[:1])
        await running.messages(TALK)
        [id] = running.kept()
        return texts(running.view(id)), running.view(id)

    said, view = with_proxy(work)
    assert said == ["Fix the login.", "Where is it?", "In src/login.py."]
    assert view.model == MODEL and view.tools == TOOLS and view.tags == ("proxy",)


def test_the_bytes_of_the_client_go_upstream() -> None:
    async def work(running: Running) -> list[bytes]:
        bodies = [b'{ "model":"%s", "messages" : %s}' % (MODEL.encode(), json.dumps(TALK).encode())]
        for body in bodies:
            await running.client.post("/v1/messages", content=body)
        return bodies

    provider = Provider()
    assert with_proxy(work, provider=provider) == provider.bodies


def test_a_call_that_only_counts_or_has_state_elsewhere_is_not_kept() -> None:
    async def work(running: Running) -> list[str]:
        body = {"model": MODEL, "messages": TALK}
        await running.client.post("/v1/messages/count_tokens", json=body)
        await running.messages(TALK, thread={"type": "continue", "previous_message_id": "m"})
        chained = {"model": "gpt-5.5", "previous_response_id": "r", "input": TALK}
        await running.client.post("/v1/responses", json=chained)
        return running.kept()

    assert with_proxy(work) == []


# --- whose it is: the complaints of others' users ---


def test_sessions_that_share_a_system_prompt_and_first_words_do_not_collide() -> None:
    async def work(running: Running) -> list[list[str]]:
        for name in ("one", "two"):
            messages = [user("hi"), answer(f"I am {name}."), user("go on")]
            await running.messages(messages, system="You are Claude Code.")
        return sorted(texts(running.view(id)) for id in running.kept())

    assert with_proxy(work) == [["hi", "I am one.", "go on"], ["hi", "I am two.", "go on"]]


def test_two_conversations_under_one_session_header_stay_two() -> None:
    async def work(running: Running) -> int:
        headers = {"x-claude-code-session-id": "11112222-3333"}
        for turn in range(3):
            for name in ("main", "agent"):
                messages = [user(name)]
                for number in range(turn + 1):
                    messages += [answer(f"{name} {number}"), user(f"next {number}")]
                await running.messages(messages, headers=headers)
        assert len(running.kept()) == 2
        return sum(len(running.view(id).slots) for id in running.kept())

    assert with_proxy(work) == 14


def test_a_session_whose_id_changes_is_known_by_what_it_says() -> None:
    async def work(running: Running) -> list[str]:
        for turn in range(4):
            messages = loop(turn + 1, chars=40)
            await running.messages(messages, headers={"x-claude-code-session-id": f"{turn}"})
        return running.kept()

    assert len(with_proxy(work)) == 1


def test_a_reminder_added_to_the_history_does_not_rotate_the_session() -> None:
    async def work(running: Running) -> tuple[list[str], int]:
        first = {"role": "user", "content": [{"type": "text", "text": "Fix it."}]}
        await running.messages([first, answer("How?"), user("Well.")])
        reminder = "<system-reminder>The date changed.</system-reminder>"
        first["content"].append({"type": "text", "text": reminder})
        await running.messages([first, answer("How?"), user("Well."), answer("Yes"), user("ok")])
        return running.kept(), len(running.view(running.kept()[0]).slots)

    kept, slots = with_proxy(work)
    assert len(kept) == 1 and slots == 5


def test_cache_marks_that_move_change_nothing() -> None:
    def marked(text: str) -> Any:
        mark = {"cache_control": {"type": "ephemeral"}}
        return {"role": "user", "content": [{"type": "text", "text": text, **mark}]}

    async def work(running: Running) -> tuple[list[str], int]:
        await running.messages([marked("a"), answer("b"), marked("c")])
        await running.messages([user("a"), answer("b"), marked("c"), answer("d"), marked("e")])
        with refold.open(running.kept()[0], store=running.book.store, read_only=True) as context:
            return running.kept(), [event.kind for event in context.log.events()].count("message")

    kept, messages = with_proxy(work)
    assert len(kept) == 1 and messages == 5


def test_a_branch_is_a_fork_and_two_that_take_turns_rewrite_nothing() -> None:
    async def work(running: Running) -> tuple[int, int]:
        shared = loop(5, chars=40)
        for turn in range(4):
            for name in ("left", "right"):
                more = [answer(f"{name}"), user(f"{name} asks")]
                for number in range(turn):
                    more += [answer(f"{name} {number}"), user(f"{number}")]
                await running.messages(shared + more)
        heads = [one.head for one in running.book.store.conversations()]
        return len(heads), sum(heads)

    branches, events = with_proxy(work)
    assert branches == 2
    assert events < 100


def test_a_conversation_is_found_again_after_a_restart(tmp_path: Any) -> None:
    async def first(running: Running) -> list[str]:
        await running.messages(loop(3, chars=40))
        return running.kept()

    async def second(running: Running) -> list[str]:
        await running.messages(loop(4, chars=40))
        return running.kept()

    store = f"sqlite:{tmp_path}/x.db"
    assert with_proxy(first, store=store) == with_proxy(second, store=store)


@pytest.mark.parametrize("size", [1, 3])
def test_only_so_many_conversations_are_held_open(size: int) -> None:
    async def work(running: Running) -> tuple[int, int]:
        for _ in range(2):
            for number in range(6):
                await running.messages([user(f"{number}"), answer(f"a {number}"), user("b")])
        return len(running.kept()), len(running.book._held)

    assert with_proxy(work, limits=Limits(conversations=size)) == (6, size)


# --- the other providers ---

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Read it."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "text"},
]
ITEMS = [
    {"role": "user", "content": "Read it."},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
    {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "text"},
]
CONTENTS = [
    {"role": "user", "parts": [{"text": "Read it."}]},
    {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"a": 1}}}]},
]


@pytest.mark.parametrize(
    ("path", "body", "usage", "slots"),
    [
        (
            "/openai/v1/chat/completions",
            {"model": "gpt-5.5", "messages": CHAT},
            {"usage": {"prompt_tokens": 60, "completion_tokens": 2}},
            4,
        ),
        (
            "/openai/v1/responses",
            {"model": "gpt-5.5", "instructions": "Be brief.", "input": ITEMS, "store": False},
            {"usage": {"input_tokens": 60, "output_tokens": 2, "total_tokens": 62}},
            4,
        ),
        (
            "/gemini/v1beta/models/gemini-3-pro:generateContent",
            {"contents": CONTENTS, "systemInstruction": {"parts": [{"text": "Be brief."}]}},
            {"usageMetadata": {"promptTokenCount": 60, "candidatesTokenCount": 2}},
            3,
        ),
    ],
    ids=["chat", "responses", "gemini"],
)
def test_conversations_of_every_provider_are_kept_with_what_they_cost(
    path: str, body: dict[str, Any], usage: dict[str, Any], slots: int
) -> None:
    async def work(running: Running) -> Any:
        said = json.dumps(usage).encode()
        running.provider.answers.append((200, {"content-type": "application/json"}, said))
        await running.client.post(path, json=body)
        await running.settled()
        return running.view(running.kept()[0])

    view = with_proxy(work)
    assert len(view.slots) == slots and view.totals.input == 60


STREAMS = {
    "/anthropic/v1/messages": [
        {"type": "message_start", "message": {"model": MODEL, "usage": {"input_tokens": 10, "cache_read_input_tokens": 50, "output_tokens": 1}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 'a "usage" \n b'}},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 42}},
    ],
    "/openai/v1/chat/completions": [
        {"object": "chat.completion.chunk", "choices": [{"delta": {"content": "x"}}]},
        {"object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 60, "completion_tokens": 42}},
    ],
    "/openai/v1/responses": [
        {"type": "response.created", "response": {"usage": None}},
        {"type": "response.completed", "response": {"usage": {"input_tokens": 60, "output_tokens": 42, "total_tokens": 102}}},
    ],
    "/gemini/v1beta/models/gemini-3-pro:streamGenerateContent": [
        {"candidates": [], "usageMetadata": {"promptTokenCount": 60, "candidatesTokenCount": 1}},
        {"candidates": [], "usageMetadata": {"promptTokenCount": 60, "candidatesTokenCount": 42}},
    ],
}  # fmt: skip


@pytest.mark.parametrize("path", STREAMS)
def test_the_usage_of_a_stream_is_read_while_it_passes(path: str) -> None:
    stream = b"".join(
        b"event: x\ndata: " + json.dumps(one).encode() + b"\n\n" for one in STREAMS[path]
    )
    bodies = {"messages": CHAT[1:], "input": ITEMS, "contents": CONTENTS}
    bodies["messages"] = TALK if "anthropic" in path else CHAT

    async def work(running: Running) -> tuple[bytes, Any]:
        running.provider.answers.append((200, {"content-type": "text/event-stream"}, stream))
        answered = await running.client.post(path, json={"model": MODEL, **bodies})
        await running.settled()
        return answered.content, running.view(running.kept()[0]).totals

    relayed, totals = with_proxy(work)
    assert relayed == stream
    assert (totals.input, totals.output) == (60, 42)


# --- what it could save ---


def test_a_line_says_what_each_call_took_and_the_report_what_folding_would_have_saved() -> None:
    async def work(running: Running) -> tuple[list[dict[str, Any]], Sum]:
        for turns in (20, 40, 41, 42):
            await running.messages(loop(turns))
        store = running.book.store
        with refold.open(running.kept()[0], store=store, read_only=True) as context:
            lines = [note.data for note in context.log.notes(NOTE)]
        return lines, with_forecast(store, *sums(store))

    lines, report = with_proxy(work, window=20_000)
    assert len(lines) == 4
    for line in lines:
        assert line["input"] == line["sent"] and not line["folded"] and line["saved"] == 0
    assert 0 < report.saved < report.sent == sum(line["sent"] for line in lines)
    assert report.folded == 0 and report.saved_cost is not None


def test_observing_puts_no_edit_on_the_page() -> None:
    async def work(running: Running) -> Any:
        for turns in (40, 41):
            await running.messages(loop(turns, chars=4_000))
        return running.view(running.kept()[0])

    view = with_proxy(work, window=20_000)
    assert len(view.slots) == 83
    assert not any(slot.edits or slot.summary for slot in view.slots)


# --- nothing of refold's stops the agent ---


@pytest.mark.parametrize("place", ["find", "take", "mirror", "finish"])
def test_whatever_fails_in_refold_the_request_goes_upstream_as_it_came(
    place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("sk-ant-secret is in this text")

    where = {
        "find": ConversationRegistry,
        "take": Observer,
        "mirror": refold.Context,
        "finish": Observer,
    }
    monkeypatch.setattr(where[place], place, fail)

    async def work(running: Running) -> int:
        return (await running.messages(TALK)).status_code

    provider = Provider()
    assert with_proxy(work, provider=provider) == 200
    assert json.loads(provider.bodies[0])["messages"] == TALK
    assert "RuntimeError" in caplog.text and "secret" not in caplog.text


def test_a_log_that_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    late = threading.Event()
    monkeypatch.setattr(ConversationRegistry, "find", lambda *_: late.wait(60))

    async def work(running: Running) -> int:
        status = (await running.messages(TALK)).status_code
        late.set()
        return status

    assert with_proxy(work, limits=Limits(prepare_s=0.05)) == 200


def test_keys_of_clients_are_neither_stored_nor_logged(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)

    async def work(running: Running) -> None:
        headers = {"authorization": "Bearer sk-secret-1", "x-api-key": "sk-secret-2"}
        await running.messages(TALK, headers=headers)

    with_proxy(work, store=f"sqlite:{tmp_path}/x.db")
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"sk-secret" not in written and "sk-secret" not in caplog.text


@pytest.mark.parametrize(
    ("kinds", "upto", "one"),
    [
        ("", 0, True), ("u", 0, True), ("ua", 0, False), ("uau", 2, False), ("auu", 1, True),
        ("aau", 2, True), ("auau", 3, False), ("uauaa", 2, False), ("uu", 0, True),
    ],
)  # fmt: skip
def test_what_was_answered_is_told_from_what_was_not(kinds: str, upto: int, one: bool) -> None:
    messages = [answer("x") if kind == "a" else user("y") for kind in kinds]
    assert answered_upto(messages) == upto
    assert has_one_answer(messages) is one


def test_a_tool_loop_has_an_answer_in_every_dialect() -> None:
    for messages in (CHAT, ITEMS, CONTENTS, [user("a"), call(1), result(1, "b")]):
        assert answered_upto(messages) == len(messages) - 1


def test_a_person_who_watches_reads_the_line_of_a_call() -> None:
    from refold.core.model import Note
    from refold.edges.displays.phrases import _noted

    assert _noted(Note(kind=NOTE, data={"text": "in 5, sent 5"})) == f"{NOTE}: in 5, sent 5"
    assert _noted(Note(kind="other", data=[1])) == "other"


def test_an_answer_of_gemini_that_comes_back_in_chunks_is_one_message() -> None:
    """Google's SDK keeps each chunk of a stream as a content of its own."""
    path = "/gemini/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"
    contents: list[Any] = [{"role": "user", "parts": [{"text": "hi"}]}]
    chunks = [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "He"}]}}]},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "llo."}]},
                         "finishReason": "STOP"}]},
    ]  # fmt: skip
    said = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks)

    async def work(running: Running) -> Any:
        talk = list(contents)
        for _ in range(3):
            running.provider.answers.append((200, {"content-type": "text/event-stream"}, said))
            body = {"contents": talk, "tools": [{"functionDeclarations": [{"name": "read"}]}]}
            await running.client.post(path, json=body)
            await running.settled()
            talk = [*talk, *(one["candidates"][0]["content"] for one in chunks), *contents]
        [id] = running.kept()
        with refold.open(id, store=running.book.store, read_only=True) as context:
            kinds = {event.kind for event in context.log.events()}
        return texts(running.view(id)), kinds

    words, kinds = with_proxy(work)
    assert words == ["hi", "Hello."] * 3 and "revert" not in kinds
