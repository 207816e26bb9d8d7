"""Anthropic's real client with the middleware, against a scripted server."""

from __future__ import annotations

import asyncio

import pytest
from anthropic import Anthropic, AsyncAnthropic, BadRequestError

import refold
from refold.dialects import dialect
from refold.edges.adapters.anthropic import RefoldMiddleware
from tests.real.guides import run_guide
from tests.servers import Play, serving

MODEL = "claude-sonnet-5-5"
TOOL = {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}


def answer(number: int, count: int) -> Play:
    """A call of a tool, or the end."""
    call = {
        "type": "tool_use",
        "id": f"t{number}",
        "name": "read",
        "input": {"path": f"file{number}.py"},
    }
    content = [{"type": "text", "text": "Done."}] if number == count else [call]
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": MODEL}
    message |= {"content": content, "stop_sequence": None}
    message |= {"stop_reason": "end_turn" if number == count else "tool_use"}
    message |= {"usage": {"input_tokens": 900, "output_tokens": 20}}
    return Play(message, content_type="application/json")


def results(response: object) -> list[dict[str, object]]:
    text = "a line that says something\n" * 300
    calls = [block for block in response.content if block.type == "tool_use"]
    return [{"type": "tool_result", "tool_use_id": one.id, "content": text} for one in calls]


def looped(create) -> list[dict[str, object]]:
    """A loop as people write it: the whole list at every call."""
    messages = [{"role": "user", "content": "Fix the login test"}]
    while True:
        response = create(
            model=MODEL, max_tokens=100, system="You fix tests.", tools=[TOOL], messages=messages
        )
        messages.append({"role": "assistant", "content": response.content})
        if response.stop_reason == "end_turn":
            return messages
        messages.append({"role": "user", "content": results(response)})


@pytest.mark.parametrize("is_async", [False, True])
def test_a_long_loop_is_folded_and_the_list_stays_whole(is_async, tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    middleware = RefoldMiddleware("fix", store=place, window=16_000)
    with serving(*[answer(number, 30) for number in range(31)]) as server:
        given = {"api_key": "none", "base_url": server.url, "middleware": [middleware]}
        if is_async:
            client = AsyncAnthropic(**given)
            with asyncio.Runner() as runner:
                messages = looped(lambda **call: runner.run(client.messages.create(**call)))
        else:
            messages = looped(Anthropic(**given).messages.create)
        sent = [body for _, _, body in server.seen]
    middleware.close()
    assert len(messages) == 62
    assert len(sent[-1]["messages"]) < 30
    assert all(body["system"] == "You fix tests." and body["tools"] == [TOOL] for body in sent)
    assert [dialect("anthropic").check(body) for body in sent] == [[]] * 31
    [about] = refold.conversations.list(place)
    assert about.names == ("anthropic/fix",)
    with refold.open(about.id, store=place, read_only=True) as context:
        assert context.search("file1.py")
        assert context.view.totals.input


def test_an_error_of_the_server_is_the_sdks_own():
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
    with serving(Play(error, 400, content_type="application/json")) as server:
        middleware = RefoldMiddleware(store="memory:")
        client = Anthropic(
            api_key="none", base_url=server.url, middleware=[middleware], max_retries=0
        )
        with pytest.raises(BadRequestError):
            looped(client.messages.create)


def test_the_guide_runs_as_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with serving(answer(0, 0)) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        run_guide("anthropic.md")
    assert "Done." in capsys.readouterr().out
