"""The memory tool in the tool runner of the Anthropic SDK: what the model asks for is done, and
what is refused goes back as an error."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anthropic
from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool

from refold.memory import MemoryFiles
from tests.real.sdks import wire
from tests.servers import Play, Server, serving

JSON = {"content_type": "application/json"}
CALLS: list[Any] = [
    {"command": "view", "path": "/memories"},
    {"command": "create", "path": "/memories/notes.md", "file_text": "port 5432\n"},
    {
        "command": "str_replace",
        "path": "/memories/notes.md",
        "old_str": "5432",
        "new_str": "$& 6432",
    },
    {"command": "insert", "path": "/memories/notes.md", "insert_line": 1, "insert_text": "more"},
    {"command": "rename", "old_path": "/memories/notes.md", "new_path": "/memories/a/b.md"},
    {"command": "view", "path": "/memories/../../etc/passwd"},
    {"command": "view", "path": "/memoriesfoo"},
    {"command": "format", "path": "/memories"},
    {"command": "create", "path": "/memories/x"},
    {"command": "delete", "path": "/memories"},
]


def plays() -> list[Play]:
    uses = [
        {"type": "tool_use", "id": f"t{n}", "name": "memory", "input": given}
        for n, given in enumerate(CALLS)
    ]
    asking = {**wire.anthropic(1), "content": uses, "stop_reason": "tool_use"}
    return [Play(asking, **JSON), Play(wire.anthropic(1), **JSON)]


def asked(tool: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "What do you know?"}]
    return {"model": "claude-sonnet-5-5", "max_tokens": 500, "messages": messages, "tools": [tool]}


def check(server: Server, place: Path) -> None:
    first, second = (body for _, _, body in server.seen)
    assert first["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    results = second["messages"][-1]["content"]
    assert [bool(one.get("is_error")) for one in results] == [False] * 5 + [True] * 5
    assert "0B\t/memories" in results[0]["content"]
    assert "would escape" in str(results[5]) and "file_text" in str(results[8])
    assert str(place) not in str(results)
    assert (place / "memories/a/b.md").read_text() == "port $& 6432\nmore\n"


def test_the_runner_takes_the_tool(tmp_path: Path) -> None:
    tool = MemoryFiles(folder=str(tmp_path)).sdk_tool()
    assert isinstance(tool, BetaAbstractMemoryTool)
    with serving(*plays()) as server:
        with anthropic.Anthropic(base_url=server.url, api_key="no-key", max_retries=0) as client:
            client.beta.messages.tool_runner(**asked(tool)).until_done()
        check(server, tmp_path)


def test_the_async_runner_takes_the_tool(tmp_path: Path) -> None:
    tool = MemoryFiles(folder=str(tmp_path)).sdk_tool(is_async=True)
    assert isinstance(tool, BetaAsyncAbstractMemoryTool)

    async def run(url: str) -> None:
        async with anthropic.AsyncAnthropic(
            base_url=url, api_key="no-key", max_retries=0
        ) as client:
            await client.beta.messages.tool_runner(**asked(tool)).until_done()

    with serving(*plays()) as server:
        asyncio.run(run(server.url))
        check(server, tmp_path)
